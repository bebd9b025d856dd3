//! What a plan can do wrong, one variant each.

use eyelet::pack::Element;
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// Who holds a range of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A buffer of the network, while it is live.
    Buffer(usize),
    /// The scratch of a step (1 is the first), while it runs.
    Scratch { step: usize },
    /// A load of every inference, from the earliest moment at which it may start to the latest at
    /// which it may end.
    Load(usize),
    /// Weights that a step reads, from the end of their load to the end of the step.
    Weights { step: usize, load: usize },
    /// A resident load: always.
    Resident(usize),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Buffer(buffer) => write!(f, "buffer {buffer}"),
            Holder::Scratch { step } => write!(f, "the scratch of step {step}"),
            Holder::Load(load) => write!(f, "load {load}"),
            Holder::Weights { step, load } => {
                write!(f, "the weights of step {step} (from load {load})")
            }
            Holder::Resident(load) => write!(f, "resident load {load}"),
        }
    }
}

/// Something in the arena for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    pub holder: Holder,
    /// Bytes from the start of the arena.
    pub bytes: Range<u64>,
    /// Steps during which it is held, 0 being the host's; below 0 and above the last step lie the
    /// neighbouring inferences. A load's range may be empty: it then happens between two steps.
    /// `None`: always.
    pub steps: Option<Range<i64>>,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.holder, self.bytes)?;
        match &self.steps {
            Some(steps) if steps.is_empty() => write!(f, " just before step {}", steps.start),
            Some(steps) => write!(f, " during steps {steps:?}"),
            None => write!(f, " always"),
        }
    }
}

/// A reason why a plan must not be executed. Steps count from 1, as step 0 is the host's; everything
/// else counts from 0. Ranges are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    #[error("{what}: {found} in the plan, {expected} expected")]
    Count { what: &'static str, found: u64, expected: u64 },
    #[error("{of} refers to {what} {index}, but there are {count}")]
    Index { of: String, what: &'static str, index: u64, count: u64 },
    #[error("tensor {tensor} ends at byte {end} of buffer {buffer}, which has {bytes}")]
    Tensor { tensor: usize, buffer: usize, end: u128, bytes: u64 },
    #[error("tensor {tensor} has {cols} columns at a pitch of {pitch}")]
    Pitch { tensor: usize, cols: u32, pitch: u32 },
    #[error("layer {layer} reaches float {end} of buffer {buffer}, which has {floats}")]
    Operand { layer: usize, buffer: usize, end: u64, floats: u64 },
    #[error("the plan uses {arena_bytes} bytes of arena, but its budget is {budget}")]
    Budget { arena_bytes: u64, budget: u64 },
    #[error("{what} is {value}, which is no multiple of {multiple}")]
    Misaligned { what: String, value: u64, multiple: u64 },
    #[error("{what} lies at {bytes:?}, outside of {within:?}")]
    OutOfBounds { what: String, bytes: Range<u64>, within: Range<u64> },
    #[error("{what} is empty")]
    Empty { what: String },
    #[error("load {load} has release {release}; it must be above {above} and at most {at_most}")]
    ReleaseRange { load: usize, release: i64, above: i64, at_most: i64 },
    #[error("step {step} waits for {ready} loads, but an inference has {loads}")]
    ReadyRange { step: usize, ready: u32, loads: usize },
    #[error(
        "deadlock: step {step} waits for load {load}, which waits until {release} steps are done"
    )]
    Deadlock { step: usize, load: usize, release: i64 },
    #[error(
        "loads are staged, but {isa} reads them to where they are used: leave out the staging ring"
    )]
    StagedElsewhere { isa: &'static str },
    #[error("load {load} is read when {value} {what} are done; it must be from {from} to {to}")]
    StageRange { load: usize, what: &'static str, value: i32, from: i64, to: i64 },
    #[error("step {step} waits for {reads} reads, but an inference has {loads} that are staged")]
    ReadsRange { step: usize, reads: u32, loads: usize },
    #[error(
        "load {load}, which may be read when {copied} loads are copied, overwrites load {other} at {bytes:?} of the \
         staging ring"
    )]
    StageOverwritten { load: usize, other: usize, copied: i64, bytes: Range<u64> },
    #[error(
        "deadlock: step {step} waits for load {load}, which by its own thresholds or those of loads before it waits \
         until {steps} steps are done"
    )]
    StageDeadlock { step: usize, load: usize, steps: i64 },
    #[error("step {step} makes a part of layer {layer} that cannot be made on its own")]
    NotSliceable { step: usize, layer: usize },
    #[error("buffer {buffer} cannot be a ring: {reason}")]
    Ring { buffer: usize, reason: &'static str },
    #[error("step {step} cannot use buffer {buffer}, a ring of {lines} lines: {reason}")]
    RingStep { step: usize, buffer: usize, lines: u64, reason: &'static str },
    #[error(
        "steps of layer {layer} alternate with those of another that touches the same floats of buffer \
         {buffer}, and not row by row"
    )]
    Alternating { layer: usize, buffer: usize },
    #[error(
        "step {step} comes to row {row} of buffer {buffer} before or after it is what the layers before \
         layer {layer} leave"
    )]
    OutOfOrder { step: usize, layer: usize, buffer: usize, row: u64 },
    #[error(
        "step {step} makes panels {panels:?} of layer {layer}, which has {of_panels}, and rows \
         {rows:?}, of which there are {of_rows}"
    )]
    SliceOutside {
        step: usize,
        layer: usize,
        panels: Range<u64>,
        rows: Range<u64>,
        of_panels: u64,
        of_rows: u64,
    },
    #[error(
        "steps {first} and {second} both make panels {panels:?}, rows {rows:?} of layer {layer}"
    )]
    SliceTwice { layer: usize, first: usize, second: usize, panels: Range<u64>, rows: Range<u64> },
    #[error(
        "step {second} adds chains of the sums of layer {layer} that come before those of step {first}"
    )]
    ChainsOutOfOrder { layer: usize, first: usize, second: usize },
    #[error("the steps of layer {layer} make {made} of its {total} pieces (panel, row and chain)")]
    SliceMissing { layer: usize, made: u128, total: u128 },
    #[error("layer {layer} reads float {float} of buffer {buffer} before any layer has written it")]
    Unwritten { layer: usize, buffer: usize, float: u64 },
    #[error(
        "{what} has an operand or output in buffer {buffer}, which is of {}, and not of what its operator needs",
        .found.name()
    )]
    Elements { what: String, buffer: usize, found: Element },
    #[error("output {output} takes float {float} of buffer {buffer}, which no layer writes")]
    OutputUnwritten { output: usize, buffer: usize, float: u64 },
    #[error(
        "input {input} of layer {layer} shares float {float} of buffer {buffer} with its output, \
         but this is no operation in place"
    )]
    Aliased { layer: usize, input: usize, buffer: usize, float: u64 },
    #[error("step {step} has {found} bytes of scratch, but needs {needed} with {threads} threads")]
    Scratch { step: usize, found: u64, needed: u64, threads: u32 },
    #[error("no load holds the weights of step {step}: bytes {weights:?} of the weights section")]
    NotLoaded { step: usize, weights: Range<u64> },
    #[error("step {step} expects its weights at {found}, but {holder} puts them at {expected}")]
    WeightsAddress { step: usize, holder: Holder, found: u64, expected: u64 },
    #[error(
        "step {step} uses its weights in the pack at {found} of the weights section, but they lie at {expected}"
    )]
    WeightsInPack { step: usize, found: u64, expected: u64 },
    #[error("step {step} uses its weights in the pack, which is no pack for memory-mapped storage")]
    NotMapped { step: usize },
    #[error("step {step} waits for {ready} loads only, but its weights come with load {load}")]
    ReadyTooSmall { step: usize, ready: u32, load: usize },
    #[error(
        "load {by}, which may start when {release} steps are done, overwrites the weights of step \
         {step} at {bytes:?} (from load {load})"
    )]
    WeightsOverwritten { step: usize, load: usize, by: usize, release: i64, bytes: Range<u64> },
    #[error("{by} overwrites resident load {resident} at {bytes:?}")]
    ResidentOverwritten { resident: usize, bytes: Range<u64>, by: Box<Occupant> },
    #[error("{a} overlaps {b}")]
    Overlap { a: Box<Occupant>, b: Box<Occupant> },
}
