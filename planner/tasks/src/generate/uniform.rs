//! Sets of a given load: UUniFast shares, periods log-uniform.

use super::MB;
use crate::set::{Cost, Storage, Swappable, Task, TaskSet, Transfer};
use rand::Rng;

/// What a random set is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub tasks: usize,
    /// Σ computing / period.
    pub load: f64,
    pub least_period_ms: f64,
    pub most_period_ms: f64,
    /// Bytes of a task, uniform.
    pub least_bytes: u64,
    pub most_bytes: u64,
    /// Part of a task's bytes that is swappable.
    pub swappable: f64,
    /// Part of all bytes that does not fit the memory.
    pub overflow: f64,
    /// The longest step, as part of the task's computing.
    pub step: f64,
    pub bytes_per_second: u64,
    /// Leaving memory must write.
    pub writes: bool,
}

/// Shares of a load, uniform among all that add up to it (Bini and Buttazzo).
pub fn shares(tasks: usize, load: f64, random: &mut impl Rng) -> Vec<f64> {
    let mut left = load;
    let mut shares = Vec::with_capacity(tasks);
    for n in (1..tasks).rev() {
        let next = left * random.random_range(0.0f64..1.0).powf(1.0 / n as f64);
        shares.push(left - next);
        left = next;
    }
    shares.push(left);
    shares
}

/// A random set.
pub fn draw(shape: &Shape, random: &mut impl Rng) -> TaskSet {
    let loads = shares(shape.tasks, shape.load, random);
    let (low, high) = (shape.least_period_ms.ln(), shape.most_period_ms.ln());
    let task = |(k, load): (usize, f64)| {
        let period_ms = random.random_range(low..=high).exp();
        let period_ns = (period_ms * super::MS) as u64;
        let compute_ns = ((period_ns as f64 * load) as u64).max(1000);
        let bytes = random.random_range(shape.least_bytes..=shape.most_bytes);
        let cost = Cost {
            compute_ns,
            step_ns: ((compute_ns as f64 * shape.step) as u64).clamp(1, compute_ns),
            bytes,
            weights: Swappable::of((bytes as f64 * shape.swappable) as u64),
            room: Swappable::default(),
            streams: false,
        };
        Task {
            name: format!("task {}", k + 1),
            period_ns,
            deadline_ns: period_ns,
            jitter_ns: 0,
            cost,
        }
    };
    let tasks: Vec<Task> = loads.into_iter().enumerate().map(task).collect();
    let all: u64 = tasks.iter().map(|task| task.cost.bytes).sum();
    let transfer = Transfer { per_chunk_ns: 20_000, bytes_per_second: shape.bytes_per_second };
    TaskSet {
        memory_bytes: (all as f64 * (1.0 - shape.overflow)) as u64,
        page_bytes: 0,
        storage: Storage {
            chunk_bytes: MB,
            read: transfer,
            write: shape.writes.then_some(transfer),
        },
        tasks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_differ() {
        let mut random = crate::generate::random(1, 0);
        for _ in 0..100 {
            let shares = shares(6, 0.7, &mut random);
            assert!((shares.iter().sum::<f64>() - 0.7).abs() < 1e-12);
            assert!(shares.iter().all(|&share| (0.0..=0.7).contains(&share)));
        }
    }
}
