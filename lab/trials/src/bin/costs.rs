//! What layers were predicted to take beside what they take here, with all weights resident, for each
//! algorithm: `cargo run --release --manifest-path lab/Cargo.toml --bin costs -- model.onnx [threads [profile.toml]]`.
//!
//! Networks by one algorithm each take turns, so that a disturbance is spread over them; every time is a
//! median. Weights are as cold as they are in a network that runs again and again.

use eyelet::arena::MappedArena;
use eyelet::device::workers::Pool;
use eyelet::executor::{Instance, Options, Progress};
use eyelet::storage::BufferedFile;
use eyelet_planner::algorithm::Algorithm;
use eyelet_planner::network::Network;
use eyelet_planner::plan::Plan;
use eyelet_planner::profile::{Costs, Profile};
use eyelet_planner::published::Preload;
use eyelet_planner::search::{self, Request};
use eyelet_planner::{board, import, layout, passes, write};
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for each algorithm, over all turns.
const TIME: Duration = Duration::from_secs(3);
const TURNS: u32 = 3;

/// A network by one algorithm.
struct Variant {
    network: Network,
    plan: Plan,
    file: tempfile::TempPath,
    arena_bytes: usize,
    /// Nanoseconds of every run, for each step.
    times: Vec<Vec<u64>>,
}

impl Variant {
    fn new(
        network: &Network,
        algorithm: Algorithm,
        profile: &Profile,
        threads: u32,
    ) -> Result<Self, Box<dyn Error>> {
        let mut network = network.clone();
        for layer in 0..network.layers.len() {
            if algorithm.serves(&network, layer) {
                algorithm.set(&mut network, layer);
            }
        }
        let weights_bytes = layout::place_weights(&mut network);
        let budget = weights_bytes + (1 << 30);
        let request = Request {
            network: &network,
            weights_bytes,
            budget,
            threads,
            profile,
            exact: true,
            holds_all: false,
        };
        let plan = search::plan(&Preload, &request)?;
        let file = tempfile::NamedTempFile::new()?.into_temp_path();
        let plans = std::slice::from_ref(&plan);
        write::write_pack(&file, &network, weights_bytes, plans, &[0], &mut |_| {})?;
        let times = vec![Vec::new(); plan.steps.len()];
        let arena_bytes = plan.arena_bytes as usize;
        Ok(Self { network, plan, file, arena_bytes, times })
    }

    /// Runs for some time.
    fn turn(&mut self, threads: u32) -> Result<(), Box<dyn Error>> {
        let mut storage = BufferedFile::open(&CString::new(self.file.as_os_str().as_bytes())?)
            .map_err(|error| error.to_string())?;
        let mut arena = MappedArena::new(self.arena_bytes)?;
        let mut memory = arena.memory();
        let options = Options { threads, ..Options::default() };
        let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options)
            .map_err(|error| error.to_string())?;
        let mut model = instance.inline(&mut storage);
        let pool = Pool::new();
        pool.scope(threads as usize, None, |workers| -> Result<(), String> {
            let begin = Instant::now();
            let mut first = true;
            while begin.elapsed() < TIME / TURNS || first {
                let mut step = 0;
                loop {
                    let start = Instant::now();
                    let progress = model.step(workers).map_err(|error| error.to_string())?;
                    if !first {
                        self.times[step].push(start.elapsed().as_nanos() as u64);
                    }
                    step += 1;
                    if progress == Progress::Finished {
                        break;
                    }
                }
                first = false;
            }
            Ok(())
        })
        .map_err(|error| format!("{error:?}"))??;
        Ok(())
    }

    /// For each layer what was predicted and what was measured, in nanoseconds.
    fn layers(&mut self, profile: &Profile, threads: u32) -> Vec<[f64; 2]> {
        let all = Costs::new(&self.network, profile, threads).steps_ns(&self.plan);
        let mut layers = vec![[0.0; 2]; self.network.layers.len()];
        for ((step, ns), times) in self.plan.steps.iter().zip(all).zip(&mut self.times) {
            times.sort_unstable();
            let [predicted, measured] = &mut layers[step.layer as usize];
            *predicted += ns as f64;
            *measured += times.get(times.len() / 2).copied().unwrap_or(0) as f64;
        }
        layers
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let model = args.next().ok_or("which model?")?;
    let threads = args.next().map_or(Ok(1), |threads| threads.parse())?;
    let profile = match args.next() {
        Some(path) => Profile::load(Path::new(&path))?,
        None => board::host()?.profile,
    };
    let graph = import::import(Path::new(&model)).map_err(|error| error.to_string())?;
    let network = passes::lower(&graph, profile.isa)?;
    let algorithms: Vec<Algorithm> = Algorithm::all().collect();
    let variant = |algorithm: &Algorithm| Variant::new(&network, *algorithm, &profile, threads);
    let mut variants = algorithms.iter().map(variant).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..TURNS {
        for variant in &mut variants {
            variant.turn(threads)?;
        }
    }
    println!(
        "{:40} {:>20} | predicted us, measured us, ratio for {algorithms:?}",
        "layer", "output"
    );
    let found: Vec<Vec<[f64; 2]>> =
        variants.iter_mut().map(|variant| variant.layers(&profile, threads)).collect();
    let mut sums: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (index, layer) in network.layers.iter().enumerate() {
        let output = network.tensors[layer.output as usize];
        let shape = output.dims.map(|extent| extent.to_string()).join("x");
        let name = &network.names[index];
        print!("{:40} {shape:>20} |", &name[name.len().saturating_sub(40)..]);
        for (variant, layers) in variants.iter().zip(&found) {
            let [predicted, measured] = layers[index].map(|ns| ns / 1e3);
            let algorithm = Algorithm::of(&variant.network, index);
            if algorithm != Algorithm::Direct || std::ptr::eq(variant, &variants[0]) {
                print!(" {predicted:9.1} {measured:9.1} {:5.2}", measured / predicted);
                let class = format!("{:?}", Costs::class(&variant.network, index));
                let class = match algorithm {
                    Algorithm::Direct => class,
                    Algorithm::Winograd { tile } => format!("{class} F({tile},3)"),
                };
                let sum = sums.entry(class).or_default();
                sum[0] += predicted;
                sum[1] += measured;
            }
        }
        println!();
    }
    for (class, [predicted, measured]) in sums {
        println!("{class:24} {predicted:9.0} {measured:9.0} {:5.2}", measured / predicted);
    }
    for (algorithm, layers) in algorithms.iter().zip(&found) {
        let sum = |which: usize| layers.iter().map(|layer| layer[which]).sum::<f64>() / 1e6;
        let (predicted, measured) = (sum(0), sum(1));
        println!("{algorithm:?}: {predicted:.2} ms predicted, {measured:.2} measured");
    }
    Ok(())
}
