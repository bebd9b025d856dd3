//! Rates of the kernels' classes, fitted to the times of layers.
//!
//! The work of a layer is counted by the same function as when its time is predicted, so a rate that was
//! measured predicts the time that was measured. Rates of computing are fitted to layers with weights in the cache;
//! memory to weights that no cache holds; how far one hides the other to layers that do both.

use super::bench::{State, Times, measure as times};
use super::caches::shared_bytes;
use super::done::Done;
use super::widen::widen_gbs;
use super::{Patience, layers, speed_probe};
use eyelet::device::Device;
use eyelet::kernels::{Isa, Kernels};
use eyelet_model::network::Network;
use eyelet_plan::profile::fitting::{
    Extra, Work, extra, extra_ns, shorter_ns, terms, transforming,
};
use eyelet_plan::profile::{Class, Compute, Extremes};
use std::ops::Range;

/// How often an interval is halved in which a rate is looked for.
const HALVINGS: usize = 40;

/// Every class that layers have.
const CLASSES: [Class; 11] = [
    Class::Conv1x1,
    Class::ConvKxK,
    Class::Winograd,
    Class::FullyConnected,
    Class::Depthwise,
    Class::Grouped,
    Class::MatMul,
    Class::Pool,
    Class::Elementwise,
    Class::Function,
    Class::Copy,
];

/// The layers that are measured, in groups.
#[derive(Default)]
struct Layers(Vec<(Network, State)>);

impl Layers {
    fn add(&mut self, networks: Vec<Network>, state: State) -> Range<usize> {
        let first = self.0.len();
        self.0.extend(networks.into_iter().map(|network| (network, state)));
        first..self.0.len()
    }
}

/// A layer and what it takes on each of two devices, in nanoseconds.
struct Sample<'a> {
    network: &'a Network,
    work: Work,
    ns: [f64; 2],
}

impl Sample<'_> {
    fn weights(&self) -> f64 {
        let layer = &self.network.layers[0];
        f64::from(layer.panels) * f64::from(layer.panel_bytes)
    }

    fn extra(&self, compute: &Compute, least: bool) -> Extra {
        extra(self.network, &self.network.layers[0], compute.cache_bytes, least)
    }
}

/// All that was measured.
struct Measured {
    layers: Layers,
    groups: Groups,
    ns: Vec<Option<[f64; 2]>>,
}

impl Measured {
    fn class(&self, class: Class) -> Vec<Sample<'_>> {
        let index = CLASSES.iter().position(|of| *of == class).unwrap_or(0);
        self.of(&self.groups.classes[index])
    }

    fn pair(&self, groups: &[Range<usize>; 2]) -> [Vec<Sample<'_>>; 2] {
        groups.each_ref().map(|group| self.of(group))
    }

    /// The rates that follow from the layers of each class. A class without a kernel of its own has the costs of
    /// convolutions.
    fn rates(&self, kernels: &Kernels, team: f64) -> Compute {
        let slow = Fit { rate: 1.0, piece_ns: 0.0, sped: 1.0 };
        let conv_1x1 = Fit::new(&self.class(Class::Conv1x1)).unwrap_or(slow);
        let fit = |of| Fit::new(&self.class(of)).unwrap_or(conv_1x1);
        let of = |of| rates(&self.class(of)).map_or(conv_1x1.rate, |rates| rates[0]);
        let probed = |device: usize| {
            let samples = self.of(&self.groups.probed);
            samples.first().map(|sample| speed_probe::gflops(sample.ns[device]))
        };
        let (conv_kxk, dwconv) = (fit(Class::ConvKxK), fit(Class::Depthwise));
        let read = rates(&self.class(Class::FullyConnected)).unwrap_or([conv_1x1.rate; 2]);
        Compute {
            conv_1x1_gflops: conv_1x1.rate,
            conv_kxk_gflops: conv_kxk.rate,
            depthwise_gflops: dwconv.rate,
            conv_1x1_piece_ns: conv_1x1.piece_ns,
            conv_kxk_piece_ns: conv_kxk.piece_ns,
            depthwise_piece_ns: dwconv.piece_ns,
            depthwise_wait_ns_per_byte: waited(&self.pair(&self.groups.depthwise)),
            matmul_gflops: of(Class::MatMul),
            fully_connected_gbs: read[0],
            transform_gbs: f64::INFINITY,
            transform_spill_ns_per_byte: 0.0,
            product_ns: 0.0,
            product_ns_per_byte: 0.0,
            widen_gbs: widen_gbs(kernels),
            transform_weights_gbs: f64::INFINITY,
            elementwise_gbs: of(Class::Elementwise),
            function_gbs: of(Class::Function),
            pool_gbs: of(Class::Pool),
            copy_gbs: of(Class::Copy),
            memory_gbs: read[0].max(read[1]),
            cache_bytes: cache_bytes(2).unwrap_or(1 << 20),
            shared_cache_bytes: 0,
            shared_cache_gbs: 0.0,
            exposed: 0.0,
            winograd_exposed: None,
            scaling: scaling([conv_1x1.sped, conv_kxk.sped], team),
            step_overhead_ns: 0,
            speed_probe_gflops: probed(0),
            speed_probe_all_gflops: probed(1),
        }
    }

    /// Fits the rest to further layers, one number after the other, each with those found before.
    fn fit_rest(&self, compute: &mut Compute) {
        let groups = &self.groups;
        // The cost of a step that has next to nothing to do.
        let beyond = self.of(&groups.small).first().map_or(0.0, |s| s.ns[1] - s.work.ns(compute));
        compute.step_overhead_ns = beyond.max(100.0) as u64;
        let mut all = self.class(Class::Winograd);
        all.extend(self.of(&groups.spilling));
        fit_winograd(compute, &all, &self.of(&groups.cramped));
        let shared_bytes =
            cache_bytes(3).map(|declared| shared_bytes(compute.cache_bytes, declared));
        compute.shared_cache_bytes = shared_bytes.unwrap_or(0);
        // The largest one that the cache holds next to all other data.
        let in_llc = self.of(&groups.in_llc);
        let in_llc = in_llc.iter().find(|s| 2.0 * s.weights() <= compute.shared_cache_bytes as f64);
        compute.shared_cache_gbs = in_llc.map_or(0.0, |s| s.weights() / s.ns[0]);
        compute.exposed = exposed(&self.pair(&groups.balanced), compute);
        compute.winograd_exposed = winograd_exposed(&self.pair(&groups.winograd), compute);
        compute.transform_weights_gbs =
            transform_weights_gbs(&self.of(&groups.transforming), compute);
    }

    /// The samples of a group that these kernels can run.
    fn of(&self, group: &Range<usize>) -> Vec<Sample<'_>> {
        let sample = |index: usize| {
            let network = &self.layers.0[index].0;
            let ns = self.ns[index]?;
            Some(Sample { network, work: Work::of(network, &network.layers[0]), ns })
        };
        group.clone().filter_map(sample).collect()
    }
}

/// The time of a class's layers: their work at a rate, and a fixed time for each piece.
#[derive(Clone, Copy)]
struct Fit {
    rate: f64,
    piece_ns: f64,
    /// How many times as fast the second device is.
    sped: f64,
}

impl Fit {
    /// The fit to all layers of a class, if there are kernels for it.
    fn new(samples: &[Sample]) -> Option<Self> {
        let point = |s: &Sample| ([s.work.amount / s.ns[0], s.work.pieces / s.ns[0]], 1.0);
        let [work_ns, piece_ns] = terms(&samples.iter().map(point).collect::<Vec<_>>());
        let sum = |device: usize| samples.iter().map(|s| s.ns[device]).sum::<f64>();
        (work_ns > 0.0).then(|| Self { rate: 1.0 / work_ns, piece_ns, sped: sum(0) / sum(1) })
    }
}

/// Work a nanosecond over all layers of a class, on each of two devices, if there are kernels for it.
fn rates(samples: &[Sample]) -> Option<[f64; 2]> {
    let sum = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>();
    let work = sum(&|s| s.work.amount);
    (work > 0.0).then(|| [0, 1].map(|device| work / sum(&|s| s.ns[device])))
}

/// The groups of layers that are asked for, by what is learnt from them. Pairs are of the same layers, with their weights in a
/// thread's cache or in memory.
struct Groups {
    /// For each of `CLASSES`.
    classes: [Range<usize>; CLASSES.len()],
    /// A layer with next to nothing to do.
    small: Range<usize>,
    in_llc: Range<usize>,
    /// Warm, then cold.
    balanced: [Range<usize>; 2],
    /// Warm, then cold.
    depthwise: [Range<usize>; 2],
    spilling: Range<usize>,
    cramped: Range<usize>,
    /// Cold, then warm.
    winograd: [Range<usize>; 2],
    transforming: Range<usize>,
    probed: Range<usize>,
}

impl Groups {
    fn ask(asked: &mut Layers, isa: Isa) -> Self {
        let classes = CLASSES.map(|class| {
            // A matrix of weights is read from memory.
            let cold = class == Class::FullyConnected;
            let state = if cold { State::Cold } else { State::Warm };
            asked.add(layers::of_class(isa, class), state)
        });
        Self {
            classes,
            small: asked.add(vec![layers::conv(isa, 8, 1, 16, 64)], State::Warm),
            in_llc: asked.add(layers::in_llc(isa), State::Warm),
            balanced: [State::Warm, State::Cold]
                .map(|state| asked.add(layers::balanced(isa), state)),
            depthwise: [State::Warm, State::Cold]
                .map(|state| asked.add(layers::small_depthwise(isa), state)),
            spilling: asked.add(layers::spilling(isa), State::Warm),
            cramped: asked.add(layers::in_small_blocks(isa), State::Cramped),
            winograd: [State::Cold, State::Warm]
                .map(|state| asked.add(layers::balanced_winograd(isa), state)),
            transforming: asked.add(layers::transforming(isa), State::Cold),
            probed: asked.add(vec![speed_probe::network(isa)], State::Settled),
        }
    }
}

/// Measurements of a machine's kernels.
pub struct Kernel {
    pub rates: Compute,
    /// For each convolution: its floating-point operations, and its nanoseconds on one thread.
    pub convolutions: Vec<(f64, f64)>,
    /// How steady it was, on one thread and on all.
    pub turns: [Extremes; 2],
}

/// Measures on one thread and on all, which are worth a `team` of that one.
pub fn measure(
    kernels: &Kernels,
    devices: [&dyn Device; 2],
    team: f64,
    patience: Patience,
    done: &Done<'_>,
) -> Kernel {
    let mut layers = Layers::default();
    let groups = Groups::ask(&mut layers, kernels.isa());
    let Times { layers: ns, turns } = times(&layers.0, kernels, devices, patience, done);
    let found = Measured { layers, groups, ns };
    let mut compute = found.rates(kernels, team);
    found.fit_rest(&mut compute);
    let convolutions = [Class::Conv1x1, Class::ConvKxK, Class::Depthwise];
    let convolutions = convolutions.iter().flat_map(|class| found.class(*class));
    let convolutions = convolutions.map(|s| (s.work.amount, s.ns[0])).collect();
    Kernel { rates: compute, convolutions, turns }
}

/// How much of a thread each further thread adds; those on slower cores count as part of one.
fn scaling(sped: [f64; 2], team: f64) -> f64 {
    let more = team - 1.0;
    if more > 0.0 { (((sped[0] + sped[1]) / 2.0 - 1.0) / more).clamp(0.0, 1.0) } else { 1.0 }
}

/// Extra time of layers for each byte of weights that is in memory instead of a cache.
fn waited([warm, cold]: &[Vec<Sample>; 2]) -> f64 {
    let sum = |samples: &[Sample]| samples.iter().map(|s| s.ns[0]).sum::<f64>();
    let bytes: f64 = cold.iter().map(Sample::weights).sum();
    if bytes > 0.0 { ((sum(cold) - sum(warm)) / bytes).max(0.0) } else { 0.0 }
}

/// Fits the time of Winograd convolutions beyond the operations of their products, with all the scratch that they can use,
/// and with the least.
fn fit_winograd(compute: &mut Compute, all: &[Sample], least: &[Sample]) {
    let all = all.iter().map(|sample| (sample, false));
    let samples: Vec<_> = all.chain(least.iter().map(|sample| (sample, true))).collect();
    let point = |(s, least): &(&Sample, bool)| {
        let extra = s.extra(compute, *least);
        (extra.map(|term| term / s.ns[0]), 1.0 - s.work.ns(compute) / s.ns[0])
    };
    let points: Vec<(Extra, f64)> = samples.iter().map(point).collect();
    let [transformed, spilled, products, read] = terms(&points);
    let sum = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(|(s, _)| of(s)).sum::<f64>();
    // Transforms take some time, however disturbed the measurement.
    let bytes = sum(&|s| s.extra(compute, false)[0]);
    let shortest = if bytes > 0.0 { sum(&|s| s.ns[0]) / 20.0 / bytes } else { 0.0 };
    compute.transform_gbs = 1.0 / f64::max(transformed, shortest);
    compute.transform_spill_ns_per_byte = spilled;
    (compute.product_ns, compute.product_ns_per_byte) = (products, read);
}

/// The rate of transforming weights with which steps that do so are predicted to take as long together as they do. Weights come
/// from memory, and what is made of them stays in a thread's cache.
fn transform_weights_gbs(samples: &[Sample], compute: &Compute) -> f64 {
    // Bytes made, and the predicted time at a rate of `gbs`.
    let of = |gbs: f64| {
        let compute = Compute { transform_weights_gbs: gbs, ..compute.clone() };
        let each = samples.iter().filter_map(|sample| transforming(sample.network, &compute));
        each.fold((0.0, 0.0), |(bytes, ns), (made, predicted)| (bytes + made, ns + predicted))
    };
    let measured: f64 = samples.iter().map(|sample| sample.ns[0]).sum();
    let (made, _) = of(compute.transform_gbs);
    // None where no step transforms any.
    if made == 0.0 {
        return compute.transform_gbs;
    }
    // They take some of the time, however disturbed the measurement.
    let (mut slow, mut fast) = (made / measured, 20.0 * made / measured);
    for _ in 0..HALVINGS {
        let middle = (slow * fast).sqrt();
        let side = if of(middle).1 > measured { &mut slow } else { &mut fast };
        *side = middle;
    }
    fast
}

/// How much of the shorter one of computing and reading weights adds to the longer one.
fn exposed([warm, cold]: &[Vec<Sample>; 2], compute: &Compute) -> f64 {
    let (mut beyond, mut shorter) = (0.0, 0.0);
    for (warm, cold) in warm.iter().zip(cold) {
        let memory = cold.weights() / compute.fully_connected_gbs;
        beyond += cold.ns[0] - warm.ns[0].max(memory);
        shorter += shorter_ns(warm.ns[0], memory);
    }
    if shorter > 0.0 { (beyond / shorter).clamp(0.0, 1.0) } else { 0.0 }
}

/// The same of Winograd convolutions, of what they are predicted to compute and read: with weights in memory, and with those that
/// are in the cache that all share.
fn winograd_exposed([cold, warm]: &[Vec<Sample>; 2], compute: &Compute) -> Option<f64> {
    let (mut beyond, mut shorter) = (0.0, 0.0);
    let llc_bytes = compute.llc_bytes() as f64;
    let places = [
        (cold, compute.bandwidth_gbs(1.0), f64::INFINITY),
        (warm, compute.llc_gbs(1.0), llc_bytes),
    ];
    for (samples, gbs, most) in places {
        for sample in samples {
            let bytes = sample.weights();
            if 2.0 * bytes > most {
                continue;
            }
            let extra = extra_ns(sample.extra(compute, false), compute);
            let (computing, memory) = (sample.work.ns(compute) + extra, bytes / gbs);
            beyond += sample.ns[0] - computing.max(memory);
            shorter += shorter_ns(computing, memory);
        }
    }
    (shorter > 0.0).then(|| (beyond / shorter).clamp(0.0, 1.0))
}

/// A cache of the first processor, by its level, as the system declares it.
fn cache_bytes(level: u32) -> Option<u64> {
    let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
    let declared = std::fs::read_to_string(path).ok()?;
    Some(declared.trim().strip_suffix('K')?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, Weights};
    use super::*;
    use eyelet::device::Inline;

    #[test]
    fn layers_belong_to_their_classes_and_run() {
        let mut weights = Weights::new().unwrap();
        for class in CLASSES {
            for network in layers::of_class(Isa::Portable, class) {
                assert_eq!(Work::of(&network, &network.layers[0]).class, class);
            }
            let networks = layers::of_class(Kernels::best().isa(), class);
            let runs = networks.iter().all(|network| {
                let bench = Bench::new(network, Kernels::best(), 1, false);
                bench.is_some_and(|mut bench| {
                    bench.run(&Inline, &mut weights, State::Warm).is_some()
                })
            });
            // Products of activations may have no kernel, and are then charged as convolutions.
            assert!(runs || class == Class::MatMul, "{class:?} is refused");
        }
    }
}
