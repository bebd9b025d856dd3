//! Turns: first until everything is warm, then the ones that count.
//!
//! With several programs, each has a turn in each round, so that what disturbs the machine for a while disturbs all of them. The
//! first inference of such a turn is not counted: the program has rested, and its loader has read ahead meanwhile.

use super::contender::{Contender, Turn};
use super::energy::Sensor;
use super::statistics::percentile;
use crate::cli::Error;
use crate::cli::run::turns::MOST;
use std::time::Duration;

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    pub warmup: Duration,
    /// Of each program, unless a number of runs is given.
    pub duration: Duration,
    pub runs: Option<u32>,
}

/// Inferences that are measured at least, however long they take.
const LEAST_RUNS: usize = 10;

/// What a turn should take.
const TURN: Duration = Duration::from_millis(250);

/// What was measured of a program.
#[derive(Debug, Default)]
pub struct Measured {
    pub name: String,
    /// In the order in which they ran.
    pub latencies_ns: Vec<u64>,
    /// Of all these inferences, with what the host does between them.
    pub elapsed_ns: u64,
    /// Joules an inference, where there is a sensor.
    pub joules: Option<f64>,
    /// The median of each round.
    pub medians_ns: Vec<u64>,
}

/// Has programs take turns.
pub fn measure(
    contenders: &mut [Contender],
    plan: &Plan,
    sensor: Option<&Sensor>,
) -> Result<Vec<Measured>, Error> {
    let mut sizes = Vec::new();
    for contender in contenders.iter_mut() {
        sizes.push(warm_up(contender, plan)?);
    }
    let alone = contenders.len() == 1;
    let mut all: Vec<Counted> = contenders.iter().map(Counted::new).collect();
    while all.iter().any(|counted| counted.wants(plan) > 0) {
        for ((contender, counted), size) in contenders.iter_mut().zip(&mut all).zip(&sizes) {
            let runs = counted.wants(plan).min(*size);
            if runs == 0 {
                continue;
            }
            let uncounted = u32::from(!alone);
            let counting = sensor.map(Sensor::start);
            let turn = contender.turn(runs + uncounted)?;
            let joules = counting.and_then(|counting| counting.stop());
            counted.add(turn, uncounted as usize, joules);
        }
    }
    Ok(all.into_iter().map(Counted::finish).collect())
}

/// Runs a program until it is warm: how many inferences make a turn.
fn warm_up(contender: &mut Contender, plan: &Plan) -> Result<u32, Error> {
    let (mut spent, mut runs) = (Duration::ZERO, 1);
    loop {
        let turn = Duration::from_nanos(contender.turn(runs)?.ns);
        spent += turn;
        let each = (turn / runs).max(Duration::from_nanos(1));
        let size = (TURN.as_nanos() / each.as_nanos()).clamp(1, u128::from(MOST) - 1) as u32;
        if spent >= plan.warmup {
            return Ok(size);
        }
        runs = size;
    }
}

/// A program's turns so far.
struct Counted {
    measured: Measured,
    joules: Option<f64>,
    /// All inferences, those that are not counted as well: energy is of these.
    all_runs: usize,
}

impl Counted {
    fn new(contender: &Contender) -> Self {
        let measured = Measured { name: contender.name.clone(), ..Measured::default() };
        Self { measured, joules: Some(0.0), all_runs: 0 }
    }

    /// Inferences that are still to be measured, at most.
    fn wants(&self, plan: &Plan) -> u32 {
        let (done, spent) = (self.measured.latencies_ns.len(), self.measured.elapsed_ns);
        match plan.runs {
            Some(runs) => runs - done as u32,
            None if done >= LEAST_RUNS && u128::from(spent) >= plan.duration.as_nanos() => 0,
            None => MOST - 1,
        }
    }

    fn add(&mut self, turn: Turn, uncounted: usize, joules: Option<f64>) {
        let Turn { ns, latencies_ns } = turn;
        let (before, counted) = latencies_ns.split_at(uncounted);
        let mut sorted = counted.to_vec();
        sorted.sort_unstable();
        self.measured.medians_ns.push(percentile(&sorted, 50));
        self.measured.elapsed_ns += ns.saturating_sub(before.iter().sum());
        self.measured.latencies_ns.extend_from_slice(counted);
        self.joules = self.joules.zip(joules).map(|(sum, joules)| sum + joules);
        self.all_runs += latencies_ns.len();
    }

    fn finish(self) -> Measured {
        let joules = self.joules.map(|joules| joules / self.all_runs.max(1) as f64);
        Measured { joules, ..self.measured }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A program whose inferences take so many microseconds by what it says; the first of a turn takes ten times as long.
    fn script(name: &str, us: u32) -> Contender {
        let mut command = Command::new("sh");
        let each = us * 1000;
        command.args([
            "-c",
            &format!(
                "echo ready; while read n; do line=; i=1; while [ $i -lt $n ]; do line=\"$line {each}\"; \
                 i=$((i+1)); done; echo $(( (n + 9) * {each} )) {each}0$line; done; echo '{{}}'"
            ),
        ]);
        Contender::start(name.to_owned(), command).unwrap()
    }

    #[test]
    fn programs_take_turns_until_each_has_its_runs() {
        let mut two = [script("a", 10_000), script("b", 20_000)];
        let plan = Plan { warmup: Duration::ZERO, duration: Duration::ZERO, runs: Some(7) };
        let measured = measure(&mut two, &plan, None).unwrap();
        for (measured, ns) in measured.iter().zip([10_000_000, 20_000_000]) {
            assert_eq!(measured.latencies_ns, vec![ns; 7]);
            assert_eq!(measured.elapsed_ns, 7 * ns);
            assert!(measured.medians_ns.len() > 1, "{measured:?}");
            assert_eq!(measured.joules, None);
        }
    }

    #[test]
    fn a_program_alone_has_all_its_inferences_counted() {
        let mut one = [script("a", 50_000)];
        let duration = Duration::from_millis(100);
        let plan = Plan { warmup: Duration::ZERO, duration, runs: None };
        let measured = measure(&mut one, &plan, None).unwrap();
        assert!(measured[0].latencies_ns.len() >= LEAST_RUNS);
        assert_eq!(measured[0].latencies_ns[0], 500_000_000);
    }
}
