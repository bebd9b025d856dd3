//! Advice for a set that the test refuses: tasks that would be late even alone, and changes that help.
//!
//! A change is what a person types into the set's file. So its values are those that are printed, and each is tried as
//! printed before it is given: by its value, and by its percentage.

use crate::set::TaskSet;
use crate::set::file::Declared;
use crate::set::units::{bytes, human_bytes, human_ns, printed_bytes, printed_ns, time_ns};
use crate::volumes::plans;
use crate::volumes::search::{Freedom, least_load, search};
use eyelet::tasks::LONGEST_NS;

/// A task that would be late if it had the memory for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    pub task: usize,
    /// Loading and computing at worst.
    pub needs_ns: u64,
    /// From its release to its deadline.
    pub has_ns: u64,
}

/// A change that makes a set schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub what: What,
    /// By how much, in thousandths of what was there, rounded up.
    pub thousandths: u64,
}

/// What to change. Values are such as are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Memory of so many bytes.
    Memory { bytes: u64 },
    /// One task's period, and its deadline where that is shorter.
    Period { task: usize, period_ns: u64, deadline_ns: u64 },
    /// All periods and deadlines.
    Periods,
    /// No such task.
    Without { task: usize },
}

/// What is said of a refused set.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    pub alone: Vec<Alone>,
    pub changes: Vec<Change>,
}

/// Larger sets get no advice: the search takes too long.
const MOST_CHANGED: usize = 64;
/// Periods grow by at most this factor.
const MOST_FACTOR: f64 = 8.0;
/// Values of one change that are tried, each larger than the last.
const TRIES: u64 = 16;

/// Finds advice for a refused set, with the plans that were chosen for it.
pub(crate) fn advice(declared: &Declared, chosen: &TaskSet, freedom: Freedom) -> Advice {
    if chosen.tasks.len() > MOST_CHANGED {
        return Advice::default();
    }
    let tried = Tried { declared, freedom };
    let chunk_sizes = declared.chunk_sizes.as_slice();
    // All subsets would take too long for that many sets.
    let quick = freedom.min(Freedom::Engines);
    let admits = |set: &TaskSet| search(set, chunk_sizes, quick).is_some();
    let mut changes: Vec<Change> = Vec::new();
    changes.extend(more_memory(chosen, &admits).and_then(|bytes| tried.memory(bytes)));
    let factor = least_factor(|factor| admits(&slower(chosen, None, factor)));
    changes.extend(factor.and_then(|factor| tried.periods(factor)));
    for task in 0..chosen.tasks.len() {
        let factor = least_factor(|factor| admits(&slower(chosen, Some(task), factor)));
        changes.extend(factor.and_then(|factor| tried.period(task, factor)));
    }
    changes.sort_by_key(|change| change.thousandths);
    if changes.is_empty() && chosen.tasks.len() > 1 {
        changes = (0..chosen.tasks.len()).filter_map(|task| tried.without(task)).collect();
    }
    Advice { alone: tried.alone(), changes }
}

/// A set whose changes are tried as they are printed, by the same search that judges the set's file.
struct Tried<'a> {
    declared: &'a Declared,
    freedom: Freedom,
}

impl Tried<'_> {
    fn admits(&self, declared: &Declared) -> bool {
        plans::choose(declared, self.freedom).1.is_some()
    }

    /// The first value from one on that is admitted as printed, and its percentage too.
    fn first(
        &self,
        from: u64,
        next: fn(u64) -> u64,
        change: impl Fn(u64) -> Change,
    ) -> Option<Change> {
        let mut value = next(from);
        for n in 1..=TRIES {
            let change = change(value);
            if change.typed(self.declared).iter().all(|declared| self.admits(declared)) {
                return Some(change);
            }
            value = next(value + 1 + value / 500 * (n - 1));
        }
        None
    }

    fn memory(&self, bytes: u64) -> Option<Change> {
        let before = self.declared.set.memory_bytes;
        self.first(bytes, printed_bytes, |bytes| Change {
            what: What::Memory { bytes },
            thousandths: thousandths(bytes, before),
        })
    }

    fn period(&self, task: usize, factor: f64) -> Option<Change> {
        let before = &self.declared.set.tasks[task];
        let change = self.first(scaled(before.period_ns, factor), printed_ns, |period_ns| {
            let thousandths = thousandths(period_ns, before.period_ns);
            let deadline_ns = match before.deadline_ns == before.period_ns {
                true => period_ns,
                false => printed_ns(longer(before.deadline_ns, thousandths)).min(period_ns),
            };
            Change { what: What::Period { task, period_ns, deadline_ns }, thousandths }
        })?;
        matches!(change.what, What::Period { period_ns, .. } if period_ns <= LONGEST_NS)
            .then_some(change)
    }

    fn periods(&self, factor: f64) -> Option<Change> {
        let from = ((factor - 1.0) * 1000.0).ceil() as u64;
        let next = |thousandths| thousandths;
        self.first(from, next, |thousandths| Change { what: What::Periods, thousandths })
    }

    fn without(&self, task: usize) -> Option<Change> {
        let change = Change { what: What::Without { task }, thousandths: 0 };
        change.typed(self.declared).iter().all(|set| self.admits(set)).then_some(change)
    }

    /// Tasks that would be late without any others.
    fn alone(&self) -> Vec<Alone> {
        let late = |task: usize| {
            let (set, found) = plans::choose(&self.declared.only(|k| k == task), self.freedom);
            if found.is_some() {
                return None;
            }
            let assignment = least_load(&set, &self.declared.chunk_sizes)?;
            let loading_ns = assignment.tasks(&set).first()?.load_ns();
            let alone = set.tasks.first()?;
            let needs_ns = loading_ns.saturating_add(alone.cost.compute_ns);
            let has_ns = alone.deadline_ns.saturating_sub(alone.jitter_ns);
            (needs_ns > has_ns).then_some(Alone { task, needs_ns, has_ns })
        };
        (0..self.declared.set.tasks.len()).filter_map(late).collect()
    }
}

impl Change {
    /// The set after this change, as it reads what was printed: by the value, and by the percentage.
    fn typed(&self, declared: &Declared) -> Vec<Declared> {
        let set = &declared.set;
        let memory = |bytes| declared.in_memory(bytes);
        let timed = |task: usize, period_ns: u64, deadline_ns: u64| {
            let mut other = declared.clone();
            let task = &mut other.set.tasks[task];
            (task.period_ns, task.deadline_ns) = (period_ns, deadline_ns);
            other
        };
        let more = |value: u64| longer(value, self.thousandths);
        match self.what {
            What::Memory { bytes: size } => {
                let typed = bytes(&human_bytes(size)).into_iter().map(memory);
                typed.chain([memory(more(set.memory_bytes))]).collect()
            }
            What::Period { task, period_ns, deadline_ns } => {
                let typed = [period_ns, deadline_ns].map(|ns| time_ns(&human_ns(ns)));
                let [Ok(period_ns), Ok(deadline_ns)] = typed else { return vec![declared.clone()] };
                let before = &set.tasks[task];
                let by_part = timed(task, more(before.period_ns), more(before.deadline_ns));
                vec![timed(task, period_ns, deadline_ns), by_part]
            }
            What::Periods => {
                let mut other = declared.clone();
                for task in &mut other.set.tasks {
                    (task.period_ns, task.deadline_ns) =
                        (more(task.period_ns), more(task.deadline_ns));
                }
                vec![other]
            }
            What::Without { task } => vec![declared.only(|k| k != task)],
        }
    }

    /// The change in words, after "schedulable with".
    pub fn sentence(&self, set: &TaskSet) -> String {
        let part = format!("{}.{} %", self.thousandths / 10, self.thousandths % 10);
        let name = |task: usize| set.tasks[task].name.as_str();
        match self.what {
            What::Memory { bytes } => format!("{} of memory (+{part})", human_bytes(bytes)),
            What::Period { task, period_ns, deadline_ns } if period_ns == deadline_ns => {
                format!("a period of {} for {} (+{part})", human_ns(period_ns), name(task))
            }
            What::Period { task, period_ns, deadline_ns } => format!(
                "a period of {} and a deadline of {} for {} (+{part})",
                human_ns(period_ns),
                human_ns(deadline_ns),
                name(task)
            ),
            What::Periods => format!("all periods and deadlines longer by {part}"),
            What::Without { task } => format!("{} taken out", name(task)),
        }
    }
}

impl Alone {
    /// What is wrong, in words.
    pub fn sentence(&self, set: &TaskSet) -> String {
        let Self { task, needs_ns, has_ns } = *self;
        let task = &set.tasks[task];
        let window = match (task.deadline_ns == task.period_ns, task.jitter_ns) {
            (true, 0) => format!("its period is {}", human_ns(has_ns)),
            (false, 0) => format!("its deadline is {}", human_ns(has_ns)),
            (_, jitter_ns) => {
                format!("its jitter of {} leaves it {}", human_ns(jitter_ns), human_ns(has_ns))
            }
        };
        format!(
            "{} is late even alone: a job takes {}, and {window}",
            task.name,
            human_ns(printed_ns(needs_ns))
        )
    }
}

/// By how much a value exceeds another one, rounded up.
fn thousandths(value: u64, before: u64) -> u64 {
    let more = u128::from(value.saturating_sub(before)) * 1000;
    u64::try_from(more.div_ceil(u128::from(before.max(1)))).unwrap_or(u64::MAX)
}

/// A value that is so many thousandths longer.
fn longer(value: u64, thousandths: u64) -> u64 {
    let all = u128::from(value) * (1000 + u128::from(thousandths));
    u64::try_from((all + 500) / 1000).unwrap_or(u64::MAX)
}

fn more_memory(set: &TaskSet, admits: &impl Fn(&TaskSet) -> bool) -> Option<u64> {
    let with = |memory_bytes| TaskSet { memory_bytes, ..set.clone() };
    let (mut low, mut high) = (set.memory_bytes, set.all_bytes());
    if high <= low || !admits(&with(high)) {
        return None;
    }
    while high - low > high / 500 {
        let middle = low + (high - low) / 2;
        match admits(&with(middle)) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

/// The least factor up to [`MOST_FACTOR`] that passes, to half a percent.
fn least_factor(passes: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut low, mut high) = (1.0, MOST_FACTOR);
    if !passes(high) {
        return None;
    }
    while high / low > 1.005 {
        let middle = f64::midpoint(low, high);
        match passes(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

fn slower(set: &TaskSet, only: Option<usize>, factor: f64) -> TaskSet {
    let mut set = set.clone();
    for (k, task) in set.tasks.iter_mut().enumerate() {
        if only.is_none_or(|task| task == k) {
            task.period_ns = scaled(task.period_ns, factor);
            task.deadline_ns = scaled(task.deadline_ns, factor).min(task.period_ns);
        }
    }
    set
}

fn scaled(ns: u64, factor: f64) -> u64 {
    ((ns as f64 * factor).ceil() as u64).min(LONGEST_NS)
}
