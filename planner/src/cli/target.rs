//! What plans are made for: the options that say so, and what GPUs take beside an arena.

use super::calibrate::{Calibrated, Calibration, calibrated};
use super::error::TargetError;
use super::files::Files;
use super::{Error, Output};
use eyelet::device::workers::MAX_THREADS;
use eyelet::kernels::Isa;
use eyelet::pack::{PAGE, Tensor};
use eyelet_planner::board::{self, Board, Device, Memory};
use eyelet_planner::network::Network;
use eyelet_planner::plan::Plan;
use eyelet_planner::profile::{Profile, Steadiness};
use eyelet_planner::size;
use eyelet_profile::measure::speed_probe::present_gflops;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// Scratch for more threads than this is not planned unless it is asked for: each thread's share is
/// memory that weights could use.
pub const DEFAULT_THREADS: u32 = 4;

/// Where packs are to run.
#[derive(Debug, clap::Args)]
pub struct Target {
    /// Where the network will run: a board's name or the path of a board.toml [default: this machine,
    /// or the board that the environment variable EYELET_HOST_BOARD names]. `eyelet plan --board list` prints the
    /// boards that come with eyelet.
    #[arg(long, value_name = "BOARD")]
    board: Option<String>,
    /// What of the board computes [default: cpu, or cuda where the board has no other].
    #[arg(long, value_enum, value_name = "DEVICE")]
    device: Option<Device>,
    /// Which memory the board's GPU computes in: that which it shares with the host, or its own, which is copied to
    /// [default: as the board's description has it].
    #[arg(long, value_enum, value_name = "MODE")]
    memory: Option<Memory>,
    /// Costs to plan with, as `eyelet profile` writes them [default: the board's].
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    calibration: Calibration,
    /// Compute threads that the network can use [default: as many as the board has, but at most 4]. A GPU has one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_THREADS as i64))]
    threads: Option<u32>,
}

impl Target {
    /// The files that its options name.
    pub fn files(&self) -> Files {
        Files::default()
            .reads("--profile", &self.profile)
            .reads_board("--board", self.board.as_deref())
    }

    /// The costs of an option, or of the board of an option, or of this machine; and how many threads they are for. This machine is
    /// measured if it was not yet, for packs that lie where `place` is.
    pub fn choose(&self, place: &Path, output: Output) -> Result<Costs, Error> {
        let (profile, origin) = self.profile(place, output)?;
        // A file's costs are of one memory.
        if let (Some(wanted), Some(path)) = (self.memory, &self.profile)
            && Memory::of(&profile) != Some(wanted)
        {
            let (path, found) = (path.clone(), Memory::of(&profile));
            return Err(TargetError::MemoryOfProfile { path, wanted, found }.into());
        }
        let threads = match (Device::of(profile.isa), self.threads) {
            (Device::Cuda, Some(threads)) if threads > 1 => {
                return Err(TargetError::ThreadsOfGpu { threads, board: profile.name }.into());
            }
            (_, threads) => threads.unwrap_or(profile.threads.clamp(1, DEFAULT_THREADS)),
        };
        Ok(Costs { profile, threads, origin })
    }

    /// Whether the boards that come with eyelet are asked for, and no plan.
    pub fn lists_boards(&self) -> bool {
        self.board.as_deref() == Some("list")
    }

    /// The board of the option, or the one that stands for this machine; none where a profile is enough.
    fn board(&self) -> Result<Option<Board>, Error> {
        match (&self.board, &self.profile) {
            (Some(name), _) => Ok(Some(Board::load(name)?)),
            (None, None) => Ok(Some(board::host()?)),
            (None, Some(_)) => Ok(None),
        }
    }

    /// The budgets that are given, or the memory that the board gives a network where none is. None may exceed that.
    pub fn budgets(&self, mut given: Vec<u64>) -> Result<Vec<u64>, Error> {
        let Some(board) = self.board()? else { return Ok(given) };
        let Some(bytes) = board.described.arena_bytes() else { return Ok(given) };
        if let Some(&budget) = given.iter().find(|budget| **budget > bytes) {
            return Err(TargetError::BudgetOfBoard {
                budget,
                board: board.name().to_owned(),
                bytes,
            }
            .into());
        }
        if given.is_empty() {
            given.push(bytes);
        }
        Ok(given)
    }

    fn profile(&self, place: &Path, output: Output) -> Result<(Profile, Origin), Error> {
        let file = || self.profile.clone().unwrap_or_default();
        let given = match &self.profile {
            Some(path) => Some(Profile::load(path)?),
            None => None,
        };
        let board = match (self.board()?, &given) {
            (Some(board), _) => board,
            (None, None) => board::host()?,
            // A profile is enough.
            (None, Some(profile)) => {
                let device = Device::of(profile.isa);
                return match self.device.is_none_or(|wanted| wanted == device) {
                    true => Ok((profile.clone(), Origin::File(file()))),
                    false => Err(self.disagrees(profile, "--device is", Device::name).into()),
                };
            }
        };
        let device = self.device.or(given.as_ref().map(|profile| Device::of(profile.isa)));
        // A file says what its costs are of; the board's are not looked at then.
        let memory = self.memory.filter(|_| given.is_none());
        let of_board = board.profile_on(device, memory)?;
        match given {
            Some(profile) if profile.isa != of_board.isa => {
                let board = format!("the board {} is", board.name());
                Err(self.disagrees(&profile, &board, |_| of_board.isa.name()).into())
            }
            Some(profile) => Ok((profile, Origin::File(file()))),
            None => {
                let measured = !self.calibration.no_calibrate;
                let here = self.board.is_none() && of_board.isa != Isa::Cuda && measured;
                let measured = here.then(|| calibrated(&board, place, output)).transpose();
                match measured.map(Option::flatten) {
                    Ok(Some(Calibrated { profile, file, seconds, busy })) => {
                        Ok((profile, Origin::Here { file, seconds, busy }))
                    }
                    Err(error) => {
                        let (board, reason) = (board.name().to_owned(), error.to_string());
                        Ok((of_board.clone(), Origin::Unmeasured { board, reason }))
                    }
                    Ok(None) => {
                        let foreign = self.board.is_some();
                        Ok((
                            of_board.clone(),
                            Origin::Estimated { board: board.name().to_owned(), foreign },
                        ))
                    }
                }
            }
        }
    }

    /// A profile that is for something else than the other options say.
    fn disagrees(
        &self,
        profile: &Profile,
        other: &str,
        isa: impl Fn(Device) -> &'static str,
    ) -> TargetError {
        TargetError::ProfileOfOther {
            path: self.profile.clone().unwrap_or_default(),
            profile: profile.isa.name(),
            other: other.to_owned(),
            isa: isa(self.device.unwrap_or(Device::Cpu)),
        }
    }
}

/// How steady this machine is that was measured, its present speed counted, which takes some 50 ms.
pub fn with_present_speed(profile: &Profile, threads: u32) -> Option<Steadiness> {
    let steadiness = profile.steadiness?;
    let slower = || {
        let measured = profile.compute.probed_gflops(threads, profile.threads)?;
        Some(measured / present_gflops(profile.isa, threads)?)
    };
    Some(slower().map_or(steadiness, |slower| steadiness.with(threads, slower)))
}

/// What plans are made with.
#[derive(Debug)]
pub struct Costs {
    pub profile: Profile,
    pub threads: u32,
    pub origin: Origin,
}

/// Where costs are from.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Origin {
    /// A board's description. It is that of another machine, or stands for this one.
    Estimated { board: String, foreign: bool },
    /// The description that stands for this machine, which could not be measured.
    Unmeasured { board: String, reason: String },
    /// A profile that was given.
    #[serde(serialize_with = "as_file")]
    File(PathBuf),
    /// This machine was measured, just now in so many seconds or before.
    Here { file: PathBuf, seconds: Option<f64>, busy: bool },
}

fn as_file<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&serde_json::json!({ "file": path }), serializer)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Estimated { board, foreign: true } => write!(
                f,
                "predicted from estimated costs of {board}; `eyelet profile -o FILE` on that board measures them, and \
                 --profile FILE plans with them"
            ),
            Self::Estimated { board, foreign: false } => write!(
                f,
                "predicted from estimated costs of {board}; `eyelet profile` measures those of this machine"
            ),
            Self::Unmeasured { board, reason } => write!(
                f,
                "predicted from estimated costs of {board}; this machine could not be measured: {reason}"
            ),
            Self::File(path) => write!(f, "predicted from the costs in {}", path.display()),
            Self::Here { file, seconds, busy } => {
                let when = match seconds {
                    Some(seconds) => format!("measured in {seconds:.1} s and kept"),
                    None => "measured before".to_owned(),
                };
                write!(f, "predicted from this machine's costs, {when} in {}", file.display())?;
                match busy {
                    true => write!(
                        f,
                        "; it had other work then, and is measured again when it has none"
                    ),
                    false => Ok(()),
                }
            }
        }
    }
}

/// What a plan takes of memory beside its arena, on a GPU.
#[derive(Debug, Serialize)]
pub struct MemoryUse {
    /// None where a processor computes.
    memory_mode: Option<Memory>,
    /// The ring into which loads are read, to be copied from there.
    staging_bytes: u64,
    /// Inputs and outputs as the host has them, if those in the arena are in the GPU's memory.
    mirror_bytes: u64,
    /// Arena, ring and mirrors together: what a board gives up whose GPU's memory is the host's, whatever the mode.
    memory_bytes: u64,
}

impl MemoryUse {
    /// Of a plan.
    pub fn of(network: &Network, plan: &Plan) -> Self {
        let Plan { arena_bytes, staging_bytes, .. } = *plan;
        Self::new(network.isa, arena_bytes, staging_bytes, &network.tensors, network.ports())
    }

    /// Of a plan with such an arena and staging ring, for a network whose inputs and outputs are these of its tensors.
    pub fn new(
        isa: Isa,
        arena_bytes: u64,
        staging_bytes: u64,
        tensors: &[Tensor],
        ports: impl Iterator<Item = u32>,
    ) -> Self {
        let staged = staging_bytes > 0;
        // Each begins on a cache line, and the ring behind them on a page.
        let after = |end: u64, tensor: u32| {
            let tensor = &tensors[tensor as usize];
            end.next_multiple_of(64) + 4 * tensor.rows() * u64::from(tensor.cols())
        };
        let mirrors = ports.fold(0, after).next_multiple_of(PAGE);
        let mirror_bytes = if staged { mirrors } else { 0 };
        Self {
            memory_mode: (isa == Isa::Cuda).then_some(if staged {
                Memory::Staged
            } else {
                Memory::ZeroCopy
            }),
            staging_bytes,
            mirror_bytes,
            memory_bytes: arena_bytes + staging_bytes + mirror_bytes,
        }
    }
}

/// A sentence's part, from "in" on; nothing for processors.
impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.memory_mode {
            None => Ok(()),
            Some(Memory::ZeroCopy) => write!(f, "in memory that host and GPU share"),
            Some(Memory::Staged) => write!(
                f,
                "in the GPU's memory after the tables; next to it {} of staging ring and {} of inputs and outputs on the host; \
                 {} in all, of one memory if the GPU is integrated",
                size::human(self.staging_bytes),
                size::human(self.mirror_bytes),
                size::human(self.memory_bytes)
            ),
        }
    }
}
