//! Writes a file whole or not at all.
//!
//! The content goes to a file without a name, where the file system has such, and takes its name only
//! when it is complete: a full disk, an error or a signal half-way leaves what was there before, and
//! no fragment. Elsewhere it goes to a [`Scratch`] in the same folder.

use crate::leftovers::{self, Scratch};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What [`replace`] has its content written to: a file behind a buffer of 64 KiB.
pub type Sink<'a> = BufWriter<&'a mut File>;

const BUFFER_BYTES: usize = 64 << 10;

/// Most links that lead to a file, as the system has it.
const MOST_LINKS: usize = 40;

/// Writes the file at `path` with `write`, replacing what was there.
///
/// A symbolic link is followed. What is no regular file (a pipe, `/dev/stdout`) cannot be replaced
/// and is written to in place, by [`in_place`].
pub fn replace(path: &Path, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> io::Result<()> {
    let path = destination(path)?;
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return fill(&mut in_place(&path)?, write);
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

/// Opens what is no regular file, to be written to as it is, and waits for nobody: a FIFO without a reader is refused.
pub fn in_place(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            let found = path.metadata()?.file_type();
            let what = match () {
                () if found.is_fifo() => {
                    "it is a FIFO (a named pipe) that nobody reads; give a file, or start its reader first"
                }
                () if found.is_socket() => "it is a socket; give a file",
                () => return Err(error),
            };
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        opened => opened?,
    };
    // A reader may be slower than the writer.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - rustix::fs::OFlags::NONBLOCK)?;
    Ok(file)
}

/// Where a file is, or would be, whose path may be a link, or a chain of links that leads nowhere yet. A chain without an end
/// is an error.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        // What a link leads to may have no path: a pipe that is open as `/dev/stdout`.
        if path.exists() {
            return Ok(path.canonicalize().unwrap_or(path));
        }
        match path.read_link() {
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Whether this process may make files in a folder.
pub fn can_hold(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
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
    fn fifos_need_a_reader() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = replace(&path, |sink| sink.write_all(b"x")).unwrap_err();
        assert!(error.to_string().contains("FIFO (a named pipe) that nobody reads"), "{error}");
        // More than a pipe holds, for a reader that has come first.
        let mut reader =
            File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let flags = rustix::fs::fcntl_getfl(&reader).unwrap();
        rustix::fs::fcntl_setfl(&reader, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        let text = vec![b'x'; 1 << 20];
        let written = std::thread::scope(|scope| {
            scope.spawn(|| replace(&path, |sink| sink.write_all(&text)).unwrap());
            let mut written = Vec::new();
            // The writer may not have come yet, which looks like the end.
            while written.len() < text.len() {
                io::Read::read_to_end(&mut reader, &mut written).unwrap();
            }
            written
        });
        assert!(written == text);
    }

    #[test]
    fn links_without_an_end_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink("self", at("self")).unwrap();
        std::os::unix::fs::symlink("there", at("back")).unwrap();
        std::os::unix::fs::symlink("back", at("there")).unwrap();
        for link in ["self", "back"] {
            let error = replace(&at(link), |sink| sink.write_all(b"x")).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{error}");
            assert!(at(link).is_symlink());
        }
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
