//! Files and folders that must not outlive the process that makes them.
//!
//! A [`Scratch`] goes away with its value. A signal that ends the process calls [`remove_all`]. What a
//! process leaves that is killed at once, the next one removes: the owner of a scratch holds a lock on
//! it, which the kernel drops with the process, so that whoever gets the lock knows that it is nobody's.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PREFIX: &str = ".eyelet-";
const SUFFIX: &str = ".partial";

/// What this process must not leave.
#[derive(Debug)]
pub struct All {
    scratches: Vec<PathBuf>,
    /// A process that uses them.
    child: Option<OwnedFd>,
    /// What is to be called before there is any of these.
    watch: Option<fn()>,
}

static ALL: Mutex<All> = Mutex::new(All { scratches: Vec::new(), child: None, watch: None });

/// Keeps scratches from being made, moved to their place, and removed.
pub type Held = MutexGuard<'static, All>;

/// Waits until nobody makes or moves a scratch, and keeps others from it.
pub fn hold() -> Held {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a function called once, before there is anything that a signal could leave. It may see to it that signals call
/// [`remove_all`].
pub fn before_any(watch: fn()) {
    hold().watch = Some(watch);
}

/// Waits as [`hold`] does, to make what a signal could leave.
pub(crate) fn hold_to_make() -> Held {
    let mut held = hold();
    if let Some(watch) = held.watch.take() {
        watch();
    }
    held
}

/// Removes all scratches of this process, for one that is about to end, and ends its child. None is
/// made before the result is dropped.
pub fn remove_all() -> Held {
    let held = hold();
    if let Some(child) = &held.child {
        let _ = rustix::process::pidfd_send_signal(child, rustix::process::Signal::KILL);
    }
    held.scratches.iter().for_each(|path| remove(path));
    held
}

/// Runs a command, one at a time, which does not outlive this process if a signal ends it: what it prints, if its output is piped.
pub fn output(mut command: Command) -> io::Result<Output> {
    let mut held = hold_to_make();
    let child = command.spawn()?;
    // By a descriptor, as its number may become another's.
    let number = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let opened = number.and_then(|number| {
        rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).ok()
    });
    held.child = opened;
    drop(held);
    let output = child.wait_with_output();
    hold().child = None;
    output
}

/// A file or folder that its process removes.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Open and locked.
    entry: File,
    /// Whether it is still to be removed.
    ours: bool,
}

impl Scratch {
    /// An empty file in a folder.
    pub fn file(folder: &Path) -> io::Result<Self> {
        Self::make(folder, |path| {
            // As for any new file: the umask takes its share of the permissions.
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path)
        })
    }

    /// An empty folder in a folder, from which what others have left behind is removed.
    pub fn folder(folder: &Path) -> io::Result<Self> {
        sweep(folder);
        Self::make(folder, |path| {
            fs::create_dir(path)?;
            File::open(path)
        })
    }

    fn make(folder: &Path, create: impl Fn(&Path) -> io::Result<File>) -> io::Result<Self> {
        loop {
            let path = folder.join(name());
            let mut held = hold_to_make();
            let entry = match create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            // Where there are no locks, nobody takes it for a leftover either.
            let _ = entry.lock();
            // Somebody may have found it before it was locked.
            if is_at(&entry, &path) {
                held.scratches.push(path.clone());
                return Ok(Self { path, entry, ours: true });
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file.
    pub fn as_file_mut(&mut self) -> &mut File {
        &mut self.entry
    }

    /// Moves it to its place, where it stays.
    pub fn persist(mut self, to: &Path) -> io::Result<()> {
        let mut held = hold();
        fs::rename(&self.path, to)?;
        held.scratches.retain(|path| *path != self.path);
        self.ours = false;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.ours {
            let mut held = hold();
            remove(&self.path);
            held.scratches.retain(|path| *path != self.path);
        }
    }
}

/// A name that a scratch can have. That of another process of the same number, which a container may
/// have, is found taken.
pub(crate) fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id())
}

/// Whether a path leads to what is open.
fn is_at(entry: &File, path: &Path) -> bool {
    let (Ok(open), Ok(found)) = (entry.metadata(), path.symlink_metadata()) else { return false };
    (open.dev(), open.ino()) == (found.dev(), found.ino())
}

/// Removes what dead processes have left in a folder.
pub fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) {
            continue;
        }
        // Neither a link nor a FIFO is followed or waited for: scratches are files and folders.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let found = OpenOptions::new().read(true).custom_flags(flags).open(entry.path());
        let Ok(found) = found else { continue };
        let scratch = found.metadata().is_ok_and(|found| found.is_file() || found.is_dir());
        if scratch && found.try_lock().is_ok() && is_at(&found, &entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Removes a file or a folder with all that is in it, if that can be done.
fn remove(path: &Path) {
    if fs::remove_file(path).is_err() {
        // Nobody can do more about it than whoever finds it there.
        let _ = fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn scratches_go_with_their_value_or_find_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::folder(folder.path()).unwrap();
        fs::write(scratch.path().join("file"), "text").unwrap();
        drop(scratch);
        drop(Scratch::file(folder.path()).unwrap());
        assert_eq!(count(folder.path()), 0);
        let place = folder.path().join("place");
        Scratch::file(folder.path()).unwrap().persist(&place).unwrap();
        assert!(place.is_file() && count(folder.path()) == 1);
    }

    #[test]
    fn only_what_nobody_holds_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let held = [Scratch::file(folder.path()), Scratch::folder(folder.path())];
        fs::write(at(".eyelet-77-0.partial"), "left").unwrap();
        fs::create_dir(at(".eyelet-77-1.partial")).unwrap();
        fs::write(at(".eyelet-77-1.partial/file"), "left").unwrap();
        let others = [".eyelet-notes", "model.partial"];
        others.iter().for_each(|name| fs::write(at(name), "another's").unwrap());
        std::os::unix::fs::symlink(at("model.partial"), at(".eyelet-77-2.partial")).unwrap();
        sweep(folder.path());
        assert!(held.iter().flatten().all(|scratch| scratch.path().exists()));
        assert!(others.iter().all(|name| at(name).exists()));
        assert_eq!(count(folder.path()), 5, "two held, two of others, a link");
    }
}
