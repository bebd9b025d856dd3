//! What is measured: a pack, or a model that is planned into one first.

use super::super::error::BenchError;
use super::Args;
use super::contender::Contender;
use crate::cli::Error;
use crate::cli::output::Output;
use crate::cli::pack_file::{PackFile, shape_of};
use crate::cli::plan::{pack, whole_budget};
use crate::cli::target::DEFAULT_THREADS;
use crate::cli::workplace::{reads_directly, workplace};
use eyelet::device::threads::available_cores;
use eyelet::pack::MAGIC;
use eyelet_planner::board;
use eyelet_planner::import::{Options, import_with};
use eyelet_planner::leftovers::Scratch;
use eyelet_planner::open::open;
use eyelet_planner::published;
use eyelet_planner::search::PackRequest;
use eyelet_planner::size;
use eyelet_planner::source::Io;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script that runs a model with onnxruntime.
const ONNXRUNTIME: &str = include_str!("onnxruntime.py");

/// The pack that is measured.
pub struct Subject {
    /// What reports call it.
    name: String,
    pack: PathBuf,
    /// Where it lies for now, if it was made of a model.
    folder: Option<Scratch>,
}

impl Subject {
    /// The pack of the command line, or one of its model.
    pub fn new(args: &Args, output: Output) -> Result<Self, Error> {
        let path = &args.subject;
        let name = path.display().to_string();
        if is_pack(path)? {
            return Ok(Self { name, pack: path.clone(), folder: None });
        }
        let dims = args.dims.clone();
        let graph = import_with(path, &Options { dims, ..Options::default() })
            .map_err(|error| Error::of_import(path, error))?;
        let budget = args.budget.unwrap_or_else(|| whole_budget(&graph));
        let folder = workplace(None)?;
        let to = folder.path().join("bench.pack");
        let profile = args.calibration.costs_here(board::host()?, folder.path(), output);
        let threads = args.inference.threads.unwrap_or(profile.threads.clamp(1, DEFAULT_THREADS));
        let request = PackRequest::new(&published::JOINT, vec![budget], profile, threads);
        let packed = pack(&request, path, &[(String::new(), graph)], &to, output)?;
        let arena = packed.plans.first().map_or(0, |plan| plan.arena_bytes);
        output.line(format_args!(
            "planned {name} into {}, in {:.0} ms",
            size::human(arena),
            packed.planning_ms
        ))?;
        Ok(Self { name, pack: to, folder: Some(folder) })
    }

    /// The program that runs it.
    pub fn contender(&self, args: &Args) -> Result<Contender, Error> {
        // A pack that was made for this has one plan, and no dimension that is open.
        let made = self.folder.is_some();
        of_pack(&self.pack, Some((&self.name, made)), args)
    }

    /// onnxruntime, with the model that the pack is of.
    pub fn onnxruntime(&self, args: &Args) -> Result<Contender, Error> {
        let model = match self.folder {
            Some(_) => args.subject.clone(),
            None => args.subject.with_extension("onnx"),
        };
        if !model.is_file() {
            return Err(BenchError::NoModel { pack: args.subject.clone(), model }.into());
        }
        let pack = PackFile::open(&self.pack)?;
        let most = args.budget.unwrap_or(u64::MAX);
        let entries = pack.entries.iter().filter(|entry| entry.budget <= most);
        let entry = entries.max_by_key(|entry| entry.budget);
        let planned = entry.map_or(1, |entry| u32::from(entry.threads));
        let threads =
            args.inference.threads.unwrap_or(planned.min(available_cores() as u32)).max(1);
        let skeleton = pack.skeleton(entry.map_or(0, |entry| entry.shape.into()))?;
        let port = |port: &eyelet::pack::Port| {
            let name = skeleton.text(port.name);
            serde_json::json!({ "name": name, "shape": shape_of(port) })
        };
        let inputs: Vec<serde_json::Value> = skeleton.inputs.iter().map(port).collect();
        let mut command = Command::new("python3");
        command.args(["-c", ONNXRUNTIME]).arg(&model).arg(threads.to_string());
        command.arg(serde_json::Value::from(inputs).to_string());
        Contender::start(format!("python3 with onnxruntime and {}", model.display()), command)
    }
}

/// The program that runs a pack, with what reports call it and whether it was made for this.
pub fn of_pack(pack: &Path, named: Option<(&str, bool)>, args: &Args) -> Result<Contender, Error> {
    let name = named.map_or_else(|| pack.display().to_string(), |(name, _)| name.to_owned());
    let made = named.is_some_and(|(_, made)| made);
    let failed = |error: std::io::Error| BenchError::Contender {
        name: name.clone(),
        message: error.to_string(),
    };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("run").arg(pack).args(["--json", "--turns"]);
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            command.args([name, &value]);
        }
    };
    option("--budget", args.budget.filter(|_| !made).map(|bytes| bytes.to_string()));
    for (name, extent) in args.dims.iter().filter(|_| !made) {
        option("--dim", Some(format!("{name}={extent}")));
    }
    let io = args.inference.io;
    let buffered = made && io == Io::Direct && !reads_directly(pack);
    command.args(args.inference.options(if buffered { Io::Buffered } else { io }));
    Contender::start(name, command)
}

/// Whether a file is a pack, and not a model.
fn is_pack(path: &Path) -> Result<bool, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let file = open(path).map_err(unreadable)?;
    let mut start = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(unreadable)?;
    Ok(start == MAGIC || path.extension().is_some_and(|extension| extension == "pack"))
}
