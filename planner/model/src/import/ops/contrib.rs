//! Operators of onnxruntime (`com.microsoft`) that its optimiser and exporters write, in terms of ONNX's own.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::{AttributeProto, DataType};
use super::Translate;
use super::compose::{Steps, float, int, ints, list, string};

type Translated = Result<Vec<Operand>, NodeProblem>;

/// How nodes of one of these operators are translated.
pub(super) fn find(operator: &str) -> Option<Translate> {
    Some(match operator {
        "Gelu" => |cx| gelu(cx, "none"),
        "BiasGelu" => |cx| gelu(cx, "none"),
        "FastGelu" => |cx| gelu(cx, "tanh"),
        "QuickGelu" => quick_gelu,
        "FusedConv" => fused_conv,
        "FusedMatMul" => fused_matmul,
        "SkipLayerNormalization" => |cx| skip_norm(cx, false),
        "SkipSimplifiedLayerNormalization" => |cx| skip_norm(cx, true),
        "SimplifiedLayerNormalization" => simplified_norm,
        "EmbedLayerNormalization" => embed_norm,
        "Attention" => attention,
        "MultiHeadAttention" => multi_head_attention,
        "RotaryEmbedding" => rotary,
        "MatMulIntegerToFloat" => integer_matmul,
        _ => return None,
    })
}

/// Attributes of the node that its replacement has, too.
fn kept(cx: &Context<'_, '_>, names: &[&str]) -> Vec<AttributeProto> {
    let given = cx.proto.attribute.iter();
    given.filter(|one| names.contains(&one.name.as_str())).cloned().collect()
}

/// Gelu of a tensor and a bias, if there is one.
fn gelu(cx: &mut Context<'_, '_>, approximate: &str) -> Translated {
    let (mut x, bias) = (cx.input(0, "x")?, cx.optional(1)?);
    let mut steps = Steps::new(cx);
    if let Some(bias) = bias {
        x = steps.apply("Add", &[&x, &bias], vec![])?;
    }
    Ok(vec![steps.apply("Gelu", &[&x], vec![string("approximate", approximate)])?])
}

fn quick_gelu(cx: &mut Context<'_, '_>) -> Translated {
    let x = cx.input(0, "x")?;
    let alpha = cx.attributes().float_or("alpha", 1.702)?;
    Ok(vec![Steps::new(cx).apply("Swish", &[&x], vec![float("alpha", alpha)])?])
}

/// A convolution, another tensor added, and a function.
fn fused_conv(cx: &mut Context<'_, '_>) -> Translated {
    let (x, weight) = (cx.input(0, "X")?, cx.input(1, "W")?);
    let (bias, other) = (cx.optional(2)?, cx.optional(3)?);
    let attributes = cx.attributes();
    let function = attributes.string("activation")?.unwrap_or("");
    let given = attributes.floats("activation_params")?.unwrap_or(&[]).to_vec();
    let names = ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];
    let own = kept(cx, &names);
    let mut steps = Steps::new(cx);
    let inputs: Vec<&Operand> = [&x, &weight].into_iter().chain(bias.as_ref()).collect();
    let mut y = steps.apply("Conv", &inputs, own)?;
    if let Some(other) = other {
        y = steps.apply("Add", &[&y, &other], vec![])?;
    }
    let made = match (function, &given[..]) {
        ("", _) => return Ok(vec![y]),
        ("Relu" | "Tanh" | "Sigmoid", _) => steps.apply(function, &[&y], vec![])?,
        ("LeakyRelu", &[alpha, ..]) => {
            steps.apply("LeakyRelu", &[&y], vec![float("alpha", alpha)])?
        }
        ("HardSigmoid", &[alpha, beta, ..]) => {
            steps.apply(function, &[&y], vec![float("alpha", alpha), float("beta", beta)])?
        }
        ("Clip", &[low, high, ..]) => {
            let [low, high] = [low, high].map(|bound| steps.scalar(y.kind(), bound.into()));
            steps.apply("Clip", &[&y, &low, &high], vec![])?
        }
        _ => {
            let reason =
                format!("is `{function}` with {} parameters, which is unknown", given.len());
            return Err(NodeProblem::attribute("activation", reason));
        }
    };
    Ok(vec![made])
}

/// A product of matrices, of which some are transposed, times a number.
fn fused_matmul(cx: &mut Context<'_, '_>) -> Translated {
    let given = [cx.input(0, "A")?, cx.input(1, "B")?];
    let attributes = cx.attributes();
    for name in ["transBatchA", "transBatchB"] {
        if attributes.flag(name, false)? {
            return Err(NodeProblem::unsupported(format!(
                "`{name}` is set; transpose the batches by a node of their own"
            )));
        }
    }
    let turned = [attributes.flag("transA", false)?, attributes.flag("transB", false)?];
    let alpha = attributes.float_or("alpha", 1.0)?;
    let mut steps = Steps::new(cx);
    let mut operands = vec![];
    for (x, turned) in given.into_iter().zip(turned) {
        let rank = steps.cx.shape_of(&x).len();
        operands.push(match turned && rank >= 2 {
            false => x,
            true => {
                let mut perm: Vec<usize> = (0..rank).collect();
                perm.swap(rank - 1, rank - 2);
                steps.turned(&x, &perm)?
            }
        });
    }
    let y = steps.apply("MatMul", &[&operands[0], &operands[1]], vec![])?;
    if alpha == 1.0 {
        return Ok(vec![y]);
    }
    let alpha = steps.scalar(y.kind(), alpha.into());
    Ok(vec![steps.apply("Mul", &[&y, &alpha], vec![])?])
}

/// A product of integers, scaled: `A · B · scale of A · scale of B + bias`.
fn integer_matmul(cx: &mut Context<'_, '_>) -> Translated {
    let (a, b) = (cx.input(0, "A")?, cx.input(1, "B")?);
    let (scale_a, scale_b) = (cx.input(2, "a_scale")?, cx.input(3, "b_scale")?);
    let (mut zero_a, zero_b, bias) = (cx.optional(4)?, cx.optional(5)?, cx.optional(6)?);
    let mut steps = Steps::new(cx);
    if zero_a.is_none() && zero_b.is_some() {
        zero_a = Some(steps.scalar(a.kind(), 0.0));
    }
    let inputs: Vec<&Operand> =
        [Some(&a), Some(&b), zero_a.as_ref(), zero_b.as_ref()].into_iter().flatten().collect();
    let sums = steps.apply("MatMulInteger", &inputs, vec![])?;
    let to = vec![int("to", scale_a.kind() as i64)];
    let sums = steps.apply("Cast", &[&sums], to)?;
    let scale = steps.apply("Mul", &[&scale_a, &scale_b], vec![])?;
    let y = steps.apply("Mul", &[&sums, &scale], vec![])?;
    Ok(vec![match bias {
        None => y,
        Some(bias) => steps.apply("Add", &[&y, &bias], vec![])?,
    }])
}

/// A root mean square norm.
pub(super) fn simplified_norm(cx: &mut Context<'_, '_>) -> Translated {
    let (x, scale) = (cx.input(0, "X")?, cx.input(1, "scale")?);
    let own = kept(cx, &["axis", "epsilon"]);
    Ok(vec![Steps::new(cx).apply("RMSNormalization", &[&x, &scale], own)?])
}

/// A normalisation of a sum, and that sum.
fn skip_norm(cx: &mut Context<'_, '_>, about_zero: bool) -> Translated {
    let given = [cx.input(0, "input")?, cx.input(1, "skip")?, cx.input(2, "gamma")?];
    let (shift, bias) = match about_zero {
        true => (None, cx.optional(3)?),
        false => (cx.optional(3)?, cx.optional(4)?),
    };
    let [x, skip, scale] = &given;
    let mut steps = Steps::new(cx);
    let mut sum = steps.apply("Add", &[x, skip], vec![])?;
    if let Some(bias) = bias {
        sum = steps.apply("Add", &[&sum, &bias], vec![])?;
    }
    normal(&mut steps, about_zero, sum, scale, shift.as_ref())
}

/// The norm of the last axis; its mean, its reciprocal deviation, and the tensor itself.
fn normal(
    steps: &mut Steps<'_, '_, '_>,
    about_zero: bool,
    x: Operand,
    scale: &Operand,
    shift: Option<&Operand>,
) -> Translated {
    let epsilon = steps.cx.attributes().float_or("epsilon", 1e-12)?;
    let operator = if about_zero { "RMSNormalization" } else { "LayerNormalization" };
    let inputs: Vec<&Operand> = [&x, scale].into_iter().chain(shift).collect();
    let y = steps.apply(operator, &inputs, vec![float("epsilon", epsilon)])?;
    // Of what nobody reads nothing is left.
    let rank = steps.cx.shape_of(&x).len();
    let axes = || vec![ints("axes", &[rank - 1])];
    let mean = steps.apply("ReduceMean", &[&x], axes())?;
    let apart = match about_zero {
        true => x.clone(),
        false => steps.apply("Sub", &[&x, &mean], vec![])?,
    };
    let squares = steps.apply("Mul", &[&apart, &apart], vec![])?;
    let variance = steps.apply("ReduceMean", &[&squares], axes())?;
    let least = steps.scalar(x.kind(), epsilon.into());
    let variance = steps.apply("Add", &[&variance, &least], vec![])?;
    let deviation = steps.apply("Sqrt", &[&variance], vec![])?;
    let inverse = steps.apply("Reciprocal", &[&deviation], vec![])?;
    Ok(vec![y, mean, inverse, x])
}

/// The sum of the embeddings of tokens, places and segments, normalised.
fn embed_norm(cx: &mut Context<'_, '_>) -> Translated {
    let (ids, words) = (cx.input(0, "input_ids")?, cx.input(2, "word_embedding")?);
    let places = cx.input(3, "position_embedding")?;
    let segments = (cx.optional(1)?, cx.optional(4)?);
    let (scale, shift) = (cx.input(5, "gamma")?, cx.input(6, "beta")?);
    let (mask, place_ids) = (cx.optional(7)?, cx.optional(8)?);
    let own = cx.shape_of(&ids);
    let &[batch, length] = &own[..] else {
        return Err(NodeProblem::shape(format!("`input_ids` have the shape {own:?}, not 2 axes")));
    };
    let mut steps = Steps::new(cx);
    let mut sum = steps.apply("Gather", &[&words, &ids], vec![])?;
    let place_ids = place_ids.unwrap_or_else(|| list(&(0..length).collect::<Vec<_>>()));
    let place = steps.apply("Gather", &[&places, &place_ids], vec![])?;
    sum = steps.apply("Add", &[&sum, &place], vec![])?;
    if let (Some(ids), Some(table)) = segments {
        let segment = steps.apply("Gather", &[&table, &ids], vec![])?;
        sum = steps.apply("Add", &[&sum, &segment], vec![])?;
    }
    let made = normal(&mut steps, false, sum, &scale, Some(&shift))?;
    let count = match mask {
        None => {
            let none = Array { shape: vec![batch], data: vec![0; batch] };
            Operand::integers(DataType::Int32, none)
        }
        Some(mask) => steps.summed(&mask, &[1], false)?,
    };
    let [y, .., sum] = &made[..] else { return Ok(made) };
    Ok(vec![y.clone(), count, sum.clone()])
}

/// What onnxruntime's masks of integers add to the scores: nothing, or a number that hides a key. A mask is of keys
/// [batch, keys], of queries and keys [batch, queries, keys], or how many keys each of the batch has.
fn bias(
    steps: &mut Steps<'_, '_, '_>,
    mask: &Operand,
    keys: usize,
    kind: DataType,
) -> Result<Operand, NodeProblem> {
    let filter = steps.cx.attributes().float_or("mask_filter_value", -10000.0)?;
    let shape = steps.cx.shape_of(mask);
    let seen = match shape[..] {
        [batch, width] if width == keys => steps.shaped(mask, &[batch, 1, 1, keys])?,
        [batch, queries, width] if width == keys => {
            steps.shaped(mask, &[batch, 1, queries, keys])?
        }
        [batch] => {
            let line = Array { shape: vec![1, 1, 1, keys], data: (0..keys as i64).collect() };
            let line = Operand::integers(mask.kind(), line);
            let ends = steps.shaped(mask, &[batch, 1, 1, 1])?;
            steps.apply("Less", &[&line, &ends], vec![])?
        }
        _ => {
            return Err(NodeProblem::unsupported(format!(
                "its mask has the shape {shape:?} for {keys} keys, supported are [batch], [batch, keys] and \
                 [batch, queries, keys]"
            )));
        }
    };
    let seen = steps.apply("Cast", &[&seen], vec![int("to", DataType::Bool as i64)])?;
    let [none, hidden] = [0.0, filter.into()].map(|number| steps.scalar(kind, number));
    steps.apply("Where", &[&seen, &none, &hidden], vec![])
}

/// Attention of queries, keys and values by ONNX's operator: the result, and keys and values with those of the past.
fn attended(
    steps: &mut Steps<'_, '_, '_>,
    [q, k, v]: [&Operand; 3],
    mask: Option<&Operand>,
    added: Option<Operand>,
    past: [Option<Operand>; 2],
) -> Translated {
    let attributes = steps.cx.attributes();
    let heads = attributes.int_or("num_heads", 0)?;
    let causal = attributes.flag("unidirectional", false)?;
    let mut own = vec![
        int("q_num_heads", heads),
        int("kv_num_heads", heads),
        int("is_causal", causal.into()),
    ];
    if let Some(scale) = attributes.float("scale")?.filter(|&scale| scale != 0.0) {
        own.push(float("scale", scale));
    }
    let extent = |steps: &Steps<'_, '_, '_>, x: &Operand| {
        let shape = steps.cx.shape_of(x);
        shape[shape.len().saturating_sub(2)]
    };
    let before = past[0].as_ref().map_or(0, |past| extent(steps, past));
    let keys = extent(steps, k) + before;
    let mut hidden = match mask {
        None => None,
        Some(mask) => Some(bias(steps, mask, keys, q.kind())?),
    };
    if let Some(added) = added {
        hidden = Some(match hidden {
            None => added,
            Some(hidden) => steps.apply("Add", &[&hidden, &added], vec![])?,
        });
    }
    let [past_k, past_v] = past;
    let inputs = [Some(q.clone()), Some(k.clone()), Some(v.clone()), hidden, past_k, past_v];
    let mut made = steps.apply_all("Attention", inputs.into(), own)?;
    made.truncate(3);
    Ok(made)
}

/// Parts of the last axis, of these sizes.
fn parts(
    steps: &mut Steps<'_, '_, '_>,
    x: &Operand,
    sizes: &[usize],
) -> Result<Vec<Operand>, NodeProblem> {
    let axis = steps.cx.shape_of(x).len() - 1;
    let mut start = 0;
    let mut made = vec![];
    for size in sizes {
        let [from, to] = [start, start + size].map(|at| list(&[at]));
        made.push(steps.apply("Slice", &[x, &from, &to, &list(&[axis])], vec![])?);
        start += size;
    }
    Ok(made)
}

/// Attention with the products that make queries, keys and values.
fn attention(cx: &mut Context<'_, '_>) -> Translated {
    let (x, weights) = (cx.input(0, "input")?, cx.input(1, "weights")?);
    let (bias, mask) = (cx.optional(2)?, cx.optional(3)?);
    let (past, added) = (cx.optional(4)?, cx.optional(5)?);
    if cx.attributes().flag("do_rotary", false)? {
        return Err(NodeProblem::unsupported(
            "it rotates its keys; export it with RotaryEmbedding",
        ));
    }
    let width = cx.shape_of(&weights).last().copied().unwrap_or(0);
    let sizes = match cx.attributes().ints("qkv_hidden_sizes")? {
        None => vec![width / 3; 3],
        Some(given) => given.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect(),
    };
    if sizes.len() != 3 || sizes.iter().sum::<usize>() != width || sizes.contains(&0) {
        let reason = format!("is {sizes:?}, but the weights have {width} columns");
        return Err(NodeProblem::attribute("qkv_hidden_sizes", reason));
    }
    let mut steps = Steps::new(cx);
    let mut all = steps.apply("MatMul", &[&x, &weights], vec![])?;
    if let Some(bias) = bias {
        all = steps.apply("Add", &[&all, &bias], vec![])?;
    }
    let made = parts(&mut steps, &all, &sizes)?;
    let [q, k, v] = &made[..] else { return Ok(made) };
    let past = match past {
        None => [None, None],
        Some(past) => {
            let one = |steps: &mut Steps<'_, '_, '_>, at: i64| {
                let at = Operand::integers(DataType::Int64, Array::scalar(at));
                steps.apply("Gather", &[&past, &at], vec![])
            };
            [Some(one(&mut steps, 0)?), Some(one(&mut steps, 1)?)]
        }
    };
    let made = attended(&mut steps, [q, k, v], mask.as_ref(), added, past)?;
    let [y, keys, values] = &made[..] else { return Ok(made) };
    let mut both = vec![];
    for x in [keys, values] {
        both.push(steps.apply("Unsqueeze", &[x, &list(&[0])], vec![])?);
    }
    let present = steps.apply("Concat", &[&both[0], &both[1]], vec![int("axis", 0)])?;
    Ok(vec![y.clone(), present])
}

fn multi_head_attention(cx: &mut Context<'_, '_>) -> Translated {
    let (Some(k), Some(v)) = (cx.optional(1)?, cx.optional(2)?) else {
        return Err(NodeProblem::unsupported(
            "queries, keys and values are packed in one tensor; split them by a node of their own",
        ));
    };
    let mut given = [cx.input(0, "query")?, k, v];
    let (bias, mask, added) = (cx.optional(3)?, cx.optional(4)?, cx.optional(5)?);
    let past = [cx.optional(6)?, cx.optional(7)?];
    let mut steps = Steps::new(cx);
    if let Some(bias) = bias {
        let sizes = [0, 1, 2].map(|at: usize| {
            let shape = steps.cx.shape_of(&given[at]);
            // Of keys that are in heads already the bias is in them.
            if shape.len() == 3 { shape[2] } else { 0 }
        });
        let width = steps.cx.shape_of(&bias).last().copied().unwrap_or(0);
        if sizes.iter().sum::<usize>() != width || sizes.contains(&0) {
            return Err(NodeProblem::shape(format!(
                "a bias of {width} numbers does not fit queries, keys and values of {sizes:?}"
            )));
        }
        for (x, bias) in given.iter_mut().zip(parts(&mut steps, &bias, &sizes)?) {
            *x = steps.apply("Add", &[x, &bias], vec![])?;
        }
    }
    let [q, k, v] = &given;
    attended(&mut steps, [q, k, v], mask.as_ref(), added, past)
}

/// Rotary embeddings, of positions or from a position on.
fn rotary(cx: &mut Context<'_, '_>) -> Translated {
    let (x, mut ids) = (cx.input(0, "input")?, cx.input(1, "position_ids")?);
    let (cosine, sine) = (cx.input(2, "cos_cache")?, cx.input(3, "sin_cache")?);
    let shape = cx.shape_of(&x);
    let half = cx.shape_of(&cosine).last().copied().unwrap_or(0);
    let mut own = kept(cx, &["interleaved", "rotary_embedding_dim"]);
    let heads = cx.attributes().int_or("num_heads", 0)?;
    let (batch, positions) = match shape[..] {
        [batch, positions, width] => {
            let heads = if heads > 0 { heads } else { (width / (2 * half).max(1)) as i64 };
            own.push(int("num_heads", heads));
            (batch, positions)
        }
        [batch, _, positions, _] => (batch, positions),
        _ => {
            return Err(NodeProblem::shape(format!(
                "`input` has the shape {shape:?}, not 3 or 4 axes"
            )));
        }
    };
    let mut steps = Steps::new(cx);
    if steps.cx.shape_of(&ids) == [1] {
        let line = (0..batch * positions).map(|at| (at % positions) as i64).collect();
        let line =
            Operand::integers(ids.kind(), Array { shape: vec![batch, positions], data: line });
        ids = steps.apply("Add", &[&line, &ids], vec![])?;
    }
    Ok(vec![steps.apply("RotaryEmbedding", &[&x, &cosine, &sine, &ids], own)?])
}
