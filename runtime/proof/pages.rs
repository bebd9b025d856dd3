//! A set of pages of the arena, in a few kilobytes: which of them loads fill.
//!
//! Loads fill whole pages, so a range of bytes meets a load exactly if one of its pages is in the
//! set. A bit stands for a page, and a bit of the summary for a word of bits that is not empty: a
//! look at a range of any length takes a few words. An arena has more pages than there are bits: it
//! is proved span by span.

use super::Range64;
use crate::pack::PAGE;

/// Words of bits.
const WORDS: usize = 256;

/// Bytes of arena that a set is about.
pub(super) const SPAN: u64 = (WORDS * 64) as u64 * PAGE;

/// The pages of one span.
#[derive(Debug)]
pub(super) struct Pages {
    /// Where the span starts, on a page.
    start: u64,
    words: [u64; WORDS],
    /// Words that are not empty.
    summary: [u64; WORDS / 64],
}

/// Bits `first` to `last` of a word.
fn bits(first: usize, last: usize) -> u64 {
    (u64::MAX << first) & (u64::MAX >> (63 - last))
}

impl Pages {
    /// The empty set, of the span that starts there.
    pub fn none(start: u64) -> Self {
        Self { start, words: [0; WORDS], summary: [0; WORDS / 64] }
    }

    /// Takes all pages out.
    pub fn clear(&mut self) {
        *self = Self::none(self.start);
    }

    /// The first and the last page of a range that are in the span, if any is.
    fn within(&self, bytes: Range64) -> Option<(usize, usize)> {
        let start = bytes.start.max(self.start);
        let end = bytes.end.min(self.start.saturating_add(SPAN));
        (start < end).then(|| {
            let page = |at: u64| ((at - self.start) / PAGE) as usize;
            (page(start), page(end - 1))
        })
    }

    /// The words that a range has bits in, each with these.
    fn masks(&self, bytes: Range64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let pages = self.within(bytes);
        pages.into_iter().flat_map(|(first, last)| {
            (first / 64..=last / 64).map(move |word| {
                let from = if word == first / 64 { first % 64 } else { 0 };
                let to = if word == last / 64 { last % 64 } else { 63 };
                (word, bits(from, to))
            })
        })
    }

    /// How many words it takes to add a range.
    pub fn words(&self, bytes: Range64) -> u64 {
        self.within(bytes).map_or(0, |(first, last)| (last / 64 - first / 64) as u64 + 1)
    }

    /// Adds the pages of a range.
    pub fn add(&mut self, bytes: Range64) {
        for (word, mask) in self.masks(bytes) {
            self.words[word] |= mask;
            self.summary[word / 64] |= 1 << (word % 64);
        }
    }

    /// Takes the pages of a range out.
    pub fn remove(&mut self, bytes: Range64) {
        for (word, mask) in self.masks(bytes) {
            self.words[word] &= !mask;
            if self.words[word] == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    /// Whether a page is in the set that the range has bytes of.
    pub fn meets(&self, bytes: Range64) -> bool {
        let Some((first, last)) = self.within(bytes) else { return false };
        let (left, right) = (first / 64, last / 64);
        if left == right {
            return self.words[left] & bits(first % 64, last % 64) != 0;
        }
        let ends = self.words[left] & bits(first % 64, 63) | self.words[right] & bits(0, last % 64);
        // The summary covers whole words between them.
        ends != 0
            || (left / 64..=right / 64).any(|group| {
                let from = if group == left / 64 { left % 64 } else { 0 };
                let to = if group == right / 64 { right % 64 } else { 63 };
                let between = bits(from, to) & !at(group, left) & !at(group, right);
                self.summary[group] & between != 0
            })
    }
}

/// The bit of a word in its group of the summary.
fn at(group: usize, word: usize) -> u64 {
    if word / 64 == group { 1 << (word % 64) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::Random;
    use std::vec;

    #[test]
    fn ranges_meet_as_they_do_page_by_page() {
        let mut random = Random::new(7);
        let mut below = |limit: usize| random.below(limit) as u64;
        for round in 0..200 {
            let start = SPAN * below(3);
            let mut set = Pages::none(start);
            let mut pages = vec![false; WORDS * 64];
            let mut range = |unit: u64| {
                let longest = 1 << below(16);
                let from = below((SPAN / unit) as usize) * unit;
                let bytes = below(longest + 1) * unit;
                // Some begin before the span, some end beyond it.
                let at = (start + from).saturating_sub(unit * (round % 3));
                Range64::of(at, bytes)
            };
            for i in 0..60 {
                let bytes = range(PAGE);
                let in_page = |page: usize, bytes: Range64| {
                    let page = Range64::of(start + page as u64 * PAGE, PAGE);
                    bytes.start < bytes.end && page.overlaps(bytes)
                };
                let inside = |page: usize| in_page(page, bytes);
                let add = i % 3 < 2;
                match add {
                    true => set.add(bytes),
                    false => set.remove(bytes),
                }
                (0..pages.len()).filter(|page| inside(*page)).for_each(|page| pages[page] = add);
                let asked = range(64);
                let expected = (0..pages.len()).any(|page| pages[page] && in_page(page, asked));
                assert_eq!(set.meets(asked), expected, "{asked:?} from {start}");
            }
            set.remove(Range64 { start: 0, end: u64::MAX });
            assert!(!set.meets(Range64 { start: 0, end: u64::MAX }));
            assert_eq!(set.summary, [0; WORDS / 64]);
        }
    }
}
