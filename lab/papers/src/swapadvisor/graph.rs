//! A dataflow graph: operators, and tensors of three kinds (section 2).

use eyelet_plan::order::Dependencies;

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
#[derive(Clone, Debug)]
pub struct Graph {
    /// All tensors.
    pub tensors: Vec<Tensor>,
    /// All operators.
    pub operators: Vec<Operator>,
    /// For each operator the tensors that it touches, each once, in ascending order.
    pub touched: Vec<Vec<usize>>,
    /// Which operators wait for which.
    pub dependencies: Dependencies,
}

impl Graph {
    /// A graph of these tensors, and of operators that are listed in an order in which they can run.
    pub fn new(tensors: Vec<Tensor>, operators: Vec<Operator>) -> Self {
        let (mut before, mut after) = (Vec::new(), vec![Vec::new(); operators.len()]);
        let mut writer: Vec<Option<usize>> = vec![None; tensors.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); tensors.len()];
        for (at, operator) in operators.iter().enumerate() {
            let mut needed: Vec<usize> =
                operator.reads.iter().filter_map(|&tensor| writer[tensor]).collect();
            for &tensor in &operator.writes {
                needed.extend(writer[tensor].into_iter().chain(readers[tensor].iter().copied()));
            }
            needed.sort_unstable();
            needed.dedup();
            needed.iter().for_each(|&other: &usize| after[other].push(at));
            before.push(needed);
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
        let dependencies = Dependencies { before, after };
        Self { touched: touched.collect(), tensors, operators, dependencies }
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
}
