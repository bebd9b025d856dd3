//! The most probable classes of a classifier's output.

use eyelet_planner::open;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Names of classes, a line each.
#[derive(Clone, Debug, Default)]
pub struct Labels(Vec<String>);

/// Why names cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "{} has {labels} labels, the network's output {classes} classes: give a file with a line for each class",
        path.display()
    )]
    Count { path: PathBuf, labels: usize, classes: usize },
}

/// A class and how probable it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Class {
    pub class: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub probability: f32,
}

impl Labels {
    /// Reads a file, which must have a line for each of so many classes.
    pub fn read(path: &Path, classes: usize) -> Result<Self, LabelError> {
        let text = open::read_to_string(path, open::LIST)
            .map_err(|source| LabelError::Read { path: path.to_owned(), source })?;
        let labels: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        match labels.len() == classes {
            true => Ok(Self(labels)),
            false => {
                Err(LabelError::Count { path: path.to_owned(), labels: labels.len(), classes })
            }
        }
    }

    pub fn of(&self, class: usize) -> Option<String> {
        self.0.get(class).cloned()
    }

    /// The most probable classes, the first of them first.
    pub fn top(&self, outputs: &[f32], count: usize) -> Vec<Class> {
        let probabilities = probabilities(outputs);
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        order.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]).then(a.cmp(b)));
        let class =
            |class| Class { class, label: self.of(class), probability: probabilities[class] };
        order.into_iter().take(count).map(class).collect()
    }
}

/// Probabilities as they are, or the softmax of scores.
fn probabilities(outputs: &[f32]) -> Vec<f32> {
    let sum: f64 = outputs.iter().map(|value| f64::from(*value)).sum();
    if outputs.iter().all(|value| (0.0..=1.0).contains(value)) && (sum - 1.0).abs() < 1e-3 {
        return outputs.to_vec();
    }
    let most = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = outputs.iter().map(|value| f64::from(value - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| (power / sum) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_probable_come_first() {
        let labels = Labels(["cat", "dog", "cow"].map(str::to_owned).to_vec());
        let top = labels.top(&[0.2, 0.7, 0.1], 2);
        assert_eq!(top[0], Class { class: 1, label: Some("dog".to_owned()), probability: 0.7 });
        assert_eq!((top.len(), top[1].class), (2, 0));
        let scores = Labels::default().top(&[0.0, f32::ln(3.0)], 5);
        assert_eq!((scores.len(), scores[0].class, scores[0].label.clone()), (2, 1, None));
        assert!((scores[0].probability - 0.75).abs() < 1e-6, "{scores:?}");
    }

    #[test]
    fn a_file_has_a_line_for_each_class() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("labels.txt");
        std::fs::write(&path, "cat\ndog\n").unwrap();
        assert_eq!(Labels::read(&path, 2).unwrap().of(1).as_deref(), Some("dog"));
        let error = Labels::read(&path, 1000).unwrap_err().to_string();
        assert!(error.contains("has 2 labels, the network's output 1000 classes"), "{error}");
    }
}
