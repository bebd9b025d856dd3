//! Boards: the targets that plans are made for, described by `boards/NAME/board.toml`.
//!
//! The descriptions that come with eyelet are part of the program, so that it works from anywhere; others
//! are read from a path. Their profiles are estimates unless they say otherwise.

use crate::profile::{Profile, ProfileError};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A target.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// What it is.
    pub description: String,
    /// Bytes of a page of its storage: the granularity of reads.
    pub page: u64,
    /// Its name, instruction set, threads, and what things cost on it.
    pub profile: Profile,
}

/// The boards that come with eyelet, with their descriptions.
const KNOWN: [(&str, &str); 9] = [
    ("host-avx512", include_str!("../../boards/host-avx512/board.toml")),
    ("host-avx2", include_str!("../../boards/host-avx2/board.toml")),
    ("host-neon", include_str!("../../boards/host-neon/board.toml")),
    ("portable", include_str!("../../boards/portable/board.toml")),
    ("jetson-nano", include_str!("../../boards/jetson-nano/board.toml")),
    ("jetson-xavier-nx", include_str!("../../boards/jetson-xavier-nx/board.toml")),
    ("jetson-orin-nano", include_str!("../../boards/jetson-orin-nano/board.toml")),
    ("raspberry-pi-4", include_str!("../../boards/raspberry-pi-4/board.toml")),
    ("cortex-a53", include_str!("../../boards/cortex-a53/board.toml")),
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
        let mut profile = match table.remove("profile") {
            Some(toml::Value::Table(profile)) => profile,
            _ => return Err(field("profile", "a table")),
        };
        // Whatever else there is the profile knows, or refuses.
        profile.extend(table);
        let profile: Profile = profile.try_into().map_err(toml)?;
        profile.validate().map_err(|error| BoardError::Profile { name: name.to_owned(), error })?;
        Ok(Self { description, page: page as u64, profile })
    }
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
            assert_eq!(board.name(), name);
            assert!(board.profile.estimated, "{name}: a description must not claim measurement");
            assert!(
                board.profile.source.len() > 40,
                "{name} does not say where its numbers are from"
            );
        }
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
    }

    #[test]
    fn the_host_is_a_board() {
        let board = host();
        assert!(board.profile.threads >= 1);
        assert!(Board::names().any(|name| name == board.name()));
    }
}
