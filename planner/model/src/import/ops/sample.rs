//! Elements at places between others, and the places that a map gives.

use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use crate::graph::{Op, SampleMode, SamplePadding, Sampling};

pub(super) fn grid_sample(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (x, grid) = (cx.float(0, "x")?, cx.float(1, "grid")?);
    let (shape, places) = (cx.shape(x), cx.shape(grid));
    let rank = shape.len();
    let fits = (4..=5).contains(&rank)
        && places.len() == rank
        && places[0] == shape[0]
        && places[rank - 1] == rank - 2;
    if !fits {
        return Err(NodeProblem::shape(format!(
            "places of shape {places:?} do not fit an input of shape {shape:?}, which has two or three dimensions in space"
        )));
    }
    let attributes = cx.attributes();
    let mode = match attributes.string("mode")?.unwrap_or("linear") {
        "nearest" => SampleMode::Nearest,
        "linear" | "bilinear" => SampleMode::Linear,
        "cubic" | "bicubic" if rank == 4 => SampleMode::Cubic,
        "cubic" | "bicubic" => {
            return Err(NodeProblem::unsupported("cubic samples of a volume are not; use linear"));
        }
        other => {
            let reason = format!("is `{other}`, expected linear, nearest or cubic");
            return Err(NodeProblem::attribute("mode", reason));
        }
    };
    let padding = match attributes.string("padding_mode")?.unwrap_or("zeros") {
        "zeros" => SamplePadding::Zeros,
        "border" => SamplePadding::Border,
        "reflection" => SamplePadding::Reflection,
        other => {
            let reason = format!("is `{other}`, expected zeros, border or reflection");
            return Err(NodeProblem::attribute("padding_mode", reason));
        }
    };
    let align_corners = attributes.flag("align_corners", false)?;
    let made = [&shape[..2], &places[1..rank - 1]].concat();
    let op = Op::GridSample(Sampling { mode, padding, align_corners });
    cx.emit(op, vec![Some(x), Some(grid)], made)
}
