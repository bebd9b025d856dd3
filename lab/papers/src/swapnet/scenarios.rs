//! The publication's three applications (Section 8), with what it states of each.
//!
//! Sizes are in MiB: only so do the published sizes of the networks agree with their parameters.
//! The published budgets do not include the memory that is reserved ("843 MB, not including 32
//! MB"). So blocks may take all of a budget, and `δ` is 0 here.
//!
//! The publication prints few times. What [`NX`] and [`NANO`] hold is of three kinds: stated there
//! (β), derived from a statement (γ of the CPU, η), or chosen here (all else). Images have 224
//! pixels a side, those of YOLOv3 416. Latencies are therefore orders of magnitude; memory is
//! exact.

use super::budgets::{BudgetError, Demand, budgets};
use super::methods::{Device, Parts, Processor, Subject};
use super::models::{fcn_resnet101, resnet101, vgg19, yolov3};
use super::smallest::smallest_as_published;
use eyelet_tasks::swapnet::blocks::Budget;
use eyelet_tasks::swapnet::chain::Chain;
use eyelet_tasks::swapnet::delays::{Delays, Layer};

pub const MIB: f64 = (1 << 20) as f64;

/// β, stated: setting a reference takes 50 to 55 µs.
const BETA_NS: f64 = 52_500.0;

/// η, derived: swapping out takes about 30 ms, here of all 626 parameters of ResNet-101.
const ETA_NS: f64 = 30e6 / 626.0;

/// α, chosen: a drive that reads 2 GB/s.
const ALPHA_NS_PER_BYTE: f64 = 0.5;

/// γ, derived: ResNet-101 takes 466 ms in three blocks, which is 15 ms more than directly.
const CPU_NS_PER_FLOP: f64 = (466.0 - 15.0) * 1e6 / 15.6e9;

/// γ, chosen: a GPU that computes 300 GFLOP/s.
const GPU_NS_PER_FLOP: f64 = 1.0 / 300.0;

/// The Jetson NX with its drive.
pub const NX: Device = Device {
    name: "Jetson NX",
    cpu: Delays {
        alpha_ns_per_byte: ALPHA_NS_PER_BYTE,
        beta_ns: BETA_NS,
        gamma_ns_per_flop: CPU_NS_PER_FLOP,
        eta_ns: ETA_NS,
    },
    gpu: Delays {
        alpha_ns_per_byte: ALPHA_NS_PER_BYTE,
        beta_ns: BETA_NS,
        gamma_ns_per_flop: GPU_NS_PER_FLOP,
        eta_ns: ETA_NS,
    },
    cache_ns_per_byte: 0.5,
    dispatch_ns_per_byte: 1.0,
    instantiate_ns: 100_000.0,
    instantiate_ns_per_byte: 1.0,
};

/// How much slower the Nano's CPU is, chosen: its clock, and half as many operations a cycle.
const NANO_SLOWER: f64 = 2.0 * 1.9 / 1.4;

/// The Jetson Nano with the same drive.
pub const NANO: Device = Device {
    name: "Jetson Nano",
    cpu: Delays {
        gamma_ns_per_flop: CPU_NS_PER_FLOP * NANO_SLOWER,
        beta_ns: BETA_NS * 1.9 / 1.4,
        eta_ns: ETA_NS * 1.9 / 1.4,
        ..NX.cpu
    },
    ..NX
};

/// A network of an application.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub name: &'static str,
    pub layers: fn(u64) -> Vec<Layer>,
    /// Pixels to a side of its images.
    pub side: u64,
    pub processor: Processor,
    pub urgency: f64,
    /// Published: its size and its budget.
    pub mib: f64,
    pub budget_mib: f64,
    /// Published: to what size pruning brings it, and into how many blocks it is cut.
    pub pruned_mib: Option<f64>,
    pub blocks: Option<usize>,
}

/// What is published as a range over the networks of an application.
pub type Range = [f64; 2];

/// An application.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// Memory for all networks.
    pub memory_mib: f64,
    pub members: &'static [Member],
    /// Published: per cent of memory that SwapNet saves against DInf, TPrg and DCha.
    pub saves: [Range; 3],
    /// Published: milliseconds that SwapNet takes longer than DInf.
    pub longer_ms: Range,
}

const VGG: Member = Member {
    name: "VGG-19",
    layers: vgg19,
    side: 224,
    processor: Processor::Cpu,
    urgency: 1.0,
    mib: 548.0,
    budget_mib: 475.0,
    pruned_mib: None,
    blocks: None,
};

const RESNET: Member =
    Member { name: "ResNet-101", layers: resnet101, mib: 170.0, budget_mib: 102.0, ..VGG };

const YOLO: Member = Member {
    name: "YOLOv3",
    layers: yolov3,
    side: 416,
    processor: Processor::Gpu,
    mib: 236.0,
    budget_mib: 142.0,
    ..VGG
};

const FCN: Member = Member {
    name: "FCN",
    layers: fcn_resnet101,
    processor: Processor::Gpu,
    mib: 207.0,
    budget_mib: 124.0,
    ..VGG
};

/// The three applications.
pub const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "Self-driving",
        memory_mib: 843.0,
        members: &[
            Member { pruned_mib: Some(367.0), ..VGG },
            Member { pruned_mib: Some(83.0), blocks: Some(4), ..RESNET },
            Member { pruned_mib: Some(101.0), ..YOLO },
            Member { pruned_mib: Some(102.0), ..FCN },
        ],
        saves: [[56.9, 82.8], [35.7, 65.0], [42.0, 66.4]],
        longer_ms: [26.0, 46.0],
    },
    Scenario {
        name: "Road-side unit",
        memory_mib: 1088.0,
        members: &[
            Member { name: "YOLOv3 (1)", budget_mib: 165.0, ..YOLO },
            Member { name: "YOLOv3 (2)", budget_mib: 165.0, ..YOLO },
            Member { name: "ResNet-101 (1)", budget_mib: 119.0, blocks: Some(3), ..RESNET },
            Member { name: "ResNet-101 (2)", budget_mib: 119.0, blocks: Some(3), ..RESNET },
            Member { budget_mib: 520.0, ..VGG },
        ],
        saves: [[53.4, 77.1], [38.6, 59.1], [45.6, 66.0]],
        longer_ms: [14.0, 47.0],
    },
    Scenario {
        name: "UAV surveillance",
        memory_mib: 325.0,
        members: &[
            Member { budget_mib: 189.0, ..YOLO },
            Member { budget_mib: 136.0, blocks: Some(3), ..RESNET },
        ],
        saves: [[64.4, 74.6], [49.2, 65.7], [51.8, 66.9]],
        longer_ms: [8.0, 37.0],
    },
];

/// Published: per cent that latency grows by without unified addressing, skeleton, and scheduling
/// (Fig. 15).
pub const ABLATIONS: [(&str, Parts, Range); 3] = [
    ("w/o-uni-add", Parts { unified: false, ..Parts::ALL }, [26.3, 50.1]),
    ("w/o-mod-ske", Parts { skeleton: false, ..Parts::ALL }, [15.7, 29.0]),
    ("w/o-pat-sch", Parts { scheduling: false, ..Parts::ALL }, [19.0, 34.3]),
];

/// Budgets of ResNet-101 as they shrink (Fig. 18), with the published number of blocks and latency,
/// if any. Only the first budget is stated. The others are those of the applications with as many
/// blocks.
pub const SHRINKING: [(f64, usize, Option<f64>); 3] =
    [(136.0, 3, None), (119.0, 3, Some(499.0)), (102.0, 4, Some(511.0))];

/// Whole bytes of so many MiB.
pub fn bytes(mib: f64) -> u64 {
    (mib * MIB).round() as u64
}

/// The network of a member as a chain of layers on a device.
pub fn chain(member: &Member, device: &Device) -> Chain {
    let layers = (member.layers)(member.side);
    subject(member, &layers, device, 0).chain(Parts::ALL)
}

/// A member with a budget.
pub fn subject<'a>(
    member: &'a Member,
    layers: &'a [Layer],
    device: &'a Device,
    budget: u64,
) -> Subject<'a> {
    Subject {
        name: member.name,
        layers,
        processor: member.processor,
        device,
        budget: Budget { bytes: budget, reserved: 0.0 },
    }
}

impl Scenario {
    pub fn memory_bytes(&self) -> u64 {
        bytes(self.memory_mib)
    }

    /// What Eq. 1 is asked. A floor is the smallest budget for which Eq. 3 can be met in `⌈2·s/b⌉`
    /// blocks.
    pub fn demands(&self, device: &Device) -> Vec<Demand> {
        let demand = |member: &Member| {
            let chain = chain(member, device);
            let whole = chain.whole();
            Demand {
                name: member.name.to_owned(),
                bytes: whole.bytes,
                latency_ns: whole.times.ex_ns.unsigned_abs(),
                urgency: member.urgency,
                floor: smallest_as_published(&chain, 0.0),
            }
        };
        self.members.iter().map(demand).collect()
    }

    /// Eq. 1 with floors.
    pub fn budgets(&self, device: &Device) -> Result<Vec<u64>, BudgetError> {
        budgets(&self.demands(device), self.memory_bytes())
    }

    /// The published budgets.
    pub fn published(&self) -> Vec<u64> {
        self.members.iter().map(|member| bytes(member.budget_mib)).collect()
    }
}
