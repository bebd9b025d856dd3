//! The C functions for an open set.

use super::super::computer::Engine;
use super::super::error::{Error, Failure, Kind as _, Status, argument};
use super::super::given;
use super::super::open::part;
use super::host::{Functions, Program};
use super::open::{Rooms, Running, Set, Tasks};
use super::records::{TASKS, Timing};
use crate::set::{Activity, ChangeError};
use core::ffi::c_void;
use heapless::Vec;

/// The function that is called in a scope.
pub type Body = unsafe extern "C" fn(context: *mut c_void, set: *mut Set);

pub(super) const NO_SET: &str = "the set is missing";
const BUSY: &str = "the set is in the middle of a call: its functions must not use it";

/// A failure by what the set is doing.
fn state(why: &'static str) -> Failure<&'static str> {
    Failure { status: Status::State, why }
}

/// Runs `call` with the scope that the set is in. Its result, or the number of an error.
///
/// # Safety
/// As the header says of the functions that this serves.
pub(super) unsafe fn at_work(
    set: *mut Set,
    error: *mut Error,
    call: impl FnOnce(&mut Running) -> i32,
) -> i32 {
    // SAFETY: the caller's promises. `working` points to the scope. Nobody uses it except during a
    // call here, and there is one such call at a time.
    unsafe {
        if set.is_null() {
            return argument(NO_SET).tell(error);
        }
        if (*set).busy {
            return state(BUSY).tell(error);
        }
        let working = (*set).working;
        if working.is_null() {
            return state("the set is not at work: call this from within eyelet_set_run")
                .tell(error);
        }
        (*set).busy = true;
        let status = call(&mut *working);
        (*set).busy = false;
        status
    }
}

/// Runs `body` with all networks at work.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_run(
    set: *mut Set,
    functions: *const Functions,
    body: Option<Body>,
    context: *mut c_void,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        if set.is_null() {
            return argument(NO_SET).tell(error);
        }
        let Some(functions) = given(functions).copied() else {
            return argument("the program's functions are missing").tell(error);
        };
        let Some(body) = body else {
            return argument("the function to run is missing").tell(error);
        };
        if functions.now.is_none() && !cfg!(all(feature = "linux", target_os = "linux")) {
            return argument("this build has no clock: give one").tell(error);
        }
        if (*set).busy || !(*set).working.is_null() {
            return state("the set is at work already").tell(error);
        }
        (*set).busy = true;
        let clock = || functions.now_ns();
        let program = &mut Program::new(functions);
        let tasks: &mut Tasks = &mut *part(&raw mut (*set).tasks);
        let device = Engine::device(&raw const (*set).engine);
        tasks.run(device, &clock, program, |running| {
            // The scope outlives the body, and nothing finds it afterwards.
            (*set).working = core::ptr::from_mut(running).cast();
            (*set).busy = false;
            body(context, set);
            (*set).busy = true;
            (*set).working = core::ptr::null_mut();
        });
        (*set).busy = false;
    }
    Status::Ok as i32
}

/// A job of the task has arrived.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_release(
    set: *mut Set,
    task: u32,
    now_ns: u64,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        at_work(set, error, |running| match running.release(task as usize, now_ns) {
            Ok(()) => Status::Ok as i32,
            Err(why) => why.failure().of_task(task as usize).tell(error),
        })
    }
}

fn status(activity: Activity) -> i32 {
    match activity {
        Activity::Idle => Status::Ok as i32,
        _ => Status::Running as i32,
    }
}

/// Does what comes next, at most one step of one network.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_step(set: *mut Set, error: *mut Error) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { at_work(set, error, |running| status(running.step())) }
}

/// Works until that time, or until nothing is left to do.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_run_until(
    set: *mut Set,
    until_ns: u64,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { at_work(set, error, |running| status(running.run_until(until_ns))) }
}

/// Gives up the task's job, and releases none until it is started.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_stop(set: *mut Set, task: u32, error: *mut Error) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        at_work(set, error, |running| match running.task(task as usize).is_some() {
            true => {
                running.stop(task as usize);
                Status::Ok as i32
            }
            false => argument(NO_TASK).tell(error),
        })
    }
}

/// Jobs of the task are released again.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_start(set: *mut Set, task: u32, error: *mut Error) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        at_work(set, error, |running| match running.task(task as usize).is_some() {
            true => {
                running.start(task as usize);
                Status::Ok as i32
            }
            false => argument(NO_TASK).tell(error),
        })
    }
}

pub(super) const NO_TASK: &str = "the set has no task of that number";

/// Changes to each network's best plan within its budget, and to these times: all, or none.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_change(
    set: *mut Set,
    budgets: *const u64,
    timings: *const Timing,
    count: u32,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        if budgets.is_null() || timings.is_null() {
            return argument("budgets or times are missing").tell(error);
        }
        if count as usize > TASKS {
            return argument("there are more budgets than a set can have tasks").tell(error);
        }
        let budgets = core::slice::from_raw_parts(budgets, count as usize);
        let timings = core::slice::from_raw_parts(timings, count as usize);
        at_work(set, error, |running| {
            let rooms: &Rooms = &(*set).rooms;
            let rooms = rooms.iter().copied().chain(core::iter::repeat(0));
            let whole = |(&budget, room)| if budget == 0 { room } else { budget };
            let budgets: Rooms = budgets.iter().zip(rooms).map(whole).collect();
            match change(running, &budgets, timings) {
                Ok(()) => Status::Ok as i32,
                Err(why) => why.failure().tell(error),
            }
        })
    }
}

/// Whether a new plan streams is known when it has been read: that is then said, and all is
/// changed again.
fn change(running: &mut Running, budgets: &[u64], timings: &[Timing]) -> Result<(), ChangeError> {
    let mut tasks: Vec<_, TASKS> = timings.iter().map(Timing::task).collect();
    for (k, task) in tasks.iter_mut().enumerate() {
        task.streams = running.task(k).is_some_and(|task| task.streams);
    }
    for _ in 0..tasks.len() {
        match running.change(budgets, &tasks) {
            Err(ChangeError::Streams { task }) => {
                if let Some(task) = tasks.get_mut(task) {
                    task.streams = !task.streams;
                }
            }
            result => return result,
        }
    }
    running.change(budgets, &tasks)
}

/// The system's clock, which a set goes by where it is given none; 0 where there is no system.
#[unsafe(no_mangle)]
pub extern "C" fn eyelet_now() -> u64 {
    crate::sys::now_ns()
}
