//! Parameters of operators that find places, and of those that write to them.

use bytemuck::{Pod, Zeroable};

/// The places of the first words in order, of the middle of `outer × reduce × inner` contiguous
/// words: of equal ones the first is first. NaN is above all floats.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct TopKParams {
    /// Independent blocks.
    pub outer: u32,
    /// Words that are put in order.
    pub reduce: u32,
    /// Adjacent words that do not belong together.
    pub inner: u32,
    /// Places that are made of each.
    pub count: u32,
    /// 1: the largest is first, 0: the smallest.
    pub largest: u32,
    /// 1: the words are integers, 0: floats.
    pub integers: u32,
}

/// Non-maximum suppression: for each image and class the boxes that remain, those of higher scores
/// first. A box goes if one that remains overlaps with it by more than a share of their union.
/// Places that no box takes are -1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct SuppressParams {
    /// Images, each with boxes of its own.
    pub images: u32,
    /// Classes of each image, which score its boxes.
    pub classes: u32,
    /// Boxes of an image.
    pub boxes: u32,
    /// Places that are made of each image and class.
    pub count: u32,
    /// The share of a union.
    pub overlap: f32,
    /// Boxes that do not score above this go.
    pub score: f32,
    /// 0: boxes are two opposite corners, y first. 1: they are center, width and height, x first.
    pub centers: u32,
}

/// Rows of the first input, where those that the indices name are replaced by rows of the third, or
/// combined with them in their order. The indices are the second input, one a row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ScatterParams {
    /// Rows of the first input.
    pub entries: u32,
    /// [`ScatterOp`] code.
    pub op: u32,
}

/// How a row combines with the one before it. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterOp {
    /// Replaces it.
    Replace = 0,
    /// The sum of floats.
    Add = 1,
    /// The product of floats.
    Mul = 2,
    /// The larger float; NaN where one is.
    Max = 3,
    /// The smaller float; NaN where one is.
    Min = 4,
}

impl ScatterOp {
    /// All of them, by their codes.
    pub const ALL: [Self; 5] = [Self::Replace, Self::Add, Self::Mul, Self::Max, Self::Min];

    /// The operation of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Combines two floats.
    pub fn of(self, old: f32, new: f32) -> f32 {
        match self {
            Self::Replace => new,
            Self::Add => old + new,
            Self::Mul => old * new,
            _ if old.is_nan() => old,
            Self::Max => {
                if old > new {
                    old
                } else {
                    new
                }
            }
            Self::Min => {
                if old < new {
                    old
                } else {
                    new
                }
            }
        }
    }
}
