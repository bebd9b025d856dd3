//! Attention with a state in place of a softmax, and the convolution before it: both carry a state from one
//! inference to the next.

use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::attention::in_heads;
use super::compose::{Steps, int};
use crate::graph::{Op, ValueId};

/// What a position of a long sequence counts as work of folding: its nodes are made one by one.
const WORK_OF_POSITION: usize = 1 << 15;

/// `CausalConvWithState`: each channel's convolution with what was before.
pub(super) fn causal_conv(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (x, weight) = (cx.float(0, "input")?, cx.float(1, "weight")?);
    let (shape, kernel) = (cx.shape(x), cx.shape(weight));
    let misfit = || {
        NodeProblem::shape(format!(
            "an input of shape {shape:?} and weights of shape {kernel:?} are not [batch, channels, length] and \
             [channels, 1, taps]"
        ))
    };
    let &[batch, channels, length] = &shape[..] else { return Err(misfit()) };
    let taps = match kernel[..] {
        [_, 1, taps] if taps > 0 => taps,
        _ => return Err(misfit()),
    };
    let activation = cx.attributes().string("activation")?.unwrap_or("none");
    if !matches!(activation, "none" | "silu" | "swish") {
        let reason = format!("is `{activation}`, expected none, silu or swish");
        return Err(NodeProblem::attribute("activation", reason));
    }
    let past = cx.optional_float(3, "past_state")?;
    let bias = cx.optional(2)?;
    let (kind, before) = (cx.kind(), taps - 1);
    if let Some(past) = past
        && cx.shape(past) != [batch, channels, before]
    {
        return Err(NodeProblem::shape(format!(
            "`past_state` has the shape {:?}, expected {:?}",
            cx.shape(past),
            [batch, channels, before]
        )));
    }
    let mut steps = Steps::new(cx);
    let all = match past {
        _ if before == 0 => x,
        Some(past) => steps.concat(&[past, x], 2)?,
        None => {
            let pad = Op::Pad { begin: vec![0, 0, before], end: vec![0; 3], value: 0.0 };
            steps.node(pad, &[x], vec![batch, channels, length + before])?
        }
    };
    let group = int("group", channels as i64);
    let mut inputs = vec![Operand::Float(kind, all), Operand::Float(kind, weight)];
    inputs.extend(bias);
    let mut y = steps.apply("Conv", &inputs.iter().collect::<Vec<_>>(), vec![group])?;
    if activation != "none" {
        y = steps.apply("Swish", &[&y], vec![])?;
    }
    let mut made = vec![y];
    if before > 0 {
        made.push(Operand::Float(kind, steps.slice(all, 2, [length, 1, before])?));
    }
    Ok(made)
}

/// What a state does at each position.
struct Rule {
    /// It decays.
    gated: bool,
    /// What it knows of a key is taken from that key's value.
    corrected: bool,
}

fn rule(cx: &Context<'_, '_>) -> Result<Rule, NodeProblem> {
    let name = cx.attributes().string("update_rule")?.unwrap_or("gated_delta");
    let (gated, corrected) = match name {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            let reason = format!("is `{other}`, expected linear, gated, delta or gated_delta");
            return Err(NodeProblem::attribute("update_rule", reason));
        }
    };
    for (index, role, needed) in [(4, "decay", gated), (5, "beta", corrected)] {
        match cx.optional(index)?.is_some() {
            given if given == needed => {}
            true => {
                let reason = format!("is `{name}`, which has no `{role}`");
                return Err(NodeProblem::attribute("update_rule", reason));
            }
            false => return Err(NodeProblem::Missing { index, role }),
        }
    }
    Ok(Rule { gated, corrected })
}

/// A gate for each position: [batch, heads, positions, 1 or entries of a key].
fn gate(
    steps: &mut Steps<'_, '_, '_>,
    index: usize,
    role: &'static str,
    allowed: &[[usize; 2]],
) -> Result<ValueId, NodeProblem> {
    let x = steps.cx.float(index, role)?;
    let shape = steps.shape(x);
    let &[batch, positions, width] = &shape[..] else {
        return Err(NodeProblem::shape(format!("`{role}` has the shape {shape:?}, not 3 axes")));
    };
    let fits = allowed.iter().find(|[heads, each]| heads * each == width);
    let &[heads, each] = fits.ok_or_else(|| {
        NodeProblem::shape(format!("`{role}` has the shape {shape:?}, which fits no heads"))
    })?;
    let apart = steps.reshape(x, &[batch, positions, heads, each])?;
    steps.transpose(apart, &[0, 2, 1, 3])
}

/// Whether queries, keys, values and the state before them belong together: 4 axes each, of which the second are heads.
fn fitting([q, k, v]: [&[usize]; 3], past: Option<&[usize]>) -> Result<(), NodeProblem> {
    let fits = q[0] == k[0]
        && q[2..] == k[2..]
        && v[..3] == k[..3]
        && q[1].is_multiple_of(k[1])
        && past.is_none_or(|past| past == [k[0], k[1], k[3], v[3]]);
    if fits {
        return Ok(());
    }
    let found = format!("queries {q:?}, keys {k:?}, values {v:?} and the past do not fit");
    Err(NodeProblem::shape(found))
}

/// `LinearAttention`: a state of keys and values that each position changes and reads.
pub(super) fn attention(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let given = [cx.float(0, "query")?, cx.float(1, "key")?, cx.float(2, "value")?];
    let (rule, past) = (rule(cx)?, cx.optional_float(3, "past_state")?);
    let scale = cx.attributes().float_or("scale", 0.0)?;
    if let Some(shape) = given.iter().map(|&x| cx.shape(x)).find(|shape| shape.len() != 3) {
        return Err(NodeProblem::shape(format!("an input has the shape {shape:?}, not 3 axes")));
    }
    let mut steps = Steps::new(cx);
    let [q, k, v] = given;
    let q = in_heads(&mut steps, q, "q_num_heads")?;
    let k = in_heads(&mut steps, k, "kv_num_heads")?;
    let v = in_heads(&mut steps, v, "kv_num_heads")?;
    let (of_q, of_k, of_v) = (steps.shape(q), steps.shape(k), steps.shape(v));
    let [batch, heads, positions, width] = of_k[..] else { return Ok(vec![]) };
    let of_past = past.map(|past| steps.shape(past));
    fitting([&of_q, &of_k, &of_v], of_past.as_deref())?;
    steps.cx.charge_for(&[positions, WORK_OF_POSITION], 0)?;
    let scale = if scale == 0.0 { 1.0 / (width as f64).sqrt() } else { scale.into() };
    let q = steps.with(Op::Mul, q, scale)?;
    let decay = match rule.gated {
        false => None,
        true => {
            let logs = gate(&mut steps, 4, "decay", &[[heads, 1], [heads, width]])?;
            Some(steps.map(Op::Exp, logs)?)
        }
    };
    let beta = match rule.corrected {
        false => None,
        true => Some(gate(&mut steps, 5, "beta", &[[heads, 1], [1, 1]])?),
    };
    let (mut state, mut rows) = (past, vec![]);
    for at in 0..positions {
        let one = [at, 1, 1];
        let (key, mut value) = (steps.slice(k, 2, one)?, steps.slice(v, 2, one)?);
        if let (Some(decay), Some(before)) = (decay, state) {
            let gate = steps.slice(decay, 2, one)?;
            let gate = steps.transpose(gate, &[0, 1, 3, 2])?;
            state = Some(steps.pair(Op::Mul, before, gate)?);
        }
        if let Some(beta) = beta {
            if let Some(state) = state {
                let known = steps.matmul(key, state)?;
                value = steps.pair(Op::Sub, value, known)?;
            }
            let rate = steps.slice(beta, 2, one)?;
            value = steps.pair(Op::Mul, value, rate)?;
        }
        let column = steps.transpose(key, &[0, 1, 3, 2])?;
        let product = steps.pair(Op::Mul, column, value)?;
        let next = match state {
            None => product,
            Some(state) => steps.pair(Op::Add, state, product)?,
        };
        let row = steps.slice(q, 2, one)?;
        let row = steps.reshape(row, &[batch, heads, of_q[1] / heads, width])?;
        let read = steps.matmul(row, next)?;
        rows.push(steps.reshape(read, &[batch, 1, of_q[1] * of_v[3]])?);
        state = Some(next);
    }
    let Some(state) = state else { return Ok(vec![]) };
    let y = if let [only] = rows[..] { only } else { steps.concat(&rows, 1)? };
    let made = [steps.output(0, y), steps.output(1, state)];
    Ok(made.into())
}
