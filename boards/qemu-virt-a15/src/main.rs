//! Runs a pack without an operating system, on QEMU's board `virt` with a Cortex-A15: 32 bits,
//! plain Rust.
//!
//! The words of its command line say what it does:
//!
//! ```text
//! image flash DIGEST    a pack in memory
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
static ARENA: Arena<{ 1 << 20 }> = Arena::new();

/// Called by the startup.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let mut room = [0; 256];
    let mut words = semihosting::command_line(&mut room).split_ascii_whitespace().skip(1);
    let [mode, expected] = core::array::from_fn(|_| words.next().unwrap_or(""));
    let report = &mut machine::report();
    if mode != "flash" {
        let _ = writeln!(report.console, "usage: image flash DIGEST");
        semihosting::exit(2)
    }
    let found = flash(report);
    let memory = [link::stack_bytes(), link::data_bytes() - size_of_val(&ARENA)];
    semihosting::exit(report.status(found, expected, memory, None))
}

/// A pack that is memory.
fn flash(report: &mut Report) -> Result<Findings, Failed> {
    let Some(mut memory) = ARENA.take() else { return Err(Failed) };
    report.pack(&mut Slice(link::flash()), memory.as_mut_slice(), &Inline, || {})
}
