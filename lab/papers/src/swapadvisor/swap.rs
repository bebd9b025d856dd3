//! From a schedule and a pool to transfers: which tensors leave, and what each transfer and operator waits for
//! (section 4.2).
//!
//! A tensor that is needed takes a free object of its class, or that of the tensor of the class that is needed last
//! of all. What leaves is copied out first, unless the host has it. Transfers wait for what makes them safe, and
//! for nothing else, so that they begin as early as possible.

use super::graph::{Graph, Kind, Operator};
use super::pool::Pool;
use std::collections::VecDeque;

/// Something that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// The start of the iteration.
    Start,
    /// An operator, by its place in the schedule.
    Computed(usize),
    /// A transfer into memory, by its number.
    In(usize),
    /// A transfer out of memory, by its number.
    Out(usize),
}

/// A transfer of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub tensor: usize,
    /// It begins when these have ended.
    pub waits: Vec<Event>,
}

/// What is transferred when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwapPlan {
    /// Into memory, in order.
    pub ins: Vec<Transfer>,
    /// Out of memory, in order.
    pub outs: Vec<Transfer>,
    /// For each place of the schedule what its operator waits for, besides the one before it.
    pub waits: Vec<Vec<Event>>,
    /// Tensors that are in memory before and after an iteration.
    pub resident: Vec<usize>,
}

/// Which tensor leaves when an object is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The one that is needed last of all (Belady), of those that were last used at least `recent` operators ago, if
    /// there are any.
    Belady { recent: usize },
    /// The one whose last use is longest ago.
    Lru,
}

/// A graph in an order, with where each tensor is used.
pub struct Scheduled<'a> {
    graph: &'a Graph,
    schedule: &'a [usize],
    /// For each tensor the places in the schedule at which it is used.
    uses: Vec<Vec<usize>>,
    /// For each tensor the index of its class.
    class: Vec<usize>,
    pool: &'a Pool,
    victim: Victim,
}

/// An object of a class.
#[derive(Clone, Debug)]
struct Object {
    tensor: Option<usize>,
    /// When what was in it before is gone.
    free: Vec<Event>,
}

/// Memory during a pass over the schedule.
struct Memory {
    /// For each class its objects.
    objects: Vec<Vec<Object>>,
    /// For each tensor the object that it is in.
    place: Vec<Option<usize>>,
    /// For each tensor the transfer that last brought it, or its maker.
    since: Vec<Event>,
    /// For each tensor whether the host's copy is another one, or there is none.
    dirty: Vec<bool>,
    /// For each tensor the transfer by which the host has it.
    copied: Vec<Option<usize>>,
    /// For each class its empty objects, in the order in which they became empty.
    empty: Vec<VecDeque<usize>>,
    /// For each tensor how often it has been used in this pass.
    used: Vec<usize>,
    /// Tensors that were taken out of the first residents.
    removed: Vec<usize>,
    plan: SwapPlan,
}

impl<'a> Scheduled<'a> {
    /// A graph in the order of a schedule, whose tensors lie in a pool.
    pub fn new(graph: &'a Graph, schedule: &'a [usize], pool: &'a Pool, victim: Victim) -> Self {
        let mut uses = vec![Vec::new(); graph.tensors.len()];
        for (place, &operator) in schedule.iter().enumerate() {
            graph.touched[operator].iter().for_each(|&tensor| uses[tensor].push(place));
        }
        let sizes = graph.sizes();
        let class = graph.tensors.iter().map(|tensor| {
            let size = sizes.binary_search(&tensor.bytes).unwrap_or_else(|at| at);
            pool.classes[size] - 1
        });
        Self { class: class.collect(), graph, schedule, uses, pool, victim }
    }

    /// The plan of an iteration before which no parameter is in memory.
    pub fn first_plan(&self) -> Option<SwapPlan> {
        Some(self.pass(&[])?.plan)
    }

    /// The plan of a steady iteration; `None` if an operator's tensors have no room in the pool. A first pass begins without parameters, and
    /// shows which are in memory at its end. They are there at the start of the second one, but for those that are in
    /// its way or not there again at its end.
    pub fn plan(&self) -> Option<SwapPlan> {
        let mut resident: Vec<usize> = Vec::new();
        resident.extend(self.parameters(&self.pass(&[])?));
        loop {
            let memory = self.pass(&resident)?;
            let there = self.parameters(&memory);
            let stays = |tensor: &usize| there.contains(tensor) && !memory.removed.contains(tensor);
            let before = resident.len();
            resident.retain(stays);
            if resident.len() == before {
                return Some(SwapPlan { resident, ..memory.plan });
            }
        }
    }

    fn parameters(&self, memory: &Memory) -> Vec<usize> {
        let there = memory.place.iter().enumerate().filter(|(_, place)| place.is_some());
        let there = there.map(|(tensor, _)| tensor);
        there.filter(|&tensor| self.graph.tensors[tensor].kind == Kind::Parameter).collect()
    }

    fn pass(&self, resident: &[usize]) -> Option<Memory> {
        let tensors = self.graph.tensors.len();
        let empty = Object { tensor: None, free: Vec::new() };
        let mut memory = Memory {
            objects: self.pool.counts.iter().map(|&n| vec![empty.clone(); n as usize]).collect(),
            place: vec![None; tensors],
            since: vec![Event::Start; tensors],
            dirty: vec![false; tensors],
            copied: vec![None; tensors],
            empty: self.pool.counts.iter().map(|&n| (0..n as usize).collect()).collect(),
            used: vec![0; tensors],
            removed: Vec::new(),
            plan: SwapPlan::default(),
        };
        for &tensor in resident {
            let class = self.class[tensor];
            let free = memory.empty[class].pop_front()?;
            memory.objects[class][free].tensor = Some(tensor);
            memory.place[tensor] = Some(free);
        }
        for place in 0..self.schedule.len() {
            self.operator(&mut memory, place)?;
        }
        Some(memory)
    }

    /// Brings what an operator needs, and lets go of what nobody needs after it.
    fn operator(&self, memory: &mut Memory, place: usize) -> Option<()> {
        let operator = self.schedule[place];
        let touched = &self.graph.touched[operator];
        let Operator { reads, writes, .. } = &self.graph.operators[operator];
        let mut waits = Vec::new();
        for &tensor in touched {
            if memory.place[tensor].is_none() {
                let mut free = self.object(memory, tensor, place, touched)?;
                if reads.contains(&tensor) {
                    free.extend(memory.copied[tensor].map(Event::Out));
                    memory.since[tensor] = Event::In(memory.plan.ins.len());
                    memory.plan.ins.push(Transfer { tensor, waits: free });
                    waits.push(memory.since[tensor]);
                } else {
                    waits.extend(free);
                }
            } else if matches!(memory.since[tensor], Event::In(_)) {
                waits.push(memory.since[tensor]);
            }
        }
        writes.iter().for_each(|&tensor| memory.dirty[tensor] = true);
        for &tensor in touched {
            memory.used[tensor] += 1;
            let Some(at) = memory.place[tensor] else { continue };
            let ends = self.uses[tensor].len() == memory.used[tensor];
            let kept = match self.graph.tensors[tensor] {
                tensor if tensor.kind == Kind::Parameter => true,
                tensor => tensor.kept,
            };
            if ends && !kept {
                let free = vec![Event::Computed(place)];
                memory.objects[self.class[tensor]][at] = Object { tensor: None, free };
                memory.empty[self.class[tensor]].push_back(at);
                memory.place[tensor] = None;
            }
        }
        waits.sort_unstable();
        waits.dedup();
        waits.retain(|event| *event != Event::Start);
        memory.plan.waits.push(waits);
        Some(())
    }

    /// An object for a tensor, which is empty once these events have ended.
    fn object(
        &self,
        memory: &mut Memory,
        tensor: usize,
        place: usize,
        needed: &[usize],
    ) -> Option<Vec<Event>> {
        let class = self.class[tensor];
        // The one that has been empty the longest.
        let at = match memory.empty[class].pop_front() {
            Some(at) => at,
            None => self.evict(memory, class, place, needed)?,
        };
        let free = std::mem::take(&mut memory.objects[class][at].free);
        memory.objects[class][at].tensor = Some(tensor);
        memory.place[tensor] = Some(at);
        Some(free)
    }

    /// Empties an object of a class.
    fn evict(
        &self,
        memory: &mut Memory,
        class: usize,
        place: usize,
        needed: &[usize],
    ) -> Option<usize> {
        let held = memory.objects[class].iter().enumerate();
        let held = held.filter_map(|(at, object)| Some((at, object.tensor?)));
        let held: Vec<(usize, usize)> =
            held.filter(|(_, tensor)| !needed.contains(tensor)).collect();
        let next = |tensor: usize| {
            self.uses[tensor].get(memory.used[tensor]).copied().unwrap_or(usize::MAX)
        };
        let last = |tensor: usize| {
            memory.used[tensor].checked_sub(1).map(|before| self.uses[tensor][before])
        };
        // A resident that has not been used leaves without a trace: it was not there at all.
        let unused = held.iter().filter(|(_, tensor)| memory.used[*tensor] == 0);
        if let Some(&(at, tensor)) = unused.max_by_key(|(_, tensor)| next(*tensor)) {
            memory.removed.push(tensor);
            memory.place[tensor] = None;
            memory.objects[class][at] = Object { tensor: None, free: Vec::new() };
            return Some(at);
        }
        let chosen = match self.victim {
            Victim::Lru => held.iter().min_by_key(|(_, tensor)| last(*tensor)),
            Victim::Belady { recent } => {
                let rested = |tensor: usize| last(tensor).is_none_or(|used| used + recent <= place);
                let key = |(_, tensor): &&(usize, usize)| {
                    (rested(*tensor), next(*tensor), !memory.dirty[*tensor])
                };
                held.iter().max_by_key(key)
            }
        };
        let &(at, tensor) = chosen?;
        let used = last(tensor).map_or(Event::Start, Event::Computed);
        let free = if memory.dirty[tensor] {
            let out = memory.plan.outs.len();
            memory.plan.outs.push(Transfer { tensor, waits: vec![used] });
            (memory.dirty[tensor], memory.copied[tensor]) = (false, Some(out));
            vec![Event::Out(out)]
        } else {
            vec![used]
        };
        memory.place[tensor] = None;
        memory.objects[class][at] = Object { tensor: None, free };
        Some(at)
    }
}
