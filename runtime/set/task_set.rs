//! A set between its scopes: tasks, networks, and what is in memory.

use super::counts::Counts;
use super::error::TaskSetError;
use super::host::Host;
use super::running::Running;
use super::state::{State, Status};
use super::watch::Watch;
use crate::arena::Pool;
use crate::device::Device;
use crate::executor::{ChunkedInstance, together};
use crate::storage::Storage;
use crate::tasks::{Policy, Scheduler, SetError, Task};
use heapless::Vec;

/// A task, its network, and the storage that holds that network's pack.
#[derive(Debug)]
pub struct Member<'t, 'a, S> {
    /// The task: its chunks, and how many of them are room, are its network's.
    pub task: Task,
    /// The network.
    pub network: &'t mut ChunkedInstance<'a>,
    /// Where its pack is.
    pub storage: &'t mut S,
}

impl Task {
    /// The task with what its network's plan says: how many chunks it has, how many of them are room, and whether it
    /// streams.
    #[must_use]
    pub fn of(self, network: &ChunkedInstance<'_>) -> Self {
        let (chunks, room) = (network.chunks(), network.room());
        Self { chunks, room, streams: network.streams(), ..self }
    }
}

/// Several networks in one memory, at most `N`. See the [module](super).
#[derive(Debug)]
pub struct TaskSet<'t, 'a, S, const N: usize> {
    pub(super) members: Vec<Member<'t, 'a, S>, N>,
    pub(super) state: State<'a, N>,
}

impl<'t, 'a, S: Storage, const N: usize> TaskSet<'t, 'a, S, N> {
    /// A set of these tasks, whose networks share a pool. No chunk is in memory.
    ///
    /// The networks' arena is the pool's. Numbers of tasks are their places in this list.
    pub fn new(
        policy: Policy,
        members: impl IntoIterator<Item = Member<'t, 'a, S>>,
        pool: Pool<'a>,
    ) -> Result<Self, TaskSetError> {
        let mut own = Vec::<_, N>::new();
        let mut tasks = Vec::<Task, N>::new();
        let mut status = Vec::new();
        let mut members = members.into_iter();
        for mut member in members.by_ref() {
            let t = member.task;
            agree(own.len(), policy, &mut member, &pool)?;
            let full = tasks.push(t).is_err() || own.push(member).is_err();
            if full || status.push(Status::default()).is_err() {
                let tasks = N + 1 + members.count();
                return Err(SetError::Tasks { tasks, most: N }.into());
            }
        }
        let scheduler = Scheduler::new(policy, &tasks, pool.chunks())?;
        Ok(Self { members: own, state: State { scheduler, pool, tasks: status } })
    }

    /// Counts of a task; zeros if there is no such task.
    pub fn counts(&self, task: usize) -> Counts {
        self.state.tasks.get(task).map_or(Counts::default(), |status| status.counts)
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler<N> {
        &self.state.scheduler
    }

    /// Runs `body` with all networks at work, on `device`, by `clock`, in nanoseconds.
    ///
    /// When `body` is left, by a panic too, no read is in flight. Jobs that have not ended by then are given up.
    pub fn run<T>(
        &mut self,
        device: &dyn Device,
        clock: &dyn Fn() -> u64,
        host: &mut dyn Host,
        body: impl FnOnce(&mut Running<'_, '_, N>) -> T,
    ) -> T {
        let Self { members, state } = self;
        let networks = members
            .iter_mut()
            .map(|Member { network, storage, .. }| (&mut **network, &mut **storage));
        together::<_, _, N>(networks, |networks| {
            let reads_go_on = networks.read_alone(state.tasks.len());
            let (loading, watch) = (None, Watch::default());
            let mut running =
                Running { state, networks, device, clock, host, loading, watch, reads_go_on };
            let result = body(&mut running);
            running.leave();
            result
        })
    }
}

/// Compares a member's task with its network, pool and storage.
fn agree<S: Storage>(
    task: usize,
    policy: Policy,
    member: &mut Member<'_, '_, S>,
    pool: &Pool<'_>,
) -> Result<(), TaskSetError> {
    let Member { task: t, network, storage } = member;
    if network.is_on_accelerator() {
        return Err(TaskSetError::Accelerator { task });
    }
    let (asked, has) = (t.chunks, network.chunks());
    if asked != has {
        return Err(TaskSetError::Chunks { task, asked, has });
    }
    let (asked, has) = (t.room, network.room());
    if asked != has {
        return Err(TaskSetError::Room { task, asked, has });
    }
    if network.streams() != t.streams {
        return Err(TaskSetError::Streams { task });
    }
    if pool.chunks() > 0 && !network.draws_from(pool) {
        return Err(TaskSetError::Pool { task });
    }
    if policy == Policy::Classes && t.weights() > 0 && !network.reads_go_on(*storage) {
        return Err(TaskSetError::OneEngine { task });
    }
    Ok(())
}
