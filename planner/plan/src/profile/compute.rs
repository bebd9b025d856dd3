//! The cost of computing: `[compute]` of a profile.

use serde::{Deserialize, Serialize};

/// Rates of the kernels' classes on one thread (of a GPU: on all of it), and what threads share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    pub conv_1x1_gflops: f64,
    /// Convolutions with larger kernels.
    pub conv_kxk_gflops: f64,
    pub depthwise_gflops: f64,
    /// Time of a row of a panel beyond its operations. It counts where sums are short.
    #[serde(default)]
    pub conv_1x1_piece_ns: f64,
    /// Time of a row of a panel beyond its operations, with larger kernels.
    #[serde(default)]
    pub conv_kxk_piece_ns: f64,
    /// Time of a row of a panel beyond its operations, in depthwise convolutions.
    #[serde(default)]
    pub depthwise_piece_ns: f64,
    /// The wait of depthwise convolutions for each byte of their weights, of which too few are in a row to be fetched
    /// ahead.
    #[serde(default)]
    pub depthwise_wait_ns_per_byte: f64,
    /// Products of two activations.
    pub matmul_gflops: f64,
    /// Convolutions of few rows: bytes of weights, which is what one thread reads of memory.
    pub fully_connected_gbs: f64,
    /// Transforms of Winograd convolutions: bytes read and written.
    pub transform_gbs: f64,
    /// Extra time of these transforms for each byte of a layer's input and output beyond twice [`cache_bytes`](Self::cache_bytes):
    /// tiles are rows far apart, which are not fetched ahead.
    #[serde(default)]
    pub transform_spill_ns_per_byte: f64,
    /// Time of a product of a block of tiles with a panel, of which each frequency has one, beyond its operations.
    #[serde(default)]
    pub product_ns: f64,
    /// Time of such a product for each byte of its weights, if those of all panels stay in a thread's own cache.
    #[serde(default)]
    pub product_ns_per_byte: f64,
    /// Widening weights of 16 bits: bytes of floats made. A GPU's kernels read weights as they are stored.
    pub widen_gbs: f64,
    /// Transforming a direct convolution's weights to those of Winograd's algorithm: bytes made. Not on a GPU.
    pub transform_weights_gbs: f64,
    /// Elementwise arithmetic and means: bytes read and written.
    pub elementwise_gbs: f64,
    /// Exponentials and powers (sigmoid, softmax, ...): bytes read and written.
    pub function_gbs: f64,
    /// Pooling: bytes of all taps and the output.
    pub pool_gbs: f64,
    /// Copies: bytes read and written.
    pub copy_gbs: f64,
    /// Bandwidth of memory, for all threads together.
    pub memory_gbs: f64,
    /// Activations that are smaller stay in a thread's own cache.
    pub cache_bytes: u64,
    /// Activations that are smaller stay in the last-level cache, if there is one. They come at
    /// [its rate](Self::shared_cache_gbs) or, if that was not measured, at that of elementwise arithmetic.
    #[serde(default)]
    pub shared_cache_bytes: u64,
    /// Rate of reading weights and activations from the last-level cache, on one thread. If it was not measured, weights
    /// count as read from memory.
    #[serde(default)]
    pub shared_cache_gbs: f64,
    /// Share of the shorter one of computing and reading memory that adds to the longer one, in layers with weights where both
    /// take as long. The share shrinks as the ratio of the two grows.
    pub exposed: f64,
    /// The share of Winograd convolutions, if it was measured. They read a panel's weights frequency by frequency, with
    /// too few in a row to fetch many ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winograd_exposed: Option<f64>,
    /// The share of the first thread's rate that each further thread adds.
    pub scaling: f64,
    /// Cost of a step beyond its work: counters, waking threads, borders. On a GPU, cost of each
    /// launch.
    pub step_overhead_ns: u64,
    /// The result of `eyelet run --speed` during the measurements, on one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_probe_gflops: Option<f64>,
    /// The result of `eyelet run --speed` on all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_probe_all_gflops: Option<f64>,
}

impl Compute {
    /// The rate of the speed probe on `threads` threads. It is measured on one thread, and on all.
    pub fn probed_gflops(&self, threads: u32, all: u32) -> Option<f64> {
        match threads {
            1 => self.speed_probe_gflops,
            _ => self.speed_probe_all_gflops.filter(|_| threads == all),
        }
    }

    /// Rate of `threads` threads, as a multiple of one thread's. Threads on slower cores count as [part of
    /// one](super::Profile::team).
    pub fn speedup(&self, threads: f64) -> f64 {
        1.0 + (threads - 1.0).max(0.0) * self.scaling
    }

    /// Largest plan whose weights are in the last-level cache; 0 if reading them there was not measured.
    pub fn llc_bytes(&self) -> u64 {
        if self.shared_cache_gbs > 0.0 { self.shared_cache_bytes } else { 0 }
    }

    /// Rate at which `threads` threads together read the last-level cache. It is at least that of
    /// memory.
    pub fn llc_gbs(&self, threads: f64) -> f64 {
        (self.shared_cache_gbs * self.speedup(threads)).max(self.bandwidth_gbs(threads))
    }

    /// Rate at which `threads` threads together read memory.
    pub fn bandwidth_gbs(&self, threads: f64) -> f64 {
        (self.fully_connected_gbs * threads).min(self.memory_gbs)
    }
}
