//! A camera's loop: each frame is classified before the next one is taken.
//!
//!     eyelet zoo squeezenet1_1 -o squeezenet1_1.onnx
//!     eyelet plan squeezenet1_1.onnx --budget 6MiB
//!     ffmpeg -f v4l2 -i /dev/video0 -f image2pipe -c:v ppm - |
//!         cargo run --release --example camera -- squeezenet1_1.pack 6291456
//!
//! Frames come from a pipe, so that any source will do: `cat frames/*.ppm` is a folder. Memory for
//! the network and for one frame is taken before the first frame, and no more after it. Weights of
//! the next inference are read while the program waits for the camera.

mod picture;

use eyelet::arena::MappedArena;
use eyelet::device::workers::Pool;
use eyelet::executor::{Concurrent, Instance, Model, Options};
use eyelet::storage::DirectFile;
use picture::{Picture, largest};
use std::error::Error;
use std::ffi::CString;
use std::io::{BufReader, Read};
use std::time::Instant;

const THREADS: u32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: camera FILE.pack BYTES < FRAMES";
    let mut args = std::env::args().skip(1);
    let (pack, budget) = args.next().zip(args.next()).ok_or(usage)?;
    let budget: u64 = budget.parse()?;

    let mut storage = DirectFile::open(&CString::new(pack)?)?;
    let mut arena = MappedArena::new(budget as usize)?;
    let mut memory = arena.memory();
    let options = Options { budget, threads: THREADS, ..Options::default() };
    let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options)?;
    let pool = Pool::new();
    pool.scope(THREADS as usize, None, |workers| {
        instance.with_loader(&mut storage, |model| {
            watch(model, workers, &mut BufReader::new(std::io::stdin().lock()))
        })
    })??
}

/// Classifies frames until the camera ends.
fn watch(
    model: &mut Model<'_, '_, Concurrent<'_, '_>>,
    device: &dyn eyelet::device::Device,
    camera: &mut impl Read,
) -> Result<(), Box<dyn Error>> {
    let side = model.inputs().first().map_or(0, |input| input.shape[3] as usize);
    if side == 0 || model.input_mut(0)?.len() != 3 * side * side {
        return Err("the network's input is not one square picture".into());
    }
    let mut frame = Picture::default();
    let mut number = 0;
    while frame.read_next(camera)? {
        let start = Instant::now();
        frame.write(model.input_mut(0)?, side);
        model.infer(device)?;
        let scores = model.output(0)?;
        let class = largest(scores, 1).first().copied().unwrap_or(0);
        number += 1;
        println!("frame {number}: class {class}, score {}, {:?}", scores[class], start.elapsed());
    }
    println!("{number} frames");
    Ok(())
}
