//! Layers whose numbers lie at the ends of their ranges. Layers that `open` accepts are computed
//! without an overflow, on processors of 32 bits too
//! (`cargo test --target i686-unknown-linux-gnu`). That covers how a layer is cut and its scratch,
//! whatever its size. It covers the layer itself if little memory holds it, in rings of lines too.

use super::testing::Random;
use super::*;
use crate::kernels::testing::{Threads, available, floats, scratch as memory};
use crate::ops::Problem;
use crate::pack::{
    Activation, ActivationKind, BinaryParams, ConvParams, CopyParams, FoldOp, FoldParams,
    GatherParams, GridSampleParams, INPUTS, IntegerOp, IntegerParams, LookupParams, LrnParams,
    MatMulParams, Method, PoolParams, RecurrentParams, ReduceParams, ResampleParams, ScatterOp,
    ScatterParams, SuppressParams, TakeParams, TopKParams, WinogradParams, params_words,
    ring_bytes,
};
use bytemuck::cast_slice_mut;
use core::array::from_fn;
use std::vec::Vec;

/// The most floats of a buffer, of weights, and of scratch that a layer is run with.
const MOST: u64 = 1 << 14;

/// The most multiply-accumulates.
const MOST_MACS: u128 = if cfg!(miri) { 1 << 8 } else { 1 << 20 };

/// A number: mostly small, sometimes at an end of a range.
fn number(random: &mut Random) -> u32 {
    const ENDS: [u32; 12] = [
        1 << 8,
        1 << 16,
        (1 << 27) - 1,
        1 << 28,
        (1 << 29) - 1,
        1 << 30,
        i32::MAX as u32,
        1 << 31,
        (1 << 31) + 1,
        u32::MAX / 3,
        u32::MAX - 1,
        u32::MAX,
    ];
    match random.below(12) {
        0 => ENDS[random.below(ENDS.len())],
        1 => ENDS[random.below(ENDS.len())] / (1 + random.below(9) as u32),
        _ => 1 + random.below(4) as u32,
    }
}

fn pair(random: &mut Random) -> [u32; 2] {
    [number(random), number(random)]
}

/// From nothing on.
fn pad(random: &mut Random) -> [u32; 2] {
    pair(random).map(|n| n - 1)
}

/// A tensor in a buffer of its own, and the buffer's bytes, which `open` accepts; `None` where that
/// is not so.
fn tensor(random: &mut Random, buffer: u32, dims: [u32; 4]) -> Option<(Tensor, u64)> {
    let offset = if random.below(4) == 0 { number(random) - 1 } else { 0 };
    let pitch = if random.below(3) == 0 { dims[3].max(number(random)) } else { dims[3] };
    let rows = dims[..3].iter().try_fold(1u64, |n, d| n.checked_mul((*d).into()))?;
    let end = (rows - 1).checked_mul(pitch.into())?;
    let end = end.checked_add(u64::from(offset) + u64::from(dims[3]))?;
    let bytes = end.checked_mul(4)?.checked_next_multiple_of(64)?;
    let accepted = bytes <= isize::MAX as u64;
    accepted.then_some((Tensor { buffer, offset, dims, pitch }, bytes))
}

/// Parameters, extents of inputs and of the output, and panels and their weights for each channel.
struct Shape {
    params: [u32; 24],
    inputs: [Option<[u32; 4]>; INPUTS],
    output: [u32; 4],
    panels: u64,
    k: Option<u64>,
    /// Channels of a panel, where it has fewer than kernels take at once.
    width: Option<u32>,
}

fn shape(random: &mut Random, kind: OpKind, isa: Isa) -> Shape {
    let dims: [u32; 4] = from_fn(|_| number(random));
    let mut shape = Shape {
        params: [0; 24],
        inputs: [Some(dims), None, None],
        output: dims,
        panels: 0,
        k: None,
        width: None,
    };
    let nr = isa.panel() as u64;
    if matches!(kind, OpKind::Conv | OpKind::Gather | OpKind::Lookup) && random.below(3) == 0 {
        shape.width = Some(1 + random.below(isa.panel() - 1) as u32);
    }
    let width = shape.width.map_or(nr, u64::from);
    match kind {
        OpKind::Conv | OpKind::Depthwise | OpKind::Winograd | OpKind::Pool => {
            windowed(random, kind, isa, &mut shape);
        }
        OpKind::Binary => {
            shape.inputs[1] = Some(dims.map(|dim| if random.below(3) == 0 { 1 } else { dim }));
            shape.params = params_words(&BinaryParams {
                op: random.below(10) as u32,
                ..BinaryParams::default()
            });
        }
        OpKind::Where => {
            for slot in [1, 2] {
                shape.inputs[slot] =
                    Some(dims.map(|dim| if random.below(3) == 0 { 1 } else { dim }));
            }
        }
        OpKind::Integer => {
            let op = random.below(IntegerOp::ALL.len()) as u32;
            if IntegerOp::from_code(op).is_some_and(|op| op.operands() == 2) {
                shape.inputs[1] = Some(dims.map(|dim| if random.below(3) == 0 { 1 } else { dim }));
            }
            shape.params = params_words(&IntegerParams { op, ..IntegerParams::default() });
        }
        OpKind::Fold => {
            let [outer, reduce, inner] = from_fn(|_| number(random));
            shape.inputs[0] = Some([1, outer, reduce, inner]);
            shape.output = [1, 1, outer, inner];
            let op = random.below(FoldOp::ALL.len()) as u32;
            let p = FoldParams { outer, reduce, inner, op, last: random.below(2) as u32 };
            shape.params = params_words(&p);
        }
        OpKind::TopK => {
            let [outer, reduce, inner, count] = from_fn(|_| number(random));
            let [largest, integers] = from_fn(|_| random.below(2) as u32);
            shape.inputs[0] = Some([1, outer, reduce, inner]);
            shape.output = [1, outer, count, inner];
            let p = TopKParams { outer, reduce, inner, count, largest, integers };
            shape.params = params_words(&p);
        }
        OpKind::Suppress => {
            let [images, classes, boxes, count] = from_fn(|_| number(random));
            shape.inputs[0] = Some([1, images, boxes, 4]);
            shape.inputs[1] = Some([images, classes, 1, boxes]);
            shape.output = [1, images, classes, count];
            let (overlap, score, centers) = (0.5, 0.0, random.below(2) as u32);
            let p = SuppressParams { images, classes, boxes, count, overlap, score, centers };
            shape.params = params_words(&p);
        }
        OpKind::Scatter => {
            let [entries, count, cols] = from_fn(|_| number(random));
            shape.inputs = [[entries, cols], [count, 1], [count, cols]]
                .map(|[rows, cols]| Some([1, 1, rows, cols]));
            shape.output = [1, 1, entries, cols];
            let op = random.below(ScatterOp::ALL.len()) as u32;
            shape.params = params_words(&ScatterParams { entries, op });
        }
        OpKind::Lrn => {
            let (alpha, beta, bias) = (1.0, 0.75, 1.0);
            shape.params = params_words(&LrnParams { size: number(random), alpha, beta, bias });
        }
        OpKind::Copy => {
            let mut six = |zeros: usize| -> [u32; 6] {
                from_fn(|at| if at < zeros { 1 } else { number(random) })
            };
            let (dims, src, dst) = (six(2), six(0), six(0));
            let mut p = CopyParams { dims, src, dst, ..CopyParams::default() };
            if random.below(4) == 0 {
                shape.inputs[0] = None;
                p = CopyParams { dims: [1; 6], filled: 1, ..CopyParams::default() };
            }
            shape.params = params_words(&p);
            shape.output = from_fn(|_| number(random));
        }
        OpKind::MatMul => {
            let [batch, m, k, n] = from_fn(|_| number(random));
            shape.inputs = [Some([1, batch, m, k]), Some([1, batch, k, n]), None];
            shape.output = [1, batch, m, n];
            // Strides that are taken no time may be anything.
            let mut stride = |times: u32, usual: u32| match times {
                1 => number(random),
                _ => usual,
            };
            shape.params = params_words(&MatMulParams {
                scale: 1.0,
                batch,
                m,
                k,
                n,
                batch_stride: [m.wrapping_mul(k), k.wrapping_mul(n)]
                    .map(|usual| stride(batch, usual)),
                row_stride: [stride(m, k), stride(k, n)],
                col_stride: [stride(k, 1), stride(n, 1)],
            });
        }
        OpKind::Reduce => {
            let [outer, reduce, inner] = from_fn(|_| number(random));
            shape.inputs[0] = Some([1, outer, reduce, inner]);
            shape.output = [1, 1, outer, inner];
            shape.params =
                params_words(&ReduceParams { outer, reduce, inner, op: random.below(7) as u32 });
        }
        OpKind::LayerNorm => (shape.panels, shape.k) = (1, Some(u64::from(dims[3]))),
        OpKind::Gather => {
            let entries = number(random);
            shape.inputs[0] = Some([1, dims[0], dims[1], 1]);
            shape.output = [1, dims[0], dims[1], dims[3]];
            (shape.panels, shape.k) = (u64::from(dims[3]).div_ceil(width), Some(entries.into()));
            shape.params = params_words(&GatherParams { entries });
        }
        OpKind::Lookup => {
            let entries = number(random);
            shape.inputs[0] = Some([1, dims[0], dims[1], 1]);
            shape.output = [1, dims[0], dims[1], dims[3]];
            (shape.panels, shape.k) =
                (u64::from(entries).div_ceil(width), Some(u64::from(dims[3])));
            shape.params = params_words(&LookupParams { entries, scale: 1.0 });
        }
        OpKind::Take => {
            let rows = dims[..3].iter().fold(1u32, |n, dim| n.wrapping_mul(*dim));
            shape.output = [1, number(random), number(random), dims[3]];
            match random.below(2) {
                0 => shape.inputs[1] = Some([1, shape.output[1], shape.output[2], 1]),
                _ => {
                    let indices = u64::from(shape.output[1]) * u64::from(shape.output[2]);
                    (shape.panels, shape.k) = (1, Some(indices));
                }
            }
            shape.params = params_words(&TakeParams { entries: rows });
        }
        OpKind::Resample => {
            let axis = 1 + random.below(2);
            let [taps, reach] = from_fn(|_| number(random));
            shape.output[axis] = number(random);
            let k = u64::from(shape.output[axis]).saturating_mul(1 + u64::from(taps));
            (shape.panels, shape.k) = (1, Some(k));
            shape.params = params_words(&ResampleParams {
                axis: axis as u32,
                taps,
                reach,
                step: from_fn(|_| number(random)),
                shift: number(random) as i32,
                outside: 0.0,
            });
        }
        OpKind::GridSample => {
            let (mode, padding) = (random.below(3) as u32, random.below(3) as u32);
            let depth = if random.below(4) == 0 { number(random) } else { 1 };
            let p = GridSampleParams { mode, padding, align_corners: padding % 2, depth };
            shape.output = [dims[0], number(random), number(random), dims[3]];
            let [images, height, width, _] = shape.output;
            shape.inputs[1] = Some([images, height, width, 2 + random.below(2) as u32]);
            shape.params = params_words(&p);
        }
        OpKind::Recurrent => {
            let (cell, hidden, batch) = (random.below(3) as u32, number(random), number(random));
            let p = RecurrentParams { cell, hidden, ..RecurrentParams::default() };
            let time = number(random);
            let channels = |count: u32| hidden.wrapping_mul(count);
            shape.inputs[0] = Some([1, time, batch, channels(p.gates())]);
            shape.output = [1, time, batch, channels(p.states())];
            shape.inputs[1] = (random.below(2) == 0).then_some([1, 1, batch, shape.output[3]]);
            (shape.panels, shape.k) = (1, Some(p.floats(isa.panel())));
            shape.params = params_words(&p);
        }
        OpKind::Unary | OpKind::Softmax => {}
    }
    shape
}

/// Parameters and the output of an operator that reads by windows.
fn windowed(random: &mut Random, kind: OpKind, isa: Isa, shape: &mut Shape) {
    let dims = shape.output;
    let nr = isa.panel() as u64;
    let width = shape.width.map_or(nr, u64::from);
    let windowed = |random: &mut Random, channels| {
        [dims[0], number(random), number(random), if channels { dims[3] } else { number(random) }]
    };
    match kind {
        OpKind::Conv | OpKind::Depthwise => {
            let depthwise = kind == OpKind::Depthwise;
            shape.output = windowed(random, depthwise);
            let group = [dims[3], 1 + random.below(8) as u32][random.below(2)];
            let groups = if depthwise { (dims[3] / group).max(1) } else { number(random) };
            let [kernel, stride, dilation] = from_fn(|_| pair(random));
            let p = ConvParams { kernel, stride, dilation, pad: pad(random), groups, chains: 0 };
            let channels = u64::from(dims[3] / groups.max(1));
            let in_group = u64::from(shape.output[3] / groups.max(1)).div_ceil(width);
            let panels = u64::from(dims[3]).div_ceil(nr);
            shape.panels = if depthwise { panels } else { u64::from(groups) * in_group };
            shape.k = (u64::from(kernel[0]) * u64::from(kernel[1])).checked_mul(channels);
            shape.params = params_words(&p);
            if random.below(4) == 0 {
                shape.inputs[1] = Some(shape.output);
            }
        }
        OpKind::Winograd => {
            shape.output = windowed(random, false);
            let (tile, groups) = (2 << random.below(2), number(random));
            let p = WinogradParams { tile, pad: pad(random), groups };
            let in_group = u64::from(shape.output[3] / groups).div_ceil(nr);
            shape.panels = u64::from(groups) * in_group;
            shape.k = Some(u64::from((tile + 2) * (tile + 2)) * u64::from(dims[3] / groups));
            shape.params = params_words(&p);
        }
        OpKind::Pool => {
            shape.output = windowed(random, true);
            let [kernel, stride, dilation] = from_fn(|_| pair(random));
            let [average, count_include_pad] = from_fn(|_| random.below(2) as u32);
            let (pad, pad_end) = (pad(random), pad(random));
            let p =
                PoolParams { average, kernel, stride, dilation, pad, pad_end, count_include_pad };
            shape.params = params_words(&p);
        }
        _ => unreachable!("an operator without windows"),
    }
}

/// A layer that `open` accepts, with its tensors and the bytes of their buffers.
struct Accepted {
    layer: Layer,
    inputs: [Tensor; INPUTS],
    output: Tensor,
    bytes: [u64; INPUTS + 1],
}

fn accepted(random: &mut Random, kind: OpKind, isa: Isa) -> Option<Accepted> {
    let shape = shape(random, kind, isa);
    let (mut inputs, mut ids, mut bytes) =
        ([Tensor::default(); INPUTS], [NONE; INPUTS], [0; INPUTS + 1]);
    for slot in 0..INPUTS {
        let Some(dims) = shape.inputs[slot] else { continue };
        (inputs[slot], bytes[slot]) = tensor(random, slot as u32, dims)?;
        ids[slot] = slot as u32;
    }
    let (output, last) = tensor(random, INPUTS as u32, shape.output)?;
    bytes[INPUTS] = last;
    let encoding = if kind.has_panels() { Encoding::ALL[random.below(4)] } else { Encoding::F32 };
    let panel_bytes = match (kind, shape.k) {
        (OpKind::Take, Some(k)) => k.checked_mul(4)?.checked_next_multiple_of(32)?,
        (OpKind::LayerNorm, Some(k)) => (8 * k).next_multiple_of(32),
        (OpKind::Resample | OpKind::Recurrent, Some(k)) => {
            k.checked_mul(4)?.checked_next_multiple_of(32)?
        }
        (_, Some(k)) => {
            let width = shape.width.map_or(isa.panel(), |width| width as usize);
            encoding.panel_bytes(k, width, isa.panel())?
        }
        (_, None) => 0,
    };
    let activation = Activation { kind: ActivationKind::Clamp as u32, alpha: -1.0, beta: 6.0 };
    let layer = Layer {
        kind: kind as u32,
        inputs: ids,
        output: INPUTS as u32,
        activation: match kind {
            OpKind::Copy | OpKind::Where | OpKind::Recurrent | OpKind::Integer | OpKind::Fold => {
                Activation::NONE
            }
            OpKind::TopK | OpKind::Suppress | OpKind::Scatter => Activation::NONE,
            _ => activation,
        },
        panels: u32::try_from(shape.panels).ok()?,
        panel_bytes: u32::try_from(panel_bytes).ok()?,
        width: shape.width.unwrap_or(0),
        encoding: encoding as u32,
        weights: 0,
        params: shape.params,
    };
    let buffers = [bytes[0] / 4, bytes[INPUTS] / 4];
    validate(&layer, &inputs, &output, buffers, isa).ok()?;
    Some(Accepted { layer, inputs, output, bytes })
}

/// A step of it that `open` accepts.
fn slice(random: &mut Random, case: &Accepted, isa: Isa) -> Option<Slice> {
    let Accepted { layer, inputs, output, .. } = case;
    let rows = u32::try_from(output.rows()).ok()?;
    let mut some = |all: u32, unit: u32| match random.below(3) {
        0 => (0, all),
        1 => {
            let count = unit.saturating_mul(1 + random.below(3) as u32).min(all);
            ((all - count) / unit * unit, count)
        }
        _ => (0, unit.min(all)),
    };
    let line = output.dims[2].checked_mul(2)?;
    let (row, rows) = some(rows, if layer.kind == OpKind::Winograd as u32 { line } else { 1 });
    let (first, count) = if layer.panels > 0 { some(layer.panels, 1) } else { (0, 0) };
    let algorithm = if random.below(4) == 0 { 2 << random.below(2) } else { 0 };
    let slice = Slice { first, count, row, rows, method: Method::by(algorithm) };
    validate_slice(&Problem { layer, inputs, output, slice, threads: 1, isa }).ok().map(|()| slice)
}

/// Lines of rings for tensors that little memory does not hold, 0 for those that lie whole, and the bytes of all.
fn rings(case: &Accepted) -> ([u32; INPUTS + 1], [u64; INPUTS + 1]) {
    let mut rings = [0u32; INPUTS + 1];
    let mut sizes = case.bytes;
    for (at, tensor) in case.inputs.iter().chain([&case.output]).enumerate() {
        let [images, height, width, _] = tensor.dims;
        if sizes[at] > 4 * MOST && images == 1 {
            let line = ring_bytes(1, width, tensor.pitch).max(1);
            // Where not even a line fits it stays too large.
            rings[at] = (2 * MOST / line).min(height.into()) as u32;
            if rings[at] > 0 {
                sizes[at] = ring_bytes(rings[at], width, tensor.pitch);
            }
        }
    }
    (rings, sizes)
}

/// Computes the step where little memory holds it: whole buffers, or rings that the step fits.
fn run_step(case: &Accepted, slice: &Slice, isa: Isa, threads: u32) -> bool {
    let Accepted { layer, inputs, output, .. } = case;
    let tensors = [&inputs[0], &inputs[1], &inputs[2], output];
    let (rings, sizes) = rings(case);
    let problem = Problem { layer, inputs, output, slice: *slice, threads, isa };
    let scratch = least_scratch_bytes(&problem);
    let held = weights(layer, &inputs[0], slice, isa);
    let weights = (held.end - held.start) / 4;
    let small = sizes.iter().all(|bytes| *bytes <= 4 * MOST) && scratch <= 4 * MOST;
    let ringed = rings.iter().zip(tensors).all(|(lines, tensor)| {
        *lines == 0 || u64::from(tensor.offset) + u64::from(tensor.cols()) <= tensor.pitch.into()
    });
    let work = work(layer, inputs, output);
    let macs = u128::from(work.macs) * u128::from(slice.rows) / u128::from(output.rows());
    if !small || !ringed || weights > MOST || macs > MOST_MACS {
        return false;
    }
    if validate_rings(&problem, rings).is_err() {
        return false;
    }
    let copies = layer.kind == OpKind::Copy as u32;
    let shape = |at: usize| -> [usize; 4] {
        let (tensor, lines) = (tensors[at], rings[at]);
        let rows = match lines {
            0 => tensor.rows(),
            lines => u64::from(lines) * u64::from(tensor.dims[2]),
        } as usize;
        let floats = sizes[at] as usize / 4;
        match copies {
            true => [0, 1, floats, floats],
            false => [tensor.offset as usize, rows, tensor.cols() as usize, tensor.pitch as usize],
        }
    };
    let data: Vec<Vec<f32>> = sizes.iter().map(|bytes| floats(*bytes as usize / 4, 1)).collect();
    let packed = floats(weights as usize, 2);
    for kernels in available().into_iter().filter(|kernels| kernels.isa() == isa) {
        let mut out = data[INPUTS].clone();
        let mut lines = memory(scratch);
        let operand = |at: usize| match layer.inputs[at] {
            NONE => Operand::Absent,
            _ => {
                let [offset, rows, cols, pitch] = shape(at);
                Operand::Mat(MatRef::new(&data[at][offset..], rows, cols, pitch).unwrap())
            }
        };
        let [offset, rows, cols, pitch] = shape(INPUTS);
        run(Call {
            layer,
            inputs: *inputs,
            output: *output,
            operands: from_fn(operand),
            out: MatMut::new(&mut out[offset..], rows, cols, pitch).unwrap(),
            weights: Packed::new(&packed),
            prefetch: Prefetch::default(),
            first: slice.first as usize,
            count: slice.count as usize,
            method: slice.method,
            rows: slice.row as usize..slice.row as usize + slice.rows as usize,
            scratch: cast_slice_mut(&mut lines),
            device: &Threads(threads as usize),
            kernels,
        });
    }
    true
}

/// The least scratch for each number of threads, and the most of these.
fn least_on_any(problem: &Problem<'_>) -> u64 {
    let on = |threads: u32| {
        let problem = problem.on(threads);
        match Expansion::new(&problem) {
            Some(of) => of.bytes(&problem, Want::Least, || of.own_operator(&problem)),
            None => operator_scratch_bytes(&problem, Want::Least),
        }
    };
    (1..=problem.threads).map(on).max().unwrap_or(0)
}

/// Some layers of each operator are accepted, and some of these are run.
#[test]
fn what_is_accepted_never_overflows() {
    let mut random = Random::new(41);
    let rounds = if cfg!(miri) { 60 } else { 20_000 };
    for kind in (1..).map_while(OpKind::from_code) {
        let (mut steps, mut run) = (0, 0);
        for round in 0..rounds {
            let isa = if round % 2 == 0 { Isa::Portable } else { Kernels::best().isa() };
            let Some(case) = accepted(&mut random, kind, isa) else { continue };
            let Accepted { layer, inputs, output, .. } = &case;
            let _ = (row_unit(layer, output), slides(layer, output), work(layer, inputs, output));
            let Some(slice) = slice(&mut random, &case, isa) else { continue };
            let threads = 1 + round % 3;
            let problem = Problem { layer, inputs, output, slice, threads, isa };
            assert!(scratch_bytes(&problem) >= least_scratch_bytes(&problem));
            let many = problem.on(1 + random.below(16) as u32);
            let least = least_scratch_bytes(&many);
            assert_eq!(least, least_on_any(&many), "{many:?}");
            // `open` asks once for steps that differ in their first row.
            assert_eq!(least_scratch_bytes(&many.of(Slice { row: 0, ..slice })), least);
            for (input, rows) in inputs.iter().zip(rows_read(layer, inputs, output, &slice)).take(1)
            {
                assert!(rows.start <= rows.end && rows.end <= input.rows(), "{layer:?}");
            }
            steps += 1;
            run += usize::from(run_step(&case, &slice, isa, threads));
        }
        assert!(cfg!(miri) || steps > 50 && run > 20, "{kind:?}: {steps} steps, {run} of them run");
    }
}
