//! Every step finds what it would find if layers were computed one after the other.
//!
//! That the layers in their own order read only what has been written is proved elsewhere
//! ([`super::dataflow`]). Here it is proved that the plan's order does not differ where it matters. Two
//! layers that touch the same floats, one of them writing, are in order if all steps of the earlier come
//! before all of the later. If they alternate, their rows are followed step by step: how often each has
//! been written must be how often the layers before the reader, or the next writer, write it. In a ring
//! everything is followed, along with which row a place holds, since writing a row destroys another.

use super::extent::chain_count;
use super::operators::{Operator, rows_read};
use super::{Found, Violation};
use eyelet::ops::Slice;
use eyelet::pack::{NONE, Tensor};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

pub fn check(network: &Network, plan: &Plan, found: &mut Found) {
    let mut spans: Vec<Option<(usize, usize)>> = vec![None; network.layers.len()];
    for (index, step) in plan.steps.iter().enumerate() {
        let span = spans[step.layer as usize].get_or_insert((index, index));
        span.1 = index;
    }
    let mut uses: Vec<Vec<Use>> = network.buffers.iter().map(|_| Vec::new()).collect();
    for (layer, record) in network.layers.iter().enumerate() {
        let output = &network.tensors[record.output as usize];
        let inputs = record.inputs.into_iter().enumerate().filter(|(_, id)| *id != NONE);
        let inputs = inputs.map(|(number, id)| (Some(number), id));
        for (input, id) in inputs.chain([(None, record.output)]) {
            let tensor = network.tensors[id as usize];
            let rows = Operator::of(record).has_rows(record, input, &tensor, output);
            uses[tensor.buffer as usize].push(Use { layer, tensor, rows, writes: input.is_none() });
        }
    }
    let mut memories: Vec<Option<Memory>> = Vec::new();
    for (buffer, uses) in uses.iter().enumerate() {
        let followed = match plan.places[buffer].lines {
            0 => alternating(uses, &spans),
            _ => uses.iter().map(|using| using.layer).collect(),
        };
        memories.push(if followed.is_empty() {
            None
        } else {
            match Memory::new(uses, &followed, plan.places[buffer].lines) {
                Ok(memory) => Some(memory),
                Err(layer) => {
                    found.add(Violation::Alternating { layer, buffer });
                    None
                }
            }
        });
    }
    if memories.iter().any(Option::is_some) {
        follow(network, plan, &mut memories, found);
    }
}

/// A layer and a tensor it reads or writes.
#[derive(Clone, Copy)]
struct Use {
    layer: usize,
    tensor: Tensor,
    /// Row by row.
    rows: bool,
    writes: bool,
}

/// Layers whose steps alternate though one writes what another touches.
fn alternating(uses: &[Use], spans: &[Option<(usize, usize)>]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    // The first step of any of the uses from each one on: all behind it come later.
    let start = |using: &Use| spans[using.layer].map_or(usize::MAX, |span| span.0);
    let mut first: Vec<usize> = uses.iter().map(start).collect();
    (1..first.len()).rev().for_each(|at| first[at - 1] = first[at - 1].min(first[at]));
    for (index, a) in uses.iter().enumerate() {
        let Some(of_a) = spans[a.layer] else { continue };
        for (at, b) in uses.iter().enumerate().skip(index + 1) {
            if of_a.1 < first[at] {
                break;
            }
            let Some(of_b) = spans[b.layer] else { continue };
            if a.layer == b.layer || !(a.writes || b.writes) || of_a.1 < of_b.0 {
                continue;
            }
            let apart = (a.rows && b.rows)
                && columns(&a.tensor).zip(columns(&b.tensor)).is_some_and(|(x, y)| {
                    a.tensor.pitch == b.tensor.pitch && (x.end <= y.start || y.end <= x.start)
                });
            if !apart {
                found.extend([a.layer, b.layer]);
            }
        }
    }
    found
}

/// Where in a row of its pitch a tensor lies.
fn columns(tensor: &Tensor) -> Option<Range<u64>> {
    let start = u64::from(tensor.offset);
    let columns = start..start + u64::from(tensor.cols());
    (columns.end <= tensor.pitch.into()).then_some(columns)
}

/// The rows of a buffer, in lanes: runs of columns that tensors do not divide.
struct Memory {
    /// Rows that there is room for.
    places: u64,
    /// Whether a place holds one row after another.
    ring: bool,
    /// Where lanes start, and where the last one ends.
    cuts: Vec<u64>,
    /// For each lane and place the row that it holds, and how often that has been written.
    cells: Vec<Cell>,
    /// For each layer that is followed how often the layers before it write each lane.
    before: HashMap<usize, Vec<u32>>,
}

#[derive(Clone, Copy, PartialEq)]
struct Cell {
    row: u64,
    writes: u32,
    /// Some panels of the next write have been made, but not all.
    torn: bool,
}

impl Memory {
    /// Fails with a layer whose rows cannot be followed.
    fn new(uses: &[Use], followed: &BTreeSet<usize>, lines: u32) -> Result<Self, usize> {
        let uses = || uses.iter().filter(|using| followed.contains(&using.layer));
        let mut cuts = Vec::new();
        let mut shape = None;
        for using in uses() {
            let tensor = &using.tensor;
            let own = (tensor.rows(), tensor.dims[2], tensor.pitch);
            let columns = columns(tensor).ok_or(using.layer)?;
            if *shape.get_or_insert(own) != own || !using.rows {
                return Err(using.layer);
            }
            cuts.extend([columns.start, columns.end]);
        }
        cuts.sort_unstable();
        cuts.dedup();
        let (rows, width, _) = shape.unwrap_or_default();
        let places = if lines > 0 { u64::from(lines) * u64::from(width) } else { rows };
        let mut memory =
            Self { places, ring: lines > 0, cuts, cells: Vec::new(), before: HashMap::new() };
        let lanes = memory.cuts.len() - 1;
        let mut writes = vec![0; lanes];
        for &layer in followed {
            memory.before.insert(layer, writes.clone());
            for using in uses().filter(|using| using.layer == layer && using.writes) {
                memory.lanes(&using.tensor).for_each(|lane| writes[lane] += 1);
            }
        }
        let nothing = |row| Cell { row, writes: 0, torn: false };
        memory.cells = (0..lanes).flat_map(|_| (0..places).map(nothing)).collect();
        Ok(memory)
    }

    fn lanes(&self, tensor: &Tensor) -> Range<usize> {
        let columns = columns(tensor).unwrap_or_default();
        let at = |column| self.cuts.partition_point(|cut| *cut < column);
        at(columns.start)..at(columns.end)
    }

    /// The first of these rows that is not what the layers before `layer` leave.
    fn read(&self, layer: usize, tensor: &Tensor, rows: Range<u64>) -> Option<u64> {
        let before = self.before.get(&layer)?;
        self.lanes(tensor).find_map(|lane| {
            let writes = before[lane];
            // What only others have written, before all that is followed here.
            if writes == 0 && self.ring {
                return Some(rows.start);
            }
            let cells = &self.cells[lane * self.places as usize..];
            rows.clone().find(|&row| {
                cells[(row % self.places) as usize] != Cell { row, writes, torn: false }
            })
        })
    }

    /// Writes rows, the first or the last panels of which these may be. Returns the first row that the
    /// layer must not write yet, or no more.
    fn write(
        &mut self,
        layer: usize,
        tensor: &Tensor,
        rows: Range<u64>,
        starts: bool,
        ends: bool,
    ) -> Option<u64> {
        let before = self.before.get(&layer)?.clone();
        for lane in self.lanes(tensor) {
            let cells = &mut self.cells[lane * self.places as usize..];
            for row in rows.clone() {
                let cell = &mut cells[(row % self.places) as usize];
                // The first to write a row takes its place in a ring, whatever was there.
                let takes = self.ring && starts && before[lane] == 0;
                let expected = Cell { row, writes: before[lane], torn: !starts };
                if *cell != expected && !takes {
                    return Some(row);
                }
                *cell = Cell { row, writes: before[lane] + u32::from(ends), torn: !ends };
            }
        }
        None
    }
}

/// Goes through the steps.
fn follow(network: &Network, plan: &Plan, memories: &mut [Option<Memory>], found: &mut Found) {
    // Panels made so far of rows that several steps make.
    let mut panels: HashMap<(u32, u32, u32), u32> = HashMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let layer = step.layer as usize;
        let record = &network.layers[layer];
        let output = &network.tensors[record.output as usize];
        let mut wrong = |row: Option<u64>, buffer: u32| {
            if let Some(row) = row {
                let (step, buffer) = (index + 1, buffer as usize);
                found.add(Violation::OutOfOrder { step, layer, buffer, row });
            }
        };
        for (number, input) in record.inputs.into_iter().enumerate() {
            if input == NONE {
                continue;
            }
            let tensor = &network.tensors[input as usize];
            let place = |t: &Tensor| (t.buffer, t.offset, t.dims, t.pitch);
            if place(tensor) == place(output) {
                // What is read in place is judged as it is written.
                continue;
            }
            if let Some(memory) = &memories[tensor.buffer as usize] {
                let rows = rows_read(record, number, tensor, output, step);
                wrong(memory.read(layer, tensor, rows), tensor.buffer);
            }
        }
        if let Some(memory) = &mut memories[output.buffer as usize] {
            let made = panels.entry((step.layer, step.row, step.rows)).or_default();
            // Of the chains of a panel the first ones begin it, and the last ones end it.
            let all = chain_count(network, layer);
            let terms = Slice::from(step).terms(all);
            let starts = *made == 0 && terms.start == 0;
            *made += if terms.end == all { step.count } else { 0 };
            let ends = *made >= record.panels;
            let rows = u64::from(step.row)..u64::from(step.row) + u64::from(step.rows);
            wrong(memory.write(layer, output, rows, starts, ends), output.buffer);
        }
    }
}
