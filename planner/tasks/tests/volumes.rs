//! RT-Swap's volumes against a general solver: the same optimum by mixed-integer programming.

use eyelet_tasks::generate::random;
use eyelet_tasks::generate::uniform::{Shape, draw};
use eyelet_tasks::set::{TaskSet, Units};
use eyelet_tasks::volumes::published;
use good_lp::{Expression, Solution, SolverModel, constraint, microlp, variable, variables};
use rand::Rng;

const CHUNK: u64 = 10_000_000;

/// The least Σ x in chunks by Eqs. 1b, 1c and 3; `None` if nothing satisfies them.
fn by_solver(set: &TaskSet) -> Option<u64> {
    let units = Units::new(set, CHUNK);
    let ms = |ns: u64| ns as f64 / 1e6;
    let (into, out) =
        (ms(set.storage.read.time_ns(CHUNK)), ms(set.storage.write.unwrap().time_ns(CHUNK)));
    let shortest = set.tasks.iter().map(|task| ms(task.period_ns)).fold(f64::INFINITY, f64::min);
    let mut computing: Vec<f64> = set.tasks.iter().map(|task| ms(task.cost.compute_ns)).collect();
    computing.sort_by(|a, b| b.total_cmp(a));
    variables! { vars: blocking >= computing[0] + computing[1]; }
    let x: Vec<_> = units
        .swappable
        .iter()
        .map(|&most| vars.add(variable().integer().min(0).max(f64::from(most))))
        .collect();
    let sum: Expression = x.iter().sum();
    let mut model = vars.minimise(sum.clone()).using(microlp);
    let mut load: Expression = blocking / shortest;
    for (task, &x) in set.tasks.iter().zip(&x) {
        let (compute, period) = (ms(task.cost.compute_ns), ms(task.period_ns));
        load += (into + out) / period * x + compute / period;
        model.add_constraint(constraint!(blocking >= into * x + compute));
        model.add_constraint(constraint!(blocking >= out * x));
        model.add_constraint(constraint!(sum.clone() - x >= units.overflow() as f64));
    }
    model.add_constraint(constraint!(load <= 1.0));
    let solution = model.solve().ok()?;
    Some(x.iter().map(|&x| solution.value(x).round() as u64).sum())
}

#[test]
fn water_filling_finds_the_solvers_optimum() {
    let mut random = random(39, 0);
    let (mut feasible, mut infeasible) = (0, 0);
    for _ in 0..300 {
        let shape = Shape {
            tasks: random.random_range(2..=5),
            load: random.random_range(0.1..0.5),
            least_period_ms: 100.0,
            most_period_ms: 400.0,
            least_bytes: 20_000_000,
            most_bytes: 120_000_000,
            swappable: 0.9,
            overflow: random.random_range(0.0..0.4),
            step: 1.0,
            bytes_per_second: 3_000_000_000,
            writes: true,
        };
        let set = draw(&shape, &mut random);
        let ours = published::solve_for(&set, CHUNK).map(|solution| solution.swapped_bytes / CHUNK);
        assert_eq!(ours, by_solver(&set), "{set:#?}");
        match ours {
            Some(_) => feasible += 1,
            None => infeasible += 1,
        }
    }
    assert!(feasible > 30 && infeasible > 30, "{feasible} feasible, {infeasible} not");
}
