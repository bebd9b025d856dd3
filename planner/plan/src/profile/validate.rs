//! Which numbers a profile may have.

use super::{Compute, LlcReads, Mapped, Profile, ProfileError, Reads, Storage, Transfer};
use eyelet::kernels::Isa;
use eyelet::storage::MAX_DEPTH;

/// Rates, in whatever they are counted by: time for work and bytes of any size stays far below what a number holds.
const RATES: Range = Range { least: 1e-4, most: 1e9, text: "between 0.0001 and 1e9" };
/// Rates of work that may take no time.
const FREE: Range = Range { most: f64::INFINITY, text: "0.0001 or more", ..RATES };
/// Nanoseconds of something that is done many times.
const TIMES: Range = Range { least: 0.0, most: 1e9, text: "between 0 and 1e9" };
const SHARES: Range = Range { least: 0.0, most: 1.0, text: "between 0 and 1" };
const SIZES: Range = Range { least: 1.0, most: (1u64 << 50) as f64, text: "between 1 and 2^50" };
const CACHES: Range = Range { least: 0.0, ..SIZES };
const THREADS: Range = Range { least: 1.0, most: 1024.0, text: "between 1 and 1024" };
const DEPTHS: Range = Range { least: 1.0, most: MAX_DEPTH as f64, text: "between 1 and 8" };
/// What a fit came to: any number.
const FITTED: Range = Range { least: f64::MIN, most: f64::MAX, text: "finite" };

/// Which numbers there may be; none is no number.
struct Range {
    least: f64,
    most: f64,
    text: &'static str,
}

impl Range {
    fn holds(&self, field: impl Into<String>, value: f64) -> Result<(), ProfileError> {
        must(field, value, (self.least..=self.most).contains(&value), self.text)
    }
}

fn must(
    field: impl Into<String>,
    value: f64,
    good: bool,
    expected: &'static str,
) -> Result<(), ProfileError> {
    match good {
        true => Ok(()),
        false => Err(ProfileError::Value { field: field.into(), value, expected }),
    }
}

impl Profile {
    /// Refuses numbers with which time would not be a positive, finite number that grows with work.
    pub fn validate(&self) -> Result<(), ProfileError> {
        THREADS.holds("threads", self.threads.into())?;
        let (gpu, multiprocessors) = (self.isa == Isa::Cuda, self.multiprocessors);
        let expected = if gpu {
            "between 1 and 65536 with isa = \"cuda\""
        } else {
            "0 without isa = \"cuda\""
        };
        let named = if gpu { (1..=65536).contains(&multiprocessors) } else { multiprocessors == 0 };
        must("multiprocessors", multiprocessors.into(), named, expected)?;
        validate_compute(&self.compute)?;
        validate_storage(&self.storage)?;
        if let Some(Mapped { gbs }) = self.mapped {
            RATES.holds("mapped.gbs", gbs)?;
            must("mapped.gbs", gbs, !gpu, "left out with isa = \"cuda\"")?;
        }
        if let Some(Transfer { latency_ns, gbs }) = self.transfer {
            RATES.holds("transfer.gbs", gbs)?;
            TIMES.holds("transfer.latency_ns", latency_ns as f64)?;
            must("transfer.gbs", gbs, gpu, "left out without isa = \"cuda\"")?;
        }
        if let Some(delays) = &self.delays {
            FITTED.holds("delays.alpha_ns_per_byte", delays.alpha_ns_per_byte)?;
            FITTED.holds("delays.beta_ns", delays.beta_ns)?;
            FITTED.holds("delays.gamma_ns_per_flop", delays.gamma_ns_per_flop)?;
            FITTED.holds("delays.eta_ns", delays.eta_ns)?;
            FITTED.holds("delays.in_residual", delays.in_residual)?;
            FITTED.holds("delays.ex_residual", delays.ex_residual)?;
        }
        Ok(())
    }
}

fn validate_compute(compute: &Compute) -> Result<(), ProfileError> {
    for (field, rate) in [
        ("compute.conv_1x1_gflops", compute.conv_1x1_gflops),
        ("compute.conv_kxk_gflops", compute.conv_kxk_gflops),
        ("compute.depthwise_gflops", compute.depthwise_gflops),
        ("compute.matmul_gflops", compute.matmul_gflops),
        ("compute.fully_connected_gbs", compute.fully_connected_gbs),
        ("compute.transform_gbs", compute.transform_gbs),
        ("compute.elementwise_gbs", compute.elementwise_gbs),
        ("compute.function_gbs", compute.function_gbs),
        ("compute.pool_gbs", compute.pool_gbs),
        ("compute.copy_gbs", compute.copy_gbs),
        ("compute.memory_gbs", compute.memory_gbs),
        ("compute.gauge_gflops", compute.gauge_gflops.unwrap_or(1.0)),
    ] {
        RATES.holds(field, rate)?;
    }
    FREE.holds("compute.widen_gbs", compute.widen_gbs)?;
    FREE.holds("compute.transform_weights_gbs", compute.transform_weights_gbs)?;
    for (field, ns) in [
        ("compute.conv_1x1_piece_ns", compute.conv_1x1_piece_ns),
        ("compute.conv_kxk_piece_ns", compute.conv_kxk_piece_ns),
        ("compute.depthwise_piece_ns", compute.depthwise_piece_ns),
        ("compute.depthwise_wait_ns_per_byte", compute.depthwise_wait_ns_per_byte),
        ("compute.transform_spill_ns_per_byte", compute.transform_spill_ns_per_byte),
        ("compute.product_ns", compute.product_ns),
        ("compute.product_ns_per_byte", compute.product_ns_per_byte),
        ("compute.shared_cache_gbs", compute.shared_cache_gbs),
        ("compute.step_overhead_ns", compute.step_overhead_ns as f64),
    ] {
        TIMES.holds(field, ns)?;
    }
    CACHES.holds("compute.cache_bytes", compute.cache_bytes as f64)?;
    CACHES.holds("compute.shared_cache_bytes", compute.shared_cache_bytes as f64)?;
    SHARES.holds("compute.scaling", compute.scaling)?;
    SHARES.holds("compute.exposed", compute.exposed)?;
    SHARES.holds("compute.winograd_exposed", compute.winograd_exposed.unwrap_or(compute.exposed))
}

fn validate_storage(storage: &Storage) -> Result<(), ProfileError> {
    RATES.holds("storage.checksum_gbs", storage.checksum_gbs)?;
    TIMES.holds("storage.latency_ns", storage.latency_ns as f64)?;
    DEPTHS.holds("storage.depth", storage.depth.into())?;
    SIZES.holds("storage.window", storage.window.unwrap_or(1) as f64)?;
    if let Some(contention) = storage.contention {
        TIMES.holds("storage.contention.llc_ns_per_byte", contention.llc_ns_per_byte)?;
        TIMES.holds("storage.contention.dram_ns_per_byte", contention.dram_ns_per_byte)?;
    }
    validate_reads("reads", &storage.reads)?;
    if let Some(LlcReads { reads, checksum_gbs }) = &storage.llc {
        RATES.holds("storage.llc.checksum_gbs", *checksum_gbs)?;
        validate_reads("llc.reads", reads)?;
    }
    for (index, queued_reads) in storage.queued_reads.iter().enumerate() {
        let field = |of| format!("storage.queued_reads[{index}].{of}");
        DEPTHS.holds(field("depth"), queued_reads.depth.into())?;
        SIZES.holds(field("bytes"), queued_reads.bytes as f64)?;
        RATES.holds(field("mbs"), queued_reads.mbs)?;
    }
    Ok(())
}

fn validate_reads(name: &str, reads: &[Reads]) -> Result<(), ProfileError> {
    let field = format!("the length of storage.{name}");
    must(field, reads.len() as f64, !reads.is_empty(), "positive")?;
    for (index, read) in reads.iter().enumerate() {
        let field = |of| format!("storage.{name}[{index}].{of}");
        SIZES.holds(field("bytes"), read.bytes as f64)?;
        RATES.holds(field("mbs"), read.mbs)?;
        if let Some(before) = index.checked_sub(1).map(|before| reads[before]) {
            let larger = read.bytes > before.bytes;
            must(field("bytes"), read.bytes as f64, larger, "larger than the one before")?;
            let slower = read.ns() >= before.ns();
            let expected = "such that a larger read takes no less time than the one before";
            must(field("mbs"), read.mbs, slower, expected)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;
    use super::super::{Contention, QueuedRead};
    use super::*;

    #[test]
    fn bad_numbers_are_named() {
        let refused = |change: &dyn Fn(&mut Profile), text: &str| {
            let mut profile = profile();
            change(&mut profile);
            let error = Profile::parse(&profile.to_toml()).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        refused(&|p| p.compute.matmul_gflops = 0.0, "matmul_gflops is 0");
        refused(&|p| p.compute.pool_gbs = f64::NAN, "pool_gbs is NaN");
        refused(&|p| p.compute.copy_gbs = f64::INFINITY, "compute.copy_gbs is inf");
        refused(&|p| p.compute.memory_gbs = -1.0, "it must be between 0.0001 and 1e9");
        refused(&|p| p.compute.gauge_gflops = Some(0.0), "compute.gauge_gflops is 0");
        refused(&|p| p.storage.checksum_gbs = f64::INFINITY, "storage.checksum_gbs is inf");
        let endless = i64::MAX as u64;
        refused(&|p| p.compute.step_overhead_ns = endless, "compute.step_overhead_ns is 9223");
        refused(&|p| p.storage.latency_ns = endless, "storage.latency_ns is 9223");
        refused(&|p| p.storage.window = Some(endless), "storage.window is 9223");
        refused(&|p| p.compute.cache_bytes = endless, "compute.cache_bytes is 9223");
        refused(&|p| p.compute.shared_cache_bytes = endless, "compute.shared_cache_bytes is 9223");
        refused(&|p| p.storage.reads.last_mut().unwrap().bytes = endless, "bytes is 9223");
        refused(
            &|p| p.storage.queued_reads = vec![QueuedRead { depth: 99, bytes: 1, mbs: 1.0 }],
            "99",
        );
        refused(&|p| p.compute.conv_1x1_piece_ns = -1.0, "conv_1x1_piece_ns is -1");
        refused(&|p| p.compute.transform_spill_ns_per_byte = f64::INFINITY, "per_byte is inf");
        let contention = Contention { llc_ns_per_byte: 0.0, dram_ns_per_byte: f64::NAN };
        refused(
            &|p| p.storage.contention = Some(contention),
            "storage.contention.dram_ns_per_byte is NaN",
        );
        refused(&|p| p.compute.scaling = 1.5, "scaling is 1.5");
        refused(&|p| p.threads = 0, "threads is 0");
        refused(&|p| p.multiprocessors = 8, "multiprocessors is 8");
        refused(&|p| p.isa = Isa::Cuda, "multiprocessors is 0");
        let copies = |gbs| Some(Transfer { latency_ns: 10_000, gbs });
        refused(&|p| p.transfer = copies(0.0), "transfer.gbs is 0");
        refused(&|p| p.transfer = copies(12.0), "transfer.gbs is 12");
        refused(&|p| p.storage.depth = 0, "storage.depth is 0");
        refused(&|p| p.storage.depth = 9, "storage.depth is 9");
        refused(&|p| p.storage.window = Some(0), "storage.window is 0");
        let queued_reads = |mbs| vec![QueuedRead { depth: 4, bytes: 65_536, mbs }];
        refused(
            &|p| p.storage.queued_reads = queued_reads(f64::NAN),
            "storage.queued_reads[0].mbs is NaN",
        );
        refused(&|p| p.storage.reads.clear(), "storage.reads is 0");
        let near = |mbs, checksum_gbs| {
            let reads = vec![Reads { bytes: 65_536, mbs }];
            Some(LlcReads { reads, checksum_gbs })
        };
        refused(&|p| p.storage.llc = near(-1.0, 1.0), "storage.llc.reads[0].mbs is -1");
        refused(&|p| p.storage.llc = near(1.0, 0.0), "storage.llc.checksum_gbs is 0");
        refused(&|p| p.compute.winograd_exposed = Some(1.5), "winograd_exposed is 1.5");
        refused(&|p| p.storage.reads[1].bytes = 1, "storage.reads[1].bytes is 1");
        refused(&|p| p.storage.reads[1].mbs *= 1e6, "takes no less time");
        let text = profile().to_toml().replace("neon", "vax");
        assert!(Profile::parse(&text).unwrap_err().to_string().contains("`vax`; there are: port"));
        let text = profile().to_toml().replace("scaling", "scalding");
        assert!(Profile::parse(&text).unwrap_err().to_string().contains("scalding"));
    }
}
