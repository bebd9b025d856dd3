//! Before other programs: real-time priority for the threads that compute and load.

use super::Error;
use eyelet::device::threads::run_first_current;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Whether other programs may delay this one.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct First {
    /// Computes and loads before all ordinary programs (SCHED_FIFO), with a priority from 1 to 99. Needs CAP_SYS_NICE or
    /// a limit of that height (ulimit -r).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub priority: Option<u8>,
}

/// Bytes of the stack of a thread with priority, as the main thread has: only what is touched is taken.
const STACK: usize = 8 << 20;

impl First {
    /// Runs `body` with the priority, and so all threads that it starts. The priority is that of a thread which ends with
    /// `body`: the caller keeps its own.
    pub fn run<T: Send>(self, body: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let Some(priority) = self.priority else { return Ok(body()) };
        let first = move || {
            run_first_current(priority).map_err(|errno| refused(priority, errno))?;
            Ok(body())
        };
        scope(|scope| {
            let thread = Builder::new().name("first".to_owned()).stack_size(STACK);
            let thread = thread.spawn_scoped(scope, first).map_err(Error::Thread)?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// Why there is no such priority.
fn refused(priority: u8, errno: i32) -> Error {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let source = std::io::Error::from_raw_os_error(errno);
    Error::Priority { priority, allowed: allowed(&limits), source }
}

/// The highest real-time priority that a process may take, as the kernel prints its limits. 0 where it does not say.
fn allowed(limits: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max nice priority         0                    0                    \n\
                      Max realtime priority     7                    90                   \n\
                      Max realtime timeout      unlimited            unlimited            us        \n";
        assert_eq!((allowed(limits), allowed("")), (7, 0));
        let error = refused(50, 1).to_string();
        assert!(error.contains("priority 50") && error.contains("ulimit -r"), "{error}");
    }

    /// The kernel's number of the calling thread's policy: 0 for ordinary threads, 1 for `SCHED_FIFO`.
    fn policy() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The name, in parentheses, may hold spaces. The policy is field 41, the third of which comes after it.
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(41 - 3).unwrap().parse().unwrap()
    }

    #[test]
    fn the_body_and_its_threads_have_the_priority_and_the_caller_does_not() {
        let before = policy();
        let both = || (policy(), std::thread::spawn(policy).join().unwrap());
        assert_eq!(First::default().run(both).unwrap(), (before, before));
        match (First { priority: Some(1) }).run(both) {
            Ok(found) => assert_eq!(found, (1, 1)),
            // Where it is forbidden, the error says so.
            Err(error) => assert!(matches!(error, Error::Priority { priority: 1, .. }), "{error}"),
        }
        assert_eq!(policy(), before);
    }
}
