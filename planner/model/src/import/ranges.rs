//! Which integers of 64 bits may not fit the 32 that flow: what is known of the range of each value.

use super::onnx::DataType;
use crate::graph::{Constant, Graph, Node, Op, ValueId};
use eyelet::pack::{FoldOp, IntegerOp, PortType};

/// The numbers of 32 bits.
const WORDS: Range = Range { least: i32::MIN as f64, most: i32::MAX as f64 };
const ALL: Range = Range { least: f64::NEG_INFINITY, most: f64::INFINITY };
const TRUTH: Range = Range { least: 0.0, most: 1.0 };

/// Elements of a constant of floats that are looked at: weights bound nothing.
const MOST_LOOKED_AT: usize = 1 << 16;

/// A node of the model that makes integers of more than 32 bits.
pub(super) struct Wide {
    /// Its name and operator.
    pub node: String,
    pub operator: String,
    pub made: ValueId,
}

impl Wide {
    /// Whether a node's results may leave 32 bits: conversions and products.
    pub fn may_be(operator: &str, kind: DataType) -> bool {
        matches!(operator, "Cast" | "CastLike" | "Mul" | "Pow")
            && matches!(kind, DataType::Int64 | DataType::Uint64 | DataType::Uint32)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    /// What these numbers span; all where one is none.
    fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut range: Option<Self> = None;
        for number in numbers {
            if number.is_nan() {
                return ALL;
            }
            let Self { least, most } = range.unwrap_or(Self { least: number, most: number });
            range = Some(Self { least: least.min(number), most: most.max(number) });
        }
        range.unwrap_or(ALL)
    }

    fn with(self, other: Self) -> Self {
        Self::of([self.least, self.most, other.least, other.most])
    }

    fn within(self, other: Self) -> bool {
        self.least >= other.least && self.most <= other.most
    }

    /// A function that grows.
    fn map(self, function: impl Fn(f64) -> f64) -> Self {
        Self::of([function(self.least), function(self.most)])
    }

    /// A function of two numbers that grows or falls with each.
    fn pair(self, other: Self, function: impl Fn(f64, f64) -> f64) -> Self {
        let ends = |a: f64| [function(a, other.least), function(a, other.most)];
        Self::of([ends(self.least), ends(self.most)].concat())
    }
}

/// Says of which nodes the results may not fit 32 bits, if there are any.
pub(super) fn note(graph: &Graph, wide: &[Wide]) -> Option<String> {
    if wide.is_empty() {
        return None;
    }
    let ranges = Ranges::new(graph);
    let beyond = |one: &&Wide| {
        let node = graph.nodes.iter().rev().find(|node| node.outputs.contains(&one.made));
        node.is_some_and(|node| !ranges.says_nothing(node) && !ranges.exact(node).within(WORDS))
    };
    let mut found = wide.iter().filter(beyond);
    let Wide { node, operator, .. } = found.next()?;
    let more = match found.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "node `{node}` ({operator}){more}: results may be beyond 32 bits, and integers that flow have 32: a float \
         from 2147483648 on becomes -2147483648, a product wraps"
    ))
}

/// The ranges of all values that nodes make, in the nodes' order.
struct Ranges<'g> {
    graph: &'g Graph,
    made: Vec<Option<Range>>,
}

impl<'g> Ranges<'g> {
    fn new(graph: &'g Graph) -> Self {
        let mut ranges = Self { graph, made: vec![None; graph.values.len()] };
        for node in &graph.nodes {
            let exact = ranges.exact(node);
            for &output in &node.outputs {
                let own = ranges.of_kind(output);
                ranges.made[output] = Some(if exact.within(own) { exact } else { own });
            }
        }
        ranges
    }

    /// Whether a node multiplies integers of which nothing is known, as a mask and places that are counted.
    fn says_nothing(&self, node: &Node) -> bool {
        let unknown = |input: &Option<ValueId>| input.is_some_and(|input| self.of(input) == WORDS);
        matches!(node.op, Op::Words(IntegerOp::Mul | IntegerOp::Pow))
            && node.inputs.iter().all(unknown)
    }

    /// All numbers of a value's type.
    fn of_kind(&self, value: ValueId) -> Range {
        let range = |least: i32, most: i32| Range { least: least.into(), most: most.into() };
        match self.graph.values[value].kind {
            PortType::Bool => TRUTH,
            PortType::Int8 => range(-128, 127),
            PortType::Uint8 => range(0, 255),
            PortType::Int16 => range(-32768, 32767),
            PortType::Uint16 => range(0, 65535),
            PortType::Float | PortType::Half | PortType::Bfloat16 | PortType::Double => ALL,
            _ => WORDS,
        }
    }

    fn of(&self, value: ValueId) -> Range {
        if let Some(found) = self.made[value] {
            return found;
        }
        match &self.graph.values[value].constant {
            Some(Constant::Words(words)) => Range::of(words.iter().map(|&word| word.into())),
            Some(floats) if floats.len() <= MOST_LOOKED_AT => {
                Range::of((0..floats.len()).map(|at| floats.get(at).into()))
            }
            _ => self.of_kind(value),
        }
    }

    /// What a node makes, before it wraps or is cut to 32 bits.
    fn exact(&self, node: &Node) -> Range {
        let input = |index: usize| match node.inputs.get(index).copied().flatten() {
            Some(value) => self.of(value),
            None => ALL,
        };
        let extent = |axis: usize| match node.inputs.first().copied().flatten() {
            Some(value) => self.graph.values[value].shape.get(axis).map_or(1, |&extent| extent),
            None => 1,
        };
        let places = |axis: usize| Range { least: 0.0, most: extent(axis) as f64 - 1.0 };
        match &node.op {
            Op::Words(op) => self.words(node, *op, input(0), || input(1)),
            Op::Clip { min, max } => input(0).map(|x| x.max(f64::from(*min)).min(f64::from(*max))),
            Op::Sigmoid | Op::HardSigmoid { .. } | Op::Softmax { .. } => TRUTH,
            Op::Tanh | Op::Erf | Op::Sin | Op::Cos | Op::Softsign | Op::Sign => {
                Range { least: -1.0, most: 1.0 }
            }
            Op::Floor => input(0).map(f64::floor),
            Op::Ceil => input(0).map(f64::ceil),
            Op::Round => input(0).map(f64::round),
            Op::Add => input(0).pair(input(1), |a, b| a + b),
            Op::Sub => input(0).pair(input(1), |a, b| a - b),
            Op::Mul => input(0).pair(input(1), |a, b| a * b),
            Op::Max => input(0).pair(input(1), f64::max),
            Op::Min => input(0).pair(input(1), f64::min),
            Op::Div if !(input(1).least..=input(1).most).contains(&0.0) => {
                input(0).pair(input(1), |a, b| a / b)
            }
            Op::Reshape | Op::Expand | Op::Transpose { .. } | Op::Slice { .. } | Op::Gather => {
                input(0)
            }
            Op::Split { .. } | Op::Take { .. } | Op::MaxPool { .. } => input(0),
            Op::Pad { value, .. } => input(0).with(Range::of([f64::from(*value)])),
            Op::Concat { .. } => {
                let all = node.inputs.iter().flatten().map(|&part| self.of(part));
                all.reduce(Range::with).unwrap_or(ALL)
            }
            Op::Where => input(1).with(input(2)),
            Op::Fold { op, axes, .. } => match op {
                FoldOp::Min | FoldOp::Max => input(0),
                FoldOp::Sum => {
                    let count: usize = axes.iter().map(|&axis| extent(axis)).product();
                    input(0).map(|x| x * count as f64)
                }
                FoldOp::Product => ALL,
                _ => places(axes.first().copied().unwrap_or(0)),
            },
            Op::Order { axis, .. } => places(*axis),
            _ => self.of_kind(node.outputs[0]),
        }
    }

    fn words(&self, node: &Node, op: IntegerOp, a: Range, b: impl Fn() -> Range) -> Range {
        match op {
            IntegerOp::Add => a.pair(b(), |a, b| a + b),
            IntegerOp::Sub => a.pair(b(), |a, b| a - b),
            IntegerOp::Mul => a.pair(b(), |a, b| a * b),
            IntegerOp::Min => a.pair(b(), f64::min),
            IntegerOp::Max => a.pair(b(), f64::max),
            IntegerOp::Pow if a.least >= 0.0 && b().least >= 0.0 => a.pair(b(), f64::powf),
            IntegerOp::Pow => ALL,
            IntegerOp::Neg => a.map(|x| -x),
            IntegerOp::Mod if b().least > 0.0 => Range { least: 0.0, most: b().most - 1.0 },
            IntegerOp::Sign => Range { least: -1.0, most: 1.0 },
            IntegerOp::Cut => a.map(f64::trunc),
            IntegerOp::Float => a,
            _ => self.of_kind(node.outputs[0]),
        }
    }
}
