//! A watchdog made of the timer's interrupt, which also comes while a step computes.
//!
//! Boards have a device for this. What matters is the same: somebody kicks it between two steps,
//! and a step is never longer than its limit.

use crate::machine;
use board_support::semihosting;
use core::arch::asm;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering};

/// Interrupts a second.
const RATE: u64 = 1000;

/// The virtual timer's interrupt.
const TIMER: u32 = 27;

/// What the image ends with when nobody has kicked.
pub const STATUS: u8 = 5;

// The interrupt controller, a GICv2: what is distributed, and what this core gets.
const DISTRIBUTOR: usize = 0x0800_0000;
const ENABLE: usize = DISTRIBUTOR + 0x100;
const CORE: usize = 0x0801_0000;
const PRIORITIES: usize = CORE + 0x04;
const ACKNOWLEDGE: usize = CORE + 0x0c;
const END: usize = CORE + 0x10;

/// Interrupts until somebody must have kicked.
static LEFT: AtomicU32 = AtomicU32::new(0);
/// What a kick sets that to.
static LIMIT: AtomicU32 = AtomicU32::new(0);
/// Interrupts so far.
static COUNT: AtomicU32 = AtomicU32::new(0);

fn write(register: usize, value: u32) {
    // SAFETY: one of the interrupt controller's registers, above. Nothing else uses them.
    unsafe { (register as *mut u32).write_volatile(value) }
}

/// Has the timer interrupt once in a while from now on.
fn arm() {
    let ticks = machine::frequency() / RATE;
    // SAFETY: registers of the virtual timer, which nothing else uses.
    unsafe {
        asm!("msr cntv_tval_el0, {}", in(reg) ticks, options(nostack));
        asm!("msr cntv_ctl_el0, {}", in(reg) 1u64, options(nostack));
    }
}

/// Starts the watchdog: from now on it must be kicked every `limit_ms` milliseconds.
pub fn start(limit_ms: u32) {
    LIMIT.store((u64::from(limit_ms) * RATE / 1000) as u32, Ordering::Relaxed);
    kick();
    write(DISTRIBUTOR, 1);
    write(ENABLE, 1 << TIMER);
    write(PRIORITIES, 0xff);
    write(CORE, 1);
    arm();
    // SAFETY: interrupts have a handler, which saves all that it changes.
    unsafe { asm!("msr daifclr, #2", options(nostack)) };
}

/// Puts off the end.
pub fn kick() {
    LEFT.store(LIMIT.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Interrupts so far.
pub fn interrupts() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// Called by the vector of interrupts, with all registers saved that a function may change.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    // SAFETY: a register of the interrupt controller; what is read here is ended below.
    let number = unsafe { (ACKNOWLEDGE as *const u32).read_volatile() };
    if number == TIMER {
        arm();
        COUNT.fetch_add(1, Ordering::Relaxed);
        if LEFT.fetch_sub(1, Ordering::Relaxed) <= 1 {
            let limit = u64::from(LIMIT.load(Ordering::Relaxed)) * 1000 / RATE;
            let out = &mut machine::report().console;
            let _ = writeln!(out, "watchdog: not kicked for {limit} ms");
            semihosting::exit(STATUS);
        }
    }
    write(END, number);
}
