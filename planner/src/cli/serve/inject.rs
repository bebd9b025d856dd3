//! What goes wrong on purpose: jobs that compute too long, come too late, or whose reads fail.

use eyelet::storage::faulty::Fault;
use eyelet_tasks::set::decided::Decided;
use eyelet_tasks::set::units::time_ns;

/// One fault, and the name of the task that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inject {
    pub task: String,
    pub what: What,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// Steps take so many times as long.
    Overload(f64),
    /// Jobs are released so long after they arrive, beyond their jitter.
    Late(u64),
    /// Every so-manieth read fails.
    Io(u64),
}

const HELP: &str = "write overload=TASK:2x, late=TASK:5ms or io=TASK:every:100";

impl Inject {
    /// Parses `overload=TASK:2x`, `late=TASK:5ms`, `io=TASK:every:100`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no fault: {HELP}");
        let (kind, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (task, amount) = rest.split_once(':').ok_or_else(wrong)?;
        let what = match kind {
            "overload" => {
                let number = amount.strip_suffix('x').and_then(|number| number.parse().ok());
                let factor: f64 = number.ok_or_else(wrong)?;
                if !(1.0..=1000.0).contains(&factor) {
                    let range = "give a factor from 1x to 1000x";
                    return Err(format!("`{text}` is no fault: {range}; {HELP}"));
                }
                What::Overload(factor)
            }
            "late" => What::Late(time_ns(amount)?),
            "io" => {
                let every = amount.strip_prefix("every:").and_then(|number| number.parse().ok());
                What::Io(every.filter(|every| *every > 0).ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        Ok(Self { task: task.to_owned(), what })
    }
}

/// What goes wrong with one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Times as long, if at all.
    pub overload: Option<f64>,
    pub late_ns: u64,
    /// Which attempts to read fail, and how.
    pub script: Vec<(u64, Fault)>,
}

/// Reads that fail, at most: a script is looked through at each attempt.
const MOST_FAILURES: u64 = 4096;
/// The system's number for an error of input or output.
const EIO: i32 = 5;

/// What goes wrong with each task of these names. An error names one that is unknown.
pub fn faults(names: &[&str], injected: &[Inject]) -> Result<Vec<Faults>, String> {
    let mut all = vec![Faults::default(); names.len()];
    for Inject { task, what } in injected {
        let Some(at) = names.iter().position(|name| name == task) else {
            return Err(format!(
                "--inject: there is no task {task:?}; there are: {}",
                names.join(", ")
            ));
        };
        match *what {
            What::Overload(factor) => all[at].overload = Some(factor),
            What::Late(ns) => all[at].late_ns = ns,
            What::Io(every) => {
                let failing = (1..=MOST_FAILURES).map(|n| n.saturating_mul(every) - 1);
                all[at].script = failing.map(|attempt| (attempt, Fault::Errno(EIO))).collect();
            }
        }
    }
    Ok(all)
}

/// Refuses reads that fail of a task that reads nothing while the set runs.
pub fn reads(decided: &Decided, faults: &[Faults]) -> Result<(), String> {
    let tasks = decided.set.tasks.iter().zip(&decided.assignment.chunks).zip(faults);
    for ((task, &chunks), faults) in tasks {
        if !faults.script.is_empty() && chunks == 0 && !task.cost.streams {
            return Err(format!(
                "--inject: task {:?} reads nothing, since all of its weights stay in memory: give io to another task, \
                 or less memory",
                task.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_parsed_and_find_their_task() {
        let parsed = |text| Inject::parse(text).unwrap();
        let all = ["overload=a:2.5x", "late=b:5ms", "io=b:every:100"].map(parsed);
        let found = faults(&["a", "b"], &all).unwrap();
        assert_eq!((found[0].overload, found[1].overload), (Some(2.5), None));
        assert_eq!((found[0].late_ns, found[1].late_ns), (0, 5_000_000));
        assert!(found[0].script.is_empty());
        assert_eq!(found[1].script[1], (199, Fault::Errno(5)));
        let unknown = faults(&["a"], &all).unwrap_err();
        assert!(unknown.contains("no task \"b\"; there are: a"), "{unknown}");
    }

    #[test]
    fn what_is_no_fault_is_refused_with_an_example() {
        for text in [
            "",
            "overload",
            "overload=a",
            "overload=a:2",
            "overload=a:0.5x",
            "overload=a:NaNx",
            "io=a:0",
            "io=a:every:0",
            "hot=a:1",
        ] {
            let error = Inject::parse(text).unwrap_err();
            assert!(error.contains("overload=TASK:2x"), "{text}: {error}");
        }
        for text in ["overload=a:1001x", "overload=a:0.5x"] {
            assert!(Inject::parse(text).unwrap_err().contains("from 1x to 1000x"), "{text}");
        }
        assert!(Inject::parse("late=a:5").unwrap_err().contains("is not a time"));
    }
}
