//! The best partition among more than can be enumerated, by dynamic programming.
//!
//! Blocks are added from the front. Of what lies before the last block, three numbers matter for
//! what follows: the residuals so far, the head, and `w`, what the block before leaves to the next
//! residual
//!
//! ```text
//! t_ov_i = t_in_{i+1} − t_ex_i + w      w = t_out_{i-1} − max(t_ov_{i-1}, 0)
//! ```
//!
//! The residuals to come never fall as `w` grows, and they grow by at most as much as `w`. Proof:
//! let `w` grow by `ε`. The next residual grows by some `ε₁ ≤ ε`, so the `w` after it falls by
//! `ε₁`. The residual after that falls by some `ε₂ ≤ ε₁`, and so on. The sum `ε₁ − ε₂ + ε₃ − …` is
//! between 0 and `ε`. So a label is needless if another one has less, even with the difference of
//! their `w` added. Needless labels are dropped, and none of them could have become the best.
//!
//! A first search keeps one label for each block. What it finds bounds the second one, which is
//! exact: labels that are no better are dropped, too, since residuals only add up.

use super::chain::{Carry, Chain, Objective, Partition};
use std::collections::BTreeMap;

/// A way to cut the layers before some block, the block included.
#[derive(Clone, Copy, Debug)]
struct Label {
    /// What is minimised first.
    first_ns: i64,
    /// What decides among equals.
    second_ns: i64,
    /// `w`.
    left_ns: i64,
    /// The label that this one adds a block to, among all.
    parent: usize,
    /// Where the last block starts.
    start: usize,
}

impl Label {
    /// Whether no way to go on from the other one is better than the same way from this one.
    fn dominates(&self, other: &Self) -> bool {
        let at_most = self.first_ns + (self.left_ns - other.left_ns).max(0);
        at_most < other.first_ns || (at_most == other.first_ns && self.second_ns <= other.second_ns)
    }
}

/// The labels of blocks that end at one layer, by where they start.
type Ending = BTreeMap<usize, Vec<Label>>;

struct Search<'a> {
    chain: &'a Chain,
    blocks: usize,
    most: u64,
    objective: Objective,
    /// Whether only the best label of each ending is kept: quick, and seldom far from the best.
    rough: bool,
    /// The key of a partition that is known: only better ones are looked for.
    known: Option<[i64; 2]>,
    /// All labels that others were made from.
    kept: Vec<Label>,
}

/// The best partition into so many blocks of which neighbours have at most so many bytes.
pub fn best(chain: &Chain, blocks: usize, most: u64, objective: Objective) -> Option<Partition> {
    if blocks < 2 {
        let fits = blocks == 1 && !chain.is_empty() && chain.bytes() <= most;
        let value = fits.then(|| chain.value(&[], Carry::Wait));
        return value.map(|value| Partition { cuts: Vec::new(), value });
    }
    if blocks > chain.len() || !fits(chain, blocks, most) {
        return None;
    }
    let search =
        |rough, known| Search { chain, blocks, most, objective, rough, known, kept: Vec::new() };
    let found = search(true, None).run();
    let known = found.as_ref().map(|found| objective.key(&found.value));
    let both = [found, search(false, known).run()];
    both.into_iter().flatten().min_by_key(|found| objective.key(&found.value))
}

/// Whether there is a partition into so many blocks of which neighbours have at most so many bytes.
pub fn fits(chain: &Chain, blocks: usize, most: u64) -> bool {
    // A block of a partition that fits can be cut in two. So it is enough to know the fewest
    // blocks.
    let fewest = fewest(chain, most).filter(|_| blocks <= chain.len());
    fewest.is_some_and(|fewest| fewest <= blocks)
}

/// The fewest blocks of a partition of which neighbours have at most so many bytes.
pub fn fewest(chain: &Chain, most: u64) -> Option<usize> {
    if chain.is_empty() || chain.floor().2 > most {
        return None;
    }
    if chain.bytes() <= most {
        return Some(1);
    }
    let layers = chain.len();
    let bytes = |from: usize, to: usize| chain.block(from..to).bytes;
    // For each end of a block the latest start of a block that ends there: of the same number of
    // blocks a later start leaves the next one more room.
    let mut starts: Vec<Option<usize>> =
        (0..=layers).map(|end| (1..layers).contains(&end).then_some(0)).collect();
    for blocks in 2..=layers {
        let mut next = vec![None; layers + 1];
        for (start, before) in starts.iter().enumerate() {
            let Some(before) = *before else { continue };
            for (end, latest) in next.iter_mut().enumerate().skip(start + 1) {
                if bytes(before, end) > most {
                    break;
                }
                *latest = Some(start);
            }
        }
        if next[layers].is_some() {
            return Some(blocks);
        }
        starts = next;
    }
    None
}

impl Search<'_> {
    fn run(mut self) -> Option<Partition> {
        let mut endings = self.two();
        for number in 2..self.blocks {
            endings = self.extend(endings, number);
        }
        self.finish(&endings)
    }

    fn bytes(&self, from: usize, to: usize) -> u64 {
        self.chain.block(from..to).bytes
    }

    /// Whether what is left from a layer on can fit in so many blocks: each two of them hold `most`
    /// at most.
    fn can_hold(&self, from: usize, blocks: usize) -> bool {
        let pairs = blocks.div_ceil(2) as u64;
        self.bytes(from, self.chain.len()) <= self.most.saturating_mul(pairs)
    }

    /// Where block `number` (from 0) may end, so that each block after it has a layer.
    fn last_end(&self, number: usize) -> usize {
        self.chain.len() + 1 - (self.blocks - number)
    }

    /// All ways to cut two blocks.
    fn two(&mut self) -> Vec<Ending> {
        let layers = self.chain.len();
        let mut endings = vec![Ending::new(); layers + 1];
        for start in 1..=self.last_end(0) {
            let first = self.chain.block(0..start).times;
            let parent = self.kept.len();
            self.kept.push(Label { first_ns: 0, second_ns: 0, left_ns: 0, parent, start: 0 });
            for (end, ending) in self.ends(start, 1, &mut endings) {
                if self.bytes(0, end) > self.most {
                    break;
                }
                if !self.can_hold(end, self.blocks - 2) || !self.can_hold(start, self.blocks - 1) {
                    continue;
                }
                let second = self.chain.block(start..end).times;
                let wait = (second.in_ns - first.ex_ns).max(0);
                let head = first.in_ns + wait;
                let (first_ns, second_ns) = match self.objective {
                    Objective::Residuals => (0, head),
                    Objective::Latency => (head, 0),
                };
                let left_ns = first.out_ns - wait;
                let label = Label { first_ns, second_ns, left_ns, parent, start };
                self.add(ending.entry(start).or_default(), label);
            }
        }
        endings
    }

    /// Where block `number` that starts so can end.
    fn ends<'e>(
        &self,
        start: usize,
        number: usize,
        endings: &'e mut [Ending],
    ) -> impl Iterator<Item = (usize, &'e mut Ending)> + use<'e> {
        let last = self.last_end(number);
        // The last block ends with the last layer.
        let least = if number + 1 == self.blocks { last } else { start + 1 };
        endings.iter_mut().enumerate().take(last + 1).skip(least.max(start + 1))
    }

    /// Adds block `number` to all ways.
    fn extend(&mut self, before: Vec<Ending>, number: usize) -> Vec<Ending> {
        let mut endings = vec![Ending::new(); self.chain.len() + 1];
        for (end_before, ending_before) in before.into_iter().enumerate() {
            for (start_before, labels) in ending_before {
                let last = self.chain.block(start_before..end_before).times;
                let parents = self.kept.len();
                self.kept.extend(&labels);
                for (end, ending) in self.ends(end_before, number, &mut endings) {
                    if self.bytes(start_before, end) > self.most {
                        break;
                    }
                    if !self.can_hold(end, self.blocks - 1 - number) {
                        continue;
                    }
                    let next = self.chain.block(end_before..end).times;
                    let held = ending.entry(end_before).or_default();
                    for (at, label) in labels.iter().enumerate() {
                        let residual = (next.in_ns - last.ex_ns + label.left_ns).max(0);
                        self.add(
                            held,
                            Label {
                                first_ns: label.first_ns + residual,
                                second_ns: label.second_ns,
                                left_ns: last.out_ns - residual,
                                parent: parents + at,
                                start: end_before,
                            },
                        );
                    }
                }
            }
        }
        endings
    }

    /// Adds a label, unless another one is as good, and drops those that it makes needless.
    fn add(&self, labels: &mut Vec<Label>, label: Label) {
        let key = |label: &Label| [label.first_ns, label.second_ns];
        if self.known.is_some_and(|known| key(&label) >= known) {
            return;
        }
        if self.rough && labels.iter().any(|held| key(held) <= key(&label)) {
            return;
        }
        if self.rough {
            labels.clear();
        } else if labels.iter().any(|held| held.dominates(&label)) {
            return;
        }
        labels.retain(|held| !label.dominates(held));
        labels.push(label);
    }

    /// The best way, after the last block has computed.
    fn finish(&self, endings: &[Ending]) -> Option<Partition> {
        let layers = self.chain.len();
        let ways = endings[layers].iter().flat_map(|(start, labels)| {
            let last = self.chain.block(*start..layers).times;
            labels.iter().map(move |label| {
                let residual = (label.left_ns - last.ex_ns).max(0);
                ([label.first_ns + residual, label.second_ns], label)
            })
        });
        let (_, best) = ways.min_by_key(|(key, _)| *key)?;
        let mut cuts = vec![best.start];
        let mut label = self.kept[best.parent];
        while label.start > 0 {
            cuts.push(label.start);
            label = self.kept[label.parent];
        }
        cuts.reverse();
        let value = self.chain.value(&cuts, Carry::Wait);
        Some(Partition { cuts, value })
    }
}
