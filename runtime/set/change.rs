//! Other budgets for all networks at once.
//!
//! A pack holds plans for several budgets. When the program has more or less memory, all networks change
//! together, with the times that the schedule gives their new plans. Most errors are found before anything
//! changes. If a plan cannot be read, the networks go back to what they had.
//!
//! Jobs may be in the middle of inferences. Their results lie in memory that another plan uses otherwise. So they start
//! over, with the deadlines that they have: their inputs are asked for again.

use super::host::SetEvent;
use super::running::Running;
use crate::arena::Layout;
use crate::executor::{BudgetError, ChunkError};
use crate::tasks::{Chunk, SetError, Task};

/// Why budgets were not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The scheduler refuses the tasks. Nothing has changed.
    Set(SetError),
    /// The numbers of budgets and tasks differ. Nothing has changed.
    Budgets {
        /// Budgets.
        budgets: usize,
        /// Tasks of the set.
        tasks: usize,
    },
    /// The network has chunks, and its memory is not divided for the plan of this budget. Nothing has changed.
    Chunks {
        /// Which task.
        task: usize,
    },
    /// The task has another number of chunks than its network will have. Nothing has changed.
    Volume {
        /// Which task.
        task: usize,
        /// Chunks of the task.
        asked: u32,
        /// Chunks of the network with this budget.
        has: u32,
    },
    /// Another number of the task's chunks is room than of its network's with this budget. Nothing has changed.
    Room {
        /// Which task.
        task: usize,
        /// Chunks of room that the task has.
        asked: u32,
        /// Chunks of room that the network has with this budget.
        has: u32,
    },
    /// The network has no such plan, or that could not be read. The networks have the plans that they had.
    Budget {
        /// Which task.
        task: usize,
        /// Why.
        error: BudgetError,
    },
    /// The system does not take a chunk out of memory. The networks and the tasks have the plans and times that they had.
    /// All other chunks have left. This one keeps its slot until another chunk needs that, and budgets may be changed again.
    Leave {
        /// Which task.
        task: usize,
        /// Which of its chunks.
        chunk: u32,
        /// Why.
        error: ChunkError,
    },
    /// A network cannot follow its plan for the new budget, and this network cannot go back to the plan that it had. Its
    /// jobs fail until budgets are changed again. The others have the plans that they had.
    Lost {
        /// Which task.
        task: usize,
        /// Why it cannot go back.
        error: BudgetError,
    },
    /// The network's new plan streams, and the task does not say so, or the other way round. The networks
    /// have the plans that they had.
    Streams {
        /// Which task.
        task: usize,
    },
}

impl core::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Set(error) => error.fmt(f),
            Self::Budgets { budgets, tasks } => {
                write!(f, "{budgets} budgets for {tasks} tasks: give one for each")
            }
            Self::Chunks { task } => write!(
                f,
                "task {task}: its network has chunks, and was not opened for this budget: open it with a share of so much"
            ),
            Self::Volume { task, asked, has } => write!(
                f,
                "task {task}: it swaps {asked} chunks, its network has {has} with this budget: use the schedule of this plan"
            ),
            Self::Room { task, asked, has } => write!(
                f,
                "task {task}: {asked} of its chunks are room, and {has} of its network's with this budget: use the schedule \
                 of this plan"
            ),
            Self::Budget { task, error } => write!(f, "task {task}: {error}"),
            Self::Leave { task, chunk, error } => write!(
                f,
                "task {task}: chunk {chunk} does not leave memory: {error}; nothing has changed but that jobs start over: \
                 change budgets again when the system permits it"
            ),
            Self::Lost { task, error } => write!(
                f,
                "task {task}: its network has no plan any more: the change failed, and so did the way back: {error}; change \
                 budgets again, its jobs fail until then"
            ),
            Self::Streams { task } => write!(
                f,
                "task {task}: `streams` says otherwise than its network's new plan: use the schedule of this plan"
            ),
        }
    }
}

impl core::error::Error for ChangeError {}

/// Facts of a network before it changes.
#[derive(Clone, Copy, Default)]
struct Before {
    budget: u64,
    /// It follows the plan already.
    same: bool,
    /// Whatever its plan, its memory is not all its own: chunks of it leave, and others' slots are of its stock.
    divided: bool,
}

impl<const N: usize> Running<'_, '_, N> {
    /// Changes to each network's best plan within its budget, and to these tasks: all, or none.
    ///
    /// Networks with chunks change to plans that they were [opened for](crate::executor::ChunkedInstance::open_shares).
    /// Their chunks leave memory. Jobs of these networks, and of those that get another plan, start over. Residents that two
    /// plans of a network without chunks share stay in memory. Counts and periods go on. The call waits for reads in flight.
    pub fn change(&mut self, budgets: &[u64], tasks: &[Task]) -> Result<(), ChangeError> {
        let (count, given) = (self.state.tasks.len(), budgets.len());
        if given != count {
            return Err(ChangeError::Budgets { budgets: given, tasks: count });
        }
        let mut before = [Before::default(); N];
        let mut slots = self.state.pool.own();
        for (task, ((&budget, declared), before)) in
            budgets.iter().zip(tasks).zip(&mut before).enumerate()
        {
            let (known, spare) = self.look_ahead(task, budget, declared)?;
            (*before, slots) = (known, slots.saturating_add(spare));
        }
        let mut scheduler = self.state.scheduler.clone();
        if self.loading.is_some() {
            scheduler.chunk_lost();
        }
        scheduler.change(tasks, slots).map_err(ChangeError::Set)?;
        let out = self.start_over(&before);
        let changed = out.and_then(|()| {
            let changed = self.set_budgets(budgets, tasks, &before);
            changed.or_else(|error| self.go_back(&before).and(Err(error)))
        });
        if changed.is_ok() {
            self.state.scheduler = scheduler;
        }
        self.refill();
        for (task, before) in before.iter().enumerate().take(count) {
            if before.divided || !before.same {
                self.state.scheduler.start_over(task);
            }
        }
        changed
    }

    /// Checks a network's change. Returns what it is before, and how many slots of its stock the pool has then.
    fn look_ahead(
        &mut self,
        task: usize,
        budget: u64,
        declared: &Task,
    ) -> Result<(Before, u32), ChangeError> {
        let Some(network) = self.networks.network(task) else { return Ok((Before::default(), 0)) };
        let plan = network.plan_for(budget).map_err(|error| ChangeError::Budget { task, error })?;
        let (chunks, same) = (network.chunks(), network.plan() == Some(plan));
        let known = Before { budget: network.budget(), same, divided: !chunks.is_whole() };
        let layout = match known.divided {
            true => *chunks.layout_of(plan).ok_or(ChangeError::Chunks { task })?,
            false => Layout { streams: declared.streams, ..Layout::default() },
        };
        let (asked, has) = (declared.chunks, u32::try_from(layout.count).unwrap_or(u32::MAX));
        if asked != has {
            return Err(ChangeError::Volume { task, asked, has });
        }
        if declared.streams != layout.streams {
            return Err(ChangeError::Streams { task });
        }
        let (asked, has) = (declared.room, u32::try_from(layout.room).unwrap_or(u32::MAX));
        if asked != has {
            return Err(ChangeError::Room { task, asked, has });
        }
        let spare = if known.divided { chunks.spare(&layout).count() } else { 0 };
        Ok((known, u32::try_from(spare).unwrap_or(u32::MAX)))
    }

    /// Takes all chunks out of memory, and has jobs start over whose networks change. An error is the first of those that
    /// stay.
    fn start_over(&mut self, before: &[Before; N]) -> Result<(), ChangeError> {
        let (now_ns, mut result) = ((self.clock)(), Ok(()));
        if let Some((Chunk { task, index: chunk }, _)) = self.loading {
            self.drop_chunk();
            self.host.event(SetEvent::ChunkFails { task, chunk }, now_ns);
        }
        for (task, before) in before.iter().enumerate().take(self.state.tasks.len()) {
            let Some(network) = self.networks.network(task) else { continue };
            if !before.divided && before.same {
                continue;
            }
            network.abandon();
            for chunk in 0..u32::try_from(network.chunks().len()).unwrap_or(u32::MAX) {
                let at = Chunk { task, index: chunk };
                if self.state.scheduler.has(at) {
                    self.host.event(SetEvent::ChunkLeaves { task, chunk }, now_ns);
                }
                if let Err(error) = self.put_out(at) {
                    result = result.and(Err(ChangeError::Leave { task, chunk, error }));
                }
            }
            let computing = self.state.tasks.get_mut(task).map(|status| &mut status.computing);
            if computing.is_some_and(core::mem::take) {
                self.host.event(SetEvent::StartsOver { task }, now_ns);
            }
        }
        result
    }

    /// Has networks follow the plans that they had. An error is of the first of those that cannot.
    fn go_back(&mut self, before: &[Before; N]) -> Result<(), ChangeError> {
        let mut result = Ok(());
        for (task, before) in before.iter().enumerate().take(self.state.tasks.len()) {
            if let Some(network) = self.networks.network(task).filter(|_| !before.same)
                && let Err(error) = network.set_budget(before.budget)
            {
                result = result.and(Err(ChangeError::Lost { task, error }));
            }
        }
        result
    }

    /// Has the pool's slots be those that no network keeps. They are free, but for those of chunks that did not leave.
    fn refill(&mut self) {
        let Self { state, networks, .. } = self;
        let (pool, count) = (&mut state.pool, state.tasks.len());
        pool.refill();
        for task in 0..count {
            let Some(network) = networks.network(task) else { continue };
            let chunks = network.chunks();
            if let Some(layout) = chunks.layout().filter(|_| !chunks.is_whole()) {
                chunks.spare(layout).for_each(|slot| pool.add(slot));
            }
        }
        for task in 0..count {
            let Some(network) = networks.network(task) else { continue };
            let chunks = network.chunks();
            (0..chunks.len())
                .filter_map(|chunk| chunks.slot(chunk))
                .for_each(|slot| pool.hold(slot));
        }
        state.scheduler.all_out(pool.chunks());
    }

    fn set_budgets(
        &mut self,
        budgets: &[u64],
        tasks: &[Task],
        before: &[Before; N],
    ) -> Result<(), ChangeError> {
        for (task, ((&budget, declared), before)) in
            budgets.iter().zip(tasks).zip(before).enumerate()
        {
            let Some(network) = self.networks.network(task).filter(|_| !before.same) else {
                continue;
            };
            network.set_budget(budget).map_err(|error| ChangeError::Budget { task, error })?;
            if network.streams() != declared.streams {
                return Err(ChangeError::Streams { task });
            }
        }
        Ok(())
    }
}
