//! Small networks and plans, made naively: from records by hand, addresses at random.

use crate::layout::place_weights;
use crate::network::{Network, Port, Weights};
use crate::plan::{Plan, step_weights};
use eyelet::kernels::Isa;
use eyelet::pack::{
    Buffer, ConvParams, Layer, Load, NONE, OpKind, PAGE, Place, Stage, Step, Tensor, params_words,
};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Scratch of the examples' steps: enough to differ from step to step.
pub fn scratch_bytes(network: &Network, step: &Step, threads: u32) -> u64 {
    let kind = network.layers[step.layer as usize].kind;
    if kind == OpKind::Conv as u32 { u64::from(step.count) * 64 * u64::from(threads) } else { 0 }
}

pub fn layer(kind: OpKind, [first, second]: [u32; 2], output: u32) -> Layer {
    let inputs = [first, second, NONE];
    Layer { kind: kind as u32, inputs, output, ..Layer::default() }
}

/// Puts a network together.
struct Builder {
    network: Network,
    rows: u32,
}

impl Builder {
    fn buffer(&mut self, floats: u32) -> u32 {
        let bytes = (u64::from(floats) * 4).next_multiple_of(64);
        self.network.buffers.push(Buffer::floats(bytes));
        self.network.buffers.len() as u32 - 1
    }

    fn tensor(&mut self, buffer: u32, offset: u32, cols: u32, pitch: u32) -> u32 {
        let dims = [1, 1, self.rows, cols];
        self.network.tensors.push(Tensor { buffer, offset, dims, pitch });
        self.network.tensors.len() as u32 - 1
    }

    fn fresh(&mut self, cols: u32) -> u32 {
        let buffer = self.buffer(self.rows * cols);
        self.tensor(buffer, 0, cols, cols)
    }

    fn push(&mut self, layer: Layer) {
        self.network.on_load.push(0);
        self.network.layers.push(layer);
        self.network.names.push(format!("layer{}", self.network.names.len()));
        self.network.weights.push(Weights::None);
    }

    fn conv(&mut self, input: u32, residual: u32, output: u32) {
        let cols = |tensor: u32| self.network.tensors[tensor as usize].cols();
        let (ic, oc) = (cols(input), cols(output));
        let mut conv = layer(OpKind::Conv, [input, residual], output);
        let ones = [1; 2];
        let (kernel, pad) = (ones, [0; 2]);
        conv.params = params_words(&ConvParams {
            kernel,
            stride: ones,
            dilation: ones,
            pad,
            groups: 1,
            chains: 0,
        });
        conv.panels = oc.div_ceil(8);
        conv.panel_bytes = 8 * 4 * (ic + 1);
        self.push(conv);
    }
}

/// A chain of convolutions with residuals, operations in place and concatenations.
pub fn network(isa: Isa, rng: &mut ChaCha8Rng, layers: usize) -> (Network, u64) {
    let network = Network {
        name: "example".into(),
        isa,
        buffers: Vec::new(),
        tensors: Vec::new(),
        layers: Vec::new(),
        names: Vec::new(),
        weights: Vec::new(),
        on_load: Vec::new(),
        mapped: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    let mut b = Builder { network, rows: rng.random_range(1..6) };
    let width = |rng: &mut ChaCha8Rng| rng.random_range(1..5) * 24;
    let mut now = b.fresh(width(rng));
    let port =
        |tensor| Port { name: "port".into(), tensor, kind: Default::default(), shape: vec![1] };
    b.network.inputs.push(port(now));
    while b.network.layers.len() < layers {
        match rng.random_range(0..6) {
            0 => b.push(layer(OpKind::Unary, [now, NONE], now)),
            1 => {
                // Two branches that write side by side.
                let (left, right) = (width(rng), width(rng));
                let pitch = left + right;
                let buffer = b.buffer(b.rows * pitch);
                let parts =
                    [b.tensor(buffer, 0, left, pitch), b.tensor(buffer, left, right, pitch)];
                let middle = b.fresh(width(rng));
                b.conv(now, NONE, parts[0]);
                b.conv(now, NONE, middle);
                b.conv(middle, NONE, parts[1]);
                now = b.tensor(buffer, 0, pitch, pitch);
            }
            2 => {
                // A bottleneck whose sum is made in place.
                let cols = b.network.tensors[now as usize].cols();
                let (middle, branch) = (b.fresh(width(rng)), b.fresh(cols));
                b.conv(now, NONE, middle);
                b.conv(middle, NONE, branch);
                b.push(layer(OpKind::Binary, [now, branch], now));
            }
            3 => {
                // The residual of a convolution, in place.
                let middle = b.fresh(width(rng));
                b.conv(now, NONE, middle);
                b.conv(middle, now, now);
            }
            _ => {
                let next = b.fresh(width(rng));
                b.conv(now, NONE, next);
                now = next;
            }
        }
    }
    let next = b.fresh(width(rng));
    b.conv(now, NONE, next);
    b.network.outputs.push(port(next));
    let bytes = place_weights(&mut b.network);
    (b.network, bytes)
}

/// The layers cut at random into steps: by panels, by rows, or both. No addresses yet.
pub fn steps(network: &Network, rng: &mut ChaCha8Rng, threads: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for (index, layer) in network.layers.iter().enumerate() {
        let rows = network.tensors[layer.output as usize].rows() as u32;
        // A GPU makes all rows of a panel.
        let halves = network.isa != Isa::Cuda && rng.random_ratio(1, 3);
        let rows_each = if halves { rows.div_ceil(2) } else { rows };
        let panels_each = rng.random_range(1..layer.panels.max(1) + 1);
        for first in (0..layer.panels.max(1)).step_by(panels_each as usize) {
            for row in (0..rows).step_by(rows_each as usize) {
                let mut step = Step {
                    layer: index as u32,
                    first,
                    count: panels_each.min(layer.panels.max(1) - first),
                    row,
                    rows: rows_each.min(rows - row),
                    ..Step::default()
                };
                if layer.panels == 0 {
                    step.count = 0;
                }
                step.scratch_bytes = scratch_bytes(network, &step, threads);
                steps.push(step);
            }
        }
    }
    steps
}

/// Loads that cover the weights of runs of steps, each with the first and the last step that reads it
/// (from 1) and the number of steps in between.
fn loads(network: &Network, steps: &[Step], rng: &mut ChaCha8Rng) -> Vec<(Load, Vec<usize>)> {
    let mut loads: Vec<(Load, Vec<usize>)> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let bytes = step_weights(network, step);
        if bytes.is_empty() {
            continue;
        }
        if let Some((load, users)) = loads.last_mut() {
            let end = load.offset + u64::from(load.bytes);
            let inside = load.offset <= bytes.start && bytes.end <= end;
            if inside || (load.offset <= bytes.start && rng.random_ratio(1, 4)) {
                let end = end.max(bytes.end.next_multiple_of(PAGE));
                load.bytes = (end - load.offset) as u32;
                users.push(index + 1);
                continue;
            }
        }
        let offset = bytes.start / PAGE * PAGE;
        let end = bytes.end.next_multiple_of(PAGE);
        let load = Load { offset, bytes: (end - offset) as u32, ..Load::default() };
        loads.push((load, vec![index + 1]));
    }
    loads
}

/// A plan in which everything has a place of its own.
pub fn disjoint(rng: &mut ChaCha8Rng) -> (Network, Plan, u64) {
    Reuse { reuse: false, ..Reuse::default() }.plan(rng)
}

/// Makes plans that use the arena again: every load is tried at random addresses first, with the
/// thresholds that follow from what else is there.
#[derive(Clone, Copy)]
pub struct Reuse {
    pub layers: usize,
    pub reuse: bool,
    pub residents: bool,
    /// For a device with a memory of its own.
    pub staged: bool,
}

impl Default for Reuse {
    fn default() -> Self {
        Self { layers: 8, reuse: true, residents: true, staged: false }
    }
}

impl Reuse {
    pub fn plan(self, rng: &mut ChaCha8Rng) -> (Network, Plan, u64) {
        let layers = if self.layers > 8 { self.layers } else { rng.random_range(1..=self.layers) };
        let isa = if self.staged { Isa::Cuda } else { Isa::Portable };
        let (network, bytes) = network(isa, rng, layers);
        let threads = rng.random_range(1..4);
        let mut plan = Plan {
            strategy: "example".into(),
            tables: rng.random_range(0..3) * 1088,
            threads,
            steps: steps(&network, rng, threads),
            ..Plan::default()
        };
        let period = plan.period();
        let mut end = plan.tables.next_multiple_of(PAGE);
        let mut fresh = |bytes: u64| {
            let address = end;
            end += bytes.next_multiple_of(PAGE);
            address
        };
        for buffer in &network.buffers {
            plan.places.push(Place::whole(fresh(buffer.bytes)));
        }
        // Once in a while a buffer takes over the place of one that is dead by then.
        let live = lives(&network, &plan);
        if self.reuse {
            for later in 0..live.len() {
                for earlier in 0..later {
                    let fits = network.buffers[later].bytes <= network.buffers[earlier].bytes;
                    let chance = rng.random_ratio(1, 2);
                    let alone = || {
                        (0..live.len()).filter(|&other| other != later).all(|other| {
                            plan.places[other].address != plan.places[earlier].address
                                || (live[later].1 < period || live[other].0 > 0)
                                    && (live[other].1 < live[later].0
                                        || live[later].1 < live[other].0)
                        })
                    };
                    if chance && fits && alone() {
                        plan.places[later].address = plan.places[earlier].address;
                        break;
                    }
                }
            }
        }
        let scratch = plan.steps.iter().map(|step| step.scratch_bytes).max().unwrap_or(0);
        let scratch = fresh(scratch);
        plan.steps.iter_mut().for_each(|step| step.scratch = scratch);

        let mut streamed = Vec::new();
        for (mut load, users) in loads(&network, &plan.steps, rng) {
            if self.residents && rng.random_ratio(1, 4) {
                load.address = fresh(load.bytes.into());
                place(&network, &mut plan, &load, &users);
                plan.resident.push(load);
            } else {
                streamed.push((load, users));
            }
        }
        let mut places: Vec<u64> = Vec::new();
        for _ in &streamed {
            places.push(u64::MAX);
        }
        let span = fresh(0) / PAGE;
        let mut release = vec![0i64; streamed.len()];
        let largest = streamed.iter().map(|(load, _)| u64::from(load.bytes)).max().unwrap_or(0);
        let ring = fresh(2 * largest);
        let low = plan.tables.div_ceil(PAGE);
        for index in 0..streamed.len() {
            let bytes = u64::from(streamed[index].0.bytes);
            for _ in 0..if self.reuse { 6 } else { 0 } {
                let candidate = if rng.random() {
                    ring + rng.random_range(0..=(2 * largest - bytes) / PAGE) * PAGE
                } else {
                    rng.random_range(low..span) * PAGE
                };
                places[index] = candidate;
                let fits = candidate + bytes <= ring + 2 * largest
                    && plan
                        .resident
                        .iter()
                        .all(|load| !meet((candidate, bytes), (load.address, load.bytes.into())));
                // Those before it that share its place may have to wait longer now.
                let sharing = (0..=index).filter(|&load| {
                    places[load] != u64::MAX
                        && meet(
                            (candidate, bytes),
                            (places[load], u64::from(streamed[load].0.bytes)),
                        )
                });
                let all = sharing.map(|load| {
                    let own = releases(&network, &plan, &live, &streamed, &places, load);
                    Some((load, own?))
                });
                if fits && let Some(all) = all.collect::<Option<Vec<(usize, i64)>>>() {
                    all.into_iter().for_each(|(load, own)| release[load] = own);
                    break;
                }
                places[index] = u64::MAX;
            }
            if places[index] == u64::MAX {
                places[index] = fresh(bytes);
                let own = releases(&network, &plan, &live, &streamed, &places, index);
                release[index] = own.expect("a place of its own");
            }
        }
        for (index, (mut load, users)) in streamed.into_iter().enumerate() {
            load.address = places[index];
            load.release = release[index] as i32;
            place(&network, &mut plan, &load, &users);
            for user in users {
                let ready = &mut plan.steps[user - 1].ready;
                *ready = (*ready).max(index as u32 + 1);
            }
            plan.loads.push(load);
        }
        plan.arena_bytes = fresh(0);
        plan.budget = plan.arena_bytes + 100;
        if self.staged {
            stage(&mut plan, rng);
        }
        (network, plan, bytes)
    }
}

/// Has the loads of a plan go through a staging ring of a random size, at random places, with the thresholds that
/// follow.
pub fn stage(plan: &mut Plan, rng: &mut ChaCha8Rng) {
    let loads = plan.loads.len();
    let pages = |bytes: u32| u64::from(bytes) / PAGE;
    let largest = plan.loads.iter().map(|load| pages(load.bytes)).max().unwrap_or(1);
    let ring = largest + rng.random_range(0..=2 * largest);
    plan.staging_bytes = ring * PAGE;
    let places: Vec<(u64, u64)> = plan
        .loads
        .iter()
        .map(|load| (rng.random_range(0..=ring - pages(load.bytes)) * PAGE, load.bytes.into()))
        .collect();
    let mut waits = 0;
    for (load, &place) in places.iter().enumerate() {
        // The last load before that shares a byte, of the inference before if need be.
        let shares = |back: &usize| meet(place, places[(load + loads - back) % loads]);
        let back = (1..loads).find(shares).map_or(loads as i32 - 1, |back| back as i32 - 1);
        // Once in a while more steps are waited for than need be.
        let first = plan.steps.iter().position(|step| step.ready as usize > load).unwrap_or(0);
        if rng.random_ratio(1, 4) {
            waits = waits.max(rng.random_range(0..=first as i32));
        }
        let steps = if rng.random() { waits } else { 1 - plan.period() as i32 };
        plan.stages.push(Stage { address: place.0, copies: load as i32 - back, steps });
    }
    // Steps that wait for more reads than they need, as long as nothing waits for ever: for reads that wait for no
    // step, nor for copies that do.
    for number in 0..plan.steps.len() {
        let free = |count: &usize| {
            let steps = |stage: &Stage| i64::from(stage.steps) <= number as i64 + 1;
            let copied = plan.stages[..*count].iter().map(|stage| stage.copies).max().unwrap_or(0);
            let copied = &plan.loads[..copied.max(0) as usize];
            plan.stages[..*count].iter().all(steps)
                && copied.iter().all(|load| i64::from(load.release) <= number as i64 + 1)
        };
        if rng.random_ratio(1, 4) {
            let reads = rng.random_range(0..=loads);
            plan.steps[number].reads = Some(reads).filter(free).unwrap_or(0) as u32;
        }
    }
}

/// The first and the last step of each buffer.
pub fn lives(network: &Network, plan: &Plan) -> Vec<(i64, i64)> {
    let mut lives = vec![(i64::MAX, i64::MIN); network.buffers.len()];
    let mut touch = |tensor: u32, step: i64| {
        let life = &mut lives[network.tensors[tensor as usize].buffer as usize];
        *life = (life.0.min(step), life.1.max(step));
    };
    network.inputs.iter().for_each(|port| touch(port.tensor, 0));
    network.outputs.iter().for_each(|port| touch(port.tensor, plan.period()));
    for (index, step) in plan.steps.iter().enumerate() {
        let layer = &network.layers[step.layer as usize];
        for tensor in layer.inputs.into_iter().chain([layer.output]) {
            if tensor != NONE {
                touch(tensor, index as i64 + 1);
            }
        }
    }
    lives
}

fn meet(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.0 + b.1 && b.0 < a.0 + a.1
}

fn place(network: &Network, plan: &mut Plan, load: &Load, users: &[usize]) {
    for &user in users {
        let bytes = step_weights(network, &plan.steps[user - 1]);
        plan.steps[user - 1].weights = load.address + bytes.start - load.offset;
    }
}

/// The earliest release of a load at its place, if there is one. Loads that have no place yet do not
/// count.
fn releases(
    network: &Network,
    plan: &Plan,
    live: &[(i64, i64)],
    streamed: &[(Load, Vec<usize>)],
    places: &[u64],
    load: usize,
) -> Option<i64> {
    let period = plan.period();
    let (first, last) = window(&streamed[load].1);
    let mine = (places[load], u64::from(streamed[load].0.bytes));
    // Spans of steps (inclusive) in which the place is someone else's.
    let mut taken = vec![(first, last, false)];
    for (buffer, life) in live.iter().enumerate() {
        if meet(mine, (plan.places[buffer].address, network.buffers[buffer].bytes)) {
            taken.push((life.0, life.1, true));
        }
    }
    for (number, step) in plan.steps.iter().enumerate() {
        if meet(mine, (step.scratch, step.scratch_bytes)) {
            taken.push((number as i64 + 1, number as i64 + 1, true));
        }
    }
    for other in (0..streamed.len()).filter(|&other| other != load) {
        if places[other] != u64::MAX
            && meet(mine, (places[other], u64::from(streamed[other].0.bytes)))
        {
            let (first, last) = window(&streamed[other].1);
            taken.push((first, last, true));
        }
    }
    let mut release = 1 - period;
    for (from, to, others) in taken {
        for shift in [-2 * period, -period, 0, period] {
            let (from, to) = (from + shift, to + shift);
            if to < first {
                release = release.max(to + 1);
            } else if from <= last && (others || shift != 0) {
                return None;
            }
        }
    }
    (release <= first).then_some(release)
}

fn window(users: &[usize]) -> (i64, i64) {
    (users[0] as i64, users[users.len() - 1] as i64)
}
