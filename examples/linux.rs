//! A pack on Linux: weights straight from a file, worker threads, a loader, a change of budget.
//!
//!     eyelet zoo resnet50 -o resnet50.onnx
//!     eyelet plan resnet50.onnx --budget 12MiB 24MiB -o resnet50.pack
//!     cargo run --release --example linux -- resnet50.pack 12582912 25165824
//!
//! The first budget is what the pack is opened with, the second what it changes to. The arena has
//! the size of the larger one.

use eyelet::arena::MappedArena;
use eyelet::device::workers::Pool;
use eyelet::executor::{Concurrent, Instance, Model, Options};
use eyelet::storage::DirectFile;
use std::error::Error;
use std::ffi::CString;
use std::time::Instant;

const THREADS: u32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = CString::new(args.next().ok_or("usage: linux FILE.pack BYTES [BYTES]")?)?;
    let budgets: Vec<u64> = args.map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let (first, arena) = (budgets.first(), budgets.iter().max());
    let (&first, &arena) = first.zip(arena).ok_or("no budget: give the bytes of arena")?;

    // Reads past the page cache: the pack takes no memory but the arena.
    let mut storage = DirectFile::open(&path)?;
    let mut arena = MappedArena::new(arena as usize)?;
    let mut memory = arena.memory();
    let options = Options { budget: first, threads: THREADS, ..Options::default() };
    let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options)?;

    // Workers spin between layers and sleep between inferences. The loader has a thread of its own.
    let pool = Pool::new();
    pool.scope(THREADS as usize, None, |workers| {
        instance.with_loader(&mut storage, |model| -> Result<(), Box<dyn Error>> {
            for budget in budgets {
                let change = model.set_budget(budget)?;
                println!("budget {budget}: {} bytes of weights stay", change.kept_bytes);
                let start = Instant::now();
                write_inputs(model)?;
                model.infer(workers)?;
                let first = model.output(0)?.first().copied().unwrap_or(f32::NAN);
                println!("  {:?}, the first output is {first}", start.elapsed());
            }
            Ok(())
        })
    })??
}

/// Inputs share memory with later layers, so they are written before each inference.
fn write_inputs(model: &mut Model<'_, '_, Concurrent<'_, '_>>) -> Result<(), Box<dyn Error>> {
    for index in 0..model.inputs().len() {
        model.input_mut(index)?.fill(0.5);
    }
    Ok(())
}
