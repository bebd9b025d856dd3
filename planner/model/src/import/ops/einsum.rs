//! `Einsum`: operands contracted one after the other, each pair a product of matrices.

use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::compose::{int, ints, list};
use std::collections::{BTreeMap, BTreeSet};

/// An axis by its letter; those of the ellipsis count from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Dots(usize),
    Letter(char),
}

/// A tensor whose axes have labels, each label once.
struct Labelled {
    operand: Operand,
    labels: Vec<Label>,
}

/// The labels of operands and of the result, before ellipses are known.
fn terms(equation: &str) -> Result<(Vec<String>, Option<String>), NodeProblem> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs.to_owned(), Some(output.to_owned())),
        None => (text, None),
    };
    let known = |term: &str| {
        let rest = term.replacen("...", "", 1);
        rest.chars().all(|c| c.is_ascii_alphabetic())
    };
    let inputs: Vec<String> = inputs.split(',').map(str::to_owned).collect();
    match inputs.iter().chain(&output).all(|term| known(term)) {
        true => Ok((inputs, output)),
        false => {
            Err(NodeProblem::attribute("equation", format!("is `{equation}`, no sum of products")))
        }
    }
}

/// The labels of a term of so many axes.
fn labels(term: &str, rank: usize) -> Option<Vec<Label>> {
    let letters = term.chars().filter(char::is_ascii_alphabetic).count();
    let dots = match term.contains("...") {
        true => rank.checked_sub(letters)?,
        false if letters == rank => 0,
        false => return None,
    };
    let (front, back) = term.split_once("...").unwrap_or((term, ""));
    let letters = |part: &str| part.chars().map(Label::Letter).collect::<Vec<_>>();
    Some([letters(front), (0..dots).rev().map(Label::Dots).collect(), letters(back)].concat())
}

pub(super) fn einsum(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let equation = cx.attributes().string("equation")?.unwrap_or("").to_owned();
    let (terms, output) = terms(&equation)?;
    let misfit = |what: String| NodeProblem::attribute("equation", format!("`{equation}`: {what}"));
    let (operands, extents) = labelled(cx, &terms, &misfit)?;
    let result = match output {
        Some(term) => {
            let letters = term.chars().filter(char::is_ascii_alphabetic).count();
            let dots = extents.keys().filter(|label| matches!(label, Label::Dots(_))).count();
            let dots = if term.contains("...") { dots } else { 0 };
            labels(&term, letters + dots).unwrap_or_default()
        }
        None => implied(&operands),
    };
    let unknown = result.iter().any(|label| !extents.contains_key(label));
    if unknown || result.iter().collect::<BTreeSet<_>>().len() != result.len() {
        return Err(misfit("its result has an axis twice, or one that no term has".into()));
    }
    let mut left: Option<Labelled> = None;
    for (index, next) in operands.into_iter().enumerate() {
        let next = diagonal(cx, index, next)?;
        let next = narrowed(cx, index, next, &extents)?;
        let later = terms[index + 1..].concat();
        let needed = |label: &Label| {
            result.contains(label)
                || match label {
                    Label::Letter(letter) => later.contains(*letter),
                    Label::Dots(_) => later.contains("..."),
                }
        };
        left = Some(match left {
            None => next,
            Some(left) => contract(cx, index, left, next, &needed)?,
        });
    }
    let Some(whole) = left else { return Err(NodeProblem::Missing { index: 0, role: "inputs" }) };
    let whole = summed(cx, "sum", whole, &|label| result.contains(label))?;
    let place = |label| whole.labels.iter().position(|own| own == label);
    let perm: Vec<usize> = result.iter().filter_map(place).collect();
    let turned = turned(cx, "turned", whole.operand, &perm)?;
    // An axis that is 1 wherever it is may have been dropped.
    let shape: Vec<usize> = result.iter().map(|label| extents[label]).collect();
    Ok(vec![cx.shaped("shaped", turned, &shape)?])
}

/// The operands, and the extent of each label.
fn labelled(
    cx: &Context<'_, '_>,
    terms: &[String],
    misfit: &dyn Fn(String) -> NodeProblem,
) -> Result<(Vec<Labelled>, BTreeMap<Label, usize>), NodeProblem> {
    if terms.len() != cx.inputs.len() {
        return Err(misfit(format!("{} terms for {} inputs", terms.len(), cx.inputs.len())));
    }
    let mut operands = vec![];
    let mut extents: BTreeMap<Label, usize> = BTreeMap::new();
    for (index, term) in terms.iter().enumerate() {
        let operand = cx.input(index, "inputs")?;
        let shape = cx.shape_of(&operand);
        let found = labels(term, shape.len());
        let found = found.ok_or_else(|| misfit(format!("`{term}` does not fit {shape:?}")))?;
        for (&label, &extent) in found.iter().zip(&shape) {
            let known = extents.entry(label).or_insert(extent);
            match (*known, extent) {
                (a, b) if a == b => {}
                (1, _) => *known = extent,
                (_, 1) => {}
                (a, b) => return Err(misfit(format!("an axis has the extents {a} and {b}"))),
            }
        }
        operands.push(Labelled { operand, labels: found });
    }
    Ok((operands, extents))
}

/// Without an arrow: the ellipsis, and letters that are there once, in order.
fn implied(operands: &[Labelled]) -> Vec<Label> {
    let mut counts: BTreeMap<Label, usize> = BTreeMap::new();
    for &label in operands.iter().flat_map(|one| &one.labels) {
        *counts.entry(label).or_default() += 1;
    }
    let dots = counts.keys().rev().copied().filter(|label| matches!(label, Label::Dots(_)));
    let once =
        counts.iter().filter(|(label, count)| **count == 1 && matches!(label, Label::Letter(_)));
    dots.chain(once.map(|(&label, _)| label)).collect()
}

fn turned(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    operand: Operand,
    perm: &[usize],
) -> Result<Operand, NodeProblem> {
    match perm.iter().copied().eq(0..perm.len()) {
        true => Ok(operand),
        false => cx.serve(suffix, "Transpose", vec![operand], vec![ints("perm", perm)]),
    }
}

/// Where a label is there twice, the diagonal.
fn diagonal(
    cx: &mut Context<'_, '_>,
    index: usize,
    mut of: Labelled,
) -> Result<Labelled, NodeProblem> {
    while let Some((first, second)) = twice(&of.labels) {
        let shape = cx.shape_of(&of.operand);
        let last = shape.len() - 1;
        // The two axes last, as one, of which every so many entries are on the diagonal.
        let mut perm: Vec<usize> =
            (0..shape.len()).filter(|axis| ![first, second].contains(axis)).collect();
        perm.extend([first, second]);
        let name = format!("diagonal{index}");
        let whole = turned(cx, &format!("{name}/turned"), of.operand, &perm)?;
        let extent = shape[first];
        let mut joined: Vec<usize> = perm[..last - 1].iter().map(|&axis| shape[axis]).collect();
        joined.push(extent * shape[second]);
        let whole = cx.shaped(&format!("{name}/joined"), whole, &joined)?;
        let places: Vec<usize> = (0..extent).map(|at| at * (shape[second] + 1)).collect();
        let operand = cx.chosen(&name, whole, last - 1, &places)?;
        let labels = perm[..last].iter().map(|&axis| of.labels[axis]).collect();
        of = Labelled { operand, labels };
    }
    Ok(of)
}

fn twice(labels: &[Label]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|first| {
        let second = labels[first + 1..].iter().position(|label| *label == labels[first])?;
        Some((first, first + 1 + second))
    })
}

/// Without axes of extent 1 that others broadcast.
fn narrowed(
    cx: &mut Context<'_, '_>,
    index: usize,
    of: Labelled,
    extents: &BTreeMap<Label, usize>,
) -> Result<Labelled, NodeProblem> {
    let shape = cx.shape_of(&of.operand);
    let kept: Vec<usize> =
        (0..shape.len()).filter(|&axis| shape[axis] == extents[&of.labels[axis]]).collect();
    if kept.len() == shape.len() {
        return Ok(of);
    }
    let left: Vec<usize> = kept.iter().map(|&axis| shape[axis]).collect();
    let operand = cx.shaped(&format!("narrow{index}"), of.operand, &left)?;
    Ok(Labelled { operand, labels: kept.iter().map(|&axis| of.labels[axis]).collect() })
}

/// Summed over what nobody needs.
fn summed(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    of: Labelled,
    needed: &dyn Fn(&Label) -> bool,
) -> Result<Labelled, NodeProblem> {
    let over: Vec<usize> = (0..of.labels.len()).filter(|&axis| !needed(&of.labels[axis])).collect();
    if over.is_empty() {
        return Ok(of);
    }
    let inputs = vec![of.operand, list(&over)];
    let operand = cx.serve(suffix, "ReduceSum", inputs, vec![int("keepdims", 0)])?;
    let labels = of.labels.into_iter().filter(|label| needed(label)).collect();
    Ok(Labelled { operand, labels })
}

/// The product of two, summed over what both have and nobody needs afterwards.
fn contract(
    cx: &mut Context<'_, '_>,
    index: usize,
    a: Labelled,
    b: Labelled,
    needed: &dyn Fn(&Label) -> bool,
) -> Result<Labelled, NodeProblem> {
    let needed_of = |other: &[Label]| {
        let other = other.to_vec();
        move |label: &Label| needed(label) || other.contains(label)
    };
    let (of_a, of_b) = (needed_of(&b.labels), needed_of(&a.labels));
    let a = summed(cx, &format!("left{index}"), a, &of_a)?;
    let b = summed(cx, &format!("right{index}"), b, &of_b)?;
    let both = |label: &&Label| b.labels.contains(label);
    let batch: Vec<Label> = a.labels.iter().filter(both).filter(|l| needed(l)).copied().collect();
    let inner: Vec<Label> = a.labels.iter().filter(both).filter(|l| !needed(l)).copied().collect();
    let left: Vec<Label> =
        a.labels.iter().filter(|label| !b.labels.contains(label)).copied().collect();
    let right: Vec<Label> =
        b.labels.iter().filter(|label| !a.labels.contains(label)).copied().collect();
    let (shape_a, shape_b) = (cx.shape_of(&a.operand), cx.shape_of(&b.operand));
    let extent = |label: &Label| match a.labels.iter().position(|own| own == label) {
        Some(axis) => shape_a[axis],
        None => b.labels.iter().position(|own| own == label).map_or(1, |axis| shape_b[axis]),
    };
    let count = |labels: &[Label]| labels.iter().map(extent).product::<usize>();
    let order = |of: &[Label], wanted: [&[Label]; 3]| -> Vec<usize> {
        let wanted = wanted.concat();
        wanted.iter().filter_map(|label| of.iter().position(|own| own == label)).collect()
    };
    let perm_a = order(&a.labels, [&batch, &left, &inner]);
    let turned_a = turned(cx, &format!("left{index}/turned"), a.operand, &perm_a)?;
    let perm_b = order(&b.labels, [&batch, &inner, &right]);
    let turned_b = turned(cx, &format!("right{index}/turned"), b.operand, &perm_b)?;
    let (outer, rows, depth, columns) = (count(&batch), count(&left), count(&inner), count(&right));
    let shape = |first: usize, second: usize| match batch.is_empty() {
        true => vec![first, second],
        false => vec![outer, first, second],
    };
    let first = cx.shaped(&format!("left{index}/matrix"), turned_a, &shape(rows, depth))?;
    let second = cx.shaped(&format!("right{index}/matrix"), turned_b, &shape(depth, columns))?;
    // Without a sum the product is element by element.
    let operator = if inner.is_empty() { "Mul" } else { "MatMul" };
    let product = cx.serve(&format!("product{index}"), operator, vec![first, second], vec![])?;
    let labels = [batch, left, right].concat();
    let whole: Vec<usize> = labels.iter().map(extent).collect();
    let operand = cx.shaped(&format!("product{index}/shaped"), product, &whole)?;
    Ok(Labelled { operand, labels })
}
