//! Measures the time that computing loses while storage is read, by doing both at once.
//!
//! Convolutions are computed over and over, while another thread now reads, and verifies what it has read, and now does not.
//! Their extra time is divided by the bytes that were read meanwhile. Once all that is used fits the cache that processors
//! share, and once none of it does. How much a convolution loses depends on how much memory it reads itself; those here read
//! much, some and little of it, as a network's do in turn.

use super::bench::{Bench, State, Weights, median};
use super::done::Done;
use super::layers::{conv, winograd};
use eyelet::arena::MappedArena;
use eyelet::device::Inline;
use eyelet::kernels::Kernels;
use eyelet::pack::crc32c::crc32c;
use eyelet::storage::{Storage as _, StorageError};
use eyelet_plan::cores::Cores;
use eyelet_plan::profile::Contention;
use eyelet_plan::source::{Io, Source};
use std::ffi::CStr;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a read, and the arenas in which reads take turns: one fits the last-level cache, one does not.
const READ_BYTES: u64 = 1 << 20;
const ARENA_BYTES: [u64; 2] = [8 << 20, 96 << 20];

/// A turn without reads or with them. Both come in pairs of neighbours, so that what else disturbs the machine disturbs both. All
/// layers have theirs before any has the next: what disturbs it for a second disturbs few of each.
const TURN: Duration = Duration::from_millis(8);

/// A layer, and what it loses for each byte that is read meanwhile.
struct Case<'a> {
    bench: Bench<'a>,
    /// Weights and reads are in memory rather than in the last-level cache.
    dram: bool,
    lost: Vec<f64>,
}

/// Messages to and from the reader.
#[derive(Default)]
struct Reading {
    /// Bytes of the arena in which reads take turns; 0 to rest.
    room: AtomicU64,
    read: AtomicU64,
    done: AtomicBool,
}

impl Reading {
    /// Reads and verifies until all is done.
    fn run(
        &self,
        source: &mut Source,
        memory: &mut [u8],
        file_bytes: u64,
    ) -> Result<(), StorageError> {
        let (mut from, mut to) = (0, 0);
        while !self.done.load(Ordering::Relaxed) {
            let room = self.room.load(Ordering::Relaxed);
            if room == 0 {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            to = if to + READ_BYTES > room { 0 } else { to };
            from = if from + READ_BYTES > file_bytes { 0 } else { from };
            let into = &mut memory[to as usize..(to + READ_BYTES) as usize];
            source.read(from, into)?;
            black_box(crc32c(0, black_box(into)));
            (from, to) = (from + READ_BYTES, to + READ_BYTES);
            self.read.fetch_add(READ_BYTES, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Computes for a turn while reads take turns in so much room. Nanoseconds, runs, and bytes that were read.
    fn turn(&self, case: &mut Case<'_>, weights: &mut Weights, room: u64) -> [f64; 3] {
        self.room.store(room, Ordering::Relaxed);
        let state = if case.dram { State::Cold } else { State::Warm };
        // The first run is not counted: it brings what others have driven out of the caches back.
        let _ = case.bench.run(&Inline, weights, state);
        let (begin, before) = (Instant::now(), self.read.load(Ordering::Relaxed));
        let mut runs = 0.0;
        while begin.elapsed() < TURN && case.bench.run(&Inline, weights, state).is_some() {
            runs += 1.0;
        }
        let bytes = self.read.load(Ordering::Relaxed) - before;
        [begin.elapsed().as_nanos() as f64, runs, bytes as f64]
    }
}

/// Measures both in `pairs` pairs of turns, each on its cores. Reads the first `file_bytes` bytes of a file.
pub fn measure(
    kernels: &Kernels,
    name: &CStr,
    io: Io,
    file_bytes: u64,
    pairs: usize,
    cores: &Cores,
    done: &Done<'_>,
) -> Result<Contention, StorageError> {
    let isa = kernels.isa();
    let networks = [
        conv(isa, 7, 3, 256, 512),
        winograd(isa, 4, 14, 256, 256),
        conv(isa, 14, 1, 256, 1024),
        conv(isa, 28, 3, 128, 128),
    ];
    let no_memory = StorageError::Open { errno: libc::ENOMEM };
    let mut weights = Weights::new().ok_or(no_memory)?;
    let mut arena = MappedArena::new(ARENA_BYTES[1] as usize).map_err(|_| no_memory)?;
    arena.memory().as_mut_slice().fill(1);
    let mut source = Source::open(name, io)?;
    // Those that these kernels can compute.
    let case = |(network, dram)| {
        let bench = Bench::new(network, kernels, 1, false)?;
        Some(Case { bench, dram, lost: Vec::new() })
    };
    let both = |network| [(network, false), (network, true)];
    let mut cases: Vec<Case> = networks.iter().flat_map(both).filter_map(case).collect();
    let reading = Reading::default();
    std::thread::scope(|scope| {
        let reading = &reading;
        let reader = scope.spawn(move || {
            let mut memory = arena.memory();
            cores.read(|| reading.run(&mut source, memory.as_mut_slice(), file_bytes))
        });
        cores.compute();
        for pair in 0..pairs {
            done.set(pair as f64 / pairs as f64);
            for case in &mut cases {
                let room = ARENA_BYTES[usize::from(case.dram)];
                // Who comes first finds what others have left: both do, in turn.
                let mut turn = |room| reading.turn(case, &mut weights, room);
                let (alone, reading_too) = match pair % 2 {
                    0 => (turn(0), turn(room)),
                    _ => {
                        let reading_too = turn(room);
                        (turn(0), reading_too)
                    }
                };
                let ([alone_ns, alone, _], [ns, runs, bytes]) = (alone, reading_too);
                let longer = ns - runs * alone_ns / f64::max(alone, 1.0);
                case.lost.push(longer / f64::max(bytes, 1.0));
            }
        }
        reading.done.store(true, Ordering::Relaxed);
        cores.free();
        reader.join().expect("a reader does not panic")
    })?;
    let mean = |dram: bool| {
        let of: Vec<f64> =
            cases.iter().filter(|c| c.dram == dram).map(|c| median(c.lost.clone())).collect();
        // Noise may make computing look faster while reading; it is not.
        (of.iter().sum::<f64>() / f64::max(of.len() as f64, 1.0)).max(0.0)
    };
    Ok(Contention { llc_ns_per_byte: mean(false), dram_ns_per_byte: mean(true) })
}
