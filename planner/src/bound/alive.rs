//! What is alive in a layer at least: bytes that neither weights nor scratch can have.
//!
//! A buffer that can be a ring is one, of no fewer lines than one of its readers sees, or it is whole. Rings share nothing. Two whole
//! buffers may lie over each other's dead lines where [`Shares`] says so; but nothing else lies over either as long as a line of it is
//! alive. So whichever buffers are whole, the lines of the rings count, and of the whole ones any set of which no two can
//! share, in every step of the layer. The least of the most that can be said so is what counts.
//!
//! A step that makes some lines touches some of each image ([`touched`]): a ring has as many at least, and of whole buffers these
//! lines share nothing.

use crate::memory::Lifetime;
use crate::network::Network;
use crate::slide::{Shares, Touched};
use std::cmp::Reverse;

/// Buffers of a layer with which others may share that are looked at together. Of more the smallest count with nothing.
const MOST: usize = 10;

/// A buffer that is alive in a layer.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// Its bytes as a ring, or all of them if it can be none,
    least: u64,
    /// and as a whole.
    whole: u64,
    /// Those that a step touches.
    touched: u64,
    /// The others of the layer with which it may share bytes if both are whole.
    shares: u32,
}

/// The buffers that are alive in a layer.
#[derive(Clone, Debug)]
pub(super) struct Alive {
    /// Those that share nothing, and those that may.
    alone: Vec<Live>,
    shared: Vec<Live>,
    /// What the layer touches of them, if it slides: which of both, and the place there.
    touched: Vec<(bool, usize, Touched)>,
}

impl Alive {
    /// The least bytes of all in any step, or (of a layer that slides) in one that makes so many lines.
    pub(super) fn bytes(&self, lines: Option<u32>) -> u64 {
        let Some(lines) = lines.filter(|_| !self.touched.is_empty()) else {
            return self.alone.iter().map(Live::taken).sum::<u64>() + least_together(&self.shared);
        };
        let (mut alone, mut shared) = (self.alone.clone(), self.shared.clone());
        for (shares, at, touched) in &self.touched {
            let live = if *shares { &mut shared[*at] } else { &mut alone[*at] };
            live.touched = live.touched.max(touched.bytes(lines));
        }
        alone.iter().map(Live::taken).sum::<u64>() + least_together(&shared)
    }
}

impl Live {
    /// As a ring if it can be one.
    fn taken(&self) -> u64 {
        self.least.max(self.touched).min(self.whole)
    }
}

/// The buffers that are alive in each layer; `least` is what each takes by itself, `touched` what steps touch.
pub(super) fn alive(
    network: &Network,
    lives: &[Lifetime],
    least: &[u64],
    touched: &[Option<Vec<Touched>>],
) -> Vec<Alive> {
    let shares = Shares::new(network);
    let alive = |layer: usize| {
        let here = |life: &Lifetime| {
            life.start != usize::MAX && (life.start..=life.end).contains(&(layer + 1))
        };
        let here: Vec<usize> = (0..lives.len()).filter(|at| here(&lives[*at])).collect();
        let may = |at: usize, other: usize| at != other && shares.may(at, other);
        let (mut shared, alone): (Vec<usize>, Vec<usize>) =
            here.iter().partition(|&&at| here.iter().any(|other| may(at, *other)));
        shared.sort_by_key(|at| Reverse(least[*at]));
        shared.truncate(MOST);
        let live = |at: &usize| {
            let with = |(bit, other): (usize, &usize)| u32::from(may(*at, *other)) << bit;
            let shares = shared.iter().enumerate().map(with).sum();
            let whole = network.buffers[*at].bytes;
            Live { least: least[*at], whole, touched: 0, shares }
        };
        let of = |touched: &Touched| {
            let at = |all: &[usize]| all.iter().position(|at| *at == touched.buffer);
            let shares = at(&shared).map(|at| (true, at, *touched));
            shares.or_else(|| at(&alone).map(|at| (false, at, *touched)))
        };
        Alive {
            touched: touched[layer].iter().flatten().filter_map(of).collect(),
            alone: alone.iter().map(live).collect(),
            shared: shared.iter().map(live).collect(),
        }
    };
    (0..network.layers.len()).map(alive).collect()
}

/// The least of all choices of the buffers that are whole.
fn least_together(live: &[Live]) -> u64 {
    let bytes = |whole: u32| {
        let rings = (0..).zip(live).filter(|(bit, _)| whole >> bit & 1 == 0);
        let touched = (0..).zip(live).filter(|(bit, _)| whole >> bit & 1 == 1);
        let touched = touched.map(|(_, live)| live.touched).sum();
        rings.map(|(_, live)| live.taken()).sum::<u64>() + most_apart(live, whole).max(touched)
    };
    (0..1 << live.len()).map(bytes).min().unwrap_or(0)
}

/// The most bytes of some of these, as a whole, of which no two may share.
fn most_apart(live: &[Live], of: u32) -> u64 {
    if of == 0 {
        return 0;
    }
    let first = of.trailing_zeros();
    let (own, others) = (live[first as usize], of & (of - 1));
    let with = own.whole + most_apart(live, others & !own.shares);
    // Without it only for the sake of those with which it may share.
    match others & own.shares {
        0 => with,
        _ => with.max(most_apart(live, others)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_counts_of_two_that_may_share() {
        let live = |least: u64, whole: u64, shares: u32| Live { least, whole, touched: 0, shares };
        // Both whole in every plan.
        assert_eq!(least_together(&[live(100, 100, 2), live(60, 60, 1)]), 100);
        // The one as a ring, or over the other.
        assert_eq!(least_together(&[live(100, 100, 2), live(3, 60, 1)]), 100);
        assert_eq!(least_together(&[live(100, 100, 2), live(3, 160, 1)]), 103);
        // Rings are less than either.
        assert_eq!(least_together(&[live(5, 100, 2), live(3, 60, 1)]), 8);
        // The second may share with both others, which are apart.
        let three = [live(60, 60, 2), live(100, 100, 5), live(70, 70, 2)];
        assert_eq!(least_together(&three), 130);
        assert_eq!(least_together(&[]), 0);
    }

    #[test]
    fn what_a_step_touches_is_all_there() {
        let live = |least: u64, whole: u64, touched: u64, shares: u32| Live {
            least,
            whole,
            touched,
            shares,
        };
        // Rings have the lines of a step, whole buffers lie over each other but for these.
        assert_eq!(least_together(&[live(5, 100, 20, 2), live(3, 60, 1, 1)]), 23);
        assert_eq!(least_together(&[live(100, 100, 20, 2), live(60, 60, 10, 1)]), 100);
        assert_eq!(least_together(&[live(100, 100, 100, 2), live(60, 60, 60, 1)]), 160);
        assert_eq!(least_together(&[live(5, 100, 70, 2), live(60, 60, 50, 1)]), 120);
    }
}
