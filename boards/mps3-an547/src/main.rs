//! Runs a pack without an operating system, on a Cortex-M55 of ARM's MPS3 board (AN547), in 128 KiB
//! of memory.
//!
//! The words of its command line say what it does:
//!
//! ```text
//! image flash DIGEST BYTES    a pack in memory; it, its stack and its data may use so many bytes
//! ```
//!
//! It prints what it found, and exits with status 0 where the digest of the outputs is the one that
//! was given, which is what `eyelet run` prints on the host.
#![no_std]
#![no_main]

mod machine;

use board_support::link;
use board_support::report::{Failed, Findings, Report};
use board_support::semihosting;
use core::fmt::Write;
use eyelet::arena::Arena;
use eyelet::device::Inline;
use eyelet::storage::Slice;

/// All the memory that networks use.
static ARENA: Arena<{ 96 << 10 }> = Arena::new();

/// Called by the startup.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let mut room = [0; 256];
    let mut words = semihosting::command_line(&mut room).split_ascii_whitespace().skip(1);
    let [mode, expected, limit] = core::array::from_fn(|_| words.next().unwrap_or(""));
    let report = &mut machine::report();
    let (Ok(limit), "flash") = (limit.parse(), mode) else {
        let _ = writeln!(report.console, "usage: image flash DIGEST BYTES");
        semihosting::exit(2)
    };
    let found = flash(report);
    let memory = [link::stack_bytes(), link::data_bytes() - size_of_val(&ARENA)];
    semihosting::exit(report.status(found, expected, memory, Some(limit)))
}

/// A pack that is memory.
fn flash(report: &mut Report) -> Result<Findings, Failed> {
    let Some(mut memory) = ARENA.take() else { return Err(Failed) };
    report.pack(&mut Slice(link::flash()), memory.as_mut_slice(), &Inline, || {})
}
