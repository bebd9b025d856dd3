//! Boards: the targets that plans are made for, described by `boards/NAME/board.toml`.
//!
//! `eyelet-board` finds the descriptions and checks them, for the planner and for the library's build script. Here
//! costs are made of them. They are estimates unless they say otherwise.
//!
//! A board has a processor, a GPU (`[gpu]`), or both. Each has a profile of its own; storage is one.

mod device;
mod error;
mod file;
mod host;

pub use device::{Device, Memory};
pub use error::BoardError;
/// The parts of a description that are no costs.
pub use eyelet_board as described;
pub use host::{HOST_BOARD, host};

use crate::profile::Profile;
use eyelet::kernels::Isa;
use eyelet_board::Source;

/// A target.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// The board itself: its memories, cores and storage.
    pub described: eyelet_board::Board,
    /// Its name, instruction set, threads, and what things cost on it: on its processor, or on its GPU where that is all
    /// that is described.
    pub profile: Profile,
    pub gpu: Option<Gpu>,
}

/// A board's GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its architecture, for which kernels are compiled: `sm_53`.
    pub arch: String,
    /// The newest version of PTX that its driver is sure to load: `6.5`.
    pub ptx: String,
    /// Which memory it computes in where nothing is said.
    pub memory: Memory,
    /// Its name, multiprocessors, and what things cost on it, in that memory.
    pub profile: Profile,
    /// The costs in the other memory, if the GPU can compute in both.
    pub other: Option<Profile>,
}

impl Gpu {
    /// The costs in a memory, if they are described.
    pub fn profile_in(&self, memory: Memory) -> Option<&Profile> {
        match memory == self.memory {
            true => Some(&self.profile),
            false => self.other.as_ref(),
        }
    }
}

impl Board {
    /// The board of that name, or that which the file (or the folder with its `board.toml`) describes.
    pub fn load(name_or_path: &str) -> Result<Self, BoardError> {
        let Source { file, text, .. } = Source::find(name_or_path)?;
        Self::parse(&file, &text)
    }

    /// Names of the boards that come with eyelet.
    pub fn names() -> impl Iterator<Item = &'static str> {
        eyelet_board::names()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.profile.name
    }

    /// The costs on a device; by default on the processor, if the board has one. On the GPU they are those in `memory`,
    /// if given.
    pub fn profile_on(
        &self,
        device: Option<Device>,
        memory: Option<Memory>,
    ) -> Result<&Profile, BoardError> {
        let found = self.on_device(device)?;
        let Some(wanted) = memory else { return Ok(found) };
        let name = || self.name().to_owned();
        match self.gpu.as_ref().filter(|_| found.isa == Isa::Cuda) {
            None => Err(BoardError::NotOnProcessor { name: name(), memory: wanted }),
            Some(gpu) => gpu.profile_in(wanted).ok_or_else(|| BoardError::Memory {
                name: name(),
                wanted,
                memory: gpu.memory,
            }),
        }
    }

    fn on_device(&self, device: Option<Device>) -> Result<&Profile, BoardError> {
        let Some(device) = device else { return Ok(&self.profile) };
        self.find(device).ok_or_else(|| {
            let boards = Self::names().filter_map(|name| Self::load(name).ok());
            let known: Vec<String> = boards
                .filter(|board| board.find(device).is_some())
                .map(|board| board.name().to_owned())
                .collect();
            BoardError::Device { name: self.name().to_owned(), device, known: known.join(", ") }
        })
    }

    fn find(&self, device: Device) -> Option<&Profile> {
        let gpu = self.gpu.iter().map(|gpu| &gpu.profile);
        std::iter::once(&self.profile).chain(gpu).find(|profile| Device::of(profile.isa) == device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(name: &str) -> String {
        Source::find(name).unwrap().text
    }

    #[test]
    fn the_schema_has_the_instruction_sets_of_packs() {
        assert_eq!(eyelet_board::schema::ISAS, Isa::ALL.map(Isa::name));
    }

    #[test]
    fn known_boards_are_valid_and_bear_their_names() {
        for name in Board::names() {
            let board = Board::load(name).unwrap_or_else(|error| panic!("{error}"));
            let source = |profile: &Profile| {
                assert_eq!(profile.name, name);
                assert!(profile.estimated, "{name}: a description must not claim measurement");
                assert!(
                    profile.source.len() > 40,
                    "{name} does not say where its numbers are from"
                );
            };
            source(&board.profile);
            board.gpu.iter().for_each(|gpu| source(&gpu.profile));
            board.gpu.iter().flat_map(|gpu| &gpu.other).for_each(source);
        }
    }

    #[test]
    fn what_a_board_computes_with() {
        let nano = Board::load("jetson-nano").unwrap();
        let gpu = nano.gpu.clone().unwrap();
        assert_eq!((gpu.arch.as_str(), gpu.ptx.as_str()), ("sm_53", "6.5"));
        assert_eq!((gpu.memory, gpu.profile.multiprocessors), (Memory::ZeroCopy, 1));
        assert_eq!(gpu.profile.storage, nano.profile.storage);
        let isa = |board: &Board, device| board.profile_on(device, None).map(|found| found.isa);
        assert_eq!(isa(&nano, None).unwrap(), Isa::Neon);
        assert_eq!(isa(&nano, Some(Device::Cpu)).unwrap(), Isa::Neon);
        assert_eq!(isa(&nano, Some(Device::Cuda)).unwrap(), Isa::Cuda);
        let server = Board::load("gpu-host").unwrap();
        assert_eq!(server.gpu.as_ref().unwrap().memory, Memory::Staged);
        assert_eq!(isa(&server, None).unwrap(), Isa::Cuda);
        let error = isa(&server, Some(Device::Cpu)).unwrap_err().to_string();
        assert!(
            error.contains("gpu-host has no processor") && error.contains("cortex-a53"),
            "{error}"
        );
        let pi = Board::load("raspberry-pi-4").unwrap();
        let error = isa(&pi, Some(Device::Cuda)).unwrap_err().to_string();
        let boards = "jetson-nano, jetson-xavier-nx, jetson-orin-nano, gpu-host;";
        assert!(error.contains("raspberry-pi-4 has no GPU") && error.contains(boards), "{error}");
    }

    #[test]
    fn an_integrated_gpu_has_costs_in_both_memories() {
        let nano = Board::load("jetson-nano").unwrap();
        let on_gpu = |board: &Board, memory| board.profile_on(Some(Device::Cuda), memory).cloned();
        let shared = on_gpu(&nano, None).unwrap();
        assert_eq!(on_gpu(&nano, Some(Memory::ZeroCopy)).unwrap(), shared);
        let staged = on_gpu(&nano, Some(Memory::Staged)).unwrap();
        assert_eq!(
            (Memory::of(&shared), Memory::of(&staged)),
            (Some(Memory::ZeroCopy), Some(Memory::Staged))
        );
        // The description is different, all else is the same.
        assert!(
            staged.compute.cache_bytes > shared.compute.cache_bytes
                && staged.source != shared.source
        );
        assert_eq!(staged.compute.conv_1x1_gflops, shared.compute.conv_1x1_gflops);
        assert_eq!((&staged.storage, staged.multiprocessors), (&shared.storage, 1));
        // The board file's word is what is planned for when nothing else is said.
        let text = text_of("jetson-nano").replace("memory = \"zero-copy\"", "memory = \"staged\"");
        let other = Board::parse("jetson-nano", &text).unwrap();
        assert_eq!(on_gpu(&other, None).unwrap(), staged);
        assert_eq!(on_gpu(&other, Some(Memory::ZeroCopy)).unwrap(), shared);

        let error = nano.profile_on(None, Some(Memory::Staged)).unwrap_err().to_string();
        assert!(
            error.contains("--memory staged is for a GPU") && error.contains("--device cuda"),
            "{error}"
        );
        let server = Board::load("gpu-host").unwrap();
        let error = on_gpu(&server, Some(Memory::ZeroCopy)).unwrap_err().to_string();
        assert!(
            error.contains("gpu-host has no costs of zero-copy, its GPU's memory is staged"),
            "{error}"
        );
        assert_eq!(on_gpu(&server, Some(Memory::Staged)).unwrap(), server.profile);
    }
}
