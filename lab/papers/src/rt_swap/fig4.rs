//! RT-Swap's Fig. 4: 300 MB swapped, by method and by chunk size.

use super::costs::{PAGEABLE_IN_MS_PER_MB, PAGEABLE_OUT_MS_PER_MB};
use eyelet_tasks::generate::table3::{IN_MS_PER_MB, MS_PER_CHUNK, OUT_MS_PER_MB};

/// Published swap-out times of 300 MB, by chunk size in megabytes.
pub const PUBLISHED_OUT_MS: [(u32, f64); 3] = [(2, 35.3), (64, 26.2), (256, 41.6)];
/// Published times, out and in, of pageable memory and of RT-Swap's library.
pub const PUBLISHED_PAGEABLE_MS: (f64, f64) = (192.6, 93.9);
pub const PUBLISHED_LIBRARY_MS: (f64, f64) = (26.2, 28.3);

/// Swap-out and swap-in time of some megabytes in chunks of this size.
pub fn swap_ms(megabytes: f64, chunk_mb: f64) -> (f64, f64) {
    let chunks = (megabytes / chunk_mb).ceil();
    let time = |per_mb: f64| per_mb * chunks * chunk_mb + MS_PER_CHUNK * chunks;
    (time(OUT_MS_PER_MB), time(IN_MS_PER_MB))
}

/// Pageable memory.
pub fn pageable_ms(megabytes: f64, chunk_mb: f64) -> (f64, f64) {
    let moved = (megabytes / chunk_mb).ceil() * chunk_mb;
    (PAGEABLE_OUT_MS_PER_MB * moved, PAGEABLE_IN_MS_PER_MB * moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_reproduces_the_published_times() {
        for (chunk_mb, published) in PUBLISHED_OUT_MS {
            let (out, _) = swap_ms(300.0, f64::from(chunk_mb));
            assert!(
                (out - published).abs() < 0.15,
                "{chunk_mb} MB: {out} ms, published {published}"
            );
        }
        let (_, into) = swap_ms(300.0, 64.0);
        assert!((into - 28.3).abs() < 1e-9);
        // 64 MB is the best of the sizes that the paper shows.
        let out = |mb: f64| swap_ms(300.0, mb).0;
        assert!(out(64.0) < out(2.0) && out(2.0) < out(256.0));
    }
}
