//! Records of a plan: where buffers lie, what is loaded when and to where, and what is computed in
//! between.

use bytemuck::{Pod, Zeroable};

/// The header of a plan's section, followed by its arrays in the order of its counts, of records as
/// they are [`stored`](super::stored): places (one for each of the skeleton's buffers), loads
/// (those that are done once come first), what steps do, steps; and, if there is a staging ring,
/// one [`Stage`] for each load that is not resident.
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
    /// Pages of the staging ring, next to the arena, for a device with a memory of its own: loads
    /// are read into it, and copied from there to their addresses. 0 where loads are read to where
    /// they are used.
    pub staging_pages: u32,
}

/// Addresses from here on count in the region *fast*: tightly coupled memory next to the arena.
/// Buffers and scratch may lie there. Regions are ranges of one space of addresses, so that what
/// overlaps, and what lies inside, is asked in one way.
pub const FAST: u64 = 1 << 37;

/// Where a buffer lies, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the arena, or [`FAST`] and bytes from the start of fast memory; a
    /// multiple of 64.
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

/// Bytes of a ring of `lines` image lines, each `width` pixels that lie `pitch` floats apart: a
/// multiple of 64; saturates.
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

/// Where a load is staged, and when. A plan with a staging ring has three stages with a counter
/// each: reads (from storage into the ring), copies (from the ring into the arena), steps. Read j
/// may start when both its thresholds are reached; copy j when read j is done and the load's
/// `release` is reached, which then is not the read's; a step when its `ready` copies and its
/// `reads` reads are done. Each stage does its tasks in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Bytes from the start of the staging ring; a multiple of the page.
    pub address: u64,
    /// The read may start when this many copies of its inference are done. Negative: already in the
    /// inference before (`-3`: when all but three of its copies are done).
    pub copies: i32,
    /// The read may start when this many steps of its inference are done, the host's included.
    /// Negative: already in the inference before.
    pub steps: i32,
}

/// Which memory an address counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Region {
    /// The arena: bytes from its start.
    #[default]
    Arena,
    /// The pack itself, if it is [`mapped`](super::Header::mapped): bytes from the start of its
    /// weights section.
    Mapped,
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
    /// Where panel `first` lies, in bytes from the start of its region; a multiple of 32.
    pub weights: u64,
    /// The region that `weights` counts in.
    pub weights_in: Region,
    /// Where its scratch lies: bytes from the start of the arena, or [`FAST`] and bytes from the
    /// start of fast memory; a multiple of 64.
    pub scratch: u64,
    /// Bytes of scratch, a multiple of 64: no less than the operator needs; what it can do with
    /// more decides on its blocks.
    pub scratch_bytes: u64,
    /// The step may start when this many reads of its inference are done: of a plan with a staging
    /// ring, where it is more than `ready` says (a synchronous pipeline). 0 otherwise.
    pub reads: u32,
    /// Which sums it computes, and how.
    pub method: Method,
}

impl Step {
    /// The tile of the algorithm that the step computes by, if that is not the layer's own; else 0.
    pub fn algorithm(&self) -> u32 {
        self.method.algorithm()
    }

    /// The first chain that the step computes; 0 if it computes all.
    pub fn chain(&self) -> u32 {
        match self.method {
            Method::Chains { first, .. } => first,
            Method::Own | Method::Winograd { .. } => 0,
        }
    }

    /// How many chains the step computes; 0 if it computes all.
    pub fn chains(&self) -> u32 {
        self.method.chains()
    }
}

/// Which sums of a slice a step computes, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// All sums, by the layer's own algorithm.
    #[default]
    Own,
    /// Some chains of the sums of one panel, by the layer's own algorithm. The first chain's step
    /// begins the sums, the others add to what the output holds ([`chains`](crate::ops::chains)).
    Chains {
        /// The first chain.
        first: u32,
        /// The number of chains, at least 1.
        count: u32,
    },
    /// All sums by F(tile,3), of a 3x3 convolution of stride 1 in one group whose stored panels are
    /// the direct algorithm's. The step transforms them into its scratch. The tile is 2 or 4.
    Winograd {
        /// Outputs of a tile along each axis.
        tile: u32,
    },
}

impl Method {
    /// The method of an algorithm: 0 for the layer's own, or the tile of Winograd's.
    pub fn by(algorithm: u32) -> Self {
        match algorithm {
            0 => Self::Own,
            tile => Self::Winograd { tile },
        }
    }

    /// The tile of Winograd's algorithm, if steps transform their weights for it; else 0.
    pub fn algorithm(self) -> u32 {
        match self {
            Self::Winograd { tile } => tile,
            Self::Own | Self::Chains { .. } => 0,
        }
    }

    /// The number of chains; 0 for all of them.
    pub fn chains(self) -> u32 {
        match self {
            Self::Chains { count, .. } => count,
            Self::Own | Self::Winograd { .. } => 0,
        }
    }
}
