//! What is on a picture: five classes and their probabilities.
//!
//!     eyelet zoo squeezenet1_1 -o squeezenet1_1.onnx        # or your own, with weights that were trained
//!     eyelet plan squeezenet1_1.onnx --budget 6MiB
//!     cargo run --release --example classify -- squeezenet1_1.pack 6291456 cat.ppm [labels.txt]
//!
//! `ffmpeg -i cat.jpg cat.ppm` makes such a picture. The pack's weights are read past the page
//! cache, on a thread of their own, while this one computes.

mod picture;

use eyelet::arena::MappedArena;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::storage::DirectFile;
use picture::{Picture, largest};
use std::error::Error;
use std::ffi::CString;
use std::fs::File;
use std::io::BufReader;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: classify FILE.pack BYTES PICTURE.ppm [LABELS.txt]";
    let mut args = std::env::args().skip(1);
    let (pack, budget) = args.next().zip(args.next()).ok_or(usage)?;
    let (budget, image): (usize, _) = (budget.parse()?, args.next().ok_or(usage)?);
    let labels = args.next().map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let labels: Vec<&str> = labels.lines().collect();
    let mut picture = Picture::default();
    if !picture.read_next(&mut BufReader::new(File::open(image)?))? {
        return Err("the picture is empty".into());
    }

    let mut storage = DirectFile::open(&CString::new(pack)?)?;
    let mut arena = MappedArena::new(budget)?;
    let mut memory = arena.memory();
    let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), Options::default())?;
    instance.with_loader(&mut storage, |model| -> Result<(), Box<dyn Error>> {
        let side = model.inputs().first().map_or(0, |input| input.shape[3] as usize);
        let input = model.input_mut(0)?;
        if side == 0 || input.len() != 3 * side * side {
            return Err("the network's input is not one square picture".into());
        }
        picture.write(input, side);
        model.infer(&Inline)?;
        let scores = model.output(0)?;
        let most = scores.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = scores.iter().map(|score| (score - most).exp()).sum();
        for class in largest(scores, 5) {
            let label = labels.get(class).copied().unwrap_or_default();
            println!("{:6.2} %  {class} {label}", 100.0 * (scores[class] - most).exp() / sum);
        }
        Ok(())
    })?
}
