//! Operators whose results depend on the order or the equality of elements, on constants.

use super::super::array::{Array, elements, strides};
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::wide;
use std::cmp::Ordering;

/// Constant numbers of either kind, as what compares alike.
enum Numbers {
    Integers(DataType, Array<i64>),
    Floats(DataType, Array<f64>),
}

/// A constant that a node reads. Of one that flows the length of the result is not known.
fn numbers(
    cx: &mut Context<'_, '_>,
    index: usize,
    role: &'static str,
) -> Result<Numbers, NodeProblem> {
    Ok(match cx.input(index, role)? {
        Operand::Integer(kind, array) => {
            cx.charge(&array.shape)?;
            Numbers::Integers(kind, (*array).clone())
        }
        Operand::Float(kind, value) => match cx.builder.array(value)? {
            Some(array) => Numbers::Floats(kind, array),
            None => return Err(NodeProblem::length("its input", cx.name_of(value))),
        },
        Operand::Whole(_, value) => {
            return Err(NodeProblem::length("its input", cx.name_of(value)));
        }
    })
}

/// The order of floats: NaN after all numbers, as numpy sorts.
fn of_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

impl Numbers {
    fn shape(&self) -> &[usize] {
        match self {
            Numbers::Integers(_, array) => &array.shape,
            Numbers::Floats(_, array) => &array.shape,
        }
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Numbers::Integers(kind, array) => {
                wide(*kind, array.data[a]).cmp(&wide(*kind, array.data[b]))
            }
            Numbers::Floats(_, array) => of_floats(array.data[a], array.data[b]),
        }
    }

    /// The elements at these places, in a shape.
    fn at(&self, cx: &mut Context<'_, '_>, places: &[usize], shape: Vec<usize>) -> Operand {
        match self {
            Numbers::Integers(kind, array) => {
                let data = places.iter().map(|&place| array.data[place]).collect();
                Operand::integers(*kind, Array { shape, data })
            }
            Numbers::Floats(kind, array) => {
                let data = places.iter().map(|&place| array.data[place]).collect();
                let name = cx.output(0);
                Operand::Float(*kind, cx.builder.constant(name, *kind, Array { shape, data }))
            }
        }
    }
}

fn indices(shape: Vec<usize>, data: Vec<usize>) -> Operand {
    let data = data.into_iter().map(|index| index as i64).collect();
    Operand::integers(DataType::Int64, Array { shape, data })
}

/// Work of sorting so many elements.
fn charge_sorting(cx: &mut Context<'_, '_>, count: usize) -> Result<(), NodeProblem> {
    let rounds = (usize::BITS - count.leading_zeros()) as usize;
    cx.charge_for(&[count, rounds.max(1)], size_of::<usize>())
}

/// The largest or smallest elements of an axis, and where they are; of equal ones the first.
pub(super) fn top_k(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.input(0, "x")?;
    let computed = super::computed::flows(cx, &x);
    let attributes = cx.attributes();
    let k = match cx.opset < 10 {
        true => attributes.int("k")?.ok_or_else(|| NodeProblem::attribute("k", "is missing"))?,
        false => match cx.integers(1, "k")?.data[..] {
            [k] => k,
            _ => return Err(NodeProblem::shape("`k` is not one number")),
        },
    };
    let largest = attributes.flag("largest", true)?;
    let shape = cx.shape_of(&x);
    let axis = axis(attributes.int_or("axis", -1)?, shape.len())?;
    let k = usize::try_from(k).ok().filter(|&k| k <= shape[axis]);
    let k = k.ok_or_else(|| {
        NodeProblem::shape(format!("`k` is not between 0 and the axis' {}", shape[axis]))
    })?;
    if computed {
        return super::selection::top_k(cx, &x, [axis, k], largest);
    }
    let data = numbers(cx, 0, "x")?;
    let count = elements(&shape).unwrap_or(0);
    charge_sorting(cx, count)?;
    let step = strides(&shape)[axis];
    let mut result = shape.clone();
    result[axis] = k;
    let made: usize = result.iter().product();
    let (mut places, mut found) = (vec![0; made], vec![0; made]);
    for lane in 0..count / shape[axis].max(1) {
        let (outer, inner) = (lane / step, lane % step);
        let start = outer * step * shape[axis] + inner;
        let mut order: Vec<usize> = (0..shape[axis]).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (start + a * step, start + b * step);
            if largest { data.compare(b, a) } else { data.compare(a, b) }
        });
        for (at, &index) in order[..k].iter().enumerate() {
            let to = outer * step * k + at * step + inner;
            (places[to], found[to]) = (start + index * step, index);
        }
    }
    Ok(vec![data.at(cx, &places, result.clone()), indices(result, found)])
}

/// The indices of elements other than zero: a row for each axis.
pub(super) fn non_zero(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = numbers(cx, 0, "x")?;
    let places: Vec<usize> = match &data {
        Numbers::Integers(_, array) => {
            (0..array.data.len()).filter(|&at| array.data[at] != 0).collect()
        }
        Numbers::Floats(_, array) => {
            (0..array.data.len()).filter(|&at| array.data[at] != 0.0).collect()
        }
    };
    let shape = data.shape();
    let strides = strides(shape);
    cx.charge(&[shape.len().max(1), places.len()])?;
    // A number is a vector of one element.
    let axes = match shape.is_empty() {
        true => vec![(1, 1)],
        false => strides.into_iter().zip(shape.iter().copied()).collect(),
    };
    let row = |(stride, extent): &(usize, usize)| {
        let (stride, extent) = (*stride, *extent);
        places.iter().map(move |&place| place / stride % extent).collect::<Vec<_>>()
    };
    let rows: Vec<usize> = axes.iter().flat_map(row).collect();
    Ok(vec![indices(vec![axes.len(), places.len()], rows)])
}

/// The different elements, or the different parts along an axis; where each is first, which is where, how often.
pub(super) fn unique(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = numbers(cx, 0, "x")?;
    let sorted = cx.attributes().flag("sorted", true)?;
    let shape = data.shape().to_vec();
    let count = elements(&shape).unwrap_or(0);
    charge_sorting(cx, count)?;
    let along = cx.attributes().int("axis")?.map(|given| axis(given, shape.len())).transpose()?;
    // What is compared: a run of places for each part.
    let parts: Vec<Vec<usize>> = match along {
        None => (0..count).map(|at| vec![at]).collect(),
        Some(axis) => {
            let step = strides(&shape)[axis];
            let part = |index| {
                (0..count).filter(|at| at / step % shape[axis] == index).collect::<Vec<_>>()
            };
            cx.charge(&[count, shape[axis]])?;
            (0..shape[axis]).map(part).collect()
        }
    };
    let compare = |a: &usize, b: &usize| {
        let pairs = parts[*a].iter().zip(&parts[*b]);
        let orders = pairs.map(|(&a, &b)| data.compare(a, b));
        orders.fold(Ordering::Equal, Ordering::then)
    };
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(compare);
    let mut groups: Vec<Vec<usize>> = vec![];
    for part in order {
        match groups.last_mut() {
            Some(group) if compare(&group[0], &part).is_eq() => group.push(part),
            _ => groups.push(vec![part]),
        }
    }
    if !sorted {
        groups.sort_by_key(|group| group[0]);
    }
    let mut inverse = vec![0; parts.len()];
    for (index, group) in groups.iter().enumerate() {
        group.iter().for_each(|&part| inverse[part] = index);
    }
    let first: Vec<usize> = groups.iter().map(|group| group[0]).collect();
    let often: Vec<usize> = groups.iter().map(Vec::len).collect();
    let found = groups.len();
    let (places, result) = match along {
        None => (first.clone(), vec![found]),
        Some(axis) => {
            let mut result = shape.clone();
            result[axis] = found;
            let (own, new) = (strides(&shape), strides(&result));
            let total: usize = result.iter().product();
            let place = |at: usize| {
                let index = |dimension: usize| at / new[dimension] % result[dimension];
                let of = |dimension: usize| match dimension == axis {
                    true => first[index(dimension)] * own[dimension],
                    false => index(dimension) * own[dimension],
                };
                (0..shape.len()).map(of).sum::<usize>()
            };
            ((0..total).map(place).collect(), result)
        }
    };
    let values = data.at(cx, &places, result);
    let one = |list: Vec<usize>| indices(vec![list.len()], list);
    Ok(vec![values, one(first), one(inverse), one(often)])
}
