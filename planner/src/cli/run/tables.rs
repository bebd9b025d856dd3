//! Tables in which a network looks rows up by the integers of its inputs.

use crate::cli::Error;
use eyelet::executor::InferError;
use eyelet::pack::{GatherParams, Layer, LookupParams, OpKind, Port, Skeleton, TakeParams, params};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// Rows of a layer that inputs choose.
struct Table {
    entries: u32,
    /// Numbers of the inputs from which the indices follow.
    inputs: Vec<usize>,
}

/// All tables, in the layers' order.
fn tables(skeleton: &Skeleton<'_>) -> Vec<Table> {
    let buffer = |tensor: u32| skeleton.tensors.get(tensor as usize).map(|tensor| tensor.buffer);
    let of_port = |port: &Port| buffer(port.tensor).filter(|_| port.kind().is_integer());
    let mut follows: Vec<HashSet<u32>> =
        skeleton.inputs.iter().map(|port| of_port(port).into_iter().collect()).collect();
    let mut found = Vec::new();
    for layer in skeleton.layers.iter() {
        let reads = |slot: usize| layer.inputs.get(slot).copied().and_then(buffer);
        if let Some((slot, entries)) = entries(&layer, skeleton) {
            let chooses =
                |input: &usize| reads(slot).is_some_and(|it| follows[*input].contains(&it));
            let inputs = (0..follows.len()).filter(chooses).collect();
            found.push(Table { entries, inputs });
        }
        let kind = OpKind::from_code(layer.kind);
        let moves = matches!(
            kind,
            Some(OpKind::Copy | OpKind::Integer | OpKind::Where | OpKind::Fold | OpKind::Scatter)
        );
        let Some(made) = buffer(layer.output).filter(|_| moves) else { continue };
        for input in &mut follows {
            if (0..layer.inputs.len()).filter_map(reads).any(|it| input.contains(&it)) {
                input.insert(made);
            }
        }
    }
    found
}

/// The input of a layer that has its indices, and how many rows these choose from.
fn entries(layer: &Layer, skeleton: &Skeleton<'_>) -> Option<(usize, u32)> {
    match OpKind::from_code(layer.kind)? {
        OpKind::Gather => Some((0, params::<GatherParams>(layer).entries)),
        OpKind::Lookup => Some((0, params::<LookupParams>(layer).entries)),
        OpKind::Take => Some((1, params::<TakeParams>(layer).entries)),
        OpKind::Scatter => {
            let data = skeleton.tensors.get(layer.inputs[0] as usize)?;
            Some((1, u32::try_from(data.rows()).ok()?))
        }
        _ => None,
    }
}

/// For each input how many rows the smallest table has that it chooses from.
pub fn limits(skeleton: &Skeleton<'_>) -> Vec<Option<u32>> {
    let tables = tables(skeleton);
    let least = |input: usize| {
        let own = tables.iter().filter(|table| table.inputs.contains(&input));
        own.map(|table| table.entries).min()
    };
    (0..skeleton.inputs.len()).map(least).collect()
}

/// The error of an inference. Of an index that its table does not have it names the inputs that may have it.
pub fn failed(skeleton: &Skeleton<'_>, pack: &Path, number: u32, source: InferError) -> Error {
    let path = pack.to_owned();
    let chosen = match source {
        InferError::Index { entries, .. } => chosen_by(skeleton, entries),
        _ => None,
    };
    match chosen {
        Some(inputs) => Error::Index { path, number, source, inputs },
        None => Error::Infer { path, number, source },
    }
}

/// The inputs that choose from tables of so many rows, in words.
fn chosen_by(skeleton: &Skeleton<'_>, entries: u32) -> Option<String> {
    let tables = tables(skeleton);
    let of = tables.iter().filter(|table| table.entries == entries).flat_map(|table| &table.inputs);
    let inputs: BTreeSet<usize> = of.copied().collect();
    let name = |input: &usize| format!("`{}`", skeleton.text(skeleton.inputs[*input].name));
    let names: Vec<String> = inputs.iter().map(name).collect();
    match &names[..] {
        [] => None,
        [one] => Some(format!("input {one}")),
        names => Some(format!("one of the inputs {}", names.join(", "))),
    }
}
