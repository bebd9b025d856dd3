//! The measurements, as text and as JSON.

use eyelet_model::size;
use eyelet_plan::profile::Profile;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// The measurements, and the file that has them.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    pub file: PathBuf,
    pub profile: Profile,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Profile { name, isa, threads, compute, storage, .. } = &self.profile;
        let file = self.file.display();
        writeln!(f, "{file}: {name}, {} kernels, {threads} threads\n", isa.name())?;
        for (what, rate, unit) in [
            ("convolutions 1x1", compute.conv_1x1_gflops, "GFLOP/s"),
            ("larger convolutions", compute.conv_kxk_gflops, "GFLOP/s"),
            ("depthwise convolutions", compute.depthwise_gflops, "GFLOP/s"),
            ("products of activations", compute.matmul_gflops, "GFLOP/s"),
            ("fully connected", compute.fully_connected_gbs, "GB/s of weights"),
            ("Winograd's transforms", compute.transform_gbs, "GB/s"),
            ("widening weights", compute.widen_gbs, "GB/s"),
            ("transforming weights", compute.transform_weights_gbs, "GB/s"),
            ("elementwise", compute.elementwise_gbs, "GB/s"),
            ("exponentials", compute.function_gbs, "GB/s"),
            ("pooling", compute.pool_gbs, "GB/s"),
            ("copies", compute.copy_gbs, "GB/s"),
            ("memory", compute.memory_gbs, "GB/s"),
            ("the cores' shared cache", compute.shared_cache_gbs, "GB/s of weights"),
            ("of memory's time exposed", 100.0 * compute.exposed, "%"),
            (
                "and next to Winograd's",
                100.0 * compute.winograd_exposed.unwrap_or(compute.exposed),
                "%",
            ),
            ("checksums", storage.checksum_gbs, "GB/s"),
            ("a thread more adds", 100.0 * compute.scaling, "% of the first"),
        ] {
            writeln!(f, "{what:<24} {rate:>9.1} {unit}")?;
        }
        if let Some(delays) = &self.profile.delays {
            writeln!(
                f,
                "SwapNet's delays         {:.3} ns a byte, {:.1} µs a read (within {:.0} %); {:.4} ns an operation (within \
                 {:.0} %); {:.2} µs a swap-out",
                delays.alpha_ns_per_byte,
                delays.beta_ns / 1e3,
                100.0 * delays.in_residual,
                delays.gamma_ns_per_flop,
                100.0 * delays.ex_residual,
                delays.eta_ns / 1e3
            )?;
        }
        for read in &storage.reads {
            let what = format!("{} reads of {}", storage.io.name(), size::human(read.bytes));
            writeln!(f, "{what:<24} {:>9.1} MB/s", read.mbs)?;
        }
        for read in storage.llc.iter().flat_map(|llc| &llc.reads) {
            let what = format!("shared cache, {}", size::human(read.bytes));
            writeln!(f, "{what:<24} {:>9.1} MB/s", read.mbs)?;
        }
        if let Some(contention) = &storage.contention {
            writeln!(
                f,
                "computing during reads   {:.3} ns a byte longer, {:.3} in the cache that cores share",
                contention.dram_ns_per_byte, contention.llc_ns_per_byte
            )?;
        }
        for queued in &storage.queued_reads {
            let what = format!("{} at a time of {}", queued.depth, size::human(queued.bytes));
            writeln!(f, "{what:<24} {:>9.1} MB/s", queued.mbs)?;
        }
        Ok(())
    }
}
