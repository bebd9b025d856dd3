//! The declaration of a network to the scheduler, and the sets that the scheduler accepts.

/// A network that runs again and again. Times are in nanoseconds, at worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Least time between two arrivals.
    pub period_ns: u64,
    /// From a job's release to its latest end.
    pub deadline_ns: u64,
    /// A job is released at most this long after it arrives.
    pub jitter_ns: u64,
    /// Tasks of one level never preempt each other. A job with chunks begins only above the levels of all
    /// begun jobs. The shorter the deadline, the higher the level.
    pub level: u16,
    /// Chunks of its memory that may leave it between two jobs: those of weights first, then those of room.
    pub chunks: u32,
    /// How many of these chunks are room for activations and scratch. They come into memory without a read, and stay
    /// while a job is begun. All chunks of a network that streams are room.
    pub room: u32,
    /// One chunk of weights' way into memory, with what must leave for it.
    pub chunk_ns: u64,
    /// All steps of a job.
    pub compute_ns: u64,
    /// The longest step.
    pub step_ns: u64,
    /// Its steps read weights while they compute: they need both engines.
    pub streams: bool,
    /// Reading again what a job pushes out of begun jobs of lower levels: [`set_reloads`].
    pub reload_ns: u64,
}

impl Task {
    /// A task that is due when its period ends, without jitter and without chunks. One step takes as long as the job,
    /// as far as is known. Fields that say otherwise follow:
    ///
    /// ```
    /// use eyelet::set::Task;
    /// let task = Task { step_ns: 200_000, ..Task::new(20_000_000, 5_000_000) };
    /// assert_eq!((task.period_ns, task.deadline_ns), (20_000_000, 20_000_000));
    /// ```
    pub const fn new(period_ns: u64, compute_ns: u64) -> Self {
        Self {
            period_ns,
            deadline_ns: period_ns,
            jitter_ns: 0,
            level: 0,
            chunks: 0,
            room: 0,
            chunk_ns: 0,
            compute_ns,
            step_ns: compute_ns,
            streams: false,
            reload_ns: 0,
        }
    }

    /// Chunks of weights that may leave memory between two jobs.
    pub fn weights(&self) -> u32 {
        self.chunks.saturating_sub(self.room)
    }

    /// All chunks' way into memory.
    pub fn load_ns(&self) -> u64 {
        u64::from(self.weights()).saturating_mul(self.chunk_ns)
    }
}

/// In which order jobs are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Jobs preempt each other between steps, as far as levels permit.
    Steps,
    /// Tasks with chunks have one level, and one of their jobs at a time loads and computes. On the processor, tasks
    /// without chunks go before them if their level is higher, after them if it is lower. Within a level the earliest
    /// deadline goes first.
    Classes,
    /// RT-Swap: a job's loading and computing are one region that nothing preempts.
    Regions,
}

/// Why a set of tasks has no scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// More tasks than the scheduler has places.
    Tasks {
        /// Tasks in the set.
        tasks: usize,
        /// Places.
        most: usize,
    },
    /// A job could be released before its predecessor is due: deadline and jitter together exceed the period.
    Deadline {
        /// Which task.
        task: usize,
    },
    /// A time of the task is zero or exceeds what can be added up.
    Time {
        /// Which task.
        task: usize,
    },
    /// More chunks of the task are room than it has, or less than all of one that streams.
    Room {
        /// Which task.
        task: usize,
        /// Chunks that are room.
        room: u32,
        /// Chunks of the task.
        chunks: u32,
    },
    /// A task of a longer deadline has a higher level than this one.
    Level {
        /// Which task.
        task: usize,
    },
    /// The order by classes has no place for this task: it streams, or it has chunks and another level than others
    /// with chunks, or no chunks and their level.
    Class {
        /// Which task.
        task: usize,
    },
    /// The task's chunks, and the room of begun jobs, exceed the pool.
    Pool {
        /// Which task.
        task: usize,
        /// Chunks that they need together.
        needed: u64,
        /// Chunks of the pool.
        chunks: u32,
    },
    /// The tasks cannot be changed: a step or a chunk of this one is in flight.
    Changed {
        /// Which task.
        task: usize,
    },
    /// A job may push out more than is accounted for.
    Reload {
        /// Which task.
        task: usize,
        /// The time to read it again.
        needed_ns: u64,
    },
}

impl core::fmt::Display for SetError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Tasks { tasks, most } => {
                write!(
                    f,
                    "the set has {tasks} tasks, the scheduler has places for {most}: build it with more"
                )
            }
            Self::Deadline { task } => write!(
                f,
                "task {task}: deadline and jitter together exceed the period: shorten one or lengthen the period"
            ),
            Self::Time { task } => {
                write!(
                    f,
                    "task {task}: a time is zero or exceeds {LONGEST_NS} ns; chunks of weights take time"
                )
            }
            Self::Room { task, room, chunks } => write!(
                f,
                "task {task}: {room} of its {chunks} chunks are room: at most all may be, and all of a network that \
                 streams have to be"
            ),
            Self::Level { task } => write!(
                f,
                "task {task}: a task with a longer deadline has a higher level: levels must fall as deadlines grow"
            ),
            Self::Class { task } => write!(
                f,
                "task {task}: in an order by classes, tasks with chunks share one level, the others have another one, \
                 and none streams"
            ),
            Self::Pool { task, needed, chunks } => write!(
                f,
                "task {task}: its chunks and the room of jobs below need {needed}, the pool has {chunks}: \
                 use fewer levels or more memory"
            ),
            Self::Changed { task } => write!(
                f,
                "task {task}: a step or a chunk is in flight: report its end, then change tasks"
            ),
            Self::Reload { task, needed_ns } => write!(
                f,
                "task {task}: a job may push out chunks that take {needed_ns} ns to read again, which its \
                 reload_ns does not cover"
            ),
        }
    }
}

impl core::error::Error for SetError {}

/// Times stay below this, about 11 days, so that sums of them do not overflow.
pub const LONGEST_NS: u64 = 1_000_000_000_000_000;

/// Checks what the scheduler and its proof rely on.
pub(super) fn check(policy: Policy, tasks: &[Task], pool: u32) -> Result<(), SetError> {
    for (task, t) in tasks.iter().enumerate() {
        let times = [t.period_ns, t.deadline_ns, t.compute_ns, t.step_ns];
        let in_range = times.iter().all(|&ns| ns > 0 && ns <= LONGEST_NS);
        let chunk = t.weights() == 0 || (t.chunk_ns > 0 && t.load_ns() <= LONGEST_NS);
        if !in_range || !chunk {
            return Err(SetError::Time { task });
        }
        if t.room > t.chunks || (t.streams && t.room < t.chunks) {
            return Err(SetError::Room { task, room: t.room, chunks: t.chunks });
        }
        if t.jitter_ns.saturating_add(t.deadline_ns) > t.period_ns {
            return Err(SetError::Deadline { task });
        }
        let swapped = |other: &&Task| other.chunks > 0 && t.chunks > 0;
        if tasks
            .iter()
            .filter(swapped)
            .any(|other| other.deadline_ns > t.deadline_ns && other.level > t.level)
        {
            return Err(SetError::Level { task });
        }
    }
    if policy == Policy::Classes
        && let Some(task) = outside_classes(tasks)
    {
        return Err(SetError::Class { task });
    }
    check_pool(tasks, pool)
}

/// A task that fits none of the three classes.
fn outside_classes(tasks: &[Task]) -> Option<usize> {
    let level = tasks.iter().find(|t| t.chunks > 0).map(|t| t.level);
    tasks.iter().position(|t| t.streams || (t.chunks > 0) != (Some(t.level) == level))
}

fn check_pool(tasks: &[Task], pool: u32) -> Result<(), SetError> {
    for (task, t) in tasks.iter().enumerate().filter(|(_, t)| t.chunks > 0) {
        // The results of a begun job are in its room, which stays until the job ends.
        let needed = u64::from(t.chunks) + below(tasks, t.level, |other| other.room);
        if needed > u64::from(pool) {
            return Err(SetError::Pool { task, needed, chunks: pool });
        }
        let needed_ns = reload_ns(tasks, t, pool);
        if needed_ns > t.reload_ns {
            return Err(SetError::Reload { task, needed_ns });
        }
    }
    Ok(())
}

/// Sets each task's `reload_ns`: the time to read chunks again that its jobs displace from begun jobs
/// of lower levels, in a pool of `pool` chunks.
pub fn set_reloads(tasks: &mut [Task], pool: u32) {
    // The usual case, and that of many tasks.
    let lowest = tasks.iter().map(|t| t.level).min();
    if tasks.iter().all(|t| Some(t.level) == lowest) {
        tasks.iter_mut().for_each(|t| t.reload_ns = 0);
        return;
    }
    for k in 0..tasks.len() {
        let needed_ns = tasks.get(k).map_or(0, |t| reload_ns(tasks, t, pool));
        if let Some(t) = tasks.get_mut(k) {
            t.reload_ns = needed_ns;
        }
    }
}

/// A job finds room for its chunks next to all those of begun jobs. Otherwise it displaces the
/// difference, at most as much as it reads.
fn reload_ns(tasks: &[Task], t: &Task, pool: u32) -> u64 {
    let all = u64::from(t.chunks) + below(tasks, t.level, |other| other.chunks);
    let needed = all.saturating_sub(u64::from(pool));
    let lower = tasks.iter().filter(|other| other.level < t.level && other.weights() > 0);
    let chunk_ns = lower.map(|other| other.chunk_ns).max().unwrap_or(0);
    needed.min(u64::from(t.chunks)).saturating_mul(chunk_ns)
}

/// Sums `of` over the begun jobs below a level: the largest job of each level.
fn below(tasks: &[Task], level: u16, of: impl Fn(&Task) -> u32) -> u64 {
    let lower = || tasks.iter().enumerate().filter(|(_, t)| t.level < level);
    let first =
        |&(k, t): &(usize, &Task)| lower().all(|(i, other)| other.level != t.level || i >= k);
    let largest = |t: &Task| lower().filter(|(_, o)| o.level == t.level).map(|(_, o)| of(o)).max();
    lower().filter(first).map(|(_, t)| u64::from(largest(t).unwrap_or(0))).sum()
}
