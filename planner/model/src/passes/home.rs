//! Homes: which values are written straight into the buffer of a concatenation.
//!
//! Concatenations are looked at from the last to the first, so that a value that goes into several
//! (the features of a dense block) lives in the last, which is the largest. The others then find
//! their operands side by side already and are views of it: a dense block shares one buffer. Whether
//! a home fits is seen when the value is placed: its slice must be a rectangle in the layout that the
//! value has. If not, the value lives by itself and is copied.

use crate::ops::Work;
use crate::ops::builder::Program;
use crate::ops::concat::Concat;
use crate::ops::emitter::Home;

/// The homes of all values, by value.
pub(super) fn homes(program: &Program) -> Vec<Option<Home>> {
    let mut placeable = vec![false; program.values.len()];
    for item in &program.items {
        let anywhere = item.work.operation().is_placeable();
        for &output in &item.outputs {
            placeable[output] = anywhere && !program.outputs.contains(&output);
        }
    }
    let mut homes = vec![None; program.values.len()];
    for item in program.items.iter().rev() {
        let Work::Concat(Concat { axis }) = item.work else { continue };
        let mut start = 0;
        for &operand in &item.inputs {
            if placeable[operand] && homes[operand].is_none() {
                homes[operand] = Some(Home { parent: item.outputs[0], axis, start });
            }
            start += program.values[operand].shape[axis];
        }
    }
    homes
}
