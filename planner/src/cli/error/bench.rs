//! Errors of `eyelet bench`.

use std::path::PathBuf;

/// Why a comparison did not come about.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("{name}: {message}")]
    Contender { name: String, message: String },
    #[error(
        "{}: onnxruntime runs models, and this is a pack without {} next to it: give the model, which is planned first",
        pack.display(), model.display()
    )]
    NoModel { pack: PathBuf, model: PathBuf },
}
