//! RT-Swap's Fig. 7: how many random sets the test admits, by approach.

use super::costs::Approach;
use super::{base, study};
use crate::sweep::{Progress, each};
use eyelet_tasks::generate::random;
use eyelet_tasks::generate::table3::{Drawn, Member, growing};
use eyelet_tasks::volumes::published;
use rand::Rng;

/// Sets for each point.
pub const SETS: u64 = 100;
/// Tasks of Fig. 7(a).
pub const TASKS: std::ops::RangeInclusive<usize> = 4..=13;
/// Published: sets of Fig. 7(a) beyond those of MIN, MO-VMM, Pageable and Base, in percent.
pub const PUBLISHED_GAINS: [f64; 4] = [72.0, 139.0, 221.0, 383.0];
/// Published for Fig. 7(b): mean tolerated cut of memory, RT-Swap and others; Fig. 7(c): mean part of tasks at
/// high resolution.
pub const PUBLISHED_CUT: (f64, f64) = (36.5, 5.2);
pub const PUBLISHED_SHARP: (f64, f64) = (70.5, 29.4);

/// The published test, for an approach.
pub fn admits(approach: Approach, drawn: &Drawn, memory: f64) -> bool {
    let set = approach.set(drawn, memory, false);
    match approach {
        Approach::Base => base::test(&set).kept(),
        _ => published::any(&set, approach.chunks()).is_some(),
    }
}

/// Fig. 7(a): sets admitted for 4, 5, … 13 tasks.
pub fn by_tasks(approach: Approach, seed: u64, progress: &Progress) -> Vec<u64> {
    let admitted = each(SETS, progress, |index| {
        growing(seed, index).iter().map(|drawn| admits(approach, drawn, 1.0)).collect::<Vec<_>>()
    });
    count(&admitted, TASKS.count())
}

/// Tests of Fig. 7(b), with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    Published(Approach),
    /// The demand bound test with clean eviction.
    DemandBound,
}

impl Judge {
    fn admits(self, drawn: &Drawn, memory: f64) -> bool {
        match self {
            Self::Published(approach) => admits(approach, drawn, memory),
            Self::DemandBound => study::admits_table3(drawn, memory),
        }
    }
}

/// Cuts of memory that Fig. 7(b) tries, in percent.
pub const CUTS: std::ops::RangeInclusive<u64> = 0..=70;

/// Fig. 7(b): for each set of five tasks the largest cut, in percent, up to which it stays admitted; `None`: never admitted.
pub fn tolerated(judge: Judge, seed: u64, progress: &Progress) -> Vec<Option<u64>> {
    each(SETS, progress, |index| {
        let drawn = &growing(seed, index)[1];
        CUTS.take_while(|&cut| judge.admits(drawn, 1.0 - cut as f64 / 100.0)).last()
    })
}

/// Fig. 7(c): ten tasks of the lowest resolution; one random task at a time gets the highest. The sets
/// for 0, 1, … 10 tasks of the highest.
pub fn sharpening(seed: u64, index: u64) -> Vec<Drawn> {
    let mut random = random(seed, index + (1 << 32));
    let low = |_| Member { resolution: 0, ..Member::draw(&mut random) };
    let mut drawn = Drawn { members: (0..10).map(low).collect() };
    let mut order: Vec<usize> = (0..10).collect();
    for k in (1..order.len()).rev() {
        order.swap(k, random.random_range(0..=k));
    }
    let mut sets = vec![drawn.clone()];
    for task in order {
        drawn.members[task].resolution = 2;
        sets.push(drawn.clone());
    }
    sets
}

/// Fig. 7(c): for each set of ten tasks, how many can have the high resolution.
pub fn sharp(approach: Approach, seed: u64, progress: &Progress) -> Vec<u64> {
    each(SETS, progress, |index| {
        let sets = sharpening(seed, index);
        let high = sets.iter().take_while(|drawn| admits(approach, drawn, 1.0)).count();
        high.saturating_sub(1) as u64
    })
}

fn count(admitted: &[Vec<bool>], points: usize) -> Vec<u64> {
    (0..points)
        .map(|k| admitted.iter().filter(|set| set.get(k) == Some(&true)).count() as u64)
        .collect()
}

/// The mean.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_task_has_the_highest_resolution() {
        let sharper = sharpening(1, 0);
        let high = |set: &Drawn| set.members.iter().filter(|m| m.resolution == 2).count();
        assert_eq!(sharper.iter().map(high).collect::<Vec<_>>(), (0..=10).collect::<Vec<_>>());
    }
}
