//! Errors of `--dim`, which gives a network shapes.

/// Why shapes make no sense.
#[derive(Debug, thiserror::Error)]
pub enum ShapesError {
    #[error("{what} is of one shape, and there are {shapes}: give one extent for each --dim")]
    OneShape { what: &'static str, shapes: usize },
    #[error(
        "--dim {first} gives {extents} extents, and --dim {other} gives {others}: shapes take one of each, so give as \
         many, or one for all shapes"
    )]
    Uneven { first: String, extents: usize, other: String, others: usize },
    #[error("--dim gives the shape {0} twice: give each once")]
    Twice(String),
}
