//! What reads take while others are under way.
//!
//! The loader has up to `depth` reads under way, which it begins in the plan's order and verifies in that order. A read is
//! served in three parts:
//!
//! ```text
//! begin_i ≥ gate_i, begin_{i-1}, end_{i-places_i}
//! come_i  = max(begin_i + latency_i, come_{i-1}) + transfer_i
//! end_i   = max(come_i, end_{i-1}) + check_i
//! ```
//!
//! `latency` is what passes beside others; `transfer` is what storage has for one at a time; `check` is the checksum and handing
//! the load over, which the loader does itself. So a read alone takes the sum of all three, and of many each adds the
//! larger one of transfer and check. The transfer follows from the throughput of
//! reads with `depth` of their size under way, latency and transfer together from that of reads one after the other. With one at a time all
//! of a read is transfer, and the next begins when the check is done.
//!
//! `places` is `depth`, and fewer for large reads: a read begins when it is alone, or when those under way and itself are no
//! more bytes than the [window](super::Storage::window). Where one that has come leaves none under way, others begin before
//! its check.

use super::{Deeper, Storage};

/// Storage, ready to be asked often.
#[derive(Clone, Debug)]
pub struct Service {
    points: Vec<Point>,
    depth: u32,
    window: u64,
    handover_ns: u64,
    checksum_gbs: f64,
}

/// What reads of one size take.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: u64,
    /// One after the other.
    alone_ns: f64,
    /// Each of many, as many at a time as there may be.
    transfer_ns: f64,
}

/// The three parts of a read, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub latency: i64,
    pub transfer: i64,
    pub check: i64,
}

impl Read {
    /// One that nothing overlaps.
    pub fn of(transfer: i64) -> Self {
        Self { transfer, ..Self::default() }
    }

    /// With nothing else under way.
    pub fn alone(&self) -> i64 {
        self.latency + self.transfer + self.check
    }
}

impl Service {
    pub fn new(storage: &Storage) -> Self {
        let depth = storage.depth.max(1);
        let nearest = storage.deeper.iter().map(|deeper| deeper.depth);
        let nearest = nearest.min_by_key(|known| known.abs_diff(depth));
        let known = storage.deeper.iter().filter(|deeper| Some(deeper.depth) == nearest);
        let mut known: Vec<&Deeper> = known.collect();
        known.sort_by_key(|deeper| deeper.bytes);
        // What each of many reads takes: between the sizes that are known time is interpolated; beyond them as much is gained
        // as of the nearest.
        let each = |bytes: u64, alone_ns: f64| {
            let ns = |deeper: &Deeper| deeper.bytes as f64 * 1e3 / deeper.mbs;
            let above = known.partition_point(|deeper| deeper.bytes < bytes);
            let low = above.checked_sub(1).map(|below| known[below]);
            let each = match (low, known.get(above)) {
                (Some(low), Some(high)) => {
                    let share = (bytes - low.bytes) as f64 / (high.bytes - low.bytes) as f64;
                    ns(low) + share * (ns(high) - ns(low))
                }
                (None, Some(only)) if only.bytes == bytes => ns(only),
                (Some(only), None) | (None, Some(&only)) => {
                    alone_ns * ns(only) / storage.read_ns(only.bytes)
                }
                (None, None) => alone_ns,
            };
            each.clamp(alone_ns / f64::from(depth), alone_ns)
        };
        let mut least = 0.0f64;
        let point = |read: &super::Reads| {
            let (bytes, alone_ns) = (read.bytes, read.ns());
            // Noise may make a larger read look faster than a smaller one; it is not.
            least = least.max(each(bytes, alone_ns)).min(alone_ns);
            Point { bytes, alone_ns, transfer_ns: least }
        };
        Self {
            points: storage.reads.iter().map(point).collect(),
            depth,
            window: storage.window.unwrap_or(u64::MAX),
            handover_ns: storage.latency_ns,
            checksum_gbs: storage.checksum_gbs,
        }
    }

    /// Reads under way at a time.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Bytes of them, of which another one may be under way.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// How many reads may be under way with the last of those of these sizes, most recent first, itself among them.
    pub fn places(&self, recent: impl Iterator<Item = u64>) -> u32 {
        let sums = recent.scan(0u64, |sum, bytes| {
            *sum = sum.saturating_add(bytes);
            Some(*sum)
        });
        let fit = sums.take(self.depth as usize).take_while(|sum| *sum <= self.window);
        (fit.count() as u32).max(1)
    }

    /// What a load of so many bytes takes. Between the sizes that are known time is interpolated, below and above them
    /// the throughput is that of the nearest.
    pub fn read(&self, bytes: u64) -> Read {
        let above = self.points.partition_point(|point| point.bytes < bytes);
        let of = |ns: fn(&Point) -> f64| {
            let at = |point: &Point| bytes as f64 * ns(point) / point.bytes as f64;
            let below = above.checked_sub(1).map(|below| &self.points[below]);
            match (below, self.points.get(above)) {
                (Some(low), Some(high)) => {
                    let share = (bytes - low.bytes) as f64 / (high.bytes - low.bytes) as f64;
                    ns(low) + share * (ns(high) - ns(low))
                }
                (Some(only), None) | (None, Some(only)) => at(only),
                (None, None) => 0.0,
            }
        };
        let alone = of(|point| point.alone_ns);
        let all = (alone + bytes as f64 / self.checksum_gbs).round() as i64;
        let alone = alone.round() as i64;
        // Beside one that exceeds the window by itself there is none.
        let transfer = match bytes > self.window {
            true => alone,
            false => (of(|point| point.transfer_ns).round() as i64).min(alone),
        };
        Read { latency: alone - transfer, transfer, check: all - alone + self.handover_ns as i64 }
    }

    /// A load by itself, checksum included.
    pub fn load_ns(&self, bytes: u64) -> u64 {
        self.read(bytes).alone() as u64
    }

    /// What a load of so many bytes adds at least to many that come without a pause.
    pub fn each_ns(&self, bytes: u64) -> u64 {
        self.parts_ns(bytes).into_iter().fold(0.0, f64::max) as u64
    }

    /// What a load keeps the storage, and the loader: neither does that for two loads at once. Where there is one at a time,
    /// all of it is one's.
    pub fn parts_ns(&self, bytes: u64) -> [f64; 2] {
        let read = self.read(bytes);
        match self.depth {
            1 => [read.alone() as f64, 0.0],
            _ => [read.transfer as f64, read.check as f64],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reads;
    use super::*;
    use proptest::prelude::*;

    fn storage(depth: u32, deeper: &[(u64, f64)]) -> Storage {
        let reads = [(4096, 100.0), (65_536, 1000.0), (1 << 20, 3000.0)];
        let reads = reads.map(|(bytes, mbs)| Reads { bytes, mbs }).to_vec();
        let deeper = deeper.iter().map(|&(bytes, mbs)| Deeper { depth, bytes, mbs }).collect();
        Storage { depth, reads, deeper, ..Storage::flat(1000, 1.0, 16.0) }
    }

    #[test]
    fn what_is_measured_is_predicted() {
        let service = Service::new(&storage(4, &[(65_536, 2000.0), (1 << 20, 3600.0)]));
        let read = service.read(65_536);
        assert_eq!(read, Read { latency: 32_768, transfer: 32_768, check: 1000 + 4096 });
        assert_eq!(service.each_ns(65_536), 32_768);
        assert_eq!(service.load_ns(65_536), 65_536 + 5096);
        // Of sizes that were not measured the share is that of the nearest.
        assert_eq!(service.read(4096).latency, 20_480);
        assert_eq!(service.parts_ns(4096), [20_480.0, 1256.0]);
        // No more is gained than by all at once.
        let service = Service::new(&storage(2, &[(65_536, 9000.0)]));
        assert_eq!(service.read(65_536).transfer, 32_768);
        assert_eq!(service.each_ns(65_536), 32_768);
    }

    #[test]
    fn of_large_reads_fewer_are_under_way() {
        let mut storage = storage(4, &[(65_536, 2000.0), (1 << 20, 3600.0)]);
        storage.window = Some(65_536);
        let service = Service::new(&storage);
        let places = |sizes: &[u64]| service.places(sizes.iter().copied());
        assert_eq!(places(&[16 << 10; 8]), 4);
        assert_eq!(places(&[40 << 10, 20 << 10, 20 << 10]), 2);
        assert_eq!([places(&[70 << 10; 3]), places(&[65_536; 3]), places(&[])], [1; 3]);
        assert!(service.read(65_536).latency > 0);
        assert_eq!(service.read(65_537).latency, 0);
    }

    #[test]
    fn boards_read_no_faster_than_they_say() {
        for name in crate::board::Board::names() {
            let storage = crate::board::Board::load(name).unwrap().profile.storage;
            let rates = storage.reads.iter().map(|read| read.mbs);
            let most =
                rates.chain(storage.deeper.iter().map(|deeper| deeper.mbs)).fold(0.0, f64::max);
            let service = Service::new(&storage);
            for bytes in (1..).map(|pages| pages * 4096).take_while(|bytes| *bytes <= 16 << 20) {
                let mbs = bytes as f64 * 1e3 / service.read(bytes).transfer as f64;
                assert!(mbs <= most * 1.001, "{name}: {mbs} MB/s of {bytes}, {most} at most");
            }
        }
    }

    #[test]
    fn one_at_a_time_is_all_transfer() {
        let service = Service::new(&storage(1, &[]));
        for bytes in [1, 4096, 70_000, 5 << 20] {
            let read = service.read(bytes);
            assert_eq!(read.latency, 0);
            assert_eq!(service.each_ns(bytes), service.load_ns(bytes));
        }
        // What is said of other depths is not about this one.
        let mut storage = storage(1, &[]);
        storage.deeper = vec![Deeper { depth: 8, bytes: 65_536, mbs: 9000.0 }];
        assert_eq!(Service::new(&storage).read(65_536), service.read(65_536));
    }

    proptest! {
        #[test]
        fn larger_loads_take_no_less_of_anything(
            depth in 1u32..5,
            mbs in prop::array::uniform3(50.0f64..9000.0),
            bytes in 1u64..4 << 20,
            more in 0u64..1 << 20,
        ) {
            let sizes = [4096u64, 65_536, 1 << 20];
            let deeper: Vec<(u64, f64)> = sizes.into_iter().zip(mbs).collect();
            let storage = storage(depth, &deeper);
            let service = Service::new(&storage);
            let [less, more] = [bytes, bytes + more].map(|bytes| service.parts_ns(bytes));
            prop_assert!(less.iter().zip(&more).all(|(less, more)| less <= more));
            prop_assert_eq!(service.load_ns(bytes), storage.load_ns(bytes));
            prop_assert!(service.each_ns(bytes) <= service.load_ns(bytes));
        }
    }
}
