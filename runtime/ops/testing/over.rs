//! Outputs over the dead rows of an input: steps of some rows, each lent what it touches of one
//! memory that holds both.

use super::slide::{POISON, Slide};
use super::*;
use crate::kernels::table::Packed;
use crate::kernels::testing::scratch;
use crate::ops::rows_read;
use crate::pack::Method;

/// Floats from a tensor's first element to the end of its rows `..rows`.
fn floats(tensor: &Tensor, rows: u64) -> usize {
    let rows = rows as usize * tensor.pitch as usize;
    rows.saturating_sub((tensor.pitch - tensor.cols()) as usize)
}

/// The rows of a tensor, from this address on, of which some are lent.
///
/// # Safety
/// As [`MatRef::from_raw`] has it.
#[allow(unsafe_code)]
unsafe fn lend<'a>(data: *const f32, tensor: &Tensor, rows: &Range<u64>) -> MatRef<'a> {
    let (cols, pitch) = (tensor.cols() as usize, tensor.pitch as usize);
    let lent = rows.start as usize..rows.end as usize;
    // SAFETY: the caller's.
    unsafe { MatRef::from_raw(data, tensor.rows() as usize, cols, pitch, lent) }
}

impl Slide<'_> {
    /// Where input `slot` and the output begin in one memory, in floats: the output over the rows that no step needs any more.
    fn laid(&self, slot: usize, slices: &[Slice]) -> [usize; 2] {
        let before = slices.iter().map(|slice| {
            let read = rows_read(self.layer, &self.inputs, &self.output, slice);
            let dead = read[slot].start * u64::from(self.inputs[slot].pitch);
            floats(&self.output, slice.made().end) as i64 - dead as i64
        });
        let before = before.max().unwrap_or(0);
        [before, -before].map(|floats| floats.max(0) as usize)
    }

    /// The floats of input `slot` in a memory of its own, poisoned but for some rows.
    fn lent(&self, slot: usize, rows: &Range<u64>) -> Vec<f32> {
        let mut memory = vec![POISON; self.data[slot].len()];
        let pitch = self.inputs[slot].pitch as usize;
        for row in rows.clone() {
            let at = row as usize * pitch..floats(&self.inputs[slot], row + 1);
            memory[at.clone()].copy_from_slice(&self.data[slot][at]);
        }
        memory
    }

    /// Makes the output, dense, in steps of such rows, laid over the rows of input `slot` that no
    /// step needs any more, as near to it as may be; with the layer's other operands in memories of
    /// their own, poisoned where they are not to be read.
    #[allow(unsafe_code)]
    pub(super) fn run_over(
        &self,
        kernels: &Kernels,
        threads: usize,
        slot: usize,
        steps: &[Range<u32>],
    ) -> Vec<f32> {
        let (layer, output) = (self.layer, &self.output);
        let slices: Vec<Slice> = steps
            .iter()
            .map(|step| {
                let (row, rows) = (step.start, step.len() as u32);
                let method = Method::by(self.algorithm);
                Slice { first: 0, count: layer.panels, row, rows, method }
            })
            .collect();
        let read = |slice: &Slice| rows_read(layer, &self.inputs, output, slice);
        let [from, to] = self.laid(slot, &slices);
        let input = &self.inputs[slot];
        let end = (from + floats(input, input.rows())).max(to + floats(output, output.rows()));
        let mut memory = vec![POISON; end];
        let there = floats(input, input.rows());
        memory[from..from + there].copy_from_slice(&self.data[slot][..there]);
        let (cols, pitch) = (output.cols() as usize, output.pitch as usize);
        let dense = |memory: &[f32], rows: Range<u64>| -> Vec<f32> {
            let rows = rows.map(|row| &memory[to + row as usize * pitch..][..cols]);
            rows.flatten().copied().collect()
        };
        for slice in &slices {
            let problem = self.problem(*slice, threads, kernels.isa());
            validate_slice(&problem).unwrap();
            if layer.inputs.contains(&layer.output) {
                for row in slice.made().map(|row| row as usize * pitch) {
                    memory[to + row..][..cols].copy_from_slice(&self.out[row..][..cols]);
                }
            }
            let read = read(slice);
            let others: [_; INPUTS] = core::array::from_fn(|at| self.lent(at, &read[at]));
            let base = memory.as_mut_ptr();
            let operand = |at: usize| match layer.inputs[at] {
                NONE => Operand::Absent,
                id if id == layer.output => Operand::Output,
                _ => {
                    let data = if at == slot {
                        base.wrapping_add(from).cast_const()
                    } else {
                        others[at].as_ptr()
                    };
                    // SAFETY: the rows that are lent are in the memory, and apart from the
                    // output's: so was it laid.
                    Operand::Mat(unsafe { lend(data, &self.inputs[at], &read[at]) })
                }
            };
            let rows = slice.row as usize..(slice.row + slice.rows) as usize;
            let out = base.wrapping_add(to);
            crate::ops::run(Call {
                layer,
                inputs: self.inputs,
                output: self.output,
                operands: core::array::from_fn(operand),
                // SAFETY: as above.
                out: unsafe {
                    MatMut::from_raw(out, output.rows() as usize, cols, pitch, rows.clone())
                },
                weights: Packed::new(self.weights),
                prefetch: Default::default(),
                first: 0,
                count: layer.panels as usize,
                method: slice.method,
                rows,
                scratch: bytemuck::cast_slice_mut(&mut scratch(scratch_bytes(&problem))),
                device: &Threads(threads),
                kernels,
            });
        }
        dense(&memory, 0..output.rows())
    }

    /// Steps of several sizes, also of several images and of parts of lines, over each input that
    /// is read by windows or rows, on several numbers of threads, make the bits of `whole`.
    pub(super) fn check_over(&self, kernels: &Kernels, whole: &[f32], what: &str) {
        let kind = OpKind::from_code(self.layer.kind).unwrap();
        let [images, height, width, _] = self.output.dims;
        let unit = self.unit();
        for slot in 0..INPUTS {
            let input = &self.inputs[slot];
            let slides = match reads(kind)[slot] {
                Reads::Window => true,
                Reads::Rows => input.dims[..3] == self.output.dims[..3],
                Reads::Whole => false,
            };
            if [NONE, self.layer.output].contains(&self.layer.inputs[slot]) || !slides {
                continue;
            }
            for (lines, threads) in [(1, 1), (2, 3), (3, 2)] {
                // Tiles begin anew with each image.
                let each = lines * unit * width;
                let of_image = |image: u32| {
                    let (start, end) = (image * height * width, (image + 1) * height * width);
                    (start..end).step_by(each as usize).map(move |at| at..(at + each).min(end))
                };
                let mut ways = vec![(0..images).flat_map(of_image).collect::<Vec<_>>()];
                if unit == 1 {
                    let (each, end) = (each + width.div_ceil(2), images * height * width);
                    ways.push(
                        (0..end)
                            .step_by(each as usize)
                            .map(|at| at..(at + each).min(end))
                            .collect(),
                    );
                }
                for steps in ways {
                    let made = self.run_over(kernels, threads, slot, &steps);
                    let how = format!(
                        "{what}: over input {slot}, steps of {} rows, {threads} threads",
                        steps[0].len()
                    );
                    assert_same(&made, whole, &how);
                }
            }
        }
    }
}

/// So little that an interpreter is through with it soon.
#[test]
fn windows_over_their_own_lines() {
    let case = crate::ops::conv::testing::case([1, 3, 2, 1], 1, [3, 1]).pad([1, 0]);
    case.check();
    case.depthwise().check();
}
