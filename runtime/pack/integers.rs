//! Operators on words: integers of 32 bits, and truth values, which are the words 0 and 1.

use bytemuck::{Pod, Zeroable};

/// A word of the output from one word of each operand, broadcast where its extent is 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct IntegerParams {
    /// [`IntegerOp`] code.
    pub op: u32,
    /// Which operands are constants: 0 none, 1 `a`, 2 `b`. The constant is the layer's weights: one
    /// panel of row-major words.
    pub constants: u32,
    /// Extents of the constants, by operand.
    pub extents: [[u32; 4]; 2],
}

/// The operation that makes a word. Integers wrap. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntegerOp {
    /// a + b
    Add = 0,
    /// a - b
    Sub = 1,
    /// a · b
    Mul = 2,
    /// a / b, cut; 0 where b is 0
    Div = 3,
    /// what division leaves, with the sign of b; 0 where b is 0
    Mod = 4,
    /// what division leaves, with the sign of a; 0 where b is 0
    Fmod = 5,
    /// the smaller
    Min = 6,
    /// the larger
    Max = 7,
    /// a to the power b; a negative power is cut: 0 but of 1 and -1
    Pow = 8,
    /// bits that both have
    And = 9,
    /// bits that one has
    Or = 10,
    /// bits that one alone has
    Xor = 11,
    /// bits of a moved up by b places, as an unsigned number's
    ShiftLeft = 12,
    /// bits of a moved down by b places, as an unsigned number's
    ShiftRight = 13,
    /// a = b
    Equal = 14,
    /// a < b
    Less = 15,
    /// a ≤ b
    LessOrEqual = 16,
    /// a = b, of floats
    EqualFloats = 17,
    /// a < b, of floats
    LessFloats = 18,
    /// a ≤ b, of floats
    LessOrEqualFloats = 19,
    /// -a
    Neg = 20,
    /// |a|
    Abs = 21,
    /// -1, 0 or 1
    Sign = 22,
    /// the bits that a has not
    Not = 23,
    /// a = 0
    IsZero = 24,
    /// a ≠ 0
    IsNotZero = 25,
    /// a float, cut; the least integer where it is none of 32 bits
    Cut = 26,
    /// the float nearest to an integer, to an even one of two
    Float = 27,
    /// whether a float is not 0
    IsNotZeroFloat = 28,
    /// whether a float is no number
    IsNan = 29,
    /// whether a float is infinite
    IsInfinite = 30,
    /// whether a float is +∞
    IsPositiveInfinity = 31,
    /// whether a float is -∞
    IsNegativeInfinity = 32,
    /// the lowest 8 bits as a signed number
    Int8 = 33,
    /// the lowest 8 bits
    Uint8 = 34,
    /// the lowest 16 bits as a signed number
    Int16 = 35,
    /// the lowest 16 bits
    Uint16 = 36,
}

impl IntegerOp {
    /// All of them, by their codes.
    pub const ALL: [Self; 37] = {
        use IntegerOp::*;
        [
            Add,
            Sub,
            Mul,
            Div,
            Mod,
            Fmod,
            Min,
            Max,
            Pow,
            And,
            Or,
            Xor,
            ShiftLeft,
            ShiftRight,
            Equal,
            Less,
            LessOrEqual,
            EqualFloats,
            LessFloats,
            LessOrEqualFloats,
            Neg,
            Abs,
            Sign,
            Not,
            IsZero,
            IsNotZero,
            Cut,
            Float,
            IsNotZeroFloat,
            IsNan,
            IsInfinite,
            IsPositiveInfinity,
            IsNegativeInfinity,
            Int8,
            Uint8,
            Int16,
            Uint16,
        ]
    };

    /// The operation of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Number of operands.
    pub fn operands(self) -> usize {
        if (self as u32) < Self::Neg as u32 { 2 } else { 1 }
    }
}

/// Reduction of the middle of `outer × reduce × inner` contiguous words.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct FoldParams {
    /// Independent blocks.
    pub outer: u32,
    /// Words that become one.
    pub reduce: u32,
    /// Adjacent words that do not belong together.
    pub inner: u32,
    /// [`FoldOp`] code.
    pub op: u32,
    /// 1: of places whose words are equal the last, else the first.
    pub last: u32,
}

/// The function of a reduction of words. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoldOp {
    /// The sum of integers.
    Sum = 0,
    /// The product of integers.
    Product = 1,
    /// The smallest integer.
    Min = 2,
    /// The largest integer.
    Max = 3,
    /// The place of the smallest float.
    ArgMin = 4,
    /// The place of the largest float.
    ArgMax = 5,
    /// The place of the smallest integer.
    ArgMinWord = 6,
    /// The place of the largest integer.
    ArgMaxWord = 7,
}

impl FoldOp {
    /// All of them, by their codes.
    pub const ALL: [Self; 8] = {
        use FoldOp::*;
        [Sum, Product, Min, Max, ArgMin, ArgMax, ArgMinWord, ArgMaxWord]
    };

    /// The operation of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}
