//! Runs a pack without an operating system, on QEMU's board `virt` with Cortex-A57 cores.
//!
//! The words of its command line say what it does:
//!
//! ```text
//! image flash DIGEST          a pack in memory
//! image disk DIGEST [MS]      a pack on a virtio disk, read while steps compute; a read may take MS
//! ```
//!
//! It prints what it found, and exits with status 0 where the digest of the outputs is the one that
//! was given, which is what `eyelet run` prints on the host.
#![no_std]
#![no_main]

mod machine;

use board_support::device::Clocked;
use board_support::paint::{paint, touched};
use board_support::virtio::Times;
use board_support::{report, semihosting};
use core::fmt::Write;
use eyelet::arena::Arena;
use eyelet::device::Inline;
use eyelet::executor::{Feed, Instance, Model, Options};
use eyelet::storage::{Slice, Storage};

/// All the memory that networks use.
static ARENA: Arena<{ 2 << 20 }> = Arena::new();

/// What computes: this core, with the board's clock.
const CORE: Clocked<'_, Inline> = Clocked { device: &Inline, now_ns: machine::now_ns };

/// Inferences in which reads and steps are to overlap: what one begins the next one uses.
const OVERLAPPED: usize = 2;

/// Why the image ends with an error; the words are printed.
struct Failed;

impl<E: core::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        let _ = writeln!(machine::console(), "error: {error}");
        Self
    }
}

/// Called by the startup.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let mut room = [0; 256];
    let mut words = semihosting::command_line(&mut room).split_ascii_whitespace().skip(1);
    let (mode, expected) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let limit_ms = words.next().and_then(|word| word.parse().ok()).unwrap_or(10_000);
    let found = match mode {
        "flash" => flash(),
        "disk" => disk(limit_ms),
        _ => {
            let _ = writeln!(machine::console(), "usage: image flash|disk DIGEST [MS]");
            semihosting::exit(2)
        }
    };
    let out = &mut machine::console();
    let _ = writeln!(out, "stack        {} bytes", machine::stack_bytes());
    let Ok(found) = found else { semihosting::exit(1) };
    let _ = writeln!(out, "digest       {found:016x}");
    let same = u64::from_str_radix(expected, 16) == Ok(found);
    if !same {
        let _ = writeln!(out, "error: the host's digest is {expected:?}");
    }
    semihosting::exit(if same { 0 } else { 1 })
}

/// Opens a pack in the arena, painted before, and prints how much of it was used.
fn opened<S: Storage>(
    storage: &mut S,
    body: impl FnOnce(&mut Instance<'_>, &mut S) -> Result<u64, Failed>,
) -> Result<u64, Failed> {
    let out = &mut machine::console();
    let Some(mut memory) = ARENA.take() else { return Err(Failed) };
    paint(memory.as_mut_slice());
    let digest = {
        let mut instance = Instance::open(storage, memory.as_mut_slice(), Options::default())?;
        let entry = instance.entry();
        let _ = writeln!(out, "budget       {} bytes", entry.budget);
        let _ = writeln!(out, "plan         {} bytes of arena", entry.arena_bytes);
        body(&mut instance, storage)?
    };
    let _ = writeln!(out, "touched      {} bytes of arena", touched(memory.as_slice()));
    Ok(digest)
}

/// One inference, with the time that it takes.
fn infer(model: &mut Model<'_, '_, impl Feed>, what: &str) -> Result<u64, Failed> {
    report::write_inputs(model);
    let start = machine::ticks();
    report::infer(model, &CORE, || {})?;
    let ticks = machine::ticks() - start;
    let [compute, wait] = [model.stats().compute_ns, model.stats().stall_ns].map(machine::ticks_of);
    let _ = writeln!(
        machine::console(),
        "{what:<12} {ticks} ticks of {} Hz: {compute} computing, {wait} waiting for weights",
        machine::frequency()
    );
    Ok(report::digest(model))
}

/// A pack that is memory.
fn flash() -> Result<u64, Failed> {
    opened(&mut Slice(machine::flash()), |instance, storage| {
        infer(&mut instance.inline(storage), "time")
    })
}

/// A pack on the disk, reads of which go on while steps compute.
fn disk(limit_ms: u64) -> Result<u64, Failed> {
    opened(&mut machine::disk(limit_ms)?, |instance, disk| {
        disk.times();
        let start = machine::ticks();
        let (digest, computing) = instance.overlapped(disk, |model| {
            let (mut digests, mut ticks) = ([0; OVERLAPPED], 0);
            for digest in &mut digests {
                *digest = infer(model, "overlapped")?;
                ticks += machine::ticks_of(model.stats().compute_ns);
            }
            if digests[0] != digests[OVERLAPPED - 1] {
                let _ = writeln!(machine::console(), "error: digests {digests:x?}");
                return Err(Failed);
            }
            Ok((digests[0], ticks))
        })?;
        let elapsed = machine::ticks() - start;
        let Times { reads, unattended, busy_ns, .. } = disk.times();
        let reading = machine::ticks_of(busy_ns);
        let out = &mut machine::console();
        let _ = writeln!(out, "reads        {reads}, of which {unattended} were done unattended");
        let _ =
            writeln!(out, "in all       {elapsed} ticks: {computing} computing, {reading} reading");
        // Otherwise nothing has gone on while something else did.
        if unattended == 0 || computing + reading <= elapsed {
            let _ = writeln!(out, "error: reads and steps did not overlap");
            return Err(Failed);
        }
        Ok(digest)
    })
}
