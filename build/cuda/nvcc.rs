//! The compiler of the CUDA toolkit, 10.2 or newer.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::compiler::{FLAGS, Module, Unit};

pub struct Nvcc {
    path: PathBuf,
    release: String,
    archs: Vec<u32>,
}

impl Nvcc {
    /// The compiler at this path. Its help text says what it compiles for: 10.2 has no better
    /// place.
    pub fn open(path: &Path) -> Result<Self, String> {
        let (version, _) = run(Command::new(path).arg("--version"))?;
        let (help, _) = run(Command::new(path).arg("--help"))?;
        let release =
            version.lines().find_map(|line| line.split_once("release ")).map(|(_, text)| text);
        let release = release.ok_or(format!("{}: does not tell its release", path.display()))?;
        let mut archs: Vec<u32> = help
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter_map(|word| word.strip_prefix("sm_")?.parse().ok())
            .collect();
        archs.sort_unstable();
        archs.dedup();
        Ok(Self { path: path.to_path_buf(), release: release.trim().to_string(), archs })
    }

    pub fn archs(&self) -> Vec<u32> {
        self.archs.clone()
    }

    /// Compiles the file to PTX, and the PTX to machine code.
    pub fn compile(&self, unit: &Unit<'_>, arch: u32) -> Result<Module, String> {
        let [ptx, cubin] =
            ["ptx", "cubin"].map(|kind| unit.path.with_extension(format!("nvcc-{arch}.{kind}")));
        let command = |output: &Path, kind: &str, input: &Path| {
            let mut command = Command::new(&self.path);
            command.arg(format!("-arch=sm_{arch}")).arg("-Wno-deprecated-gpu-targets");
            command.arg(kind).arg("-o").arg(output).arg(input);
            command
        };
        let (_, remarks) = run(command(&ptx, "-ptx", unit.path).args(FLAGS))?;
        run(&mut command(&cubin, "-cubin", &ptx))?;
        let text = std::fs::read_to_string(&ptx).map_err(|e| format!("{}: {e}", ptx.display()))?;
        let code = std::fs::read(&cubin).map_err(|e| format!("{}: {e}", cubin.display()))?;
        Ok(Module { cubin: code, ptx: text, remarks })
    }
}

impl fmt::Display for Nvcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.release)
    }
}

/// What a command prints, to standard output and as errors. An error has all of it.
fn run(command: &mut Command) -> Result<(String, String), String> {
    let output =
        command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    if output.status.success() {
        Ok((out, err))
    } else {
        Err(format!("{command:?}: {}\n{out}{err}", output.status))
    }
}
