//! Inputs: from files, or made up.

use super::super::Error;
use super::super::error::RunError;
use super::super::pack_file::shape_of;
use eyelet::executor::Ports;
use eyelet::pack::{Port, PortType};
use eyelet_planner::npy;
use std::path::PathBuf;

/// Where an input comes from. It is written again before every inference, since inferences reuse its
/// memory.
#[derive(Debug)]
pub enum Input {
    /// A file, which must have the shape of the input of that name.
    File { path: PathBuf, name: String, shape: Vec<usize> },
    /// Made-up values with this seed.
    Seeded(u64),
    /// A picture's values, or its pixels.
    Picture(Vec<f32>),
}

impl Input {
    /// One for each of the network's inputs: all of them files, or none.
    pub fn all(
        files: &[PathBuf],
        ports: &[Port],
        name: impl Fn(&Port) -> String,
    ) -> Result<Vec<Self>, Error> {
        if files.is_empty() {
            return Ok((0..ports.len() as u64).map(Self::Seeded).collect());
        }
        if files.len() != ports.len() {
            let names = ports.iter().map(name).collect();
            return Err(RunError::Inputs { names, given: files.len() }.into());
        }
        Ok(files
            .iter()
            .zip(ports)
            .map(|(path, port)| {
                let (path, name) = (path.clone(), name(port));
                Self::File { path, name, shape: shape_of(port) }
            })
            .collect())
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
            Self::Seeded(seed) => {
                let mut floats = vec![0.0; into.len()];
                seeded(*seed, &mut floats);
                let (least, most) = kind.limits();
                for (word, float) in into.iter_mut().zip(floats) {
                    *word = match kind {
                        PortType::Bool => (float > 0.0).into(),
                        PortType::Uint8 => (float * 64.0 + 128.0) as i32,
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
            Self::Seeded(seed) => {
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
