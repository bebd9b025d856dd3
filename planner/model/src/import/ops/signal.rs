//! Transforms of signals and grids, as products with constant matrices.

use super::super::array::{Array, elements};
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{is_float, type_name};
use super::compose::ints;
use std::f64::consts::TAU;

/// Constant floats that serve a node.
fn constant(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    kind: DataType,
    shape: &[usize],
    value: impl Fn(usize) -> f64,
) -> Result<Operand, NodeProblem> {
    cx.charge_for(shape, size_of::<f64>() + size_of::<f32>())?;
    let data = (0..elements(shape).unwrap_or(0)).map(value).collect();
    let name = format!("{}/{suffix}", cx.name);
    let array = Array { shape: shape.to_vec(), data };
    Ok(Operand::Float(kind, cx.builder.constant(name, kind, array)))
}

/// One constant integer, if the input is there.
fn one(cx: &Context<'_, '_>, index: usize, role: &'static str) -> Result<Option<i64>, NodeProblem> {
    match cx.optional_integers(index, role)? {
        None => Ok(None),
        Some(array) => match array.data[..] {
            [value] => Ok(Some(value)),
            _ => Err(NodeProblem::shape(format!("`{role}` is not one number"))),
        },
    }
}

/// What a Fourier transform is of.
struct Transform {
    /// Entries, to which zeros are added where there are fewer.
    length: usize,
    /// Frequencies that are computed.
    kept: usize,
    /// Whether entries have an imaginary part.
    complex: bool,
    inverse: bool,
    /// The inverse of one side: entries stand for those of the other, too, and what is made is real.
    real: bool,
}

impl Transform {
    /// Real and imaginary parts of the frequencies, of entries with one or two parts: rows for these, columns for those.
    fn matrix(&self, at: usize) -> f64 {
        let parts = if self.complex { 2 } else { 1 };
        let columns = self.made() * self.kept;
        let (row, column) = (at / columns, at % columns);
        let (entry, from) = (row / parts, row % parts);
        let (frequency, to) = (column / self.made(), column % self.made());
        // Whole turns are left out, which keeps angles exact.
        let turn = (entry * frequency % self.length) as f64 / self.length as f64;
        let angle = if self.inverse { TAU * turn } else { -TAU * turn };
        let value = match (from, to) {
            (0, 0) | (1, 1) => angle.cos(),
            (0, _) => angle.sin(),
            _ => -angle.sin(),
        };
        let middle = entry == 0 || 2 * entry == self.length;
        let sides = if self.real && !middle { 2.0 } else { 1.0 };
        if self.inverse { sides * value / self.length as f64 } else { value }
    }

    /// Parts of what is made.
    fn made(&self) -> usize {
        if self.real { 1 } else { 2 }
    }

    /// Transforms the axis before the last, the last being the parts of entries.
    fn of(&self, cx: &mut Context<'_, '_>, x: Operand) -> Result<Operand, NodeProblem> {
        let shape = cx.shape_of(&x);
        let outer = &shape[..shape.len() - 2];
        let rows = shape[shape.len() - 2] * shape[shape.len() - 1];
        let count: usize = outer.iter().product();
        let flat = cx.shaped("entries", x.clone(), &[count, rows])?;
        let waves = [rows, self.made() * self.kept];
        let matrix = constant(cx, "waves", x.kind(), &waves, |at| self.matrix(at))?;
        let product = cx.serve("product", "MatMul", vec![flat, matrix], vec![])?;
        cx.shaped("frequencies", product, &[outer, &[self.kept, self.made()]].concat())
    }
}

/// The Fourier transform of one axis.
pub(super) fn dft(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.input(0, "input")?;
    let shape = cx.shape_of(&x);
    let attributes = cx.attributes();
    let rank = shape.len();
    let parts = match shape.last() {
        Some(parts @ (1 | 2)) if rank >= 2 => *parts,
        _ => {
            return Err(NodeProblem::shape(format!(
                "the shape {shape:?} does not end in 1 or 2, the parts of numbers"
            )));
        }
    };
    let along = match cx.opset < 20 {
        true => attributes.int_or("axis", 1)?,
        false => one(cx, 2, "axis")?.unwrap_or(-2),
    };
    let along = axis(along, rank)?;
    if along + 1 == rank {
        return Err(NodeProblem::attribute("axis", "is the last, the parts of numbers"));
    }
    let one_sided = attributes.flag("onesided", false)?;
    let inverse = attributes.flag("inverse", false)?;
    let real = one_sided && inverse;
    let length = match one(cx, 1, "dft_length")? {
        Some(given) => size("dft_length", given, 1)?,
        None if real => size("dft_length", 2 * (shape[along] as i64 - 1), 1)?,
        None => shape[along],
    };
    let half = length / 2 + 1;
    let read = shape[along].min(if real { half } else { length });
    let kept = if one_sided && !real { half } else { length };
    let x = match read == shape[along] {
        true => x,
        false => cx.chosen("read", x, along, &(0..read).collect::<Vec<_>>())?,
    };
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(along, rank - 2);
    let turn = |cx: &mut Context<'_, '_>, suffix: &str, x: Operand| match along == rank - 2 {
        true => Ok(x),
        false => cx.serve(suffix, "Transpose", vec![x], vec![ints("perm", &perm)]),
    };
    let turned = turn(cx, "turned", x)?;
    let transform = Transform { length, kept, complex: parts == 2, inverse, real };
    let made = transform.of(cx, turned)?;
    Ok(vec![turn(cx, "back", made)?])
}

/// The Fourier transforms of a signal's frames.
pub(super) fn stft(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.input(0, "signal")?;
    let shape = cx.shape_of(&x);
    let (batch, samples, parts) = match shape[..] {
        [batch, samples] => (batch, samples, 1),
        [batch, samples, parts @ (1 | 2)] => (batch, samples, parts),
        _ => {
            return Err(NodeProblem::shape(format!(
                "the shape {shape:?} is not batch, samples and 1 or 2 parts"
            )));
        }
    };
    let step = count(cx, 1, "frame_step")?;
    let window = cx.optional_float(2, "window")?;
    let length = match (one(cx, 3, "frame_length")?, window) {
        (Some(given), _) => size("frame_length", given, 1)?,
        (None, Some(window)) => cx.shape(window).first().copied().unwrap_or(0),
        (None, None) => return Err(NodeProblem::Missing { index: 3, role: "frame_length" }),
    };
    let room = samples.checked_sub(length).filter(|_| length > 0);
    let frames = room.map(|room| room / step + 1).ok_or_else(|| {
        NodeProblem::shape(format!("frames of {length} samples do not fit a signal of {samples}"))
    })?;
    let kind = x.kind();
    cx.charge(&[frames, length])?;
    let places: Vec<usize> =
        (0..frames * length).map(|at| at / length * step + at % length).collect();
    let chosen = cx.chosen("frames", x, 1, &places)?;
    let mut framed = cx.shaped("framed", chosen, &[batch, frames, length, parts])?;
    if let Some(window) = window {
        let window = cx.shaped("window", Operand::Float(kind, window), &[length, 1])?;
        framed = cx.serve("windowed", "Mul", vec![framed, window], vec![])?;
    }
    let one_sided = cx.attributes().flag("onesided", true)?;
    let kept = if one_sided { length / 2 + 1 } else { length };
    let transform = Transform { length, kept, complex: parts == 2, inverse: false, real: false };
    Ok(vec![transform.of(cx, framed)?])
}

/// The type of floats that an operator's constant is to have.
fn made_kind(cx: &Context<'_, '_>) -> Result<DataType, NodeProblem> {
    let given = i32::try_from(cx.attributes().int_or("output_datatype", 1)?).unwrap_or(0);
    let kind = DataType::try_from(given).ok().filter(|&kind| is_float(kind));
    kind.ok_or_else(|| {
        let reason = format!("is {}; export it as floats", type_name(given));
        NodeProblem::attribute("output_datatype", reason)
    })
}

/// One constant number of at least 1 that must be there.
fn count(cx: &Context<'_, '_>, index: usize, role: &'static str) -> Result<usize, NodeProblem> {
    let given = one(cx, index, role)?.ok_or(NodeProblem::Missing { index, role })?;
    size(role, given, 1)
}

/// Weights that gather the frequencies of a Fourier transform into bands, as wide as ears tell them apart: triangles on the
/// mel scale, a column each.
pub(super) fn mel_weights(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let bands = count(cx, 0, "num_mel_bins")?;
    let length = count(cx, 1, "dft_length")?;
    let rate = count(cx, 2, "sample_rate")?;
    let edge = |index, role| {
        let given = cx.optional_scalar(index, role)?;
        given.map(f64::from).ok_or(NodeProblem::Missing { index, role })
    };
    let edges = [edge(3, "lower_edge_hertz")?, edge(4, "upper_edge_hertz")?];
    let kind = made_kind(cx)?;
    let shape = [length / 2 + 1, bands];
    cx.charge(&[bands + 2])?;
    let [low, high] = edges.map(|hertz| 2595.0 * (1.0 + hertz / 700.0).log10());
    let step = (high - low) / (bands + 2) as f64;
    // Between which frequencies each triangle lies: it begins at one, and ends at the second after that.
    let bound = |at: usize| {
        let hertz = 700.0 * (10f64.powf((low + at as f64 * step) / 2595.0) - 1.0);
        let frequency = ((length + 1) as f64 * hertz / rate as f64).floor();
        (0.0..shape[0] as f64).contains(&frequency).then_some(frequency as usize)
    };
    let bounds: Option<Vec<usize>> = (0..bands + 2).map(bound).collect();
    let bounds = bounds.filter(|_| low <= high).ok_or_else(|| {
        NodeProblem::shape(format!(
            "from {} to {} Hz are not within the {} frequencies of {length} samples at {rate} Hz",
            edges[0], edges[1], shape[0]
        ))
    })?;
    let weight = |at: usize| {
        let (frequency, band) = (at / bands, at % bands);
        let [from, peak, to] = [0, 1, 2].map(|next| bounds[band + next]);
        match frequency {
            _ if frequency == peak && (from == peak || to == peak) => 1.0,
            _ if (from..peak).contains(&frequency) => {
                (frequency - from) as f64 / (peak - from) as f64
            }
            _ if (peak..to).contains(&frequency) => (to - frequency) as f64 / (to - peak) as f64,
            _ => 0.0,
        }
    };
    Ok(vec![constant(cx, "bands", kind, &shape, weight)?])
}

/// A window of cosines: the sum of these, by how often they turn.
pub(super) fn window(
    cx: &mut Context<'_, '_>,
    weights: &[f64],
) -> Result<Vec<Operand>, NodeProblem> {
    let length = count(cx, 0, "size")?;
    let kind = made_kind(cx)?;
    let periodic = cx.attributes().flag("periodic", true)?;
    let turn = if periodic { length } else { (length - 1).max(1) } as f64;
    let value = |at: usize| {
        let angle = TAU * at as f64 / turn;
        weights
            .iter()
            .enumerate()
            .map(|(times, weight)| weight * (angle * times as f64).cos())
            .sum()
    };
    Ok(vec![constant(cx, "window", kind, &[length], value)?])
}

/// The points of a grid, moved by a matrix for each image.
pub(super) fn affine_grid(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let theta = cx.input(0, "theta")?;
    let given = cx.few(1, "size")?;
    let extents: Option<Vec<usize>> =
        given.data.iter().map(|&extent| usize::try_from(extent).ok().filter(|&n| n > 0)).collect();
    let shape = cx.shape_of(&theta);
    let misfit = || {
        NodeProblem::shape(format!(
            "matrices of shape {shape:?} do not fit the size {:?}",
            given.data
        ))
    };
    let extents = extents.ok_or_else(misfit)?;
    let spatial = extents.get(2..).filter(|spatial| matches!(spatial.len(), 2 | 3));
    let spatial = spatial.ok_or_else(misfit)?.to_vec();
    let axes = spatial.len();
    if shape != [extents[0], axes, axes + 1] {
        return Err(misfit());
    }
    let corners = cx.attributes().flag("align_corners", false)?;
    let points = elements(&spatial).ok_or_else(misfit)?;
    // Of each point its place along every axis, the last axis first, and 1.
    let place = |at: usize| {
        let (mut point, column) = (at / (axes + 1), at % (axes + 1));
        if column == axes {
            return 1.0;
        }
        for &extent in spatial[axes - column..].iter().rev() {
            point /= extent;
        }
        let extent = spatial[axes - 1 - column];
        let index = (point % extent) as f64;
        match (corners, extent) {
            (true, 1) => 0.0,
            (true, _) => 2.0 * index / (extent - 1) as f64 - 1.0,
            (false, _) => (2.0 * index + 1.0) / extent as f64 - 1.0,
        }
    };
    let grid = constant(cx, "grid", theta.kind(), &[points, axes + 1], place)?;
    let turned = cx.serve("turned", "Transpose", vec![theta], vec![ints("perm", &[0, 2, 1])])?;
    let moved = cx.serve("moved", "MatMul", vec![grid, turned], vec![])?;
    let result = [&extents[..1], &spatial[..], &[axes]].concat();
    Ok(vec![cx.shaped("points", moved, &result)?])
}
