//! `TensorScatter`: the cache of keys or values that an attention reads, with new positions in it.

use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::compose::{Steps, int, list};

/// Writes of a cache, one position at a time.
const MOST_WRITES: usize = 64;

/// `TensorScatter`: a cache with some positions of an axis replaced, from a place on that each batch has.
pub(super) fn tensor_scatter(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (past, update) = (cx.input(0, "past_cache")?, cx.input(1, "update")?);
    let (shape, own) = (cx.shape_of(&past), cx.shape_of(&update));
    let along = axis(cx.attributes().int_or("axis", -2)?, shape.len())?;
    let fits = own.len() == shape.len()
        && (0..shape.len()).all(|at| at == along || own[at] == shape[at])
        && own[along] <= shape[along]
        && along > 0;
    if !fits {
        return Err(NodeProblem::shape(format!(
            "an update of shape {own:?} does not fit a cache of shape {shape:?} along axis {along}"
        )));
    }
    let circular = match cx.attributes().string("mode")?.unwrap_or("linear") {
        "linear" => false,
        "circular" => true,
        other => {
            let reason = format!("is `{other}`, expected linear or circular");
            return Err(NodeProblem::attribute("mode", reason));
        }
    };
    let (extent, count) = (shape[along], own[along]);
    let places = cx.optional(2)?;
    let on = || vec![int("axis", along as i64)];
    let mut steps = Steps::new(cx);
    let Some(places) = places else {
        if count == extent {
            return Ok(vec![update]);
        }
        let rest: Vec<usize> = (count..extent).collect();
        let rest = steps.apply("Gather", &[&past, &list(&rest)], on())?;
        return Ok(vec![steps.apply("Concat", &[&update, &rest], on())?]);
    };
    if count > MOST_WRITES {
        return Err(NodeProblem::unsupported(format!(
            "it writes {count} positions, and at most {MOST_WRITES} are where `write_indices` is given; \
             leave that out where writing begins at 0"
        )));
    }
    let (mut column, mut first) = (vec![1; shape.len()], vec![1; shape.len()]);
    (column[along], first[0]) = (extent, shape[0]);
    let line = list(&(0..extent).collect::<Vec<_>>());
    let line = steps.apply("Cast", &[&line], vec![int("to", places.kind() as i64)])?;
    let line = steps.shaped(&line, &column)?;
    let places = steps.shaped(&places, &first)?;
    let mut cache = past;
    for at in 0..count {
        let by = steps.scalar(places.kind(), at as f64);
        let mut place = steps.apply("Add", &[&places, &by], vec![])?;
        if circular {
            let extent = steps.scalar(places.kind(), extent as f64);
            place = steps.apply("Mod", &[&place, &extent], vec![])?;
        }
        let here = steps.apply("Equal", &[&line, &place], vec![])?;
        let part = steps.apply("Gather", &[&update, &list(&[at])], on())?;
        cache = steps.apply("Where", &[&here, &part, &cache], vec![])?;
    }
    Ok(vec![cache])
}
