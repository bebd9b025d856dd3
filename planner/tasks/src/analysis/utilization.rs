//! The share of time that tasks need, compared with 1 without rounding in their favour.

use eyelet::tasks::Task;

/// What one job needs on both engines, one after the other.
pub fn job_ns(task: &Task) -> u64 {
    task.load_ns().saturating_add(task.compute_ns)
}

/// What one job costs: its own time, and that of reading again what it pushes out.
pub fn cost_ns(task: &Task) -> u64 {
    job_ns(task).saturating_add(task.reload_ns)
}

/// Σ cost / period.
pub fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| cost_ns(task) as f64 / task.period_ns as f64).sum()
}

/// Σ loading / period: the storage's share.
pub fn storage(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.load_ns() as f64 / task.period_ns as f64).sum()
}

/// Σ computing / period: the processor's share.
pub fn processor(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.compute_ns as f64 / task.period_ns as f64).sum()
}

/// Σ cost / period > 1. Exact where the periods' common multiple fits 64 bits, else rounded against the set.
pub fn overloaded(tasks: &[Task]) -> bool {
    match hyperperiod_ns(tasks) {
        Some(all) => {
            let demand: u128 =
                tasks.iter().map(|t| u128::from(cost_ns(t)) * u128::from(all / t.period_ns)).sum();
            demand > u128::from(all)
        }
        None => {
            let share = |t: &Task| (u128::from(cost_ns(t)) << 64).div_ceil(u128::from(t.period_ns));
            tasks.iter().map(share).sum::<u128>() > 1 << 64
        }
    }
}

/// The least time that is a multiple of every period.
pub fn hyperperiod_ns(tasks: &[Task]) -> Option<u64> {
    tasks.iter().try_fold(1u64, |all, task| {
        let step = task.period_ns / gcd(all, task.period_ns);
        all.checked_mul(step).filter(|&ns| ns <= u64::MAX / 4)
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
