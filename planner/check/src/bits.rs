//! A set of floats of one buffer.

use std::ops::Range;

/// One bit per float.
#[derive(Clone)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(floats: u64) -> Self {
        Self { words: vec![0; floats.div_ceil(64) as usize] }
    }

    pub fn set(&mut self, run: Range<u64>) {
        for (word, mask) in masks(run) {
            self.words[word] |= mask;
        }
    }

    /// The first float of the run that is not in the set.
    pub fn first_missing(&self, run: Range<u64>) -> Option<u64> {
        self.find(run, |word| !word)
    }

    /// The first float of the run that is in the set.
    pub fn first_present(&self, run: Range<u64>) -> Option<u64> {
        self.find(run, |word| word)
    }

    fn find(&self, run: Range<u64>, of: impl Fn(u64) -> u64) -> Option<u64> {
        masks(run).find_map(|(word, mask)| {
            let hits = of(self.words[word]) & mask;
            (hits != 0).then(|| word as u64 * 64 + u64::from(hits.trailing_zeros()))
        })
    }
}

/// The words that a run touches, with the bits of it.
fn masks(run: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let words = if run.is_empty() { 0..0 } else { run.start / 64..(run.end - 1) / 64 + 1 };
    words.map(move |word| {
        let from = run.start.saturating_sub(word * 64);
        let to = (run.end - word * 64).min(64);
        (word as usize, (u64::MAX << from) & (u64::MAX >> (64 - to)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_where_they_were_set() {
        for start in 0..130u64 {
            for end in start..200 {
                let mut bits = Bits::new(200);
                bits.set(start..end);
                let present = (start < end).then_some(start);
                assert_eq!(bits.first_present(0..200), present);
                assert_eq!(bits.first_missing(start..end), None);
                assert_eq!(bits.first_missing(start..200), (end < 200).then_some(end));
                assert_eq!(bits.first_present(end..200), None);
                assert_eq!(bits.first_present(0..start), None);
            }
        }
    }
}
