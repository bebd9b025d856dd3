//! Throughput of reads by their size and their number in flight, and of the checksum. With the file at hand, also the time that
//! computing loses to reads.

use super::bench::usual;
use super::done::{self, Done};
use super::{MeasureError, Patience, contention};
use eyelet::arena::MappedArena;
use eyelet::device::threads::available_cores;
use eyelet::kernels::Kernels;
use eyelet::pack::crc32c::crc32c;
use eyelet::storage::queue::SPIN_NS;
use eyelet::storage::{Storage as _, StorageError, stream};
use eyelet_model::leftovers::{self, Scratch};
use eyelet_plan::cores::Cores;
use eyelet_plan::profile::fitting::terms;
use eyelet_plan::profile::{Extremes, LlcReads, QueuedRead, Reads, Storage, UnequalCores};
use eyelet_plan::source::{Io, Source};
use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Sizes of reads that are measured.
const SIZES: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Memory that reads fill, one place after the other. Like the places of loads, it is not in the cache.
const ARENA_BYTES: u64 = 64 << 20;

/// Memory that reads fill and that the last-level cache holds.
const LLC_BYTES: u64 = 8 << 20;

/// Bytes of a turn of reads one after the other. A turn has at least one read, and at most
/// [`TURN_READS`].
const TURN_BYTES: u64 = 8 << 20;
const TURN_READS: u64 = 64;

/// Size of those by which is seen whether they come together.
const GROUP_BYTES: u64 = 256 << 10;

/// Reads in flight, up to the most of the storage, and the time of a turn.
const DEPTHS: [usize; 3] = [2, 4, 8];
const DEEPER_TURN: Duration = Duration::from_millis(5);

/// More than most storage reads in a turn.
const DEEPER_BYTES: u64 = 24 << 20;

/// Measures the storage that `folder` is on, as `io` reads it: with everything in the page cache, unless reads bypass it,
/// and as a loader reads it while threads compute. Handing a load over costs `latency_ns`. Also returns how steady it was.
pub fn measure(
    folder: &Path,
    io: Io,
    latency_ns: u64,
    kernels: &Kernels,
    (threads, unequal): (u32, Option<&UnequalCores>),
    patience: Patience,
    done: &Done<'_>,
) -> Result<(Storage, Extremes), MeasureError> {
    leftovers::sweep(folder);
    let in_folder = |error| MeasureError::File { path: folder.to_owned(), error };
    let mut scratch = Scratch::file(folder).map_err(in_folder)?;
    let path = scratch.path().to_owned();
    let file = |error| MeasureError::File { path: path.clone(), error };
    let storage = |error| MeasureError::Storage { path: path.clone(), error };
    // It is larger than what caches on the way hold.
    let file_bytes = patience.file_bytes;
    fill(scratch.as_file_mut(), file_bytes, &done.of(done::FILE)).map_err(file)?;
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| file(std::io::Error::from(error)))?;
    let mut source = Source::open(&name, io).map_err(storage)?;
    let mut arena = MappedArena::new(ARENA_BYTES as usize)
        .map_err(|_| file(std::io::Error::from(std::io::ErrorKind::OutOfMemory)))?;
    let mut memory = arena.memory();
    memory.as_mut_slice().fill(1);

    let spin_ns = if available_cores() > threads as usize { SPIN_NS } else { 0 };
    let (depth, window) =
        source.queue().map_or((1, usize::MAX), |queue| (queue.depth(), queue.window()));
    let memory = memory.as_mut_slice();
    // Into 16 MiB a virtual disk reads faster than into 64, too (1 MiB at a time a fifth). But not while steps compute: with resnet152 in 16 and
    // in 46 MiB it read as fast.
    let sizes = [ARENA_BYTES, LLC_BYTES];
    let sizes = if io == Io::Direct { &sizes[..1] } else { &sizes[..] };
    // As a pack's loader reads, and its steps are computed.
    let [alone, computing] = match unequal {
        Some(unequal) => on_big_cores(unequal),
        None => {
            let found = match io {
                Io::Direct => Cores::find(&mut source, threads as usize),
                _ => Cores::default(),
            };
            [found.clone(), found]
        }
    };
    let of_reads = done.of(done::READS);
    let of =
        alone.read(|| rates(&mut source, memory, sizes, (depth, spin_ns), patience, &of_reads));
    let mut of = of.map_err(storage)?;
    let llc = of.split_off(1).pop();
    let llc = llc.map(|Rates { reads, checksum_gbs, .. }| LlcReads { reads, checksum_gbs });
    let Rates { reads, checksum_ns, checksum_gbs, queued_reads, together, steady } = of.remove(0);
    drop(source);
    let of_both = done.of(done::CONTENTION);
    let pairs = patience.pairs;
    let contention =
        contention::measure(kernels, &name, io, file_bytes, pairs, &computing, &of_both);
    let contention = Some(contention.map_err(storage)?);
    let storage = Storage {
        io,
        depth: depth as u32,
        window: (window < usize::MAX).then_some(window as u64),
        together,
        latency_ns: latency_ns + checksum_ns as u64,
        reads,
        checksum_gbs,
        llc,
        contention,
        queued_reads,
    };
    Ok((storage, steady))
}

/// Cores to read on alone, and to read on while others compute: big ones, whose rates are the profile's. If there is
/// only one, a little one reads while it computes.
fn on_big_cores(unequal: &UnequalCores) -> [Cores; 2] {
    let big = &unequal.big[..1];
    let other = unequal.big.get(1).copied();
    let other = other.unwrap_or_else(|| unequal.placement(1).loader_core);
    [big[0], other].map(|reading| Cores::pinned(big, reading).unwrap_or_default())
}

/// Measurements of one storage, into one memory.
struct Rates {
    reads: Vec<Reads>,
    /// Fixed time of a checksum.
    checksum_ns: f64,
    /// Rate of checksums.
    checksum_gbs: f64,
    queued_reads: Vec<QueuedRead>,
    together: bool,
    /// Steadiness of rounds of reads one after the other.
    steady: Extremes,
}

/// Reads from a file into memory, from one place after the other into one place after the other.
struct Reader<'a> {
    source: &'a mut Source,
    file_bytes: u64,
    memory: &'a mut [u8],
    /// Most reads in flight, and how long a loader looks for their answers.
    depth: usize,
    spin_ns: u64,
    from: u64,
    to: u64,
}

impl Reader<'_> {
    /// So many bytes that come next in a file.
    fn next(from: &mut u64, bytes: u64, file_bytes: u64) -> u64 {
        let at = if *from + bytes > file_bytes { 0 } else { *from };
        *from = at + bytes;
        at
    }

    /// One read, and its checksum: nanoseconds of each.
    fn alone(&mut self, bytes: u64) -> Result<[f64; 2], StorageError> {
        let from = Self::next(&mut self.from, bytes, self.file_bytes);
        let to = if self.to + bytes > self.memory.len() as u64 { 0 } else { self.to };
        self.to = to + bytes;
        let into = &mut self.memory[to as usize..self.to as usize];
        let mut start = Instant::now();
        let mut begins = 0;
        stream(self.source, self.depth, self.spin_ns, bytes as usize, into, || {
            begins += 1;
            let first = begins == 1;
            start = if first { Instant::now() } else { start };
            first.then_some(from)
        })?;
        let read = Instant::now();
        black_box(crc32c(0, black_box(into)));
        let ns = |time: Duration| time.as_nanos() as f64;
        Ok([ns(read - start), ns(read.elapsed())])
    }

    /// Begins the most reads in flight at once: nanoseconds until the first one arrives, and until the last.
    fn group(&mut self) -> Result<[f64; 2], StorageError> {
        let Self { source, file_bytes, memory, from, depth, spin_ns, .. } = self;
        let into = &mut memory[..*depth * GROUP_BYTES as usize];
        let (mut calls, mut begin, mut first) = (0, Instant::now(), Instant::now());
        stream(*source, *depth, *spin_ns, GROUP_BYTES as usize, into, || {
            first = Instant::now();
            begin = if calls == 0 { first } else { begin };
            calls += 1;
            // The next could begin when the first has come.
            (calls <= *depth).then(|| Self::next(from, GROUP_BYTES, *file_bytes))
        })?;
        Ok([first - begin, begin.elapsed()].map(|time| time.as_nanos() as f64))
    }

    /// Nanoseconds of each of many reads with up to `depth` in flight, from the arrival of the first one, when the most
    /// possible have begun. They continue in memory where those of the turn before have ended, since a cache has the bytes
    /// that were just written, and reads into it are faster (2.0 GB/s into the same 4 MiB, 1.5 into 16).
    fn queued_reads(&mut self, bytes: u64, depth: usize) -> Result<f64, StorageError> {
        let Self { source, file_bytes, memory, from, to, spin_ns, .. } = self;
        let (all, turn) = (memory.len() as u64, (bytes * (depth as u64 + 1)).max(DEEPER_BYTES));
        let start = if *to + turn > all { 0 } else { *to };
        let memory = &mut memory[start as usize..];
        let (mut calls, mut begin, mut end) = (0usize, Instant::now(), Instant::now());
        stream(*source, depth, *spin_ns, bytes as usize, memory, || {
            end = Instant::now();
            if calls == depth {
                begin = end;
            }
            let more = calls <= depth || end - begin < DEEPER_TURN;
            calls += usize::from(more);
            more.then(|| Self::next(from, bytes, *file_bytes))
        })?;
        let end_of_turn = start + calls as u64 * bytes;
        *to = if end_of_turn > all { 0 } else { end_of_turn };
        let each = calls.saturating_sub(depth).max(1);
        Ok((end - begin).as_nanos() as f64 / each as f64)
    }
}

/// Measurements of a turn of one memory after the other.
struct Turns {
    /// For each size: times of reads one after the other, and of their checksums.
    alone: Vec<(u64, [Vec<f64>; 2])>,
    /// For each depth and size: times of each of many reads.
    deep: Vec<(usize, u64, Vec<f64>)>,
    /// For each group: when the first and the last read had arrived.
    groups: [Vec<f64>; 2],
    /// For each round: the time of its reads one after the other.
    rounds: Vec<f64>,
}

impl Turns {
    fn new(arena_bytes: u64, depth: usize) -> Self {
        let sizes = SIZES.into_iter().filter(|bytes| 2 * bytes <= arena_bytes);
        let depths = DEPTHS.into_iter().filter(|several| *several <= depth);
        let deep = depths.flat_map(|depth| sizes.clone().map(move |bytes| (depth, bytes, vec![])));
        Self {
            deep: deep.collect(),
            alone: sizes.map(|bytes| (bytes, Default::default())).collect(),
            groups: Default::default(),
            rounds: Vec::new(),
        }
    }

    /// All of them once.
    fn take(&mut self, reader: &mut Reader<'_>) -> Result<(), StorageError> {
        let mut round_ns = 0.0;
        for (bytes, spent) in &mut self.alone {
            for _ in 0..(TURN_BYTES / *bytes).clamp(1, TURN_READS) {
                let both = reader.alone(*bytes)?;
                round_ns += both[0];
                for (spent, ns) in spent.iter_mut().zip(both) {
                    spent.push(ns);
                }
            }
        }
        self.rounds.push(round_ns);
        for (depth, bytes, spent) in &mut self.deep {
            spent.push(reader.queued_reads(*bytes, *depth)?);
        }
        if reader.depth > 1 {
            for (spent, ns) in self.groups.iter_mut().zip(reader.group()?) {
                spent.push(ns);
            }
        }
        Ok(())
    }

    fn rates(self) -> Rates {
        let mut reads: Vec<Reads> = Vec::new();
        let mut checksums = Vec::new();
        let mut all_ns = 0.0;
        for (bytes, [spent, checksum]) in self.alone {
            // Noise may make a larger read look faster than a smaller one; it is not.
            let least = reads.last().map_or(0.0, Reads::ns);
            let count = spent.len() as f64;
            let ns = usual(spent).max(least * 1.000_001).max(1.0);
            all_ns += count * ns;
            reads.push(Reads { bytes, mbs: bytes as f64 * 1e3 / ns });
            let ns = usual(checksum).max(1.0);
            checksums.push(([1.0 / ns, bytes as f64 / ns], 1.0));
        }
        let [checksum_ns, checksum_ns_per_byte] = terms(&checksums);
        // The first of a group comes as one by itself does, or with the last.
        let alone = reads.iter().find(|read| read.bytes == GROUP_BYTES).map_or(0.0, Reads::ns);
        let [firsts, lasts] = self.groups;
        let together = !firsts.is_empty() && 2.0 * usual(firsts) > alone + usual(lasts);
        let queued_reads = self.deep.into_iter().map(|(depth, bytes, spent)| {
            let mbs = bytes as f64 * 1e3 / usual(spent).max(1.0);
            QueuedRead { depth: depth as u32, bytes, mbs }
        });
        Rates {
            steady: Extremes::of(&self.rounds, all_ns / self.rounds.len().max(1) as f64),
            checksum_ns,
            checksum_gbs: 1.0 / checksum_ns_per_byte.max(1e-6),
            queued_reads: queued_reads.collect(),
            reads,
            together,
        }
    }
}

/// Throughput of the checksum, and of reads of all sizes that fit into memories of `sizes` bytes, one after the other and
/// with several in flight. The storage takes up to `depth`.
fn rates(
    source: &mut Source,
    memory: &mut [u8],
    sizes: &[u64],
    (depth, spin_ns): (usize, u64),
    patience: Patience,
    done: &Done<'_>,
) -> Result<Vec<Rates>, StorageError> {
    let mut all: Vec<Turns> = sizes.iter().map(|bytes| Turns::new(*bytes, depth)).collect();
    let mut at = vec![[0; 2]; sizes.len()];
    let begin = Instant::now();
    let mut rounds = 0;
    // All take turns: what disturbs a disk lasts for a while, and then disturbs all of them.
    while rounds < patience.rounds || begin.elapsed() < patience.reads {
        for ((turns, bytes), [from, to]) in all.iter_mut().zip(sizes).zip(&mut at) {
            let memory = &mut memory[..*bytes as usize];
            let mut reader = Reader {
                source,
                file_bytes: patience.file_bytes,
                memory,
                depth,
                spin_ns,
                from: *from,
                to: *to,
            };
            turns.take(&mut reader)?;
            (*from, *to) = (reader.from, reader.to);
        }
        rounds += 1;
        let spent = begin.elapsed().as_secs_f64() / patience.reads.as_secs_f64();
        done.set(spent.min(rounds as f64 / patience.rounds as f64));
    }
    Ok(all.into_iter().map(Turns::rates).collect())
}

/// Fills a file with what no device compresses, and waits until it is on the device.
fn fill(file: &mut File, bytes: u64, done: &Done<'_>) -> std::io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut block = vec![0u8; 1 << 20];
    let blocks = bytes >> 20;
    for index in 0..blocks {
        done.set(index as f64 / blocks as f64);
        for word in block.as_chunks_mut::<8>().0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state.to_le_bytes();
        }
        file.write_all(&block)?;
    }
    file.sync_all()
}
