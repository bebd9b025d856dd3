//! Attention and rotary embeddings as arithmetic, products and softmax.

use super::super::array::{Array, Movement};
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::compose::Steps;
use crate::graph::{Op, ValueId};
use eyelet::pack::ReduceOp;

type Made = Result<ValueId, NodeProblem>;

/// Of a name of the model how many heads a tensor of three axes has.
fn heads(cx: &Context<'_, '_>, name: &'static str) -> Result<usize, NodeProblem> {
    let given = cx.attributes().int_or(name, 0)?;
    let heads = usize::try_from(given).ok().filter(|&heads| heads > 0);
    heads.ok_or_else(|| NodeProblem::attribute(name, format!("is {given}, expected above 0")))
}

/// A tensor of images, heads, positions, entries; of one of three axes the heads are in the last.
pub(super) fn in_heads(steps: &mut Steps<'_, '_, '_>, x: ValueId, count: &'static str) -> Made {
    let shape = steps.shape(x);
    match shape[..] {
        [_, _, _, _] => Ok(x),
        [batch, positions, all] => {
            let heads = heads(steps.cx, count)?;
            if !all.is_multiple_of(heads) {
                return Err(NodeProblem::attribute(
                    count,
                    format!("is {heads}, which does not divide {all}"),
                ));
            }
            let split = steps.reshape(x, &[batch, positions, heads, all / heads])?;
            steps.transpose(split, &[0, 2, 1, 3])
        }
        _ => Err(NodeProblem::shape(format!("an input has the shape {shape:?}, not 3 or 4 axes"))),
    }
}

/// What is added to the scores: a mask, and minus infinity where a position may not look.
fn bias(
    steps: &mut Steps<'_, '_, '_>,
    scores: &[usize],
    past: usize,
) -> Result<Option<ValueId>, NodeProblem> {
    let &[_, _, _, keys] = scores else { return Ok(None) };
    let mut mask = match steps.cx.optional(3)? {
        None => None,
        Some(Operand::Float(_, value)) => Some(value),
        Some(Operand::Integer(DataType::Bool, array)) => {
            steps.cx.charge(&array.shape)?;
            let bias = array.map(|seen| if seen != 0 { 0.0 } else { f64::NEG_INFINITY });
            let (name, kind) = (format!("{}/mask", steps.cx.name), steps.cx.kind());
            Some(steps.cx.builder.constant(name, kind, bias))
        }
        Some(seen @ Operand::Whole(DataType::Bool, _)) => {
            let kind = steps.cx.kind();
            let [none, never] = [0.0, f64::NEG_INFINITY].map(|number| steps.scalar(kind, number));
            match steps.apply("Where", &[&seen, &none, &never], vec![])? {
                Operand::Float(_, value) => Some(value),
                other => return Err(NodeProblem::wrong_type("attn_mask", "floats", other.kind())),
            }
        }
        Some(other) => {
            return Err(NodeProblem::wrong_type(
                "attn_mask",
                "floats or truth values",
                other.kind(),
            ));
        }
    };
    if let Some(value) = mask {
        let own = steps.shape(value);
        let short = own.last().map_or(0, |&last| keys.saturating_sub(last));
        if short > 0 && own.last() != Some(&1) {
            let mut shape = own.clone();
            let (begin, mut end) = (vec![0; own.len()], vec![0; own.len()]);
            (shape[own.len() - 1], end[own.len() - 1]) = (keys, short);
            let pad = Op::Pad { begin, end, value: f32::NEG_INFINITY };
            mask = Some(steps.node(pad, &[value], shape)?);
        }
    }
    let Some(seen) = seen(steps, scores, past)? else { return Ok(mask) };
    match mask {
        None => Ok(Some(seen)),
        Some(mask) => Ok(Some(steps.pair(Op::Add, mask, seen)?)),
    }
}

/// Zero for the keys that a position may see by its place, minus infinity for others; none where each
/// may see all.
fn seen(
    steps: &mut Steps<'_, '_, '_>,
    scores: &[usize],
    past: usize,
) -> Result<Option<ValueId>, NodeProblem> {
    let &[images, _, queries, keys] = scores else { return Ok(None) };
    let attributes = steps.cx.attributes();
    let causal = attributes.flag("is_causal", false)?;
    let left = attributes.int_or("left_window_size", -1)?;
    let right = attributes.int_or("right_window_size", -1)?;
    let lengths = steps.cx.optional_integers(6, "nonpad_kv_seqlen")?;
    let ends = match &lengths {
        None if !causal && left < 0 && right < 0 => return Ok(None),
        None => vec![keys as i64],
        Some(lengths) if lengths.data.len() == images => lengths.data.clone(),
        Some(lengths) => {
            return Err(NodeProblem::shape(format!(
                "`nonpad_kv_seqlen` has {} numbers for {images} images",
                lengths.data.len()
            )));
        }
    };
    let shape = match lengths {
        None => vec![queries, keys],
        Some(_) => vec![images, 1, queries, keys],
    };
    steps.cx.charge(&shape)?;
    let mut data = Vec::new();
    for &end in &ends {
        let before =
            if lengths.is_some() { end.saturating_sub(queries as i64) } else { past as i64 };
        for at in 0..queries * keys {
            let (own, key) = ((at / keys) as i64 + before, (at % keys) as i64);
            let within = (left < 0 || own - key <= left) && (right < 0 || key - own <= right);
            let sees = key < end && (!causal || key <= own) && within;
            data.push(if sees { 0.0 } else { f64::NEG_INFINITY });
        }
    }
    let (name, kind) = (format!("{}/seen", steps.cx.name), steps.cx.kind());
    Ok(Some(steps.cx.builder.constant(name, kind, Array { shape, data })))
}

/// Shares of which a position has none to which the bias leaves no key.
fn sighted(steps: &mut Steps<'_, '_, '_>, shares: ValueId, bias: ValueId, keys: usize) -> Made {
    if steps.shape(bias).last() != Some(&keys) {
        return Ok(shares);
    }
    let kind = steps.cx.kind();
    if steps.cx.builder.graph.values[bias].constant.is_none() {
        let axes = [steps.shape(bias).len() - 1];
        let most = steps.reduce(ReduceOp::Max, bias, &axes)?;
        let never = steps.scalar(kind, f64::NEG_INFINITY);
        let zero = steps.scalar(kind, 0.0);
        let blind = steps.apply("Equal", &[&Operand::Float(kind, most), &never], vec![])?;
        let shares = Operand::Float(kind, shares);
        return match steps.apply("Where", &[&blind, &zero, &shares], vec![])? {
            Operand::Float(_, value) => Ok(value),
            _ => Err(NodeProblem::Unknown),
        };
    }
    let Some(Array { mut shape, data }) = steps.cx.builder.array(bias)? else { return Ok(shares) };
    shape.last_mut().into_iter().for_each(|last| *last = 1);
    let blind = |row: &[f64]| row.iter().all(|&bias| bias == f64::NEG_INFINITY);
    let zero = |row: &[f64]| if blind(row) { 0.0 } else { f64::NAN };
    let data: Vec<f64> = data.chunks(keys).map(zero).collect();
    if data.iter().all(|value| value.is_nan()) {
        return Ok(shares);
    }
    let name = format!("{}/blind", steps.cx.name);
    let zeros = steps.cx.builder.constant(name, kind, Array { shape, data });
    steps.pair(Op::Mask, shares, zeros)
}

/// Keys or values after those of the past.
fn with_past(
    steps: &mut Steps<'_, '_, '_>,
    x: ValueId,
    index: usize,
    role: &'static str,
) -> Result<(ValueId, usize), NodeProblem> {
    match steps.cx.optional_float(index, role)? {
        None => Ok((x, 0)),
        Some(past) => {
            let (own, shape) = (steps.shape(past), steps.shape(x));
            let fits = own.len() == 4 && (0..4).all(|axis| axis == 2 || own[axis] == shape[axis]);
            if !fits {
                return Err(NodeProblem::shape(format!(
                    "`{role}` has the shape {own:?}, which does not go before {shape:?}"
                )));
            }
            Ok((steps.concat(&[past, x], 2)?, own[2]))
        }
    }
}

/// `softmax(scale · Q Kᵀ + mask) V`, each head of keys for as many of the queries as there are.
pub(super) fn attention(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (q, k, v) = (cx.float(0, "Q")?, cx.float(1, "K")?, cx.float(2, "V")?);
    let attributes = cx.attributes();
    let (softcap, scale) = (attributes.float_or("softcap", 0.0)?, attributes.float("scale")?);
    let mode = attributes.int_or("qk_matmul_output_mode", 0)?;
    let flat = cx.shape(q).len() == 3;
    let mut steps = Steps::new(cx);
    let q = in_heads(&mut steps, q, "q_num_heads")?;
    let k = in_heads(&mut steps, k, "kv_num_heads")?;
    let v = in_heads(&mut steps, v, "kv_num_heads")?;
    let (keys, past) = with_past(&mut steps, k, 4, "past_key")?;
    let (values, _) = with_past(&mut steps, v, 5, "past_value")?;
    let (of_q, of_k, of_v) = (steps.shape(q), steps.shape(keys), steps.shape(values));
    let misfit = of_q[0] != of_k[0]
        || of_q[3] != of_k[3]
        || of_k[..3] != of_v[..3]
        || of_k[1] == 0
        || !of_q[1].is_multiple_of(of_k[1]);
    if misfit {
        return Err(NodeProblem::shape(format!(
            "queries {of_q:?}, keys {of_k:?} and values {of_v:?} do not fit"
        )));
    }
    let scale = scale.map_or_else(|| 1.0 / (of_q[3] as f64).sqrt(), f64::from);
    // The queries that share a head of keys are rows of one matrix.
    let rows = of_q[1] / of_k[1] * of_q[2];
    let q = steps.reshape(q, &[of_q[0], of_k[1], rows, of_q[3]])?;
    let turned = steps.transpose(keys, &[0, 1, 3, 2])?;
    let scaled = steps.with(Op::Mul, q, scale)?;
    let products = steps.matmul(scaled, turned)?;
    let all = [of_q[0], of_q[1], of_q[2], of_k[2]];
    let mut scores = vec![steps.reshape(products, &all)?];
    let mut score = scores[0];
    if softcap > 0.0 {
        score = steps.with(Op::Div, score, softcap.into())?;
        score = steps.map(Op::Tanh, score)?;
        score = steps.with(Op::Mul, score, softcap.into())?;
    }
    scores.push(score);
    let bias = bias(&mut steps, &all, past)?;
    if let Some(bias) = bias {
        score = steps.pair(Op::Add, score, bias)?;
    }
    scores.push(score);
    score = steps.map(Op::Softmax { axis: 3, flat: false }, score)?;
    if let Some(bias) = bias {
        score = sighted(&mut steps, score, bias, of_k[2])?;
    }
    scores.push(score);
    let weights = steps.reshape(score, &[of_q[0], of_k[1], rows, of_k[2]])?;
    let y = steps.matmul(weights, values)?;
    let mut y = steps.reshape(y, &[of_q[0], of_q[1], of_q[2], of_v[3]])?;
    if flat {
        y = steps.transpose(y, &[0, 2, 1, 3])?;
        y = steps.reshape(y, &[of_q[0], of_q[2], of_q[1] * of_v[3]])?;
    }
    let mode = usize::try_from(mode).ok().and_then(|mode| scores.get(mode).copied());
    let mode = mode.ok_or_else(|| NodeProblem::attribute("qk_matmul_output_mode", "is unknown"))?;
    let kind = steps.cx.kind();
    let mut results = vec![steps.output(0, y)];
    for value in [keys, values, mode] {
        results.push(Operand::Float(kind, value));
    }
    Ok(results)
}

/// Pairs of entries turned by the angle of their position.
pub(super) fn rotary(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "X")?;
    let attributes = cx.attributes();
    let interleaved = attributes.flag("interleaved", false)?;
    let given = attributes.int_or("rotary_embedding_dim", 0)?;
    let shape = cx.shape(x);
    let mut steps = Steps::new(cx);
    let split = in_heads(&mut steps, x, "num_heads")?;
    let of_x = steps.shape(split);
    let width = if given == 0 { of_x[3] } else { usize::try_from(given).unwrap_or(0) };
    if width == 0 || width > of_x[3] || width % 2 != 0 {
        let reason = format!("is {width} of {} entries, expected an even number", of_x[3]);
        return Err(NodeProblem::attribute("rotary_embedding_dim", reason));
    }
    let half = width / 2;
    let cosine = angles(&mut steps, 1, "cos_cache", &of_x, half)?;
    let sine = angles(&mut steps, 2, "sin_cache", &of_x, half)?;
    let parts =
        if interleaved { [[0, 2, half], [1, 2, half]] } else { [[0, 1, half], [half, 1, half]] };
    let a = steps.slice(split, 3, parts[0])?;
    let b = steps.slice(split, 3, parts[1])?;
    let (ac, bs) = (steps.pair(Op::Mul, a, cosine)?, steps.pair(Op::Mul, b, sine)?);
    let (as_, bc) = (steps.pair(Op::Mul, a, sine)?, steps.pair(Op::Mul, b, cosine)?);
    let real = steps.pair(Op::Sub, ac, bs)?;
    let imaginary = steps.pair(Op::Add, as_, bc)?;
    let mut turned = if interleaved {
        let one = [of_x[0], of_x[1], of_x[2], half, 1];
        let (real, imaginary) = (steps.reshape(real, &one)?, steps.reshape(imaginary, &one)?);
        let pairs = steps.concat(&[real, imaginary], 4)?;
        steps.reshape(pairs, &[of_x[0], of_x[1], of_x[2], width])?
    } else {
        steps.concat(&[real, imaginary], 3)?
    };
    if width < of_x[3] {
        let rest = steps.slice(split, 3, [width, 1, of_x[3] - width])?;
        turned = steps.concat(&[turned, rest], 3)?;
    }
    if shape.len() == 3 {
        turned = steps.transpose(turned, &[0, 2, 1, 3])?;
        turned = steps.reshape(turned, &shape)?;
    }
    steps.done(turned)
}

/// Cosines or sines of the positions: images, one, positions, half of the entries.
fn angles(
    steps: &mut Steps<'_, '_, '_>,
    index: usize,
    role: &'static str,
    x: &[usize],
    half: usize,
) -> Made {
    let cache = steps.cx.float(index, role)?;
    let chosen = match steps.cx.optional(3)? {
        None => cache,
        Some(Operand::Integer(_, ids)) => {
            let rows = steps.shape(cache).first().copied().unwrap_or(0);
            let place = |&id: &i64| usize::try_from(id).ok().filter(|&id| id < rows);
            let data = ids.data.iter().map(place).collect::<Option<_>>().ok_or_else(|| {
                NodeProblem::shape(format!("`position_ids` are not below {rows}"))
            })?;
            let indices = Array { shape: ids.shape.clone(), data };
            let own = steps.shape(cache);
            let shape = [&ids.shape[..], &own[1..]].concat();
            let movement = Movement::Gather { axis: 0, indices: &indices };
            let operand = Operand::Float(steps.cx.kind(), cache);
            match steps.cx.moved(0, &operand, &movement, &shape)? {
                Some(Operand::Float(_, value)) => value,
                _ => {
                    let list = indices.map(|index| index as f64);
                    let name = format!("{}/{role}", steps.cx.name);
                    let list = steps.cx.builder.constant(name, DataType::Float, list);
                    steps.node(Op::Take { axis: 0 }, &[cache, list], shape)?
                }
            }
        }
        Some(Operand::Whole(_, ids)) => {
            let shape = [&steps.shape(ids)[..], &[half]].concat();
            let constant = steps.cx.builder.graph.values[cache].constant.is_some();
            let op = if constant { Op::Gather } else { Op::Take { axis: 0 } };
            steps.node(op, &[cache, ids], shape)?
        }
        Some(other) => {
            return Err(NodeProblem::wrong_type("position_ids", "integers", other.kind()));
        }
    };
    let found = steps.shape(chosen);
    if found != [x[0], x[2], half] && found != [1, x[2], half] {
        return Err(NodeProblem::shape(format!(
            "`{role}` has the shape {found:?}, expected {:?}",
            [x[0], x[2], half]
        )));
    }
    steps.reshape(chosen, &[found[0], 1, x[2], half])
}
