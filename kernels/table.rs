//! Which function serves which operator on this target, tile sizes, and packing layouts.
//!
//! The kernels read activations through lists of pointers and take raw addresses. Everything around
//! them is safe code: [`Indirection`] builds the lists inside scratch memory, from matrices and a
//! [`Window`], and the methods of [`Kernels`] check every bound that a kernel relies on before they
//! call it. The checks cost a few comparisons a tile.
#![allow(unsafe_code)]

mod chains;
#[cfg(eyelet_x86)]
mod cpuid;
pub mod cuda;
mod dwconv;
mod elementwise;
mod gconv;
mod gemms;
mod grid;
mod igemm;
mod indirection;
#[cfg(eyelet_neon)]
mod midr;
mod packed;
mod pool;
mod prefetch;
mod rows;
mod widen;
mod window;
mod winograd;

pub use chains::{CHAIN, Chains};
pub use dwconv::Strip;
pub use elementwise::OperandPart;
pub use gemms::{Gemms, Product};
pub use grid::Grid;
pub use igemm::{Addend, Panel, Target};
pub use indirection::Indirection;
pub use packed::Packed;
pub use pool::{Pooling, Positions, Taps};
pub use prefetch::Prefetch;
pub use window::Window;
pub use winograd::{Finish, MAX_POINTS, Patch, TILES};

pub use super::fma::fma;
pub use crate::pack::Isa;

/// Which frequencies a Winograd tile of fewer outputs has.
pub use super::portable::winograd::kept;

/// A weight of 16 bits as a float.
pub use super::portable::widen::{bf16, dequantised, f16};

/// The square root of one float, correctly rounded.
pub use super::portable::math::sqrt;

/// Reductions that all instruction sets compute by one text.
pub use super::portable::fold;

/// The kernels of one instruction set. Where micro-architectures want different ones, there are
/// several sets of them; they run the same packs and give the same bits.
#[derive(Debug)]
pub struct Kernels {
    isa: Isa,
    name: &'static str,
    igemm: igemm::Function,
    dwconv: dwconv::Function,
    dwlines: &'static [dwconv::Lines],
    gconv: dwconv::Function,
    winograd: winograd::Functions,
    widen: widen::Functions,
    elementwise: elementwise::Functions,
    pool: pool::Function,
    rows: rows::Functions,
}

/// The kernels of an instruction set, by the name of its constants.
macro_rules! kernels {
    ($isa:ident, $table:ident) => {
        Kernels {
            isa: Isa::$isa,
            name: Isa::$isa.name(),
            igemm: igemm::$table,
            dwconv: dwconv::$table,
            dwlines: &[],
            gconv: gconv::$table,
            winograd: winograd::$table,
            widen: widen::$table,
            elementwise: elementwise::$table,
            pool: pool::$table,
            rows: rows::$table,
        }
    };
}

static PORTABLE: Kernels = kernels!(Portable, PORTABLE);
#[cfg(eyelet_x86)]
static AVX2: Kernels = kernels!(Avx2, AVX2);
#[cfg(eyelet_x86)]
static AVX512: Kernels = Kernels { dwlines: dwconv::AVX512_LINES, ..kernels!(Avx512, AVX512) };
#[cfg(eyelet_neon)]
static NEON: Kernels = kernels!(Neon, NEON);
/// For processors that execute in order.
#[cfg(eyelet_neon)]
static NEON_INORDER: Kernels = Kernels {
    name: "neon-inorder",
    igemm: igemm::NEON_INORDER,
    dwconv: dwconv::NEON_INORDER,
    dwlines: dwconv::NEON_INORDER_LINES,
    ..kernels!(Neon, NEON)
};

impl Kernels {
    /// The kernels for packs of an instruction set; `None` when this processor lacks it or they
    /// were not built.
    pub fn for_isa(isa: Isa) -> Option<&'static Self> {
        match isa {
            Isa::Portable => Some(&PORTABLE),
            #[cfg(eyelet_x86)]
            Isa::Avx2 => cpuid::features().avx2.then_some(&AVX2),
            #[cfg(eyelet_x86)]
            Isa::Avx512 => cpuid::features().avx512.then_some(&AVX512),
            #[cfg(eyelet_neon)]
            Isa::Neon => Some(if midr::in_order() { &NEON_INORDER } else { &NEON }),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }

    /// The fastest kernels that this processor can run.
    pub fn best() -> &'static Self {
        [Isa::Avx512, Isa::Avx2, Isa::Neon].into_iter().find_map(Self::for_isa).unwrap_or(&PORTABLE)
    }

    /// All that this processor can run, also those that are meant for others: for tests and
    /// measurements.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        #[cfg(eyelet_neon)]
        let others = [&NEON, &NEON_INORDER];
        #[cfg(not(eyelet_neon))]
        let others = [];
        let usual = Isa::ALL.into_iter().filter(|&isa| isa != Isa::Neon).filter_map(Self::for_isa);
        usual.chain(others)
    }

    /// Plain Rust, for the tests of operators that need no tuned kernels.
    #[cfg(test)]
    pub(crate) const PORTABLE: &'static Self = &PORTABLE;

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The name of these kernels: that of the instruction set, and for whom they are if not for
    /// all.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Rows (output pixels) of a GEMM tile, at most.
    pub fn mr(&self) -> usize {
        self.isa.rows()
    }

    /// Columns (output channels) of a GEMM tile: the panel.
    pub fn nr(&self) -> usize {
        self.isa.panel()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_is_available_and_portable_always_is() {
        assert!(Kernels::for_isa(Isa::Portable).is_some());
        assert!(Kernels::for_isa(Kernels::best().isa()).is_some());
        for isa in Isa::ALL {
            assert!(Kernels::for_isa(isa).is_none_or(|kernels| kernels.isa() == isa));
            assert_eq!(Isa::from_code(isa as u32), Some(isa));
            let usual = Kernels::for_isa(isa).map(Kernels::name);
            assert!(usual.is_none_or(|usual| Kernels::all().any(|kernels| kernels.name == usual)));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn detection_agrees_with_std() {
        let has = |fma, f16c| fma && f16c && std::is_x86_feature_detected!("avx2");
        let avx2 = has(std::is_x86_feature_detected!("fma"), std::is_x86_feature_detected!("f16c"));
        assert_eq!(Kernels::for_isa(Isa::Avx2).is_some(), avx2);
        let avx512 = avx2 && std::is_x86_feature_detected!("avx512f");
        assert_eq!(Kernels::for_isa(Isa::Avx512).is_some(), avx512);
    }
}
