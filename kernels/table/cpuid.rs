//! Features of this x86 processor, asked for once. (The standard library's detection is not in
//! `core`.)

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU8, Ordering};

/// Instruction sets that both processor and operating system support.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// AVX2, FMA and F16C.
    pub avx2: bool,
    /// AVX-512 F, on top of these.
    pub avx512: bool,
}

const KNOWN: u8 = 1;
const HAS_AVX2: u8 = 2;
const HAS_AVX512: u8 = 4;

/// The features. The instruction that reads them is slow under a hypervisor, so the answer is kept.
pub fn features() -> Features {
    static CACHE: AtomicU8 = AtomicU8::new(0);
    let mut bits = CACHE.load(Ordering::Relaxed);
    if bits & KNOWN == 0 {
        bits = detect() | KNOWN;
        CACHE.store(bits, Ordering::Relaxed);
    }
    Features { avx2: bits & HAS_AVX2 != 0, avx512: bits & HAS_AVX512 != 0 }
}

fn detect() -> u8 {
    let bit = |word: u32, index: u32| word >> index & 1 == 1;
    if __cpuid(0).eax < 7 {
        return 0;
    }
    let (base, extended) = (__cpuid(1), __cpuid_count(7, 0));
    let needed = [12, 27, 28, 29]; // FMA, OSXSAVE, AVX, F16C
    if !needed.iter().all(|index| bit(base.ecx, *index)) {
        return 0;
    }
    // SAFETY: OSXSAVE says that the instruction is enabled.
    let saved = unsafe { xcr0() };
    // The system saves the XMM and YMM registers; for AVX-512 also masks and ZMM.
    const YMM: u64 = 0x06;
    const ZMM: u64 = 0xe6;
    let mut found = 0;
    if saved & YMM == YMM && bit(extended.ebx, 5) {
        found |= HAS_AVX2;
        if saved & ZMM == ZMM && bit(extended.ebx, 16) {
            found |= HAS_AVX512;
        }
    }
    found
}

/// The register states that the operating system saves.
///
/// # Safety
/// The processor must have OSXSAVE.
#[target_feature(enable = "xsave")]
unsafe fn xcr0() -> u64 {
    // SAFETY: by the caller's promise.
    unsafe { _xgetbv(0) }
}
