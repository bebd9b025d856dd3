//! The processor's mode of rounding and of denormal numbers.
//!
//! Results are the same bits everywhere, so a thread that computes does so by IEEE 754: rounding to
//! nearest, denormal numbers as they are, exceptions masked. A program may have set its threads
//! otherwise (`-ffast-math` does so on x86 when a program starts, audio programs do it for speed),
//! and threads that it starts inherit that. [`Ieee`] sets the mode and puts back what was there.
//!
//! The other choice, denormals as zero, is none: ARM decides before rounding whether a result is
//! too small, x86 after it, so that a result at the bound would differ. Weights that are so small
//! are the usual cause of denormals. The planner stores them as zeros.
//!
//! On 32-bit ARM and other processors the mode is as the program has set it.
#![allow(unsafe_code)]

/// The mode in which steps are computed, on this thread, as long as this lives.
#[derive(Debug)]
pub(crate) struct Ieee {
    /// The mode before, if it was another one.
    before: Option<control::Word>,
    /// The mode is the thread's.
    _thread: core::marker::PhantomData<*const ()>,
}

impl Ieee {
    /// Sets it. Costs next to nothing where it is set.
    pub fn enter() -> Self {
        let found = control::get();
        let other = found & control::MODE != control::IEEE;
        if other {
            control::set(found & !control::MODE | control::IEEE);
        }
        Self { before: other.then_some(found), _thread: core::marker::PhantomData }
    }
}

impl Drop for Ieee {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            control::set(before);
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse", not(miri)))]
mod control {
    /// MXCSR.
    pub type Word = u32;

    /// Flush to zero (15), rounding (14, 13), masks of exceptions (12 to 7), denormals are zero
    /// (6). The others are flags.
    pub const MODE: Word = 0xffc0;
    /// All exceptions are masked.
    pub const IEEE: Word = 0x1f80;

    pub fn get() -> Word {
        let mut word = 0;
        // SAFETY: the instruction stores the register at this address, and nothing else.
        unsafe {
            core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        }
        word
    }

    pub fn set(word: Word) {
        // SAFETY: only bits that the register has, read from it or of the modes above. Rust's own
        // code is compiled for the IEEE mode; another one is put back only where it was found.
        unsafe {
            core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, readonly, preserves_flags));
        }
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon", not(miri)))]
mod control {
    /// FPCR.
    pub type Word = u64;

    /// Alternative half precision (26), default NaN (25), flush to zero (24), rounding (23, 22),
    /// flush half precision to zero (19), traps (15, 12 to 8), alternative handling of denormals (2
    /// to 0).
    pub const MODE: Word = 0x07c8_9f07;
    /// Nothing of these.
    pub const IEEE: Word = 0;

    pub fn get() -> Word {
        let word;
        // SAFETY: the instruction reads the register, and nothing else.
        unsafe {
            core::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags));
        }
        word
    }

    pub fn set(word: Word) {
        // SAFETY: as it was read, but for modes that are off where none is set. Rust's own code is
        // compiled for the IEEE mode; another one is put back only where it was found.
        unsafe {
            core::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags));
        }
    }
}

#[cfg(any(
    miri,
    not(any(
        all(target_arch = "x86_64", target_feature = "sse"),
        all(target_arch = "aarch64", target_feature = "neon")
    ))
))]
mod control {
    pub type Word = u32;
    pub const MODE: Word = 0;
    pub const IEEE: Word = 0;

    pub fn get() -> Word {
        0
    }

    pub fn set(_: Word) {}
}

/// Sets the mode of the calling thread to one in which denormals are zero and results round up, and
/// returns what puts the old one back: what a program may have done.
#[cfg(all(test, not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn disturb() -> Ieee {
    let found = control::get();
    #[cfg(target_arch = "x86_64")]
    control::set(found & !control::MODE | control::IEEE | 0xc040);
    #[cfg(target_arch = "aarch64")]
    control::set(found | 1 << 24 | 1 << 22);
    Ieee { before: Some(found), _thread: core::marker::PhantomData }
}

#[cfg(all(test, not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// The smallest normal number, halved, and a third.
    fn results() -> [u32; 2] {
        [black_box(f32::MIN_POSITIVE) / black_box(2.0), black_box(1.0) / black_box(3.0)]
            .map(f32::to_bits)
    }

    #[test]
    fn the_mode_is_set_and_put_back() {
        let ieee = results();
        assert_eq!(ieee, [0x0040_0000, 0x3eaa_aaab]);
        let disturbed = disturb();
        let other = results();
        assert_eq!(other[0], 0);
        {
            let _mode = Ieee::enter();
            assert_eq!(results(), ieee);
            // Once more changes nothing.
            let _again = Ieee::enter();
            assert_eq!(results(), ieee);
        }
        assert_eq!(results(), other);
        drop(disturbed);
        assert_eq!(results(), ieee);
    }

    #[test]
    fn a_panic_puts_it_back() {
        let _disturbed = disturb();
        let other = results();
        let panicked = std::panic::catch_unwind(|| {
            let _mode = Ieee::enter();
            panic!("midway");
        });
        assert!(panicked.is_err());
        assert_eq!(results(), other);
    }
}
