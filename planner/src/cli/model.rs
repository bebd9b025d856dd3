//! Reading the model that a verb is given.

use super::Error;
use super::error::ShapesError;
use super::files::Files;
use eyelet_planner::graph::Graph;
use eyelet_planner::import::{IMPORT_MEMORY, Options, import_with};
use eyelet_planner::size;
use std::path::{Path, PathBuf};

/// What reading a model may take, and what of the model is fixed.
#[derive(Debug, clap::Args)]
pub struct Reading {
    /// Most memory for constants that are made while the model is read: those that it computes of others, integers, and
    /// doubles. Other weights stay in the file [default: 512MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_negative_numbers = true,
        default_value_t = IMPORT_MEMORY, hide_default_value = true)]
    import_memory: u64,
    /// The shape of an input that the model leaves open, as in --shape image=1,3,224,224. Once for each. An input
    /// with an extent of 0 has no elements, and is none of the plan's.
    #[arg(long = "shape", value_name = "NAME=N,N,…", value_parser = shape)]
    shapes: Vec<(String, Vec<usize>)>,
    /// The extent of a dimension that the model names, as in --dim batch=1. Once for each. `eyelet plan`
    /// takes several extents, as in --dim seq=32,64,128, each for a shape of its own; several such dimensions take as many.
    #[arg(long = "dim", value_name = "NAME=N[,N…]", value_parser = dims)]
    dims: Vec<(String, Vec<usize>)>,
    /// Makes an input a constant: a number, several with commas between them, or the path of a .npy file. What follows
    /// from it is computed while the model is read. Once for each.
    #[arg(long = "constant", value_name = "NAME=VALUE", value_parser = constant)]
    constants: Vec<(String, String)>,
    /// Cuts the model after a node or tensor, which becomes an output. Once for each.
    #[arg(long, value_name = "NAME")]
    until: Vec<String>,
    /// Weights of a Darknet model [default: next to the .cfg, with the extension .weights].
    #[arg(long, value_name = "FILE.weights")]
    weights_file: Option<PathBuf>,
}

/// Extents of dimensions, by name.
type Extents = Vec<(String, usize)>;

impl Reading {
    /// Adds what is read besides the model and the data that it names.
    pub fn files(&self, files: Files) -> Files {
        files.reads("--weights-file", &self.weights_file)
    }

    /// Reads a model in one shape, which is all that `what` is of.
    pub fn import(&self, what: &'static str, path: &Path) -> Result<Graph, Error> {
        match self.shapes()? {
            shapes if shapes.len() > 1 => {
                Err(ShapesError::OneShape { what, shapes: shapes.len() }.into())
            }
            mut shapes => self.read(path, shapes.remove(0).1),
        }
    }

    /// Reads a model in each of its shapes. One alone has no name.
    pub fn import_shapes(&self, path: &Path) -> Result<Vec<(String, Graph)>, Error> {
        let shapes = self.shapes()?.into_iter();
        shapes.map(|(name, dims)| Ok((name, self.read(path, dims)?))).collect()
    }

    /// Names and extents of the dimensions of each shape. What differs is its name.
    fn shapes(&self) -> Result<Vec<(String, Extents)>, Error> {
        let mut lists = self.dims.iter().filter(|(_, extents)| extents.len() > 1);
        let count = match lists.next() {
            None => 1,
            Some((first, extents)) => {
                let extents = extents.len();
                if let Some((other, others)) = lists.find(|(_, others)| others.len() != extents) {
                    let (first, other, others) = (first.clone(), other.clone(), others.len());
                    return Err(ShapesError::Uneven { first, extents, other, others }.into());
                }
                extents
            }
        };
        let mut shapes: Vec<(String, Extents)> = Vec::new();
        for shape in 0..count {
            let extent = |extents: &[usize]| extents[shape.min(extents.len() - 1)];
            let different = self.dims.iter().filter(|(_, extents)| extents.len() > 1);
            let name = different.map(|(name, extents)| format!("{name}={}", extent(extents)));
            let name = name.collect::<Vec<_>>().join(",");
            if shapes.iter().any(|(known, _)| *known == name) {
                return Err(ShapesError::Twice(name).into());
            }
            let dims = self.dims.iter().map(|(name, extents)| (name.clone(), extent(extents)));
            shapes.push((name, dims.collect()));
        }
        Ok(shapes)
    }

    fn read(&self, path: &Path, dims: Extents) -> Result<Graph, Error> {
        let options = Options {
            memory: self.import_memory,
            shapes: self.shapes.clone(),
            dims,
            constants: self.constants.clone(),
            until: self.until.clone(),
            weights: self.weights_file.clone(),
        };
        import_with(path, &options).map_err(|source| {
            let command = source.missing_dims().map(|missing| again(&missing));
            Error::Import { path: path.to_owned(), source: Box::new(source), command }
        })
    }
}

/// The command line of this process with more options.
fn again(more: &str) -> String {
    let quoted = |word: String| match word
        .chars()
        .all(|c| c.is_alphanumeric() || "_-./:=,%+@".contains(c))
    {
        true if !word.is_empty() => word,
        _ => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    let words: Vec<String> = words.collect();
    format!("eyelet {} {more}", words.join(" "))
}

/// `batch=1`.
pub fn dim(text: &str) -> Result<(String, usize), String> {
    match dims(text)? {
        (name, extents) if extents.len() == 1 => Ok((name, extents[0])),
        _ => Err(format!("`{text}` has several extents: give one")),
    }
}

/// `seq=32,64,128`, or one extent.
fn dims(text: &str) -> Result<(String, Vec<usize>), String> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let (name, extents) =
        parts.ok_or_else(|| format!("`{text}` is none: write one such as batch=1"))?;
    let extents = extents.split(',').map(extent_of).collect::<Result<_, _>>()?;
    Ok((name.into(), extents))
}

/// `image=1,3,224,224`.
fn shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let (name, shape) =
        parts.ok_or_else(|| format!("`{text}` is none: write one such as image=1,3,224,224"))?;
    let shape = shape.split(',').map(extent_of).collect::<Result<_, _>>()?;
    Ok((name.into(), shape))
}

fn extent_of(text: &str) -> Result<usize, String> {
    match text.trim().parse::<u32>() {
        Ok(extent) => Ok(extent as usize),
        _ => Err(format!("`{text}` is no extent: a number from 0 to 4294967295")),
    }
}

/// `sr=16000`.
fn constant(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| {
        format!("`{text}` is none: write one such as rate=16000 or mask=mask.npy")
    })?;
    Ok((name.into(), value.into()))
}
