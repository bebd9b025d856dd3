//! Which profiles are possible, beyond the ranges of single numbers: those are the schema's
//! (`eyelet_board::schema`).

use super::{Profile, Reads, Steadiness};
use eyelet::kernels::Isa;

/// A number that does not go with another one.
#[derive(Debug)]
pub(crate) struct Unfit {
    /// Its key, from the profile on.
    pub field: String,
    value: f64,
    expected: &'static str,
}

impl Unfit {
    pub fn reason(&self) -> String {
        format!("it is {}; it must be {}", self.value, self.expected)
    }
}

fn must(
    field: impl Into<String>,
    value: f64,
    good: bool,
    expected: &'static str,
) -> Result<(), Unfit> {
    match good {
        true => Ok(()),
        false => Err(Unfit { field: field.into(), value, expected }),
    }
}

impl Profile {
    /// Refuses numbers with which time would not grow with work, and those of another kind of processor.
    pub(crate) fn validate(&self) -> Result<(), Unfit> {
        let (gpu, multiprocessors) = (self.isa == Isa::Cuda, self.multiprocessors);
        let expected = if gpu {
            "between 1 and 65536 with isa = \"cuda\""
        } else {
            "0 without isa = \"cuda\""
        };
        must("multiprocessors", multiprocessors.into(), gpu == (multiprocessors > 0), expected)?;
        if let Some(mapped) = self.mapped {
            must("mapped.gbs", mapped.gbs, !gpu, "left out with isa = \"cuda\"")?;
        }
        if let Some(transfer) = self.transfer {
            must("transfer.gbs", transfer.gbs, gpu, "left out without isa = \"cuda\"")?;
        }
        if let Some(Steadiness { one_thread, all_threads, reads }) = &self.steadiness {
            let all = [("one_thread", one_thread), ("all_threads", all_threads), ("reads", reads)];
            for (name, turns) in all {
                let field = format!("steadiness.{name}.slowest");
                must(field, turns.slowest, turns.fastest <= turns.slowest, "at least `fastest`")?;
            }
        }
        validate_reads("storage.reads", &self.storage.reads)?;
        match &self.storage.llc {
            Some(llc) => validate_reads("storage.llc.reads", &llc.reads),
            None => Ok(()),
        }
    }
}

fn validate_reads(name: &str, reads: &[Reads]) -> Result<(), Unfit> {
    for (index, pair) in reads.windows(2).enumerate() {
        let (before, read) = (pair[0], pair[1]);
        let field = |of| format!("{name}[{}].{of}", index + 1);
        let larger = read.bytes > before.bytes;
        must(field("bytes"), read.bytes as f64, larger, "larger than the one before")?;
        let slower = read.ns() >= before.ns();
        let expected = "such that a larger read takes no less time than the one before";
        must(field("mbs"), read.mbs, slower, expected)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;
    use super::super::{Contention, LlcReads, QueuedRead, Transfer};
    use super::*;

    #[test]
    fn bad_numbers_are_named() {
        let refused = |change: &dyn Fn(&mut Profile), text: &str| {
            let mut profile = profile();
            change(&mut profile);
            let error = Profile::parse("p", &profile.to_toml()).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        refused(&|p| p.compute.matmul_gflops = 0.0, "matmul_gflops: it is 0");
        refused(&|p| p.compute.pool_gbs = f64::NAN, "pool_gbs: it is NaN");
        refused(&|p| p.compute.copy_gbs = f64::INFINITY, "compute.copy_gbs: it is inf");
        refused(&|p| p.compute.memory_gbs = -1.0, "it must be between 0.0001 and 1e9");
        refused(
            &|p| p.compute.speed_probe_gflops = Some(0.0),
            "compute.speed_probe_gflops: it is 0",
        );
        refused(
            &|p| p.compute.speed_probe_all_gflops = Some(0.0),
            "compute.speed_probe_all_gflops: it is 0",
        );
        refused(&|p| p.storage.checksum_gbs = f64::INFINITY, "storage.checksum_gbs: it is inf");
        let endless = i64::MAX as u64;
        refused(&|p| p.compute.step_overhead_ns = endless, "compute.step_overhead_ns: it is 9223");
        refused(&|p| p.storage.latency_ns = endless, "storage.latency_ns: it is 9223");
        refused(&|p| p.storage.window = Some(endless), "storage.window: it is 9223");
        refused(&|p| p.compute.cache_bytes = endless, "compute.cache_bytes: it is 9223");
        refused(
            &|p| p.compute.shared_cache_bytes = endless,
            "compute.shared_cache_bytes: it is 9223",
        );
        refused(&|p| p.storage.reads.last_mut().unwrap().bytes = endless, "bytes: it is 9223");
        refused(
            &|p| p.storage.queued_reads = vec![QueuedRead { depth: 99, bytes: 1, mbs: 1.0 }],
            "depth: it is 99",
        );
        refused(&|p| p.compute.conv_1x1_piece_ns = -1.0, "conv_1x1_piece_ns: it is -1");
        refused(&|p| p.compute.transform_spill_ns_per_byte = f64::INFINITY, "per_byte: it is inf");
        let drag = Contention { llc_ns_per_byte: 0.0, dram_ns_per_byte: f64::NAN };
        refused(
            &|p| p.storage.contention = Some(drag),
            "storage.contention.dram_ns_per_byte: it is NaN",
        );
        refused(&|p| p.compute.scaling = 1.5, "scaling: it is 1.5");
        refused(&|p| p.threads = 0, "threads: it is 0");
        refused(&|p| p.multiprocessors = 8, "multiprocessors: it is 8");
        refused(&|p| p.isa = Isa::Cuda, "multiprocessors: it is 0");
        let copies = |gbs| Some(Transfer { latency_ns: 10_000, gbs });
        refused(&|p| p.transfer = copies(0.0), "transfer.gbs: it is 0");
        refused(&|p| p.transfer = copies(12.0), "transfer.gbs: it is 12");
        refused(&|p| p.storage.depth = 0, "storage.depth: it is 0");
        refused(&|p| p.storage.depth = 9, "storage.depth: it is 9");
        refused(&|p| p.storage.window = Some(0), "storage.window: it is 0");
        let deeper = |mbs| vec![QueuedRead { depth: 4, bytes: 65_536, mbs }];
        refused(
            &|p| p.storage.queued_reads = deeper(f64::NAN),
            "storage.queued_reads[0].mbs: it is NaN",
        );
        refused(&|p| p.storage.reads.clear(), "storage.reads: it is empty");
        let llc = |mbs, checksum_gbs| {
            let reads = vec![Reads { bytes: 65_536, mbs }];
            Some(LlcReads { reads, checksum_gbs })
        };
        refused(&|p| p.storage.llc = llc(-1.0, 1.0), "storage.llc.reads[0].mbs: it is -1");
        refused(&|p| p.storage.llc = llc(1.0, 0.0), "storage.llc.checksum_gbs: it is 0");
        refused(&|p| p.compute.winograd_exposed = Some(1.5), "winograd_exposed: it is 1.5");
        refused(&|p| p.storage.reads[1].bytes = 1, "storage.reads[1].bytes: it is 1");
        refused(&|p| p.storage.reads[1].mbs *= 1e6, "takes no less time");
        let text = profile().to_toml().replace("neon", "vax");
        assert!(
            Profile::parse("p", &text)
                .unwrap_err()
                .to_string()
                .contains("`vax`; it must be one of: port")
        );
        let text = profile().to_toml().replace("scaling", "scalding");
        assert!(Profile::parse("p", &text).unwrap_err().to_string().contains("scalding"));
    }
}
