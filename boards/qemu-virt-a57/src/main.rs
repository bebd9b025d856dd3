//! Runs a pack without an operating system, on QEMU's board `virt` with Cortex-A57 cores.
//!
//! The words of its command line say what it does:
//!
//! ```text
//! image flash DIGEST          the pack of the image, in flash
//! image cores DIGEST          the same on four cores
//! image starved DIGEST        the same on one, and nobody kicks the watchdog
//! image disk DIGEST [MS]      a pack on a virtio disk, read while steps compute; at most MS a read
//! image set DIGEST FLASH [MS] the pack of the image and one on a virtio disk, by their deadlines;
//!                             FLASH is the digest of the former
//! ```
//!
//! It prints what it found, and exits with status 0 where the digest of the outputs is the one that
//! was given, which is what `eyelet run` prints on the host.
#![no_std]
#![no_main]

mod cores;
mod machine;
mod set;
mod watchdog;

use board_support::link;
use board_support::pack::arena_bytes;
use board_support::report::{Failed, Findings, Report};
use board_support::semihosting;
use board_support::virtio::Times;
use core::fmt::Write;
use cores::CORES;
use eyelet::board;
use eyelet::device::{Device, Inline};
use eyelet::storage::Slice;

board_support::pack!();
#[cfg(packed)]
eyelet::board_check!(PACK.0);

/// Bytes of memory that the pack of the image needs, or all that the board gives networks where it has none.
const PACK_BYTES: usize = arena_bytes(&PACK.0, board::ARENA_BYTES);

/// Bytes of memory for another network besides: `EYELET_SHARED` says how many.
const SHARED_BYTES: usize = match option_env!("EYELET_SHARED") {
    None => 0,
    Some(bytes) => match usize::from_str_radix(bytes, 10) {
        Ok(bytes) => bytes,
        Err(_) => panic!("EYELET_SHARED is no number of bytes"),
    },
};

/// Bytes of all the memory that networks use.
const ARENA_BYTES: usize = PACK_BYTES + SHARED_BYTES;
const _: () = assert!(
    ARENA_BYTES <= board::ARENA_BYTES,
    "the networks need more memory than the board gives them"
);

/// Inferences in which reads and steps are to overlap: what one begins the next one uses.
const OVERLAPPED: usize = 2;

/// Milliseconds between two kicks of the watchdog: steps are short, but the emulator may be slow.
const KICKED_MS: u32 = 60_000;

/// The same for an image that does not kick it.
const STARVED_MS: u32 = 5;

/// Called by the startup.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let mut room = [0; 256];
    let mut words = semihosting::command_line(&mut room).split_ascii_whitespace().skip(1);
    let (mode, expected) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let of_flash = if mode == "set" { words.next().unwrap_or("") } else { "" };
    let limit_ms = words.next().and_then(|word| word.parse().ok()).unwrap_or(10_000);
    let report = &mut machine::report();
    watchdog::start(KICKED_MS);
    let mut memory = eyelet::take_arena!(ARENA_BYTES).expect("this is reached once");
    let memory = memory.as_mut_slice();
    let found = match mode {
        "flash" => flash(report, memory, &Inline, watchdog::kick),
        "starved" => starved(report, memory),
        "cores" => {
            cores::start(report).and_then(|()| flash(report, memory, &CORES, watchdog::kick))
        }
        "disk" => disk(report, memory, limit_ms),
        "set" if SHARED_BYTES != 0 => {
            let pack: (&'static [u8], usize) = (&PACK.0, PACK_BYTES);
            set::run(report, memory, pack, [of_flash, expected], limit_ms)
        }
        _ => {
            let _ = writeln!(
                report.console,
                "usage: image flash|cores|starved|disk|set DIGEST [FLASH] [MS]"
            );
            semihosting::exit(2)
        }
    };
    let interrupts = watchdog::interrupts();
    let _ = writeln!(report.console, "interrupts   {interrupts} of the timer");
    let used = [link::stack_bytes(board::CORES), link::data_bytes() - ARENA_BYTES];
    semihosting::exit(report.status(found, expected, used, None))
}

/// The pack of the image.
fn flash(
    report: &mut Report,
    memory: &mut [u8],
    device: &impl Device,
    between: impl FnMut(),
) -> Result<Findings, Failed> {
    report.pack(&mut Slice(&PACK.0), memory.into(), device, between)
}

/// The same again and again, until the watchdog ends it.
fn starved(report: &mut Report, memory: &mut [u8]) -> Result<Findings, Failed> {
    let storage = &mut Slice(&PACK.0);
    report.opened(storage, memory.into(), 1, |report, instance, storage| {
        let mut model = instance.inline(storage);
        watchdog::start(STARVED_MS);
        loop {
            report.infer(&mut model, &Inline, "starved", || {})?;
        }
    })
}

/// A pack on the disk, reads of which go on while steps compute.
fn disk(report: &mut Report, memory: &mut [u8], limit_ms: u64) -> Result<Findings, Failed> {
    let mut disk = machine::disk(limit_ms).map_err(|error| report.failed(error))?;
    report.opened(&mut disk, memory.into(), 1, |report, instance, disk| {
        disk.times();
        let start = machine::ticks();
        let (digest, computing) = instance.overlapped(disk, |model| {
            let (mut digests, mut computing) = ([0; OVERLAPPED], 0);
            for digest in &mut digests {
                let (found, ticks) = report.infer(model, &Inline, "overlapped", watchdog::kick)?;
                *digest = found;
                computing += ticks;
            }
            match digests.iter().all(|digest| *digest == digests[0]) {
                true => Ok((digests[0], computing)),
                false => Err(report.failed(format_args!("digests {digests:x?} of one network"))),
            }
        })?;
        let elapsed = machine::ticks() - start;
        let Times { reads, unattended, busy_ns, .. } = disk.times();
        let reading = report.ticks_of(busy_ns);
        let out = &mut report.console;
        let _ = writeln!(out, "reads        {reads}, of which {unattended} were done unattended");
        let _ =
            writeln!(out, "in all       {elapsed} ticks: {computing} computing, {reading} reading");
        // Otherwise nothing has gone on while something else did.
        if unattended == 0 || computing + reading <= elapsed {
            return Err(report.failed("reads and steps did not overlap"));
        }
        Ok(digest)
    })
}
