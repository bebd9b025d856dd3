//! Runs a pack without an operating system, on QEMU's board `virt` with Cortex-A57 cores.
//!
//! The words of its command line say what it does:
//!
//! ```text
//! image flash DIGEST          a pack in memory
//! image cores DIGEST          a pack in memory, on four cores
//! image starved DIGEST        a pack in memory, and nobody kicks the watchdog
//! image disk DIGEST [MS]      a pack on a virtio disk, read while steps compute; at most MS a read
//! ```
//!
//! It prints what it found, and exits with status 0 where the digest of the outputs is the one that
//! was given, which is what `eyelet run` prints on the host.
#![no_std]
#![no_main]

mod cores;
mod machine;
mod watchdog;

use board_support::link;
use board_support::report::{Failed, Findings, Report};
use board_support::semihosting;
use board_support::virtio::Times;
use core::fmt::Write;
use cores::CORES;
use eyelet::arena::Arena;
use eyelet::device::{Device, Inline};
use eyelet::storage::Slice;

/// All the memory that networks use.
static ARENA: Arena<{ 2 << 20 }> = Arena::new();

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
    let limit_ms = words.next().and_then(|word| word.parse().ok()).unwrap_or(10_000);
    let report = &mut machine::report();
    watchdog::start(KICKED_MS);
    let found = match mode {
        "flash" => flash(report, &Inline, watchdog::kick),
        "starved" => starved(report),
        "cores" => cores::start(report).and_then(|()| flash(report, &CORES, watchdog::kick)),
        "disk" => disk(report, limit_ms),
        _ => {
            let _ = writeln!(report.console, "usage: image flash|cores|starved|disk DIGEST [MS]");
            semihosting::exit(2)
        }
    };
    let interrupts = watchdog::interrupts();
    let _ = writeln!(report.console, "interrupts   {interrupts} of the timer");
    let memory = [link::stack_bytes(), link::data_bytes() - size_of_val(&ARENA)];
    semihosting::exit(report.status(found, expected, memory, None))
}

/// A pack that is memory.
fn flash(
    report: &mut Report,
    device: &impl Device,
    between: impl FnMut(),
) -> Result<Findings, Failed> {
    let Some(mut memory) = ARENA.take() else { return Err(Failed) };
    report.pack(&mut Slice(link::flash()), memory.as_mut_slice(), device, between)
}

/// The same again and again, until the watchdog ends it.
fn starved(report: &mut Report) -> Result<Findings, Failed> {
    let Some(mut memory) = ARENA.take() else { return Err(Failed) };
    let storage = &mut Slice(link::flash());
    report.opened(storage, memory.as_mut_slice(), 1, |report, instance, storage| {
        let mut model = instance.inline(storage);
        watchdog::start(STARVED_MS);
        loop {
            report.infer(&mut model, &Inline, "starved", || {})?;
        }
    })
}

/// A pack on the disk, reads of which go on while steps compute.
fn disk(report: &mut Report, limit_ms: u64) -> Result<Findings, Failed> {
    let Some(mut memory) = ARENA.take() else { return Err(Failed) };
    let mut disk = machine::disk(limit_ms).map_err(|error| report.failed(error))?;
    report.opened(&mut disk, memory.as_mut_slice(), 1, |report, instance, disk| {
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
