//! What a verb reads and what it writes: no output replaces an input, or another output.
//!
//! Files are the same if they have the same device and inode, so that links of either kind are seen
//! through. What is not there yet is known by its folder and its name.

use eyelet_model::replace::{destination, folder_of};
use eyelet_plan::board::Board;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why a command does not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{what} {}: it is {other} ({}), which would be replaced; give another path",
        path.display(), of.display()
    )]
    Replaces { what: &'static str, path: PathBuf, other: &'static str, of: PathBuf },
}

/// A board that is a file: its path, or that of the description in its folder.
pub fn of_board(board: Option<&str>) -> Option<PathBuf> {
    let path = PathBuf::from(board.filter(|name| Board::names().all(|known| known != *name))?);
    Some(if path.is_dir() { path.join("board.toml") } else { path })
}

/// The files of a verb. Each is named by what it is to the verb: "the model", "--report".
#[derive(Clone, Debug, Default)]
pub struct Files {
    inputs: Vec<(&'static str, PathBuf)>,
    outputs: Vec<(&'static str, PathBuf)>,
}

/// What tells a file from others.
#[derive(PartialEq, Eq)]
enum Identity {
    /// Device and inode of one that is there.
    Inode(u64, u64),
    /// Device and inode of the folder, and the name.
    Name(u64, u64, OsString),
}

impl Files {
    /// Adds files that are read.
    pub fn reads<'p>(
        mut self,
        what: &'static str,
        paths: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Self {
        self.inputs.extend(paths.into_iter().map(|path| (what, path.clone())));
        self
    }

    /// Adds files that are written.
    pub fn writes<'p>(
        mut self,
        what: &'static str,
        paths: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Self {
        self.outputs.extend(paths.into_iter().map(|path| (what, path.clone())));
        self
    }

    /// Refuses outputs that are an input or another output, and those that could not be written.
    pub fn check(&self) -> Result<(), Error> {
        let mut taken = Vec::new();
        for (what, path) in &self.inputs {
            match path.metadata() {
                Ok(found) if !found.is_dir() => {
                    taken.push((Identity::Inode(found.dev(), found.ino()), *what, path));
                }
                // Whoever reads it ends the verb, with a better word.
                _ => return Ok(()),
            }
        }
        for (what, path) in &self.outputs {
            let failed = |source| Error::Write { path: path.clone(), source };
            let Some(identity) = of_output(path).map_err(failed)? else { continue };
            if let Some((_, other, of)) = taken.iter().find(|(found, ..)| *found == identity) {
                let (path, of) = (path.clone(), PathBuf::clone(of));
                return Err(Error::Replaces { what, path, other, of });
            }
            taken.push((identity, *what, path));
        }
        Ok(())
    }
}

/// Of a file that is to be written; none of what is written to in place and loses nothing by it.
fn of_output(path: &Path) -> io::Result<Option<Identity>> {
    let path = destination(path);
    if let Ok(found) = path.metadata() {
        return match found.is_dir() {
            true => Err(io::Error::from_raw_os_error(libc::EISDIR)),
            false => Ok(keeps(&found).then(|| Identity::Inode(found.dev(), found.ino()))),
        };
    }
    let folder = folder_of(&path).metadata()?;
    if !folder.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    Ok(Some(Identity::Name(folder.dev(), folder.ino(), name.to_owned())))
}

/// Whether something keeps what was written to it before.
fn keeps(found: &Metadata) -> bool {
    found.is_file() || found.file_type().is_block_device()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder with a file and links to it, and names that lead nowhere yet.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "content").unwrap();
        fs::write(at("other"), "content").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("link", at("chain")).unwrap();
        fs::hard_link(at("file"), at("hard")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        symlink("folder", at("way")).unwrap();
        symlink("folder/new", at("ahead")).unwrap();
        folder
    }

    #[test]
    fn an_output_is_neither_an_input_nor_another_output() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        for same in ["file", "./file", "folder/../file", "way/../file", "link", "chain", "hard"] {
            let files = Files::default().reads("the model", [&at(same)]);
            assert!(files.clone().writes("-o", [&at("other")]).check().is_ok());
            for output in ["file", "link", "chain", "hard"] {
                let error = files.clone().writes("-o", [&at(output)]).check().unwrap_err();
                assert!(matches!(error, Error::Replaces { .. }), "{same} {output}: {error}");
            }
        }
        for (one, two, same) in [
            ("new", "new", true),
            ("folder/new", "way/new", true),
            ("ahead", "way/new", true),
            ("link", "hard", true),
            ("new", "folder/new", false),
            ("file", "other", false),
        ] {
            let files = Files::default().writes("-o", [&at(one)]).writes("--report", [&at(two)]);
            assert_eq!(files.check().is_err(), same, "{one} {two}");
        }
    }

    #[test]
    fn what_is_no_file_may_be_read_and_written() {
        let null = PathBuf::from("/dev/null");
        let files = Files::default().reads("--input", [&null]).writes("-o", [&null, &null]);
        files.check().unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_found_before_the_work() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        for (output, kind) in [
            ("folder", io::ErrorKind::IsADirectory),
            ("missing/new", io::ErrorKind::NotFound),
            ("file/new", io::ErrorKind::NotADirectory),
        ] {
            match Files::default().writes("-o", [&at(output)]).check() {
                Err(Error::Write { source, .. }) => assert_eq!(source.kind(), kind, "{output}"),
                other => panic!("{output}: {other:?}"),
            }
        }
    }
}
