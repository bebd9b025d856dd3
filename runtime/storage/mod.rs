//! Where weights come from.
//!
//! A [`Storage`] reads ranges of the pack into the arena. A load is one such read, without a copy,
//! a buffer, or, with direct I/O, the page cache. Every error is a small [`StorageError`] that
//! names the offset and the numbers that disagree.
//!
//! | back end | for |
//! |---|---|
//! | [`Slice`] | packs in memory-mapped flash; tests; any target |
//! | [`Part`] | one of several packs in another storage |
//! | `DirectFile` | Linux, the normal case: straight from the device into the arena |
//! | `BufferedFile` | Linux, file systems without direct I/O; the page cache holds a copy |
//! | `MappedFile` | Linux, packs that are meant to stay in memory |
//!
//! [`ReadQueue`] is for storage that reads while its caller goes on, several ranges at once.
//! `DirectFile` has one.
//!
//! A back end for another device implements [`Storage`] and, if its transfers may be short or
//! interrupted, leaves that to [`read_exact`].

#[doc(hidden)]
pub mod faulty;
mod in_flight;
mod memory;
mod part;
#[doc(hidden)]
pub mod queue;
mod stream;

#[cfg(all(feature = "linux", target_os = "linux"))]
mod aio;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod buffered;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod direct;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(crate) mod fd;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod mapped;
#[cfg(all(feature = "linux", target_os = "linux"))]
#[doc(hidden)]
pub mod residency;
#[cfg(all(test, feature = "linux", target_os = "linux"))]
mod scratch_file;
#[cfg(all(test, feature = "linux", target_os = "linux"))]
pub(crate) mod steered;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod through_cache;

#[doc(hidden)]
pub use faulty::Faulty;
pub(crate) use in_flight::InFlight;
pub use memory::Slice;
pub use part::Part;
pub use queue::{MAX_BEGUN, MAX_DEPTH, ReadQueue};
#[doc(hidden)]
pub use stream::stream;

#[cfg(all(feature = "linux", target_os = "linux"))]
pub use {
    buffered::BufferedFile,
    direct::DirectFile,
    mapped::{MappedFile, Populate},
    residency::{Cached, PageCache},
};

use crate::pack::PAGE;

/// Something that holds a pack.
pub trait Storage {
    /// Length in bytes.
    fn len(&self) -> Result<u64, StorageError>;

    /// Whether it holds nothing.
    fn is_empty(&self) -> Result<bool, StorageError> {
        self.len().map(|bytes| bytes == 0)
    }

    /// Reads exactly `into.len()` bytes from byte `offset` on. `offset`, the length and the address
    /// of `into` are multiples of [`alignment`](Self::alignment). After an error the contents of
    /// `into` are unspecified.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError>;

    /// The unit of offsets, lengths and addresses: a power of two, at most 4096.
    fn alignment(&self) -> u64;

    /// Reads that go on while the caller does other work, if the storage has such.
    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        None
    }

    /// All bytes, if they lie in memory that outlives the storage, such as flash that is read like
    /// memory. Packs for such boards need it: what they hold is then used where it lies.
    fn mapped<'s>(&self) -> Option<&'s [u8]>
    where
        Self: 's,
    {
        None
    }
}

impl<S: Storage + ?Sized> Storage for &mut S {
    fn len(&self) -> Result<u64, StorageError> {
        (**self).len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        (**self).read(offset, into)
    }

    fn alignment(&self) -> u64 {
        (**self).alignment()
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        (**self).queue()
    }

    fn mapped<'s>(&self) -> Option<&'s [u8]>
    where
        Self: 's,
    {
        (**self).mapped()
    }
}

/// Why a read, or opening a file, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageError {
    /// The file could not be opened, mapped or measured.
    Open {
        /// The system's error number.
        errno: i32,
    },
    /// The path leads to something that is neither a regular file nor a block device.
    NoFile(NoFile),
    /// The kernel does not say what the page cache holds of the file: the file has another owner,
    /// or its file system does not know.
    CacheUnknown,
    /// Direct reads of the file leave pages in the page cache.
    StaysCached {
        /// Pages there, of the system's size.
        pages: u64,
        /// Pages of the pack.
        of_pages: u64,
    },
    /// The file system has no direct I/O, so that a read would leave a copy in the page cache.
    NoDirectIo,
    /// Direct I/O needs coarser alignment than packs have.
    Coarse {
        /// Alignment that the device needs, in bytes.
        alignment: u64,
        /// Alignment of packs, in bytes: a page.
        limit: u64,
    },
    /// The device or the system reports an error.
    Io {
        /// The system's error number.
        errno: i32,
        /// Where: bytes from the start of the file.
        offset: u64,
    },
    /// The file ends before the end of the read.
    Short {
        /// Where the read starts: bytes from the start of the file.
        offset: u64,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes there were.
        got: u64,
    },
    /// The device did not answer in time.
    Stalled {
        /// Where the read starts: bytes from the start of the storage.
        offset: u64,
        /// Milliseconds that a read may take.
        limit_ms: u64,
    },
    /// The caller's offset, length or address is not a multiple of the alignment.
    Misaligned {
        /// Where the read starts: bytes from the start of the file.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
        /// Where they should go.
        address: u64,
        /// The unit of all three.
        alignment: u64,
    },
}

/// Something that has a path and is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoFile {
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device that is read byte by byte.
    CharacterDevice,
}

impl core::fmt::Display for NoFile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::Fifo => "a FIFO (a named pipe)",
            Self::Socket => "a socket",
            Self::CharacterDevice => "a character device",
        })
    }
}

impl core::fmt::Display for StorageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Open { errno } => write!(f, "cannot open the storage: system error {errno}"),
            Self::NoFile(what) => {
                write!(f, "cannot read it: it is {what}; give a file or a block device")
            }
            Self::CacheUnknown => f.write_str(
                "what the page cache holds of the file is unknown: ask as its owner, or on another file system",
            ),
            Self::StaysCached { pages, of_pages } => write!(
                f,
                "direct reads leave {pages} of {of_pages} pages in the page cache (a file system in memory, or one that \
                 compresses): use --io buffered, or put the pack elsewhere"
            ),
            Self::NoDirectIo => f.write_str("storage without direct I/O: use --io buffered"),
            Self::Coarse { alignment, limit } => write!(
                f,
                "direct I/O on this storage needs alignment to {alignment} bytes, packs are aligned \
                 to {limit}: use --io buffered"
            ),
            Self::Io { errno, offset } => {
                write!(f, "reading the storage at byte {offset}: system error {errno}")
            }
            Self::Short { offset, wanted, got } => write!(
                f,
                "the storage ends early: {got} of {wanted} bytes at byte {offset}; the file is \
                 truncated, copy it again"
            ),
            Self::Stalled { offset, limit_ms } => write!(
                f,
                "the storage has not answered in {limit_ms} ms to a read at byte {offset}: it hangs, or needs \
                 more time"
            ),
            Self::Misaligned { offset, bytes, address, alignment } => write!(
                f,
                "a read of {bytes} bytes at byte {offset} to address {address:#x} is not aligned to \
                 {alignment} bytes"
            ),
        }
    }
}

impl core::error::Error for StorageError {}

/// `EINTR`, on every system that has it.
const INTERRUPTED: i32 = 4;

/// Reads exactly `into.len()` bytes by repeated attempts: `attempt` reads into the front of a
/// buffer from an offset on and returns the bytes it read or the system's error number. Interrupted
/// attempts are repeated, short ones continued; nothing read is the end of the file, and so is a
/// count that is not a multiple of `alignment` (a device transfers whole blocks, except the last of
/// a file).
pub fn read_exact(
    offset: u64,
    into: &mut [u8],
    alignment: u64,
    mut attempt: impl FnMut(u64, &mut [u8]) -> Result<usize, i32>,
) -> Result<(), StorageError> {
    let wanted = into.len() as u64;
    if offset.checked_add(wanted).is_none() {
        return Err(StorageError::Short { offset, wanted, got: 0 });
    }
    let mut got = 0;
    while got < into.len() {
        let at = offset + got as u64;
        match attempt(at, &mut into[got..]) {
            Err(INTERRUPTED) => continue,
            Err(errno) => return Err(StorageError::Io { errno, offset: at }),
            Ok(0) => return Err(StorageError::Short { offset, wanted, got: got as u64 }),
            Ok(bytes) => got = (got + bytes).min(into.len()),
        }
        if got < into.len() && !(got as u64).is_multiple_of(alignment) {
            return Err(StorageError::Short { offset, wanted, got: got as u64 });
        }
    }
    Ok(())
}

/// Bytes in which there is a whole page wherever they start.
pub(crate) const TWO_PAGES: usize = 2 * PAGE as usize;

/// A page in the middle of local memory, to read one to from any storage. A local type that is
/// aligned so would do, if LLVM 22 did not get functions wrong in which one is needed on some ways
/// only: it jumps past where they save registers.
pub(crate) fn aligned_page(room: &mut [u8; TWO_PAGES]) -> &mut [u8] {
    let page = PAGE as usize;
    let at = room.as_ptr().addr().next_multiple_of(page) - room.as_ptr().addr();
    &mut room[at..at + page]
}

/// Refuses a read whose offset, length or address is not a multiple of `alignment`.
pub fn check_aligned(offset: u64, into: &[u8], alignment: u64) -> Result<(), StorageError> {
    check_alignment(offset, into.len(), into.as_ptr().addr(), alignment)
}

/// Refuses a read of `bytes` bytes to an address, if offset, length or address is not a multiple of
/// `alignment`.
pub(crate) fn check_alignment(
    offset: u64,
    bytes: usize,
    address: usize,
    alignment: u64,
) -> Result<(), StorageError> {
    let (bytes, address) = (bytes as u64, address as u64);
    if (offset | bytes | address) & (alignment - 1) != 0 {
        return Err(StorageError::Misaligned { offset, bytes, address, alignment });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn reads_past_the_largest_offset_are_refused() {
        let mut into = [0; 16];
        let short = StorageError::Short { offset: u64::MAX - 3, wanted: 16, got: 0 };
        let attempt = |_, _: &mut [u8]| -> Result<usize, i32> { unreachable!() };
        assert_eq!(read_exact(u64::MAX - 3, &mut into, 1, attempt), Err(short));
    }

    #[test]
    fn alignment_concerns_offset_length_and_address() {
        #[repr(align(512))]
        struct Block([u8; 1536]);
        let block = Block([0; 1536]);
        assert_eq!(check_aligned(1024, &block.0[512..], 512), Ok(()));
        let address = block.0.as_ptr().addr() as u64;
        for (offset, start, end) in [(1000, 0, 512), (0, 0, 511), (0, 4, 516)] {
            let error = StorageError::Misaligned {
                offset,
                bytes: (end - start) as u64,
                address: address + start as u64,
                alignment: 512,
            };
            assert_eq!(check_aligned(offset, &block.0[start..end], 512), Err(error));
        }
    }

    #[test]
    #[cfg(all(feature = "linux", target_os = "linux"))]
    fn back_ends_can_go_to_the_loaders_thread() {
        fn sendable<S: Storage + Send>() {}
        sendable::<BufferedFile>();
        sendable::<DirectFile>();
        sendable::<MappedFile>();
        sendable::<Slice<'_>>();
        sendable::<Faulty<'_, &mut (dyn Storage + Send)>>();
    }

    #[test]
    fn messages_have_the_numbers() {
        let short = StorageError::Short { offset: 8192, wanted: 4096, got: 100 };
        assert!(short.to_string().contains("100 of 4096 bytes at byte 8192"));
        let io = StorageError::Io { errno: 5, offset: 77 };
        assert_eq!(io.to_string(), "reading the storage at byte 77: system error 5");
        assert!(StorageError::NoDirectIo.to_string().contains("--io buffered"));
    }
}
