//! Boards: the targets that plans are made for, described by `boards/NAME/board.toml`.
//!
//! The descriptions that come with eyelet are part of the program, so that it works from anywhere; others
//! are read from a path. Their profiles are estimates unless they say otherwise.
//!
//! A board has a processor, a GPU (`[gpu]`), or both. Each has a profile of its own; storage is one.

use crate::profile::{Profile, ProfileError};
use eyelet::kernels::Isa;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

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

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The processor.
    Cpu,
    /// NVIDIA's GPU.
    Cuda,
}

impl Device {
    /// What packs of an instruction set run on.
    pub fn of(isa: Isa) -> Self {
        if isa == Isa::Cuda { Self::Cuda } else { Self::Cpu }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// In a sentence.
    fn noun(self) -> &'static str {
        match self {
            Self::Cpu => "processor",
            Self::Cuda => "GPU",
        }
    }
}

/// Which memory a GPU computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The processor's, which storage is read into: two stages, read and kernel.
    ZeroCopy,
    /// Its own (of an integrated GPU: what its caches may hold), which is copied to: three stages, read, copy and kernel.
    Staged,
}

impl Memory {
    /// Which memory a profile is for, if it is a GPU's.
    pub fn of(profile: &Profile) -> Option<Self> {
        (profile.isa == Isa::Cuda).then_some(match profile.transfer {
            None => Self::ZeroCopy,
            Some(_) => Self::Staged,
        })
    }

    /// Its name in board files and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Staged => "staged",
        }
    }
}

/// `[gpu]` of a board's description.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuTable {
    arch: String,
    multiprocessors: u32,
    memory: Memory,
    ptx: String,
    profile: toml::Table,
    /// What of the profile is different when an integrated GPU's plans are staged, costs of copies first of all.
    staged: Option<toml::Table>,
}

/// The boards that come with eyelet, with their descriptions.
const KNOWN: [(&str, &str); 10] = [
    ("host-avx512", include_str!("../../boards/host-avx512/board.toml")),
    ("host-avx2", include_str!("../../boards/host-avx2/board.toml")),
    ("host-neon", include_str!("../../boards/host-neon/board.toml")),
    ("portable", include_str!("../../boards/portable/board.toml")),
    ("jetson-nano", include_str!("../../boards/jetson-nano/board.toml")),
    ("jetson-xavier-nx", include_str!("../../boards/jetson-xavier-nx/board.toml")),
    ("jetson-orin-nano", include_str!("../../boards/jetson-orin-nano/board.toml")),
    ("raspberry-pi-4", include_str!("../../boards/raspberry-pi-4/board.toml")),
    ("cortex-a53", include_str!("../../boards/cortex-a53/board.toml")),
    ("gpu-host", include_str!("../../boards/gpu-host/board.toml")),
];

/// Why there is no such board.
#[derive(Debug, Error)]
pub enum BoardError {
    #[error(
        "there is no board `{name}` and no such file; the boards are: {known}; or give the path of a \
         board.toml"
    )]
    Unknown { name: String, known: String },
    #[error("the board {path} cannot be read: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("the board {name} is not as it should be: {error}")]
    Toml { name: String, error: toml::de::Error },
    #[error("the board {name}: {field} is missing or of another type; it must be {expected}")]
    Field { name: String, field: &'static str, expected: &'static str },
    #[error("the board {name}: page is {page}; it must be a power of two and at most {largest}")]
    Page { name: String, page: i64, largest: u64 },
    #[error("the board {name}: {error}")]
    Profile { name: String, error: ProfileError },
    #[error(
        "the board {name}: `{found}` is of a processor, and there is no [profile] of one; add it, or leave that out"
    )]
    Processor { name: String, found: String },
    #[error("the board {name}: gpu.{field} is `{found}`; it must be {expected}")]
    Gpu { name: String, field: &'static str, found: String, expected: &'static str },
    #[error(
        "the board {name}: costs of {} {} a transfer table: copies have a cost if, and only if, memory is staged \
         ([gpu.profile.transfer], or [gpu.staged.transfer] of a GPU that can do with both)",
        memory.name(), if *memory == Memory::Staged { "without" } else { "with" }
    )]
    Transfer { name: String, memory: Memory },
    #[error(
        "the board {name}: [gpu.profile] has costs of copies, and there is [gpu.staged]: that is what is different of costs \
         without copies; leave out one of them"
    )]
    Staged { name: String },
    #[error(
        "the board {name} has no costs of {}, its GPU's memory is {}: leave out --memory, or describe them in a board.toml",
        wanted.name(), memory.name()
    )]
    Memory { name: String, wanted: Memory, memory: Memory },
    #[error("--memory {} is for a GPU, and on the board {name} the processor computes: add --device cuda, or leave it out",
        memory.name())]
    NotOnProcessor { name: String, memory: Memory },
    #[error(
        "the board {name} has no {}; those that have one are: {known}; choose one of these with --board, or leave out \
         --device {}", device.noun(), device.name()
    )]
    Device { name: String, device: Device, known: String },
}

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
        let text = std::fs::read_to_string(&path)
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

    /// A board from its description. What board and profile have in common stands at the top only.
    fn parse(name: &str, text: &str) -> Result<Self, BoardError> {
        let toml = |error| BoardError::Toml { name: name.to_owned(), error };
        let field = |field, expected| BoardError::Field { name: name.to_owned(), field, expected };
        let mut table: toml::Table = text.parse().map_err(toml)?;
        let description = match table.remove("description") {
            Some(toml::Value::String(text)) => text,
            _ => return Err(field("description", "a string")),
        };
        let largest = eyelet::pack::PAGE;
        let page = match table.remove("page") {
            Some(toml::Value::Integer(page)) => page,
            _ => return Err(field("page", "an integer")),
        };
        if page <= 0 || page as u64 > largest || !(page as u64).is_power_of_two() {
            return Err(BoardError::Page { name: name.to_owned(), page, largest });
        }
        let gpu = match table.remove("gpu") {
            Some(toml::Value::Table(gpu)) => Some(GpuTable::deserialize(gpu).map_err(toml)?),
            Some(_) => return Err(field("gpu", "a table")),
            None => None,
        };
        let own = match (table.remove("profile"), &gpu) {
            (Some(toml::Value::Table(profile)), _) => Some(profile),
            (None, Some(_)) => None,
            _ => return Err(field("profile", "a table")),
        };
        let profile = |mut profile: toml::Table, more: toml::Table| {
            // Whatever else there is the profile knows, or refuses.
            profile.extend(more);
            let profile: Profile = profile.try_into().map_err(toml)?;
            let valid = profile.validate();
            valid.map_err(|error| BoardError::Profile { name: name.to_owned(), error })?;
            Ok(profile)
        };
        let storage = own.as_ref().and_then(|own| own.get("storage").cloned());
        let gpu = match gpu {
            Some(gpu) => Some(gpu.finish(name, &table, storage, profile)?),
            None => None,
        };
        let profile = match (own, &gpu) {
            (Some(own), _) => profile(own, table)?,
            (None, Some(gpu)) => {
                if let Some((key, value)) = table.iter().find(|(key, _)| *key != "name") {
                    let (name, found) = (name.to_owned(), format!("{key} = {value}"));
                    return Err(BoardError::Processor { name, found });
                }
                gpu.profile.clone()
            }
            (None, None) => return Err(field("profile", "a table")),
        };
        Ok(Self { description, page: page as u64, profile, gpu })
    }
}

impl GpuTable {
    /// A GPU from its table, and what stands at the top of the board's; its storage is the board's, if that has one.
    fn finish(
        self,
        name: &str,
        top: &toml::Table,
        storage: Option<toml::Value>,
        profile: impl Fn(toml::Table, toml::Table) -> Result<Profile, BoardError>,
    ) -> Result<Gpu, BoardError> {
        let Self { arch, multiprocessors, memory, ptx, profile: mut own, staged } = self;
        let wrong = |field, found: &str, expected| {
            let (name, found) = (name.to_owned(), found.to_owned());
            Err(BoardError::Gpu { name, field, found, expected })
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !arch.strip_prefix("sm_").is_some_and(digits) {
            return wrong("arch", &arch, "like sm_53");
        }
        if !ptx.split_once('.').is_some_and(|(major, minor)| digits(major) && digits(minor)) {
            return wrong("ptx", &ptx, "like 6.5");
        }
        let mut more = toml::Table::new();
        if let Some(board) = top.get("name") {
            more.insert("name".to_owned(), board.clone());
        }
        more.insert("isa".to_owned(), Isa::Cuda.name().into());
        more.insert("threads".to_owned(), 1.into());
        more.insert("multiprocessors".to_owned(), multiprocessors.into());
        if let Some(storage) = storage {
            own.entry("storage").or_insert(storage);
        }
        let staged = staged.map(|different| merged(own.clone(), different));
        let first = profile(own, more.clone())?;
        let second = staged.map(|own| profile(own, more)).transpose()?;
        if second.is_some() && first.transfer.is_some() {
            return Err(BoardError::Staged { name: name.to_owned() });
        }
        let transfer = |memory| BoardError::Transfer { name: name.to_owned(), memory };
        if second.as_ref().is_some_and(|second| second.transfer.is_none()) {
            return Err(transfer(Memory::Staged));
        }
        let (profile, other) = match (Memory::of(&first) == Some(memory), second) {
            (true, second) => (first, second),
            (false, Some(second)) => (second, Some(first)),
            (false, None) => return Err(transfer(memory)),
        };
        Ok(Gpu { arch, ptx, memory, profile, other })
    }
}

/// A table with what is different, table by table.
fn merged(mut table: toml::Table, different: toml::Table) -> toml::Table {
    for (key, value) in different {
        let value = match (table.remove(&key), value) {
            (Some(toml::Value::Table(table)), toml::Value::Table(different)) => {
                toml::Value::Table(merged(table, different))
            }
            (_, value) => value,
        };
        table.insert(key, value);
    }
    table
}

/// The board that is this machine: by what its processor can do, with as many threads as it has.
pub fn host() -> Board {
    let mut board = Board::load(host_name()).expect("the boards that come with eyelet are valid");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    board.profile.threads = threads as u32;
    board
}

#[cfg(target_arch = "x86_64")]
fn host_name() -> &'static str {
    let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    match (fma && is_x86_feature_detected!("avx512f"), fma) {
        (true, _) => "host-avx512",
        (false, true) => "host-avx2",
        (false, false) => "portable",
    }
}

#[cfg(target_arch = "aarch64")]
fn host_name() -> &'static str {
    "host-neon"
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn host_name() -> &'static str {
    "portable"
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
        let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("../boards");
        for folder in std::fs::read_dir(boards).unwrap() {
            let name = folder.unwrap().file_name().into_string().unwrap();
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

    #[test]
    fn what_is_wrong_is_said() {
        let error = Board::load("jetson-nona").unwrap_err().to_string();
        assert!(error.contains("jetson-nona") && error.contains("jetson-nano,"), "{error}");
        let text = KNOWN[4].1;
        let wrong = |from: &str, to: &str, says: &str| {
            let error = Board::parse("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        wrong("page = 4096", "page = 4095", "page is 4095");
        wrong("page = 4096", "", "page is missing");
        wrong("threads = 4", "threads = 0", "threads is 0");
        wrong("isa = \"neon\"", "isa = \"vax\"", "vax");
        wrong("threads = 4", "threads = 4\nheads = 4", "heads");
        wrong("[profile]", "[profile", "not as it should be");
        wrong("sm_53", "maxwell", "gpu.arch is `maxwell`; it must be like sm_53");
        wrong("\"6.5\"", "\"six\"", "gpu.ptx is `six`");
        wrong("[gpu.staged.transfer]", "[gpu.staged.delays]", "delays");
        wrong("[gpu.staged]", "[gpu.stages]", "stages");
        wrong("cache_bytes = 262_144", "cash_bytes = 1", "cash_bytes");
        let transfer = "[gpu.staged.transfer]\nlatency_ns = 25_000\ngbs = 5.4";
        wrong(transfer, "", "costs of staged without a transfer table");
        let both =
            "[gpu.profile.transfer]\nlatency_ns = 25_000\ngbs = 5.4\n\n[gpu.staged.transfer]";
        wrong("[gpu.staged.transfer]", both, "leave out one of them");
        wrong("memory = \"zero-copy\"", "memory = \"managed\"", "managed");
        wrong("multiprocessors = 1", "multiprocessors = 0", "multiprocessors is 0");
        wrong("memory = ", "vram = ", "vram");
        let text = KNOWN[9].1;
        let wrong = |from: &str, to: &str, says: &str| {
            let error = Board::parse("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        wrong(
            "memory = \"staged\"",
            "memory = \"zero-copy\"",
            "costs of zero-copy with a transfer table",
        );
        wrong("page = 4096", "page = 4096\nthreads = 4", "`threads = 4` is of a processor");
        wrong("gbs = 51.2", "gbs = 0.0", "transfer.gbs is 0");
        wrong("[gpu.profile.storage]", "[gpu.storage]", "storage");
    }

    #[test]
    fn the_host_is_a_board() {
        let board = host();
        assert!(board.profile.threads >= 1);
        assert!(Board::names().any(|name| name == board.name()));
    }
}
