//! What is in a pack of one shape: its network, its plans, how each plan uses its arena.

use super::Args;
use crate::cli::Error;
use crate::cli::forecast::Forecast;
use crate::cli::output::{is_zero, milliseconds, shape};
use crate::cli::pack_file::{PackFile, Strategies, planner_types, shape_of};
use crate::cli::target::MemoryUse;
use eyelet::kernels::Isa;
use eyelet::pack::{
    Encoding, FAST, Layer, LayerNames, NONE, OpKind, Place, PlanEntry, PlanView, Port, Skeleton,
    Tensor, ring_bytes,
};
use eyelet_planner::board::Device;
use eyelet_planner::plan::weight_buffer_bytes;
use eyelet_planner::size;
use serde::Serialize;
use std::fmt;

/// The network in one shape.
#[derive(Debug, Serialize)]
pub(super) struct ShapeReport {
    /// Its name, of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<String>,
    network: String,
    skeleton_bytes: u32,
    buffers: usize,
    tensors: usize,
    inputs: Vec<PortReport>,
    outputs: Vec<PortReport>,
    plans: Vec<PlanReport>,
    layers: Vec<LayerReport>,
}

#[derive(Debug, Serialize)]
struct PortReport {
    name: String,
    shape: Vec<usize>,
}

#[derive(Debug, Serialize)]
struct PlanReport {
    strategy: String,
    budget_bytes: u64,
    arena_bytes: u64,
    /// Bytes of fast memory, of a plan for a board that has it.
    #[serde(skip_serializing_if = "is_zero")]
    fast_bytes: u64,
    #[serde(flatten)]
    memory_use: MemoryUse,
    threads: u32,
    steps: usize,
    loads: usize,
    resident_loads: usize,
    resident_bytes: u64,
    /// Bytes of weights that steps use where they lie in the pack, of one that lies in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_place_bytes: Option<u64>,
    /// Bytes of the arena that weights are ever in.
    weight_buffer_bytes: u64,
    bytes_read_per_inference: u64,
    predicted_ms: Option<f64>,
    /// By the profiles that were given.
    forecasts: Vec<Forecast>,
    memory: Memory,
    rings: Vec<RingReport>,
}

/// A buffer of which only some image lines are in memory at a time.
#[derive(Debug, Serialize)]
struct RingReport {
    buffer: usize,
    /// The layer that writes it first.
    layer: String,
    lines: u32,
    of_lines: u32,
    bytes: u64,
    of_bytes: u64,
}

/// How a plan uses its arena. Ranges are `[start, end)` in bytes; ranges of different kinds overlap
/// where they are used at different times.
#[derive(Debug, Serialize)]
struct Memory {
    tables: [u64; 2],
    activations: [u64; 2],
    resident: [u64; 2],
    streamed: [u64; 2],
    scratch: [u64; 2],
    /// The arena cut into 64 cells: which kinds are ever in each.
    map: String,
}

#[derive(Debug, Serialize)]
struct LayerReport {
    name: String,
    kind: String,
    inputs: Vec<[u32; 4]>,
    output: [u32; 4],
    weights_bytes: u64,
    /// How its weights are stored; none where it has no panels of them.
    encoding: Option<&'static str>,
    /// Steps of the layer in each plan.
    slices: Vec<usize>,
    /// In each plan the tile by which its steps compute it instead of its own algorithm; 0 where they do not.
    algorithms: Vec<u32>,
}

fn plan_report(
    isa: Isa,
    (skeleton, names): (&Skeleton<'_>, LayerNames<'_>),
    plan: &PlanView<'_>,
    entry: &PlanEntry,
    tables: u64,
) -> PlanReport {
    let ports = skeleton.inputs.iter().chain(skeleton.outputs).map(|port| port.tensor);
    PlanReport {
        strategy: Strategies::of(names).name(entry),
        budget_bytes: entry.budget,
        arena_bytes: entry.arena_bytes,
        fast_bytes: entry.fast_bytes(),
        memory_use: MemoryUse::new(
            isa,
            entry.arena_bytes,
            plan.staging_bytes,
            skeleton.tensors,
            ports,
        ),
        threads: entry.threads.into(),
        steps: plan.steps.len(),
        loads: plan.loads.len(),
        resident_loads: plan.resident.len(),
        resident_bytes: plan.resident.iter().map(|load| u64::from(load.bytes)).sum(),
        in_place_bytes: None,
        weight_buffer_bytes: weight_buffer_bytes(plan.resident.iter().chain(plan.loads.iter())),
        bytes_read_per_inference: plan.loads.iter().map(|load| u64::from(load.bytes)).sum(),
        predicted_ms: (entry.predicted_ns > 0).then(|| milliseconds(entry.predicted_ns)),
        forecasts: Vec::new(),
        memory: memory(skeleton, plan, entry.arena_bytes, tables),
        rings: rings(skeleton, |layer| names.of(entry.shape.into(), layer), plan),
    }
}

fn rings<'a>(
    skeleton: &Skeleton<'_>,
    name: impl Fn(usize) -> &'a str,
    plan: &PlanView<'_>,
) -> Vec<RingReport> {
    let ring = |(buffer, place): (usize, Place)| {
        let of = |tensor: &&Tensor| tensor.buffer as usize == buffer;
        let tensor = skeleton.tensors.iter().find(of).filter(|_| place.lines > 0)?;
        let writes = |layer: Layer| of(&&skeleton.tensors[layer.output as usize]);
        let layer = skeleton.layers.iter().position(writes);
        Some(RingReport {
            buffer,
            layer: layer.map_or(String::new(), |layer| name(layer).to_owned()),
            lines: place.lines,
            of_lines: tensor.dims[1],
            bytes: held_bytes(skeleton, buffer, &place),
            of_bytes: skeleton.buffers.at(buffer).bytes,
        })
    };
    plan.places.iter().enumerate().filter_map(ring).collect()
}

/// What a buffer takes in a plan.
fn held_bytes(skeleton: &Skeleton<'_>, buffer: usize, place: &Place) -> u64 {
    let tensor = skeleton.tensors.iter().find(|tensor| tensor.buffer as usize == buffer);
    match tensor {
        Some(tensor) if place.lines > 0 => ring_bytes(place.lines, tensor.dims[2], tensor.pitch),
        _ => skeleton.buffers.at(buffer).bytes,
    }
}

/// Kinds of memory and their letters, in the order of [`Memory`].
const LETTERS: [char; 5] = ['t', 'a', 'r', 'w', 's'];
const CELLS: u64 = 64;

fn memory(skeleton: &Skeleton<'_>, plan: &PlanView<'_>, arena: u64, tables: u64) -> Memory {
    let mut hulls = [[0u64; 2]; LETTERS.len()];
    let mut cells = [[false; LETTERS.len()]; CELLS as usize];
    let mut mark = |kind: usize, start: u64, bytes: u64| {
        // What lies in fast memory is not on the arena's map.
        if bytes == 0 || start >= FAST {
            return;
        }
        let end = start + bytes;
        let hull = &mut hulls[kind];
        *hull = if hull[1] == 0 { [start, end] } else { [hull[0].min(start), hull[1].max(end)] };
        let cell = |byte: u64| (byte * CELLS / arena.max(1)).min(CELLS - 1) as usize;
        (cell(start)..=cell(end - 1)).for_each(|cell| cells[cell][kind] = true);
    };
    mark(0, 0, tables);
    for (buffer, place) in plan.places.iter().enumerate() {
        mark(1, place.address, held_bytes(skeleton, buffer, &place));
    }
    plan.resident.iter().for_each(|load| mark(2, load.address, load.bytes.into()));
    plan.loads.iter().for_each(|load| mark(3, load.address, load.bytes.into()));
    plan.steps.iter().for_each(|step| mark(4, step.scratch, step.scratch_bytes));
    let letter = |cell: &[bool; LETTERS.len()]| match cell.iter().filter(|is| **is).count() {
        0 => '.',
        1 => LETTERS[cell.iter().position(|is| *is).unwrap_or(0)],
        _ => '*',
    };
    let [tables, activations, resident, streamed, scratch] = hulls;
    let map = cells.iter().map(letter).collect();
    Memory { tables, activations, resident, streamed, scratch, map }
}

/// A tensor's extent without leading ones.
fn dims(dims: &[u32; 4]) -> String {
    let ones = dims.iter().take(3).take_while(|extent| **extent == 1).count();
    shape(&dims[ones..])
}

impl ShapeReport {
    /// A shape of a pack, with its plans.
    pub(super) fn new(args: &Args, pack: &PackFile, shape: usize) -> Result<Self, Error> {
        let mut plans = Vec::new();
        let mut views = Vec::new();
        let (mut skeleton, names) = (pack.skeleton(shape)?, pack.names()?);
        for entry in pack.entries.iter().filter(|entry| usize::from(entry.shape) == shape) {
            // What is not proved may have indices that lead nowhere.
            let proven = pack.prove(entry)?;
            skeleton = *proven.skeleton();
            views.push(*proven.plan());
            let (plan, tables) = (proven.plan(), pack.tables(entry));
            let report = plan_report(pack.isa, (&skeleton, names), plan, entry, tables);
            let forecasts = Forecast::by_all(&args.profile, &args.pack, pack, entry)?;
            let in_place_bytes = match pack.header.mapped {
                0 => None,
                _ => {
                    let (network, plan) = planner_types(pack, &proven, entry)?;
                    Some(plan.in_place_bytes(&network))
                }
            };
            plans.push(PlanReport { forecasts, in_place_bytes, ..report });
        }
        let port = |port: &Port| PortReport {
            name: skeleton.text(port.name).to_owned(),
            shape: shape_of(port),
        };
        let layers = skeleton.layers.iter().enumerate().map(|(index, layer)| LayerReport {
            name: names.of(shape, index).to_owned(),
            kind: OpKind::from_code(layer.kind).map_or("?".to_owned(), |kind| format!("{kind:?}")),
            inputs: layer
                .inputs
                .iter()
                .filter(|id| **id != NONE)
                .map(|id| skeleton.tensors[*id as usize].dims)
                .collect(),
            output: skeleton.tensors[layer.output as usize].dims,
            weights_bytes: u64::from(layer.panels) * u64::from(layer.panel_bytes),
            slices: views
                .iter()
                .map(|plan| plan.steps.iter().filter(|step| step.layer as usize == index).count())
                .collect(),
            encoding: match OpKind::from_code(layer.kind) {
                Some(kind) if kind.has_panels() => layer.encoding().map(Encoding::name),
                _ => None,
            },
            algorithms: views
                .iter()
                .map(|plan| {
                    let mut steps = plan.steps.iter();
                    steps
                        .find(|step| step.layer as usize == index)
                        .map_or(0, |step| step.algorithm())
                })
                .collect(),
        });
        Ok(Self {
            shape: (pack.shapes.len() > 1).then(|| names.of_shape(shape).to_owned()),
            network: skeleton.name().to_owned(),
            skeleton_bytes: pack.shapes[shape].bytes,
            buffers: skeleton.buffers.len(),
            tensors: skeleton.tensors.len(),
            inputs: skeleton.inputs.iter().map(port).collect(),
            outputs: skeleton.outputs.iter().map(port).collect(),
            plans,
            layers: layers.collect(),
        })
    }

    /// The network's name.
    pub(super) fn network(&self) -> &str {
        &self.network
    }

    /// Whether the pack has no other shape.
    pub(super) fn is_only(&self) -> bool {
        self.shape.is_none()
    }

    /// All of it, as text.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, device: Device) -> fmt::Result {
        self.head(f)?;
        self.table(f)?;
        self.arenas(f, device)?;
        self.rings(f)?;
        self.table_of_layers(f)
    }

    /// What it is of.
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shape) = &self.shape {
            writeln!(f, "\nshape {shape}")?;
        }
        writeln!(
            f,
            "skeleton {}: {} layers, {} tensors in {} buffers",
            size::human(self.skeleton_bytes.into()),
            self.layers.len(),
            self.tensors,
            self.buffers
        )?;
        for (what, ports) in [("input", &self.inputs), ("output", &self.outputs)] {
            for port in ports {
                writeln!(f, "{what} {} {}", port.name, shape(&port.shape))?;
            }
        }
        Ok(())
    }

    /// A line for each plan.
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:>10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>12}  strategy",
            "budget", "arena", "resident", "streamed", "steps", "loads", "threads", "predicted"
        )?;
        for plan in &self.plans {
            let predicted = plan.predicted_ms.map_or("-".to_owned(), |ms| format!("{ms:.2} ms"));
            writeln!(
                f,
                "{:>10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {predicted:>12}  {}",
                size::human(plan.budget_bytes),
                size::human(plan.arena_bytes),
                size::human(plan.resident_bytes),
                size::human(plan.bytes_read_per_inference),
                plan.steps,
                plan.loads,
                plan.threads,
                plan.strategy
            )?;
        }
        for plan in self.plans.iter() {
            let budget = size::human(plan.budget_bytes);
            if plan.fast_bytes > 0 {
                let bytes = size::human(plan.fast_bytes);
                writeln!(f, "{budget:>10} has {bytes} of buffers and scratch in fast memory")?;
            }
            if let Some(bytes) = plan.in_place_bytes.map(size::human) {
                writeln!(f, "{budget:>10} uses {bytes} of weights where they lie in the pack")?;
            }
            for forecast in &plan.forecasts {
                writeln!(f, "{:>10} takes {forecast}", size::human(plan.budget_bytes))?;
            }
        }
        Ok(())
    }

    /// A map of each arena.
    fn arenas(&self, f: &mut fmt::Formatter<'_>, device: Device) -> fmt::Result {
        writeln!(
            f,
            "\narenas: t tables, a activations, r resident weights, w streamed weights, s scratch, \
             * several of them at different times"
        )?;
        for plan in &self.plans {
            writeln!(f, "{:>10} [{}]", size::human(plan.budget_bytes), plan.memory.map)?;
        }
        for plan in self.plans.iter().filter(|_| device == Device::Cuda) {
            writeln!(f, "{:>10} lies {}", size::human(plan.budget_bytes), plan.memory_use)?;
        }
        Ok(())
    }

    /// Buffers that hold a few lines of an image.
    fn rings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.plans.iter().any(|plan| !plan.rings.is_empty()) {
            writeln!(
                f,
                "\nrings: of the lines that a layer makes, so many are in memory at a time"
            )?;
        }
        for plan in &self.plans {
            for ring in &plan.rings {
                writeln!(
                    f,
                    "{:>10} {:>4} of {:>4} lines, {:>9} of {:>9}  {}",
                    size::human(plan.budget_bytes),
                    ring.lines,
                    ring.of_lines,
                    size::human(ring.bytes),
                    size::human(ring.of_bytes),
                    ring.layer
                )?;
            }
        }
        Ok(())
    }

    fn table_of_layers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.layers.iter().map(|layer| layer.name.chars().count()).max();
        let width = width.unwrap_or(0).clamp(5, 40);
        writeln!(
            f,
            "\n{:>5} {:<width$} {:<10} {:<24} {:<14} {:>9} {:<5} slices (F2, F4: of weights that they transform)",
            "", "layer", "operator", "inputs", "output", "weights", ""
        )?;
        for (index, layer) in self.layers.iter().enumerate() {
            let inputs: Vec<String> = layer.inputs.iter().map(dims).collect();
            let algorithms = layer.slices.iter().zip(&layer.algorithms);
            let slices = algorithms.map(|(slices, tile)| match tile {
                0 => slices.to_string(),
                tile => format!("{slices} F{tile}"),
            });
            let slices: Vec<String> = slices.collect();
            let weights = match layer.weights_bytes {
                0 => "-".to_owned(),
                bytes => size::human(bytes),
            };
            writeln!(
                f,
                "{index:>5} {:<width$} {:<10} {:<24} {:<14} {weights:>9} {:<5} {}",
                layer.name,
                layer.kind,
                inputs.join(", "),
                dims(&layer.output),
                layer.encoding.unwrap_or(""),
                slices.join(" / ")
            )?;
        }
        Ok(())
    }
}
