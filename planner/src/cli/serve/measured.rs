//! Everything that was measured so far, and what of it counts: times alone, and those of rehearsals.

use super::super::error::SetsError;
use super::costs::{ChunkCost, Costs, PlanCost};
use super::measure::{How, Layout, fitted, layouts, unmeasured};
use super::samples::{Interruption, Samples, Timed};
use super::solo::Solo;
use super::watch::Times;
use crate::cli::Error;
use eyelet::pack::PAGE;
use eyelet_tasks::set::decided::{Decided, Pack, Planned};
use eyelet_tasks::set::{self, Cost};

/// What a rehearsal has measured.
#[derive(Debug, Default)]
pub struct Rehearsed {
    /// Of each task.
    pub times: Vec<Times>,
    pub chunks: Samples,
}

/// Chunks of one size that were read.
#[derive(Clone, Debug)]
struct Read {
    bytes: u64,
    timed: Timed,
    rehearsed: bool,
    alone: Samples,
    rough_ns: u64,
}

/// Everything measured so far.
#[derive(Debug)]
pub struct Measured {
    pub how: How,
    pub solos: Vec<Solo>,
    reads: Vec<Read>,
}

impl Measured {
    pub fn new(how: How) -> Self {
        Self { how, solos: Vec::new(), reads: Vec::new() }
    }

    /// Runs all plans of a pack that take at most so many bytes, or that for one budget, each alone.
    ///
    /// If all take more, the smallest one's bytes are returned, without times.
    pub fn pack(
        &mut self,
        pack: &Pack,
        budget: Option<u64>,
        most: u64,
    ) -> Result<Vec<Cost>, Error> {
        let plans = layouts(pack)?;
        let wanted = |plan: &&Layout| budget.is_none_or(|budget| plan.budget == budget);
        let Some(smallest) = plans.iter().filter(wanted).map(|plan| plan.bytes).min() else {
            let plans = plans.iter().map(|plan| plan.budget).collect();
            let (path, budget) = (pack.name(), budget.unwrap_or(u64::MAX));
            return Err(SetsError::Budget { path, budget, plans }.into());
        };
        let mut found = Vec::new();
        for plan in plans.iter().filter(wanted).filter(|plan| plan.bytes <= most) {
            let planned = Planned { pack: pack.clone(), budget: plan.budget };
            if self.solo(&planned).is_none() {
                let solo = self.how.first.run(|| self.how.solo(planned.clone(), plan))??;
                self.solos.push(solo);
            }
            found.extend(self.solo(&planned).map(|solo| solo.cost.clone()));
        }
        match found.is_empty() {
            true => Ok(vec![unmeasured(smallest)]),
            false => Ok(found),
        }
    }

    /// The run of a plan.
    pub fn solo(&self, planned: &Planned) -> Option<&Solo> {
        self.solos.iter().find(|solo| solo.planned == *planned)
    }

    /// The plan of a pack that costs so much.
    pub fn costing(&self, pack: &Pack, cost: &Cost) -> Option<&Solo> {
        self.solos.iter().find(|solo| solo.planned.pack == *pack && solo.cost == *cost)
    }

    /// What reads of chunks of these sizes cost, by reading some of each pack.
    pub fn storage(&mut self, chunk_sizes: &[u64]) -> Result<set::Storage, Error> {
        let mut packs: Vec<&Pack> = self.solos.iter().map(|solo| &solo.planned.pack).collect();
        packs.sort();
        packs.dedup();
        for &bytes in chunk_sizes {
            let read = |pack: &&Pack| self.how.first.run(|| self.how.read(pack, bytes))?;
            let times = packs.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
            let alone = Samples::of(times.into_iter().flatten());
            let timed = self.how.rough.timed(&alone, Interruption::default());
            let rough_ns = timed.counted_ns;
            self.reads.push(Read { bytes, timed, rehearsed: false, alone, rough_ns });
        }
        Ok(self.counted_storage(chunk_sizes.first().copied().unwrap_or(PAGE)))
    }

    /// Storage as it counts by now, for chunks of all sizes.
    pub fn counted_storage(&self, chunk_bytes: u64) -> set::Storage {
        self.storage_of(chunk_bytes, |_| true)
    }

    /// Storage as it counts by now, for chunks of one size.
    pub fn storage_for(&self, chunk_bytes: u64) -> set::Storage {
        self.storage_of(chunk_bytes, |bytes| bytes == chunk_bytes)
    }

    fn storage_of(&self, chunk_bytes: u64, of: impl Fn(u64) -> bool) -> set::Storage {
        let reads = self.reads.iter().filter(|read| of(read.bytes));
        let times: Vec<(u64, u64)> =
            reads.map(|read| (read.bytes, read.timed.counted_ns)).collect();
        set::Storage { chunk_bytes, read: fitted(&times), write: None }
    }

    /// The costs of those plans of a pack that were run, the largest first.
    pub fn plans(&self, pack: &Pack) -> Vec<Cost> {
        let its = self.solos.iter().filter(|solo| solo.planned.pack == *pack);
        let mut costs: Vec<Cost> = its.map(|solo| solo.cost.clone()).collect();
        costs.sort_by_key(|cost| std::cmp::Reverse(cost.bytes));
        costs
    }

    /// Takes over what a rehearsal of a set has found. Plans of the same packs and chunks of other sizes count as longer
    /// by the same time.
    pub fn learn(&mut self, decided: &Decided, found: &Rehearsed) {
        let rule = self.how.rule;
        let all = Interruption::of(found.times.iter().flat_map(|times| &times.steps));
        for (planned, times) in decided.packs.iter().zip(&found.times) {
            let Some(solo) = self.solos.iter_mut().find(|solo| solo.planned == *planned) else {
                continue;
            };
            let before = (solo.job, solo.step, solo.rehearsed);
            let alone = solo.alone.clone();
            solo.count(if times.jobs.count > 0 { times } else { &alone }, all, rule);
            // Another instance may have had longer ones.
            if before.2 {
                (solo.job, solo.step) = (solo.job.longer(before.0), solo.step.longer(before.1));
                solo.cost.compute_ns = solo.job.counted_ns;
                solo.cost.step_ns = solo.step.counted_ns.min(solo.cost.compute_ns);
            }
            solo.rehearsed = true;
            let [job, step] = solo.rough_ns;
            let more_job = solo.job.counted_ns.saturating_sub(job);
            let more_step = solo.step.counted_ns.saturating_sub(step);
            let of_pack = |solo: &&mut Solo| !solo.rehearsed && solo.planned.pack == planned.pack;
            for other in self.solos.iter_mut().filter(of_pack) {
                let [job, step] = other.rough_ns;
                other.cost.compute_ns = other.cost.compute_ns.max(job + more_job);
                other.cost.step_ns = other.cost.step_ns.max(step + more_step);
                other.cost.step_ns = other.cost.step_ns.min(other.cost.compute_ns);
            }
        }
        self.learn_chunks(decided.assignment.chunk_bytes, &found.chunks, all);
    }

    fn learn_chunks(&mut self, bytes: u64, chunks: &Samples, all: Interruption) {
        let rule = self.how.rule;
        let mut more_ns = 0;
        for read in self.reads.iter_mut().filter(|read| read.bytes == bytes) {
            let found = rule.timed(if chunks.count > 0 { chunks } else { &read.alone }, all);
            read.timed = if read.rehearsed { read.timed.longer(found) } else { found };
            read.rehearsed = true;
            more_ns = read.timed.counted_ns.saturating_sub(read.rough_ns);
        }
        for read in self.reads.iter_mut().filter(|read| !read.rehearsed) {
            read.timed.counted_ns = read.timed.counted_ns.max(read.rough_ns + more_ns);
        }
    }

    /// What was measured of a set's plans and chunks, for reports.
    pub fn costs(&self) -> Costs {
        let plan = |solo: &Solo| PlanCost {
            pack: solo.planned.pack.name(),
            budget_bytes: solo.planned.budget,
            rehearsed: solo.rehearsed,
            job: solo.job,
            step: solo.step,
            counted_job_ns: solo.cost.compute_ns,
            counted_step_ns: solo.cost.step_ns,
        };
        let &How { rule, rough, .. } = &self.how;
        let rehearsed = self.solos.iter().any(|solo| solo.rehearsed);
        let chunk = |read: &Read| ChunkCost {
            chunk_bytes: read.bytes,
            rehearsed: read.rehearsed,
            read: read.timed,
        };
        Costs {
            rule: if rehearsed { rule } else { rough }.to_string(),
            plans: self.solos.iter().map(plan).collect(),
            chunks: self.reads.iter().map(chunk).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::Rule;
    use super::super::solo::Example;
    use super::*;
    use crate::cli::first::First;
    use crate::cli::run::report::Spread;
    use eyelet_planner::source::Io;

    fn solo(path: &str, budget: u64, compute_ns: u64) -> Solo {
        let times =
            Times { jobs: Samples::of([compute_ns]), steps: vec![Samples::of([compute_ns / 2])] };
        let planned = Planned { pack: std::path::PathBuf::from(path).into(), budget };
        let found = (Spread::default(), Example::default());
        Solo::new((planned, unmeasured(budget)), times, found, Rule::Margin(1.0))
    }

    /// A set of two instances of a pack's larger plan was rehearsed.
    #[test]
    fn what_a_rehearsal_finds_counts_for_other_plans_and_chunk_sizes() {
        let (rule, rough) = (Rule::Margin(2.0), Rule::Margin(1.0));
        let (io, first) = (Io::Buffered, First::default());
        let how = How { io, threads: 1, cores: None, first, runs: 1, rule, rough };
        let mut measured = Measured::new(how);
        measured.solos = vec![solo("a", 8, 1000), solo("a", 4, 3000), solo("b", 8, 1000)];
        let read = |bytes, ns| Read {
            bytes,
            timed: rough.timed(&Samples::of([ns]), Interruption::default()),
            rehearsed: false,
            alone: Samples::of([ns]),
            rough_ns: ns,
        };
        measured.reads = vec![read(4096, 1000), read(8192, 1500)];
        let found = |job: u64, step: u64| Times {
            jobs: Samples::of([job]),
            steps: vec![Samples::of([step])],
        };
        let planned = measured.solos[0].planned.clone();
        let mut decided = decided(planned.clone());
        decided.packs = vec![planned; 2];
        let rehearsed = Rehearsed {
            times: vec![found(1500, 600), found(1200, 900)],
            chunks: Samples::of([2000]),
        };
        measured.learn(&decided, &rehearsed);
        let costs: Vec<_> =
            measured.solos.iter().map(|solo| (solo.cost.compute_ns, solo.cost.step_ns)).collect();
        // The longest of both instances, twice.
        assert_eq!(costs[0], (3001, 1801));
        // Longer by 2000 a job and 1300 a step.
        assert_eq!(costs[1], (5001, 2801));
        assert_eq!(costs[2], (1001, 501));
        let storage = measured.counted_storage(4096);
        assert!(storage.chunk_ns(4096) >= 4001 && storage.chunk_ns(8192) >= 4501, "{storage:?}");
        let exact = measured.storage_for(4096).chunk_ns(4096);
        assert!((4001..4010).contains(&exact), "{exact}");
        assert_eq!(measured.plans(&decided.packs[0].pack).len(), 2);
        let costs = measured.costs();
        assert!(costs.plans[0].rehearsed && !costs.plans[1].rehearsed);
        assert_eq!(costs.plans[1].counted_job_ns, measured.solos[1].cost.compute_ns);
    }

    fn decided(planned: Planned) -> Decided {
        use eyelet_tasks::set::{Assignment, TaskSet};
        let storage = set::Storage { chunk_bytes: 4096, read: fitted(&[(4096, 1)]), write: None };
        Decided {
            set: TaskSet { memory_bytes: 8192, page_bytes: PAGE, storage, tasks: Vec::new() },
            assignment: Assignment {
                chunk_bytes: 4096,
                chunks: Vec::new(),
                levels: Vec::new(),
                policy: eyelet::tasks::Policy::Steps,
            },
            packs: vec![planned],
        }
    }
}
