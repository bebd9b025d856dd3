//! Integers and truth values that flow: operations on words, comparisons, conversions.
//!
//! What is constant is folded elsewhere, in 64 bits. What flows has 32 bits, whatever type the model
//! gives it: sums and products of 64 bits wrap as those of 32 do, and narrower types wrap to their
//! width. Operators that only move elements do not look at them: they are translated as of floats.

use super::super::array::{Array, broadcast};
use super::super::builder::Operand;
use super::super::context::{Context, Given, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{self, is_float, name};
use super::compose::{Steps, int};
use super::{Reduction, Translate, quantised, reduced};
use crate::graph::{Constant, Op, ValueId};
use crate::reference;
use eyelet::pack::{FoldOp, WordOp};

type Translated = Result<Vec<Operand>, NodeProblem>;

/// Translates a node that reads words, or makes words of floats; `None` if that is another's.
pub(super) fn translate(
    cx: &mut Context<'_, '_>,
    other: Translate,
) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let given = |given: &Given, test: fn(&Operand) -> bool| match given {
        Given::Known(operand) => test(operand),
        _ => false,
    };
    if cx.inputs.iter().any(|given| matches!(given, Given::Unknown)) {
        return Ok(None);
    }
    let words = cx.inputs.iter().any(|one| given(one, |x| matches!(x, Operand::Whole(..))));
    let floats = (cx.inputs.iter()).any(|one| match one {
        Given::Known(Operand::Float(_, value)) => {
            cx.builder.graph.values[*value].constant.is_none()
        }
        _ => false,
    });
    let operator = cx.proto.op_type.as_str();
    Ok(match operator {
        "Cast" | "CastLike" if words || floats => cast(cx)?,
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" if words || floats => {
            Some(compare(cx, operator)?)
        }
        "Where" if words || floats => choose(cx)?,
        "IsNaN" | "IsInf" if floats => Some(is(cx, operator)?),
        "ArgMax" | "ArgMin" => Some(place(cx, operator == "ArgMax")?),
        _ if !words => None,
        "Xor" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "BitwiseNot" | "BitShift" => {
            Some(arithmetic(cx, operator)?)
        }
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Min" | "Max" | "Pow" | "And" | "Or" | "Not"
        | "Neg" | "Abs" | "Sign" | "Relu" | "Clip" => Some(arithmetic(cx, operator)?),
        "ReduceSum" | "ReduceProd" | "ReduceMin" | "ReduceMax" => reduce(cx, operator)?,
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Concat" | "Split"
        | "Slice" | "Expand" | "Pad" | "Tile" | "DepthToSpace" | "SpaceToDepth" => {
            Some(moved(cx, other)?)
        }
        "Gather" | "GatherElements" | "GatherND" | "Compress" | "ReverseSequence"
            if matches!(cx.input(0, "data")?, Operand::Whole(..)) =>
        {
            Some(moved(cx, other)?)
        }
        "Scatter" | "ScatterElements" | "ScatterND"
            if !is_float(cx.input(0, "data")?.kind())
                && !matches!(cx.input(1, "indices")?, Operand::Whole(..))
                && matches!(cx.attributes().string("reduction")?, None | Some("none")) =>
        {
            Some(moved(cx, other)?)
        }
        _ => None,
    })
}

/// The operators that only this file translates, where an input is unknown: so is the output.
pub(super) fn only_flowing(_: &mut Context<'_, '_>) -> Translated {
    Err(NodeProblem::Unknown)
}

/// Floats that are whole numbers of a type, as such.
pub(super) fn of_floats(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    kind: DataType,
    value: ValueId,
) -> Result<ValueId, NodeProblem> {
    let shape = cx.shape(value);
    Node { kind, suffix: Some(suffix) }.add(cx, Op::Words(WordOp::Cut), &[value], shape)
}

/// Words as floats, which are equal up to 2²⁴.
pub(super) fn to_floats(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    value: ValueId,
) -> Result<ValueId, NodeProblem> {
    let (kind, shape) = (DataType::Float, cx.shape(value));
    Node { kind, suffix: Some(suffix) }.add(cx, Op::Words(WordOp::Float), &[value], shape)
}

/// Operators that move elements, as if these were floats.
fn moved(cx: &mut Context<'_, '_>, other: Translate) -> Translated {
    let pads = cx.proto.op_type == "Pad";
    let kind = cx.input(0, "data")?.kind();
    let moving: Vec<usize> = match cx.proto.op_type.as_str() {
        "Concat" => (0..cx.inputs.len()).collect(),
        "Scatter" | "ScatterElements" | "ScatterND" => vec![0, 2],
        _ => vec![0],
    };
    let mut values = vec![];
    for index in moving {
        let operand = cx.input(index, "data")?;
        if operand.kind() != kind {
            return Err(NodeProblem::mixed(kind, operand.kind()));
        }
        let value = flowing(cx, index, &operand)?;
        values.push(value);
        cx.inputs[index] = Given::Known(Operand::Float(DataType::Float, value));
    }
    if pads && let Some(given) = cx.optional_integers(2, "constant_value")? {
        if let Some(value) = given.data.iter().find(|value| **value != 0) {
            return Err(NodeProblem::unsupported(format!(
                "integers are padded with {value}, and only zeros are; pad after a cast to floats"
            )));
        }
        cx.inputs[2] = Given::Absent;
    }
    let before = cx.builder.graph.values.len();
    let made = other(cx)?;
    for value in &mut cx.builder.graph.values[before..] {
        value.kind = types::port_type(kind);
    }
    let whole = |operand| match operand {
        Operand::Float(_, value) => Operand::Whole(kind, value),
        other => other,
    };
    let made: Vec<Operand> = made.into_iter().map(whole).collect();
    quantised::follow(cx, &values, &made, other)?;
    Ok(made)
}

/// An operand as a value of the graph: constants take their 32 bits.
fn flowing(
    cx: &mut Context<'_, '_>,
    index: usize,
    operand: &Operand,
) -> Result<ValueId, NodeProblem> {
    match operand {
        Operand::Float(_, value) | Operand::Whole(_, value) => Ok(*value),
        Operand::Integer(kind, array) => {
            let name = format!("{}/{index}", cx.name);
            cx.builder.words(name, *kind, array)
        }
    }
}

/// A node of words, of this type in the model.
struct Node<'n> {
    kind: DataType,
    suffix: Option<&'n str>,
}

impl Node<'_> {
    fn add(
        &self,
        cx: &mut Context<'_, '_>,
        op: Op,
        inputs: &[ValueId],
        shape: Vec<usize>,
    ) -> Result<ValueId, NodeProblem> {
        let (name, output) = match self.suffix {
            None => (cx.name.to_string(), cx.output(0)),
            Some(suffix) => (format!("{}/{suffix}", cx.name), format!("{}/{suffix}", cx.name)),
        };
        cx.builder.words_node(self.kind, name, op, inputs, (output, shape))
    }
}

/// The last of an operator's nodes, narrowed to its type where arithmetic may have left that.
fn last(cx: &mut Context<'_, '_>, kind: DataType, op: WordOp, inputs: &[ValueId]) -> Translated {
    let mut shape = cx.shape(inputs[0]);
    for input in &inputs[1..] {
        let other = cx.shape(*input);
        shape = broadcast(&shape, &other).ok_or_else(|| {
            NodeProblem::shape(format!("shapes {shape:?} and {other:?} do not broadcast"))
        })?;
    }
    if let Some(folded) = folded(cx, kind, &Op::Words(op), inputs, &shape)? {
        return Ok(vec![folded]);
    }
    let narrow = match kind {
        DataType::Int8 => Some(WordOp::Int8),
        DataType::Uint8 => Some(WordOp::Uint8),
        DataType::Int16 => Some(WordOp::Int16),
        DataType::Uint16 => Some(WordOp::Uint16),
        _ => None,
    };
    use WordOp::{Abs, Add, Cut, Div, Mul, Neg, Not, Pow, ShiftLeft, Sub};
    let grows = [Add, Sub, Mul, Div, Pow, Neg, Abs, Not, ShiftLeft, Cut].contains(&op);
    let narrow = narrow.filter(|_| grows);
    let suffix = narrow.map(|_| "wide");
    let mut made = Node { kind, suffix }.add(cx, Op::Words(op), inputs, shape.clone())?;
    if let Some(narrow) = narrow {
        made = Node { kind, suffix: None }.add(cx, Op::Words(narrow), &[made], shape)?;
    }
    Ok(vec![Operand::Whole(kind, made)])
}

/// The result of an operation whose operands are all constant.
fn folded(
    cx: &mut Context<'_, '_>,
    kind: DataType,
    op: &Op,
    inputs: &[ValueId],
    shape: &[usize],
) -> Result<Option<Operand>, NodeProblem> {
    let values = &cx.builder.graph.values;
    let constants: Option<Vec<Constant>> =
        inputs.iter().map(|&input| values[input].constant.clone()).collect();
    let Some(constants) = constants else { return Ok(None) };
    cx.charge_for(shape, 2 * size_of::<i64>())?;
    let data: Vec<Vec<f64>> = constants.iter().map(reference::widen).collect();
    let tensor = |(&input, data)| Some(reference::Tensor { shape: cx.builder.shape(input), data });
    let tensors: Vec<_> =
        inputs.iter().zip(data.iter().map(|data| &data[..])).map(tensor).collect();
    let made = reference::evaluate(op, &tensors, &[shape]);
    let numbers = made[0].iter().map(|&number| types::wrap(kind, number as i128)).collect();
    Ok(Some(Operand::integers(kind, Array { shape: shape.to_vec(), data: numbers })))
}

/// All operands, of one type, as values.
fn operands(cx: &mut Context<'_, '_>) -> Result<(DataType, Vec<ValueId>), NodeProblem> {
    let kind = cx.input(0, "operand")?.kind();
    let mut values = vec![];
    for index in 0..cx.inputs.len() {
        let Some(operand) = cx.optional(index)? else { continue };
        if operand.kind() != kind {
            return Err(NodeProblem::mixed(kind, operand.kind()));
        }
        values.push(flowing(cx, index, &operand)?);
    }
    Ok((kind, values))
}

/// Arithmetic and logic of integers.
fn arithmetic(cx: &mut Context<'_, '_>, operator: &str) -> Translated {
    match operator {
        "Clip" => return clip(cx),
        "Relu" => {
            let operand = cx.input(0, "x")?;
            let value = flowing(cx, 0, &operand)?;
            let zero =
                cx.builder.words(format!("{}/zero", cx.name), operand.kind(), &Array::scalar(0))?;
            return last(cx, operand.kind(), WordOp::Max, &[value, zero]);
        }
        "Pow" => {
            let (base, exponent) = (cx.input(0, "base")?, cx.input(1, "exponent")?);
            if is_float(base.kind()) || is_float(exponent.kind()) {
                return mixed_power(cx, [&base, &exponent]);
            }
            let values = [flowing(cx, 0, &base)?, flowing(cx, 1, &exponent)?];
            return last(cx, base.kind(), WordOp::Pow, &values);
        }
        _ => {}
    }
    let (kind, values) = operands(cx)?;
    if is_float(kind) {
        return Err(NodeProblem::wrong_type("operand", "integers", kind));
    }
    let truth = kind == DataType::Bool;
    let signed =
        matches!(kind, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    let op = match operator {
        "Add" => WordOp::Add,
        "Sub" => WordOp::Sub,
        "Mul" => WordOp::Mul,
        "Div" => WordOp::Div,
        "Mod" if cx.attributes().flag("fmod", false)? => WordOp::Fmod,
        "Mod" => WordOp::Mod,
        "Min" => WordOp::Min,
        "Max" => WordOp::Max,
        "And" if truth => WordOp::And,
        "Or" if truth => WordOp::Or,
        "Xor" if truth => WordOp::Xor,
        "Not" if truth => WordOp::IsZero,
        "BitwiseAnd" => WordOp::And,
        "BitwiseOr" => WordOp::Or,
        "BitwiseXor" => WordOp::Xor,
        "BitwiseNot" => WordOp::Not,
        "BitShift" => match cx.attributes().string("direction")? {
            Some("LEFT") => WordOp::ShiftLeft,
            Some("RIGHT") if signed => return shift_signed(cx, kind, &values),
            Some("RIGHT") => WordOp::ShiftRight,
            _ => return Err(NodeProblem::attribute("direction", "is neither LEFT nor RIGHT")),
        },
        "Neg" => WordOp::Neg,
        "Abs" => WordOp::Abs,
        "Sign" => WordOp::Sign,
        _ => return Err(NodeProblem::wrong_type("operand", "truth values", kind)),
    };
    match (&values[..], op.operands()) {
        ([_], 1) | ([_, _], 2) => last(cx, kind, op, &values),
        ([one], 2) => Ok(vec![Operand::Whole(kind, *one)]),
        ([first, rest @ ..], 2) if matches!(op, WordOp::Min | WordOp::Max) => {
            let mut total = *first;
            for (at, next) in rest.iter().enumerate() {
                if at + 1 == rest.len() {
                    return last(cx, kind, op, &[total, *next]);
                }
                let (left, right) = (cx.shape(total), cx.shape(*next));
                let shape = super::elementwise::common(&left, &right)?;
                let suffix = (at + 1).to_string();
                let node = Node { kind, suffix: Some(&suffix) };
                total = node.add(cx, Op::Words(op), &[total, *next], shape)?;
            }
            Ok(vec![])
        }
        (values, count) => {
            let count = format!("it has {} inputs, expected {count}", values.len());
            Err(NodeProblem::shape(count))
        }
    }
}

/// A power of which one operand is floats: it is computed of floats, and has the base's type.
fn mixed_power(cx: &mut Context<'_, '_>, [base, exponent]: [&Operand; 2]) -> Translated {
    let to = |kind: DataType| vec![int("to", kind as i64)];
    let float = if is_float(base.kind()) { base.kind() } else { exponent.kind() };
    let mut steps = Steps::new(cx);
    let a = steps.apply("Cast", &[base], to(float))?;
    let b = steps.apply("Cast", &[exponent], to(float))?;
    let power = steps.apply("Pow", &[&a, &b], vec![])?;
    Ok(vec![steps.apply("Cast", &[&power], to(base.kind()))?])
}

/// Signed integers shifted to the right: of one below zero the bits that it has not are.
fn shift_signed(cx: &mut Context<'_, '_>, kind: DataType, values: &[ValueId]) -> Translated {
    let &[x, by] = values else {
        return Err(NodeProblem::shape(format!("it has {} inputs, expected 2", values.len())));
    };
    let zero = cx.builder.words(format!("{}/zero", cx.name), kind, &Array::scalar(0))?;
    let (own, shifts) = (cx.shape(x), cx.shape(by));
    let shape = super::elementwise::common(&own, &shifts)?;
    let mut add = |suffix, op, inputs: &[ValueId], shape: &[usize]| {
        let node = Node { kind, suffix: Some(suffix) };
        node.add(cx, Op::Words(op), inputs, shape.to_vec())
    };
    let below = add("below", WordOp::Less, &[x, zero], &own)?;
    let sign = add("sign", WordOp::Neg, &[below], &own)?;
    let bits = add("bits", WordOp::Xor, &[x, sign], &own)?;
    let shifted = add("shifted", WordOp::ShiftRight, &[bits, by], &shape)?;
    last(cx, kind, WordOp::Xor, &[shifted, sign])
}

/// Bounds of integers, of which one may be absent.
fn clip(cx: &mut Context<'_, '_>) -> Translated {
    let operand = cx.input(0, "input")?;
    let (kind, mut value) = (operand.kind(), flowing(cx, 0, &operand)?);
    let mut made = vec![operand];
    let bounds = [(1, WordOp::Max), (2, WordOp::Min)];
    let both = cx.optional(1)?.is_some() && cx.optional(2)?.is_some();
    for (index, op) in bounds {
        let Some(bound) = cx.optional(index)? else { continue };
        let bound = flowing(cx, index, &bound)?;
        if both && index == 1 {
            let node = Node { kind, suffix: Some("lower") };
            let shape = cx.shape(value);
            value = node.add(cx, Op::Words(op), &[value, bound], shape)?;
        } else {
            made = last(cx, kind, op, &[value, bound])?;
        }
    }
    Ok(made)
}

fn compare(cx: &mut Context<'_, '_>, operator: &str) -> Translated {
    let (kind, values) = operands(cx)?;
    let &[a, b] = &values[..] else {
        return Err(NodeProblem::shape(format!("it has {} inputs, expected 2", values.len())));
    };
    let (op, pair) = match operator {
        "Equal" => (WordOp::Equal, [a, b]),
        "Less" => (WordOp::Less, [a, b]),
        "LessOrEqual" => (WordOp::LessOrEqual, [a, b]),
        "Greater" => (WordOp::Less, [b, a]),
        _ => (WordOp::LessOrEqual, [b, a]),
    };
    let op = match (is_float(kind), op) {
        (false, op) => op,
        (true, WordOp::Equal) => WordOp::EqualFloats,
        (true, WordOp::Less) => WordOp::LessFloats,
        (true, _) => WordOp::LessOrEqualFloats,
    };
    last(cx, DataType::Bool, op, &pair)
}

/// A function of floats that makes truth values.
fn is(cx: &mut Context<'_, '_>, operator: &str) -> Translated {
    let value = cx.float(0, "x")?;
    let side = |name| cx.attributes().flag(name, true);
    let op = match (operator, side("detect_negative")?, side("detect_positive")?) {
        ("IsNaN", ..) => WordOp::IsNan,
        (_, true, true) => WordOp::IsInfinite,
        (_, true, false) => WordOp::IsNegativeInfinity,
        (_, false, true) => WordOp::IsPositiveInfinity,
        (_, false, false) => {
            return Err(NodeProblem::attribute("detect_negative", "is 0, as is the other one"));
        }
    };
    last(cx, DataType::Bool, op, &[value])
}

/// A conversion of what flows; `None` among floats.
fn cast(cx: &mut Context<'_, '_>) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let to = super::cast::target(cx)?;
    let operand = cx.input(0, "input")?;
    let (from, value) = match operand {
        _ if operand.kind() == to => return Ok(Some(vec![operand])),
        Operand::Integer(..) => return Ok(None),
        Operand::Float(from, value) => match cx.builder.graph.values[value].constant {
            Some(_) => return Ok(None),
            None if is_float(to) => return Ok(None),
            None => (from, value),
        },
        Operand::Whole(from, value) => (from, value),
    };
    let unary = |cx: &mut Context<'_, '_>, op| last(cx, to, op, &[value]);
    Ok(Some(match (is_float(from), to) {
        (true, DataType::Bool) => unary(cx, WordOp::IsNotZeroFloat)?,
        (true, _) => unary(cx, WordOp::Cut)?,
        (false, to) if is_float(to) => {
            let shape = cx.shape(value);
            let made = Node { kind: to, suffix: None };
            let made = made.add(cx, Op::Words(WordOp::Float), &[value], shape)?;
            vec![Operand::Float(to, made)]
        }
        (false, DataType::Bool) => unary(cx, WordOp::IsNotZero)?,
        (false, to) => {
            let op = match to {
                DataType::Int8 => Some(WordOp::Int8),
                DataType::Uint8 => Some(WordOp::Uint8),
                DataType::Int16 => Some(WordOp::Int16),
                DataType::Uint16 => Some(WordOp::Uint16),
                _ => None,
            };
            match op {
                Some(op) => unary(cx, op)?,
                None => vec![Operand::Whole(to, value)],
            }
        }
    }))
}

/// A choice; `None` where the condition is constant and a constant takes a part's place.
fn choose(cx: &mut Context<'_, '_>) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let given = [cx.input(0, "condition")?, cx.input(1, "x")?, cx.input(2, "y")?];
    let [condition, x, y] = &given;
    if x.kind() != y.kind() {
        return Err(NodeProblem::mixed(x.kind(), y.kind()));
    }
    if condition.kind() != DataType::Bool {
        return Err(NodeProblem::wrong_type("condition", "truth values", condition.kind()));
    }
    let flows = |operand: &Operand| match operand {
        Operand::Float(_, value) => cx.builder.graph.values[*value].constant.is_none(),
        Operand::Integer(..) => false,
        Operand::Whole(..) => true,
    };
    let masks = is_float(x.kind()) && !(flows(x) && flows(y));
    if !flows(condition) && masks {
        return Ok(None);
    }
    let kind = x.kind();
    let mut values = vec![];
    for (index, operand) in given.iter().enumerate() {
        values.push(flowing(cx, index, operand)?);
    }
    let [condition, x, y] = [cx.shape(values[0]), cx.shape(values[1]), cx.shape(values[2])];
    let shape = super::elementwise::common(&condition, &super::elementwise::common(&x, &y)?)?;
    let made = Node { kind, suffix: None }.add(cx, Op::Where, &values, shape)?;
    Ok(Some(vec![match is_float(kind) {
        true => Operand::Float(kind, made),
        false => Operand::Whole(kind, made),
    }]))
}

/// Reductions of integers.
fn reduce(cx: &mut Context<'_, '_>, operator: &str) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let operand = cx.input(0, "data")?;
    let shape = cx.shape_of(&operand);
    let from_input = cx.opset >= 18 || (operator == "ReduceSum" && cx.opset >= 13);
    let keep = cx.attributes().flag("keepdims", true)?;
    let Some(Reduction { axes, shape }) = reduced(cx, from_input, &shape)? else {
        return Ok(Some(vec![operand]));
    };
    let (kind, value) = (operand.kind(), flowing(cx, 0, &operand)?);
    let op = match operator {
        "ReduceSum" => FoldOp::Sum,
        "ReduceProd" => FoldOp::Product,
        "ReduceMin" => FoldOp::Min,
        _ => FoldOp::Max,
    };
    let fold = Op::Fold { op, axes, keep, last: false };
    let made = Node { kind, suffix: None }.add(cx, fold, &[value], shape)?;
    Ok(Some(vec![Operand::Whole(kind, made)]))
}

/// The place of the largest element along an axis, or of the smallest.
fn place(cx: &mut Context<'_, '_>, largest: bool) -> Translated {
    let operand = cx.input(0, "data")?;
    let mut shape = cx.shape_of(&operand);
    let axis = axis(cx.attributes().int_or("axis", 0)?, shape.len())?;
    let keep = cx.attributes().flag("keepdims", true)?;
    let last = cx.attributes().flag("select_last_index", false)?;
    let value = flowing(cx, 0, &operand)?;
    let op = match (is_float(operand.kind()), largest) {
        (true, true) => FoldOp::ArgMax,
        (true, false) => FoldOp::ArgMin,
        (false, true) => FoldOp::ArgMaxWord,
        (false, false) => FoldOp::ArgMinWord,
    };
    match keep {
        true => shape[axis] = 1,
        false => drop(shape.remove(axis)),
    }
    let fold = Op::Fold { op, axes: vec![axis], keep, last };
    let kind = DataType::Int64;
    if let Some(folded) = folded(cx, kind, &fold, &[value], &shape)? {
        return Ok(vec![folded]);
    }
    let made = Node { kind, suffix: None }.add(cx, fold, &[value], shape)?;
    Ok(vec![Operand::Whole(kind, made)])
}

/// Words are taken by many operators, but not by this one.
pub(super) fn refused(kind: DataType) -> NodeProblem {
    NodeProblem::unsupported(format!(
        "it is not computed of {} that flows; cast it to a float before this node",
        name(kind)
    ))
}
