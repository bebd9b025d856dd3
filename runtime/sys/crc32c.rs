//! CRC-32C (Castagnoli): what every load is checked with, so it must keep up with any storage.
//!
//! x86-64 (SSE 4.2) and 64-bit ARM (CRC extension) have an instruction that folds eight bytes into
//! a checksum, one a cycle but each waiting some three cycles for the one before. So three runs of
//! bytes are summed side by side, each from zero, and joined: appending `n` bytes to a message is a
//! linear map of its checksum, tabulated here for the length of a run. Everything else uses eight
//! tables of 256 words (slicing by eight).
//!
//! Bits are in the reflected order throughout; the complement before and after is left to
//! [`crc32c`].

/// The polynomial 0x1EDC6F41, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The CRC-32C of `data` appended to a message whose CRC-32C is `initial`; that of the empty
/// message is 0. So `crc32c(crc32c(0, a), b)` is that of `a` followed by `b`.
pub fn crc32c(initial: u32, data: &[u8]) -> u32 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if !cfg!(miri) && hardware::available() {
        // SAFETY: the processor has the instruction.
        return !unsafe { hardware::update(!initial, data) };
    }
    !portable(!initial, data)
}

/// Slicing by eight: the contribution of each byte of a word, by its position, from a table of its
/// own.
fn portable(mut crc: u32, data: &[u8]) -> u32 {
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        let low = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) ^ crc;
        crc = TABLES[7][(low & 255) as usize]
            ^ TABLES[6][(low >> 8 & 255) as usize]
            ^ TABLES[5][(low >> 16 & 255) as usize]
            ^ TABLES[4][(low >> 24) as usize]
            ^ TABLES[3][word[4] as usize]
            ^ TABLES[2][word[5] as usize]
            ^ TABLES[1][word[6] as usize]
            ^ TABLES[0][word[7] as usize];
    }
    rest.iter().fold(crc, |crc, byte| crc >> 8 ^ TABLES[0][((crc ^ *byte as u32) & 255) as usize])
}

/// `TABLES[k][b]`: the checksum, from zero and without complement, of byte `b` followed by `k`
/// zeros.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let shorter = tables[k - 1][byte];
            tables[k][byte] = shorter >> 8 ^ tables[0][(shorter & 255) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
};

/// With the processor's instruction, in three lanes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod hardware {
    #[cfg(target_arch = "aarch64")]
    use core::arch::aarch64::{__crc32cb as fold_byte, __crc32cd as fold};
    #[cfg(target_arch = "x86_64")]
    use core::arch::x86_64::_mm_crc32_u8 as fold_byte;

    /// Bytes of a lane: 21 lines of 64. Three lanes nearly fill a page, and are long enough to hide
    /// the joining.
    const LANE: usize = 1344;

    /// Asks for the line two blocks on. Three interleaved streams are more than processors foresee:
    /// from memory, this makes the sum three times as fast.
    #[inline(always)]
    fn fetch_ahead_of(line: &[[u8; 8]; 8]) {
        let ahead = line.as_ptr().cast::<u8>().wrapping_add(2 * 3 * LANE);
        // SAFETY: a hint, which may name any address.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
        }
        // SAFETY: likewise.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!("prfm pldl1keep, [{}]", in(reg) ahead,
                options(nostack, preserves_flags, readonly));
        }
    }

    /// Folds eight bytes into a checksum.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn fold(crc: u32, word: u64) -> u32 {
        core::arch::x86_64::_mm_crc32_u64(crc as u64, word) as u32
    }

    /// `SHIFT[k][b]`: what byte `k` of a checksum, being `b`, becomes when `LANE` zeros are
    /// appended.
    static SHIFT: [[u32; 256]; 4] = {
        // The map on single bits, by appending one zero after the other.
        let mut bits = [0u32; 32];
        let mut i = 0;
        while i < 32 {
            let mut crc = 1u32 << i;
            let mut zeros = 0;
            while zeros < LANE {
                crc = crc >> 8 ^ super::TABLES[0][(crc & 255) as usize];
                zeros += 1;
            }
            bits[i] = crc;
            i += 1;
        }
        let mut tables = [[0; 256]; 4];
        let mut k = 0;
        while k < 4 {
            let mut byte = 0;
            while byte < 256 {
                let mut bit = 0;
                while bit < 8 {
                    if byte >> bit & 1 != 0 {
                        tables[k][byte] ^= bits[8 * k + bit];
                    }
                    bit += 1;
                }
                byte += 1;
            }
            k += 1;
        }
        tables
    };

    /// The checksum after `LANE` zeros.
    fn shift(crc: u32) -> u32 {
        let [a, b, c, d] = crc.to_le_bytes();
        SHIFT[0][a as usize] ^ SHIFT[1][b as usize] ^ SHIFT[2][c as usize] ^ SHIFT[3][d as usize]
    }

    /// Appends `data` to a message, without complement.
    ///
    /// # Safety
    /// [`available`] must hold.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "sse4.2"))]
    #[cfg_attr(target_arch = "aarch64", target_feature(enable = "crc"))]
    pub(super) unsafe fn update(mut crc: u32, data: &[u8]) -> u32 {
        let (blocks, rest) = data.as_chunks::<{ 3 * LANE }>();
        for block in blocks {
            // Lines of eight words.
            let (lines, _) = block.as_chunks::<8>().0.as_chunks::<8>();
            let (first, others) = lines.split_at(LANE / 64);
            let (second, third) = others.split_at(LANE / 64);
            let (mut b, mut c) = (0, 0);
            for ((x, y), z) in first.iter().zip(second).zip(third) {
                fetch_ahead_of(x);
                fetch_ahead_of(y);
                fetch_ahead_of(z);
                for ((x, y), z) in x.iter().zip(y).zip(z) {
                    crc = fold(crc, u64::from_le_bytes(*x));
                    b = fold(b, u64::from_le_bytes(*y));
                    c = fold(c, u64::from_le_bytes(*z));
                }
            }
            crc = shift(shift(crc) ^ b) ^ c;
        }
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            crc = fold(crc, u64::from_le_bytes(*word));
        }
        for byte in rest {
            crc = fold_byte(crc, *byte);
        }
        crc
    }

    /// Whether the processor has the instruction. Asking is slow on virtual machines, so it is
    /// asked once.
    #[cfg(any(target_arch = "x86_64", all(feature = "linux", target_os = "linux")))]
    pub(super) fn available() -> bool {
        use core::sync::atomic::{AtomicU8, Ordering};
        static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
        const UNKNOWN: u8 = 2;
        match KNOWN.load(Ordering::Relaxed) {
            UNKNOWN => {
                let answer = ask();
                KNOWN.store(answer as u8, Ordering::Relaxed);
                answer
            }
            known => known != 0,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn ask() -> bool {
        core::arch::x86_64::__cpuid(1).ecx >> 20 & 1 != 0
    }

    #[cfg(all(target_arch = "aarch64", feature = "linux", target_os = "linux"))]
    fn ask() -> bool {
        // SAFETY: a question without pointers.
        unsafe { libc::getauxval(libc::AT_HWCAP) & libc::HWCAP_CRC32 != 0 }
    }

    /// Whether the target has the instruction: without a system there is nobody to ask.
    #[cfg(not(any(target_arch = "x86_64", all(feature = "linux", target_os = "linux"))))]
    pub(super) fn available() -> bool {
        cfg!(target_feature = "crc")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// By the definition: a bit at a time.
    fn definition(data: &[u8]) -> u32 {
        let mut crc = !0u32;
        for byte in data {
            crc ^= *byte as u32;
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
            }
        }
        !crc
    }

    /// Bytes without a pattern.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let byte = |_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 56) as u8
        };
        (0..len).map(byte).collect()
    }

    #[test]
    fn published_vectors() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        // The last four are from RFC 3720, appendix B.4.
        for (data, crc) in [
            (&b""[..], 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[255; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
        ] {
            assert_eq!(crc32c(0, data), crc);
            assert_eq!(!portable(!0, data), crc);
        }
    }

    #[test]
    fn all_short_lengths_and_offsets() {
        let data = noise(320);
        for offset in 0..17 {
            for len in 0..=300 {
                let data = &data[offset..offset + len];
                let crc = definition(data);
                assert_eq!(crc32c(0, data), crc, "{len} bytes at {offset}");
                assert_eq!(!portable(!0, data), crc, "{len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn long_runs_around_the_lanes() {
        let data = noise(60_000);
        for blocks in 1..4 {
            for len in (4032 * blocks - 20..4032 * blocks + 20).chain([4096 * blocks]) {
                let data = &data[len % 13..][..len];
                assert_eq!(crc32c(0, data), definition(data), "{len} bytes");
                assert_eq!(!portable(!0, data), definition(data), "{len} bytes");
            }
        }
        assert_eq!(crc32c(0, &data), definition(&data));
    }

    #[test]
    fn cutting_changes_nothing() {
        let data = noise(20_000);
        let whole = definition(&data);
        for cut in (0..data.len()).step_by(97) {
            let (head, tail) = data.split_at(cut);
            assert_eq!(crc32c(crc32c(0, head), tail), whole, "cut at {cut}");
        }
        let pieces = data.chunks(777).fold(0, crc32c);
        assert_eq!(pieces, whole);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut data = noise(4096 + 100);
        let crc = crc32c(0, &data);
        for bit in (0..data.len() * 8).step_by(41) {
            data[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(crc32c(0, &data), crc, "bit {bit}");
            data[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
