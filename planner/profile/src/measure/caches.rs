//! The part of the last-level cache that one process can fill.
//!
//! A system declares the size of a chip's cache. A virtual machine has as much of it as its neighbours leave, and on some chips a
//! processor fills only its part: what is used again stays in memory's rate long before the declared size is reached (64 MiB of 480 declared).

use super::bench::{Line, median};
use eyelet::arena::MappedArena;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Time for each size, and the least number of times that it is gone through.
const TIME: Duration = Duration::from_millis(60);
const TIMES: usize = 3;

/// No more memory than this is looked at.
const MOST_BYTES: u64 = 512 << 20;

/// Bytes of a cache of `declared` bytes, shared, that stay there while they are used again and again: as `declared`, or halves of it down to
/// eight times a thread's `own`. All of them, where memory is not much slower or nothing can be measured.
pub fn shared_bytes(own: u64, declared: u64) -> u64 {
    let most = (2 * declared).min(MOST_BYTES);
    let least = (8 * own).max(1 << 20);
    let Ok(mut arena) = MappedArena::new(most as usize) else { return declared };
    let mut memory = arena.memory();
    let memory = memory.as_mut_slice();
    memory.fill(1);
    let lines: &[Line] = bytemuck::cast_slice(memory);
    let gbs = |bytes: u64| gbs(&lines[..(bytes / 64) as usize]);
    kept(least, declared, most, gbs)
}

/// The largest of `declared` bytes and its halves that come at a rate nearer to that of the `least` than to that of the `most`.
fn kept(least: u64, declared: u64, most: u64, gbs: impl Fn(u64) -> f64) -> u64 {
    let between = (gbs(least) * gbs(most)).sqrt();
    let halves = std::iter::successors(Some(declared), |bytes| Some(bytes / 2));
    let mut sizes = halves.take_while(|bytes| *bytes > least).filter(|bytes| *bytes < most);
    sizes.find(|bytes| gbs(*bytes) >= between).unwrap_or(least.min(declared))
}

/// Rate of reading these lines.
fn gbs(lines: &[Line]) -> f64 {
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < TIMES || begin.elapsed() < TIME {
        let start = Instant::now();
        let words: &[u64] = bytemuck::cast_slice(lines);
        let mut sums = [0u64; 32];
        for words in words.as_chunks::<32>().0 {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum ^= word;
            }
        }
        black_box(sums);
        times.push(start.elapsed().as_nanos() as f64);
    }
    (64 * lines.len()) as f64 / median(times).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_kept_as_comes_fast() {
        let gbs = |own: u64| move |bytes: u64| if bytes <= own { 30.0 } else { 16.0 };
        let (least, declared, most) = (8 << 20, 480 << 20, 512 << 20);
        assert_eq!(kept(least, declared, most, gbs(96 << 20)), 60 << 20);
        assert_eq!(kept(least, declared, most, gbs(500 << 20)), declared);
        assert_eq!(kept(least, declared, most, gbs(8 << 20)), least);
        // A cache that is no faster than memory is as large as it is said to be.
        assert_eq!(kept(least, declared, most, |_| 16.0), declared);
    }

    #[test]
    fn what_is_measured_is_a_part_of_what_is_told() {
        let found = shared_bytes(1 << 17, 4 << 20);
        assert!((1 << 20..=4 << 20).contains(&found), "{found}");
    }
}
