//! Records of a plan: where buffers lie, what is loaded when and to where, and what is computed in between.

use bytemuck::{Pod, Zeroable};

/// The header of a plan's section, followed by its arrays in the order of its counts, of records as they are
/// [`stored`](super::stored): places (one for each of the skeleton's buffers), loads (those that are done once come first), what steps
/// do, steps; and, if there is a staging ring, one [`Stage`] for each load that is not resident.
///
/// Step 0 of an inference is the host's turn: it reads the outputs of the last inference and writes
/// the inputs of the next. It has no record; the first record is step 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PlanHeader {
    /// Number of places; the skeleton's `buffers`.
    pub buffers: u32,
    /// Loads that are done once, when the pack is opened; they come first.
    pub resident_loads: u32,
    /// Loads of every inference.
    pub loads: u32,
    /// Number of [`WorkRecord`](super::stored::WorkRecord)s.
    pub works: u32,
    /// Steps of every inference, without the host's.
    pub steps: u32,
    /// Pages of the staging ring, next to the arena, for a device with a memory of its own: loads are read into it, and
    /// copied from there to their addresses. 0 where loads are read to where they are used.
    pub staging_pages: u32,
}

/// Where a buffer lies, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the arena; a multiple of 64.
    pub address: u64,
    /// 0: the whole buffer. Otherwise the image lines of a ring: line y lies in slot `y % lines`.
    pub lines: u32,
}

impl Place {
    /// A whole buffer.
    pub fn whole(address: u64) -> Self {
        Self { address, ..Self::default() }
    }
}

/// Bytes of a ring of `lines` image lines, each `width` pixels that lie `pitch` floats apart: a multiple of 64;
/// saturates.
pub fn ring_bytes(lines: u32, width: u32, pitch: u32) -> u64 {
    let pixels = u64::from(lines) * u64::from(width);
    let bytes = pixels.checked_mul(u64::from(pitch)).and_then(|floats| floats.checked_mul(4));
    bytes.and_then(|bytes| bytes.checked_next_multiple_of(64)).unwrap_or(u64::MAX)
}

/// One contiguous read from the weights section into the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// First byte, from the start of the weights section; a multiple of the page.
    pub offset: u64,
    /// Where it goes: bytes from the start of the arena; a multiple of the page.
    pub address: u64,
    /// Bytes, a multiple of the page.
    pub bytes: u32,
    /// CRC-32C of these bytes.
    pub crc: u32,
    /// The load may start when this many steps of its inference are done, the host's included.
    /// Negative: already in the inference before (`-3`: when all but three of its steps are done).
    pub release: i32,
}

/// Where a load is staged, and when. A plan with a staging ring has three stages with a counter each: reads (from storage into the
/// ring), copies (from the ring into the arena), steps. Read j may start when both its thresholds are reached; copy j
/// when read j is done and the load's `release` is reached, which then is not the read's; a step when its `ready` copies and its `reads`
/// reads are done. Each stage does its tasks in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Bytes from the start of the staging ring; a multiple of the page.
    pub address: u64,
    /// The read may start when this many copies of its inference are done. Negative: already in the inference before
    /// (`-3`: when all but three of its copies are done).
    pub copies: i32,
    /// The read may start when this many steps of its inference are done, the host's included. Negative: already in the inference before.
    pub steps: i32,
}

/// One kernel call sequence over one slice of a layer: `count` panels from panel `first`, for the
/// output rows `row` to `row + rows`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Index of the layer.
    pub layer: u32,
    /// The step may start when this many loads of its inference are done.
    pub ready: u32,
    /// First panel.
    pub first: u32,
    /// Panels; 0 for a layer without weights.
    pub count: u32,
    /// First output row.
    pub row: u32,
    /// Output rows.
    pub rows: u32,
    /// Where panel `first` lies: bytes from the start of the arena; a multiple of 32.
    pub weights: u64,
    /// Where its scratch lies: bytes from the start of the arena; a multiple of 64.
    pub scratch: u64,
    /// Bytes of scratch, a multiple of 64: no less than the operator needs; what it can do with more decides on its blocks.
    pub scratch_bytes: u64,
    /// 0: the layer's own algorithm. 2 or 4: F(2,3) or F(4,3) of a 3x3 convolution of stride 1 in one group whose
    /// stored panels are the direct one's; the step transforms them itself, into its scratch.
    pub algorithm: u32,
    /// The step may start when this many reads of its inference are done: of a plan with a staging ring, where it is more
    /// than `ready` says (a synchronous pipeline). 0 otherwise.
    pub reads: u32,
    /// The first chain of the reduction that it computes, if it computes some of them only.
    pub chain: u32,
    /// How many, of one panel; 0 for all of them, of however many panels. The first chain's step begins the sums, the others add to
    /// what the output holds ([`chains`](crate::ops::chains)).
    pub chains: u32,
    /// What becomes of the inputs that it transforms.
    pub kept: Kept,
}

/// What becomes of the inputs that a step of a [Winograd convolution](crate::ops::winograd) transforms.
///
/// A layer that is cut into slices of its panels would transform the same inputs in each of them. Where a step leaves them in its
/// scratch, the one after it, of other panels and the same rows, finds them there: its scratch is the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Nothing: they are transformed block by block, as they are used.
    #[default]
    Not,
    /// All of them are left, for the next step.
    Left,
    /// The step before has left them, and so does this one.
    Found,
}
