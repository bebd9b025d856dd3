//! The matches before the rows.
use super::testing::Random;
use super::work::{elements as count, product};
use super::*;
use crate::pack::*;
use core::ops::Range;
use std::prelude::rust_2024::*;

/// How an operator reads its inputs.
pub fn reads(kind: OpKind) -> [Reads; INPUTS] {
    match kind {
        OpKind::Conv | OpKind::Depthwise | OpKind::Winograd | OpKind::Pool | OpKind::Resample => {
            [Reads::Window, Reads::Rows, Reads::Whole]
        }
        OpKind::Unary
        | OpKind::Binary
        | OpKind::Where
        | OpKind::Words
        | OpKind::Softmax
        | OpKind::Lrn
        | OpKind::LayerNorm => [Reads::Rows; INPUTS],
        OpKind::MatMul => [Reads::Rows, Reads::Whole, Reads::Whole],
        OpKind::GridSample | OpKind::Take => [Reads::Whole, Reads::Rows, Reads::Whole],
        OpKind::Scatter => [Reads::Rows, Reads::Whole, Reads::Whole],
        OpKind::Copy | OpKind::Reduce | OpKind::Fold | OpKind::Gather | OpKind::Recurrent => {
            [Reads::Whole; INPUTS]
        }
        OpKind::Lookup | OpKind::Order | OpKind::Suppress => [Reads::Whole; INPUTS],
    }
}

/// The rows of each input that a (valid) slice of a (valid) layer reads on a processor, at most;
/// those between the first and the last are counted. [`OpKind::Copy`] addresses the whole buffer
/// instead, whichever rows it makes.
pub fn rows_read(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    slice: &Slice,
) -> [Range<u64>; INPUTS] {
    let made = slice.made();
    let kind = OpKind::from_code(layer.kind);
    core::array::from_fn(|slot| {
        let input = &inputs[slot];
        let beside = || input.dims[..3] == output.dims[..3];
        match kind.map(|kind| reads(kind)[slot]) {
            _ if made.is_empty() => 0..0,
            Some(Reads::Window) if kind == Some(OpKind::Resample) => {
                (operator(layer).unwrap().window)(layer, [input, output], &made)
            }
            Some(Reads::Window) => seen(layer, input, output, &made),
            Some(Reads::Rows) if beside() => made.clone(),
            _ => 0..input.rows(),
        }
    })
}
/// The rows of the lines that the windows of some rows pass over, in all their images.
fn seen(layer: &Layer, input: &Tensor, output: &Tensor, made: &Range<u64>) -> Range<u64> {
    let (kernel, stride, dilation, pad) = match OpKind::from_code(layer.kind) {
        Some(OpKind::Pool) => {
            let p: PoolParams = params(layer);
            (p.kernel, p.stride, p.dilation, p.pad)
        }
        kind => {
            let p: ConvParams = match kind {
                Some(OpKind::Winograd) => {
                    let WinogradParams { pad, groups, .. } = params(layer);
                    super::winograd::direct(pad, groups)
                }
                _ => params(layer),
            };
            (p.kernel, p.stride, p.dilation, p.pad)
        }
    };
    let [kernel, stride, dilation, pad] =
        [kernel, stride, dilation, pad].map(|[down, _]| u64::from(down));
    let reach = kernel.saturating_sub(1).saturating_mul(dilation).saturating_add(1);
    let [_, height, width, _] = input.dims.map(u64::from);
    let [_, lines, pixels, _] = output.dims.map(|extent| u64::from(extent.max(1)));
    // Counted over all images, the line that comes so many after the first of a row's window; or
    // the image's end.
    let line = |row: u64, below: u64| {
        let (image, y) = (row / pixels / lines, row / pixels % lines);
        let at = (y * stride).saturating_add(below).saturating_sub(pad);
        image * height + at.min(height)
    };
    let start = line(made.start, 0);
    let end = line(made.end - 1, reach).max(start);
    start * width..end * width
}
/// The rows of which steps of a (valid) layer make multiples, `None` where a step makes all of
/// them: one, but with Winograd whole lines of tiles ([`winograd::slice_lines`]).
pub fn row_unit(layer: &Layer, output: &Tensor) -> Option<u64> {
    match OpKind::from_code(layer.kind)? {
        OpKind::Reduce | OpKind::Fold | OpKind::Recurrent => None,
        OpKind::Order | OpKind::Suppress => None,
        OpKind::Copy => copy::row_unit(layer, output),
        _ => Some(1),
    }
}

/// Whether a (valid) layer's output may lie in a ring: where an input is found pixel by pixel, or
/// rows are copied.
pub fn slides(layer: &Layer, output: &Tensor) -> bool {
    match OpKind::from_code(layer.kind) {
        Some(OpKind::Copy) => row_unit(layer, output).is_some(),
        kind => kind.is_some_and(|kind| reads(kind)[0] != Reads::Whole),
    }
}

/// What the elements of a layer's operands must be; those of an unknown operator may be any.
pub fn elements(layer: &Layer) -> Elements {
    use Element::{Float, Word};
    let [float, word, any] = [Some(Float), Some(Word), None];
    let (inputs, output) = match OpKind::from_code(layer.kind) {
        None | Some(OpKind::Copy) => ([any; INPUTS], any),
        Some(OpKind::Take) if layer.activation.kind == Activation::NONE.kind => {
            ([any, word, any], any)
        }
        // A function is of floats.
        Some(OpKind::Take) => ([float, word, any], float),
        Some(OpKind::Where) => ([word, any, any], any),
        Some(OpKind::Scatter) => match ScatterOp::from_code(params::<ScatterParams>(layer).op) {
            Some(ScatterOp::Replace) => ([any, word, any], any),
            _ => ([float, word, float], float),
        },
        Some(OpKind::Words) => {
            let (read, made) = of_words(params::<WordsParams>(layer).op);
            ([Some(read); INPUTS], Some(made))
        }
        Some(OpKind::Fold) => match FoldOp::from_code(params::<FoldParams>(layer).op) {
            Some(FoldOp::ArgMin | FoldOp::ArgMax) => ([float; INPUTS], word),
            _ => ([word; INPUTS], word),
        },
        Some(OpKind::Order) => {
            let integers = params::<OrderParams>(layer).integers == 1;
            ([if integers { word } else { float }; INPUTS], word)
        }
        Some(OpKind::Suppress) => ([float; INPUTS], word),
        Some(OpKind::Gather | OpKind::Lookup) => ([word; INPUTS], float),
        Some(
            OpKind::Conv
            | OpKind::Depthwise
            | OpKind::Pool
            | OpKind::Unary
            | OpKind::Binary
            | OpKind::Softmax
            | OpKind::Lrn
            | OpKind::MatMul
            | OpKind::Reduce
            | OpKind::Winograd
            | OpKind::LayerNorm
            | OpKind::Resample
            | OpKind::Recurrent
            | OpKind::GridSample,
        ) => ([float; INPUTS], float),
    };
    Elements { inputs, output }
}

/// What an operation on words reads and makes.
fn of_words(code: u32) -> (Element, Element) {
    use Element::{Float, Word};
    match WordOp::from_code(code) {
        Some(
            WordOp::EqualFloats
            | WordOp::LessFloats
            | WordOp::LessOrEqualFloats
            | WordOp::Cut
            | WordOp::IsNotZeroFloat
            | WordOp::IsNan
            | WordOp::IsInfinite
            | WordOp::IsPositiveInfinity
            | WordOp::IsNegativeInfinity,
        ) => (Float, Word),
        Some(WordOp::Float) => (Word, Float),
        _ => (Word, Word),
    }
}

/// Multiply-adds of a layer, without its activation.
fn macs(kind: OpKind, layer: &Layer, inputs: &[Tensor; INPUTS], output: &Tensor) -> u64 {
    let made = count(output);
    match kind {
        OpKind::Conv | OpKind::Depthwise => {
            let conv: ConvParams = params(layer);
            let channels = (inputs[0].cols() / conv.groups.max(1)) as u64;
            made.saturating_mul(product(conv.kernel)).saturating_mul(channels)
        }
        OpKind::Winograd => {
            // Products, and about sixteen operations for each frequency of an input and an output.
            let (from, to) = (inputs[0].cols() as u64, output.cols() as u64);
            let groups = u64::from(params::<WinogradParams>(layer).groups.max(1));
            let pairs = (from / groups).saturating_mul(to);
            let each = pairs.saturating_add(16u64.saturating_mul(from + to));
            winograd::frequencies(layer, output).saturating_mul(each)
        }
        OpKind::Pool => {
            let pool: PoolParams = params(layer);
            made.saturating_mul(product(pool.kernel))
        }
        OpKind::MatMul => {
            let matmul: MatMulParams = params(layer);
            product([matmul.batch, matmul.m, matmul.n, matmul.k])
        }
        // An exponential is about twelve operations.
        OpKind::Softmax => made.saturating_mul(16),
        OpKind::Lrn => {
            let lrn: LrnParams = params(layer);
            let window = lrn.size.min(output.cols()) as u64;
            made.saturating_mul(window.saturating_add(40))
        }
        OpKind::Resample => {
            let resample: ResampleParams = params(layer);
            made.saturating_mul(resample.taps.into())
        }
        // Weights of taps are computed for each pixel.
        OpKind::GridSample => {
            let sample: GridSampleParams = params(layer);
            let taps = [1, 8, 16][sample.mode.min(2) as usize];
            made.saturating_mul(taps).saturating_add(product([
                output.dims[0],
                output.dims[1],
                output.dims[2],
                64,
            ]))
        }
        OpKind::Recurrent => {
            let recurrent: RecurrentParams = params(layer);
            count(&inputs[0]).saturating_mul(u64::from(recurrent.hidden).saturating_add(20))
        }
        OpKind::Reduce | OpKind::Fold => count(&inputs[0]),
        // Each place goes down a heap at most.
        OpKind::Order => count(&inputs[0]).saturating_mul(32),
        // Each box is compared with all that remain.
        OpKind::Suppress => {
            let suppress: SuppressParams = params(layer);
            let each = 32 + 16 * u64::from(suppress.count);
            count(&inputs[1]).saturating_mul(each)
        }
        OpKind::Scatter => count(&inputs[1]).saturating_add(count(&inputs[2])),
        OpKind::Binary | OpKind::Where | OpKind::Words => made,
        OpKind::LayerNorm => made.saturating_mul(8),
        OpKind::Unary | OpKind::Copy | OpKind::Gather | OpKind::Lookup | OpKind::Take => 0,
    }
}

/// Bytes of intermediates of an operator.
fn operator_scratch_bytes(problem: &Problem<'_>, want: Want) -> u64 {
    let Some(kind) = OpKind::from_code(problem.layer.kind) else { return 0 };
    match kind {
        OpKind::Conv => conv::scratch_bytes(problem),
        OpKind::Depthwise => depthwise::scratch_bytes(problem),
        OpKind::MatMul => matmul::scratch_bytes(problem),
        OpKind::Recurrent => recurrent::scratch_bytes(problem),
        OpKind::Suppress => suppress::scratch_bytes(problem),
        OpKind::Winograd => winograd::scratch_of(problem, want),
        // The others need none.
        OpKind::Pool
        | OpKind::Unary
        | OpKind::Binary
        | OpKind::Softmax
        | OpKind::Lrn
        | OpKind::Copy
        | OpKind::Reduce
        | OpKind::LayerNorm
        | OpKind::Gather
        | OpKind::Lookup
        | OpKind::Where
        | OpKind::Words
        | OpKind::Fold
        | OpKind::Order
        | OpKind::Scatter
        | OpKind::Take
        | OpKind::Resample
        | OpKind::GridSample => 0,
    }
}

/// Weights of an output of a layer whose weights are panels.
fn reduction(layer: &Layer, input: &Tensor) -> u64 {
    let channels = u64::from(input.cols());
    match OpKind::from_code(layer.kind) {
        Some(OpKind::Conv | OpKind::Depthwise) => {
            let p: ConvParams = params(layer);
            let taps = u64::from(p.kernel[0]) * u64::from(p.kernel[1]);
            taps.saturating_mul(channels / u64::from(p.groups.max(1)))
        }
        Some(OpKind::Winograd) => {
            let p: WinogradParams = params(layer);
            let side = u64::from(p.tile) + 2;
            side.saturating_mul(side).saturating_mul(channels / u64::from(p.groups.max(1)))
        }
        Some(OpKind::Gather) => params::<GatherParams>(layer).entries.into(),
        _ => 0,
    }
}

/// Whether there is a kernel of an operator.
pub fn computes(kind: OpKind) -> bool {
    use OpKind::{
        Fold, GridSample, Lookup, Order, Recurrent, Resample, Scatter, Suppress, Where, Words,
    };
    let floats = !matches!(kind, Resample | Recurrent | GridSample | Lookup);
    floats && !matches!(kind, Where | Words | Fold | Order | Suppress | Scatter)
}

/// Bytes of intermediates for one step.
pub fn gpu_scratch(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    slice: &Slice,
) -> u64 {
    match OpKind::from_code(layer.kind) {
        Some(OpKind::Conv) => cuda::conv::scratch_bytes(layer, inputs, output, slice),
        Some(OpKind::Winograd) => cuda::winograd::scratch_bytes(layer, inputs, output, slice),
        _ => 0,
    }
}

/// The most input tensors that it has.
fn inputs(this: OpKind) -> usize {
    use OpKind::*;
    match this {
        Where | Scatter => 3,
        Words | Binary | MatMul | Conv | Depthwise | Winograd | Recurrent | GridSample | Take
        | Suppress => 2,
        Pool | Unary | Softmax | Lrn | Copy | Reduce | LayerNorm | Gather | Lookup | Resample
        | Fold | Order => 1,
    }
}

/// Whether the weights are panels of output channels (of Lookup, of entries), of which a step may
/// take some.
fn has_panels(this: OpKind) -> bool {
    use OpKind::*;
    matches!(this, Conv | Depthwise | Winograd | Gather | Lookup)
}
fn in_place(kind: OpKind, slot: usize) -> bool {
    match kind {
        OpKind::Unary | OpKind::Softmax | OpKind::LayerNorm => slot == 0,
        OpKind::Binary | OpKind::Where | OpKind::Words => true,
        OpKind::Conv | OpKind::Depthwise | OpKind::Winograd => slot == 1,
        _ => false,
    }
}

/// Whether rows say what the matches said, of layers that `open` accepts.
#[test]
fn rows_say_what_the_matches_said() {
    let mut random = Random::new(77);
    for kind in OpKind::ALL {
        let operator = operator_of(kind);
        assert_eq!(kind.inputs(), inputs(kind));
        assert_eq!(kind.has_panels(), has_panels(kind));
        assert_eq!(super::reads(kind), reads(kind));
        assert_eq!(operator.on_gpu.is_some(), computes(kind));
        let narrow = matches!(kind, OpKind::Conv | OpKind::Gather | OpKind::Lookup);
        assert_eq!(operator.panels == Panels::Narrow, narrow);
        assert_eq!(operator.widens, matches!(kind, OpKind::Gather | OpKind::Lookup));
        assert_eq!(operator.functions, kind == OpKind::Unary);
        assert_eq!(
            operator.addresses == Addresses::Rows,
            !matches!(kind, OpKind::Copy | OpKind::MatMul)
        );
        assert_eq!(operator.addresses == Addresses::Buffers, kind == OpKind::Copy);
        for slot in 0..INPUTS {
            assert_eq!(operator.in_place[slot], in_place(kind, slot), "{kind:?} {slot}");
        }
        assert_eq!(operator.line_unit.is_some(), kind == OpKind::Winograd);
        let tables =
            matches!(kind, OpKind::Gather | OpKind::Lookup | OpKind::Take | OpKind::Scatter);
        assert_eq!(operator.outside.is_some(), tables);
        let mut seen = 0;
        for round in 0..20_000 {
            let isa = if round % 2 == 0 { Isa::Portable } else { Kernels::best().isa() };
            let Some(case) = extremes::accepted(&mut random, kind, isa) else { continue };
            let extremes::Accepted { layer, inputs, output, .. } = &case;
            assert_eq!(super::row_unit(layer, output), row_unit(layer, output));
            assert_eq!(super::slides(layer, output), slides(layer, output));
            assert_eq!(super::elements(layer), elements(layer));
            assert_eq!((operator.macs)(layer, inputs, output), macs(kind, layer, inputs, output));
            let terms = if has_panels(kind) { (operator.terms)(layer, &inputs[0]) } else { 0 };
            assert_eq!(terms, reduction(layer, &inputs[0]));
            let Some(slice) = extremes::slice(&mut random, &case, isa) else { continue };
            assert_eq!(
                super::rows_read(layer, inputs, output, &slice),
                rows_read(layer, inputs, output, &slice)
            );
            let problem = Problem { layer, inputs, output, slice, threads: 1 + round % 5, isa };
            for want in [Want::All, Want::Least] {
                if slice.algorithm() == 0 {
                    assert_eq!(
                        (operator.scratch)(&problem, want),
                        operator_scratch_bytes(&problem, want)
                    );
                }
            }
            let gpu = operator.on_gpu.map_or(0, |scratch| scratch(layer, inputs, output, &slice));
            assert_eq!(gpu, gpu_scratch(layer, inputs, output, &slice));
            seen += 1;
        }
        assert!(seen > 50, "{kind:?}");
    }
    let mut layer = Layer::default();
    for code in 0..99_999 {
        layer.kind = code;
        let kind = super::operator(&layer).map(|operator| operator.kind);
        assert_eq!(kind, OpKind::ALL.into_iter().find(|kind| *kind as u32 == code));
        assert_eq!(kind, OpKind::from_code(code));
    }
    // Elements depend on parameters that `open` refuses, too, and activations.
    for kind in OpKind::ALL {
        for words in 0..40 {
            for function in 0..2 {
                for at in 0..24 {
                    let mut layer = Layer { kind: kind as u32, ..Layer::default() };
                    layer.params[at] = words;
                    layer.activation.kind = function;
                    assert_eq!(super::elements(&layer), elements(&layer));
                }
            }
        }
    }
}
