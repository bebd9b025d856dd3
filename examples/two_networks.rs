//! Two networks in one program, each in an arena of its own; memory moves from one to the other.
//!
//!     eyelet zoo squeezenet1_1 -o squeezenet1_1.onnx
//!     eyelet plan squeezenet1_1.onnx --budget 3MiB 8MiB -o first.pack
//!     cp first.pack second.pack
//!     cargo run --release --example two_networks -- first.pack second.pack 3145728 8388608
//!
//! While one network has the larger budget, the other has the smaller one. Both stay open: only
//! their plans change, between two inferences. What the smaller plan leaves of its arena is given
//! back to the system first. `eyelet::tasks` decides which network works next where they have
//! deadlines.

use eyelet::arena::{MappedArena, Pages};
use eyelet::device::Inline;
use eyelet::executor::{Concurrent, Instance, Model, Options};
use eyelet::storage::DirectFile;
use std::error::Error;
use std::ffi::CString;
use std::time::Instant;

type Running<'m, 'a> = Model<'m, 'a, Concurrent<'m, 'a>>;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: two_networks A.pack B.pack SMALL LARGE";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, small, large] = &args[..] else { return Err(usage.into()) };
    let (small, large): (u64, u64) = (small.parse()?, large.parse()?);

    let mut arenas = [MappedArena::new(large as usize)?, MappedArena::new(large as usize)?];
    let [first, second] = &mut arenas;
    let (mut first, first_pages) = first.memory_and_pages();
    let (mut second, second_pages) = second.memory_and_pages();
    let mut one = DirectFile::open(&CString::new(a.as_str())?)?;
    let mut two = DirectFile::open(&CString::new(b.as_str())?)?;
    let options = Options { budget: small, ..Options::default() };
    let mut first = Instance::open(&mut one, first.as_mut_slice(), options)?;
    let mut second = Instance::open(&mut two, second.as_mut_slice(), options)?;
    first.with_loader(&mut one, |first| {
        second.with_loader(&mut two, |second| -> Result<(), Box<dyn Error>> {
            println!("{a} has more memory");
            turn(first, &first_pages, large)?;
            turn(second, &second_pages, small)?;
            println!("{b} has more memory");
            // The one that shrinks comes first: both never have the larger budget.
            turn(first, &first_pages, small)?;
            turn(second, &second_pages, large)
        })
    })??
}

/// Changes the budget, and runs an inference.
fn turn(model: &mut Running<'_, '_>, pages: &Pages<'_>, budget: u64) -> Result<(), Box<dyn Error>> {
    model.set_budget(budget)?;
    let given_back = pages.give_back(model.unused())?;
    for index in 0..model.inputs().len() {
        model.input_mut(index)?.fill(0.5);
    }
    let start = Instant::now();
    model.infer(&Inline)?;
    let (took, name) = (start.elapsed(), model.skeleton().name().to_owned());
    let first = model.output(0)?.first().copied().unwrap_or(f32::NAN);
    println!(
        "  {name} in {budget} bytes ({given_back} given back): {took:?}, first output {first}"
    );
    Ok(())
}
