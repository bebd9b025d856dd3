//! SwapNet's delay model, fitted to what layers of networks are predicted to take on a board:
//! `cargo run --release --manifest-path lab/Cargo.toml --bin delays -- BOARD NETWORK...`, with networks of
//! `eyelet zoo`.

use eyelet_planner::algorithm::Algorithm;
use eyelet_planner::board::Board;
use eyelet_planner::layout::place_weights;
use eyelet_planner::published::swapnet;
use eyelet_planner::search::Request;
use eyelet_planner::{import, passes, zoo};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let board = Board::load(&arguments.next().ok_or("give a board and networks")?)?;
    let folder = tempfile::tempdir()?;
    for name in arguments {
        let path = folder.path().join("model.onnx");
        zoo::write(&name, 1, &path)?;
        let mut network = passes::lower(&import::import(&path)?, board.profile.isa)?;
        for layer in 0..network.layers.len() {
            if Algorithm::Direct.serves(&network, layer) {
                Algorithm::Direct.set(&mut network, layer);
            }
        }
        let weights_bytes = place_weights(&mut network);
        let request = Request {
            network: &network,
            weights_bytes,
            budget: u64::MAX,
            threads: 1,
            profile: &board.profile,
            exact: true,
            holds_all: false,
        };
        match swapnet::fit(&request) {
            Some(fit) => println!("{name}, {} layers with weights\n{fit}\n", fit.samples),
            None => println!("{name} has no weights\n"),
        }
    }
    Ok(())
}
