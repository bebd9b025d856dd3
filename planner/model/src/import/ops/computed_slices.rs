//! Slices whose starts are computed, as of what comes after a cache.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::{Context, axes, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::compose::{Steps, int, list};
use super::flowing::flowing;
use super::offsets;

/// Slices from computed starts on, each over a constant number of elements: the entries that indices name.
pub(super) fn from_computed(
    cx: &mut Context<'_, '_>,
    data: Operand,
) -> Result<Vec<Operand>, NodeProblem> {
    let (starts, ends) = (cx.input(1, "starts")?, cx.input(2, "ends")?);
    let count: usize = cx.shape_of(&starts).iter().product();
    let on = match cx.optional_integers(3, "axes")? {
        Some(given) => given.data.clone(),
        None => (0..count as i64).collect(),
    };
    let by = cx.optional_integers(4, "steps")?.map_or(vec![1; count], |given| given.data.clone());
    let shape = cx.shape_of(&data);
    axes(&on, shape.len())?;
    let ends_count: usize = cx.shape_of(&ends).iter().product();
    if [ends_count, on.len(), by.len()] != [count; 3] {
        return Err(NodeProblem::shape(format!(
            "{count} starts, {ends_count} ends, {} axes and {} steps do not agree",
            on.len(),
            by.len()
        )));
    }
    let (from, to) = (flowing(cx, 1, &starts)?, flowing(cx, 2, &ends)?);
    let mut steps = Steps::new(cx);
    let mut made = data;
    for at in 0..count {
        let (axis, step) = (axis(on[at], shape.len())?, by[at]);
        let graph = &steps.cx.builder.graph;
        let known = |value| offsets::known(graph, (value, at)).map(|number| number as i64);
        if let (Some(start), Some(end)) = (known(from), known(to)) {
            let lists = [start, end, axis as i64, step];
            let lists =
                lists.map(|one| Operand::integers(DataType::Int64, Array::vector(vec![one])));
            let [start, end, axis, step] = &lists;
            made = steps.apply("Slice", &[&made, start, end, axis, step], vec![])?;
            continue;
        }
        let length = offsets::difference(graph, (to, at), (from, at));
        let length = length.filter(|&length| step > 0 && length > 0.0);
        let Some(length) = length.map(|length| length as usize) else {
            let value = if known(from).is_some() { to } else { from };
            let value = steps.cx.name_of(value);
            return Err(NodeProblem::length("`ends` - `starts`", value));
        };
        made = entries_from(&mut steps, &made, axis, (&starts, at), [length, step as usize])?;
    }
    Ok(vec![made])
}

/// Entries of an axis from a computed one on, which may count from the end, so many steps apart.
fn entries_from(
    steps: &mut Steps<'_, '_, '_>,
    data: &Operand,
    axis: usize,
    (starts, at): (&Operand, usize),
    [length, step]: [usize; 2],
) -> Result<Operand, NodeProblem> {
    let kind = starts.kind();
    let extent = steps.cx.shape_of(data)[axis];
    steps.cx.charge(&[length.div_ceil(step)])?;
    let starts = steps.apply("Gather", &[starts, &list(&[at])], vec![])?;
    let [zero, extent] = [0, extent].map(|number| steps.scalar(kind, number as f64));
    let below = steps.apply("Less", &[&starts, &zero], vec![])?;
    let counted = steps.apply("Add", &[&starts, &extent], vec![])?;
    let first = steps.apply("Where", &[&below, &counted, &starts], vec![])?;
    let places = (0..length).step_by(step).map(|place| place as i64).collect();
    let places = Operand::integers(kind, Array::vector(places));
    let indices = steps.apply("Add", &[&first, &places], vec![])?;
    steps.apply("Gather", &[data, &indices], vec![int("axis", axis as i64)])
}
