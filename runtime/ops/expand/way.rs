//! In which of the three ways a step's panels are expanded, and how many at a time.

use crate::ops::conv::{Sizes, is_conv, part};
use crate::ops::{Problem, Slice, winograd};
use crate::pack::{ConvParams, Layer, params};

/// Bytes of expanded panels that threads share.
const SHARED_BYTES: u64 = 1 << 20;

/// Panels at least for which a Winograd convolution transforms its inputs.
const WINOGRAD_PANELS: usize = 8;

/// Panels that threads share at least where these are of several groups of a Winograd convolution:
/// each has other inputs, so no more than keeps threads busy and [`OWN_BYTES`].
const GROUPED_PANELS: usize = 4;

/// Bytes of expanded panels of a thread's own: a part of its second-level cache.
const OWN_BYTES: u64 = 256 << 10;

/// Panels that threads expand together.
pub(in crate::ops) fn panels_at_once(plain: &Layer) -> usize {
    let (bytes, least) = match winograd::groups(plain) {
        Some(2..) => (OWN_BYTES, GROUPED_PANELS),
        Some(_) => (SHARED_BYTES, WINOGRAD_PANELS),
        None => (SHARED_BYTES, 1),
    };
    panels_in(bytes, plain).max(least)
}

/// Expanded panels that `bytes` bytes hold.
pub(super) fn panels_in(bytes: u64, plain: &Layer) -> usize {
    saturating(bytes / u64::from(plain.panel_bytes.max(1)))
}

/// How a step's panels are expanded: see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Row,
    /// `chunk` panels at a time, of parts of `each`.
    Own {
        chunk: usize,
        each: usize,
    },
    /// In `groups` groups, as even as possible; in more where scratch is short.
    Shared {
        groups: usize,
    },
}

/// Whether another number of threads may expand a step's panels in another way.
pub(super) fn depends_on_threads(plain: &Layer, slice: &Slice) -> bool {
    let p: ConvParams = params(plain);
    is_conv(plain) && p.groups == 1 && !is_row(&p, slice)
}

/// Whether a step of a convolution in one group is a fully connected layer, of one row.
fn is_row(p: &ConvParams, slice: &Slice) -> bool {
    slice.rows == 1 && p.kernel == [1; 2]
}

impl Way {
    /// The way of a step (with the record of its expanded layer) of whose outputs each has `k`
    /// weights.
    pub(super) fn of(plain: &Problem<'_>, k: u64) -> Self {
        let threads = plain.threads();
        let &Problem { layer: plain, inputs, slice, isa, .. } = plain;
        let panels = slice.count as usize;
        let p: ConvParams = params(plain);
        if is_conv(plain) && p.groups == 1 {
            if is_row(&p, &slice) {
                return Self::Row;
            }
            let sizes = Sizes {
                by_rows: slice.rows as usize,
                by_cols: panels,
                input: saturating(u64::from(slice.rows) * u64::from(inputs[0].cols())),
                weights: saturating(k.saturating_mul((panels * isa.panel()) as u64)),
            };
            if threads == 1 || sizes.divide_columns(threads) {
                let macs = u64::from(slice.rows).saturating_mul(sizes.weights as u64);
                let each = part(panels, macs, threads);
                return Self::Own { chunk: panels_in(OWN_BYTES, plain).clamp(1, each), each };
            }
        }
        Self::Shared { groups: panels.div_ceil(panels_at_once(plain)).max(1) }
    }
}

fn saturating(x: u64) -> usize {
    usize::try_from(x).unwrap_or(usize::MAX)
}
