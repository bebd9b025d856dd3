//! Times of reads while others are in flight.
//!
//! The loader has up to `depth` reads in flight. It begins and verifies them in the plan's order. A read is served in
//! three parts:
//!
//! ```text
//! begin_i ≥ gate_i, begin_{i-1}, come_{i-places_i}
//! come_i  = max(begin_i + latency_i, come_{i-1}) + transfer_i        beside others
//! come_i  = begin_i + min(latency_i, begin_i - come_{i-1}) + transfer_i   places_i = 1
//! end_i   = max(come_i, end_{i-1}) + check_i
//! ```
//!
//! `latency` can pass during other reads, or while nothing is read. Storage does `transfer` for one read at a time. `check`
//! is the checksum and handing the load over, which the loader does itself. So a read alone takes the sum of all three. Each
//! of many reads adds the larger one of transfer and check. The transfer follows from the throughput of reads with the most
//! of their size in flight. Latency and transfer together follow from that of reads one after the other, with a checksum
//! after each. With one at a time all of a read is transfer, and the next begins when the check is done.
//!
//! Storage may also answer all reads in flight together: virtual disks do that report completions only when idle. Then reads
//! that begin before earlier ones are done arrive with the last of them. The throughput of many reads is that of groups of
//! the most reads in flight, each of which has the latency once. The transfer is the time that one more read adds.
//!
//! `places` is `depth`, and fewer for large reads: the device is given no more bytes at a time than the
//! [window](super::Storage::window), and a read begins there when it is alone, or when it and the reads in flight together
//! are within the window. A read that has arrived is no longer in flight once the loader has seen it: the loader looks when
//! the first read that it has not handed over has arrived. If that leaves none in flight, another begins before its check. A
//! large read that has the storage to itself begins when the one before has arrived, so all of its time is transfer. Storage
//! that has rested in between (virtual disks go to sleep) takes longer.

use super::{QueuedRead, Storage};

/// Loads whose time is that of their bytes.
const LARGE: u64 = 16 << 20;

/// Storage, ready to be asked often.
#[derive(Clone, Debug)]
pub struct Service {
    points: Vec<Point>,
    depth: u32,
    window: u64,
    together: bool,
    handover_ns: u64,
    checksum_gbs: f64,
    /// The part of loads that storage or the loader is busy with for longer.
    busier: usize,
}

/// Times of reads of one size.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: u64,
    /// One after the other.
    alone_ns: f64,
    /// Each of many reads with the most in flight; if these arrive together, one more of them.
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

    /// The time with nothing else in flight.
    pub fn alone(&self) -> i64 {
        self.latency + self.transfer + self.check
    }
}

impl Service {
    pub fn new(storage: &Storage) -> Self {
        let (depth, window) = (storage.depth.max(1), storage.window.unwrap_or(u64::MAX));
        let nearest = storage.queued_reads.iter().map(|queued| queued.depth);
        let nearest = nearest.min_by_key(|known| known.abs_diff(depth));
        let known = storage.queued_reads.iter().filter(|queued| Some(queued.depth) == nearest);
        let mut known: Vec<&QueuedRead> = known.collect();
        known.sort_by_key(|queued| queued.bytes);
        // The time of each of many reads. Between measured sizes time is interpolated. Smaller reads gain the same share as
        // the smallest measured size, and larger ones come at the rate of the largest.
        let each = |bytes: u64, alone_ns: f64| {
            let ns = |queued: &QueuedRead| queued.bytes as f64 * 1e3 / queued.mbs;
            let above = known.partition_point(|queued| queued.bytes < bytes);
            let low = above.checked_sub(1).map(|below| known[below]);
            let each = match (low, known.get(above)) {
                (Some(low), Some(high)) => {
                    let share = (bytes - low.bytes) as f64 / (high.bytes - low.bytes) as f64;
                    ns(low) + share * (ns(high) - ns(low))
                }
                (None, Some(&least)) => alone_ns * ns(least) / storage.read_ns(least.bytes),
                (Some(most), None) => bytes as f64 * ns(most) / most.bytes as f64,
                (None, None) => alone_ns,
            };
            let each = each.clamp(alone_ns / f64::from(depth), alone_ns);
            // So many of them are a group.
            let group = (window / bytes.max(1)).clamp(1, depth.into()) as f64;
            match storage.together && group > 1.0 {
                true => ((group * each - alone_ns) / (group - 1.0)).clamp(each / 4.0, each),
                false => each,
            }
        };
        let mut least = 0.0f64;
        let point = |read: &super::Reads| {
            let (bytes, alone_ns) = (read.bytes, read.ns());
            // Noise may make a larger read look faster than a smaller one; it is not.
            least = least.max(each(bytes, alone_ns)).min(alone_ns);
            Point { bytes, alone_ns, transfer_ns: least }
        };
        let mut service = Self {
            points: storage.reads.iter().map(point).collect(),
            depth,
            window,
            together: storage.together && depth > 1,
            handover_ns: storage.latency_ns,
            checksum_gbs: storage.checksum_gbs,
            busier: 0,
        };
        let [transfer, check] = service.parts_ns(LARGE);
        service.busier = usize::from(check > transfer);
        service
    }

    /// Most reads in flight.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Bytes in flight up to which another read may begin.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Whether storage answers all reads in flight together.
    pub fn together(&self) -> bool {
        self.together
    }

    /// The most reads in flight, the last one of these sizes included, most recent first.
    pub fn places(&self, recent: impl Iterator<Item = u64>) -> u32 {
        let sums = recent.scan(0u64, |sum, bytes| {
            *sum = sum.saturating_add(bytes);
            Some(*sum)
        });
        let fit = sums.take(self.depth as usize).take_while(|sum| *sum <= self.window);
        (fit.count() as u32).max(1)
    }

    /// The times of a load of `bytes` bytes. Between measured sizes time is interpolated. Below and above them the
    /// throughput is that of the nearest.
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
        let transfer = (of(|point| point.transfer_ns).round() as i64).min(alone);
        Read { latency: alone - transfer, transfer, check: all - alone + self.handover_ns as i64 }
    }

    /// The least time to transfer a byte.
    pub fn least_ns_per_byte(&self) -> f64 {
        let of = |point: &Point| point.transfer_ns.min(point.alone_ns) / point.bytes as f64;
        self.points.iter().map(of).reduce(f64::min).unwrap_or(0.0)
    }

    /// A load by itself, checksum included.
    pub fn load_ns(&self, bytes: u64) -> u64 {
        self.read(bytes).alone() as u64
    }

    /// The least time that a load of `bytes` bytes adds to a run of loads without pauses.
    pub fn each_ns(&self, bytes: u64) -> u64 {
        self.parts_ns(bytes).into_iter().fold(0.0, f64::max) as u64
    }

    /// Time for which a load keeps the busier one of storage and loader, which is the one that large loads
    /// keep longer.
    pub fn busy_ns(&self, bytes: u64) -> f64 {
        self.parts_ns(bytes)[self.busier]
    }

    /// Times for which a load keeps the storage, and the loader. Neither serves two loads at once. With one read at a time,
    /// all of it counts as the storage's.
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

    fn storage(depth: u32, queued_reads: &[(u64, f64)]) -> Storage {
        let reads = [(4096, 100.0), (65_536, 1000.0), (1 << 20, 3000.0)];
        let reads = reads.map(|(bytes, mbs)| Reads { bytes, mbs }).to_vec();
        let queued_reads =
            queued_reads.iter().map(|&(bytes, mbs)| QueuedRead { depth, bytes, mbs }).collect();
        Storage { depth, reads, queued_reads, ..Storage::flat(1000, 1.0, 16.0) }
    }

    #[test]
    fn what_is_measured_is_predicted() {
        let service = Service::new(&storage(4, &[(65_536, 2000.0), (1 << 20, 3600.0)]));
        let read = service.read(65_536);
        assert_eq!(read, Read { latency: 32_768, transfer: 32_768, check: 1000 + 4096 });
        assert_eq!(service.each_ns(65_536), 32_768);
        assert_eq!(service.load_ns(65_536), 65_536 + 5096);
        // Smaller reads have the share of the smallest measured size, larger ones the rate of the largest.
        assert_eq!(service.read(4 << 20).transfer, (4 << 20) * 1000 / 3600);
        assert_eq!(service.read(4096).latency, 20_480);
        assert_eq!(service.parts_ns(4096), [20_480.0, 1256.0]);
        // No more is gained than by all at once.
        let service = Service::new(&storage(2, &[(65_536, 9000.0)]));
        assert_eq!(service.read(65_536).transfer, 32_768);
        assert_eq!(service.each_ns(65_536), 32_768);
    }

    #[test]
    fn what_comes_together_has_one_latency() {
        let apart = storage(4, &[(65_536, 2000.0), (1 << 20, 3600.0)]);
        let service = Service::new(&Storage { together: true, ..apart.clone() });
        assert!(service.together() && !Service::new(&apart).together());
        // Four of them take as long as was measured of four, and one as long as one.
        let read = service.read(65_536);
        assert_eq!(read.latency + read.transfer, 65_536);
        let four = read.latency + 4 * read.transfer;
        assert!(four.abs_diff(4 * 32_768) <= 4, "{four}");
        // The window holds one such read, so the measurement is of one.
        let window = Some(100_000);
        let service = Service::new(&Storage { together: true, window, ..apart.clone() });
        assert_eq!(service.read(1 << 20), Service::new(&apart).read(1 << 20));
        assert!(!Service::new(&Storage { together: true, ..storage(1, &[]) }).together());
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
        // A read alone in flight does not wait for storage that has not rested.
        assert!(service.read(1 << 20).latency > 0);
    }

    #[test]
    fn boards_read_no_faster_than_they_say() {
        for name in crate::board::Board::names() {
            let storage = crate::board::Board::load(name).unwrap().profile.storage;
            let rates = storage.reads.iter().map(|read| read.mbs);
            let most = rates
                .chain(storage.queued_reads.iter().map(|queued| queued.mbs))
                .fold(0.0, f64::max);
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
        // Measurements of other depths do not affect this one.
        let mut storage = storage(1, &[]);
        storage.queued_reads = vec![QueuedRead { depth: 8, bytes: 65_536, mbs: 9000.0 }];
        assert_eq!(Service::new(&storage).read(65_536), service.read(65_536));
    }

    proptest! {
        #[test]
        fn larger_loads_take_no_less_of_anything(
            depth in 1u32..5,
            mbs in prop::array::uniform3(50.0f64..9000.0),
            bytes in 1u64..4 << 20,
            more in 0u64..1 << 20,
            together: bool,
        ) {
            let sizes = [4096u64, 65_536, 1 << 20];
            let queued_reads: Vec<(u64, f64)> = sizes.into_iter().zip(mbs).collect();
            let storage = Storage { together, ..storage(depth, &queued_reads) };
            let service = Service::new(&storage);
            let [less, more] = [bytes, bytes + more].map(|bytes| service.parts_ns(bytes));
            prop_assert!(less.iter().zip(&more).all(|(less, more)| less <= more));
            prop_assert_eq!(service.load_ns(bytes), storage.load_ns(bytes));
            prop_assert!(service.each_ns(bytes) <= service.load_ns(bytes));
        }
    }
}
