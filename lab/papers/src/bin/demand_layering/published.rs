//! The published evaluation of Demand Layering (RTSS '22, Tables I and II, Fig. 12), reproduced by simulation.
//!
//! Sizes of layers are those of the networks; the memory of each pipeline follows from them. Times are not published
//! layer by layer, so they are modelled: reads and copies take time in proportion to their bytes, kernels in proportion to
//! their operations. What YOLOv4 takes sequentially beyond what its kernels take is what reading and copying 245.8 MB
//! takes. The same rates give the kernels of the others, by how much longer each is published to take sequentially.
//! How much of that rate is reading is published as a figure only; [`READING`] is the one number that is chosen here.

use crate::darknet::{Layer, densenet201, resnet152, yolov3, yolov4, yolov4_p6};
use eyelet::pack::PAGE;
use eyelet_plan::profile::Read;
use eyelet_plan::simulate::{Durations, play};
use eyelet_published::demand::{DELTA, Pipeline, bare, capacities};

/// Share of reading in the time to read and copy. With a share of 0.82 or more the delays of all networks come in the
/// published order; with less, YOLOv3's synchronous pipeline comes before its asynchronous one.
pub const READING: f64 = 0.875;

/// YOLOv4's delays in nanoseconds: its kernels alone, and one after the other with reads and copies. Of the others only
/// shares are published.
const YOLOV4_NS: [f64; 2] = [160.8e6, 244.7e6];

/// The side of the images that the networks were evaluated with, or the next that a network can take ([`Subject::side`]).
pub const SIDE: u64 = 608;

/// What is published of a pipeline, in per cent of the architecture that loads everything before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent {
    pub memory: f64,
    pub delay: f64,
}

/// What is published of a network.
pub struct Subject {
    pub name: &'static str,
    /// Its layers for a square image.
    pub layers: fn(u64) -> Vec<Layer>,
    /// Pixels to a side of its coarsest cell: sides of images are multiples of it.
    pub stride: u64,
    /// Mebibytes of all layers and of the largest.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare it"))]
    pub total_mb: f64,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare it"))]
    pub largest_mb: f64,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare it"))]
    pub count: usize,
    /// In the order of [`PIPELINES`].
    pub published: [Percent; 6],
}

/// The pipelines of the tables: how they are called there, and whether the least delay is looked for.
pub const PIPELINES: [(&str, Pipeline, bool); 6] = [
    ("Seq", Pipeline::Sequential, false),
    ("Sync", Pipeline::Synchronous, false),
    ("Async", Pipeline::Asynchronous, false),
    ("Async-MD", Pipeline::Asynchronous, true),
    ("2S", Pipeline::TwoStage, false),
    ("2S-MD", Pipeline::TwoStage, true),
];

const fn percent(memory: f64, delay: f64) -> Percent {
    Percent { memory, delay }
}

/// The networks of the evaluation.
pub const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "YOLOv3",
        layers: yolov3,
        stride: 32,
        total_mb: 236.5,
        largest_mb: 18.0,
        count: 107,
        published: [
            percent(-92.4, 44.9),
            percent(-84.8, 18.9),
            percent(-92.4, 18.1),
            percent(-83.1, 1.7),
            percent(-96.2, 21.8),
            percent(-84.8, 0.5),
        ],
    },
    Subject {
        name: "YOLOv4",
        layers: yolov4,
        stride: 32,
        total_mb: 245.8,
        largest_mb: 18.0,
        count: 162,
        published: [
            percent(-92.7, 52.1),
            percent(-85.4, 23.7),
            percent(-92.7, 12.7),
            percent(-83.1, 1.7),
            percent(-96.3, 21.5),
            percent(-89.3, 0.4),
        ],
    },
    Subject {
        name: "YOLOv4-P6",
        layers: yolov4_p6,
        stride: 64,
        total_mb: 487.2,
        largest_mb: 36.0,
        count: 305,
        published: [
            percent(-92.6, 70.2),
            percent(-85.2, 38.4),
            percent(-92.6, 8.7),
            percent(-84.2, 2.0),
            percent(-96.3, 16.7),
            percent(-85.7, 0.3),
        ],
    },
    Subject {
        name: "ResNet152",
        layers: resnet152,
        stride: 32,
        total_mb: 219.6,
        largest_mb: 9.0,
        count: 206,
        published: [
            percent(-95.9, 45.8),
            percent(-91.8, 11.4),
            percent(-95.9, 2.7),
            percent(-92.0, 1.2),
            percent(-98.0, 5.1),
            percent(-93.9, 0.2),
        ],
    },
    Subject {
        name: "DenseNet201",
        layers: densenet201,
        stride: 32,
        total_mb: 65.6,
        largest_mb: 5.9,
        count: 306,
        published: [
            percent(-91.0, 65.4),
            percent(-82.0, 22.9),
            percent(-91.0, 2.0),
            percent(-86.9, 1.0),
            percent(-95.5, 8.9),
            percent(-88.2, 0.4),
        ],
    },
];

/// What is simulated of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub memory_bytes: u64,
    pub delay_ns: u64,
}

/// A network with the times of its layers.
pub struct Timed {
    /// Bytes of each layer, in whole pages.
    pub layers: Vec<u64>,
    /// Bytes of all layers, as they are.
    pub bytes: u64,
    durations: Durations,
}

impl Subject {
    /// The least side of its images from that on.
    pub fn side(&self, from: u64) -> u64 {
        from.next_multiple_of(self.stride)
    }

    /// Its layers for images of that side, timed at the published rates.
    pub fn timed(&self, side: u64) -> Timed {
        let bytes = |layers: &[Layer]| layers.iter().map(|layer| layer.bytes).sum::<u64>() as f64;
        let flops = |layers: &[Layer]| layers.iter().map(|layer| layer.flops).sum::<f64>();
        let [kernels_ns, sequential_ns] = YOLOV4_NS;
        let ns_per_byte = (sequential_ns - kernels_ns) / bytes(&yolov4(SIDE));
        let (layers, usual) = ((self.layers)(side), (self.layers)(self.side(SIDE)));
        let loading_ns = bytes(&usual) * ns_per_byte;
        let computing_ns = match self.name {
            "YOLOv4" => kernels_ns,
            _ => loading_ns / (self.published[0].delay / 100.0),
        };
        let ns_per_flop = computing_ns / flops(&usual);
        let loaded = || layers.iter().filter(|layer| layer.bytes > 0);
        let share = |share: f64| -> Vec<i64> {
            loaded()
                .map(|layer| (layer.bytes as f64 * ns_per_byte * share).round() as i64)
                .collect()
        };
        let steps = layers.iter().map(|layer| (layer.flops * ns_per_flop).round() as i64);
        let durations = Durations {
            reads: share(READING).into_iter().map(Read::of).collect(),
            depth: 1,
            together: false,
            places: Vec::new(),
            copies: share(1.0 - READING),
            steps: steps.collect(),
        };
        let pages = |layer: &Layer| layer.bytes.next_multiple_of(PAGE);
        let total = layers.iter().map(|layer| layer.bytes).sum();
        Timed { layers: layers.iter().map(pages).collect(), bytes: total, durations }
    }
}

impl Timed {
    /// Everything is loaded before: two copies of all layers, kernels alone.
    pub fn preloaded(&self) -> Outcome {
        let memory_bytes = 2 * self.bytes;
        Outcome { memory_bytes, delay_ns: self.durations.steps.iter().sum::<i64>() as u64 }
    }

    /// A pipeline's outcome: of its least buffers, or of the smallest with the least delay.
    pub fn outcome(&self, pipeline: Pipeline, least_delay: bool) -> Outcome {
        let staged = pipeline != Pipeline::TwoStage;
        let least = pipeline.least_bytes(self.layers.iter().max().copied().unwrap_or(0));
        let of = |capacity: u64| {
            let plan = bare(pipeline, staged, &self.layers, capacity);
            Outcome {
                memory_bytes: plan.arena_bytes + plan.staging_bytes,
                delay_ns: play(&plan, &self.durations).first_ns,
            }
        };
        if !least_delay {
            return of(least);
        }
        let all = self.layers.iter().sum();
        let outcomes = capacities(least, all, DELTA).map(of);
        let first = |outcome: &Outcome| (outcome.delay_ns, outcome.memory_bytes);
        outcomes.min_by_key(first).unwrap_or_else(|| of(least))
    }
}

impl Outcome {
    /// Against another, in per cent.
    pub fn against(&self, other: &Outcome) -> Percent {
        let change = |ours: u64, theirs: u64| (ours as f64 / theirs as f64 - 1.0) * 100.0;
        Percent {
            memory: change(self.memory_bytes, other.memory_bytes),
            delay: change(self.delay_ns, other.delay_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = (1 << 20) as f64;

    fn rounded(value: f64) -> f64 {
        (value * 10.0).round() / 10.0
    }

    #[test]
    fn the_networks_are_those_of_the_first_table() {
        for subject in &SUBJECTS {
            let layers = (subject.layers)(subject.side(SIDE));
            let bytes = layers.iter().map(|layer| layer.bytes);
            assert_eq!(layers.len(), subject.count, "{}", subject.name);
            let (total, largest) = (bytes.clone().sum::<u64>(), bytes.max().unwrap());
            assert_eq!(rounded(total as f64 / MIB), subject.total_mb, "{}", subject.name);
            assert_eq!(rounded(largest as f64 / MIB), subject.largest_mb, "{}", subject.name);
        }
        // What else is said of YOLOv4.
        let layers = yolov4(SIDE);
        let count = |of: &dyn Fn(f64) -> bool| {
            layers.iter().filter(|layer| of(layer.bytes as f64 / MIB)).count()
        };
        assert_eq!(count(&|mb| mb > 0.0), 110);
        assert_eq!(count(&|mb| rounded(mb) == 18.0), 6);
        assert_eq!(count(&|mb| mb < 0.1), 75);
    }

    #[test]
    fn memory_is_published_and_delays_come_in_the_published_order() {
        for subject in &SUBJECTS {
            let timed = subject.timed(subject.side(SIDE));
            let (preloaded, largest) = (timed.preloaded(), *timed.layers.iter().max().unwrap());
            let outcomes = PIPELINES.map(|(_, pipeline, least)| timed.outcome(pipeline, least));
            for (index, buffers) in [(0, 2), (1, 4), (2, 2), (4, 1)] {
                assert_eq!(outcomes[index].memory_bytes, buffers * largest, "{}", subject.name);
                // Published shares are those of mebibytes that were rounded before.
                let share = buffers as f64 * subject.largest_mb / (2.0 * subject.total_mb);
                let memory = rounded((share - 1.0) * 100.0);
                assert_eq!(memory, subject.published[index].memory, "{} {index}", subject.name);
                let exact = outcomes[index].against(&preloaded).memory;
                assert!((exact - memory).abs() < 0.2, "{} {index}: {exact}", subject.name);
            }
            let mut order: Vec<usize> = (0..PIPELINES.len()).collect();
            order.sort_by(|&a, &b| {
                subject.published[a].delay.total_cmp(&subject.published[b].delay)
            });
            for pair in order.windows(2) {
                let [faster, slower] = [pair[0], pair[1]].map(|index| outcomes[index].delay_ns);
                let names = [PIPELINES[pair[0]].0, PIPELINES[pair[1]].0];
                assert!(faster < slower, "{}: {names:?}, {faster} and {slower}", subject.name);
            }
            assert!(outcomes.iter().all(|outcome| outcome.delay_ns > preloaded.delay_ns));
        }
    }

    /// With small images kernels are too short to hide reads behind, whatever the queue.
    #[test]
    fn overlap_breaks_with_small_images() {
        for subject in &SUBJECTS {
            let overhead = |side| {
                let timed = subject.timed(subject.side(side));
                timed.outcome(Pipeline::TwoStage, true).against(&timed.preloaded()).delay
            };
            assert!(overhead(SIDE) < 1.0 && overhead(224) > 10.0, "{}", subject.name);
        }
    }
}
