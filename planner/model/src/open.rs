//! Opens files that others name: models, packs, profiles, inputs.
//!
//! What is no file is refused at once, with a word that says what it is. A FIFO without a writer would
//! otherwise keep its reader waiting for ever, and a folder fails later in ways that say nothing.

use bytes::Bytes;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file or a block device for reading.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a FIFO does not wait then; for files and block devices the flag means nothing.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        // A socket cannot even be opened.
        Err(error) => match path.metadata().ok().and_then(|found| no_file(found.file_type())) {
            Some(what) => return Err(io::Error::new(io::ErrorKind::InvalidInput, what)),
            None => return Err(error),
        },
    };
    match no_file(file.metadata()?.file_type()) {
        None => Ok(file),
        Some(what) => Err(io::Error::new(io::ErrorKind::InvalidInput, what)),
    }
}

/// Maps a file into memory. Slices of the result keep the map alive.
pub(crate) fn map(path: &Path) -> io::Result<Bytes> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = "it is a block device; give a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the map is private and read-only. It is sound as long as no other process changes or
    // truncates the file meanwhile, which no program that maps its input can exclude; the planner's
    // documentation asks for it, and the command makes an error of it. A copy would double the memory a model takes.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}

/// The text of a file, opened by [`open`].
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// What something is that is neither a regular file nor a block device.
fn no_file(found: FileType) -> Option<&'static str> {
    Some(match () {
        () if found.is_file() || found.is_block_device() => return None,
        () if found.is_dir() => "it is a directory; give a file",
        () if found.is_fifo() => "it is a FIFO (a named pipe); give a file",
        () if found.is_socket() => "it is a socket; give a file",
        () => "it is a character device; give a file",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert_eq!(read_to_string(&at("link")).unwrap(), "text");

        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (path, says) in [
            (at("fifo"), "FIFO"),
            (at("socket"), "socket"),
            (at("."), "directory"),
            ("/dev/null".into(), "character device"),
        ] {
            let error = open(&path).unwrap_err();
            assert!(error.to_string().contains(says), "{}: {error}", path.display());
        }
        assert_eq!(open(&at("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
