//! Which function serves which operator on this target, tile sizes, and packing layouts.
#![allow(unsafe_code)]

/// An instruction set that packs are made for. The codes are part of the pack format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// Plain Rust, anywhere.
    Portable = 0,
    /// x86-64 with AVX2 and FMA.
    Avx2 = 1,
    /// x86-64 with AVX-512 F.
    Avx512 = 2,
    /// 64-bit ARM.
    Neon = 3,
}

impl Isa {
    /// All instruction sets.
    pub const ALL: [Isa; 4] = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon];

    /// The instruction set of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| *isa as u32 == code)
    }

    /// Output channels in a panel of packed weights: NR of the GEMM tile.
    pub const fn panel(self) -> usize {
        match self {
            Isa::Portable | Isa::Neon => 8,
            Isa::Avx2 => 16,
            Isa::Avx512 => 32,
        }
    }

    /// Its name, as in board files and `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
        }
    }
}

/// The kernels of one instruction set.
#[derive(Debug)]
pub struct Kernels {
    isa: Isa,
}

impl Kernels {
    /// Plain Rust, for the tests of operators that need no tuned kernels.
    #[cfg(test)]
    pub(crate) const PORTABLE: &Self = &Self { isa: Isa::Portable };

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}
