//! From sources to modules, and the table of them that `runtime/device/cuda` includes.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use super::compiler::{Compiler, FLAGS, Unit};
use super::ptx::{self, Version};
use super::{fail, warn};

/// A module that was compiled: its files are named for the architecture.
pub struct Image {
    arch: u32,
    ptx: Version,
}

/// Compiles what is not there already, several architectures at a time. Modules of builds with other features, or for other
/// targets, are in `kept`, if there is such a folder.
pub fn make(
    compiler: &Compiler,
    sources: &[PathBuf],
    archs: &[u32],
    (out, kept): (&Path, Option<&Path>),
) -> Vec<Image> {
    let text: String =
        sources.iter().map(|source| format!("#include \"{}\"\n", source.display())).collect();
    let path = out.join("eyelet.cu");
    write(&path, &text);
    let unit = Unit { path: &path, text: &text };
    let key = key(compiler, &text);
    let kept = kept.and_then(|kept| folder_of(&key, kept));
    let kept = kept.as_deref();
    let is_stale = |arch: &u32| {
        !is_made(*arch, &key, out) && !kept.is_some_and(|kept| copy(*arch, &key, (kept, out)))
    };
    let stale: Vec<_> = archs.iter().copied().filter(is_stale).collect();
    if let Some(arch) = stale.first() {
        assert_separate(compiler, *arch, out);
    }
    let jobs = super::variable("NUM_JOBS").and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let queue = Mutex::new(stale.iter());
    let next = || queue.lock().expect("a thread that panics ends the program").next();
    std::thread::scope(|scope| {
        for _ in 0..stale.len().min(jobs) {
            scope.spawn(|| {
                while let Some(arch) = next() {
                    compile(compiler, &unit, *arch, &key, out);
                }
            });
        }
    });
    // What cannot be kept is compiled again by other builds.
    if let Some(kept) = kept {
        let missing = archs.iter().filter(|arch| !is_made(**arch, &key, kept));
        missing.for_each(|arch| _ = copy(*arch, &key, (out, kept)));
    }
    archs.iter().map(|&arch| Image { arch, ptx: version(arch, out) }).collect()
}

fn file(arch: u32, kind: &str, out: &Path) -> PathBuf {
    out.join(format!("sm_{arch}.{kind}"))
}

/// What the modules are made from: the compiler, its options, and every text that a kernel may
/// include.
fn key(compiler: &Compiler, text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (compiler.to_string(), FLAGS, text).hash(&mut hasher);
    for folder in ["kernels", "kernels/cuda"] {
        let entries = fs::read_dir(folder).unwrap_or_else(|e| fail(format!("{folder}: {e}")));
        let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        for path in files.iter().filter(|path| path.is_file()) {
            let text = fs::read(path).unwrap_or_else(|e| fail(format!("{}: {e}", path.display())));
            (path, text).hash(&mut hasher);
        }
    }
    format!("{:016x}", hasher.finish())
}

/// The key is written last.
fn is_made(arch: u32, key: &str, out: &Path) -> bool {
    fs::read_to_string(file(arch, "key", out)).is_ok_and(|made| made == key)
}

/// The folder of the modules that were made from the same. Those made from anything else are dropped.
fn folder_of(key: &str, kept: &Path) -> Option<PathBuf> {
    let folder = kept.join(key);
    if !folder.is_dir() {
        for old in kept.read_dir().ok()?.flatten() {
            // What somebody still reads is compiled by them.
            let _ = fs::remove_dir_all(old.path());
        }
    }
    fs::create_dir_all(&folder).ok().map(|()| folder)
}

/// Copies a module, if it is there: whether it was. Files are whole or missing, whoever else copies the same.
fn copy(arch: u32, key: &str, (from, to): (&Path, &Path)) -> bool {
    let copied = |kind: &str| {
        let new = to.join(format!("sm_{arch}.{kind}.{}", std::process::id()));
        fs::copy(file(arch, kind, from), &new)?;
        fs::rename(new, file(arch, kind, to))
    };
    is_made(arch, key, from) && ["cubin", "ptx", "key"].into_iter().all(|kind| copied(kind).is_ok())
}

fn compile(compiler: &Compiler, unit: &Unit<'_>, arch: u32, key: &str, out: &Path) {
    let start = Instant::now();
    let module = compiler
        .compile(unit, arch)
        .unwrap_or_else(|error| fail(format!("kernels/cuda for sm_{arch}: {error}")));
    if !module.remarks.is_empty() {
        warn(format!("kernels/cuda for sm_{arch}: {}", module.remarks));
    }
    let (text, _) = ptx::lower(&module.ptx, arch).unwrap_or_else(|error| fail(error));
    write(&file(arch, "cubin", out), &module.cubin);
    write(&file(arch, "ptx", out), text);
    write(&file(arch, "key", out), key);
    eprintln!("sm_{arch}: {:.1} s, {} bytes", start.elapsed().as_secs_f32(), module.cubin.len());
}

/// Ends the build if the compiler makes one operation of two, unasked: results would not be those
/// of a processor.
fn assert_separate(compiler: &Compiler, arch: u32, out: &Path) {
    let path = out.join("separate.cu");
    let text = "extern \"C\" __global__ void separate(float *x) { x[0] = x[1] * x[2] + x[3]; }\n";
    write(&path, text);
    let module = compiler
        .compile(&Unit { path: &path, text }, arch)
        .unwrap_or_else(|error| fail(format!("{} for sm_{arch}: {error}", path.display())));
    let has = |instruction| module.ptx.contains(instruction);
    if has("fma.") || has("mad.f32") || !has("mul.") || !has("add.") {
        fail(format!(
            "{compiler} does not keep a product and a sum apart, as --fmad=false asks:\n{}",
            module.ptx
        ));
    }
}

fn version(arch: u32, out: &Path) -> Version {
    let path = file(arch, "ptx", out);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|e| fail(format!("{}: {e}", path.display())));
    ptx::lower(&text, arch).unwrap_or_else(|error| fail(error)).1
}

/// The table: an expression. Machine code is aligned like the sections in it, PTX ends in a zero.
pub fn write_table(images: &[Image], out: &Path) {
    let mut table = String::from("&[\n");
    for Image { arch, ptx: (major, minor) } in images {
        let [cubin, ptx] = ["cubin", "ptx"].map(|kind| file(*arch, kind, out));
        let lines = [
            format!(
                "Image {{ arch: {arch}, kind: Kind::Cubin, ptx_version: 0, bytes: aligned!({cubin:?}) }},"
            ),
            format!(
                "Image {{ arch: {arch}, kind: Kind::Ptx, ptx_version: {}, \
                 bytes: concat!(include_str!({ptx:?}), \"\\0\").as_bytes() }},",
                major * 10 + minor
            ),
        ];
        for line in lines {
            writeln!(table, "    {line}").expect("a string takes any text");
        }
    }
    table.push_str("]\n");
    write(&out.join("images.rs"), table);
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap_or_else(|e| fail(format!("{}: {e}", path.display())));
}
