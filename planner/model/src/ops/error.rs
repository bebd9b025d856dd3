//! Why a graph cannot be lowered.

/// Why a graph cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// A combination that no layer expresses.
    #[error("node {node}: {what}; {hint}")]
    Unsupported {
        /// The node's name.
        node: String,
        /// What is asked for.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// Two sizes that should agree do not: the graph is not well formed.
    #[error("node {node}: {what} is {found}, expected {expected}; check the model's shapes")]
    Mismatch {
        /// The node's name.
        node: String,
        /// Which size.
        what: &'static str,
        /// Its value.
        found: usize,
        /// What it should be.
        expected: usize,
    },
    /// A number does not fit the pack's fields.
    #[error(
        "node {node}: {what} is {found}, but the pack format limits it to {limit}; use a smaller input"
    )]
    TooLarge {
        /// The node's name.
        node: String,
        /// Which number.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The limit.
        limit: usize,
    },
}
