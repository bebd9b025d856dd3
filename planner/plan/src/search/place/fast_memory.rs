//! The contents of fast memory: first scratch, which steps use repeatedly, then the buffers with the
//! most traffic for their size, as long as there is room.
//!
//! It is decided once for all cuts of the layers, as the places of activations are. A buffer has its
//! place there for its whole life. All others lie in the arena.

use crate::memory::{Lifetime, Lines, place_buffers};
use crate::steps::{scratch_bytes, whole};
use eyelet::pack::{FAST, NONE, PAGE, Step};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::cmp::Reverse;
use std::ops::Range;

/// Candidates that are looked at, the best ones first: fast memory holds few.
const MOST: usize = 256;

/// Fast memory that there is, and the threads that scratch serves.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastRoom {
    pub bytes: u64,
    pub threads: u32,
}

/// The layout of fast memory.
#[derive(Clone, Debug, Default)]
pub struct FastLayout {
    /// Addresses of buffers, of those that lie there.
    pub buffers: Vec<Option<u64>>,
    /// For each layer: the address of the scratch of its steps, and how much they may have there.
    scratch: Vec<Option<(u64, u64)>>,
}

/// The buffers of a network, as they are placed.
pub struct Buffers<'a> {
    pub sizes: &'a [u64],
    pub lives: &'a [Lifetime],
    pub lines: &'a [Option<Lines>],
    /// For each layer: the time of its steps.
    pub spans: &'a [Range<usize>],
    pub period: usize,
}

impl FastLayout {
    /// Nothing lies there.
    fn none(network: &Network) -> Self {
        Self {
            buffers: vec![None; network.buffers.len()],
            scratch: vec![None; network.layers.len()],
        }
    }

    /// Chooses what lies there, and where.
    pub fn new(network: &Network, of: &Buffers<'_>, room: FastRoom) -> Self {
        let mut layout = Self::none(network);
        if room.bytes == 0 {
            return layout;
        }
        let items = items(network, of, room);
        let mut chosen: Vec<&Item> = Vec::new();
        let mut offsets = Vec::new();
        for item in &items {
            chosen.push(item);
            match placed(&chosen, of, room.bytes) {
                Some(found) => offsets = found,
                None => drop(chosen.pop()),
            }
        }
        for (item, offset) in chosen.iter().zip(offsets) {
            match item.what {
                What::Scratch(layer) => layout.scratch[layer] = Some((FAST + offset, item.bytes)),
                What::Buffer(buffer) => layout.buffers[buffer] = Some(FAST + offset),
            }
        }
        layout
    }

    /// The address of a step's scratch of `bytes` bytes, if it lies there.
    pub fn scratch(&self, step: &Step, bytes: u64) -> Option<u64> {
        let (address, room) = self.scratch[step.layer as usize]?;
        (1..=room).contains(&bytes).then_some(address)
    }
}

/// Bytes of fast memory that a plan uses: whole pages.
pub fn fast_bytes(sizes: &[u64], plan: &Plan) -> u64 {
    let buffers = plan.places.iter().zip(sizes).map(|(place, bytes)| (place.address, *bytes));
    let scratch = plan.steps.iter().map(|step| (step.scratch, step.scratch_bytes));
    let used = buffers.chain(scratch).filter_map(|(at, bytes)| Some(at.checked_sub(FAST)? + bytes));
    used.max().unwrap_or(0).next_multiple_of(PAGE)
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The scratch of a layer's steps.
    Scratch(usize),
    Buffer(usize),
}

#[derive(Clone, Debug)]
struct Item {
    what: What,
    bytes: u64,
    life: Lifetime,
}

/// The candidates for a place there, the best first.
fn items(network: &Network, of: &Buffers<'_>, room: FastRoom) -> Vec<Item> {
    let scratch = |layer: usize| {
        let bytes = scratch_bytes(network, &whole(network, layer), room.threads);
        let span = &of.spans[layer];
        let life = Lifetime { start: span.start, end: span.end.saturating_sub(1) };
        Item { what: What::Scratch(layer), bytes, life }
    };
    let buffer = |buffer: usize| {
        let (what, bytes, life) = (What::Buffer(buffer), of.sizes[buffer], of.lives[buffer]);
        Item { what, bytes, life }
    };
    let fits =
        |item: &Item| (1..=room.bytes).contains(&item.bytes) && item.life.start != usize::MAX;
    let mut of_layers: Vec<Item> = (0..network.layers.len()).map(scratch).filter(fits).collect();
    of_layers.sort_by_key(|item| Reverse(item.bytes));
    let moved = moved(network);
    let often = |at: usize| (moved[at] as f64 / of.sizes[at] as f64, buffer(at));
    let buffers = (0..of.sizes.len()).filter(|at| of.sizes[*at] > 0).map(often);
    let mut buffers: Vec<(f64, Item)> = buffers.filter(|(_, item)| fits(item)).collect();
    // If their traffic is the same, larger ones come first, since the arena gains more room.
    buffers.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.bytes.cmp(&one.bytes)));
    let buffers = buffers.into_iter().map(|(_, item)| item).take(MOST);
    of_layers.into_iter().take(MOST).chain(buffers).collect()
}

/// For each buffer: bytes of it that steps read and write in an inference.
fn moved(network: &Network) -> Vec<u64> {
    let mut moved = vec![0; network.buffers.len()];
    let tensors =
        network.layers.iter().flat_map(|layer| layer.inputs.into_iter().chain([layer.output]));
    for id in tensors.filter(|id| *id != NONE) {
        let tensor = &network.tensors[id as usize];
        moved[tensor.buffer as usize] += tensor.rows() * u64::from(tensor.cols()) * 4;
    }
    moved
}

/// Offsets of these, if they fit.
fn placed(items: &[&Item], of: &Buffers<'_>, room: u64) -> Option<Vec<u64>> {
    let sizes: Vec<u64> = items.iter().map(|item| item.bytes).collect();
    let lives: Vec<Lifetime> = items.iter().map(|item| item.life).collect();
    let lines = |item: &&Item| match item.what {
        What::Buffer(buffer) => of.lines[buffer].clone(),
        What::Scratch(_) => None,
    };
    let lines: Vec<Option<Lines>> = items.iter().map(lines).collect();
    let offsets = place_buffers(&sizes, &lives, &lines, of.period);
    let fits = offsets.iter().zip(&sizes).all(|(offset, bytes)| offset + bytes <= room);
    fits.then_some(offsets)
}
