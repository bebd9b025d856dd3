//! Experiments over many seeds: all cores, a progress bar, and results kept by seed.

use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// A progress bar, or none.
pub struct Progress(ProgressBar);

impl Progress {
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// A bar on the terminal; nothing where there is none.
    pub fn shown(name: &str) -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg:>28} {bar:40} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(name.to_owned());
        Self(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Runs the experiment for each index on all cores. Results come in order.
pub fn each<T: Send>(count: u64, progress: &Progress, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    progress.0.inc_length(count);
    let one = |index| {
        let result = run(index);
        progress.0.inc(1);
        result
    };
    (0..count).into_par_iter().map(one).collect()
}

/// Results of finished experiments, by name and seed, in a folder.
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// Keeps nothing.
    pub fn none() -> Self {
        Self { folder: None }
    }

    pub fn new(folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder: Some(folder) })
    }

    /// The experiment's results for all indices: those that are kept, and the others, which are run and kept.
    /// `name` says everything that a result depends on except the index.
    pub fn each<T: Send + Clone + Serialize + DeserializeOwned>(
        &self,
        name: &str,
        count: u64,
        progress: &Progress,
        run: impl Fn(u64) -> T + Sync,
    ) -> io::Result<Vec<T>> {
        let file = self.folder.as_ref().map(|folder| folder.join(format!("{name}.json")));
        let mut known: BTreeMap<u64, T> = match &file {
            Some(file) if file.exists() => {
                serde_json::from_slice(&std::fs::read(file)?).unwrap_or_default()
            }
            _ => BTreeMap::new(),
        };
        let missing: Vec<u64> = (0..count).filter(|index| !known.contains_key(index)).collect();
        let found = each(missing.len() as u64, progress, |k| run(missing[k as usize]));
        known.extend(missing.iter().copied().zip(found));
        if let Some(file) = file.filter(|_| !missing.is_empty()) {
            std::fs::write(file, serde_json::to_vec(&known)?)?;
        }
        Ok(known.range(..count).map(|(_, result)| result.clone()).collect())
    }
}
