//! The board: its serial port, clock, memories, and what happens at a fault.

use board_support::console::Console;
use board_support::report::Report;
use board_support::semihosting;
use core::arch::{asm, global_asm};
use core::fmt::Write;

global_asm!(include_str!("start.s"));

/// What reports need.
pub fn report() -> Report {
    // SAFETY: the board has one there.
    let console = unsafe { Console::pl011(0x0900_0000) };
    Report { console, ticks, frequency, now_ns }
}

/// The generic timer's count.
fn ticks() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a register, in order.
    unsafe {
        asm!("isb", "mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nostack))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// The timer's counts a second.
fn frequency() -> u64 {
    let frequency: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) frequency, options(nomem, nostack)) };
    frequency.into()
}

/// A clock.
fn now_ns() -> u64 {
    (u128::from(ticks()) * 1_000_000_000 / u128::from(frequency().max(1))) as u64
}

/// Called by the vectors at what cannot be continued.
#[unsafe(no_mangle)]
extern "C" fn fault(dfsr: u32, lr: u32, dfar: u32, vector: u32) -> ! {
    let out = &mut report().console;
    let _ = writeln!(out, "fault: vector {vector}, DFSR {dfsr:#x}, LR {lr:#x}, DFAR {dfar:#x}");
    semihosting::exit(3)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(report().console, "{info}");
    semihosting::exit(4)
}
