//! Inputs: from files, or made up.

use super::super::Error;
use super::super::error::RunError;
use super::super::pack_file::shape_of;
use super::tables;
use eyelet::executor::Ports;
use eyelet::pack::{Port, PortType, Skeleton};
use eyelet_planner::npy;
use std::path::{Path, PathBuf};

/// A file, and the input that it is said to be of: `ids=ids.npy`.
#[derive(Debug, PartialEq)]
pub struct Named {
    pub name: Option<String>,
    pub path: PathBuf,
}

impl Named {
    /// Takes a word apart at its first `=` after which there is a file, unless the whole is one; else at its first.
    pub fn of(word: &Path) -> Self {
        let plain = || Self { name: None, path: word.to_owned() };
        let Some(text) = word.to_str().filter(|_| !word.exists()) else { return plain() };
        let parts = || text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let found = parts().find(|(_, path)| Path::new(path).is_file()).or_else(|| parts().next());
        match found {
            Some((name, path)) => Self { name: Some(name.into()), path: path.into() },
            None => plain(),
        }
    }
}

/// Where an input comes from. It is written again before every inference, since inferences reuse its
/// memory.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file, which must have the shape of the input of that name.
    File { path: PathBuf, name: String, shape: Vec<usize> },
    /// Made-up values with this seed; integers that choose from a table of so many rows choose some that it has.
    Seeded { seed: u64, entries: Option<u32> },
    /// A picture's values, or its pixels.
    Picture(Vec<f32>),
}

impl Input {
    /// One for each of the network's inputs: all of them files, or none. A file is that of the input that it names, as
    /// in `ids=ids.npy`; the others are in the model's order.
    pub fn all(files: &[PathBuf], skeleton: &Skeleton<'_>) -> Result<Vec<Self>, Error> {
        let ports = skeleton.inputs;
        if files.is_empty() {
            return Ok(Self::seeded(skeleton));
        }
        let names: Vec<&str> = ports.iter().map(|port| skeleton.text(port.name)).collect();
        let owned = || names.iter().map(|&name| name.to_owned()).collect();
        let mut paths: Vec<Option<PathBuf>> = vec![None; ports.len()];
        let mut others = Vec::new();
        for file in files {
            let Named { name: Some(name), path } = Named::of(file) else {
                others.push(file.clone());
                continue;
            };
            let Some(place) = names.iter().position(|&other| other == name) else {
                return Err(RunError::NoInput { name, names: owned() }.into());
            };
            if paths[place].replace(path).is_some() {
                return Err(RunError::InputTwice { name }.into());
            }
        }
        let mut others = others.into_iter();
        for path in &mut paths {
            *path = path.take().or_else(|| others.next());
        }
        if paths.contains(&None) || others.next().is_some() {
            return Err(RunError::Inputs { names: owned(), given: files.len() }.into());
        }
        let paths = paths.into_iter().flatten().zip(ports.iter().zip(names));
        let input = |(path, (port, name)): (PathBuf, (&Port, &str))| Self::File {
            path,
            name: name.to_owned(),
            shape: shape_of(port),
        };
        Ok(paths.map(input).collect())
    }

    /// Made-up values for each of the network's inputs.
    pub fn seeded(skeleton: &Skeleton<'_>) -> Vec<Self> {
        let limits = tables::limits(skeleton).into_iter();
        (0..).zip(limits).map(|(seed, entries)| Self::Seeded { seed, entries }).collect()
    }

    /// What its owner should know: bytes where the network has floats.
    pub fn note(&self, port: &Port) -> Option<String> {
        let Self::File { path, name, .. } = self else { return None };
        let kind = npy::open(path).ok()?.bytes().filter(|_| !port.kind().is_integer())?;
        Some(format!(
            "input `{name}` takes floats, and {} has bytes ({kind}): they are taken as they are, up to 255; if the network \
             was trained on scaled ones, scale them or give the picture to --image",
            path.display()
        ))
    }

    /// Writes it into the model's input of this number: integers and truth values as words.
    pub fn write(&self, model: &mut dyn Ports, index: usize) -> Result<(), Error> {
        // Between two inferences, and with as many inputs as the model has, there is one.
        let kind = model.inputs().get(index).map(Port::kind).unwrap_or_default();
        if let Ok(words) = model.input_words_mut(index) {
            return self.fill_words(kind, words);
        }
        model.input_mut(index).map_or(Ok(()), |floats| self.fill(floats))
    }

    fn fill_words(&self, kind: PortType, into: &mut [i32]) -> Result<(), Error> {
        match self {
            Self::Picture(pixels) => {
                for (word, pixel) in into.iter_mut().zip(pixels) {
                    *word = *pixel as i32;
                }
                Ok(())
            }
            Self::Seeded { seed, entries } => {
                let mut floats = vec![0.0; into.len()];
                seeded(*seed, &mut floats);
                let (least, most) = kind.limits();
                let rows = entries.map(|entries| i32::try_from(entries).unwrap_or(i32::MAX).max(1));
                for (word, float) in into.iter_mut().zip(floats) {
                    *word = match (rows, kind) {
                        (Some(rows), _) => (float as i32).abs().min(rows - 1),
                        (_, PortType::Bool) => (float > 0.0).into(),
                        (_, PortType::Uint8) => (float * 64.0 + 128.0) as i32,
                        _ if least == 0 => (float as i32).abs(),
                        _ => float as i32,
                    }
                    .clamp(least, most);
                }
                Ok(())
            }
            Self::File { path, name, shape } => npy::read_words_into(path, shape, kind, into)
                .map_err(|source| RunError::Input { name: name.clone(), source }.into()),
        }
    }

    fn fill(&self, into: &mut [f32]) -> Result<(), Error> {
        match self {
            Self::Picture(values) => {
                for (float, value) in into.iter_mut().zip(values) {
                    *float = *value;
                }
                Ok(())
            }
            Self::Seeded { seed, .. } => {
                seeded(*seed, into);
                Ok(())
            }
            Self::File { path, name, shape } => npy::read_into(path, shape, into)
                .map_err(|source| RunError::Input { name: name.clone(), source }.into()),
        }
    }
}

/// Values with mean 0 and variance 1, about normally distributed: sums of four uniform ones. Nothing but
/// integer arithmetic and one exact conversion and product each, so that they are the same everywhere.
pub fn seeded(seed: u64, into: &mut [f32]) {
    // Steele, Lea, Flood: Fast splittable pseudorandom number generators (SplitMix64).
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6579_656c_6574_2121;
    for value in into {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let sum = (0..4).map(|part| (mixed >> (16 * part) & 0xffff) as i32).sum::<i32>();
        // Four uniform values of 0 to 65535 have a mean of 131070 and a variance of (2^32 - 1) / 3.
        *value = (sum - 131_070) as f32 * (1.732_050_8 / 65536.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_an_input_and_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["x.npy", "a=b.npy"] {
            std::fs::write(at(name), "").unwrap();
        }
        let of = |name: &str, file: &str| {
            let word = format!("{name}={}", at(file).display());
            Named::of(Path::new(&word))
        };
        let named = |name: &str, file| Named { name: Some(name.into()), path: at(file) };
        assert_eq!(of("ids", "x.npy"), named("ids", "x.npy"));
        assert_eq!(of("x=1", "x.npy"), named("x=1", "x.npy"));
        assert_eq!(of("ids", "a=b.npy"), named("ids", "a=b.npy"));
        assert_eq!(of("ids", "none.npy"), named("ids", "none.npy"));
        let plain = Named { name: None, path: at("a=b.npy") };
        assert_eq!(Named::of(&at("a=b.npy")), plain);
        assert_eq!(Named::of(Path::new("x.npy")), Named { name: None, path: "x.npy".into() });
    }

    #[test]
    fn seeded_values_are_spread_and_repeatable() {
        let mut values = vec![0.0; 100_000];
        seeded(0, &mut values);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        let mut again = vec![0.0; 10];
        seeded(0, &mut again);
        assert_eq!(again, values[..10]);
        seeded(1, &mut again);
        assert_ne!(again, values[..10]);
    }
}
