//! Which numbers a profile may have.

use super::{Drag, Near, Profile, ProfileError};
use eyelet::kernels::Isa;
use eyelet::storage::MAX_DEPTH;

impl Profile {
    /// Refuses numbers with which time would not be a positive, finite number that grows with work.
    pub fn validate(&self) -> Result<(), ProfileError> {
        let value = |field: String, value: f64, good: bool, expected| {
            if good { Ok(()) } else { Err(ProfileError::Value { field, value, expected }) }
        };
        let compute = &self.compute;
        let rates = [
            ("compute.conv_1x1_gflops", compute.conv_1x1_gflops),
            ("compute.conv_kxk_gflops", compute.conv_kxk_gflops),
            ("compute.depthwise_gflops", compute.depthwise_gflops),
            ("compute.matmul_gflops", compute.matmul_gflops),
            ("compute.fully_connected_gbs", compute.fully_connected_gbs),
            ("compute.transform_gbs", compute.transform_gbs),
            ("compute.widen_gbs", compute.widen_gbs),
            ("compute.transform_weights_gbs", compute.transform_weights_gbs),
            ("compute.elementwise_gbs", compute.elementwise_gbs),
            ("compute.function_gbs", compute.function_gbs),
            ("compute.pool_gbs", compute.pool_gbs),
            ("compute.copy_gbs", compute.copy_gbs),
            ("compute.memory_gbs", compute.memory_gbs),
            ("storage.checksum_gbs", self.storage.checksum_gbs),
        ];
        for (field, rate) in rates {
            // A rate may be infinite (no checksum), time may not.
            value(field.to_owned(), rate, rate >= 1e-6, "positive")?;
        }
        let drag =
            self.storage.drag.unwrap_or(Drag { near_ns_per_byte: 0.0, far_ns_per_byte: 0.0 });
        let costs = [
            ("compute.conv_1x1_piece_ns", compute.conv_1x1_piece_ns),
            ("compute.conv_kxk_piece_ns", compute.conv_kxk_piece_ns),
            ("compute.depthwise_piece_ns", compute.depthwise_piece_ns),
            ("compute.depthwise_wait_ns_per_byte", compute.depthwise_wait_ns_per_byte),
            ("compute.transform_spill_ns_per_byte", compute.transform_spill_ns_per_byte),
            ("compute.product_ns", compute.product_ns),
            ("compute.product_ns_per_byte", compute.product_ns_per_byte),
            ("compute.shared_cache_gbs", compute.shared_cache_gbs),
            ("storage.drag.near_ns_per_byte", drag.near_ns_per_byte),
            ("storage.drag.far_ns_per_byte", drag.far_ns_per_byte),
        ];
        for (field, cost) in costs {
            let good = cost >= 0.0 && cost.is_finite();
            value(field.to_owned(), cost, good, "finite, and not less than 0")?;
        }
        for (field, share) in [
            ("compute.scaling", compute.scaling),
            ("compute.exposed", compute.exposed),
            ("compute.winograd_exposed", compute.winograd_exposed.unwrap_or(compute.exposed)),
        ] {
            value(field.to_owned(), share, (0.0..=1.0).contains(&share), "between 0 and 1")?;
        }
        value("threads".to_owned(), self.threads.into(), self.threads > 0, "positive")?;
        let (gpu, multiprocessors) = (self.isa == Isa::Cuda, self.multiprocessors);
        let expected =
            if gpu { "positive with isa = \"cuda\"" } else { "0 without isa = \"cuda\"" };
        let named = gpu == (multiprocessors > 0);
        value("multiprocessors".to_owned(), multiprocessors.into(), named, expected)?;
        if let Some(transfer) = &self.transfer {
            let gbs = transfer.gbs;
            value("transfer.gbs".to_owned(), gbs, gbs >= 1e-6, "positive")?;
            value("transfer.gbs".to_owned(), gbs, gpu, "left out without isa = \"cuda\"")?;
        }
        let near = self.storage.near.as_ref();
        if let Some(Near { checksum_gbs, .. }) = near {
            let field = "storage.near.checksum_gbs".to_owned();
            value(field, *checksum_gbs, *checksum_gbs >= 1e-6, "positive")?;
        }
        let near = near.map(|near| ("near.reads", &near.reads));
        for (name, reads) in [("reads", &self.storage.reads)].into_iter().chain(near) {
            let count = reads.len();
            let field = format!("the length of storage.{name}");
            value(field, count as f64, count > 0, "positive")?;
            for (index, read) in reads.iter().enumerate() {
                let field = |of| format!("storage.{name}[{index}].{of}");
                value(field("bytes"), read.bytes as f64, read.bytes > 0, "positive")?;
                value(field("mbs"), read.mbs, read.mbs >= 1e-6, "positive")?;
                if let Some(before) = index.checked_sub(1).map(|before| reads[before]) {
                    let larger = read.bytes > before.bytes;
                    value(field("bytes"), read.bytes as f64, larger, "larger than the one before")?;
                    let slower = read.ns() >= before.ns();
                    let expected = "such that a larger read takes no less time than the one before";
                    value(field("mbs"), read.mbs, slower, expected)?;
                }
            }
        }
        let depth = self.storage.depth;
        let possible = (1..=MAX_DEPTH as u32).contains(&depth);
        value("storage.depth".to_owned(), depth.into(), possible, "1 to 8")?;
        let window = self.storage.window.unwrap_or(u64::MAX);
        value("storage.window".to_owned(), window as f64, window > 0, "positive")?;
        for (index, deeper) in self.storage.deeper.iter().enumerate() {
            let field = |of| format!("storage.deeper[{index}].{of}");
            value(field("depth"), deeper.depth.into(), deeper.depth > 0, "positive")?;
            value(field("bytes"), deeper.bytes as f64, deeper.bytes > 0, "positive")?;
            value(field("mbs"), deeper.mbs, deeper.mbs >= 1e-6, "positive")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;
    use super::super::{Deeper, Reads, Transfer};
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
        refused(&|p| p.compute.conv_1x1_piece_ns = -1.0, "conv_1x1_piece_ns is -1");
        refused(&|p| p.compute.transform_spill_ns_per_byte = f64::INFINITY, "per_byte is inf");
        let drag = Drag { near_ns_per_byte: 0.0, far_ns_per_byte: f64::NAN };
        refused(&|p| p.storage.drag = Some(drag), "storage.drag.far_ns_per_byte is NaN");
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
        let deeper = |mbs| vec![Deeper { depth: 4, bytes: 65_536, mbs }];
        refused(&|p| p.storage.deeper = deeper(f64::NAN), "storage.deeper[0].mbs is NaN");
        refused(&|p| p.storage.reads.clear(), "storage.reads is 0");
        let near = |mbs, checksum_gbs| {
            let reads = vec![Reads { bytes: 65_536, mbs }];
            Some(Near { reads, checksum_gbs })
        };
        refused(&|p| p.storage.near = near(-1.0, 1.0), "storage.near.reads[0].mbs is -1");
        refused(&|p| p.storage.near = near(1.0, 0.0), "storage.near.checksum_gbs is 0");
        refused(&|p| p.compute.winograd_exposed = Some(1.5), "winograd_exposed is 1.5");
        refused(&|p| p.storage.reads[1].bytes = 1, "storage.reads[1].bytes is 1");
        refused(&|p| p.storage.reads[1].mbs *= 1e6, "takes no less time");
        let text = profile().to_toml().replace("neon", "vax");
        assert!(Profile::parse(&text).unwrap_err().to_string().contains("`vax`; there are: port"));
        let text = profile().to_toml().replace("scaling", "scalding");
        assert!(Profile::parse(&text).unwrap_err().to_string().contains("scalding"));
    }
}
