//! Inputs and outputs of a verb: no output replaces an input, or another output.
//!
//! Files are the same if they have the same device and inode, so that links of either kind are seen
//! through. A file that does not exist yet is known by its folder and its name.

use eyelet_model::replace::{can_hold, destination, folder_of, in_place};
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
    outputs: Vec<Written>,
}

/// A file that is written.
#[derive(Clone, Debug)]
struct Written {
    what: &'static str,
    path: PathBuf,
    /// A pack is read back, so that it must be a regular file.
    is_pack: bool,
}

/// The identity of a file.
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
        let written = |path: &PathBuf| Written { what, path: path.clone(), is_pack: false };
        self.outputs.extend(paths.into_iter().map(written));
        self
    }

    /// Adds packs that are written: what is no regular file cannot hold them, since they are read back.
    pub fn writes_packs<'p>(
        mut self,
        what: &'static str,
        paths: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Self {
        let written = |path: &PathBuf| Written { what, path: path.clone(), is_pack: true };
        self.outputs.extend(paths.into_iter().map(written));
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
        for Written { what, path, is_pack } in &self.outputs {
            let failed = |source| Error::Write { path: path.clone(), source };
            let Some(identity) = of_output(path, *is_pack).map_err(failed)? else { continue };
            if let Some((_, other, of)) = taken.iter().find(|(found, ..)| *found == identity) {
                let (path, of) = (path.clone(), PathBuf::clone(of));
                return Err(Error::Replaces { what, path, other, of });
            }
            taken.push((identity, *what, path));
        }
        Ok(())
    }
}

/// The identity of a file to be written. `None` for one that is written in place and loses nothing.
fn of_output(path: &Path, is_pack: bool) -> io::Result<Option<Identity>> {
    let path = destination(path)?;
    if let Ok(found) = path.metadata() {
        if found.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        if found.is_file() {
            // It is replaced, by another in its folder.
            can_hold(folder_of(&path))?;
        } else {
            if is_pack {
                let what = "it is no regular file, and a pack is also read back; give a file";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
            // Open until the process ends: whoever reads a FIFO takes a close for its end.
            std::mem::forget(in_place(&path)?);
        }
        return Ok(keeps(&found).then(|| Identity::Inode(found.dev(), found.ino())));
    }
    let folder = folder_of(&path).metadata()?;
    if !folder.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    can_hold(folder_of(&path))?;
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
        let packs = Files::default().writes_packs("-o", [&null]).check().unwrap_err();
        assert!(packs.to_string().contains("it is no regular file"), "{packs}");
    }

    #[test]
    fn a_link_to_itself_leads_nowhere() {
        let folder = folder();
        let path = folder.path().join("self");
        symlink("self", &path).unwrap();
        match Files::default().writes("-o", [&path]).check() {
            Err(Error::Write { source, .. }) => {
                assert_eq!(source.raw_os_error(), Some(libc::ELOOP));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_written_is_found_before_the_work() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        for (output, kind) in [
            ("folder", io::ErrorKind::IsADirectory),
            ("missing/new", io::ErrorKind::NotFound),
            ("file/new", io::ErrorKind::NotADirectory),
            ("fifo", io::ErrorKind::InvalidInput),
        ] {
            match Files::default().writes("-o", [&at(output)]).check() {
                Err(Error::Write { source, .. }) => assert_eq!(source.kind(), kind, "{output}"),
                other => panic!("{output}: {other:?}"),
            }
        }
    }
}
