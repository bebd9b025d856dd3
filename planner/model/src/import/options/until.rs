//! Cutting a model at tensors: what comes after them is left out.

use super::super::node_name;
use super::super::onnx::{GraphProto, ValueInfoProto};
use super::OptionProblem;
use std::collections::HashSet;

/// How many names are offered for one that is unknown.
const MOST_OFFERED: usize = 5;
/// How alike two names must be, between 0 and 1.
const ALIKE: f64 = 0.6;

/// Makes tensors the outputs: those of these names, or all that nodes of these names make.
pub(super) fn cut(graph: &mut GraphProto, names: &[String]) -> Result<(), OptionProblem> {
    let tensors: HashSet<&str> = graph
        .node
        .iter()
        .flat_map(|node| &node.output)
        .chain(graph.input.iter().map(|input| &input.name))
        .chain(graph.initializer.iter().map(|tensor| &tensor.name))
        .map(String::as_str)
        .collect();
    let mut outputs: Vec<String> = vec![];
    for name in names {
        let found: Vec<&String> = match tensors.contains(name.as_str()) && !name.is_empty() {
            true => vec![name],
            false => {
                let nodes = graph.node.iter().enumerate();
                let named = nodes.filter(|&(index, node)| node_name(node, index) == *name);
                named.flat_map(|(_, node)| &node.output).filter(|name| !name.is_empty()).collect()
            }
        };
        if found.is_empty() {
            let names = graph.node.iter().enumerate();
            let mut known: Vec<String> =
                names.map(|(index, node)| node_name(node, index)).collect();
            known.extend(tensors.iter().filter(|name| !name.is_empty()).map(|&name| name.into()));
            let similar = similar(name, &known);
            return Err(OptionProblem::Until { name: name.clone(), similar });
        }
        for name in found {
            if !outputs.contains(name) {
                outputs.push(name.clone());
            }
        }
    }
    graph.output = outputs.into_iter().map(|name| ValueInfoProto { name, r#type: None }).collect();
    Ok(())
}

/// Those of the names that are most like one, the nearest first.
pub(super) fn similar(name: &str, known: &[String]) -> Vec<String> {
    let wanted = name.to_lowercase();
    let alike = |known: &String| {
        let known = known.to_lowercase();
        match known.contains(&wanted) || wanted.contains(&known) {
            true => 1.0 + 1.0 / (1.0 + known.len().abs_diff(wanted.len()) as f64),
            false => strsim::jaro_winkler(&known, &wanted),
        }
    };
    let mut scored: Vec<(f64, &String)> = known.iter().map(|one| (alike(one), one)).collect();
    scored.retain(|&(score, _)| score >= ALIKE);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(MOST_OFFERED).map(|(_, name)| name.clone()).collect()
}
