//! Which compiler there is for GPUs, and the options that all of them get.

use std::fmt;
use std::path::{Path, PathBuf};

use super::nvcc::Nvcc;
use super::nvrtc::Nvrtc;
use super::{fail, variable};

/// Nothing is contracted, flushed or approximated by surprise: results are the bits of a processor.
/// These are the names of both compilers, and of CUDA 10.2's as well.
pub const FLAGS: [&str; 5] =
    ["--std=c++14", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

/// A translation unit: where its text lies, and the text.
pub struct Unit<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

/// A module for one architecture, in both forms, and what the compiler remarked.
pub struct Module {
    pub cubin: Vec<u8>,
    pub ptx: String,
    pub remarks: String,
}

pub enum Compiler {
    Nvcc(Nvcc),
    Nvrtc(Nvrtc),
}

impl Compiler {
    /// The architectures that it compiles for.
    pub fn archs(&self) -> Vec<u32> {
        match self {
            Compiler::Nvcc(nvcc) => nvcc.archs(),
            Compiler::Nvrtc(nvrtc) => nvrtc.archs(),
        }
    }

    /// Compiles for one architecture. The error is what the compiler said.
    pub fn compile(&self, unit: &Unit<'_>, arch: u32) -> Result<Module, String> {
        match self {
            Compiler::Nvcc(nvcc) => nvcc.compile(unit, arch),
            Compiler::Nvrtc(nvrtc) => nvrtc.compile(unit, arch),
        }
    }
}

/// Its name, place and version.
impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compiler::Nvcc(nvcc) => nvcc.fmt(f),
            Compiler::Nvrtc(nvrtc) => nvrtc.fmt(f),
        }
    }
}

/// The compiler to use. What somebody has named and is not one ends the build; what lies about and
/// is broken does, too.
pub fn find(root: &Path) -> Option<Compiler> {
    let nvcc = |path: &Path| Compiler::Nvcc(Nvcc::open(path).unwrap_or_else(|error| fail(error)));
    let nvrtc =
        |path: &Path| Compiler::Nvrtc(Nvrtc::open(path).unwrap_or_else(|error| fail(error)));
    if let Some(path) = variable("EYELET_NVCC") {
        return Some(nvcc(Path::new(&path)));
    }
    if let Some(path) = variable("EYELET_NVRTC") {
        return Some(nvrtc(&library(Path::new(&path)).unwrap_or_else(|| {
            fail(format!(
                "EYELET_NVRTC={path}: there is no libnvrtc.so; name the library or its folder"
            ))
        })));
    }
    let home = variable("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = home.into_iter().chain(std::env::split_paths(&search));
    if let Some(path) =
        folders.find_map(|folder| Some(folder.join("nvcc")).filter(|path| path.is_file()))
    {
        return Some(nvcc(&path));
    }
    library(&root.join("target/cuda/nvidia/cuda_nvrtc/lib")).map(|path| nvrtc(&path))
}

/// The library that a path names, or that lies in the folder that it names.
fn library(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_path_buf());
    }
    let files = path.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    // libnvrtc.so, libnvrtc.so.12; not libnvrtc-builtins.so.12.9, libnvrtc.alt.so.12.
    let is_library = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so"))
    };
    files.filter(is_library).min()
}
