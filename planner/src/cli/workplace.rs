//! Folders for packs that a verb makes for itself and removes at the end: on a disk, where there is one, since packs are read past
//! the page cache.

use super::Error;
use eyelet_planner::leftovers::Scratch;
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A folder of this process, removed at the end, in a folder or where the system has its temporary files: on a disk, if
/// there is one. What earlier processes left there goes.
pub fn workplace(parent: Option<&Path>) -> Result<Scratch, Error> {
    let make = |parent: &Path| {
        Scratch::folder(parent).map_err(|source| Error::Write { path: parent.to_owned(), source })
    };
    if let Some(parent) = parent {
        std::fs::create_dir_all(parent)
            .map_err(|source| Error::Write { path: parent.to_owned(), source })?;
        return make(parent);
    }
    let folder = make(&std::env::temp_dir())?;
    match on_disk(&folder) {
        true => Ok(folder),
        false => Ok(make(Path::new("/var/tmp")).ok().filter(on_disk).unwrap_or(folder)),
    }
}

fn on_disk(folder: &Scratch) -> bool {
    is_on_disk(folder.path())
}

/// Whether files in a folder can be read past the page cache. One that cannot be written to is taken for one on a disk.
pub fn is_on_disk(folder: &Path) -> bool {
    let Ok(mut file) = Scratch::file(folder) else { return true };
    let written = file.as_file_mut().write_all(&[0; eyelet::pack::PAGE as usize]);
    written.is_err() || reads_directly(file.path())
}

/// Whether a file can be read past the page cache.
pub fn reads_directly(path: &Path) -> bool {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    eyelet::storage::DirectFile::open(&path).is_ok()
}
