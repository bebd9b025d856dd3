//! Compiles the kernels for GPUs: one module for each architecture, as machine code (a cubin) and
//! as PTX.
//!
//! All sources of `kernels/cuda/` make one translation unit, so that a GPU loads one module and
//! finds every kernel in it; names at file scope are therefore unique among them. Includes are
//! quoted, and relative to the file they stand in: no folder of this project is searched for
//! headers, since a compiler's own would be found there (`math.h`).
//!
//! The compiler is, in this order: what `EYELET_NVCC` or `EYELET_NVRTC` names, nvcc of `$CUDA_HOME`
//! or the PATH, NVRTC as `tools/cuda.sh` installs it. With none the library still builds, and says
//! that no GPU can be used. `EYELET_CUDA_ARCHS` is a list like `53,87` of the architectures to
//! compile for.
//!
//! Modules are kept next to a hash of what they were made from, since this program also runs when
//! other kernels change. Where `tools/cuda.sh` has installed the compiler they are kept next to it,
//! too: each is compiled once for all profiles, features and targets.

#[path = "cuda/compiler.rs"]
mod compiler;
#[path = "cuda/images.rs"]
mod images;
#[path = "cuda/nvcc.rs"]
mod nvcc;
#[path = "cuda/nvrtc.rs"]
mod nvrtc;
#[path = "cuda/ptx.rs"]
mod ptx;
#[cfg(feature = "cuda-linked")]
#[path = "cuda/stub.rs"]
mod stub;

use std::env;
use std::path::{Path, PathBuf};

use compiler::Compiler;

/// Jetson Nano, Xavier NX, Orin; 90 (H100, H200) for testing.
const ARCHS: [u32; 4] = [53, 72, 87, 90];

const VARIABLES: [&str; 4] = ["EYELET_NVCC", "EYELET_NVRTC", "CUDA_HOME", "EYELET_CUDA_ARCHS"];

/// Ends the build with a message.
fn fail(message: impl std::fmt::Display) -> ! {
    eprintln!("{message}");
    std::process::exit(1)
}

fn warn(message: impl std::fmt::Display) {
    for line in message.to_string().lines() {
        println!("cargo::warning={line}");
    }
}

/// An environment variable that says something.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

pub fn build() {
    println!("cargo::rerun-if-changed=kernels/cuda");
    for name in VARIABLES {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("cuda");
    std::fs::create_dir_all(&out).unwrap_or_else(|e| fail(format!("{}: {e}", out.display())));
    let images = match compiler::find(&root) {
        Some(compiler) => {
            let archs = archs(&compiler);
            let kept = kept(&root.join("target/cuda"));
            let sources = sources(&root.join("kernels/cuda"));
            images::make(&compiler, &sources, &archs, (&out, kept.as_deref()))
        }
        None => {
            warn(
                "no compiler for GPUs was found: the library is built without their kernels and cannot open a GPU. \
                 Run tools/cuda.sh, or set EYELET_NVCC to an nvcc or EYELET_NVRTC to a libnvrtc.so.",
            );
            Vec::new()
        }
    };
    images::write_table(&images, &out);
    #[cfg(feature = "cuda-linked")]
    stub::make(&out);
}

/// The folder for modules of all builds, in that of the compiler if this is installed there.
fn kept(compiler: &Path) -> Option<PathBuf> {
    let folder = compiler.join("modules");
    (compiler.is_dir() && std::fs::create_dir_all(&folder).is_ok()).then_some(folder)
}

/// What to compile for: what was asked for, or of the boards' architectures those that the compiler
/// knows.
fn archs(compiler: &Compiler) -> Vec<u32> {
    let known = compiler.archs();
    let knows = |arch: &u32| known.contains(arch);
    if let Some(list) = variable("EYELET_CUDA_ARCHS") {
        let wrong = |item: &str| -> ! {
            fail(format!(
                "EYELET_CUDA_ARCHS={list}: {item:?} is no architecture that {compiler} compiles for; a list such as \
                 53,87 is wanted, of {known:?}"
            ))
        };
        let parse = |item: &str| item.parse().ok().filter(knows).unwrap_or_else(|| wrong(item));
        let mut archs: Vec<u32> = list.split(',').map(|item| parse(item.trim())).collect();
        archs.sort_unstable();
        archs.dedup();
        return archs;
    }
    let (archs, missing): (Vec<_>, Vec<_>) = ARCHS.into_iter().partition(knows);
    if !missing.is_empty() {
        warn(format!(
            "{compiler} does not compile for sm {missing:?}: GPUs of these cannot be used"
        ));
    }
    archs
}

/// The sources, by name.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap_or_else(|e| fail(format!("{}: {e}", folder.display())));
    let mut sources: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    sources.sort();
    sources
}
