//! Which files a model's data are in.

use super::file;
use super::onnx::{GraphProto, ModelProto, TensorProto};
use crate::darknet;
use crate::open::map;
use crate::replace::folder_of;
use prost::Message;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files beside a model that it says its tensors are in, whether they are needed or not. None of
/// a file that is no model. Of a Darknet .cfg they are its weights.
pub fn external_files(model: &Path) -> Vec<PathBuf> {
    if darknet::is_config(model) {
        return vec![darknet::weights_of(model)];
    }
    let Ok(bytes) = map(model) else { return Vec::new() };
    if file::check_frame(&bytes).is_err() {
        return Vec::new();
    }
    let Ok(ModelProto { graph: Some(graph), .. }) = ModelProto::decode(bytes) else {
        return Vec::new();
    };
    let places = tensors(&graph).flat_map(|tensor| &tensor.external_data);
    let places = places.filter(|entry| entry.key == "location").map(|entry| entry.value.as_str());
    let places: BTreeSet<&str> = places.collect();
    // A model may be a link, with its data beside the link or beside what that leads to.
    let target = model.canonicalize().unwrap_or_else(|_| model.to_path_buf());
    let folders: BTreeSet<&Path> = [folder_of(model), folder_of(&target)].into();
    folders.into_iter().flat_map(|folder| places.iter().map(|place| folder.join(place))).collect()
}

/// All tensors of a graph.
fn tensors(graph: &GraphProto) -> impl Iterator<Item = &TensorProto> {
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    graph.initializer.iter().chain(attributes.filter_map(|attribute| attribute.t.as_ref()))
}
