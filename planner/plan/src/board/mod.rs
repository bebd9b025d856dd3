//! Boards: the targets that plans are made for, described by `boards/NAME/board.toml`.
//!
//! The descriptions that come with eyelet are part of the program, so that it works from anywhere; others
//! are read from a path. Their profiles are estimates unless they say otherwise.
//!
//! A board has a processor, a GPU (`[gpu]`), or both. Each has a profile of its own; storage is one.

mod device;
mod error;
mod file;
mod host;

pub use device::{Device, Memory};
pub use error::BoardError;
pub use host::{HOST_BOARD, host};

use crate::profile::Profile;
use eyelet::kernels::Isa;
use std::path::{Path, PathBuf};

/// A target.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// What it is.
    pub description: String,
    /// Bytes of a page of its storage: the granularity of reads.
    pub page: u64,
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
    /// The same in the other one, of GPUs that can do with both.
    pub other: Option<Profile>,
}

impl Gpu {
    /// What things cost in a memory, if they are described.
    pub fn profile_in(&self, memory: Memory) -> Option<&Profile> {
        match memory == self.memory {
            true => Some(&self.profile),
            false => self.other.as_ref(),
        }
    }
}

/// The boards that come with eyelet, with their descriptions.
const KNOWN: &[(&str, &str)] = &[
    ("host-avx512", include_str!("../../../../boards/host-avx512/board.toml")),
    ("host-avx2", include_str!("../../../../boards/host-avx2/board.toml")),
    ("host-neon", include_str!("../../../../boards/host-neon/board.toml")),
    ("portable", include_str!("../../../../boards/portable/board.toml")),
    ("jetson-nano", include_str!("../../../../boards/jetson-nano/board.toml")),
    ("jetson-xavier-nx", include_str!("../../../../boards/jetson-xavier-nx/board.toml")),
    ("jetson-orin-nano", include_str!("../../../../boards/jetson-orin-nano/board.toml")),
    ("raspberry-pi-4", include_str!("../../../../boards/raspberry-pi-4/board.toml")),
    ("cortex-a53", include_str!("../../../../boards/cortex-a53/board.toml")),
    ("gpu-host", include_str!("../../../../boards/gpu-host/board.toml")),
    ("mps3-an547", include_str!("../../../../boards/mps3-an547/board.toml")),
    ("qemu-virt-a15", include_str!("../../../../boards/qemu-virt-a15/board.toml")),
    ("qemu-virt-a57", include_str!("../../../../boards/qemu-virt-a57/board.toml")),
];

impl Board {
    /// The board of that name, or that which the file (or the folder with its `board.toml`) describes.
    pub fn load(name_or_path: &str) -> Result<Self, BoardError> {
        if let Some((name, text)) = KNOWN.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, text);
        }
        let mut path = PathBuf::from(name_or_path);
        if path.is_dir() {
            path.push("board.toml");
        }
        if !path.exists() {
            let known = Self::names().collect::<Vec<_>>().join(", ");
            return Err(BoardError::Unknown { name: name_or_path.to_owned(), known });
        }
        let text = eyelet_model::open::read_to_string(&path)
            .map_err(|error| BoardError::Read { path: Path::to_owned(&path), error })?;
        Self::parse(name_or_path, &text)
    }

    /// Names of the boards that come with eyelet.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(name, _)| *name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.profile.name
    }

    /// What things cost on its processor or its GPU; on the processor, where it has both and nothing is said. On the GPU
    /// in this memory, if one is said.
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
        // What is said of it is different, all else is the same.
        assert!(
            staged.compute.cache_bytes > shared.compute.cache_bytes
                && staged.source != shared.source
        );
        assert_eq!(staged.compute.conv_1x1_gflops, shared.compute.conv_1x1_gflops);
        assert_eq!((&staged.storage, staged.multiprocessors), (&shared.storage, 1));
        // The board file's word is what is planned for when nothing else is said.
        let text = KNOWN[4].1.replace("memory = \"zero-copy\"", "memory = \"staged\"");
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

    #[test]
    fn every_folder_is_known() {
        let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards");
        for folder in std::fs::read_dir(boards).unwrap() {
            let folder = folder.unwrap();
            if !folder.path().join("board.toml").exists() {
                // What images of boards share.
                continue;
            }
            let name = folder.file_name().into_string().unwrap();
            assert!(Board::names().any(|known| known == name), "boards/{name}");
        }
    }

    #[test]
    fn a_board_is_found_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let text = KNOWN[4].1.replace("jetson-nano", "mine");
        std::fs::write(folder.path().join("board.toml"), text).unwrap();
        for path in [folder.path().to_owned(), folder.path().join("board.toml")] {
            assert_eq!(Board::load(path.to_str().unwrap()).unwrap().name(), "mine");
        }
    }
}
