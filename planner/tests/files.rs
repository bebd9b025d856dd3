//! Files of the command: what is no file is refused, figures do not depend on names, and whatever ends the command leaves no
//! fragment.

mod command;

#[path = "files/mounts.rs"]
mod mounts;
#[path = "files/signals.rs"]
mod signals;
#[path = "files/statistics.rs"]
mod statistics;
#[path = "files/strange.rs"]
mod strange;

use eyelet_planner::import::onnx::ModelProto;
use prost::Message;
use std::path::Path;

/// The digits' network with changes.
fn changed(to: &Path, change: impl FnOnce(&mut ModelProto)) {
    let bytes = std::fs::read(command::digits()).unwrap();
    let mut model = ModelProto::decode(bytes::Bytes::from(bytes)).unwrap();
    change(&mut model);
    std::fs::write(to, model.encode_to_vec()).unwrap();
}
