//! A dataflow graph: operators, and tensors of three kinds (section 2).

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Made by an operator, or an input of the graph.
    Activation,
    /// There before and after an iteration.
    Parameter,
    /// Used by one operator alone, while it runs.
    Scratch,
}

/// A tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its size.
    pub bytes: u64,
    /// What it is for.
    pub kind: Kind,
    /// An activation that is needed after the last operator: it is copied out before its place is used again.
    pub kept: bool,
}

/// An operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The time that it computes, in seconds.
    pub seconds: f64,
    /// The tensors that it reads.
    pub reads: Vec<usize>,
    /// The tensors that it writes, its scratch among them. It may update what it reads.
    pub writes: Vec<usize>,
}

/// A dataflow graph without circles. Operators are listed in an order in which they can run.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All tensors.
    pub tensors: Vec<Tensor>,
    /// All operators.
    pub operators: Vec<Operator>,
    /// For each operator the tensors that it touches, each once, in ascending order.
    pub touched: Vec<Vec<usize>>,
    /// For each operator those that wait for it.
    pub after: Vec<Vec<usize>>,
    /// For each operator the number of those that it waits for.
    pub waits: Vec<usize>,
}

impl Graph {
    /// A graph of these tensors, and of operators that are listed in an order in which they can run.
    pub fn new(tensors: Vec<Tensor>, operators: Vec<Operator>) -> Self {
        let (mut after, mut waits) = (vec![Vec::new(); operators.len()], Vec::new());
        let mut writer: Vec<Option<usize>> = vec![None; tensors.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); tensors.len()];
        for (at, operator) in operators.iter().enumerate() {
            let mut before: Vec<usize> =
                operator.reads.iter().filter_map(|&tensor| writer[tensor]).collect();
            for &tensor in &operator.writes {
                before.extend(writer[tensor].into_iter().chain(readers[tensor].iter().copied()));
            }
            before.sort_unstable();
            before.dedup();
            before.iter().for_each(|&other: &usize| after[other].push(at));
            waits.push(before.len());
            operator.reads.iter().for_each(|&tensor| readers[tensor].push(at));
            for &tensor in &operator.writes {
                writer[tensor] = Some(at);
                readers[tensor].clear();
            }
        }
        let touched = operators.iter().map(|Operator { reads, writes, .. }| {
            let mut touched: Vec<usize> = reads.iter().chain(writes).copied().collect();
            touched.sort_unstable();
            touched.dedup();
            touched
        });
        Self { touched: touched.collect(), tensors, operators, after, waits }
    }

    /// The sizes that tensors have, in ascending order: TS of section 5.3.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.tensors.iter().map(|tensor| tensor.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// The time of an iteration in memory without end: no plan is faster.
    pub fn ideal_seconds(&self) -> f64 {
        self.operators.iter().map(|operator| operator.seconds).sum()
    }

    /// The order that takes, of the operators that may run, the one that `choose` names by its place in the list,
    /// which is in ascending order.
    pub fn schedule_by(&self, mut choose: impl FnMut(&[usize]) -> usize) -> Vec<usize> {
        let mut waits = self.waits.clone();
        let mut ready: Vec<usize> = (0..waits.len()).filter(|&at| waits[at] == 0).collect();
        let mut schedule = Vec::with_capacity(waits.len());
        while !ready.is_empty() {
            let next = ready.remove(choose(&ready));
            schedule.push(next);
            for &other in &self.after[next] {
                waits[other] -= 1;
                if waits[other] == 0 {
                    ready.insert(ready.partition_point(|&held| held < other), other);
                }
            }
        }
        schedule
    }

    /// Whether operators may run in this order: each once, after all that it waits for.
    pub fn permits(&self, schedule: &[usize]) -> bool {
        let mut waits = self.waits.clone();
        let mut left = vec![true; waits.len()];
        schedule.len() == waits.len()
            && schedule.iter().all(|&at| {
                let may = at < left.len() && left[at] && waits[at] == 0;
                if may {
                    left[at] = false;
                    self.after[at].iter().for_each(|&other| waits[other] -= 1);
                }
                may
            })
    }
}
