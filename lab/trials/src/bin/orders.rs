//! What the order of layers is worth: `cargo run --release --manifest-path lab/Cargo.toml --bin orders -- [--runs N] NETWORK|MODEL...`.
//!
//! For each network of the zoo, or model in a file, it prints the bytes of activations at the fullest moment, and the
//! smallest budget: in the order of the passes, by a greedy order, and by the order with the least peak. Then it
//! prints the predicted latency by the greedy order and by the least peak in 1.1, 1.5 and 2.5 times that budget, next
//! to the order of the passes. `--runs N` runs N random orders, and compares their outputs bit for bit.

use eyelet::arena::MappedArena;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::pack::crc32c::crc32c;
use eyelet_planner::board::Board;
use eyelet_planner::layout::place_weights;
use eyelet_planner::network::Network;
use eyelet_planner::order::{Dependencies, Live, Order, reordered};
use eyelet_planner::published::JOINT;
use eyelet_planner::search::{self, Effort, PlanError, Request, Strategy};
use eyelet_planner::simulate::simulate;
use eyelet_planner::source::{Io, Source};
use eyelet_planner::write::write_pack;
use eyelet_planner::{import, passes, zoo};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const THREADS: u32 = 1;
/// Shares of the smallest budget for which latencies are predicted.
const BUDGETS: [f64; 3] = [1.1, 1.5, 2.5];

type Failure = Box<dyn Error>;

/// A network in an order, laid out.
struct Ordered {
    network: Network,
    weights_bytes: u64,
}

impl Ordered {
    fn new(network: &Network, order: &[usize]) -> Result<Self, Failure> {
        let mut network = reordered(network, order)?;
        let weights_bytes = place_weights(&mut network);
        Ok(Self { network, weights_bytes })
    }

    fn request<'a>(&'a self, board: &'a Board, budget: u64) -> Request<'a> {
        Request {
            network: &self.network,
            weights_bytes: self.weights_bytes,
            budget,
            threads: THREADS,
            profile: &board.profile,
            exact: true,
            holds_all: false,
        }
    }

    fn smallest(&self, board: &Board) -> Result<u64, Failure> {
        match search::refusal(&self.request(board, 0)) {
            PlanError::Budget { smallest, .. } => Ok(smallest),
            other => Err(other.into()),
        }
    }

    /// Predicted milliseconds, if there is a plan.
    fn latency(&self, board: &Board, budget: u64) -> Option<f64> {
        let request = self.request(board, budget);
        let plan = search::make(&JOINT as &dyn Strategy, &request, Effort::Default).ok()?.plan;
        let ns = simulate(&self.network, &plan, &board.profile, THREADS).steady_ns;
        Some(ns as f64 / 1e6)
    }

    /// The outputs' checksum.
    fn digest(&self, board: &Board, budget: u64, folder: &Path) -> Result<u32, Failure> {
        let request = self.request(board, budget);
        let plan = search::make(&JOINT as &dyn Strategy, &request, Effort::Fast)?.plan;
        let path = folder.join("order.pack");
        write_pack(&path, &self.network, self.weights_bytes, &[plan], &[0], &mut |_| {})?;
        let mut storage = Source::open(&CString::new(path.as_os_str().as_bytes())?, Io::Buffered)?;
        let mut arena = MappedArena::new(budget as usize)?;
        let mut memory = arena.memory();
        let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), Options::default())?;
        let mut model = instance.inline(&mut storage);
        for index in 0..model.inputs().len() {
            match model.input_words_mut(index) {
                Ok(words) => words.iter_mut().enumerate().for_each(|(at, x)| *x = at as i32 % 97),
                Err(_) => (model.input_mut(index)?.iter_mut().enumerate())
                    .for_each(|(at, x)| *x = (at * 37 % 101) as f32 / 50.0 - 1.0),
            }
        }
        model.infer(&Inline)?;
        let mut digest = 0;
        for index in 0..model.outputs().len() {
            let bytes: Vec<u8> =
                model.output(index)?.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect();
            digest = crc32c(digest, &bytes);
        }
        Ok(digest)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Prints what its order is worth to a network.
fn compare(name: &str, network: &Network, board: &Board) -> Result<u64, Failure> {
    let live = Live::new(network);
    let given = live.of(&(0..network.layers.len()).collect::<Vec<_>>());
    let greedy = live.greedy();
    let (least, certain) = live.least(&greedy);
    let ordered = |order: &Order| Ordered::new(network, &order.layers);
    let all = [ordered(&given)?, ordered(&greedy)?, ordered(&least)?];
    let smallest = [all[0].smallest(board)?, all[1].smallest(board)?, all[2].smallest(board)?];
    println!(
        "| {name} | {} | {:.2} | {:.2} | {:.2} | {:.2}{} | {:.2} | {:.2} | {:.2} |",
        network.layers.len(),
        mib(live.floor()),
        mib(given.peak),
        mib(greedy.peak),
        mib(least.peak),
        if certain { "" } else { " or less" },
        mib(smallest[0]),
        mib(smallest[1]),
        mib(smallest[2]),
    );
    for times in BUDGETS {
        let budget = (smallest[0] as f64 * times) as u64 / 4096 * 4096;
        let ms = all.each_ref().map(|ordered| ordered.latency(board, budget));
        let [Some(given), greedy, least] = ms else { continue };
        let change = |ms: Option<f64>| {
            ms.map_or("no plan".into(), |ms| format!("{:+.2} %", 100.0 * (ms / given - 1.0)))
        };
        println!(
            "    {name} in {:.1} MiB: {given:.2} ms; greedy {}, least peak {}",
            mib(budget),
            change(greedy),
            change(least)
        );
    }
    Ok(smallest[0])
}

/// Runs random orders, and compares their outputs.
fn run(
    name: &str,
    network: &Network,
    board: &Board,
    smallest: u64,
    runs: usize,
) -> Result<(), Failure> {
    let (folder, budget) = (tempfile::tempdir()?, 2 * smallest);
    let dependencies = Dependencies::of(network);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut digests = Vec::new();
    let mut different = std::collections::BTreeSet::new();
    while digests.len() < runs {
        let order = dependencies.order_by(|ready| random.random_range(0..ready.len()));
        let ordered = Ordered::new(network, &order)?;
        different.insert(order);
        // Another order may need more memory.
        let budget = budget.max(ordered.smallest(board)?);
        digests.push(ordered.digest(board, budget, folder.path())?);
    }
    digests.sort_unstable();
    digests.dedup();
    println!("    {name}: {runs} runs of {} orders, digests {digests:08x?}", different.len());
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1).peekable();
    let mut runs = 0;
    if args.next_if_eq("--runs").is_some() {
        runs = args.next().ok_or("--runs: how many?")?.parse()?;
    }
    let board = eyelet_planner::board::host()?;
    println!(
        "| network | layers | fullest layer | as it is | greedy | least | smallest budget | greedy | least |\n|---|---|---|---|---|---|---|---|---|"
    );
    for name in args {
        let folder = tempfile::tempdir()?;
        let mut path = PathBuf::from(&name);
        if !path.exists() {
            let darknet =
                if name.starts_with("yolo") && name != "yolov8n" { "cfg" } else { "onnx" };
            path = folder.path().join("model").with_extension(darknet);
            zoo::write(&name, 1, &path)?;
        }
        let graph = import::import(&path).map_err(|error| error.to_string())?;
        let network = passes::lower(&graph, board.profile.isa)?;
        let smallest = compare(&name, &network, &board)?;
        if runs > 0 {
            run(&name, &network, &board, smallest, runs)?;
        }
    }
    Ok(())
}
