//! What computing loses while storage is read: measured by doing both at once.
//!
//! Convolutions are computed over and over, while another thread now reads, and verifies what it has read, and now does not.
//! What they take longer is divided by the bytes that were read meanwhile. Once all that is used fits the cache that
//! processors share, and once none of it does. How much a convolution loses depends on how much memory it reads itself; those
//! here read much, some and little of it, as a network's do in turn.

use super::bench::{Bench, Weights};
use super::layers::{conv, winograd};
use crate::network::Network;
use crate::profile::Drag;
use crate::source::{Io, Source};
use eyelet::arena::MappedArena;
use eyelet::device::Inline;
use eyelet::kernels::Kernels;
use eyelet::pack::OpKind;
use eyelet::pack::crc32c::crc32c;
use eyelet::storage::{Storage as _, StorageError};
use std::ffi::CStr;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a read, and what reads take turns in: near, and far.
const READ_BYTES: u64 = 1 << 20;
const ARENA_BYTES: [u64; 2] = [8 << 20, 96 << 20];

/// Turns without reads and with them, in pairs of neighbours, so that what else disturbs the machine disturbs both.
const PAIRS: usize = 11;
const TURN: Duration = Duration::from_millis(16);

/// Measures both, reading from the first `file_bytes` of a file.
pub fn measure(
    kernels: &Kernels,
    name: &CStr,
    io: Io,
    file_bytes: u64,
) -> Result<Drag, StorageError> {
    let isa = kernels.isa();
    let networks = [
        conv(isa, OpKind::Conv, 7, 3, 256, 512),
        winograd(isa, 4, 14, 256, 256),
        conv(isa, OpKind::Conv, 14, 1, 256, 1024),
        conv(isa, OpKind::Conv, 28, 3, 128, 128),
    ];
    let Some(mut weights) = Weights::new() else {
        return Err(StorageError::Open { errno: libc::ENOMEM });
    };
    let mut mean = |arena_bytes| -> Result<f64, StorageError> {
        let lost =
            |network| lost(network, kernels, &mut weights, name, io, [file_bytes, arena_bytes]);
        let sum = networks.iter().map(lost).sum::<Result<f64, StorageError>>()?;
        // Noise may make computing look faster beside reading; it is not.
        Ok((sum / networks.len() as f64).max(0.0))
    };
    let [near, far] = ARENA_BYTES.map(&mut mean);
    Ok(Drag { near_ns_per_byte: near?, far_ns_per_byte: far? })
}

/// Nanoseconds that computing a layer takes longer, for each byte that is read meanwhile; 0 if it cannot be computed.
fn lost(
    network: &Network,
    kernels: &Kernels,
    weights: &mut Weights,
    name: &CStr,
    io: Io,
    [file_bytes, arena_bytes]: [u64; 2],
) -> Result<f64, StorageError> {
    let near = arena_bytes == ARENA_BYTES[0];
    let Some(mut bench) = Bench::new(network, kernels, 1, false) else { return Ok(0.0) };
    let mut source = Source::open(name, io)?;
    let mut arena = MappedArena::new(arena_bytes as usize)
        .map_err(|_| StorageError::Open { errno: libc::ENOMEM })?;
    arena.memory().as_mut_slice().fill(1);
    let [reading, done] = [const { AtomicBool::new(false) }; 2];
    let read = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (reading, done, read) = (&reading, &done, &read);
        let reader = scope.spawn(move || -> Result<(), StorageError> {
            let mut memory = arena.memory();
            let (mut from, mut to) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                if !reading.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(50));
                    continue;
                }
                to = if to + READ_BYTES > arena_bytes { 0 } else { to };
                from = if from + READ_BYTES > file_bytes { 0 } else { from };
                let into = &mut memory.as_mut_slice()[to as usize..(to + READ_BYTES) as usize];
                source.read(from, into)?;
                black_box(crc32c(0, black_box(into)));
                (from, to) = (from + READ_BYTES, to + READ_BYTES);
                read.fetch_add(READ_BYTES, Ordering::Relaxed);
            }
            Ok(())
        });
        // Nanoseconds, runs and bytes of a turn.
        let mut turn = |with: bool| {
            reading.store(with, Ordering::Relaxed);
            let (begin, before) = (Instant::now(), read.load(Ordering::Relaxed));
            let mut runs = 0.0;
            while begin.elapsed() < TURN && bench.run(&Inline, weights, !near).is_some() {
                runs += 1.0;
            }
            let bytes = read.load(Ordering::Relaxed) - before;
            (begin.elapsed().as_nanos() as f64, runs, bytes as f64)
        };
        turn(true);
        let mut found = Vec::new();
        for _ in 0..PAIRS {
            let (alone_ns, alone, _) = turn(false);
            let (ns, runs, bytes) = turn(true);
            found.push((ns - runs * alone_ns / f64::max(alone, 1.0)) / f64::max(bytes, 1.0));
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("a reader does not panic")?;
        found.sort_by(f64::total_cmp);
        Ok(found[PAIRS / 2])
    })
}
