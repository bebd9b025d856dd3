//! A `libcuda.so` to link with where CUDA is not installed: it has the functions that the driver's
//! table needs, which do nothing. A program that was linked with it looks for the driver's
//! `libcuda.so.1` when it starts, as one that was linked with NVIDIA's own does.

use std::fmt::Write as _;
use std::path::Path;

use super::{fail, warn};

/// Where the functions are listed.
const TABLE: &str = "runtime/device/cuda/driver.rs";

/// Makes it, and has the linker look for it.
pub fn make(out: &Path) {
    println!("cargo::rerun-if-changed={TABLE}");
    let table = std::fs::read_to_string(TABLE).unwrap_or_else(|e| fail(format!("{TABLE}: {e}")));
    let mut text = String::new();
    for name in names(&table) {
        writeln!(text, "int {name}(void) {{ return 100; }}").expect("a string takes any text");
    }
    let (source, library) = (out.join("stub.c"), out.join("libcuda.so"));
    std::fs::write(&source, text).unwrap_or_else(|e| fail(format!("{}: {e}", source.display())));
    let compiler = cc::Build::new().cargo_metadata(false).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]).arg(&library).arg(&source);
    match command.output() {
        Ok(output) if output.status.success() => {
            println!("cargo::rustc-link-search=native={}", out.display());
        }
        Ok(output) => warn(format!(
            "{command:?} has made no libcuda.so to link with: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => warn(format!("{command:?}: {error}: there is no libcuda.so to link with")),
    }
}

/// The functions that a driver must have: lines like `init = cuInit(flags: u32);`, up to the
/// optional ones.
fn names(table: &str) -> impl Iterator<Item = &str> {
    let needed = table.split("\n    optional {").next().unwrap_or_default();
    needed.lines().filter_map(|line| {
        let (_, function) = line.trim().split_once(" = ")?;
        let (name, _) = function.split_once('(')?;
        name.starts_with("cu").then_some(name)
    })
}
