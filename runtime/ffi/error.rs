//! Failures as C sees them: a number to act on, and a text for people.

use crate::arena::ArenaError;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::device::threads::ThreadError;
use crate::executor::{BudgetError, InferError, LoadError, OpenError, PlanError, ShapeError};
use crate::storage::StorageError;
use crate::sys::discard::discard;
use core::ffi::c_char;
use core::fmt::{self, Display, Write};

/// The kind of a failure. Numbers are part of the interface.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// None.
    Ok = 0,
    /// None, and more steps follow.
    Running = 1,
    /// An argument is missing, or says what cannot be; an input has an index that is outside of a
    /// table.
    Argument = -1,
    /// The storage failed.
    Storage = -2,
    /// The pack is none, or damaged.
    Pack = -3,
    /// The pack is for another processor.
    Processor = -4,
    /// The memory is too small, or not aligned.
    Arena = -5,
    /// Threads could not be had, or the plan is for fewer.
    Threads = -6,
    /// Not now: an inference is in progress, or the last change of budget failed.
    State = -7,
    /// A device failed.
    Device = -8,
    /// A job of a set before its task's period has passed.
    Early = -9,
    /// A job of a set while its task's last one has not ended: it is lost, and counts as a miss.
    Unfinished = -10,
}

/// Bytes of an error's text, its terminating zero included.
const TEXT: usize = 252;

/// The end of a text that was cut off.
const CUT: &str = "…";

/// An error in the caller's memory.
#[repr(C)]
#[derive(Debug)]
pub struct Error {
    /// A [`Status`].
    pub status: i32,
    /// In UTF-8, terminated.
    pub text: [c_char; TEXT],
}

/// A failure on its way to the caller.
pub(super) struct Failure<E> {
    pub status: Status,
    pub why: E,
}

/// A failure of the caller's.
pub(super) fn argument(why: &'static str) -> Failure<&'static str> {
    Failure { status: Status::Argument, why }
}

/// A failure of one of a set's tasks.
pub(super) struct OfTask<E> {
    task: usize,
    why: E,
}

impl<E: Display> Display for OfTask<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}: {}", self.task, self.why)
    }
}

impl<E: Display> Failure<E> {
    /// This failure with its task.
    pub fn of_task(self, task: usize) -> Failure<OfTask<E>> {
        Failure { status: self.status, why: OfTask { task, why: self.why } }
    }

    /// The record for the caller.
    pub fn record(self) -> Error {
        let mut text = Text::EMPTY;
        discard(
            write!(text, "{}", self.why),
            "what does not fit into an error's text ends in a mark",
        );
        Error { status: self.status as i32, text: text.bytes }
    }

    /// Tells the caller, in the record that it wants it in, if it wants to know. The number to
    /// return.
    ///
    /// # Safety
    /// `error` is null, or valid for writes.
    pub unsafe fn tell(self, error: *mut Error) -> i32 {
        let status = self.status as i32;
        // SAFETY: the caller's promise.
        unsafe {
            if !error.is_null() {
                error.write(self.record());
            }
        }
        status
    }
}

/// A terminated text of limited length. One that was longer ends in [`CUT`].
struct Text {
    bytes: [c_char; TEXT],
    used: usize,
    cut: bool,
}

impl Text {
    const EMPTY: Self = Self { bytes: [0; TEXT], used: 0, cut: false };

    fn put(&mut self, text: &str) {
        for (into, byte) in self.bytes[self.used..].iter_mut().zip(text.as_bytes()) {
            *into = *byte as c_char;
        }
        self.used += text.len();
    }

    /// Has the text end in the mark, between two letters.
    fn cut_off(&mut self) {
        let continues = |byte: c_char| byte.to_ne_bytes()[0] & 0xc0 == 0x80;
        let mut end = self.used.min(TEXT - 1 - CUT.len());
        while end > 0 && continues(self.bytes[end]) {
            end -= 1;
        }
        self.bytes[end..].fill(0);
        self.used = end;
        self.put(CUT);
        self.cut = true;
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Nothing follows what was cut off.
        if self.cut {
            return Ok(());
        }
        let end = text.floor_char_boundary(TEXT - 1 - self.used);
        self.put(&text[..end]);
        if end < text.len() {
            self.cut_off();
        }
        Ok(())
    }
}

/// Errors that come from one operation of the library.
pub(super) trait Kind: Display + Sized {
    fn status(&self) -> Status;

    fn failure(self) -> Failure<Self> {
        Failure { status: self.status(), why: self }
    }
}

impl Kind for StorageError {
    fn status(&self) -> Status {
        Status::Storage
    }
}

impl Kind for ArenaError {
    fn status(&self) -> Status {
        Status::Arena
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl Kind for ThreadError {
    fn status(&self) -> Status {
        Status::Threads
    }
}

impl Kind for LoadError {
    fn status(&self) -> Status {
        match self {
            LoadError::Storage { .. } => Status::Storage,
            LoadError::Checksum { .. } => Status::Pack,
            LoadError::Device { .. } => Status::Device,
        }
    }
}

impl Kind for OpenError {
    fn status(&self) -> Status {
        match self {
            OpenError::Storage(error) => error.status(),
            OpenError::Load(error) => error.status(),
            OpenError::NotAPack
            | OpenError::Version { .. }
            | OpenError::Size { .. }
            | OpenError::Checksum { .. }
            | OpenError::Flaw(_)
            | OpenError::PackAddress { .. } => Status::Pack,
            OpenError::NotMapped { .. } => Status::Storage,
            OpenError::Isa { .. } | OpenError::ForGpu | OpenError::ForProcessor { .. } => {
                Status::Processor
            }
            OpenError::Budget { .. }
            | OpenError::Arena { .. }
            | OpenError::Fast { .. }
            | OpenError::FastAddress { .. }
            | OpenError::Tables { .. }
            | OpenError::Memory(_)
            | OpenError::Map(_) => Status::Arena,
            OpenError::Threads { .. } => Status::Threads,
            OpenError::Shape { .. } => Status::Argument,
            OpenError::Device(_) | OpenError::Unstaged => Status::Device,
        }
    }
}

impl Kind for PlanError {
    fn status(&self) -> Status {
        match self {
            PlanError::Storage(error) => error.status(),
            PlanError::Load(error) => error.status(),
            PlanError::Checksum { .. } | PlanError::Flaw(_) => Status::Pack,
            PlanError::Arena(_) => Status::Arena,
            PlanError::Device(_) | PlanError::Unstaged => Status::Device,
        }
    }
}

impl Kind for BudgetError {
    fn status(&self) -> Status {
        match self {
            BudgetError::Running => Status::State,
            BudgetError::Arena { .. } | BudgetError::Budget { .. } | BudgetError::Fast { .. } => {
                Status::Arena
            }
            BudgetError::Threads { .. } => Status::Threads,
            BudgetError::Plan(error) => error.status(),
        }
    }
}

impl Kind for ShapeError {
    fn status(&self) -> Status {
        match self {
            ShapeError::Absent { .. } => Status::Argument,
            ShapeError::Change(error) => error.status(),
        }
    }
}

impl Kind for InferError {
    fn status(&self) -> Status {
        match self {
            InferError::Load(error) => error.status(),
            InferError::Threads { .. } => Status::Threads,
            InferError::NoPlan | InferError::Chunks { .. } => Status::State,
            InferError::Index { .. } => Status::Argument,
            InferError::Device(_) => Status::Device,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;
    use std::string::String;
    use std::vec::Vec;

    fn written(text: &str) -> String {
        let mut error = Error { status: 0, text: [1; TEXT] };
        // SAFETY: a local record.
        let status = unsafe { Failure { status: Status::Pack, why: text }.tell(&raw mut error) };
        assert_eq!((status, error.status), (-3, -3));
        // SAFETY: terminated, or the test fails under a sanitizer.
        let text = unsafe { CStr::from_ptr(error.text.as_ptr()) };
        text.to_str().unwrap().into()
    }

    #[test]
    fn texts_are_terminated_and_end_in_a_mark_where_they_are_cut() {
        assert_eq!(size_of::<Error>(), 256);
        assert_eq!(written("short"), "short");
        assert_eq!(written(""), "");
        assert_eq!(written(&"x".repeat(TEXT - 1)), "x".repeat(TEXT - 1));
        let long = "x".repeat(400);
        assert_eq!(written(&long), "x".repeat(TEXT - 4) + "…");
        // No letter is cut in two, by the end or by the mark.
        let wide = "xx".repeat(125) + "é and more";
        assert_eq!(written(&wide), "xx".repeat(124) + "…");
        for before in 0..4 {
            let wide = "y".repeat(before) + &"é".repeat(200);
            let found = written(&wide);
            let kept = found.strip_suffix('…').unwrap();
            assert!(wide.starts_with(kept) && found.len() >= TEXT - 2, "{found}");
        }
    }

    #[test]
    fn what_was_cut_off_stays_cut_off() {
        let mut text = Text::EMPTY;
        for part in ["y".repeat(250), "é".into(), "z".into()] {
            text.write_str(&part).unwrap();
        }
        let bytes: Vec<u8> = text.bytes.iter().map(|byte| *byte as u8).collect();
        assert_eq!(bytes, [&b"y".repeat(248), "…".as_bytes(), &[0]].concat());
    }
}
