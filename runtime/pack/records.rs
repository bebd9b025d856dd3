//! The records of a pack: little-endian, `#[repr(C)]`, plain data, without padding. Here are those
//! of the file and of the network. [`layers`](super::layers) have [parameters](super::operators) of
//! their operators, and [`plans`](super::plans) have steps. These are the decoded forms.
//! [`stored`](super::stored) has most of them in fewer bytes.
//!
//! All of it is an *allegation* until `open` has validated it: an index may point nowhere, an
//! offset may lie outside the arena. Code that runs after `open` relies on what `open` proved.

use super::PAGE;
use bytemuck::{Pod, Zeroable};
use core::ops::Range;

/// The first eight bytes of a pack.
pub const MAGIC: [u8; 8] = *b"EYELET\r\n";

/// The version of the format that this library reads and writes.
pub const VERSION: u32 = 11;

/// An index that points at nothing (an absent input, weights that do not exist).
pub const NONE: u32 = u32::MAX;

/// The largest number of plans in a pack, those of all its shapes together.
pub const MAX_PLANS: usize = 16;

/// The largest number of shapes in a pack.
pub const MAX_SHAPES: usize = 8;

/// The largest number of inputs and outputs together: they are compared pair by pair.
pub const MAX_PORTS: usize = 1024;

/// The largest number of compute threads that a plan has scratch for, and that [devices of this
/// library](crate::device) have.
pub const MAX_THREADS: usize = 16;

/// Where the [`ShapeEntry`] table starts, in bytes from the start of the file and of the arena.
pub const SHAPES: usize = size_of::<Header>();

/// Where the [`PlanEntry`] table starts, in bytes from the start of the file and of the arena:
/// after [`MAX_SHAPES`] shapes.
pub const PLANS: usize = SHAPES + MAX_SHAPES * size_of::<ShapeEntry>();

/// Where the skeleton starts, in bytes from the start of the arena, and the first shape's in bytes
/// from the start of the file: after [`MAX_PLANS`] entries. So the room for tables does not depend
/// on the number of other plans.
pub const SKELETON: u64 = (PLANS + MAX_PLANS * size_of::<PlanEntry>()) as u64;

/// The header, at byte 0 of the file. The [`ShapeEntry`] and [`PlanEntry`] tables follow, and in
/// the same page the first [`SKELETON`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// CRC-32C of the first page with this field zero.
    pub crc: u32,
    /// Instruction set whose packing layout the weights have: an [`Isa`](super::Isa) code.
    pub isa: u32,
    /// Output channels in a panel (NR of the packing layout).
    pub panel: u16,
    /// 1: the pack lies in memory that the processor reads, such as flash. Skeletons and tables of
    /// plans are used where they lie in the pack, and so may weights be. 0: all of these are copied
    /// into the arena.
    pub mapped: u16,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Where the names of layers, shapes and strategies start, in bytes from the start of the file (a multiple of the page).
    /// They are for people, and lie in no arena.
    pub names_offset: u64,
    /// Bytes of these names (not rounded).
    pub names_bytes: u64,
    /// Where the weights start (a multiple of the page).
    pub weights_offset: u64,
    /// Bytes of the weights, a multiple of the page. All shapes share them.
    pub weights_bytes: u64,
    /// CRC-32C of these names.
    pub names_crc: u32,
    /// Number of shapes.
    pub shapes: u32,
    /// Number of plans.
    pub plans: u32,
    /// CRC-32C of the weights section, of a pack that is [`mapped`](Header::mapped); 0 of others.
    pub weights_crc: u32,
}

/// One shape of a pack, in the table of the header page: the network for one choice of its open
/// dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ShapeEntry {
    /// Where its skeleton starts, in bytes from the start of the file: [`SKELETON`] for the first
    /// shape, a multiple of the page for others.
    pub offset: u64,
    /// Bytes of its skeleton.
    pub bytes: u32,
    /// CRC-32C of its skeleton.
    pub crc: u32,
}

impl ShapeEntry {
    /// Where its skeleton lies in the file.
    pub fn skeleton(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes.into())
    }

    /// Where header and skeleton end in the arena when this shape is the one that is followed: a
    /// multiple of the page. A plan's tables follow.
    pub fn front(&self) -> u64 {
        (SKELETON + u64::from(self.bytes)).next_multiple_of(PAGE)
    }
}

/// One plan of a pack, in the table of the header page.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PlanEntry {
    /// The budget that the plan was made for: bytes of arena.
    pub budget: u64,
    /// The bytes of arena that it uses, tables included; at most `budget`.
    pub arena_bytes: u64,
    /// Where its section starts, in bytes from the start of the file (a multiple of the page).
    pub offset: u64,
    /// Predicted steady-state latency, nanoseconds; 0 where nothing was predicted.
    pub predicted_ns: u64,
    /// Bytes of its section (not rounded).
    pub bytes: u32,
    /// CRC-32C of its section.
    pub crc: u32,
    /// The largest number of compute threads that its scratch was planned for.
    pub threads: u16,
    /// Pages of fast memory that it uses, next to the arena.
    pub fast_pages: u16,
    /// Which strategy made it: an index into the strategies of the names
    /// ([`LayerNames`](super::LayerNames)).
    pub strategy: u16,
    /// Which shape it computes: index into the [`ShapeEntry`] table.
    pub shape: u16,
}

impl PlanEntry {
    /// Bytes of fast memory that it uses, next to the arena.
    pub fn fast_bytes(&self) -> u64 {
        u64::from(self.fast_pages) * PAGE
    }
}

/// The skeleton's own header, followed by its arrays in the order of its counts, of records as they
/// are [`stored`](super::stored).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SkeletonHeader {
    /// Number of [`Buffer`] records.
    pub buffers: u32,
    /// Number of [`Tensor`] records.
    pub tensors: u32,
    /// Number of [`Layer`](super::Layer) records.
    pub layers: u32,
    /// Number of words that layers refer to: activations and parameters.
    pub words: u32,
    /// Number of [`Port`] records that are inputs; they come first.
    pub inputs: u32,
    /// Number of [`Port`] records that are outputs.
    pub outputs: u32,
    /// Bytes of the string table (UTF-8), a multiple of 4: the names of the network and of its
    /// ports.
    pub names: u32,
    /// The network's name, in the string table.
    pub name: Name,
}

/// A string in a table of strings.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Name {
    /// First byte.
    pub start: u32,
    /// Bytes.
    pub len: u32,
}

/// The type of a tensor's elements. Both types have 32 bits. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Element {
    /// Floats.
    #[default]
    Float = 0,
    /// Integers and truth values.
    Word = 1,
}

impl Element {
    /// The name of the type, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float => "floats",
            Self::Word => "words",
        }
    }
}

/// A run of arena bytes that holds activations; its address is the plan's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes, a multiple of 64.
    pub bytes: u64,
    /// The type of all elements of its tensors.
    pub element: Element,
}

impl Buffer {
    /// A buffer of floats.
    pub const fn floats(bytes: u64) -> Self {
        Self { bytes, element: Element::Float }
    }
}

/// A tensor: `dims[0]·dims[1]·dims[2]` rows ("pixels") of `dims[3]` adjacent floats ("channels"),
/// at a uniform pitch, somewhere in a buffer. Images are NHWC; other tensors are row-major with
/// leading dimensions folded into the first three. Several tensors may view one buffer
/// (concatenation).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Tensor {
    /// Index of the buffer.
    pub buffer: u32,
    /// First element, in floats from the start of the buffer.
    pub offset: u32,
    /// Extent: images, height, width, channels.
    pub dims: [u32; 4],
    /// Floats from one row to the next; at least `dims[3]`.
    pub pitch: u32,
}

impl Tensor {
    /// Rows: images times height times width.
    pub fn rows(&self) -> u64 {
        self.dims[0] as u64 * self.dims[1] as u64 * self.dims[2] as u64
    }

    /// Floats in a row.
    pub fn cols(&self) -> u32 {
        self.dims[3]
    }
}

/// The type that a model gives an input or output. Floats of all widths are floats here, integers
/// and truth values words of 32 bits. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PortType {
    #[default]
    Float = 0,
    Half = 1,
    Bfloat16 = 2,
    Double = 3,
    Bool = 4,
    Int8 = 5,
    Uint8 = 6,
    Int16 = 7,
    Uint16 = 8,
    Int32 = 9,
    Uint32 = 10,
    Int64 = 11,
    Uint64 = 12,
}

impl PortType {
    /// All types, by their codes.
    pub const ALL: [Self; 13] = {
        use PortType::*;
        [
            Float, Half, Bfloat16, Double, Bool, Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64,
            Uint64,
        ]
    };

    /// The type of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Whether its elements are words, not floats.
    pub fn is_integer(self) -> bool {
        self as u32 >= Self::Bool as u32
    }

    /// The type of its elements in the arena.
    pub fn element(self) -> Element {
        if self.is_integer() { Element::Word } else { Element::Float }
    }

    /// Its name in NumPy.
    pub fn name(self) -> &'static str {
        [
            "float32", "float16", "bfloat16", "float64", "bool", "int8", "uint8", "int16",
            "uint16", "int32", "uint32", "int64", "uint64",
        ][self as usize]
    }

    /// The smallest and the largest integer of the type that a word holds.
    pub fn limits(self) -> (i32, i32) {
        match self {
            Self::Bool => (0, 1),
            Self::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Self::Uint8 => (0, u8::MAX.into()),
            Self::Int16 => (i16::MIN.into(), i16::MAX.into()),
            Self::Uint16 => (0, u16::MAX.into()),
            Self::Uint32 | Self::Uint64 => (0, i32::MAX),
            _ => (i32::MIN, i32::MAX),
        }
    }
}

/// An input or output of the network, in the model's own layout (row-major, NCHW as exported).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Port {
    /// The model's name for it.
    pub name: Name,
    /// The tensor that holds it: contiguous (`pitch == dims[3]`).
    pub tensor: u32,
    /// [`PortType`] code: the model's own type.
    pub kind: u32,
    /// Number of dimensions in the model's own shape.
    pub rank: u32,
    /// The model's own shape; unused entries are 1.
    pub shape: [u32; 8],
}

impl Port {
    /// The model's own type; floats where the code is none.
    pub fn kind(&self) -> PortType {
        PortType::from_code(self.kind).unwrap_or_default()
    }
}

const _: () = assert!(SKELETON < 4096 && SKELETON.is_multiple_of(8));
