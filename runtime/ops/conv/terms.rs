//! Steps that compute some terms of a convolution's sums: whole chains, of one panel.

use super::{chains_of, is_conv};
use crate::kernels::table::Chains;
use crate::ops::Slice;
use crate::pack::{Encoding, Isa, Layer, Tensor};
use core::ops::Range;

/// The alignment of weights in the arena.
const ALIGNED: u64 = 32;

/// The chains of a (valid) layer's reduction, if steps can compute some of them, a panel at a time:
/// those of a convolution, whose weights are floats, on a processor. A panel has its biases and
/// then the weights of chain after chain, so that each of them is one run of bytes. Steps add them
/// up in the output, in order: bit for bit what one step computes.
pub fn chains(layer: &Layer, input: &Tensor, isa: Isa) -> Option<Chains> {
    let plain = is_conv(layer) && layer.encoding == Encoding::F32 as u32;
    (plain && isa != Isa::Cuda).then(|| chains_of(layer, input)).filter(|all| all.count() > 1)
}

/// The bytes of a (valid) slice's weights, counted from its first panel.
pub fn weights(layer: &Layer, input: &Tensor, slice: &Slice, isa: Isa) -> Range<u64> {
    let panel = u64::from(layer.panel_bytes);
    let all = 0..u64::from(slice.count) * panel;
    if slice.method.chains() == 0 {
        return all;
    }
    let Some(chains) = chains(layer, input, isa) else { return all };
    let terms = slice.terms(chains.count() as u32);
    let (nr, width) = (isa.panel() as u64, layer.columns(isa) as u64);
    // The biases come first. Parts begin where addresses can. The last k of each is read as if
    // panels were full. So narrow panels have bytes that belong to two parts.
    let after = |chain: u32, beyond: u64| {
        let terms = chains.terms(chain as usize).start as u64;
        4u64.saturating_mul(terms.saturating_mul(width).saturating_add(nr + beyond))
    };
    let start = if terms.start == 0 { 0 } else { after(terms.start, 0) / ALIGNED * ALIGNED };
    let end = after(terms.end, nr - width).checked_next_multiple_of(ALIGNED);
    start.min(panel)..end.unwrap_or(panel).min(panel).max(start.min(panel))
}
