//! Everything that stands between a model and its graph, reported at once.
//!
//! Nodes that cannot be translated for one reason are one line; what follows from them is not
//! reported.

use super::dynamic;
use super::error::{Blockers, ImportError};
use std::fmt;

/// Lines that a report has; the rest is counted.
const MOST_LINES: usize = 40;
/// Nodes that a line names.
const MOST_NODES: usize = 8;

/// One reason, for programs to read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Blocker {
    /// The operator of the node that is in the way, if it is a node.
    pub operator: Option<String>,
    /// The node's name.
    pub node: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

impl ImportError {
    /// All reasons, one each.
    pub fn blockers(&self) -> Vec<Blocker> {
        match self {
            ImportError::Blocked(Blockers(all)) => all.iter().map(blocker).collect(),
            one => vec![blocker(one)],
        }
    }

    /// Options that fix the dimensions which the model leaves open, if it does.
    pub fn missing_dims(&self) -> Option<String> {
        match self {
            ImportError::Dynamic { inputs } => Some(dynamic::options(inputs)),
            ImportError::Blocked(Blockers(all)) => all.iter().find_map(ImportError::missing_dims),
            _ => None,
        }
    }

    /// One error of those that were found, at least one.
    pub(super) fn of(mut all: Vec<ImportError>) -> Self {
        match all.len() {
            1 => all.remove(0),
            _ => ImportError::Blocked(Blockers(all)),
        }
    }
}

fn blocker(error: &ImportError) -> Blocker {
    match error {
        ImportError::Node { node, operator, problem, .. } => Blocker {
            operator: Some(operator.clone()),
            node: Some(node.clone()),
            reason: problem.to_string(),
        },
        other => Blocker { operator: None, node: None, reason: other.to_string() },
    }
}

/// A reason, and the nodes that have it.
struct Group {
    operator: Option<String>,
    reason: String,
    nodes: Vec<String>,
}

/// The blockers, those of one operator and reason together, in the order in which they were found;
/// operators come one after the other.
fn groups(errors: &[ImportError]) -> Vec<Group> {
    let mut groups: Vec<Group> = vec![];
    let mut places = std::collections::HashMap::new();
    let mut operators = std::collections::HashMap::new();
    for Blocker { operator, node, reason } in errors.iter().map(blocker) {
        let place = *places.entry((operator.clone(), reason.clone())).or_insert(groups.len());
        if place == groups.len() {
            let count = operators.len();
            operators.entry(operator.clone()).or_insert(count);
            groups.push(Group { operator, reason, nodes: vec![] });
        }
        groups[place].nodes.extend(node);
    }
    groups.sort_by_key(|group| operators[&group.operator]);
    groups
}

impl fmt::Display for Blockers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(errors) = self;
        write!(f, "{} things stand between this model and a pack:", errors.len())?;
        let groups = groups(errors);
        for Group { operator, reason, nodes } in groups.iter().take(MOST_LINES) {
            let Some(operator) = operator else {
                write!(f, "\n  {reason}")?;
                continue;
            };
            let named: Vec<String> =
                nodes.iter().take(MOST_NODES).map(|node| format!("`{node}`")).collect();
            let (count, named) = (nodes.len(), named.join(", "));
            let rest = match count.saturating_sub(MOST_NODES) {
                0 => String::new(),
                rest => format!(" and {rest} more"),
            };
            let noun = if count == 1 { "node" } else { "nodes" };
            write!(f, "\n  operator `{operator}`, {count} {noun} ({named}{rest}): {reason}")?;
        }
        match groups.len().saturating_sub(MOST_LINES) {
            0 => Ok(()),
            rest => write!(f, "\n  and {rest} more kinds; --json has all"),
        }
    }
}
