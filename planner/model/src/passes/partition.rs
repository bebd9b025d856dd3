//! Slices that take a value apart along an axis are a split: exporters write either.

use crate::graph::ValueId;
use crate::ops::Work;
use crate::ops::builder::{Item, Program};
use crate::ops::views::{Slice, Split};
use std::collections::HashMap;

/// Replaces every set of slices that covers its input, each element once, by a split.
pub(super) fn join_slices(program: &mut Program) {
    let mut cuts: HashMap<(ValueId, usize), Vec<Cut>> = HashMap::new();
    for (index, item) in program.items.iter().enumerate() {
        if let Some((axis, start, size)) = cut(program, item) {
            let cut = Cut { start, size, item: index };
            cuts.entry((item.inputs[0], axis)).or_default().push(cut);
        }
    }
    let mut joined = Vec::new();
    for ((value, axis), mut cuts) in cuts {
        cuts.sort_by_key(|cut| cut.start);
        let mut next = 0;
        let adjacent =
            cuts.iter().all(|cut| std::mem::replace(&mut next, cut.start + cut.size) == cut.start);
        if !adjacent || next != program.values[value].shape[axis] {
            continue;
        }
        // in the first one's place: the input is there, and nobody has read any of the parts
        let Some(first) = cuts.iter().map(|cut| cut.item).min() else { continue };
        let outputs = cuts.iter().map(|cut| program.items[cut.item].outputs[0]).collect();
        let sizes = cuts.iter().map(|cut| cut.size).collect();
        program.items[first].work = Work::Split(Split { axis, sizes });
        program.items[first].outputs = outputs;
        joined.extend(cuts.iter().map(|cut| cut.item).filter(|item| *item != first));
    }
    let mut index = 0..;
    program.items.retain(|_| index.next().is_some_and(|index| !joined.contains(&index)));
}

/// One slice of several.
struct Cut {
    start: usize,
    size: usize,
    /// Its place among the items.
    item: usize,
}

/// The axis, first element and extent of a slice that narrows one axis only.
fn cut(program: &Program, item: &Item) -> Option<(usize, usize, usize)> {
    let Work::Slice(Slice { starts, steps }) = &item.work else { return None };
    let [whole, part] = [item.inputs[0], item.outputs[0]].map(|value| &program.values[value].shape);
    let mut narrowed = (0..whole.len()).filter(|&axis| whole[axis] != part[axis]);
    let axis = narrowed.next()?;
    (narrowed.next().is_none() && steps[axis] == 1).then_some((axis, starts[axis], part[axis]))
}
