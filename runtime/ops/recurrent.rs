//! Recurrent networks: RNN, GRU and LSTM.
//!
//! The input's contribution to all gates at all times is an ordinary product, made before. Here
//! each time adds the product of the hidden state and the recurrent weights, which stay in memory
//! (and in the cache, where they fit) for the whole sequence. That product is the implicit GEMM of
//! a convolution, divided among threads by panels of gates; the functions of the gates follow on
//! one thread, over the hidden units of all sequences.

use super::work::elements;
use super::{Call, LayerError, Operand, Operator, Problem, check, device_for};
use crate::device::{Device, Split, divide};
use crate::kernels::Kernels;
use crate::kernels::table::{Addend, Indirection, Panel, Target};
use crate::matrix::{MatMut, MatRef};
use crate::pack::{
    Activation, ActivationKind, INPUTS, Isa, Layer, NONE, OpKind, RecurrentParams, Tensor, params,
};
use core::ops::Range;

/// No bounds.
const UNBOUNDED: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];

/// Recurrent networks.
pub(super) const ROW: Operator = Operator {
    scratch: |problem, _| scratch_bytes(problem),
    row_unit: |_, _| None,
    macs: |layer, inputs, _| {
        let recurrent: RecurrentParams = params(layer);
        elements(&inputs[0]).saturating_mul(u64::from(recurrent.hidden).saturating_add(20))
    },
    ..Operator::new(OpKind::Recurrent, 2, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    let p: RecurrentParams = params(layer);
    let [first, second, third] = layer.inputs;
    check(third == NONE, "number of inputs", 3, 2)?;
    check(first != NONE, "number of inputs", 0, 1)?;
    for input in layer.inputs {
        let what = "output tensor, which must not be an input,";
        check(input != layer.output, what, layer.output.into(), input.into())?;
    }
    check(p.cell <= 2, "kind of cell", p.cell.into(), 2)?;
    check(p.hidden > 0, "hidden units", 0, 1)?;
    for flag in [p.reverse, p.reset_after, p.peepholes] {
        check(flag <= 1, "flag of a recurrent network", flag.into(), 1)?;
    }
    check(p.peepholes == 0 || p.cell == 2, "peepholes of this cell", p.peepholes.into(), 0)?;
    for function in &p.functions {
        if function.function().is_none() {
            return Err(LayerError::Activation(function.kind));
        }
    }
    check(layer.activation.kind == 0, "activation", layer.activation.kind.into(), 0)?;
    let hidden = u64::from(p.hidden);
    let (found, limit) = (inputs[0].cols().into(), hidden * u64::from(p.gates()));
    check(found == limit, "channels of the gates", found, limit)?;
    let (found, limit) = (output.cols().into(), hidden * u64::from(p.states()));
    check(found == limit, "channels of the state", found, limit)?;
    check(output.dims[0] == 1, "images of a recurrent network", output.dims[0].into(), 1)?;
    for dim in 0..3 {
        let (found, limit) = (output.dims[dim].into(), inputs[0].dims[dim].into());
        check(found == limit, "extent of the output", found, limit)?;
    }
    if second != NONE {
        let (found, limit) = (inputs[1].rows(), output.dims[2].into());
        check(found == limit, "rows of the first state", found, limit)?;
        let (found, limit) = (inputs[1].cols().into(), output.cols().into());
        check(found == limit, "channels of the first state", found, limit)?;
    }
    check(layer.panels == 1, "number of weight panels", layer.panels.into(), 1)?;
    let bytes = p.floats(isa.panel()).saturating_mul(4);
    let limit = layer.panel_bytes.into();
    check(bytes <= limit, "bytes of the recurrent weights", bytes, limit)
}

/// Where the parts of a step's scratch end.
struct Parts {
    /// Floats of a gate: whole panels of hidden units.
    gate: u64,
    /// Bytes of the gates, of the state and of what else is multiplied, and of the pointers.
    bytes: [u64; 4],
}

impl Parts {
    fn new(p: &RecurrentParams, output: &Tensor, nr: usize, mr: usize) -> Self {
        let batch = u64::from(output.dims[2]);
        let gate = u64::from(p.hidden).next_multiple_of(nr as u64);
        let floats = |each: u64| batch.saturating_mul(each).saturating_mul(4);
        let whole = |bytes: u64| bytes.checked_next_multiple_of(64).unwrap_or(u64::MAX / 8);
        let rows = (output.dims[2] as usize).next_multiple_of(mr.max(1));
        Self {
            gate,
            bytes: [
                whole(floats(gate * u64::from(p.gates()))),
                whole(floats(u64::from(p.hidden) * u64::from(p.states()))),
                whole(floats(p.hidden.into())),
                Indirection::rows_bytes(rows),
            ],
        }
    }
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(problem: &Problem<'_>) -> u64 {
    let p: RecurrentParams = params(problem.layer);
    let parts = Parts::new(&p, problem.output, problem.isa.panel(), problem.isa.rows());
    parts.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// The parameters of a sequence.
struct Cell<'a> {
    p: RecurrentParams,
    kernels: &'a Kernels,
    device: &'a dyn Device,
    weights: &'a [f32],
    batch: usize,
    /// Floats of a gate.
    gate: usize,
}

/// Computes the whole sequence.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(given) = call.operands[0] else { return };
    let p: RecurrentParams = params(call.layer);
    let [_, times, batch, _] = call.output.dims.map(|extent| extent as usize);
    let (hidden, states, kernels) = (p.hidden as usize, p.states() as usize, call.kernels);
    let parts = Parts::new(&p, &call.output, kernels.nr(), kernels.mr());
    let [gates, state, reset, _] = parts.bytes.map(|bytes| bytes as usize);
    let (gates, rest) = call.scratch.split_at_mut(gates);
    let (state, rest) = rest.split_at_mut(state);
    let (reset, pointers) = rest.split_at_mut(reset);
    let gate = parts.gate as usize;
    let width = p.gates() as usize * gate;
    let floats = |bytes| -> &mut [f32] { bytemuck::cast_slice_mut(bytes) };
    let gates = &mut floats(gates)[..batch * width];
    let state = &mut floats(state)[..batch * hidden * states];
    let reset = &mut floats(reset)[..batch * hidden];
    match call.operands[1] {
        Operand::Mat(first) => {
            for (row, to) in state.chunks_exact_mut(hidden * states).enumerate() {
                to.copy_from_slice(first.row(row));
            }
        }
        _ => state.fill(0.0),
    }
    let work = batch.saturating_mul(width).saturating_mul(hidden) / 16;
    let device = device_for(call.device, work);
    let cell = Cell { p, kernels, device, weights: call.weights.floats(), batch, gate };
    for step in 0..times {
        let time = if p.reverse == 1 { times - 1 - step } else { step };
        let rows = time * batch..(time + 1) * batch;
        let given = given.part(rows.clone(), 0..given.cols());
        match p.cell {
            0 => cell.rnn(given, gates, state, pointers),
            1 => cell.gru(given, gates, state, reset, pointers),
            _ => cell.lstm(given, gates, state, reset, pointers),
        }
        for (row, state) in rows.zip(state.chunks_exact(hidden * states)) {
            call.out.row_mut(row).copy_from_slice(state);
        }
    }
}

impl Cell<'_> {
    fn hidden(&self) -> usize {
        self.p.hidden as usize
    }

    /// Sets gates to the products of rows of the state with their weights, and adds what they are
    /// given, if it is.
    fn products(
        &self,
        which: Range<usize>,
        rows: [&[f32]; 1],
        pitch: usize,
        given: Option<MatRef<'_>>,
        gates: &mut [f32],
        pointers: &mut [u8],
    ) {
        let (nr, hidden) = (self.kernels.nr(), self.hidden());
        let width = self.p.gates() as usize * self.gate;
        let rows = (0..self.batch).map(|row| &rows[0][row * pitch..]);
        let lists = Indirection::rows(rows, hidden, self.kernels.mr(), pointers);
        let Some(mut all) = MatMut::new(gates, self.batch, width, width) else { return };
        let columns = which.start * self.gate..which.end * self.gate;
        let out = all.part_mut(0..self.batch, columns.clone());
        let panel = (1 + hidden) * nr;
        divide(self.device, out, Split::Cols(nr), &mut [], 0, |mut share| {
            for local in (0..share.cols.len()).step_by(nr) {
                let column = columns.start + share.cols.start + local;
                let (gate, unit) = (column / self.gate, column % self.gate);
                let count = nr.min(hidden - unit);
                let addend = match given {
                    Some(given) => {
                        let first = gate * hidden + unit;
                        Addend::Mat(given.part(0..self.batch, first..first + count))
                    }
                    None => Addend::None,
                };
                let weights = &self.weights[column / nr * panel..][..panel];
                let out = share.out.part_mut(0..self.batch, local..local + count);
                let target = Target { addend, clamp: UNBOUNDED, out };
                self.kernels.igemm(&lists, 0, Panel::cached(weights), target);
            }
        });
    }

    /// Clips some gates and applies a function to them.
    fn apply(&self, function: usize, which: Range<usize>, gates: &mut [f32]) {
        let width = self.p.gates() as usize * self.gate;
        let Some(mut all) = MatMut::new(gates, self.batch, width, width) else { return };
        for gate in which {
            let columns = gate * self.gate..gate * self.gate + self.hidden();
            let mut part = all.part_mut(0..self.batch, columns);
            if self.p.clip < f32::INFINITY {
                let clip = Activation {
                    kind: ActivationKind::Clamp as u32,
                    alpha: -self.p.clip,
                    beta: self.p.clip,
                };
                self.kernels.map(&clip, part.reborrow());
            }
            self.kernels.map(&self.p.functions[function], part);
        }
    }

    /// Each sequence's gates, and its state.
    fn sequences<'b>(
        &self,
        gates: &'b mut [f32],
        state: &'b mut [f32],
    ) -> impl Iterator<Item = (&'b mut [f32], &'b mut [f32])> + use<'b> {
        let width = self.p.gates() as usize * self.gate;
        let states = self.hidden() * self.p.states() as usize;
        gates.chunks_exact_mut(width).zip(state.chunks_exact_mut(states))
    }

    fn rnn(&self, given: MatRef<'_>, gates: &mut [f32], state: &mut [f32], pointers: &mut [u8]) {
        self.products(0..1, [state], self.hidden(), Some(given), gates, pointers);
        self.apply(0, 0..1, gates);
        for (gates, state) in self.sequences(gates, state) {
            state.copy_from_slice(&gates[..state.len()]);
        }
    }

    /// `h = (1 - z) · n + z · h`, n from the state that r resets.
    fn gru(
        &self,
        given: MatRef<'_>,
        gates: &mut [f32],
        state: &mut [f32],
        reset: &mut [f32],
        pointers: &mut [u8],
    ) {
        let hidden = self.hidden();
        self.products(0..2, [state], hidden, Some(given), gates, pointers);
        self.apply(0, 0..2, gates);
        if self.p.reset_after == 1 {
            self.products(2..3, [state], hidden, None, gates, pointers);
            for (row, (gates, _)) in self.sequences(gates, state).enumerate() {
                let (zr, n) = gates.split_at_mut(2 * self.gate);
                let given = &given.row(row)[2 * hidden..];
                for ((n, r), given) in n.iter_mut().zip(&zr[self.gate..]).zip(given) {
                    *n = *n * r + given;
                }
            }
        } else {
            let rows = reset.chunks_exact_mut(hidden);
            for (reset, (gates, state)) in rows.zip(self.sequences(gates, state)) {
                for ((reset, r), h) in reset.iter_mut().zip(&gates[self.gate..]).zip(state) {
                    *reset = r * *h;
                }
            }
            self.products(2..3, [reset], hidden, Some(given), gates, pointers);
        }
        self.apply(1, 2..3, gates);
        for (gates, state) in self.sequences(gates, state) {
            let (z, n) = (&gates[..], &gates[2 * self.gate..]);
            for ((h, z), n) in state.iter_mut().zip(z).zip(n) {
                *h = (1.0 - z) * n + z * *h;
            }
        }
    }

    /// `c = f · c + i · n`, `h = o · function(c)`.
    fn lstm(
        &self,
        given: MatRef<'_>,
        gates: &mut [f32],
        state: &mut [f32],
        functions: &mut [f32],
        pointers: &mut [u8],
    ) {
        let hidden = self.hidden();
        self.products(0..4, [state], 2 * hidden, Some(given), gates, pointers);
        self.peep(0, gates, state);
        self.peep(2, gates, state);
        self.apply(0, 0..1, gates);
        self.apply(0, 2..3, gates);
        self.apply(1, 3..4, gates);
        for (gates, state) in self.sequences(gates, state) {
            let [i, f, n] = [0, 2, 3].map(|gate| &gates[gate * self.gate..][..hidden]);
            for (at, c) in state[hidden..].iter_mut().enumerate() {
                *c = f[at] * *c + i[at] * n[at];
            }
        }
        self.peep(1, gates, state);
        self.apply(0, 1..2, gates);
        let rows = functions.chunks_exact_mut(hidden).zip(state.chunks_exact(2 * hidden));
        rows.for_each(|(to, state)| to.copy_from_slice(&state[hidden..]));
        if let Some(all) = MatMut::new(functions, self.batch, hidden, hidden) {
            self.kernels.map(&self.p.functions[2], all);
        }
        let rows = functions.chunks_exact(hidden);
        for (function, (gates, state)) in rows.zip(self.sequences(gates, state)) {
            let o = &gates[self.gate..];
            for ((h, o), c) in state.iter_mut().zip(o).zip(function) {
                *h = o * c;
            }
        }
    }

    /// Adds to a gate what it sees of the cell's state.
    fn peep(&self, gate: usize, gates: &mut [f32], state: &mut [f32]) {
        if self.p.peepholes == 0 {
            return;
        }
        let hidden = self.hidden();
        let panels = self.p.gates() as usize * self.gate * (1 + hidden);
        let weights = &self.weights[panels + gate * hidden..][..hidden];
        for (gates, state) in self.sequences(gates, state) {
            let gate = &mut gates[gate * self.gate..][..hidden];
            for ((gate, weight), c) in gate.iter_mut().zip(weights).zip(&state[hidden..]) {
                *gate += weight * c;
            }
        }
    }
}

#[cfg(test)]
mod tests;
