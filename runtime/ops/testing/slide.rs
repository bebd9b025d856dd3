//! Layers that slide: steps of a few lines from rings into rings, against what the whole layer
//! makes.

use super::*;
use crate::kernels::table::Packed;
use crate::kernels::testing::scratch;
use crate::ops::{Problem, Reads, reads, row, rows_read, validate_rings};
use crate::pack::Method;

/// A layer over one image, with its tensors' floats from their first elements on.
pub struct Slide<'a> {
    pub layer: &'a Layer,
    pub inputs: [Tensor; INPUTS],
    pub output: Tensor,
    pub data: [&'a [f32]; INPUTS],
    /// The contents of the output before: the input of that layer, in place.
    pub out: &'a [f32],
    pub weights: &'a [f32],
    /// The algorithm of its steps.
    pub algorithm: u32,
}

/// A float that no operator may read or overwrite.
pub const POISON: f32 = 7e33;

/// The lines of input `slot` of which a step reads some rows.
fn lines_read(slide: &Slide<'_>, slot: usize, slice: &Slice) -> Range<usize> {
    let rows = &rows_read(slide.layer, &slide.inputs, &slide.output, slice)[slot];
    let width = u64::from(slide.inputs[slot].dims[2].max(1));
    (rows.start / width) as usize..rows.end.div_ceil(width) as usize
}

/// Part of the floats of a tensor: a line.
fn line(tensor: &Tensor, line: usize) -> Range<usize> {
    let floats = (tensor.dims[2] * tensor.pitch) as usize;
    line * floats..(line + 1) * floats
}

/// A ring, or all lines, of a tensor.
struct Memory {
    tensor: Tensor,
    /// 0 where all lines are held.
    ring: u32,
    floats: Vec<f32>,
}

impl Memory {
    fn new(tensor: Tensor, ring: u32) -> Self {
        let lines = if ring > 0 { ring } else { tensor.dims[0] * tensor.dims[1] };
        let floats = vec![POISON; (lines * tensor.dims[2] * tensor.pitch) as usize];
        Self { tensor, ring, floats }
    }

    fn slot(&self, at: usize) -> Range<usize> {
        line(&self.tensor, if self.ring > 0 { at % self.ring as usize } else { at })
    }

    /// Takes lines from the whole tensor's floats, which may end with the last element.
    fn take(&mut self, lines: Range<usize>, from: &[f32]) {
        for at in lines {
            let from = &from[line(&self.tensor, at).start..];
            let to = self.slot(at);
            let floats = to.len().min(from.len());
            self.floats[to.start..to.start + floats].copy_from_slice(&from[..floats]);
        }
    }

    fn rows(&self) -> usize {
        self.floats.len() / self.tensor.pitch as usize
    }

    fn mat(&self) -> MatRef<'_> {
        let (cols, pitch) = (self.tensor.cols() as usize, self.tensor.pitch as usize);
        MatRef::new(&self.floats, self.rows(), cols, pitch).unwrap()
    }
}

impl Slide<'_> {
    /// The problem that a step computes.
    pub(super) fn problem(&self, slice: Slice, threads: usize, isa: Isa) -> Problem<'_> {
        let Self { layer, inputs, output, .. } = self;
        Problem { layer, inputs, output, slice, threads: threads as u32, isa }
    }

    /// Lines of a ring of input `slot`, for steps of `lines` lines that read at most `longest` by windows; 0 where it lies whole.
    fn ring(&self, slot: usize, lines: usize, slack: usize, longest: usize) -> u32 {
        let tensor = &self.inputs[slot];
        if self.layer.inputs[slot] == NONE {
            return 0;
        }
        match reads(OpKind::from_code(self.layer.kind).unwrap())[slot] {
            // Lines that differ from the output's.
            Reads::Rows if tensor.dims[..3] == self.output.dims[..3] => {
                ((2 + slack) * lines).min(self.output.dims[1] as usize) as u32
            }
            Reads::Window => (longest.max(1) + slack).min(tensor.dims[1] as usize) as u32,
            // A broadcast operand lies whole.
            _ => 0,
        }
    }

    /// Makes the output, dense, in steps of `lines` lines. Rings have room for `slack` lines more
    /// than they need, or steps more where no step may go around their end. In a memory lies only
    /// what the step reads.
    fn run(&self, kernels: &Kernels, threads: usize, lines: usize, slack: usize) -> Vec<f32> {
        let [_, height, width, cols] = self.output.dims.map(|extent| extent as usize);
        let steps = || (0..height).step_by(lines).map(|first| first..(first + lines).min(height));
        let slice = |step: &Range<usize>| Slice {
            first: 0,
            count: self.layer.panels,
            row: (step.start * width) as u32,
            rows: (step.len() * width) as u32,
            method: Method::by(self.algorithm),
        };
        let output_ring = ((1 + slack) * lines).min(height) as u32;
        let ring = |slot: usize| {
            let longest = steps().map(|step| lines_read(self, slot, &slice(&step)).len()).max();
            self.ring(slot, lines, slack, longest.unwrap())
        };
        let rings = [ring(0), ring(1), ring(2), output_ring];
        let mut made = Vec::new();
        for step in steps() {
            let slice = slice(&step);
            let problem = self.problem(slice, threads, kernels.isa());
            validate_slice(&problem).unwrap();
            validate_rings(&problem, rings).unwrap();
            let memory = |slot: usize| {
                let mut memory = Memory::new(self.inputs[slot], rings[slot]);
                if self.layer.inputs[slot] != NONE {
                    memory.take(lines_read(self, slot, &slice), self.data[slot]);
                }
                memory
            };
            let inputs: [_; INPUTS] = core::array::from_fn(memory);
            let mut out = Memory::new(self.output, output_ring);
            if self.layer.inputs.contains(&self.layer.output) {
                out.take(step.clone(), self.out);
            }
            let before = out.floats.clone();
            let operand = |slot: usize| match self.layer.inputs[slot] {
                NONE => Operand::Absent,
                id if id == self.layer.output => Operand::Output,
                _ => Operand::Mat(inputs[slot].mat()),
            };
            let (layer, bytes) = (self.layer, scratch_bytes(&problem));
            let (rows, pitch) = (out.rows(), self.output.pitch as usize);
            crate::ops::run(Call {
                layer,
                inputs: self.inputs,
                output: self.output,
                operands: core::array::from_fn(operand),
                out: MatMut::new(&mut out.floats, rows, cols, pitch).unwrap(),
                weights: Packed::new(self.weights),
                prefetch: Default::default(),
                first: 0,
                count: layer.panels as usize,
                rows: slice.row as usize..(slice.row + slice.rows) as usize,
                method: slice.method,
                scratch: bytemuck::cast_slice_mut(&mut scratch(bytes)),
                device: &Threads(threads),
                kernels,
            });
            for line in step {
                let slot = out.slot(line);
                for (row, before) in out.floats[slot.clone()]
                    .chunks_exact_mut(pitch)
                    .zip(before[slot].chunks_exact(pitch))
                {
                    made.extend_from_slice(&row[..cols]);
                    row[..cols].copy_from_slice(&before[..cols]);
                }
            }
            assert_eq!(bits(&out.floats), bits(&before), "written beside the step's rows");
        }
        made
    }

    /// Lines that steps make multiples of.
    pub(super) fn unit(&self) -> u32 {
        match row(self.layer).and_then(|operator| operator.line_unit) {
            Some(unit) => unit(self.layer),
            None => self.algorithm.max(1),
        }
    }

    /// Steps of several sizes, rings of several sizes, on several numbers of threads, make the bits
    /// of `whole`.
    pub fn check(&self, kernels: &Kernels, whole: &[f32], what: &str) {
        self.check_over(kernels, whole, what);
        if self.output.dims[0] != 1 {
            return;
        }
        let height = self.output.dims[1] as usize;
        let unit = self.unit() as usize;
        let mut all = false;
        for (lines, slack, threads) in [(1, 0, 1), (2, 1, 2), (3, 0, 3), (2, 3, 4)] {
            let lines = lines * unit;
            if lines >= height && core::mem::replace(&mut all, true) {
                continue;
            }
            let made = self.run(kernels, threads, lines, slack);
            let how = format!("{what}: steps of {lines} lines, {slack} spare, {threads} threads");
            assert_same(&made, whole, &how);
        }
    }
}
