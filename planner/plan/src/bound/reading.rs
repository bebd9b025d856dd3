//! Lower bounds for bringing weights to the arena, by each channel and for each layer.

use super::groups::Groups;
use crate::profile::Profile;
use eyelet::pack::PAGE;
use std::rc::Rc;

/// Classes of times for a byte differ by one part in this many.
const CLASSES: f64 = 200.0;

/// Larger reads are no faster than the largest of a profile.
pub(super) const LARGEST: u64 = 1 << 27;

/// One of the channels by which weights come to the arena: at which rate, and where it counts.
#[derive(Clone, Debug)]
pub(super) struct Channel<Rate> {
    pub(super) rate: Rate,
    /// All intervals; otherwise the empty ones.
    pub(super) intervals: bool,
    /// Reads come in groups, each of which has a latency.
    pub(super) together: bool,
}

/// The time of a read or copy, by its bytes.
pub(super) type Task<'a> = Box<dyn Fn(u64) -> f64 + 'a>;

/// The channels of a profile: reads into an arena that a shared cache holds, or a larger one, and
/// copies where there are any.
pub(super) fn channels(profile: &Profile, in_llc: bool, threads: u32) -> Vec<Channel<Task<'_>>> {
    let copies = profile.transfer.map(|transfer| Channel {
        rate: Box::new(move |bytes| transfer.copy_ns(bytes) as f64) as Task<'_>,
        intervals: true,
        together: false,
    });
    // Loads keep the storage and the loader; of one at a time, one says all.
    let service = Rc::new(profile.service(in_llc, threads));
    let parts = if service.depth() > 1 { 0..2 } else { 0..1 };
    let reads = parts.map(|part| {
        let (service, together) = (service.clone(), part == 0 && service.together());
        let rate = Box::new(move |bytes| service.parts_ns(bytes)[part]) as Task<'_>;
        Channel { rate, intervals: copies.is_none(), together }
    });
    let reads: Vec<_> = reads.collect();
    reads.into_iter().chain(copies).collect()
}

/// Lower bounds for bringing bytes of each layer.
pub(super) struct Reading {
    /// By class, in descending order.
    pub(super) ns_per_byte: Vec<f64>,
    /// The class of each layer.
    pub(super) class: Vec<usize>,
    /// As which they come, where that takes longer.
    pub(super) groups: Option<Groups>,
}

impl Reading {
    /// By what a byte of each layer takes.
    pub(super) fn new(of_layers: &[f64]) -> Self {
        let mut ns_per_byte = of_layers.to_vec();
        ns_per_byte.sort_unstable_by(|one, other| other.total_cmp(one));
        ns_per_byte.dedup();
        let class = |ns: &f64| ns_per_byte.partition_point(|other| other > ns);
        Self { class: of_layers.iter().map(class).collect(), ns_per_byte, groups: None }
    }

    /// The least time to bring `bytes` of each class, all but `held` bytes.
    pub(super) fn least_ns(&self, bytes: &[f64], mut held: f64) -> f64 {
        let mut brought = 0.0;
        let ns = bytes.iter().zip(&self.ns_per_byte).map(|(bytes, ns)| {
            let kept = bytes.min(held);
            held -= kept;
            brought += bytes - kept;
            (bytes - kept) * ns
        });
        let ns: f64 = ns.sum();
        ns + self.groups.map_or(0.0, |groups| groups.least_ns(brought))
    }
}

/// The least time of a byte in a read, or a copy, of up to `most` bytes.
pub(super) fn least_ns_per_byte(profile: &Profile, task: &Task<'_>, most: u64) -> f64 {
    let rate = |size: u64| task(size) / size as f64;
    sizes(profile, most).map(rate).fold(f64::INFINITY, f64::min)
}

/// Sizes of loads, up to `most`. Between two of them time grows linearly, so the best rate is at
/// one of them. They are the sizes of the profile, and the one that fills the window alone.
pub(super) fn sizes(profile: &Profile, most: u64) -> impl Iterator<Item = u64> {
    let llc = profile.storage.llc.iter().flat_map(|llc| &llc.reads);
    let sizes = profile.storage.reads.iter().chain(llc).map(|read| read.bytes);
    let sizes = sizes.chain(profile.storage.window);
    sizes.filter(move |size| *size < most).chain([PAGE, most])
}

/// A little less than what a byte takes, so that layers with about the same are one class.
pub(super) fn coarse(ns_per_byte: f64) -> f64 {
    ((ns_per_byte.ln() * CLASSES).floor() / CLASSES).exp()
}
