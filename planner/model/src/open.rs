//! Opens files that others name: models, packs, profiles, inputs.
//!
//! What is no file is refused at once, with a word that says what it is. A FIFO without a writer would
//! otherwise keep its reader waiting for ever, and a folder fails later in ways that say nothing. Reading
//! into memory has a limit on its bytes.

use bytes::Bytes;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Most bytes of a description: of a board, a profile, the preprocessing of pictures, options.
pub const DESCRIPTION: u64 = 1 << 20;

/// Most bytes of a list: a task set, buffers, labels, a measured run.
pub const LIST: u64 = 64 << 20;

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
pub fn map(path: &Path) -> io::Result<Bytes> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = "it is a block device; give a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY:
    // - The map is private and read-only.
    // - It is sound as long as no other process changes or truncates the file. No program that maps
    //   its input can exclude that.
    // - The planner's documentation asks for it, and the command makes an error of it.
    // - A copy would double the memory that a model takes.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}

/// The bytes of a file, opened by [`open`], if it has at most `most`.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bytes(open(path)?, most)
}

/// The bytes of a file that is open, if it has at most `most`.
pub fn bytes(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let too_long = |found: String| {
        let text = format!("it has {found} bytes, and a file of its kind has at most {most}");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
    };
    if length > most {
        return too_long(length.to_string());
    }
    // A block device has no length here, and a file may grow meanwhile.
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => too_long(format!("more than {most}")),
        false => Ok(bytes),
    }
}

/// The text of a file, opened by [`open`], if it has at most `most` bytes.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, most)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text (UTF-8)"))
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
        assert_eq!(read_to_string(&at("link"), 4).unwrap(), "text");

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

    #[test]
    fn long_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        // Without a limit its reader would ask for a terabyte.
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, LIST).unwrap_err().to_string();
        assert_eq!(
            error,
            "it has 1099511627776 bytes, and a file of its kind has at most 67108864"
        );
        std::fs::write(&path, b"five\xff").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"five\xff");
        assert!(read(&path, 4).unwrap_err().to_string().contains("has 5 bytes"));
        assert!(read_to_string(&path, 5).unwrap_err().to_string().contains("no text"));
    }
}
