//! Files of the command: no output replaces an input, no output replaces another, what is no file is refused, and whatever
//! ends the command leaves no fragment.

mod clobber;
mod destinations;
mod mounts;
mod signals;
mod statistics;
mod strange;

use crate::common::command;
use eyelet_planner::import::onnx::{ModelProto, NodeProto};
use prost::Message;
use std::path::Path;

/// The digits' network with changes.
fn changed(to: &Path, change: impl FnOnce(&mut ModelProto)) {
    let bytes = std::fs::read(command::digits()).unwrap();
    let mut model = ModelProto::decode(bytes::Bytes::from(bytes)).unwrap();
    change(&mut model);
    std::fs::write(to, model.encode_to_vec()).unwrap();
}

/// Names the network's output by all of these: the values are the same in each.
fn name_outputs(model: &mut ModelProto, names: &[&str]) {
    let graph = model.graph.as_mut().unwrap();
    let output = graph.output[0].clone();
    graph.output.clear();
    for name in names {
        let (input, result) = (vec![output.name.clone()], vec![(*name).to_owned()]);
        let op_type = "Neg".to_owned();
        graph.node.push(NodeProto { input, output: result, op_type, ..NodeProto::default() });
        let mut port = output.clone();
        port.name = (*name).to_owned();
        graph.output.push(port);
    }
}
