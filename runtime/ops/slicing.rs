//! The slices that a step can make of a layer: rows and panels, and the rings that they may lie in.

use super::conv::chains;
use super::{
    Addresses, LayerError, Operator, Panels, Problem, Reads, Slice, check, cuda, row, winograd,
};
use crate::pack::{INPUTS, Isa, Layer, Method, Tensor};

/// The rows of which steps of a (valid) layer make multiples, `None` where a step makes all of
/// them: one, but with Winograd whole lines of tiles ([`winograd::slice_lines`]).
pub fn row_unit(layer: &Layer, output: &Tensor) -> Option<u64> {
    (row(layer)?.row_unit)(layer, output)
}

/// Whether a (valid) layer's output may lie in a ring: where an input is found pixel by pixel, or
/// rows are copied.
pub fn slides(layer: &Layer, output: &Tensor) -> bool {
    row(layer).is_some_and(|operator| match operator.addresses {
        Addresses::Buffers => (operator.row_unit)(layer, output).is_some(),
        _ => operator.reads[0] != Reads::Whole,
    })
}

/// Refuses a slice that is not inside its (valid) layer, that cuts what cannot be cut, or whose
/// algorithm the layer cannot be computed by.
pub fn validate_slice(problem: &Problem<'_>) -> Result<(), LayerError> {
    let &Problem { layer, inputs, output, slice, isa, .. } = problem;
    validate_algorithm(problem)?;
    if slice.algorithm() != 0 && isa != Isa::Cuda {
        let plain = winograd::transformed(layer, &inputs[0], slice.algorithm(), isa)?;
        winograd::validate(&plain, inputs, output, isa)?;
        return validate_slice(&problem.with(&plain).of(slice.by_own()));
    }
    let operator = row(layer).ok_or(LayerError::Kind(layer.kind))?;
    if isa == Isa::Cuda {
        cuda::validate_slice(&slice, output)?;
    }
    validate_rows(layer, operator, output, &slice)?;
    let end = slice.first as u64 + slice.count as u64;
    check(end <= layer.panels as u64, "end of the step's panels", end, layer.panels as u64)?;
    if operator.panels == Panels::Whole {
        let (count, panels) = (slice.count as u64, layer.panels as u64);
        check(count == panels, "number of the step's panels", count, panels)?;
    }
    Ok(())
}

/// Refuses chains that the layer does not have.
fn validate_algorithm(problem: &Problem<'_>) -> Result<(), LayerError> {
    let &Problem { layer, inputs, slice, isa, .. } = problem;
    match slice.method {
        Method::Own | Method::Winograd { .. } => Ok(()),
        Method::Chains { first, count } => {
            let all = chains(layer, &inputs[0], isa).map_or(0, |chains| chains.count() as u64);
            let end = u64::from(first) + u64::from(count);
            check(end <= all, "end of the step's chains", end, all)?;
            check(count > 0, "chains of a step of some chains", count.into(), 1)?;
            check(slice.count == 1, "panels of a step of some chains", slice.count.into(), 1)
        }
    }
}

/// Refuses rows that are not the layer's, or that its steps cannot make by themselves.
fn validate_rows(
    layer: &Layer,
    operator: &Operator,
    output: &Tensor,
    slice: &Slice,
) -> Result<(), LayerError> {
    let end = slice.row as u64 + slice.rows as u64;
    check(slice.rows > 0, "number of the step's rows", 0, 1)?;
    check(end <= output.rows(), "end of the step's rows", end, output.rows())?;
    if u64::from(slice.rows) < output.rows() {
        let rows = slice.rows as u64;
        let unit = (operator.row_unit)(layer, output);
        let unit =
            unit.ok_or(LayerError::Field("number of the step's rows", rows, output.rows()))?;
        for row in [slice.row.into(), end] {
            let beyond = row % unit;
            check(beyond == 0, "end of the step's rows beyond whole blocks", beyond, 0)?;
        }
    }
    if let Some(unit) = operator.line_unit {
        let tiles = unit(layer);
        for row in [slice.row.into(), end] {
            let line = whole_lines(row, output)? % u64::from(output.dims[1]);
            let what = "first line of the step, or behind its last, which begins tiles,";
            check(line % u64::from(tiles) == 0, what, line, tiles.into())?;
        }
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

/// Refuses a (valid) slice whose operands cannot lie in rings of these lines: those of the inputs
/// and the output, 0 for one that is whole or absent.
pub fn validate_rings(problem: &Problem<'_>, rings: [u32; INPUTS + 1]) -> Result<(), LayerError> {
    let &Problem { layer, inputs, output, slice, .. } = problem;
    if rings == [0; INPUTS + 1] {
        return Ok(());
    }
    let operator = row(layer).ok_or(LayerError::Kind(layer.kind))?;
    let reads = operator.reads;
    let whole = (0..INPUTS).any(|slot| rings[slot] > 0 && reads[slot] == Reads::Whole);
    check(slides(layer, output) && !whole, "operator that works in a ring", layer.kind.into(), 0)?;
    let read = inputs.iter().zip(reads).map(|(input, reads)| (input, reads == Reads::Rows));
    for ((tensor, by_rows), lines) in read.chain([(output, true)]).zip(rings) {
        if lines == 0 || !by_rows {
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
