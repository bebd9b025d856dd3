//! Instruction sets, as packs name them, and the shapes of the tiles that they imply.

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
    /// NVIDIA's GPUs, which compute by themselves.
    Cuda = 4,
}

impl Isa {
    /// All instruction sets.
    pub const ALL: [Isa; 5] = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon, Isa::Cuda];

    /// The instruction set of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| *isa as u32 == code)
    }

    /// Output channels that a panel of packed weights has room for: NR of the GEMM tile. Those of a
    /// layer may hold fewer ([`Layer::columns`](super::Layer::columns)).
    pub const fn panel(self) -> usize {
        match self {
            Isa::Portable | Isa::Neon => 8,
            Isa::Avx2 => 16,
            Isa::Avx512 | Isa::Cuda => 32,
        }
    }

    /// Whether a panel holds several whole groups of `group` input and `group` output channels.
    /// Then a grouped convolution is packed and computed without regard to where groups end.
    pub const fn spans(self, group: usize) -> bool {
        group > 0 && group <= self.panel() / 2 && self.panel().is_multiple_of(group)
    }

    /// Output pixels in a tile: MR of the GEMM tile. Known for every instruction set on every host,
    /// since scratch is planned with it.
    pub const fn rows(self) -> usize {
        match self {
            // A GPU's tiles are its launches' own affair.
            Isa::Cuda => 1,
            Isa::Portable => 4,
            Isa::Neon => 8,
            Isa::Avx2 => 6,
            Isa::Avx512 => 14,
        }
    }

    /// Its name, as in board files and `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
            Isa::Cuda => "cuda",
        }
    }
}
