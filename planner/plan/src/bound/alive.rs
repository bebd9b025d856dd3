//! Lower bounds for the bytes that are alive in a layer. Neither weights nor scratch can have them.
//!
//! A buffer that can be a ring is one, of no fewer lines than one of its readers sees, or it is
//! whole. Rings share nothing. Two whole buffers may lie over each other's dead lines where
//! [`Shares`] says so; but nothing else lies over either as long as a line of it is alive. So in
//! every step of the layer the lines of the rings count, and any set of whole buffers of which no
//! two can share. For each choice of whole buffers the largest such sum is a bound. The least of
//! these bounds counts.
//!
//! A step that makes some lines touches some lines of each image ([`touched`]). A ring has at least
//! these lines, and in whole buffers they share nothing.

use crate::memory::Lifetime;
use crate::slide::{Shares, Touched};
use eyelet_model::network::Network;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Most shareable buffers of a layer that are considered together. Beyond this, the smallest count
/// as 0 bytes.
const MOST: usize = 10;

/// The most in large networks, since each choice of whole buffers is considered.
const FEW: usize = 4;
const MANY_LAYERS: usize = 2048;

/// Most buffers of a layer that are considered. Beyond this, the smallest count as 0 bytes.
const MOST_ALIVE: usize = 64;

/// A buffer that is alive in a layer.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// Its bytes as a ring, or all of them if it cannot be one.
    least: u64,
    /// Its bytes as a whole.
    whole: u64,
    /// Bytes of it that a step touches.
    touched: u64,
    /// The others of the layer with which it may share bytes if both are whole.
    shares: u32,
}

/// The buffers that are alive in a layer.
#[derive(Clone, Debug)]
pub(super) struct Alive {
    /// Bytes of the buffers that share nothing and that the layer does not touch.
    rest: u64,
    /// The buffers that share nothing and that the layer touches.
    alone: Vec<Live>,
    /// The buffers that may share bytes.
    shared: Vec<Live>,
    /// The images that the layer touches, if it slides: the list that has each, and its place
    /// there.
    touched: Vec<(bool, usize, Touched)>,
}

impl Alive {
    /// Lower bound for the bytes of all in any step, or in a step that makes `lines` lines of a
    /// layer that slides.
    pub(super) fn bytes(&self, lines: Option<u32>) -> u64 {
        let apart = |alone: &[Live]| self.rest + alone.iter().map(Live::taken).sum::<u64>();
        let Some(lines) = lines.filter(|_| !self.touched.is_empty()) else {
            return apart(&self.alone) + least_together(&self.shared);
        };
        let (mut alone, mut shared) = (self.alone.clone(), self.shared.clone());
        for (shares, at, touched) in &self.touched {
            let live = if *shares { &mut shared[*at] } else { &mut alone[*at] };
            live.touched = live.touched.max(touched.bytes(lines));
        }
        apart(&alone) + least_together(&shared)
    }
}

impl Live {
    /// As a ring if it can be one.
    fn taken(&self) -> u64 {
        self.least.max(self.touched).min(self.whole)
    }
}

/// The buffers that are alive in each layer; `least` is what each takes by itself, `touched` what
/// steps touch.
pub(super) fn alive(
    network: &Network,
    lives: &[Lifetime],
    least: &[u64],
    touched: &[Option<Vec<Touched>>],
) -> Vec<Alive> {
    let shares = Shares::new(network);
    // By when they begin to live, the last first, and those that live: by what they take, and by
    // when they cease to.
    let used = |buffer: &usize| lives[*buffer].start != usize::MAX;
    let mut coming: Vec<usize> = (0..lives.len()).filter(used).collect();
    coming.sort_by_key(|buffer| Reverse(lives[*buffer].start));
    let (mut here, mut going) = (BTreeSet::new(), BinaryHeap::new());
    let of_layer = |layer: usize| {
        let time = layer + 1;
        while let Some(buffer) = coming.pop_if(|buffer| lives[*buffer].start <= time) {
            here.insert((Reverse(least[buffer]), buffer));
            going.push(Reverse((lives[buffer].end, buffer)));
        }
        while let Some(Reverse((_, buffer))) =
            going.peek().copied().filter(|Reverse((end, _))| *end < time)
        {
            going.pop();
            here.remove(&(Reverse(least[buffer]), buffer));
        }
        let largest: Vec<usize> = here.iter().take(MOST_ALIVE).map(|(_, buffer)| *buffer).collect();
        of_buffers(network, &shares, least, &largest, touched[layer].as_deref())
    };
    (0..network.layers.len()).map(of_layer).collect()
}

/// These buffers, alive in a layer, the largest first.
fn of_buffers(
    network: &Network,
    shares: &Shares,
    least: &[u64],
    buffers: &[usize],
    touched: Option<&[Touched]>,
) -> Alive {
    let may = shares.among(buffers);
    let of = |shared: bool| {
        let these = buffers.iter().zip(&may).filter(move |(_, may)| **may == shared);
        these.map(|(buffer, _)| *buffer)
    };
    let most = if network.layers.len() > MANY_LAYERS { FEW } else { MOST };
    let shared: Vec<usize> = of(true).take(most).collect();
    let touches = |buffer: &usize| {
        touched.is_some_and(|all| all.iter().any(|touched| touched.buffer == *buffer))
    };
    let (alone, rest): (Vec<usize>, Vec<usize>) = of(false).partition(touches);
    let live = |at: &usize| {
        let share = |other: &usize| other != at && shares.may(*at, *other);
        let with = |(bit, other): (usize, &usize)| u32::from(share(other)) << bit;
        let shares = shared.iter().enumerate().map(with).sum();
        let whole = network.buffers[*at].bytes;
        Live { least: least[*at], whole, touched: 0, shares }
    };
    let place = |touched: &Touched| {
        let at = |all: &[usize]| all.iter().position(|at| *at == touched.buffer);
        let shares = at(&shared).map(|at| (true, at, *touched));
        shares.or_else(|| at(&alone).map(|at| (false, at, *touched)))
    };
    Alive {
        rest: rest.iter().map(|at| live(at).taken()).sum(),
        touched: touched.unwrap_or_default().iter().filter_map(place).collect(),
        alone: alone.iter().map(live).collect(),
        shared: shared.iter().map(live).collect(),
    }
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
