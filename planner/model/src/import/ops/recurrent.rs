//! Recurrent networks: RNN, GRU and LSTM.
//!
//! What the input gives to the gates at all times is one product with a constant matrix; the graph's
//! operator has the rest, one for each direction.

use super::super::array::Movement;
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::cut::part;
use crate::graph::{Cell, Op, Recurrence, ValueId};
use eyelet::pack::{Activation, ActivationKind};

/// What is read of a node.
struct Network {
    cell: Cell,
    hidden: usize,
    /// Of each direction whether it goes from the last time to the first.
    directions: Vec<bool>,
    clip: f32,
    /// Three functions of each direction.
    functions: Vec<Activation>,
    /// Whether sequences come before times.
    batch_first: bool,
}

/// The names of the functions that a cell has unless it is said otherwise.
fn usual(cell: Cell) -> &'static [&'static str] {
    match cell {
        Cell::Rnn => &["Tanh"],
        Cell::Gru { .. } => &["Sigmoid", "Tanh"],
        Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
    }
}

/// A function by its name, with its numbers where they are given.
fn function(name: &str, alpha: Option<f32>, beta: Option<f32>) -> Result<Activation, NodeProblem> {
    use ActivationKind::{Clamp, HardSigmoid, LeakyRelu, Sigmoid, Tanh};
    let (kind, [usual_alpha, usual_beta]) = match name.to_ascii_lowercase().as_str() {
        "relu" => return Ok(Activation::RELU),
        "sigmoid" => (Sigmoid, [0.0; 2]),
        "tanh" => (Tanh, [0.0; 2]),
        "leakyrelu" => (LeakyRelu, [0.01, 0.0]),
        "hardsigmoid" => (HardSigmoid, [0.2, 0.5]),
        "affine" if alpha.unwrap_or(1.0) == 1.0 && beta.unwrap_or(0.0) == 0.0 => {
            return Ok(Activation {
                kind: Clamp as u32,
                alpha: f32::NEG_INFINITY,
                beta: f32::INFINITY,
            });
        }
        _ => {
            return Err(NodeProblem::unsupported(format!(
                "the function `{name}` of a gate is not; Sigmoid, Tanh, Relu, LeakyRelu and HardSigmoid are"
            )));
        }
    };
    let (alpha, beta) = (alpha.unwrap_or(usual_alpha), beta.unwrap_or(usual_beta));
    Ok(Activation { kind: kind as u32, alpha, beta })
}

/// The functions of all directions.
fn functions(
    cx: &Context<'_, '_>,
    cell: Cell,
    directions: usize,
) -> Result<Vec<Activation>, NodeProblem> {
    let attributes = cx.attributes();
    let usual: Vec<&str> = usual(cell).repeat(directions);
    let given = attributes.strings("activations")?;
    let names = given.unwrap_or_else(|| usual.clone());
    if names.len() != usual.len() {
        let reason = format!("has {} names, expected {}", names.len(), usual.len());
        return Err(NodeProblem::attribute("activations", reason));
    }
    // Numbers stand for those functions that have some, in their order.
    let list = |name| -> Result<Vec<f32>, NodeProblem> {
        Ok(attributes.floats(name)?.unwrap_or_default().to_vec())
    };
    let (mut alphas, mut betas) =
        (list("activation_alpha")?.into_iter(), list("activation_beta")?.into_iter());
    let each = usual.len() / directions;
    let mut all = vec![];
    for names in names.chunks(each) {
        for name in names {
            let lower = name.to_ascii_lowercase();
            let has = |names: &[&str]| names.contains(&&lower[..]);
            let both = has(&["affine", "scaledtanh", "hardsigmoid"]);
            let one = has(&["leakyrelu", "thresholdedrelu", "elu"]);
            let alpha = if both || one { alphas.next() } else { None };
            let beta = if both { betas.next() } else { None };
            all.push(function(name, alpha, beta)?);
        }
        all.extend(std::iter::repeat_n(Activation::NONE, 3 - each));
    }
    Ok(all)
}

fn network(cx: &Context<'_, '_>) -> Result<Network, NodeProblem> {
    let attributes = cx.attributes();
    let cell = match cx.proto.op_type.as_str() {
        "RNN" => Cell::Rnn,
        "GRU" => Cell::Gru { reset_after: attributes.flag("linear_before_reset", false)? },
        _ => Cell::Lstm,
    };
    if attributes.flag("input_forget", false)? {
        return Err(NodeProblem::unsupported(
            "its input and forget gates are one (`input_forget`); export them apart",
        ));
    }
    let directions = match attributes.string("direction")?.unwrap_or("forward") {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => {
            let reason = format!("is `{other}`, expected forward, reverse or bidirectional");
            return Err(NodeProblem::attribute("direction", reason));
        }
    };
    let hidden = attributes.int("hidden_size")?;
    let hidden = match hidden {
        Some(hidden) => size("hidden_size", hidden, 1)?,
        None => cx.shape(cx.weights(2, "recurrent weights")?).last().copied().unwrap_or(0),
    };
    let clip = attributes.float("clip")?.filter(|clip| *clip > 0.0).unwrap_or(f32::INFINITY);
    let functions = functions(cx, cell, directions.len())?;
    let batch_first = attributes.flag("layout", false)?;
    Ok(Network { cell, hidden, directions, clip, functions, batch_first })
}

pub(super) fn recurrent(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let network = network(cx)?;
    let mut x = cx.float(0, "x")?;
    let mut shape = cx.shape(x);
    if shape.len() != 3 {
        return Err(NodeProblem::shape(format!(
            "the input has the shape {shape:?}, expected three"
        )));
    }
    if network.batch_first {
        shape.swap(0, 1);
        let op = Op::Transpose { perm: vec![1, 0, 2] };
        x = cx.helper("times", op, vec![Some(x)], shape.clone())?;
    }
    let [times, batch, inputs] = shape[..] else { unreachable!("three") };
    check_lengths(cx, times)?;
    let (count, hidden) = (network.directions.len(), network.hidden);
    let gates = network.cell.gates() * hidden;
    let fits = |cx: &Context<'_, '_>, value: Option<ValueId>, expected: &[usize]| match value {
        Some(value) if cx.shape(value) != expected => Err(NodeProblem::shape(format!(
            "`{}` has the shape {:?}, expected {expected:?}",
            cx.builder.graph.values[value].name,
            cx.shape(value)
        ))),
        _ => Ok(()),
    };
    let weights = [Some(cx.weights(1, "weights")?), Some(cx.weights(2, "recurrent weights")?)];
    let biases = cx.optional_weights(3, "biases")?;
    let peepholes = match network.cell {
        Cell::Lstm => cx.optional_weights(7, "peepholes")?,
        _ => None,
    };
    fits(cx, weights[0], &[count, gates, inputs])?;
    fits(cx, weights[1], &[count, gates, hidden])?;
    fits(cx, biases, &[count, 2 * gates])?;
    fits(cx, peepholes, &[count, 3 * hidden])?;
    let mut states = vec![];
    for (index, role) in
        [(5, "initial_h"), (6, "initial_c")].into_iter().take(network.cell.states())
    {
        let mut state = cx.optional_float(index, role)?;
        if let Some(given) = state.filter(|_| network.batch_first) {
            let op = Op::Transpose { perm: vec![1, 0, 2] };
            let turned = vec![count, batch, hidden];
            state = Some(cx.helper(role, op, vec![Some(given)], turned)?);
        }
        fits(cx, state, &[count, batch, hidden])?;
        states.push(state);
    }
    let mut made = vec![];
    for at in 0..count {
        let first = first_state(cx, &states, at, [batch, hidden])?;
        let constants = [weights[0], weights[1], biases, peepholes];
        made.push(direction(cx, &network, at, x, constants, first)?);
    }
    outputs(cx, &network, &made, [times, batch])
}

/// Sequences all have the length that the input has.
fn check_lengths(cx: &Context<'_, '_>, times: usize) -> Result<(), NodeProblem> {
    let Some(lengths) = cx.optional_integers(4, "sequence_lens")? else { return Ok(()) };
    match lengths.data.iter().all(|&length| length == times as i64) {
        true => Ok(()),
        false => Err(NodeProblem::unsupported(
            "its sequences differ in length; run each by itself, at its own length",
        )),
    }
}

/// The state of one direction at the beginning, `[batch, states · hidden]`; none where it is zero.
fn first_state(
    cx: &mut Context<'_, '_>,
    states: &[Option<ValueId>],
    at: usize,
    [batch, hidden]: [usize; 2],
) -> Result<Option<ValueId>, NodeProblem> {
    let zero = |cx: &mut Context<'_, '_>, value: ValueId| -> Result<bool, NodeProblem> {
        let data = cx.builder.array(value)?;
        Ok(data.is_some_and(|array| array.data.iter().all(|&number| number == 0.0)))
    };
    let mut given = vec![];
    for &state in states {
        given.push(match state {
            Some(value) if !zero(cx, value)? => Some(value),
            _ => None,
        });
    }
    if given.iter().all(Option::is_none) {
        return Ok(None);
    }
    let flows = |value: ValueId| cx.builder.graph.values[value].constant.is_none();
    if given.iter().any(|state| !state.is_some_and(flows)) {
        return Err(NodeProblem::unsupported(
            "its state at the beginning is constant, but not zero, or only partly computed; make all of it an input",
        ));
    }
    let mut parts = vec![];
    for (index, &state) in given.iter().enumerate() {
        let Some(state) = state else { continue };
        let name = format!("first{at}.{index}");
        let one = part(cx, &name, state, 0, at..at + 1)?;
        let flat =
            cx.helper(&format!("{name}.flat"), Op::Reshape, vec![Some(one)], vec![batch, hidden])?;
        parts.push(Some(flat));
    }
    Ok(match parts[..] {
        [only] => only,
        _ => {
            let whole = vec![batch, hidden * parts.len()];
            Some(cx.helper(&format!("first{at}"), Op::Concat { axis: 1 }, parts, whole)?)
        }
    })
}

/// One direction: the states at all times.
fn direction(
    cx: &mut Context<'_, '_>,
    network: &Network,
    at: usize,
    x: ValueId,
    constants: [Option<ValueId>; 4],
    first: Option<ValueId>,
) -> Result<ValueId, NodeProblem> {
    let (cell, hidden) = (network.cell, network.hidden);
    let gates = cell.gates() * hidden;
    let own = |cx: &mut Context<'_, '_>, index: usize, suffix: &str| match constants[index] {
        Some(value) => part(cx, &format!("{suffix}{at}"), value, 0, at..at + 1).map(Some),
        None => Ok(None),
    };
    let [weights, recurrent, biases, peepholes] =
        [own(cx, 0, "w")?, own(cx, 1, "r")?, own(cx, 2, "b")?, own(cx, 3, "p")?];
    let [times, batch, inputs] = cx.shape(x)[..] else { unreachable!("three") };
    let Some(weights) = weights else {
        return Err(NodeProblem::Missing { index: 1, role: "weights" });
    };
    let name = format!("{}/turned{at}", cx.name);
    let turned = cx.builder.moved(name, weights, &Movement::Transpose(&[0, 2, 1]))?;
    let matrix = vec![inputs, gates];
    let matrix = cx.helper(&format!("matrix{at}"), Op::Reshape, vec![turned], matrix)?;
    let made = vec![times, batch, gates];
    let mut given =
        cx.helper(&format!("product{at}"), Op::MatMul, vec![Some(x), Some(matrix)], made.clone())?;
    let mut apart = None;
    if let Some(biases) = biases {
        let (sum, inside) = added(cx, network, at, biases)?;
        given = cx.helper(&format!("given{at}"), Op::Add, vec![Some(given), Some(sum)], made)?;
        apart = inside;
    }
    let recurrence = Recurrence {
        cell,
        hidden,
        reverse: network.directions[at],
        clip: network.clip,
        functions: [0, 1, 2].map(|which| network.functions[3 * at + which]),
    };
    let inputs = vec![Some(given), recurrent, apart, peepholes, first];
    let made = vec![times, batch, cell.states() * hidden];
    cx.helper(&format!("state{at}"), Op::Recurrent(recurrence), inputs, made)
}

/// What is added to the gates of one direction; and apart from it the biases of the weights, where
/// GRU resets these.
fn added(
    cx: &mut Context<'_, '_>,
    network: &Network,
    at: usize,
    biases: ValueId,
) -> Result<(ValueId, Option<ValueId>), NodeProblem> {
    let gates = network.cell.gates() * network.hidden;
    let data = cx.builder.array(biases)?.map(|array| array.data).unwrap_or_default();
    let (own, recurrent) = data.split_at(gates);
    let apart_from = match network.cell {
        Cell::Gru { reset_after: true } => 2 * network.hidden,
        _ => gates,
    };
    let sum = |row: usize| own[row] + if row < apart_from { recurrent[row] } else { 0.0 };
    let inside = |row: usize| if row < apart_from { 0.0 } else { recurrent[row] };
    let mut add = |name: &str, data: Vec<f64>| {
        let kind = cx.kind();
        let name = format!("{}/{name}{at}", cx.name);
        cx.builder.constant(name, kind, super::super::array::Array::vector(data))
    };
    let total = add("biases", (0..gates).map(sum).collect());
    let apart = (apart_from < gates).then(|| add("inside", (0..gates).map(inside).collect()));
    Ok((total, apart))
}

/// The outputs Y, Y_h and Y_c, of which those that nobody reads go again.
fn outputs(
    cx: &mut Context<'_, '_>,
    network: &Network,
    made: &[ValueId],
    [times, batch]: [usize; 2],
) -> Result<Vec<Operand>, NodeProblem> {
    let hidden = network.hidden;
    let (mut all, mut last) = (vec![], vec![vec![]; network.cell.states()]);
    for (at, (&states, &reverse)) in made.iter().zip(&network.directions).enumerate() {
        let end = if reverse { 0 } else { times - 1 };
        for (index, last) in last.iter_mut().enumerate() {
            let columns = index * hidden..(index + 1) * hidden;
            let one = part(cx, &format!("own{at}.{index}"), states, 2, columns)?;
            if index == 0 {
                let apart = vec![times, 1, batch, hidden];
                all.push(Some(cx.helper(
                    &format!("apart{at}"),
                    Op::Reshape,
                    vec![Some(one)],
                    apart,
                )?));
            }
            last.push(Some(part(cx, &format!("last{at}.{index}"), one, 0, end..end + 1)?));
        }
    }
    let count = made.len();
    let whole = vec![times, count, batch, hidden];
    let joined = |cx: &mut Context<'_, '_>,
                  name: &str,
                  parts: Vec<Option<ValueId>>,
                  axis,
                  shape| match parts[..] {
        [Some(only)] => Ok(only),
        _ => cx.helper(name, Op::Concat { axis }, parts, shape),
    };
    let mut results = vec![joined(cx, "all", all, 1, whole)?];
    for (index, last) in last.into_iter().enumerate() {
        results.push(joined(cx, &format!("last{index}"), last, 0, vec![count, batch, hidden])?);
    }
    let kind = cx.kind();
    let mut operands = vec![];
    for (index, value) in results.into_iter().enumerate() {
        let mut shape = cx.shape(value);
        let op = match (network.batch_first, index) {
            (false, _) => Op::Reshape,
            (true, 0) => Op::Transpose { perm: vec![2, 0, 1, 3] },
            (true, _) => Op::Transpose { perm: vec![1, 0, 2] },
        };
        if let Op::Transpose { perm } = &op {
            shape = perm.iter().map(|&axis| shape[axis]).collect();
        }
        let name = if index == 0 { cx.name.to_string() } else { format!("{}/{index}", cx.name) };
        let output = vec![(cx.output(index), shape)];
        let value = cx.node(name, op, vec![Some(value)], output)?[0];
        operands.push(Operand::Float(kind, value));
    }
    Ok(operands)
}
