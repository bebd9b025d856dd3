//! Runs the pack that it is built with, without an operating system, on a Cortex-M55 of ARM's MPS3
//! board (AN547). Weights are used in flash; scratch and the hottest buffers lie in tightly coupled
//! memory.
//!
//! The words of its command line say what it does:
//!
//! ```text
//! image flash DIGEST BYTES    arena, fast memory, stack and data may use so many bytes
//! ```
//!
//! It prints what it found, and exits with status 0 where the digest of the outputs is the one that
//! was given, which is what `eyelet run` prints on the host.
#![no_std]
#![no_main]

mod machine;

use board_support::link;
use board_support::pack::{arena_bytes, fast_bytes};
use board_support::report::{Failed, Findings, Report};
use board_support::semihosting;
use core::fmt::Write;
use eyelet::arena::Regions;
use eyelet::board;
use eyelet::device::Inline;
use eyelet::storage::Slice;

board_support::pack!();
#[cfg(packed)]
eyelet::board_check!(PACK.0);

/// Bytes of the arena, in SRAM: what the pack needs.
const ARENA_BYTES: usize = arena_bytes(&PACK.0, board::ARENA_BYTES);

/// Bytes of tightly coupled memory that the pack needs next to it.
const FAST_BYTES: usize = fast_bytes(&PACK.0, ARENA_BYTES, board::FAST_BYTES);

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
    let mut memory = eyelet::take_arena!(ARENA_BYTES).expect("this is reached once");
    let mut fast = eyelet::take_fast!(FAST_BYTES).expect("this is reached once");
    let regions = Regions { arena: memory.as_mut_slice(), fast: fast.as_mut_slice() };
    let found = flash(report, regions);
    let used = [link::stack_bytes(1), link::data_bytes() - ARENA_BYTES];
    semihosting::exit(report.status(found, expected, used, Some(limit)))
}

/// The pack of the image.
fn flash(report: &mut Report, memory: Regions<'_>) -> Result<Findings, Failed> {
    report.pack(&mut Slice(&PACK.0), memory, &Inline, || {})
}
