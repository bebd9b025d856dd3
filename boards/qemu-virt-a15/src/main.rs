//! Runs the pack that it is built with, without an operating system, on QEMU's board `virt` with a Cortex-A15: 32 bits,
//! plain Rust.
//!
//! The words of its command line say what it does:
//!
//! ```text
//! image flash DIGEST    the pack of the image
//! ```
//!
//! It prints what it found, and exits with status 0 where the digest of the outputs is the one that
//! was given, which is what `eyelet run` prints on the host.
#![no_std]
#![no_main]

mod machine;

use board_support::link;
use board_support::pack::arena_bytes;
use board_support::report::{Failed, Findings, Report};
use board_support::semihosting;
use core::fmt::Write;
use eyelet::board;
use eyelet::device::Inline;
use eyelet::storage::Slice;

board_support::pack!();
#[cfg(packed)]
eyelet::board_check!(PACK.0);

/// Bytes of all the memory that networks use: what the pack needs.
const ARENA_BYTES: usize = arena_bytes(&PACK.0, board::ARENA_BYTES);

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
    let mut memory = eyelet::take_arena!(ARENA_BYTES).expect("this is reached once");
    let memory = memory.as_mut_slice();
    let found = flash(report, memory);
    let used = [link::stack_bytes(1), link::data_bytes() - ARENA_BYTES];
    semihosting::exit(report.status(found, expected, used, None))
}

/// The pack of the image.
fn flash(report: &mut Report, memory: &mut [u8]) -> Result<Findings, Failed> {
    report.pack(&mut Slice(&PACK.0), memory.into(), &Inline, || {})
}
