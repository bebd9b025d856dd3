//! Whole models, by hand: `EYELET_MODELS=a.onnx:b.onnx cargo test -p eyelet-planner whole_models -- --ignored`.

use super::*;
use crate::import::import;

#[test]
#[ignore = "needs models, named in EYELET_MODELS, and minutes"]
fn whole_models_compute_what_their_graphs_say() {
    let paths = std::env::var("EYELET_MODELS").expect("EYELET_MODELS names models");
    for path in paths.split(':') {
        let net = Net { graph: import(path.as_ref()).unwrap(), seed: 1 };
        let layers = net.check_within(0.0).layers.len();
        println!("{path}: {layers} layers agree");
    }
}
