//! Writes a file whole or not at all.
//!
//! The content goes to a file without a name, where the file system has such, and takes its name only
//! when it is complete: a full disk, an error or a signal half-way leaves what was there before, and
//! no fragment. Elsewhere it goes to a [`Scratch`] in the same folder.

use crate::leftovers::{self, Scratch};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What [`replace`] has its content written to: a file behind a buffer of 64 KiB.
pub type Sink<'a> = BufWriter<&'a mut File>;

const BUFFER_BYTES: usize = 64 << 10;

/// Most links that lead to a file, as the system has it.
const MOST_LINKS: usize = 40;

/// Writes the file at `path` with `write`, replacing what was there.
///
/// A symbolic link is followed. What is no regular file (a pipe, `/dev/stdout`) cannot be replaced
/// and is written to in place.
pub fn replace(path: &Path, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> io::Result<()> {
    let path = destination(path);
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return fill(&mut OpenOptions::new().write(true).open(path)?, write);
    }
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let folder = folder_of(&path);
    leftovers::sweep(folder);
    if let Some(mut file) = unnamed(folder) {
        fill(&mut file, write)?;
        return give_name(&file, &path);
    }
    let mut scratch = Scratch::file(folder)?;
    fill(scratch.as_file_mut(), write)?;
    scratch.persist(&path)
}

/// Where a file is, or would be, whose path may be a link, or a chain of links that leads nowhere yet.
pub fn destination(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        // What a link leads to may have no path: a pipe that is open as `/dev/stdout`.
        if path.exists() {
            return path.canonicalize().unwrap_or(path);
        }
        match path.read_link() {
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => break,
        }
    }
    path
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn fill(file: &mut File, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> io::Result<()> {
    let mut sink = BufWriter::with_capacity(BUFFER_BYTES, file);
    write(&mut sink)?;
    sink.flush()
}

/// A file without a name, which goes away with the process whatever ends it; `None` where the file
/// system has no such, or no name could be given to it.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // As for any new file: the umask takes its share of the permissions.
    let file = File::from(open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
    opened_path(&file).exists().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> Option<File> {
    None
}

/// The path of an open file, whether it has a name or not.
fn opened_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives a file without a name a name, in place of what has it.
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    let link = |to: &Path| linkat(CWD, opened_path(file), CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(path) {
        Err(rustix::io::Errno::EXIST) => {}
        linked => return Ok(linked?),
    }
    // A link replaces nothing; a move does. No signal is to come between.
    let _held = leftovers::hold_to_make();
    let between = loop {
        let between = folder_of(path).join(leftovers::name());
        match link(&between) {
            Err(rustix::io::Errno::EXIST) => continue,
            linked => linked?,
        }
        break between;
    };
    fs::rename(&between, path).inspect_err(|_| {
        let _ = fs::remove_file(&between);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_files_and_follows_links() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let link = directory.path().join("link");
        // First it leads nowhere, and is itself led to.
        std::os::unix::fs::symlink("file", &link).unwrap();
        let further = directory.path().join("further");
        std::os::unix::fs::symlink("./link", &further).unwrap();
        for (to, content) in [(&further, b"first"), (&path, b"again"), (&link, b"third")] {
            replace(to, |sink| sink.write_all(content)).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert!(link.is_symlink() && further.is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"before").unwrap();
        let result = replace(&path, |sink| {
            sink.write_all(&[0; 3 * BUFFER_BYTES])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_have_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".eyelet-Xy12.partial"), b"half").unwrap();
        replace(&directory.path().join("file"), |sink| sink.write_all(b"whole")).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn devices_are_written_to_not_replaced() {
        replace(Path::new("/dev/null"), |sink| sink.write_all(b"gone")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let full = replace(Path::new("/dev/full"), |sink| sink.write_all(b"x"));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn directories_and_missing_directories_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let error = replace(directory.path(), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        let error = replace(&directory.path().join("missing/file"), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
