//! Inferences as `eyelet run` makes them, the same input and the same digest of the outputs, and
//! what an image prints of them.

use crate::console::Console;
use crate::device::Clocked;
use crate::paint::{extent, paint, touched};
use core::fmt::Write;
use eyelet::arena::Regions;
use eyelet::device::Device;
use eyelet::executor::{Feed, Instance, Model, Options, Progress};
use eyelet::set::Ports;
use eyelet::storage::Storage;

/// What arenas are planned in.
const ARENA_PAGE: usize = 4096;

/// Why an image ends with an error. What it was has been printed.
#[derive(Clone, Copy, Debug)]
pub struct Failed;

/// What reports need of a board.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// A serial port.
    pub console: Console,
    /// A count that goes up at a fixed rate.
    pub ticks: fn() -> u64,
    /// Counts a second.
    pub frequency: fn() -> u64,
    /// The same in nanoseconds.
    pub now_ns: fn() -> u64,
}

/// What an image has found out.
#[derive(Clone, Copy, Debug)]
pub struct Findings {
    /// Of the outputs.
    pub digest: u64,
    /// Bytes of the arena, in whole pages, up to the last page that was written to.
    pub arena: usize,
    /// Bytes of fast memory, likewise.
    pub fast: usize,
}

impl Report {
    /// Prints an error.
    pub fn failed(&mut self, error: impl core::fmt::Display) -> Failed {
        let _ = writeln!(self.console, "error: {error}");
        Failed
    }

    /// Opens a pack in memory that is painted before, and prints what it needs.
    pub fn opened<S: Storage>(
        &mut self,
        storage: &mut S,
        Regions { arena, fast }: Regions<'_>,
        threads: u32,
        body: impl FnOnce(&mut Self, &mut Instance<'_>, &mut S) -> Result<u64, Failed>,
    ) -> Result<Findings, Failed> {
        paint(arena);
        paint(fast);
        let digest = {
            let options = Options { threads, ..Options::default() };
            let regions = Regions { arena: &mut *arena, fast: &mut *fast };
            let instance = Instance::open_in(storage, regions, options);
            let mut instance = instance.map_err(|error| self.failed(error))?;
            let entry = instance.entry();
            let out = &mut self.console;
            let _ = writeln!(out, "budget       {} bytes", entry.budget);
            let _ = writeln!(out, "plan         {} bytes of arena", entry.arena_bytes);
            if entry.fast_bytes() > 0 {
                let _ = writeln!(out, "plan         {} bytes of fast memory", entry.fast_bytes());
            }
            body(self, &mut instance, storage)?
        };
        let arena = self.painted(arena, "touched", "arena");
        let fast = if fast.is_empty() { 0 } else { self.painted(fast, "fast", "fast memory") };
        Ok(Findings { digest, arena, fast })
    }

    /// Prints how much of painted memory was written to. Returns its whole pages.
    fn painted(&mut self, memory: &[u8], word: &str, what: &str) -> usize {
        let (touched, pages) = (touched(memory), extent(memory).next_multiple_of(ARENA_PAGE));
        let _ =
            writeln!(self.console, "{word:<12} {touched} bytes of {what}, {pages} in whole pages");
        pages
    }

    /// One inference of a pack, whose loads are made between the steps. `between` is called there,
    /// too.
    pub fn pack<S: Storage>(
        &mut self,
        storage: &mut S,
        memory: Regions<'_>,
        device: &impl Device,
        between: impl FnMut(),
    ) -> Result<Findings, Failed> {
        let threads = device.threads() as u32;
        self.opened(storage, memory, threads, |report, instance, storage| {
            let (digest, _) =
                report.infer(&mut instance.inline(storage), device, "time", between)?;
            Ok(digest)
        })
    }

    /// Computes one inference step by step, and prints its times: the digest, and how many ticks
    /// were spent computing. `between` is called after each step: here firmware kicks its watchdog.
    pub fn infer(
        &mut self,
        model: &mut Model<'_, '_, impl Feed>,
        device: &impl Device,
        what: &str,
        mut between: impl FnMut(),
    ) -> Result<(u64, u64), Failed> {
        let device = &Clocked { device, now_ns: self.now_ns };
        write_inputs(model);
        let start = (self.ticks)();
        let (mut before, mut longest) = (start, 0);
        while model.step(device).map_err(|error| self.failed(error))? == Progress::Running {
            let now = (self.ticks)();
            (before, longest) = (now, longest.max(now.wrapping_sub(before)));
            between();
        }
        let end = (self.ticks)();
        let ticks = end.wrapping_sub(start);
        longest = longest.max(end.wrapping_sub(before));
        let [compute, wait] =
            [model.stats().compute_ns, model.stats().stall_ns].map(|ns| self.ticks_of(ns));
        let _ = writeln!(
            self.console,
            "{what:<12} {ticks} ticks of {} Hz: {compute} computing, {wait} waiting for weights",
            (self.frequency)()
        );
        let _ = writeln!(self.console, "longest      {longest} ticks in a step");
        Ok((Digest::of(model).0, compute))
    }

    /// Counts in so many nanoseconds.
    pub fn ticks_of(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from((self.frequency)()) / 1_000_000_000) as u64
    }

    /// Prints the digest and the memory that was in use, and returns the status of the image: 0
    /// where the digest is the host's, and the memory within its limit, if there is one. `others`
    /// are bytes of memory besides stack and arena.
    pub fn status(
        &mut self,
        found: Result<Findings, Failed>,
        expected: &str,
        [stack, others]: [usize; 2],
        limit: Option<usize>,
    ) -> u8 {
        let out = &mut self.console;
        let _ = writeln!(out, "stack        {stack} bytes");
        let Ok(Findings { digest, arena, fast }) = found else { return 1 };
        let ram = arena + fast + stack + others;
        let _ = writeln!(out, "memory       {ram} bytes, {others} of them other data");
        let _ = writeln!(out, "digest       {digest:016x}");
        if u64::from_str_radix(expected, 16) != Ok(digest) {
            let _ = writeln!(out, "error: the host's digest is {expected:?}");
            return 1;
        }
        if let Some(limit) = limit.filter(|limit| ram > *limit) {
            let _ = writeln!(
                out,
                "error: {ram} bytes of memory were in use, at most {limit} should be"
            );
            return 1;
        }
        0
    }
}

/// Writes the values that `eyelet run` makes up where it is given no input.
pub fn write_inputs(ports: &mut dyn Ports) {
    for index in 0..ports.inputs().len() {
        if let Ok(floats) = ports.input_mut(index) {
            seeded(index as u64, floats);
        }
    }
}

/// The digest of all outputs that `eyelet run` prints: FNV-1a, 64 bits, of the floats' bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Digest {
    /// The digest of these outputs.
    pub fn of(ports: &mut dyn Ports) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for index in 0..ports.outputs().len() {
            for byte in ports.output(index).unwrap_or(&[]).iter().flat_map(|x| x.to_le_bytes()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Self(hash)
    }
}

/// Values with mean 0 and variance 1: sums of four uniform ones (SplitMix64).
fn seeded(seed: u64, into: &mut [f32]) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6579_656c_6574_2121;
    for value in into {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let sum = (0..4).map(|part| (mixed >> (16 * part) & 0xffff) as i32).sum::<i32>();
        *value = (sum - 131_070) as f32 * (1.732_050_8 / 65536.0);
    }
}
