//! Windows of convolution and pooling, by Darknet's rules.

use super::error::DarknetError;
use super::keys::Keys;
use crate::graph::Window;

/// Height and width.
pub(super) type Extents = [usize; 2];

/// Strides of both axes.
fn stride(keys: &Keys<'_>, default: usize) -> Result<Extents, DarknetError> {
    let stride = keys.number("stride", default, 1)?;
    Ok([keys.number("stride_y", stride, 1)?, keys.number("stride_x", stride, 1)?])
}

/// The window of a convolution and the extents of its output: padded alike on all sides, by half
/// the size if `pad` is set.
pub(super) fn convolution(
    keys: &Keys<'_>,
    input: Extents,
) -> Result<(Window, Extents), DarknetError> {
    let size = keys.number("size", 1, 1)?;
    let stride = stride(keys, 1)?;
    let dilation = keys.number("dilation", 1, 1)?;
    let padding = match (keys.number("padding", 0, 0)?, keys.flag("pad")?) {
        (_, true) => size / 2,
        (padding, false) => padding,
    };
    // Darknet finds the output's extents without the dilation, and pads by it times as much.
    if dilation > 1 && (size % 2 == 0 || padding != size / 2) {
        return Err(keys.wrong("dilation", "needs an odd size and pad=1"));
    }
    let pad = dilation * padding;
    let reach = (size - 1) * dilation + 1;
    let mut output = [0; 2];
    for axis in 0..2 {
        let padded = input[axis] + 2 * pad;
        output[axis] = match padded.checked_sub(reach) {
            Some(room) => room / stride[axis] + 1,
            None => {
                let reason =
                    format!("the filter reaches over {reach} places, and there are {padded}");
                return Err(keys.wrong("size", reason));
            }
        };
    }
    let window = Window {
        kernel: [size; 2],
        stride,
        dilation: [dilation; 2],
        pad_begin: [pad; 2],
        pad_end: [pad; 2],
    };
    Ok((window, output))
}

/// The window of a pool and the extents of its output. `padding` is that of both sides together,
/// the smaller half in front; behind the input there is as much as the last window reaches over.
pub(super) fn pool(keys: &Keys<'_>, input: Extents) -> Result<(Window, Extents), DarknetError> {
    let stride = stride(keys, 1)?;
    let size = keys.number("size", stride[0], 1)?;
    let padding = keys.number("padding", size - 1, 0)?;
    let mut window = Window {
        kernel: [size; 2],
        stride,
        dilation: [1; 2],
        pad_begin: [padding / 2; 2],
        pad_end: [0; 2],
    };
    let mut output = [0; 2];
    for axis in 0..2 {
        let padded = input[axis] + padding;
        let Some(room) = padded.checked_sub(size) else {
            let reason = format!("the window reaches over {size} places, and there are {padded}");
            return Err(keys.wrong("size", reason));
        };
        output[axis] = room / stride[axis] + 1;
        let covered = (output[axis] - 1) * stride[axis] + size;
        window.pad_end[axis] = covered.saturating_sub(input[axis] + window.pad_begin[axis]);
        if window.pad_begin[axis].max(window.pad_end[axis]) >= size {
            let reason = format!("a window of size {size} would lie in the padding alone");
            return Err(keys.wrong("padding", reason));
        }
    }
    Ok((window, output))
}
