//! How a picture becomes an input: fitted to the input's width and height, then scaled.

use eyelet_planner::open;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};

/// What is done to a picture before a network sees it.
///
/// A pixel's value `v`, 0 to 255, becomes `(v / scale - mean) / std` of its channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Preprocess {
    pub fit: Fit,
    /// The part of the shorter side that remains, if the middle is cut out.
    pub crop: f32,
    pub scale: f32,
    /// For red, green and blue.
    #[serde(deserialize_with = "of_channels")]
    pub mean: [f32; 3],
    /// For red, green and blue.
    #[serde(deserialize_with = "of_channels")]
    pub std: [f32; 3],
    pub order: Order,
    /// The value of pixels that are added around the picture, 0 to 255.
    pub pad: u8,
}

/// How a picture of another shape fits an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// The middle is cut out.
    Crop,
    /// Width and height are scaled by different factors.
    Stretch,
    /// All of it is seen, with bars at two sides.
    Letterbox,
}

/// The order of the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    Rgb,
    Bgr,
}

impl Default for Preprocess {
    fn default() -> Self {
        Self {
            fit: Fit::Stretch,
            crop: 1.0,
            scale: 1.0,
            mean: [0.0; 3],
            std: [1.0; 3],
            order: Order::Rgb,
            pad: 0,
        }
    }
}

/// Why a description of preprocessing is refused.
#[derive(Debug, thiserror::Error)]
pub enum PreprocessError {
    #[error("{name} is neither imagenet, yolo nor raw, nor the path of a .toml file")]
    Unknown { name: String },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {message}", path.display())]
    Syntax { path: PathBuf, message: String },
    #[error("{}: {key} is {value}: {wanted}", path.display())]
    Value { path: PathBuf, key: &'static str, value: f32, wanted: &'static str },
}

/// A number for each channel. (An array takes the first three of more.)
fn of_channels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[f32; 3], D::Error> {
    let numbers = Vec::<f32>::deserialize(deserializer)?;
    numbers.try_into().map_err(|numbers: Vec<f32>| {
        let found = numbers.len();
        serde::de::Error::custom(format_args!(
            "{found} numbers for 3 channels: give one each for red, green and blue, as in [0.5, 0.5, 0.5]"
        ))
    })
}

impl Preprocess {
    /// What torchvision's classifiers are trained with.
    fn imagenet() -> Self {
        Self {
            fit: Fit::Crop,
            crop: 224.0 / 256.0,
            scale: 255.0,
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
            ..Self::default()
        }
    }

    /// What YOLO's detectors are trained with.
    fn yolo() -> Self {
        Self { fit: Fit::Letterbox, scale: 255.0, pad: 114, ..Self::default() }
    }

    /// One of the known ways by its name, or one from a file.
    pub fn find(name: &str) -> Result<Self, PreprocessError> {
        match name {
            "imagenet" => Ok(Self::imagenet()),
            "yolo" => Ok(Self::yolo()),
            "raw" => Ok(Self::default()),
            _ if Path::new(name).extension().is_some_and(|extension| extension == "toml") => {
                Self::read(Path::new(name))
            }
            _ => Err(PreprocessError::Unknown { name: name.to_owned() }),
        }
    }

    fn read(path: &Path) -> Result<Self, PreprocessError> {
        let text = open::read_to_string(path, open::DESCRIPTION)
            .map_err(|source| PreprocessError::Read { path: path.to_owned(), source })?;
        let found: Self = toml::from_str(&text).map_err(|error| PreprocessError::Syntax {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        found.check(path)?;
        Ok(found)
    }

    fn check(&self, path: &Path) -> Result<(), PreprocessError> {
        let refuse = |key, value, wanted| {
            Err(PreprocessError::Value { path: path.to_owned(), key, value, wanted })
        };
        if !(self.crop > 0.0 && self.crop <= 1.0) {
            return refuse("crop", self.crop, "give a part above 0, at most 1");
        }
        for (key, values) in [("scale", &[self.scale][..]), ("std", &self.std)] {
            if let Some(value) = values.iter().find(|value| !(value.is_finite() && **value > 0.0)) {
                return refuse(key, *value, "give a finite number above 0");
            }
        }
        match self.mean.iter().find(|value| !value.is_finite()) {
            Some(value) => refuse("mean", *value, "give a finite number"),
            None => Ok(()),
        }
    }

    /// What the channel `channel` (0 red, 1 green, 2 blue) of a pixel becomes.
    pub fn value(&self, channel: usize, pixel: u8) -> f32 {
        (f32::from(pixel) / self.scale - self.mean[channel]) / self.std[channel]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ways_have_names() {
        assert!(Preprocess::find("imagenet").is_ok() && Preprocess::find("yolo").is_ok());
        let raw = Preprocess::find("raw").unwrap();
        assert_eq!((raw.value(0, 255), raw.fit), (255.0, Fit::Stretch));
        let error = Preprocess::find("imagnet").unwrap_err().to_string();
        assert!(error.starts_with("imagnet is neither imagenet, yolo nor raw"), "{error}");
    }

    #[test]
    fn files_are_read_strictly() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Preprocess::find(path.to_str().unwrap()).map_err(|error| error.to_string())
        };
        let found = read("fit = \"letterbox\"\nscale = 255.0\norder = \"bgr\"\npad = 7\n").unwrap();
        assert_eq!((found.fit, found.order, found.pad), (Fit::Letterbox, Order::Bgr, 7));
        for (key, numbers) in [("mean", 0), ("mean", 1), ("std", 2), ("mean", 4), ("mean", 9)] {
            let error = read(&format!("{key} = {:?}", vec![1.0; numbers])).unwrap_err();
            assert!(error.contains(&format!("{numbers} numbers for 3 channels")), "{error}");
            assert!(error.contains(key) && error.contains("net.toml"), "{error}");
        }
        assert!(read("mean = 0.5").unwrap_err().contains("expected a sequence"));
        assert!(read("fits = \"crop\"").unwrap_err().contains("unknown field `fits`"));
        assert!(read("std = [1.0, 0.0, 1.0]").unwrap_err().contains("std is 0: give a finite"));
        assert!(read("crop = 1.5").unwrap_err().contains("crop is 1.5: give a part above 0"));
    }

    #[test]
    fn imagenets_mean_is_zero() {
        let ways = Preprocess::find("imagenet").unwrap();
        assert!(ways.value(0, 124).abs() < 0.01, "{}", ways.value(0, 124));
    }
}
