//! The board: its serial port, clock, memories, and what happens at a fault.

use board_support::console::Console;
use board_support::report::Report;
use board_support::rings::Rings;
use board_support::semihosting;
use board_support::virtio::{Disk, DiskError, Mapped, Patience};
use core::arch::{asm, global_asm};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

global_asm!(include_str!("start.s"));

/// What reports need.
pub fn report() -> Report {
    // SAFETY: the board has one there.
    let console = unsafe { Console::pl011(0x0900_0000) };
    Report { console, ticks, frequency, now_ns }
}

/// The generic timer's count.
pub fn ticks() -> u64 {
    let count;
    // SAFETY: reads a register, in order.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
    count
}

/// The timer's counts a second.
pub fn frequency() -> u64 {
    let frequency;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
    frequency
}

/// A clock.
pub fn now_ns() -> u64 {
    (u128::from(ticks()) * 1_000_000_000 / u128::from(frequency().max(1))) as u64
}

/// The disk, in the first place that has one. A read may take `limit_ms` milliseconds.
pub fn disk(limit_ms: u64) -> Result<Disk<Mapped>, DiskError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    static mut RINGS: Rings = Rings::new();
    assert!(!TAKEN.swap(true, Ordering::Relaxed), "the disk is taken");
    let rings = &raw mut RINGS;
    // SAFETY: this is reached once.
    let rings = unsafe { &mut *rings };
    let patience = Patience { now_ns, limit_ns: limit_ms.saturating_mul(1_000_000) };
    // SAFETY: the board has 32 places for virtio devices there, which see all of its memory.
    let place = |index: usize| unsafe { Mapped::new(0x0a00_0000 + index * Mapped::BYTES) };
    let index = (0..32).find(|index| place(*index).is_disk()).unwrap_or(0);
    Disk::new(place(index), rings, patience)
}

/// Called by the vectors at what cannot be continued.
#[unsafe(no_mangle)]
extern "C" fn fault(esr: u64, elr: u64, far: u64, vector: u64) -> ! {
    let out = &mut report().console;
    let _ = writeln!(out, "fault: vector {vector}, ESR {esr:#x}, ELR {elr:#x}, FAR {far:#x}");
    semihosting::exit(3)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(report().console, "{info}");
    semihosting::exit(4)
}
