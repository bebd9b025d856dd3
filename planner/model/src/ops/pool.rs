//! Maximum and average over windows.

use super::builder::{Builder, Item};
use super::conv::windowed;
use super::emitter::{Emitter, words};
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{ValueId, Window};
use eyelet::pack::{self, OpKind, PoolParams, params};

/// A window over the image.
pub(super) const ROW: Operator = Operator {
    lines: |_, layer, _| {
        let PoolParams { kernel, stride, dilation, pad, .. } = params(layer);
        Some(Lines::window([kernel, stride, dilation, pad]))
    },
    name: |layer| windowed("Pool", params::<PoolParams>(layer).kernel),
    ..Operator::new(OpKind::Pool)
};

/// Maximum or average over windows.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub average: bool,
    pub window: Window,
    pub count_include_pad: bool,
}

impl Operation for Pool {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { average, window, count_include_pad } = self;
        let params = PoolParams {
            average: (*average).into(),
            kernel: words(window.kernel),
            stride: words(window.stride),
            dilation: words(window.dilation),
            pad: words(window.pad_begin),
            pad_end: words(window.pad_end),
            count_include_pad: (*count_include_pad).into(),
        };
        let order = emitter.image(item)?;
        emitter.simple(item, OpKind::Pool, &order, pack::params_words(&params))
    }

    fn moves(&self) -> bool {
        !self.average
    }
}

impl Builder {
    pub fn pool(
        &mut self,
        name: &str,
        mut x: ValueId,
        y: ValueId,
        window: &Window,
        average: bool,
        mut count_include_pad: bool,
    ) {
        let mut window = window.clone();
        // An average counts what a Pad added, so the pool must count all of its padding or have none.
        let countable = count_include_pad || [window.pad_begin, window.pad_end] == [[0; 2]; 2];
        let accept = |value| match average {
            true => countable && value == 0.0,
            false => value == f32::NEG_INFINITY,
        };
        if let Some((inner, begin, end)) = self.image_padding(x, accept) {
            x = inner;
            count_include_pad = true;
            for i in 0..2 {
                window.pad_begin[i] += begin[i];
                window.pad_end[i] += end[i];
            }
        }
        self.push(name, Work::Pool(Pool { average, window, count_include_pad }), &[x], &[y]);
    }
}
