//! The C functions for a set's tasks, within a scope or outside.

use super::super::error::{Error, Status, argument};
use super::super::give;
use super::super::open::part;
use super::open::{Set, Tasks};
use super::records::Timing;
use super::run::{NO_SET, NO_TASK, at_work};
use crate::set;
use crate::tasks::Task;
use core::ffi::c_char;

/// Counts of a task.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that ended late, or were lost because their predecessor had not ended.
    pub misses: u64,
    /// Jobs that were given up.
    pub failed: u64,
    /// Jobs whose steps together took longer than the task says.
    pub compute_overruns: u64,
    /// Steps that took longer than the task says.
    pub step_overruns: u64,
    /// The longest time from a job's release to its end.
    pub worst_response_ns: u64,
}

/// A task and its counts.
///
/// # Safety
/// As the header says of the functions that this serves: the number of an error has been reported.
unsafe fn look(set: *mut Set, task: u32, error: *mut Error) -> Result<(Task, set::Counts), i32> {
    // SAFETY: the caller's promises. Outside of a scope nothing else refers to the tasks.
    unsafe {
        if set.is_null() {
            return Err(argument(NO_SET).tell(error));
        }
        let (mut found, k) = (None, task as usize);
        if (*set).working.is_null() && !(*set).busy {
            let tasks: &Tasks = &*part(&raw mut (*set).tasks);
            found = tasks.scheduler().task(k).map(|task| (*task, tasks.counts(k)));
        } else {
            let look = |running: &mut super::open::Running| {
                found = running.task(k).map(|task| (*task, running.counts(k)));
                Status::Ok as i32
            };
            let status = at_work(set, error, look);
            if status != Status::Ok as i32 {
                return Err(status);
            }
        }
        found.ok_or_else(|| argument(NO_TASK).tell(error))
    }
}

/// Counts of a task.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_counts(
    set: *mut Set,
    task: u32,
    counts: *mut Counts,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        give(counts, Counts::default());
        let found = match look(set, task, error) {
            Ok((_, found)) => found,
            Err(status) => return status,
        };
        let set::Counts { jobs, misses, failed, .. } = found;
        let set::Counts { compute_overruns, step_overruns, worst_response_ns, .. } = found;
        let found =
            Counts { jobs, misses, failed, compute_overruns, step_overruns, worst_response_ns };
        give(counts, found);
    }
    Status::Ok as i32
}

/// The times of a task, as the scheduler has them now.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_timing(
    set: *mut Set,
    task: u32,
    timing: *mut Timing,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        give(timing, Timing::default());
        match look(set, task, error) {
            Ok((task, _)) => give(timing, Timing::of(&task)),
            Err(status) => return status,
        }
    }
    Status::Ok as i32
}

/// How many tasks a set has; 0 without a set.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_tasks(set: *const Set) -> u32 {
    // SAFETY: the caller's promise. The number never changes.
    match unsafe { set.as_ref() } {
        Some(set) => set.rooms.len() as u32,
        None => 0,
    }
}

/// The name of a task of a file, and its length; null where there is none.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_name(
    set: *const Set,
    task: u32,
    bytes: *mut u64,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let name = unsafe { set.as_ref() }.and_then(|set| name(set, task)).unwrap_or_default();
    // SAFETY: likewise.
    unsafe { give(bytes, name.len() as u64) };
    if name.is_empty() { core::ptr::null() } else { name.as_ptr().cast() }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
fn name(set: &Set, task: u32) -> Option<&str> {
    set.of_file.as_ref()?.table.tasks().nth(task as usize).map(|task| task.name)
}

#[cfg(not(all(feature = "linux", target_os = "linux")))]
fn name(_: &Set, _: u32) -> Option<&str> {
    None
}
