//! Which things are in the same bytes at the same time, found by going through time once.
//!
//! What is there at a moment lies in order of its bytes, so that of each thing that comes only those nearby are looked at.

use super::held::Held;
use super::meet;
use std::collections::BTreeSet;

/// A thing: which kind, and its number among them.
pub(super) type Number = (usize, usize);

/// Visits all pairs of things of these kinds that meet, any number of periods of half steps apart, in the order of their kinds
/// and numbers: those of two kinds that `matters` names.
pub(super) fn pairs(
    kinds: &[&[Held]],
    period: i64,
    matters: impl Fn(usize, usize) -> bool,
    mut visit: impl FnMut(&Held, &Held),
) {
    let held = |(kind, at): Number| &kinds[kind][at];
    let mut events = Vec::new();
    for (kind, all) in kinds.iter().enumerate() {
        for (at, one) in all.iter().enumerate() {
            add_events(&mut events, one, period, (kind, at));
        }
    }
    // What ends at a moment does so before something begins.
    events.sort_unstable();
    let length = |held: &Held| held.bytes.end.saturating_sub(held.bytes.start);
    let longest: Vec<u64> =
        kinds.iter().map(|all| all.iter().map(length).max().unwrap_or(0)).collect();
    let mut there: Vec<BTreeSet<(u64, usize)>> = vec![BTreeSet::new(); kinds.len()];
    let mut found: BTreeSet<(Number, Number)> = BTreeSet::new();
    for (_, begins, number) in events {
        let (one, (kind, at)) = (held(number), number);
        if !begins {
            there[kind].remove(&(one.bytes.start, at));
            continue;
        }
        for (other_kind, others) in there.iter().enumerate() {
            let [first, second] = [kind.min(other_kind), kind.max(other_kind)];
            if !matters(first, second) {
                continue;
            }
            let from = one.bytes.start.saturating_sub(longest[other_kind]);
            for &(_, other) in others.range((from, 0)..=(one.bytes.end, usize::MAX)) {
                let pair = [number, (other_kind, other)];
                if pair[0] != pair[1] && meet(&one.bytes, &held(pair[1]).bytes) {
                    found.insert((pair[0].min(pair[1]), pair[0].max(pair[1])));
                }
            }
        }
        there[kind].insert((one.bytes.start, at));
    }
    found.into_iter().for_each(|(one, other)| visit(held(one), held(other)));
}

/// When a thing comes and goes, within one period.
fn add_events(events: &mut Vec<(i64, bool, Number)>, held: &Held, period: i64, number: Number) {
    let length = held.time.end - held.time.start;
    let mut add = |start: i64, end: i64| {
        if start < end {
            events.extend([(start, true, number), (end, false, number)]);
        }
    };
    if length >= period {
        return add(0, period);
    }
    let start = held.time.start.rem_euclid(period);
    add(start, period.min(start + length));
    add(0, start + length - period);
}

/// Bytes that are in use, of ranges that come and go and may lie over each other: a tree over their ends.
pub(super) struct Union {
    /// Where ranges begin and end.
    ends: Vec<u64>,
    /// For each node how many ranges cover all of it, and how many of its bytes some range covers.
    nodes: Vec<(u32, u64)>,
}

impl Union {
    pub(super) fn new(mut ends: Vec<u64>) -> Self {
        ends.sort_unstable();
        ends.dedup();
        let nodes = vec![(0, 0); 4 * ends.len().max(1)];
        Self { ends, nodes }
    }

    /// Bytes that are covered.
    pub(super) fn bytes(&self) -> u64 {
        self.nodes[1].1
    }

    /// Adds a range, or takes it away.
    pub(super) fn change(&mut self, bytes: &std::ops::Range<u64>, comes: bool) {
        let at = |end: u64| self.ends.partition_point(|other| *other < end);
        let (from, to, all) = (at(bytes.start), at(bytes.end), self.ends.len().saturating_sub(1));
        if from < to {
            self.update(1, (0, all), (from, to), comes);
        }
    }

    fn update(&mut self, node: usize, own: (usize, usize), range: (usize, usize), comes: bool) {
        if range.1 <= own.0 || own.1 <= range.0 {
            return;
        }
        if range.0 <= own.0 && own.1 <= range.1 {
            let covers = &mut self.nodes[node].0;
            *covers = if comes { *covers + 1 } else { covers.saturating_sub(1) };
        } else {
            let middle = own.0.midpoint(own.1);
            self.update(2 * node, (own.0, middle), range, comes);
            self.update(2 * node + 1, (middle, own.1), range, comes);
        }
        let leaf = own.1 - own.0 == 1;
        self.nodes[node].1 = match self.nodes[node].0 {
            0 if leaf => 0,
            0 => self.nodes[2 * node].1 + self.nodes[2 * node + 1].1,
            _ => self.ends[own.1] - self.ends[own.0],
        };
    }
}
