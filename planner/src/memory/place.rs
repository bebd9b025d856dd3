//! Offsets of activations, in the order of their sizes.

use super::Lifetime;
use crate::slide::Lines;
use std::cmp::Reverse;

/// Addresses of buffers are multiples of this.
const ALIGN: i64 = 64;

/// Offsets (from 0) for buffers of these sizes: those of the highest rank first, of these the largest, each at the lowest
/// place where it meets no other that lives at the same time. With one rank for all this reaches the peak of live bytes
/// on the networks studied. Buffers of which `lines` are known may share bytes, as long as their lines do not: then the
/// one goes below the other, if all together take less so.
pub fn place_buffers(
    sizes: &[u64],
    lives: &[Lifetime],
    lines: &[Option<Lines>],
    period: usize,
    rank: impl Fn(usize) -> u64,
) -> Vec<u64> {
    let size = |buffer: usize| sizes[buffer] as i64;
    // The distances from one buffer to another that are too small either way; and whether lines were looked at.
    let apart = |one: usize, other: usize| {
        let (of_one, of_other) = (lines[one].as_ref(), lines[other].as_ref());
        match of_one.zip(of_other).filter(|(of_one, _)| !of_one.is_operand_with(other)) {
            _ if !lives[one].meets(lives[other], period) => None,
            Some((of_one, of_other)) => of_one.forbidden(of_other).map(|apart| (apart, true)),
            None => Some(((-size(other), size(one)), false)),
        }
    };
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&buffer| (Reverse(rank(buffer)), Reverse(sizes[buffer]), buffer));
    let mut offsets = vec![0i64; lives.len()];
    let mut placed: Vec<usize> = Vec::new();
    // What is placed so far reaches from here to there.
    let (mut low, mut high) = (0, 0);
    for buffer in order {
        if lives[buffer].start == usize::MAX {
            continue;
        }
        let mut below = Vec::new();
        let mut rivals: Vec<(i64, i64)> = Vec::new();
        for &other in &placed {
            if let Some(((least, most), by_lines)) = apart(other, buffer) {
                let [start, end] = [least, most].map(|distance| offsets[other] + distance);
                rivals.push((start, end));
                if by_lines {
                    below.push(start.div_euclid(ALIGN) * ALIGN);
                }
            }
        }
        rivals.sort_unstable();
        let mut at = low;
        for &(start, end) in &rivals {
            if at <= start {
                break;
            }
            at = at.max(end + (-end).rem_euclid(ALIGN));
        }
        let extent = |at: i64| high.max(at + size(buffer)) - low.min(at);
        let fits = |at: i64| rivals.iter().all(|&(start, end)| at <= start || end <= at);
        for other in below {
            if extent(other) < extent(at) && fits(other) {
                at = other;
            }
        }
        (low, high) = (low.min(at), high.max(at + size(buffer)));
        offsets[buffer] = at;
        placed.push(buffer);
    }
    placed.iter().for_each(|&buffer| offsets[buffer] -= low);
    offsets.into_iter().map(|offset| offset as u64).collect()
}
