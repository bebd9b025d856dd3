//! RT-Swap's published test (Lemma 1 and Theorem 1, Eqs. 2 and 3).
//!
//! It assumes deadlines equal to periods, jobs whose computing nothing interrupts, and swaps that nothing interrupts.

use eyelet::tasks::Task;

/// A task as the test sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swapped {
    pub period_ns: u64,
    pub compute_ns: u64,
    /// O^In and O^Out of its swap volume.
    pub in_ns: u64,
    pub out_ns: u64,
}

/// Both sides of Eq. 3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theorem1 {
    /// Eq. 2: the longest time that a job waits for less urgent ones.
    pub blocking_ns: u64,
    /// Σ (O^Out + O^In + C) / T.
    pub utilization: f64,
    /// Left side of Eq. 3.
    pub load: f64,
}

impl Theorem1 {
    pub fn kept(&self) -> bool {
        self.load <= 1.0
    }
}

/// Evaluates Eqs. 2 and 3.
pub fn theorem1(tasks: &[Swapped]) -> Theorem1 {
    let mut computing: Vec<u64> = tasks.iter().map(|task| task.compute_ns).collect();
    computing.sort_unstable_by_key(|&ns| std::cmp::Reverse(ns));
    let two: u64 = computing.iter().take(2).sum();
    let one = |task: &Swapped| task.out_ns.max(task.in_ns + task.compute_ns);
    let blocking_ns = tasks.iter().map(one).max().unwrap_or(0).max(two);
    let utilization =
        tasks.iter().map(|t| (t.out_ns + t.in_ns + t.compute_ns) as f64 / t.period_ns as f64).sum();
    let shortest = tasks.iter().map(|task| task.period_ns).min().unwrap_or(1).max(1);
    Theorem1 { blocking_ns, utilization, load: blocking_ns as f64 / shortest as f64 + utilization }
}

/// Whether the test admits tasks of [`eyelet::tasks::Policy::Regions`]. Leaving memory is part of a chunk's time.
pub fn regions(tasks: &[Task]) -> bool {
    let swapped = |task: &Task| Swapped {
        period_ns: task.period_ns,
        compute_ns: task.compute_ns,
        in_ns: task.load_ns(),
        out_ns: 0,
    };
    let implicit =
        |task: &Task| task.deadline_ns == task.period_ns && task.jitter_ns == 0 && !task.streams;
    tasks.iter().all(implicit) && theorem1(&tasks.iter().map(swapped).collect::<Vec<_>>()).kept()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_is_the_largest_of_three() {
        let task =
            |compute_ns, in_ns, out_ns| Swapped { period_ns: 100, compute_ns, in_ns, out_ns };
        assert_eq!(theorem1(&[task(4, 0, 0), task(3, 0, 0)]).blocking_ns, 7);
        assert_eq!(theorem1(&[task(4, 5, 0), task(3, 0, 0)]).blocking_ns, 9);
        assert_eq!(theorem1(&[task(4, 5, 11), task(3, 0, 0)]).blocking_ns, 11);
        let test = theorem1(&[task(4, 5, 11), task(3, 0, 0)]);
        assert_eq!(test.utilization, 0.23);
        assert_eq!(test.load, 0.34);
    }
}
