//! SwapNet as published (TMC '24), by eyelet's kernels and runtime: blocks of layers, of which two
//! are in memory. While one computes, the next is read.
//!
//! A block is loaded as a whole, into the memory of the block before the last, once that has
//! computed. Where weights are shared by layers, a block can take more than one contiguous read.
//! Blocks lie in turn at the start and at the end of a region of their own: so any two neighbours
//! fit if their sum does. Activations and scratch lie below the region, and share nothing with it.
//!
//! The delay model is fitted to the predicted costs of the network's layers ([`fit`]), and
//! [`eyelet_tasks::swapnet::blocks`] cuts by it: `n = ⌈2·s/b⌉` blocks by Eq. 4. `b` is what the
//! budget leaves for weights. That is exact here, where the publication reserves a share `δ`.
//! Leaving memory costs nothing, so `η` is 0. A layer that is read counts as one parameter: nothing
//! is assembled.
//!
//! As published, inferences are planned one by one, and a network that fits stays in memory.

use crate::contest::Contest;
use eyelet::pack::{Load, MatMulParams, OpKind, PAGE, Step, params};
use eyelet_model::network::{Network, Weights};
use eyelet_model::plan::{Plan, step_weights};
use eyelet_plan::search::parts::{Built, Design, Loading, PlanBuilder, SLICE, refuse, stage};
use eyelet_plan::search::{PlanError, PlanResult, Request, Strategy};
use eyelet_plan::simulate::Costs;
use eyelet_plan::slice::{Cutting, Read, Slices};
use eyelet_tasks::swapnet::blocks::{Budget, partition};
use eyelet_tasks::swapnet::chain::{Block, Chain, Objective, ranges};
use eyelet_tasks::swapnet::delays::{Fit, Layer, Sample, Times};
use std::ops::Range;
use std::time::Instant;

/// SwapNet's blocks of layers, two in memory.
#[derive(Clone, Copy, Debug)]
pub struct SwapNet;

impl Strategy for SwapNet {
    fn name(&self) -> &'static str {
        "swapnet"
    }

    fn about(&self) -> &'static str {
        "SwapNet: blocks of layers, two in memory"
    }

    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError> {
        plan_on(&PlanBuilder::new(request))
    }

    /// Unless all weights stay, each inference reads all of them, with several layers in one read.
    fn faster(&self, builder: &PlanBuilder<'_>, than_ns: u64, may_read: bool) -> Option<Built> {
        let uniform = |cutting| {
            Design::uniform(cutting, &builder.request.network.on_load, Loading::Inference)
        };
        let stay = builder.least_bytes(&uniform(Cutting::RESIDENT)) <= builder.request.budget;
        let layers = uniform(Cutting::LAYERS);
        let slices = layers.slices(builder.request.network, &builder.activations);
        let mut contest = Contest::new(builder, than_ns, may_read);
        if (stay || all_read_ns(builder, &slices) < than_ns)
            && let Ok(made) = plan_on(builder)
        {
            contest.consider(made.plan);
        }
        contest.fastest()
    }
}

/// The plan for the request of a builder in which no layers slide.
fn plan_on(builder: &PlanBuilder<'_>) -> Result<PlanResult, PlanError> {
    let start = Instant::now();
    let request = &builder.request;
    let made = |plan| PlanResult { plan, constructive: start.elapsed(), ..PlanResult::default() };
    let uniform = |cutting| Design::uniform(cutting, &request.network.on_load, Loading::Inference);
    let all = uniform(Cutting::RESIDENT);
    let all_bytes = builder.least_bytes(&all);
    if all_bytes <= request.budget {
        let plan = builder.place_lowest(&all, request.budget);
        return Ok(made(plan.expect("all weights fit from their least bytes on")));
    }
    let slices = uniform(Cutting::LAYERS).slices(request.network, &builder.activations);
    if slices.reads.is_empty() {
        let place = |budget| builder.place_lowest(&all, budget);
        return Err(refuse(request, all_bytes, SLICE, &place));
    }
    // With a load for each layer, its tables are the largest.
    let frame = builder.sliced(slices.clone()).frame(request);
    let layers = layers(request.network, &slices, &frame.steps, &builder.precomputed.costs);
    let chain = chain(request.network, &layers);
    let (first, last, pair) = chain.floor();
    let smallest = frame.arena_bytes + pair;
    if smallest > request.budget {
        let bytes = |layer: &usize| chain.block(*layer..layer + 1).bytes;
        let largest = [first, last].into_iter().max_by_key(bytes).unwrap_or(0);
        return Err(PlanError::Budget {
            network: request.network.name.clone(),
            budget: request.budget,
            smallest: smallest.min(all_bytes),
            layer: chain.names.get(largest).cloned().unwrap_or_default(),
            reason: "its weights and a neighbour's, next to all activations and scratch".to_owned(),
        });
    }
    // Eq. 3 asks for less than a budget; here blocks may take all of the room.
    let room = (request.budget / PAGE * PAGE - frame.arena_bytes) + 1;
    let budget = Budget { bytes: room, reserved: 0.0 };
    let found = partition(&chain, budget, Objective::Residuals);
    let found = found.expect("the largest neighbours fit the room");
    let blocks: Vec<Range<usize>> = ranges(&found.cuts, chain.len()).collect();
    Ok(made(lay(builder, &slices, &blocks)))
}

/// No plan takes less if each inference reads all of these bytes in the order of the steps, in
/// whatever reads.
fn all_read_ns(builder: &PlanBuilder<'_>, slices: &Slices) -> u64 {
    let in_llc = builder.costs.fits_llc(builder.least_tables());
    let ns_per_byte = builder.costs.service(in_llc).least_ns_per_byte();
    let (mut end, mut bytes, mut ns) = (0, 0, 0.0f64);
    for (index, step) in slices.steps.iter().enumerate() {
        let read = slices.read_of[index].map(|at| &slices.reads[at]);
        if let Some(read) = read.filter(|read| read.first == index) {
            // Neighbours can have a page in common.
            let to = read.offset + read.bytes;
            bytes += to.saturating_sub(read.offset.max(end));
            end = end.max(to);
            ns = ns.max(bytes as f64 * ns_per_byte);
        }
        ns += builder.costs.least_ns_from(step, f64::INFINITY, None, in_llc);
    }
    ns as u64
}

/// The delay model of a network on a board, fitted to the predicted costs of its layers; nothing
/// if it has no weights.
pub fn fit(request: &Request<'_>) -> Option<Fit> {
    let builder = PlanBuilder::new(request);
    let design = Design::uniform(Cutting::LAYERS, &request.network.on_load, Loading::Inference);
    let slices = design.slices(request.network, &builder.activations);
    let frame = builder.sliced(slices.clone()).frame(request);
    let layers = layers(request.network, &slices, &frame.steps, &builder.precomputed.costs);
    Fit::new(&layers).ok()
}

/// The layers with weights, and what they are predicted to take; those without count to the one
/// before them.
fn layers(network: &Network, slices: &Slices, steps: &[Step], costs: &Costs) -> Vec<Sample> {
    let ends = slices.reads.iter().skip(1).map(|read| read.first);
    let ends = ends.chain(std::iter::once(steps.len()));
    let mut start = 0;
    let sample = |(read, end): (&Read, usize)| {
        let own = &steps[std::mem::replace(&mut start, end)..end];
        let name = &network.names[steps[read.first].layer as usize];
        Sample {
            layer: Layer {
                name: name.clone(),
                bytes: read.bytes,
                depth: 1,
                flops: own.iter().map(|step| flops(network, step)).sum(),
            },
            times: Times {
                in_ns: costs.load_ns(read.bytes) as i64,
                ex_ns: own.iter().map(|step| costs.step_ns(step) as i64).sum(),
                out_ns: 0,
            },
        }
    };
    slices.reads.iter().zip(ends).map(sample).collect()
}

/// Floating-point operations of a step that is a whole layer; those of layers that multiply nothing
/// do not count.
fn flops(network: &Network, step: &Step) -> f64 {
    let layer = step.layer as usize;
    match &network.weights[layer] {
        Weights::Dense(dense) | Weights::Depthwise(dense) | Weights::Winograd(dense, _) => {
            2.0 * dense.out_channels as f64 * dense.k as f64 * f64::from(step.rows)
        }
        _ if network.layers[layer].kind == OpKind::MatMul as u32 => {
            let MatMulParams { batch, m, k, n, .. } = params(&network.layers[layer]);
            2.0 * [batch, m, k, n].into_iter().map(f64::from).product::<f64>()
        }
        _ => 0.0,
    }
}

/// The layers with the times that the fitted model has for them.
fn chain(network: &Network, layers: &[Sample]) -> Chain {
    let fit = Fit::new(layers).ok();
    let block = |sample: &Sample| {
        let times = fit.map_or(sample.times, |fit| fit.delays.of(&sample.layer));
        (sample.layer.name.clone(), Block { bytes: sample.layer.bytes, times })
    };
    Chain::new(&network.name, layers.iter().map(block))
}

/// Joins the reads of each block, as far as one continues where the other ends. With the reads of
/// each block.
fn join(slices: &Slices, blocks: &[Range<usize>]) -> (Slices, Vec<Range<usize>>) {
    let mut reads: Vec<Read> = Vec::new();
    let (mut joined, mut of_blocks) = (vec![0; slices.reads.len()], Vec::new());
    for block in blocks {
        let from = reads.len();
        for index in block.clone() {
            let read = &slices.reads[index];
            let end = read.offset + read.bytes;
            let last = reads[from..].last_mut();
            let follows =
                |last: &&mut Read| (last.offset..=last.offset + last.bytes).contains(&read.offset);
            match last.filter(follows) {
                Some(last) => {
                    last.bytes = last.bytes.max(end - last.offset);
                    last.last = read.last;
                }
                None => reads.push(Read { parts: 0..0, ..read.clone() }),
            }
            joined[index] = reads.len() - 1;
        }
        of_blocks.push(from..reads.len());
    }
    let read_of = slices.read_of.iter().map(|read| read.map(|read| joined[read])).collect();
    (Slices { steps: slices.steps.clone(), reads, read_of, parts: Vec::new() }, of_blocks)
}

/// Blocks in turn at the start and at the end of the region above activations and scratch.
fn lay(builder: &PlanBuilder<'_>, slices: &Slices, blocks: &[Range<usize>]) -> Plan {
    let request = &builder.request;
    let (joined, of_blocks) = join(slices, blocks);
    let (reads, read_of) = (joined.reads.clone(), joined.read_of.clone());
    let mut plan = builder.sliced(joined).frame(request);
    let bytes_of = |loads: &Range<usize>| reads[loads.clone()].iter().map(|read| read.bytes).sum();
    let bytes: Vec<u64> = of_blocks.iter().map(bytes_of).collect();
    let pairs = bytes.windows(2).map(|pair| pair[0] + pair[1]);
    let region = pairs.chain(bytes.first().copied()).max().unwrap_or(0);
    let base = plan.arena_bytes;
    plan.arena_bytes += region;
    // The first step of each block; those before the first weights need no block.
    let first = |block: usize| slices.reads[blocks[block].start].first;
    for (block, loads) in of_blocks.iter().enumerate() {
        let mut address = if block % 2 == 0 { base } else { base + region - bytes[block] };
        // All steps of the block before the last are done, and the host's turn, which counts as
        // one.
        let release = block.checked_sub(1).filter(|_| block >= 2).map_or(1, |next| first(next) + 1);
        for read in &reads[loads.clone()] {
            let (offset, bytes) = (read.offset, read.bytes as u32);
            let release = release as i32;
            plan.loads.push(Load { offset, address, bytes, release, ..Load::default() });
            address += read.bytes;
        }
        let from = first(block);
        let to = if block + 1 < blocks.len() { first(block + 1) } else { plan.steps.len() };
        plan.steps[from..to].iter_mut().for_each(|step| step.ready = loads.end as u32);
    }
    for (step, read) in plan.steps.iter_mut().zip(&read_of) {
        if let Some(read) = *read {
            let start = step_weights(request.network, step).start;
            step.weights = plan.loads[read].address + start - reads[read].offset;
        }
    }
    if request.is_staged() {
        stage(&mut plan, Loading::Inference);
    }
    plan
}
