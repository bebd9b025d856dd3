//! The inputs of a step, image by image, and their frequencies.

use super::block::Block;
use crate::device::{self, Device, Share, Split};
use crate::kernels::table::Patch;
use crate::matrix::{MatMut, MatRef};
use crate::ops::{Call, Operand};
use crate::pack::{WinogradParams, params};
use core::ops::Range;

/// The part of an image that the step reads.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    tile: usize,
    pad: [usize; 2],
    /// Height and width.
    extent: [usize; 2],
    pixels: MatRef<'a>,
    /// The line of the first outputs.
    line: usize,
}

/// Where transformed inputs go.
pub(super) struct Frequencies<'a> {
    /// The floats that pixels outside the image are read from.
    pub zeros: &'a [f32],
    /// The transformed inputs.
    pub floats: &'a mut [f32],
    /// Floats from one frequency to the next.
    pub stride: usize,
}

/// The images of which a step makes lines: the rows of each, over all images, and its inputs.
pub(super) fn images<'a>(
    call: &Call<'a>,
) -> impl Iterator<Item = (Range<usize>, Inputs<'a>)> + use<'a> {
    let Operand::Mat(input) = call.operands[0] else {
        unreachable!("`validate` refuses a convolution without an input of its own");
    };
    let p: WinogradParams = params(call.layer);
    let extent = |dims: [u32; 4]| [dims[1] as usize, dims[2] as usize];
    let (images, of) = (call.inputs[0].dims[0], extent(call.inputs[0].dims));
    let [height, width] = extent(call.output.dims);
    let (area, all) = (height * width, call.rows.clone());
    (all.start / area..all.end.div_ceil(area)).map(move |image| {
        let rows = all.start.max(image * area)..all.end.min((image + 1) * area);
        let pixels = match images {
            // All that there is in memory, which may be a ring of lines.
            1 => 0..input.rows(),
            _ => image * of[0] * of[1]..(image + 1) * of[0] * of[1],
        };
        let inputs = Inputs {
            tile: p.tile as usize,
            pad: p.pad.map(|pad| pad as usize),
            extent: of,
            pixels: input.cut(pixels, 0..input.cols()),
            line: (rows.start - image * area) / width,
        };
        (rows, inputs)
    })
}

impl Inputs<'_> {
    /// The inputs of outputs `lines` lines further down.
    pub(super) fn below(self, lines: usize) -> Self {
        Self { line: self.line + lines, ..self }
    }

    /// Transforms some channels of the tiles of a block.
    pub(super) fn transform(
        &self,
        call: &Call<'_>,
        device: &dyn Device,
        block: &Block,
        channels: Range<usize>,
        Frequencies { zeros, floats, stride }: Frequencies<'_>,
    ) {
        let Self { tile, pad, extent, pixels, line: above } = *self;
        let points = (tile + 2) * (tile + 2);
        let image = pixels.cut(0..pixels.rows(), channels.clone());
        let channels = channels.len();
        let all = MatMut::new(floats, points, block.count() * channels, stride);
        let all = all.unwrap_or_else(|| unreachable!("a block is no larger than its scratch"));
        device::divide(device, all, Split::Cols(channels), &mut [], 0, |share| {
            let Share { cols, mut out, .. } = share;
            for (slot, at) in (cols.start / channels..).zip((0..cols.len()).step_by(channels)) {
                let [line, col] = block.place(slot);
                let patch = Patch {
                    image,
                    height: extent[0],
                    width: extent[1],
                    top: (above + line) as i64 - pad[0] as i64,
                    left: col as i64 - pad[1] as i64,
                    outputs: block.outputs([line, col]),
                    zeros,
                };
                call.kernels.winograd_input(
                    tile,
                    &patch,
                    out.part_mut(0..points, at..at + channels),
                );
            }
        });
    }
}
