//! What of a layer a step can make: which of its rows and panels, and in which rings.

use super::{LayerError, Reads, check, copy, cuda, expand, reads, winograd};
use crate::kernels::Isa;
use crate::pack::{Layer, OpKind, Tensor};
use core::ops::Range;

/// The part of a layer that a step makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First panel.
    pub first: u32,
    /// Panels.
    pub count: u32,
    /// First output row.
    pub row: u32,
    /// Output rows.
    pub rows: u32,
    /// [`Step::algorithm`](crate::pack::Step::algorithm).
    pub algorithm: u32,
}

impl Slice {
    /// The output rows.
    pub fn made(&self) -> Range<u64> {
        let row = u64::from(self.row);
        row..row + u64::from(self.rows)
    }
}

/// The rows of which steps of a (valid) layer make multiples, `None` where a step makes all of them: one, but with Winograd whole lines
/// of tiles ([`winograd::slice_lines`]).
pub fn row_unit(layer: &Layer, output: &Tensor) -> Option<u64> {
    match OpKind::from_code(layer.kind)? {
        OpKind::Reduce => None,
        OpKind::Copy => copy::row_unit(layer, output),
        _ => Some(1),
    }
}

/// Whether a (valid) layer's output may lie in a ring: where an input is found pixel by pixel, or rows are copied.
pub fn slides(layer: &Layer, output: &Tensor) -> bool {
    match OpKind::from_code(layer.kind) {
        Some(OpKind::Copy) => row_unit(layer, output).is_some(),
        kind => kind.is_some_and(|kind| reads(kind)[0] != Reads::Whole),
    }
}

/// Refuses a slice that is not inside its (valid) layer, that cuts what cannot be cut, or whose algorithm the
/// layer cannot be computed by.
pub fn validate_slice(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    isa: Isa,
) -> Result<(), LayerError> {
    if slice.algorithm != 0 && isa != Isa::Cuda {
        let plain = expand::transformed(layer, &inputs[0], slice.algorithm, isa)?;
        winograd::validate(&plain, inputs, output, isa)?;
        return validate_slice(&plain, inputs, output, &Slice { algorithm: 0, ..*slice }, isa);
    }
    let kind = OpKind::from_code(layer.kind).ok_or(LayerError::Kind(layer.kind))?;
    if isa == Isa::Cuda {
        cuda::validate_slice(slice, output)?;
    }
    let end = slice.row as u64 + slice.rows as u64;
    check(slice.rows > 0, "number of the step's rows", 0, 1)?;
    check(end <= output.rows(), "end of the step's rows", end, output.rows())?;
    if u64::from(slice.rows) < output.rows() {
        let rows = slice.rows as u64;
        let unit = row_unit(layer, output);
        let unit =
            unit.ok_or(LayerError::Field("number of the step's rows", rows, output.rows()))?;
        for row in [slice.row.into(), end] {
            let beyond = row % unit;
            check(beyond == 0, "end of the step's rows beyond whole blocks", beyond, 0)?;
        }
    }
    if kind == OpKind::Winograd {
        let tiles = winograd::slice_lines(layer);
        for row in [slice.row.into(), end] {
            let line = whole_lines(row, output)? % u64::from(output.dims[1]);
            let what = "first line of the step, or behind its last, which begins tiles,";
            check(line % u64::from(tiles) == 0, what, line, tiles.into())?;
        }
    }
    let end = slice.first as u64 + slice.count as u64;
    check(end <= layer.panels as u64, "end of the step's panels", end, layer.panels as u64)?;
    if !kind.has_panels() {
        let (count, panels) = (slice.count as u64, layer.panels as u64);
        check(count == panels, "number of the step's panels", count, panels)?;
    }
    Ok(())
}

/// The line, over all images, that a row begins. Refuses one that does not.
fn whole_lines(row: u64, tensor: &Tensor) -> Result<u64, LayerError> {
    let width = u64::from(tensor.dims[2]);
    let (line, beyond) = (row / width, row % width);
    check(beyond == 0, "end of the step's rows beyond whole lines", beyond, 0)?;
    Ok(line)
}

/// Refuses a (valid) slice whose operands cannot lie in rings of so many lines, where they do: of the inputs and
/// the output, 0 for one that is whole or absent.
pub fn validate_rings(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    rings: [u32; 3],
) -> Result<(), LayerError> {
    if rings == [0; 3] {
        return Ok(());
    }
    let kind = OpKind::from_code(layer.kind).ok_or(LayerError::Kind(layer.kind))?;
    let reads = reads(kind);
    let whole = (0..2).any(|slot| rings[slot] > 0 && reads[slot] == Reads::Whole);
    check(slides(layer, output) && !whole, "operator that works in a ring", layer.kind.into(), 0)?;
    let [a, b] = [0, 1].map(|slot| (&inputs[slot], reads[slot] == Reads::Rows));
    for ((tensor, beside), lines) in [a, b, (output, true)].into_iter().zip(rings) {
        if lines == 0 || !beside {
            continue;
        }
        for dim in 0..3 {
            let (found, limit) = (tensor.dims[dim].into(), output.dims[dim].into());
            check(found == limit, "extent of a ring that is read row by row", found, limit)?;
        }
        let first = whole_lines(slice.row.into(), output)?;
        let count = whole_lines(slice.rows.into(), output)?;
        let end = first % u64::from(lines) + count;
        check(end <= lines.into(), "end of the step's lines in a ring", end, lines.into())?;
    }
    Ok(())
}
