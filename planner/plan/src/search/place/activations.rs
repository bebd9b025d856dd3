//! Where activations lie. All designs for a budget and a way to slide share this, however layers
//! are cut.

use super::fast_memory::{Buffers, FastLayout, FastRoom};
use crate::memory::{Lifetime, buffer_sizes, lifetimes, place_buffers};
use crate::request::Request;
use crate::slice::{Read, Slices};
use crate::slide::{self, Group, Sliding};
use crate::steps::whole;
use eyelet::pack::Step;
use eyelet_model::network::Network;
use eyelet_model::tables::{Counts, Tables, different};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

/// Where the activations of a network lie, however its layers are cut.
pub struct ActivationLayout {
    /// Layers that slide, and the rings of lines that buffers are.
    pub sliding: Sliding,
    /// Bytes of each buffer: those of its ring if it is one, or all.
    pub sizes: Vec<u64>,
    /// Offsets of the buffers from the end of the tables, and the end of the highest. Offsets of
    /// buffers in fast memory have no meaning.
    pub(in crate::search) offsets: Vec<u64>,
    pub peak: u64,
    /// Buffers and scratch in fast memory instead of the arena.
    pub(in crate::search) fast: FastLayout,
    /// Steps that every plan has: those of layers that slide, and one for each other layer.
    counts: Counts,
    pub tables: Tables,
    /// For each layer: the largest hole between its live buffers, and the end of the highest of
    /// them.
    holes: Vec<(u64, u64)>,
    /// The layer at which the most activation bytes are alive.
    pub peak_layer: u32,
}

impl ActivationLayout {
    /// The layout in which these groups slide. Their layers use the algorithms of this network.
    pub fn new(network: &Network, groups: Vec<Group>, fast: FastRoom) -> Self {
        let layers = network.layers.len();
        let steps = (0..layers).map(|layer| whole(network, layer));
        let sliding = Sliding::new(network, groups);
        let steps = sliding.interleave(steps);
        let period = steps.len() + 1;
        let works = different(steps.iter().map(|step| (step.layer, step.rows)));
        let counts = Counts { works, steps: steps.len(), ..Counts::default() };
        let tables = Tables::of(network);
        let spans = spans(network, &steps);
        let mut lives = lifetimes(network, period, |layer| spans[layer].clone());
        let sizes = buffer_sizes(network, &sliding.rings);
        let together = |one: &Step, other: &Step| sliding.cut_together(one, other);
        let lines = slide::line_lives(network, &steps, &sliding.rings, together);
        let buffers =
            Buffers { sizes: &sizes, lives: &lives, lines: &lines, spans: &spans, period };
        let fast = FastLayout::new(network, &buffers, fast);
        // Buffers there never live in the arena.
        let elsewhere = lives.iter_mut().zip(&fast.buffers).filter(|(_, at)| at.is_some());
        elsewhere.for_each(|(life, _)| *life = Lifetime { start: usize::MAX, end: 0 });
        let offsets = place_buffers(&sizes, &lives, &lines, period);
        let in_arena = (0..offsets.len()).filter(|buffer| fast.buffers[*buffer].is_none());
        let peak = in_arena.map(|buffer| offsets[buffer] + sizes[buffer]).max().unwrap_or(0);
        let mut holes = Vec::new();
        let (mut most, mut peak_layer) = (0, 0);
        let mut live = Live::new(&lives, &offsets, &sizes);
        for (layer, span) in spans.iter().enumerate() {
            live.advance(span);
            if live.bytes > most {
                (most, peak_layer) = (live.bytes, layer as u32);
            }
            holes.push(live.hole());
        }
        Self { sliding, sizes, offsets, peak, fast, counts, tables, holes, peak_layer }
    }

    /// Bytes of the tables of a plan with few steps: each layer that does not slide has one step
    /// and one load, and some have a few.
    pub fn usual_tables(&self, network: &Network) -> u64 {
        let layers = network.layers.len();
        let Counts { works, steps, .. } = self.counts;
        let (works, steps) = (works + layers, steps + layers);
        self.tables.bytes(Counts { loads: 2 * layers, works, steps, stages: 0 })
    }

    /// The steps that every plan has, and their records of work.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of the tables of a plan for these slices, if each step has this scratch.
    pub fn tables_for(
        &self,
        request: &Request<'_>,
        slices: &Slices,
        scratch: impl Fn(usize) -> u64,
    ) -> u64 {
        let streamed = |read: &&Read| !read.resident;
        let stages = match request.is_staged() {
            true => slices.reads.iter().filter(streamed).count(),
            false => 0,
        };
        // Steps of a layer that does not slide begin with different panels, so each has a record of
        // its own. Steps of one that slides differ in rows, in scratch, and in how many loads they
        // wait for, which never falls.
        let (mut works, mut ready) = (0, 0);
        let mut known: Vec<Vec<(u32, u64, u32)>> = vec![Vec::new(); request.network.layers.len()];
        for (index, step) in slices.steps.iter().enumerate() {
            let begins = |read: &&Read| streamed(read) && read.first == index;
            if slices.read_of[index].map(|read| &slices.reads[read]).filter(begins).is_some() {
                ready += 1;
            }
            let layer = step.layer as usize;
            if self.sliding.keeps(layer).is_none() {
                works += 1;
                continue;
            }
            let (this, known) = ((step.rows, scratch(index), ready), &mut known[layer]);
            if !known.iter().rev().take_while(|like| like.2 == ready).any(|like| *like == this) {
                known.push(this);
                works += 1;
            }
        }
        let (loads, steps) = (slices.reads.len(), slices.steps.len());
        self.tables.bytes(Counts { loads, works, steps, stages })
    }

    /// The bytes that must lie between tables and residents for `bytes` to be free during a layer.
    pub fn needs(&self, layer: usize, bytes: u64) -> u64 {
        let (hole, high) = self.holes[layer];
        if bytes <= hole { 0 } else { high + bytes }
    }

    /// The largest run of free bytes during a layer, with `bytes` between tables and residents.
    pub fn free(&self, layer: usize, bytes: u64) -> u64 {
        self.runs(layer, bytes)[0]
    }

    /// The larger and the smaller of the two free runs during a layer: below its highest live
    /// buffer and above it.
    pub fn runs(&self, layer: usize, bytes: u64) -> [u64; 2] {
        let (hole, high) = self.holes[layer];
        let above = bytes.saturating_sub(high);
        [hole.max(above), hole.min(above)]
    }
}

/// The buffers that live while a layer computes. Layers are asked for in their order: each begins
/// and ends no earlier than the one before.
struct Live<'a> {
    lives: &'a [Lifetime],
    offsets: &'a [u64],
    sizes: &'a [u64],
    /// Buffers that begin to live later, the last first.
    coming: Vec<usize>,
    /// Live buffers by the end of their lives. The next two have them by offset and by end.
    going: BinaryHeap<Reverse<(usize, usize)>>,
    by_offset: BTreeSet<(u64, usize)>,
    by_end: BTreeSet<(u64, usize)>,
    bytes: u64,
}

/// Holes are not looked for between more live buffers than this.
const MOST_LIVE: usize = 1024;

impl<'a> Live<'a> {
    fn new(lives: &'a [Lifetime], offsets: &'a [u64], sizes: &'a [u64]) -> Self {
        let used = |buffer: &usize| lives[*buffer].start != usize::MAX;
        let mut coming: Vec<usize> = (0..lives.len()).filter(used).collect();
        coming.sort_by_key(|buffer| Reverse(lives[*buffer].start));
        let (going, by_offset, by_end) = Default::default();
        Self { lives, offsets, sizes, coming, going, by_offset, by_end, bytes: 0 }
    }

    fn advance(&mut self, span: &Range<usize>) {
        let Self { lives, offsets, sizes, .. } = *self;
        let end = |buffer: usize| offsets[buffer] + sizes[buffer];
        while let Some(buffer) = self.coming.pop_if(|buffer| lives[*buffer].start < span.end) {
            self.going.push(Reverse((lives[buffer].end, buffer)));
            self.by_offset.insert((offsets[buffer], buffer));
            self.by_end.insert((end(buffer), buffer));
            self.bytes += sizes[buffer];
        }
        let ended = |Reverse((end, _)): &Reverse<(usize, usize)>| *end < span.start;
        while let Some(Reverse((_, buffer))) = self.going.peek().copied().filter(ended) {
            self.going.pop();
            self.by_offset.remove(&(offsets[buffer], buffer));
            self.by_end.remove(&(end(buffer), buffer));
            self.bytes -= sizes[buffer];
        }
    }

    /// The largest hole below the highest live buffer, and the end of that buffer.
    fn hole(&self) -> (u64, u64) {
        let highest = self.by_end.last().map_or(0, |(end, _)| *end);
        if self.by_offset.len() > MOST_LIVE {
            return (0, highest);
        }
        let (mut hole, mut high) = (0, 0);
        for &(offset, buffer) in &self.by_offset {
            hole = hole.max(offset.saturating_sub(high));
            high = high.max(offset + self.sizes[buffer]);
        }
        (hole, highest)
    }
}

/// For each layer: the time from its first step to after its last. The host's turn is time 0.
pub(in crate::search) fn spans(network: &Network, steps: &[Step]) -> Vec<Range<usize>> {
    let mut spans = vec![0..0; network.layers.len()];
    for (index, step) in steps.iter().enumerate() {
        let span = &mut spans[step.layer as usize];
        let start = if span.end == 0 { index + 1 } else { span.start };
        *span = start..index + 2;
    }
    spans
}
