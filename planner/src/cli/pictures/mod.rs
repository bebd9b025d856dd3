//! Pictures in, labels or boxes out.

mod boxes;
mod decode;
mod labels;
mod picture;
mod preprocess;

use boxes::{Form, Found};
use eyelet::executor::{Feed, Model};
use eyelet_planner::replace::replace;
use image::codecs::png::PngEncoder;
use image::{ImageError, RgbImage};
use labels::{Class, LabelError, Labels};
use picture::{Layout, Picture, PictureError, Placement};
use preprocess::{Preprocess, PreprocessError};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Pictures as inputs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pictures")]
pub struct Options {
    /// The input: a PNG or JPEG file. Prints the most probable classes, or what a detector has found. To decode a picture takes
    /// memory besides the budget: 128 MiB at most, and 64 bytes more for each pixel of the input. Larger ones are refused.
    #[arg(long, value_name = "FILE", conflicts_with = "inputs")]
    pub image: Option<PathBuf>,
    /// Runs each PNG and JPEG file of a folder, in the order of their names. Those that cannot be read are named in the end,
    /// with exit code 1.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["inputs", "image", "runs", "warmup", "layers", "trace", "report", "speed"])]
    pub dir: Option<PathBuf>,
    /// How a picture becomes an input: imagenet, yolo, raw (pixels as they are), or a file with the keys fit, crop, scale,
    /// mean, std, order and pad. An input of integers always gets pixels.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "imagenet")]
    preprocess: String,
    /// Names of the classes, a line each.
    #[arg(long, value_name = "FILE.txt")]
    pub labels: Option<PathBuf>,
    /// Classes to print.
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Writes the picture of --image with the boxes that a detector has found.
    #[arg(long, value_name = "FILE.png", requires = "image")]
    pub draw: Option<PathBuf>,
    /// Writes what was found in each picture.
    #[arg(long, value_name = "FILE.csv")]
    pub csv: Option<PathBuf>,
}

/// Why pictures cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Picture(#[from] PictureError),
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    #[error(transparent)]
    Labels(#[from] LabelError),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has no PNG or JPEG file", path.display())]
    Empty { path: PathBuf },
    #[error(
        "{unread} of {all} pictures could not be read, the first: {first}; mend them, or move them away"
    )]
    Unread { unread: usize, all: usize, first: String },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// An input or output of the network.
#[derive(Clone, Debug)]
pub struct Port {
    pub name: String,
    pub shape: Vec<usize>,
    /// Whether its elements are floats.
    pub floats: bool,
}

/// What was found in a picture.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    pub file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boxes: Option<Vec<Found>>,
}

/// A picture that could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct Unread {
    pub file: PathBuf,
    pub error: String,
}

/// An error if there are any, next to so many that could be read.
pub fn unread(unread: &[Unread], read: usize) -> Result<(), Error> {
    let Some(Unread { error, .. }) = unread.first() else { return Ok(()) };
    let (all, first) = (unread.len() + read, error.clone());
    Err(Error::Unread { unread: unread.len(), all, first })
}

impl Options {
    /// The pictures: one, or all of a folder. None where inputs are no pictures.
    pub fn paths(&self) -> Result<Vec<PathBuf>, Error> {
        let Some(folder) = &self.dir else { return Ok(self.image.iter().cloned().collect()) };
        let failed = |source| Error::Read { path: folder.clone(), source };
        let entries = std::fs::read_dir(folder).map_err(failed)?;
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
            if ["png", "jpg", "jpeg"].iter().any(|known| extension == *known) {
                paths.push(path);
            }
        }
        paths.sort();
        match paths.is_empty() {
            true => Err(Error::Empty { path: folder.clone() }),
            false => Ok(paths),
        }
    }
}

/// The pictures of a run, and how they are shown.
#[derive(Debug)]
pub struct View<'a> {
    viewer: Viewer<'a>,
    pub paths: Vec<PathBuf>,
    /// The one picture that all inferences are of.
    one: Option<One>,
}

/// The one picture, of which no more is kept than is used again.
#[derive(Debug)]
struct One {
    /// To be drawn on, if that was asked for.
    picture: Option<RgbImage>,
    /// Until they are taken.
    values: Vec<f32>,
    placement: Placement,
}

impl<'a> View<'a> {
    /// For a network with these inputs and outputs. None where inputs are no pictures.
    pub fn new(
        options: &'a Options,
        inputs: &[Port],
        outputs: &[Port],
    ) -> Result<Option<Self>, Error> {
        let paths = options.paths()?;
        let Some(first) = paths.first() else { return Ok(None) };
        let viewer = Viewer::new(options, inputs, outputs)?;
        let one = options.image.is_some().then(|| viewer.read(first)).transpose()?;
        let one = one.map(|(picture, Picture { values, placement })| One {
            picture: options.draw.is_some().then_some(picture),
            values,
            placement,
        });
        Ok(Some(Self { viewer, paths, one }))
    }

    /// Takes the input of all inferences, if they are of one picture.
    pub fn input(&mut self) -> Option<Vec<f32>> {
        self.one.as_mut().map(|one| std::mem::take(&mut one.values))
    }

    /// A picture as an input, and where it is in it.
    pub fn read(&self, path: &Path) -> Result<(Vec<f32>, Placement), Error> {
        let (_, Picture { values, placement }) = self.viewer.read(path)?;
        Ok((values, placement))
    }

    /// What the outputs say of the one picture, written where that was asked for.
    pub fn finish(&mut self, model: &mut Model<'_, '_, impl Feed>) -> Result<Vec<Seen>, Error> {
        let Some((one, path)) = self.one.take().zip(self.paths.first()) else {
            return Ok(Vec::new());
        };
        let seen = vec![self.see(model, path, one.placement)];
        self.write(one.picture, &seen)?;
        Ok(seen)
    }

    /// What the outputs of the last inference say of a picture.
    pub fn see(
        &self,
        model: &mut Model<'_, '_, impl Feed>,
        path: &Path,
        placement: Placement,
    ) -> Seen {
        self.viewer.see(model, path, placement)
    }

    /// Writes what was asked for: a picture with boxes, and a table.
    pub fn write(&self, picture: Option<RgbImage>, seen: &[Seen]) -> Result<(), Error> {
        self.viewer.write(picture, seen)
    }
}

/// How a network's pictures are read and its outputs understood.
#[derive(Debug)]
struct Viewer<'a> {
    options: &'a Options,
    how: Preprocess,
    layout: Layout,
    /// Whether the input has floats, which are scaled.
    floats: bool,
    /// The output that is shown.
    output: usize,
    form: Option<Form>,
    labels: Labels,
}

impl<'a> Viewer<'a> {
    fn new(options: &'a Options, inputs: &[Port], outputs: &[Port]) -> Result<Self, Error> {
        let [input] = inputs else {
            return Err(PictureError::Inputs { inputs: inputs.len() }.into());
        };
        let forms = outputs.iter().map(|port| Form::of(&port.shape));
        let found = forms.enumerate().find_map(|(index, form)| Some((index, form?)));
        let classes = |port: &Port| port.shape.iter().product();
        let count = match (&found, outputs.first()) {
            (Some((_, form)), _) => form.classes,
            (None, first) => first.map_or(0, classes),
        };
        let labels = options.labels.as_ref().map(|path| Labels::read(path, count)).transpose()?;
        Ok(Self {
            options,
            how: Preprocess::find(&options.preprocess)?,
            layout: Layout::of(&input.name, &input.shape)?,
            floats: input.floats,
            output: found.map_or(0, |(index, _)| index),
            form: found.map(|(_, form)| form),
            labels: labels.unwrap_or_default(),
        })
    }

    /// Reads a picture and fits it to the input.
    fn read(&self, path: &Path) -> Result<(RgbImage, Picture), Error> {
        let picture = decode::decode(path, self.layout, &self.how)?;
        let fitted = picture::fit(&picture, self.layout, &self.how, self.floats);
        Ok((picture, fitted))
    }

    /// What the outputs of the last inference say of a picture.
    fn see(&self, model: &mut Model<'_, '_, impl Feed>, path: &Path, placement: Placement) -> Seen {
        let floats = model.output(self.output).unwrap_or_default();
        let mut seen =
            Seen { file: path.to_owned(), latency_ms: None, classes: Vec::new(), boxes: None };
        match &self.form {
            Some(form) => seen.boxes = Some(form.boxes(floats, placement, &self.labels)),
            None => seen.classes = self.labels.top(floats, self.options.top),
        }
        seen
    }

    /// Writes what was asked for: a picture with boxes, and a table.
    fn write(&self, picture: Option<RgbImage>, seen: &[Seen]) -> Result<(), Error> {
        if let (Some(path), Some(mut picture)) = (&self.options.draw, picture) {
            let found = seen.first().and_then(|seen| seen.boxes.as_deref()).unwrap_or_default();
            boxes::draw(&mut picture, found);
            replace(path, |file| {
                picture.write_with_encoder(PngEncoder::new(file)).map_err(|error| match error {
                    ImageError::IoError(error) => error,
                    error => io::Error::other(error),
                })
            })
            .map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        let Some(path) = &self.options.csv else { return Ok(()) };
        let failed = |source| Error::Write { path: path.clone(), source };
        let text = table(seen).map_err(failed)?;
        replace(path, |file| file.write_all(&text)).map_err(failed)
    }
}

/// A line for each class or box.
fn table(seen: &[Seen]) -> io::Result<Vec<u8>> {
    let mut table = csv::Writer::from_writer(Vec::new());
    let detects = seen.iter().any(|seen| seen.boxes.is_some());
    let head: &[&str] = match detects {
        true => &["file", "class", "label", "score", "left", "top", "right", "bottom"],
        false => &["file", "rank", "class", "label", "probability"],
    };
    table.write_record(head)?;
    for one in seen {
        let file = one.file.display().to_string();
        for (rank, Class { class, label, probability }) in (1..).zip(&one.classes) {
            let label = label.as_deref().unwrap_or_default();
            let rank: u32 = rank;
            table.serialize((&file, rank, class, label, probability))?;
        }
        for found in one.boxes.iter().flatten() {
            let Found { class, label, score, left, top, right, bottom } = found;
            let label = label.as_deref().unwrap_or_default();
            table.serialize((&file, class, label, score, left, top, right, bottom))?;
        }
    }
    table.into_inner().map_err(|error| error.into_error())
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |label: &Option<String>, class: usize| {
            label.clone().unwrap_or_else(|| format!("class {class}"))
        };
        write!(f, "{}", self.file.display())?;
        if let Some(ms) = self.latency_ms {
            write!(f, " ({ms:.2} ms)")?;
        }
        writeln!(f)?;
        for Class { class, label, probability } in &self.classes {
            writeln!(f, "  {:>6.2} %  {}", probability * 100.0, name(label, *class))?;
        }
        for found in self.boxes.iter().flatten() {
            let Found { class, label, score, left, top, right, bottom } = found;
            writeln!(
                f,
                "  {:>6.2} %  {}, from ({left:.0}, {top:.0}) to ({right:.0}, {bottom:.0})",
                score * 100.0,
                name(label, *class)
            )?;
        }
        match &self.boxes {
            Some(boxes) if boxes.is_empty() => writeln!(f, "  nothing found"),
            _ => Ok(()),
        }
    }
}
