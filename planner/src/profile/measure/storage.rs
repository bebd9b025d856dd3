//! Throughput of reads by their size, and of the checksum.

use super::{MeasureError, median};
use crate::profile::{Reads, Storage};
use crate::source::{Io, Source};
use eyelet::arena::MappedArena;
use eyelet::pack::crc32c::crc32c;
use eyelet::storage::Storage as _;
use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sizes of reads that are measured.
const SIZES: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Size of the file: larger than what devices read ahead.
const FILE_BYTES: u64 = 96 << 20;

/// Time for each size.
const TIME: Duration = Duration::from_millis(700);

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
pub fn measure(folder: &Path, io: Io, latency_ns: u64) -> Result<Storage, MeasureError> {
    let path = folder.join(format!(".eyelet-profile-{}", std::process::id()));
    let file = |error| MeasureError::File { path: path.clone(), error };
    let storage = |error| MeasureError::Storage { path: path.clone(), error };
    let temporary = Temporary(path.clone());
    fill(&temporary.0).map_err(file)?;
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| file(std::io::Error::from(error)))?;
    let mut source = Source::open(&name, io).map_err(storage)?;
    let largest = SIZES[SIZES.len() - 1];
    let mut arena = MappedArena::new(largest as usize)
        .map_err(|_| file(std::io::Error::from(std::io::ErrorKind::OutOfMemory)))?;
    let mut memory = arena.memory();

    let mut reads: Vec<Reads> = Vec::new();
    for bytes in SIZES {
        let into = &mut memory.as_mut_slice()[..bytes as usize];
        let begin = Instant::now();
        let mut times = Vec::new();
        let mut offset = 0;
        while times.len() < 5 || begin.elapsed() < TIME {
            let start = Instant::now();
            source.read(offset, into).map_err(storage)?;
            times.push(start.elapsed().as_nanos() as f64);
            offset = (offset + bytes) % FILE_BYTES;
        }
        // Noise may make a larger read look faster than a smaller one; it is not.
        let least = reads.last().map_or(0.0, Reads::ns);
        let ns = median(&mut times).max(least * 1.000_001).max(1.0);
        reads.push(Reads { bytes, mbs: bytes as f64 * 1e3 / ns });
    }

    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        black_box(crc32c(0, black_box(memory.as_slice())));
        times.push(start.elapsed().as_nanos() as f64);
    }
    let checksum_gbs = largest as f64 / median(&mut times).max(1.0);
    Ok(Storage { io, latency_ns, reads, checksum_gbs })
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
