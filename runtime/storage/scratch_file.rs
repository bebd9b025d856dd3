//! Files for tests: next to the test program, which lies on a disk where `/tmp` may not.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::vec::Vec;

/// A file, removed when dropped.
pub(super) struct ScratchFile {
    path: PathBuf,
    terminated: CString,
}

impl ScratchFile {
    /// A file with these contents, next to the test program.
    pub(super) fn new(contents: &[u8]) -> Self {
        let program = std::env::current_exe().unwrap();
        Self::in_folder(program.parent().unwrap(), contents)
    }

    /// A file with these contents.
    pub(super) fn in_folder(folder: &Path, contents: &[u8]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(std::format!("scratch-{}-{number}", std::process::id()));
        std::fs::write(&path, contents).unwrap();
        let terminated = CString::new(path.to_str().unwrap()).unwrap();
        Self { path, terminated }
    }

    /// Its path.
    pub(super) fn path(&self) -> &CStr {
        &self.terminated
    }

    /// Changes its length.
    pub(super) fn truncate(&self, bytes: u64) {
        std::fs::File::options().write(true).open(&self.path).unwrap().set_len(bytes).unwrap();
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Page-aligned memory.
#[repr(align(4096))]
pub(super) struct Aligned<const N: usize>(pub(super) [u8; N]);

/// Bytes that differ from page to page and within a page.
pub(super) fn contents(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i ^ ((i >> 8) * 37) ^ ((i >> 16) * 11)) as u8).collect()
}
