//! The board: its serial port, clock, memories, and what happens at a fault.

use board_support::console::Console;
use board_support::report::Report;
use board_support::semihosting;
use core::arch::global_asm;
use core::fmt::Write;

global_asm!(include_str!("start.s"));

/// What reports need. Starts serial port and counter.
pub fn report() -> Report {
    // SAFETY: the board has a serial port and a counter there, for secure code, which this is.
    let console = unsafe {
        (COUNTER as *mut u32).write_volatile(1);
        Console::cmsdk(0x5930_3000)
    };
    Report { console, ticks, frequency, now_ns }
}

/// The system counter's registers.
const COUNTER: usize = 0x5810_0000;

/// The system counter, which [`report`] has started.
fn ticks() -> u64 {
    // SAFETY: registers of the counter, which can be read at any time.
    let half = |offset: usize| unsafe { ((COUNTER + offset) as *const u32).read_volatile() };
    loop {
        let (high, low) = (half(0xc), half(0x8));
        if half(0xc) == high {
            return u64::from(high) << 32 | u64::from(low);
        }
    }
}

/// The counter's counts a second: the board's main clock.
fn frequency() -> u64 {
    eyelet::board::CLOCK_HZ
}

/// A clock.
fn now_ns() -> u64 {
    (u128::from(ticks()) * 1_000_000_000 / u128::from(frequency().max(1))) as u64
}

/// Called by the vectors at what cannot be continued.
#[unsafe(no_mangle)]
extern "C" fn fault(number: u32, cfsr: u32, pc: u32) -> ! {
    let out = &mut report().console;
    let _ = writeln!(out, "fault: exception {number}, CFSR {cfsr:#x}, PC {pc:#x}");
    semihosting::exit(3)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(report().console, "{info}");
    semihosting::exit(4)
}
