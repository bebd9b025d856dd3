//! Boards: the targets that eyelet is planned and built for, described by `boards/NAME/board.toml`.
//!
//! Two programs read these files: the planner (`eyelet plan --board`), and the build script of the
//! library (`EYELET_BOARD`). Both read them with this crate. So a key that one refuses, the other
//! refuses with the same words. [`schema`] lists all keys, and `docs/boards.md` explains them.
//!
//! The descriptions that come with eyelet are part of the crate, so that their names work from
//! anywhere. Others are read from a path.

mod board;
mod check;
mod cores;
mod document;
pub mod emit;
mod error;
mod rules;
pub mod schema;
mod size;

pub use board::{Board, Memory, MemoryKind, Region, Storage};
pub use cores::Cores;
pub use document::Document;
pub use error::{Error, FindError};

use std::path::PathBuf;

/// The boards that come with eyelet, with their descriptions. Cargo leaves the folders of other
/// crates, which images are, out of this one's package: `src/images` links to descriptions there.
pub const KNOWN: &[(&str, &str)] = &[
    ("host-avx512", include_str!("../host-avx512/board.toml")),
    ("host-avx2", include_str!("../host-avx2/board.toml")),
    ("host-neon", include_str!("../host-neon/board.toml")),
    ("portable", include_str!("../portable/board.toml")),
    ("jetson-nano", include_str!("../jetson-nano/board.toml")),
    ("jetson-xavier-nx", include_str!("../jetson-xavier-nx/board.toml")),
    ("jetson-orin-nano", include_str!("../jetson-orin-nano/board.toml")),
    ("raspberry-pi-4", include_str!("../raspberry-pi-4/board.toml")),
    ("rockpro64", include_str!("../rockpro64/board.toml")),
    ("cortex-a53", include_str!("../cortex-a53/board.toml")),
    ("gpu-host", include_str!("../gpu-host/board.toml")),
    ("mps3-an547", include_str!("images/mps3-an547.toml")),
    ("qemu-virt-a15", include_str!("images/qemu-virt-a15.toml")),
    ("qemu-virt-a57", include_str!("images/qemu-virt-a57.toml")),
];

/// A description that was found: where it is from, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's name in errors: `boards/NAME/board.toml`, or the path that was given.
    pub file: String,
    /// The file, where it was read from a path.
    pub path: Option<PathBuf>,
    pub text: String,
}

impl Source {
    /// The description of a board that comes with eyelet, of a file, or of a folder with a `board.toml`.
    pub fn find(name_or_path: &str) -> Result<Self, FindError> {
        if let Some((name, text)) = KNOWN.iter().find(|(name, _)| *name == name_or_path) {
            let (file, text) = (format!("boards/{name}/board.toml"), (*text).to_owned());
            return Ok(Self { file, path: None, text });
        }
        let mut path = PathBuf::from(name_or_path);
        if path.is_dir() {
            path.push("board.toml");
        }
        if !path.exists() {
            return Err(FindError::Unknown { name: name_or_path.to_owned() });
        }
        // A FIFO would keep its reader waiting, and no more than this is read of what may be no board at all.
        let read = match path.metadata() {
            Ok(found) if !found.is_file() => {
                return Err(FindError::NoFile { path, found: kind(found.file_type()) });
            }
            Ok(found) if found.len() > LARGEST_FILE => {
                return Err(FindError::TooLarge { path, bytes: found.len(), most: LARGEST_FILE });
            }
            _ => std::fs::read_to_string(&path),
        };
        match read {
            Ok(text) => Ok(Self { file: path.display().to_string(), path: Some(path), text }),
            Err(error) => Err(FindError::Read { path, error }),
        }
    }
}

/// A description is a page or two.
const LARGEST_FILE: u64 = 1 << 20;

/// Names of the boards that come with eyelet.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// The kind of something that has a path and is no file.
fn kind(found: std::fs::FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if found.is_fifo() {
            return "a FIFO (a named pipe)";
        }
        if found.is_socket() {
            return "a socket";
        }
        if found.is_char_device() {
            return "a character device";
        }
    }
    if found.is_dir() { "a directory" } else { "no regular file" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_boards_bear_the_names_of_their_folders() {
        for &(name, text) in KNOWN {
            let document = Document::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(document.board().name, name);
        }
        let folders = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
        let boards = folders.map(|folder| folder.unwrap().path());
        for board in boards.filter(|path| path.join("board.toml").exists()) {
            let name = board.file_name().unwrap().to_str().unwrap();
            assert!(names().any(|known| known == name), "boards/{name} is not in KNOWN");
        }
    }

    #[test]
    fn a_board_is_found_by_name_and_by_path() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/jetson-nano");
        let named = Source::find("jetson-nano").unwrap();
        assert_eq!((named.file.as_str(), &named.path), ("boards/jetson-nano/board.toml", &None));
        for path in [folder.to_owned(), format!("{folder}/board.toml")] {
            assert_eq!(Source::find(&path).unwrap().text, named.text);
        }
        let error = Source::find("jetson-nona").unwrap_err().to_string();
        assert!(error.contains("`jetson-nona`") && error.contains("jetson-nano,"), "{error}");
    }
}
