//! Two slots for a pack: when one is damaged, the other is run.
//!
//!     eyelet plan tests/data/digits/digits.onnx --budget 64KiB -o a.pack
//!     cp a.pack b.pack
//!     cargo run --release --example slots -- a.pack b.pack
//!
//! A device that updates its network over the air writes the slot that is not in use, and changes
//! over when that is complete. `Instance::open` refuses a pack of another version, one cut short,
//! and one whose tables are malformed. Damaged weights are found by their checksums when they are
//! loaded, before a kernel sees them. So a slot counts as good after one whole inference.

use eyelet::arena::Arena;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::storage::Slice;
use std::error::Error;

/// One arena for both slots: only one is open at a time.
static ARENA: Arena<{ 128 << 10 }> = Arena::new();

fn main() -> Result<(), Box<dyn Error>> {
    let slots: Vec<String> = std::env::args().skip(1).collect();
    if slots.is_empty() {
        return Err("usage: slots A.pack B.pack".into());
    }
    let mut memory = ARENA.take().ok_or("the arena is in use")?;
    for slot in &slots {
        match try_slot(slot, memory.as_mut_slice()) {
            Ok(outputs) => {
                println!("{slot} is good: {outputs:?}");
                return Ok(());
            }
            Err(error) => eprintln!("{slot} is not used: {error}"),
        }
    }
    Err("no slot holds a pack that runs".into())
}

/// Opens the pack of a slot and runs one inference, which loads and compares all weights.
fn try_slot(slot: &str, memory: &mut [u8]) -> Result<Vec<f32>, Box<dyn Error>> {
    // On a device: the slot's flash.
    let flash = std::fs::read(slot)?;
    let mut storage = Slice(&flash);
    let mut instance = Instance::open(&mut storage, memory, Options::default())?;
    let mut model = instance.inline(&mut storage);
    for index in 0..model.inputs().len() {
        model.input_mut(index)?.fill(0.5);
    }
    model.infer(&Inline)?;
    Ok(model.output(0)?.to_vec())
}
