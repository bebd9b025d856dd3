//! Where a model may be cut so that what is known of it can be planned.

use super::super::body::reads;
use super::super::builder::Operand;
use super::super::context::Given;
use super::super::dynamic::quoted;
use super::super::error::{ImportError, NodeProblem};
use super::Importer;

/// Tensors that advice names.
const MOST: usize = 8;

impl<'a> Importer<'a> {
    /// Names the tensors at which to cut the model, in problems that say so. These nodes were translated, in order.
    pub(super) fn name_cuts(&mut self, order: &[usize]) {
        let asks = |problem: &ImportError| {
            matches!(problem, ImportError::Node { problem: NodeProblem::Length { .. }, .. })
        };
        if !self.problems.iter().any(asks) {
            return;
        }
        let frontier = self.frontier(order);
        let options: Vec<String> =
            frontier.iter().take(MOST).map(|name| format!("--until {}", quoted(name))).collect();
        let more = if frontier.len() > MOST { " and others" } else { "" };
        let named = options.join(" ") + more;
        for problem in &mut self.problems {
            if let ImportError::Node { problem: NodeProblem::Length { until, .. }, .. } = problem {
                until.clone_from(&named);
            }
        }
    }

    /// The tensors that are computed and that are outputs, or read by nodes of which nothing is known.
    fn frontier(&self, order: &[usize]) -> Vec<&'a str> {
        let scope = &self.scopes[0];
        let unknown =
            |name: &String| matches!(scope.names.get(name.as_str()), Some(Given::Unknown));
        let nodes = order.iter().map(|&index| &scope.nodes[index]);
        let read = nodes.filter(|node| node.output.iter().any(unknown)).flat_map(reads);
        let outputs = self.graph.output.iter().map(|output| output.name.as_str());
        let mut found: Vec<&str> = vec![];
        for name in read.chain(outputs) {
            let Some(Given::Known(operand)) = scope.names.get(name) else { continue };
            let (Operand::Float(_, value) | Operand::Whole(_, value)) = operand else { continue };
            let graph = &self.builder.graph;
            let computed = graph.values[*value].constant.is_none() && !graph.inputs.contains(value);
            if computed && !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }
}
