//! A storage of one's own, and a watchdog that is kicked between steps.
//!
//!     eyelet plan tests/data/digits/digits.onnx --budget 64KiB -o digits.pack
//!     cargo run --release --example own_storage -- digits.pack
//!
//! Firmware implements `Storage` for its flash or card. Here a file stands for it, and an atomic
//! for the watchdog.

use eyelet::arena::Arena;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options, Progress};
use eyelet::storage::{Storage, StorageError};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// All the memory that the network uses.
static ARENA: Arena<{ 128 << 10 }> = Arena::new();
static WATCHDOG: AtomicU32 = AtomicU32::new(0);

/// A card that holds the pack from its first block on.
struct Card {
    file: File,
    bytes: u64,
}

impl Storage for Card {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.bytes)
    }

    /// Reads exactly what is asked for. Errors say where, so that logs of a device are of use.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let read = self.file.read_exact_at(into, offset);
        read.map_err(|error| StorageError::Io { errno: error.raw_os_error().unwrap_or(0), offset })
    }

    /// This card reads any byte. One that reads blocks only says 512.
    fn alignment(&self) -> u64 {
        1
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: own_storage FILE.pack")?;
    let file = File::open(path)?;
    let mut card = Card { bytes: file.metadata()?.len(), file };
    let mut memory = ARENA.take().ok_or("the arena is in use")?;
    let mut instance = Instance::open(&mut card, memory.as_mut_slice(), Options::default())?;
    let mut model = instance.inline(&mut card);
    model.input_mut(0)?.fill(0.5);
    let mut steps = 0;
    while model.step(&Inline)? == Progress::Running {
        WATCHDOG.store(0, Ordering::Relaxed);
        steps += 1;
    }
    println!("{} steps, outputs {:?}", steps + 1, model.output(0)?);
    Ok(())
}
