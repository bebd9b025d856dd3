//! Where C says that a pack is.

use super::error::{Kind as _, argument};
use crate::pack::PAGE;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::storage::{BufferedFile, DirectFile, MappedFile, Populate};
use crate::storage::{MAX_DEPTH, ReadQueue, Slice, Storage, StorageError, check_alignment};
#[cfg(all(feature = "linux", target_os = "linux"))]
use core::ffi::CStr;
use core::ffi::{c_char, c_void};

/// The kind of a [`Source`]. Numbers are part of the interface.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, read past the page cache.
    Direct = 0,
    /// A file, read through the page cache.
    Buffered = 1,
    /// A file, mapped and brought into memory.
    Mapped = 2,
    /// Addressable memory.
    Memory = 3,
    /// Whatever a function of the caller's reads.
    Callback = 4,
}

impl Kind {
    fn from_code(code: u32) -> Option<Self> {
        [Self::Direct, Self::Buffered, Self::Mapped, Self::Memory, Self::Callback]
            .into_iter()
            .find(|kind| *kind as u32 == code)
    }
}

/// A function that reads `bytes` bytes from byte `offset` on: 0, or the error's number.
pub type Read =
    unsafe extern "C" fn(context: *mut c_void, offset: u64, into: *mut c_void, bytes: usize) -> i32;

/// A function that begins such a read, of this number, and returns at once: 0, or the error's number.
pub type Start = unsafe extern "C" fn(
    context: *mut c_void,
    number: u32,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> i32;

/// A function that says whether the read of this number has ended: 0 while it goes on.
pub type Poll = unsafe extern "C" fn(context: *mut c_void, number: u32) -> i32;

/// A function that waits for the end of the read of this number: 0, or the error's number.
pub type Finish = unsafe extern "C" fn(context: *mut c_void, number: u32) -> i32;

/// Where a pack is, by the caller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// A [`Kind`].
    pub kind: u32,
    /// For a function: the unit of offsets, addresses and lengths; 0 for 1.
    pub alignment: u32,
    /// For a file: its path.
    pub path: *const c_char,
    /// For memory: its start.
    pub memory: *const c_void,
    /// For memory and for a function: the pack's length.
    pub bytes: u64,
    /// The function.
    pub read: Option<Read>,
    /// An argument of the functions.
    pub context: *mut c_void,
    /// Null, or how a read begins that goes on by itself. The function that reads is there all the
    /// same.
    pub start: Option<Start>,
    /// Whether it has ended. Null where that is unknown before it is waited for.
    pub poll: Option<Poll>,
    /// How it ends.
    pub finish: Option<Finish>,
    /// The most of them at once, at most [`MAX_DEPTH`]; 0 for 1.
    pub reads: u32,
    /// Zero.
    pub reserved: u32,
}

/// A pack that is open. There is no heap for the larger kind.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(super) enum Opened {
    #[cfg(all(feature = "linux", target_os = "linux"))]
    Direct(DirectFile),
    #[cfg(all(feature = "linux", target_os = "linux"))]
    Buffered(BufferedFile),
    #[cfg(all(feature = "linux", target_os = "linux"))]
    Mapped(MappedFile),
    Memory(Slice<'static>),
    Callback(Callback),
}

/// Why a source cannot be opened.
pub(super) enum SourceError {
    Argument(&'static str),
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    Storage(StorageError),
}

impl SourceError {
    /// Tells the caller. The number to return.
    ///
    /// # Safety
    /// `error` is null, or valid for writes.
    pub unsafe fn tell(self, error: *mut super::Error) -> i32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Argument(why) => argument(why).tell(error),
                Self::Storage(why) => why.failure().tell(error),
            }
        }
    }
}

impl Opened {
    /// Opens a source.
    ///
    /// # Safety
    /// The target of the source is there and does not change until this is dropped: memory of
    /// `bytes` bytes, or a function that keeps to its description on whatever thread. A path is
    /// terminated, and need only last for this call.
    pub unsafe fn open(source: &Source) -> Result<Self, SourceError> {
        let missing = |what| Err(SourceError::Argument(what));
        match Kind::from_code(source.kind) {
            None => missing("the source's kind is none of EYELET_DIRECT to EYELET_CALLBACK"),
            Some(Kind::Memory) => {
                let Ok(bytes) = usize::try_from(source.bytes) else {
                    return missing("the source has more bytes than memory can have");
                };
                if source.memory.is_null() || bytes > isize::MAX as usize {
                    return missing("the source's memory is missing");
                }
                // SAFETY: not null, and as long by the caller's promise.
                let bytes =
                    unsafe { core::slice::from_raw_parts(source.memory.cast::<u8>(), bytes) };
                Ok(Self::Memory(Slice(bytes)))
            }
            Some(Kind::Callback) => {
                let Some(read) = source.read else {
                    return missing("the source's read function is missing");
                };
                let alignment = source.alignment.max(1).into();
                if !u64::is_power_of_two(alignment) || alignment > PAGE {
                    return missing("the source's alignment is no power of two up to 4096");
                }
                let (bytes, context) = (source.bytes, source.context);
                let Ok(flying) = Flying::of(source) else {
                    return missing(
                        "the source's start and finish functions belong together, for at most 8 reads",
                    );
                };
                Ok(Self::Callback(Callback { read, context, bytes, alignment, flying }))
            }
            Some(_) if source.path.is_null() => missing("the source's path is missing"),
            #[cfg(all(feature = "linux", target_os = "linux"))]
            Some(kind) => {
                // SAFETY: not null, and terminated by the caller's promise.
                let path = unsafe { CStr::from_ptr(source.path) };
                match kind {
                    Kind::Direct => DirectFile::open(path).map(Self::Direct),
                    Kind::Buffered => BufferedFile::open(path).map(Self::Buffered),
                    _ => MappedFile::open(path, Populate::AtOpen).map(Self::Mapped),
                }
                .map_err(SourceError::Storage)
            }
            #[cfg(not(all(feature = "linux", target_os = "linux")))]
            Some(_) => missing("this build has no files: give memory, or a function that reads"),
        }
    }
}

impl Source {
    /// This source for reading at most a page: a map would bring all pages into memory.
    pub(super) fn for_header(&self) -> Self {
        let mapped = self.kind == Kind::Mapped as u32;
        Self { kind: if mapped { Kind::Buffered as u32 } else { self.kind }, ..*self }
    }
}

/// Storage that reads by functions of the caller's.
#[derive(Debug)]
pub(super) struct Callback {
    read: Read,
    context: *mut c_void,
    bytes: u64,
    alignment: u64,
    flying: Option<Flying>,
}

/// Reads that go on by themselves.
#[derive(Clone, Copy, Debug)]
struct Flying {
    start: Start,
    poll: Option<Poll>,
    finish: Finish,
    /// The most at once.
    most: usize,
    /// Where each starts, by its number; none of a number that is free.
    offsets: [Option<u64>; MAX_DEPTH],
}

impl Flying {
    /// Reads them from a source. Fails if its fields disagree.
    fn of(source: &Source) -> Result<Option<Self>, ()> {
        let Source { start, poll, finish, reads, .. } = *source;
        let most = reads.max(1) as usize;
        match (start, finish) {
            (Some(start), Some(finish)) if most <= MAX_DEPTH => {
                Ok(Some(Self { start, poll, finish, most, offsets: [None; MAX_DEPTH] }))
            }
            (None, None) if poll.is_none() => Ok(None),
            _ => Err(()),
        }
    }
}

// SAFETY: the caller has promised that the function may be called with this context on any thread.
unsafe impl Send for Callback {}

impl Storage for Callback {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.bytes)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        self.check(offset, into.as_ptr().addr(), into.len())?;
        // SAFETY: the function writes no more bytes than it is asked for, all inside of an
        // exclusive slice.
        match unsafe { (self.read)(self.context, offset, into.as_mut_ptr().cast(), into.len()) } {
            0 => Ok(()),
            errno => Err(StorageError::Io { errno, offset }),
        }
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        match self.flying {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl Callback {
    /// Refuses reads that are not aligned, or go beyond the pack.
    fn check(&self, offset: u64, address: usize, bytes: usize) -> Result<(), StorageError> {
        check_alignment(offset, bytes, address, self.alignment)?;
        let wanted = bytes as u64;
        if offset.checked_add(wanted).is_none_or(|end| end > self.bytes) {
            let got = self.bytes.saturating_sub(offset);
            return Err(StorageError::Short { offset, wanted, got });
        }
        Ok(())
    }
}

/// `EAGAIN`: more reads than there may be.
const AGAIN: i32 = 11;

// SAFETY:
// - The caller has promised that its device writes to the bytes of a read only from the call of
//   `start` until `finish` has returned, and never if `start` has failed.
// - Numbers in use are not given again.
// - Functions of C do not unwind.
unsafe impl ReadQueue for Callback {
    fn depth(&self) -> usize {
        self.flying.map_or(1, |flying| flying.most)
    }

    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError> {
        self.check(offset, into.cast::<u8>().addr(), into.len())?;
        let again = StorageError::Io { errno: AGAIN, offset };
        let flying = self.flying.as_mut().ok_or(again)?;
        let mut free = flying.offsets.iter().take(flying.most);
        let number = free.position(Option::is_none).ok_or(again)?;
        // SAFETY: the caller's bytes, until `wait` has returned.
        match unsafe {
            (flying.start)(self.context, number as u32, offset, into.cast(), into.len())
        } {
            0 => {
                flying.offsets[number] = Some(offset);
                Ok(number)
            }
            errno => Err(StorageError::Io { errno, offset }),
        }
    }

    fn arrived(&mut self, number: usize) -> bool {
        let poll = self.flying.and_then(|flying| flying.poll);
        // SAFETY: a read of this number has begun.
        poll.is_some_and(|poll| unsafe { poll(self.context, number as u32) } != 0)
    }

    fn wait(&mut self, number: usize, _: u64) -> Result<(), StorageError> {
        let Some(flying) = &mut self.flying else { return Ok(()) };
        let Some(offset) = flying.offsets.get_mut(number).and_then(Option::take) else {
            return Ok(());
        };
        // SAFETY: a read of this number has begun, and has not been waited for.
        match unsafe { (flying.finish)(self.context, number as u32) } {
            0 => Ok(()),
            errno => Err(StorageError::Io { errno, offset }),
        }
    }
}

/// Calls a method of whichever storage it is.
macro_rules! each {
    ($opened:expr, $storage:ident => $call:expr) => {
        match $opened {
            #[cfg(all(feature = "linux", target_os = "linux"))]
            Opened::Direct($storage) => $call,
            #[cfg(all(feature = "linux", target_os = "linux"))]
            Opened::Buffered($storage) => $call,
            #[cfg(all(feature = "linux", target_os = "linux"))]
            Opened::Mapped($storage) => $call,
            Opened::Memory($storage) => $call,
            Opened::Callback($storage) => $call,
        }
    };
}

impl Storage for Opened {
    fn len(&self) -> Result<u64, StorageError> {
        each!(self, storage => storage.len())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        each!(self, storage => storage.read(offset, into))
    }

    fn alignment(&self) -> u64 {
        each!(self, storage => storage.alignment())
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        each!(self, storage => storage.queue())
    }

    fn mapped<'s>(&self) -> Option<&'s [u8]>
    where
        Self: 's,
    {
        each!(self, storage => storage.mapped())
    }
}
