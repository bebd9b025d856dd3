//! Throughput of reads by their size and by how many are under way, and of the checksum; with the file at hand, what computing loses to them.

use super::{MeasureError, drag};
use crate::profile::{Deeper, Near, Reads, Storage};
use crate::source::{Io, Source};
use eyelet::arena::MappedArena;
use eyelet::kernels::Kernels;
use eyelet::pack::crc32c::crc32c;
use eyelet::storage::{Storage as _, StorageError, queue};
use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sizes of reads that are measured.
const SIZES: [u64; 7] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Size of the file: larger than what caches on the way hold.
const FILE_BYTES: u64 = 256 << 20;

/// Reads go to one place after the other of so much memory: loads, too, find none of it in the cache;
const ARENA_BYTES: u64 = 64 << 20;

/// and of so much, which the cache holds that processors share.
const NEAR_BYTES: u64 = 8 << 20;

/// Time for all sizes, which take turns of this many bytes (but at least one read) each: what disturbs a disk
/// lasts for a while, and then disturbs all of them.
const TIME: Duration = Duration::from_secs(4);
const TURN_BYTES: u64 = 4 << 20;
const TURNS: usize = 5;

/// Most reads of a turn.
const TURN_READS: u64 = 64;

/// Reads under way at a time, 1 being what the others are held against, and the sizes for which that is measured, in turns
/// of some time each.
const DEPTHS: [usize; 3] = [1, 2, 4];
const DEEPER_SIZES: [u64; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const DEPTH_TURN: Duration = Duration::from_millis(24);
const DEPTH_TURNS: usize = 7;

/// A file that goes away with its value.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing can be done about a file that does not go.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measures the storage that `folder` is on, as it is read by `io`: with everything in the page cache, unless it
/// is read past that. What hands a load over costs `latency_ns`.
pub fn measure(
    folder: &Path,
    io: Io,
    latency_ns: u64,
    kernels: &Kernels,
) -> Result<Storage, MeasureError> {
    let path = folder.join(format!(".eyelet-profile-{}", std::process::id()));
    let file = |error| MeasureError::File { path: path.clone(), error };
    let storage = |error| MeasureError::Storage { path: path.clone(), error };
    let temporary = Temporary(path.clone());
    fill(&temporary.0).map_err(file)?;
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| file(std::io::Error::from(error)))?;
    let mut source = Source::open(&name, io).map_err(storage)?;
    let mut arena = MappedArena::new(ARENA_BYTES as usize)
        .map_err(|_| file(std::io::Error::from(std::io::ErrorKind::OutOfMemory)))?;
    let mut memory = arena.memory();
    memory.as_mut_slice().fill(1);

    let (reads, checksum_gbs) = reads(&mut source, memory.as_mut_slice(), TIME).map_err(storage)?;
    // What no processor copies comes from the device, wherever it goes.
    let near = match io {
        Io::Direct => None,
        Io::Buffered | Io::Memory => {
            let memory = &mut memory.as_mut_slice()[..NEAR_BYTES as usize];
            let (reads, checksum_gbs) =
                self::reads(&mut source, memory, TIME / 3).map_err(storage)?;
            Some(Near { reads, checksum_gbs })
        }
    };
    let (depth, window) =
        source.queue().map_or((1, usize::MAX), |queue| (queue.depth(), queue.window()));
    let deeper = match depth {
        1 => Vec::new(),
        _ => deeper(&mut source, memory.as_mut_slice(), &reads).map_err(storage)?,
    };
    drop(source);
    let drag = Some(drag::measure(kernels, &name, io, FILE_BYTES).map_err(storage)?);
    Ok(Storage {
        io,
        depth: depth as u32,
        window: (window < usize::MAX).then_some(window as u64),
        latency_ns,
        reads,
        checksum_gbs,
        near,
        drag,
        deeper,
    })
}

/// Throughput of reads of all sizes that fit, one after the other, to one place after the other; and that of the
/// checksum, in GB/s.
fn reads(
    source: &mut Source,
    memory: &mut [u8],
    time: Duration,
) -> Result<(Vec<Reads>, f64), StorageError> {
    let arena_bytes = memory.len() as u64;
    let sizes = SIZES.into_iter().filter(|bytes| *bytes <= arena_bytes);
    let mut spent = [const { Vec::new() }; SIZES.len()];
    let mut checksums = Vec::new();
    let (mut from, mut to) = (0, 0);
    let begin = Instant::now();
    let mut turns = 0;
    while turns < TURNS || begin.elapsed() < time {
        for (bytes, spent) in sizes.clone().zip(&mut spent) {
            for _ in 0..(TURN_BYTES / bytes).clamp(1, TURN_READS) {
                to = if to + bytes > arena_bytes { 0 } else { to };
                from = if from + bytes > FILE_BYTES { 0 } else { from };
                let into = &mut memory[to as usize..(to + bytes) as usize];
                let start = Instant::now();
                source.read(from, into)?;
                let read = Instant::now();
                black_box(crc32c(0, black_box(into)));
                spent.push((read - start).as_nanos() as f64);
                checksums.push(read.elapsed().as_nanos() as f64 / bytes as f64);
                (from, to) = (from + bytes, to + bytes);
            }
        }
        turns += 1;
    }
    let mut reads: Vec<Reads> = Vec::new();
    for (bytes, spent) in sizes.zip(spent) {
        // Noise may make a larger read look faster than a smaller one; it is not.
        let least = reads.last().map_or(0.0, Reads::ns);
        let ns = usual(spent).max(least * 1.000_001).max(1.0);
        reads.push(Reads { bytes, mbs: bytes as f64 * 1e3 / ns });
    }
    Ok((reads, 1.0 / usual(checksums).max(1e-6)))
}

/// Throughput with several reads under way, as the loader has them: so many times that of one after the other as in the middle of
/// the turns, since a disk's speed changes with time.
fn deeper(
    source: &mut Source,
    memory: &mut [u8],
    reads: &[Reads],
) -> Result<Vec<Deeper>, StorageError> {
    let mut from = 0;
    let mut turn = |bytes: u64, depth: usize| -> Result<f64, StorageError> {
        let (begin, mut read) = (Instant::now(), 0);
        queue::stream(source, depth, bytes as usize, memory, || {
            from = if from + 2 * bytes > FILE_BYTES { 0 } else { from + bytes };
            let more = begin.elapsed() < DEPTH_TURN;
            read += if more { bytes } else { 0 };
            more.then_some(from)
        })?;
        Ok(read as f64 / begin.elapsed().as_nanos() as f64)
    };
    let mut gains = vec![[const { Vec::new() }; DEPTHS.len()]; DEEPER_SIZES.len()];
    for _ in 0..DEPTH_TURNS {
        for (bytes, gains) in DEEPER_SIZES.into_iter().zip(&mut gains) {
            let mut alone = 1.0;
            for (depth, gains) in DEPTHS.into_iter().zip(gains) {
                let rate = turn(bytes, depth)?;
                alone = if depth == 1 { rate } else { alone };
                gains.push(rate / alone);
            }
        }
    }
    let mut deeper = Vec::new();
    for (bytes, gains) in DEEPER_SIZES.into_iter().zip(gains) {
        let alone = reads.iter().find(|read| read.bytes == bytes);
        for (depth, gains) in DEPTHS.into_iter().zip(gains).filter(|(depth, _)| *depth > 1) {
            let mbs = alone.map_or(1.0, |read| read.mbs) * usual(gains);
            deeper.push(Deeper { depth: depth as u32, bytes, mbs });
        }
    }
    Ok(deeper)
}

/// The mean of the middle half: what a read usually takes. A disk that is not one's own is at times several times as slow for a
/// while, which no plan can know; and a median of two kinds of reads would be that of one of them.
fn usual(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let quarter = times.len() / 4;
    let middle = &times[quarter..times.len() - quarter];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

/// Fills a file with what no device compresses, and waits until it is on the device.
fn fill(path: &Path) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..FILE_BYTES >> 20 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_is_not_what_disturbs() {
        assert_eq!(usual(vec![2.0, 900.0, 4.0, 0.5]), 3.0);
        assert_eq!(usual(vec![7.0]), 7.0);
        assert_eq!(usual(vec![1.0, 1.0, 3.0, 3.0, 1.0, 3.0, 1.0, 3.0]), 2.0);
    }
}
