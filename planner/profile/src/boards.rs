//! `--board list`: the boards that come with eyelet.

use eyelet_model::size;
use eyelet_plan::board::{Board, BoardError, described};
use serde::Serialize;
use std::fmt;

/// The report.
#[derive(Debug, Serialize)]
pub struct Boards {
    boards: Vec<Known>,
}

#[derive(Debug, Serialize)]
struct Known {
    name: String,
    description: String,
    /// The processor's, or the GPU's where that is all that is described.
    isa: &'static str,
    threads: u32,
    gpu: Option<String>,
    /// Bytes that the description gives a network; without, a budget must be given.
    arena_bytes: Option<u64>,
    memories: Vec<Memory>,
}

#[derive(Debug, Serialize)]
struct Memory {
    name: String,
    base: u64,
    bytes: u64,
}

impl Boards {
    /// The boards that come with eyelet.
    pub fn known() -> Result<Self, BoardError> {
        let boards = Board::names().map(|name| Ok(Known::of(Board::load(name)?)));
        Ok(Self { boards: boards.collect::<Result<_, BoardError>>()? })
    }
}

impl Known {
    fn of(board: Board) -> Self {
        let Board { described, profile, gpu } = board;
        let memory = |memory: &described::Memory| Memory {
            name: memory.name.clone(),
            base: memory.base,
            bytes: memory.bytes,
        };
        Self {
            arena_bytes: described.arena_bytes(),
            memories: described.memories.iter().map(memory).collect(),
            name: described.name,
            description: described.description,
            isa: profile.isa.name(),
            threads: profile.threads,
            gpu: gpu.map(|gpu| gpu.arch),
        }
    }
}

impl fmt::Display for Boards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.boards.iter().map(|board| board.name.len()).max().unwrap_or(0);
        for board in &self.boards {
            let Known { name, description, isa, threads, gpu, arena_bytes, .. } = board;
            write!(f, "{name:longest$}  {description}; kernels for {isa}, threads: {threads}")?;
            if let Some(arch) = gpu.as_ref().filter(|_| *isa != "cuda") {
                write!(f, "; a GPU: {arch}")?;
            }
            if let Some(bytes) = arena_bytes {
                write!(f, "; {} for a network", size::human(*bytes))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
