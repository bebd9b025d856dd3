//! Writes a file whole or not at all.
//!
//! The content goes to a temporary name in the same directory and takes its place only when it is
//! complete: a full disk or an error half-way leaves what was there before, and no fragment.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What [`replace`] has its content written to: a file behind a buffer of 64 KiB.
pub type Sink<'a> = BufWriter<&'a mut File>;

const BUFFER_BYTES: usize = 64 << 10;

/// Writes the file at `path` with `write`, replacing what was there.
///
/// A symbolic link is followed. What is no regular file (a pipe, `/dev/stdout`) cannot be replaced
/// and is written to in place.
pub fn replace(path: &Path, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> io::Result<()> {
    // A path that leads nowhere yet stays as it is; its directory is checked below.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return fill(&mut OpenOptions::new().write(true).open(path)?, write);
    }
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    // As for any new file: the umask takes its share of the permissions. (Opened here, because the
    // crate's own errors name the temporary file, which helps nobody.)
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o666);
    let mut temporary = tempfile::Builder::new()
        .prefix(".eyelet-")
        .suffix(".partial")
        .make_in(directory, |path| options.open(path))?;
    fill(temporary.as_file_mut(), write)?;
    temporary.persist(&path).map_err(|failed| failed.error)?;
    Ok(())
}

fn fill(file: &mut File, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> io::Result<()> {
    let mut sink = BufWriter::with_capacity(BUFFER_BYTES, file);
    write(&mut sink)?;
    sink.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn replaces_whole_files_and_follows_links() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        replace(&path, |sink| sink.write_all(b"first")).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, |sink| sink.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
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
