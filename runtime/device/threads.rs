//! Threads of Linux, without allocation of ours: a second thread for the loader, and what `workers`
//! builds on.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;

/// Stack of a thread in bytes, of workers and loader alike. Kernels and the loader keep nothing large
/// on it; memory that is never touched is never resident.
pub const STACK_BYTES: usize = 256 << 10;

/// Why threads could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadError {
    /// The system refused a thread.
    Create {
        /// The system's error number.
        errno: i32,
        /// Threads that were wanted, the caller's included.
        wanted: usize,
        /// Threads there were by then, the caller's included.
        started: usize,
    },
    /// The system refused the loader's thread.
    Loader {
        /// The system's error number.
        errno: i32,
    },
    /// The number of threads is not possible.
    Count {
        /// Threads that were wanted, the caller's included.
        wanted: usize,
        /// The most there can be.
        limit: usize,
    },
    /// The list of cores does not fit the number of threads.
    Cores {
        /// Threads that were wanted, the caller's included.
        wanted: usize,
        /// Cores in the list.
        listed: usize,
    },
    /// A thread may not run on its core.
    Pin {
        /// The system's error number.
        errno: i32,
        /// The core.
        core: usize,
    },
    /// The pool has threads already.
    Busy,
}

impl core::fmt::Display for ThreadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Create { errno, wanted, started } => write!(
                f,
                "only {started} of {wanted} threads could be started: system error {errno}; use \
                 fewer threads"
            ),
            Self::Loader { errno } => write!(
                f,
                "the loader's thread could not be started: system error {errno}; load inline"
            ),
            Self::Count { wanted, limit } => {
                write!(f, "{wanted} threads wanted, possible are 1 to {limit}")
            }
            Self::Cores { wanted, listed } => {
                write!(f, "{listed} cores listed for {wanted} threads: name one for each")
            }
            Self::Pin { errno, core } => {
                write!(f, "no thread may run on core {core}: system error {errno}")
            }
            Self::Busy => f.write_str("the pool has threads already: drop them first"),
        }
    }
}

impl core::error::Error for ThreadError {}

/// The cores that the calling thread may run on; none where the system does not know.
fn affinity() -> libc::cpu_set_t {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the set is plain bits, valid also if the call fails, and of the size given.
    unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        set.assume_init()
    }
}

/// Number of cores that the calling thread may run on.
pub fn available_cores() -> usize {
    // SAFETY: only counts the bits of a set.
    let count = unsafe { libc::CPU_COUNT(&affinity()) };
    // The call fails on machines with more cores than the set has bits; more than one is certain
    // there.
    usize::try_from(count).ok().filter(|count| *count > 0).unwrap_or(libc::CPU_SETSIZE as usize)
}

/// The first N cores that the calling thread may run on, in order.
pub fn cores<const N: usize>() -> heapless::Vec<usize, N> {
    let set = affinity();
    // SAFETY: the number is that of a bit of the set.
    let is_in = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_in).take(N).collect()
}

/// Confines the calling thread to one core. The error is the system's number.
pub fn pin_current(core: usize) -> Result<(), i32> {
    confine_current(&[core])
}

/// Confines the calling thread to some cores, and threads that it starts afterwards. The error is
/// the system's number.
pub fn confine_current(cores: &[usize]) -> Result<(), i32> {
    if cores.iter().any(|core| *core >= libc::CPU_SETSIZE as usize) {
        return Err(libc::EINVAL);
    }
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the set is plain bits, all zero; each core is one of them.
    let status = unsafe {
        cores.iter().for_each(|core| libc::CPU_SET(*core, set.assume_init_mut()));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr())
    };
    match status {
        0 => Ok(()),
        _ => Err(crate::sys::errno()),
    }
}

/// Has the calling thread, and threads that it starts afterwards, run before all that have no such
/// priority (`SCHED_FIFO`): 1 is the lowest, 99 the highest. The error is the system's number: EPERM
/// where the process may not (`CAP_SYS_NICE`, or `ulimit -r`).
///
/// Start workers and loader after this. A thread that spins with such a priority keeps its core from
/// everybody else, so each should have a [core of its own](pin_current).
pub fn run_first_current(priority: u8) -> Result<(), i32> {
    // SAFETY: a record of plain numbers, all of which may be zero.
    let mut record: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
    record.sched_priority = priority.into();
    // SAFETY: of the calling thread. (A library's own function for this may do nothing.)
    match unsafe { libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &record) } {
        0 => Ok(()),
        errno => Err(errno),
    }
}

/// Starts a thread with a small stack and all signals blocked, so that the program's handlers run
/// on the program's threads. The error is the system's number.
///
/// # Safety
/// `entry` must be sound with `argument` on another thread until the handle has been given to
/// [`wait`]. That must happen exactly once.
pub(crate) unsafe fn spawn(
    entry: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> Result<libc::pthread_t, i32> {
    let mut thread = MaybeUninit::<libc::pthread_t>::zeroed();
    // SAFETY: the handle is written if that succeeds; the caller's promise is about the rest.
    match unsafe { create(thread.as_mut_ptr(), entry, argument) } {
        // SAFETY: creation succeeded and wrote the handle.
        0 => Ok(unsafe { thread.assume_init() }),
        errno => Err(errno),
    }
}

/// Has the system create the thread: its error number.
///
/// # Safety
/// As of [`spawn`].
#[cfg(not(miri))]
unsafe fn create(
    thread: *mut libc::pthread_t,
    entry: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> i32 {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::zeroed();
    let (mut all, mut before) =
        (MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::<libc::sigset_t>::zeroed());
    // SAFETY: each record is initialised by the first call that takes it, the attributes are
    // destroyed once on every way out, and a new thread inherits the mask as it is during creation.
    unsafe {
        let attributes = attributes.as_mut_ptr();
        let mut status = libc::pthread_attr_init(attributes);
        if status != 0 {
            return status;
        }
        status = libc::pthread_attr_setstacksize(attributes, STACK_BYTES);
        if status == 0 {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            status = libc::pthread_create(thread, attributes, entry, argument);
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        }
        libc::pthread_attr_destroy(attributes);
        status
    }
}

/// Starts a thread in Miri, which has neither attributes nor signals.
///
/// # Safety
/// As of [`spawn`].
#[cfg(miri)]
unsafe fn create(
    thread: *mut libc::pthread_t,
    entry: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { libc::pthread_create(thread, core::ptr::null(), entry, argument) }
}

/// Waits until a thread has ended.
///
/// # Safety
/// The handle is from [`spawn`] and given to this function once.
pub(crate) unsafe fn wait(thread: libc::pthread_t) {
    // SAFETY: joinable and not yet joined, by the caller's promise.
    unsafe { libc::pthread_join(thread, core::ptr::null_mut()) };
}

/// Runs `a` on a new thread and `b` on the caller's, and returns when both have returned.
///
/// A panic in `a` aborts the process. A panic in `b` goes on when `a` has returned: `b` must see to
/// it, with a guard, that `a` does not wait for it for ever.
pub fn join<A: Send, B>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B,
) -> Result<(A, B), ThreadError> {
    /// Only the new thread touches it, until it has ended.
    struct Job<F, A> {
        body: UnsafeCell<Option<F>>,
        result: UnsafeCell<Option<A>>,
    }

    extern "C" fn entry<F: FnOnce() -> A, A>(job: *mut c_void) -> *mut c_void {
        // SAFETY:
        // - `join` keeps the job alive, and does not touch it, until this thread has ended.
        // - The body may be called here and the result go back, since both are Send.
        // - Nothing unwinds from here: a panic aborts at the boundary of an extern "C" function.
        unsafe {
            let job = &*job.cast::<Job<F, A>>();
            if let Some(body) = (*job.body.get()).take() {
                *job.result.get() = Some(body());
            }
        }
        core::ptr::null_mut()
    }

    fn entry_of<F: FnOnce() -> A, A>(_: &Job<F, A>) -> extern "C" fn(*mut c_void) -> *mut c_void {
        entry::<F, A>
    }

    /// Waits for the thread, also when `b` unwinds.
    struct Wait(libc::pthread_t);
    impl Drop for Wait {
        fn drop(&mut self) {
            // SAFETY: the handle is from `spawn`, and waited for only here.
            unsafe { wait(self.0) };
        }
    }

    let job = Job { body: UnsafeCell::new(Some(a)), result: UnsafeCell::new(None) };
    let create = |errno| ThreadError::Create { errno, wanted: 2, started: 1 };
    // SAFETY: the job outlives the thread, since `Wait` is dropped before it on every way out of
    // this function; the caller's side does not touch it in between.
    let thread = unsafe { spawn(entry_of(&job), (&raw const job).cast_mut().cast()) };
    let thread = Wait(thread.map_err(create)?);
    let b = b();
    drop(thread);
    match job.result.into_inner() {
        Some(a) => Ok((a, b)),
        None => unreachable!("the thread has ended without a result or a panic"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::futex::Counter;
    use std::string::String;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn both_sides_run_at_the_same_time_and_give_results() {
        let (there, back) = (Counter::new(), Counter::new());
        let text = String::from("moved to the thread");
        let result = join(
            || {
                assert!(there.wait_until(1, 0, || false));
                back.set(1);
                text
            },
            || {
                there.set(1);
                assert!(back.wait_until(1, 0, || false));
                7
            },
        );
        assert_eq!(result.unwrap(), (String::from("moved to the thread"), 7));
    }

    #[test]
    fn a_panic_in_the_callers_part_waits_for_the_thread() {
        let ended = AtomicBool::new(false);
        let result = std::panic::catch_unwind(|| {
            join(
                || {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    ended.store(true, Ordering::Relaxed);
                },
                || panic!("on purpose"),
            )
        });
        assert!(result.is_err() && ended.load(Ordering::Relaxed));
    }

    #[test]
    fn cores_can_be_counted_and_pinned() {
        let cores = available_cores();
        assert!(cores >= 1);
        assert_eq!(super::cores::<16>().len(), cores.min(16));
        let pinned = std::thread::spawn(|| {
            (0..libc::CPU_SETSIZE as usize).find(|core| pin_current(*core).is_ok()).unwrap();
            available_cores()
        });
        assert_eq!(pinned.join().unwrap(), 1);
        assert_eq!(pin_current(usize::MAX), Err(libc::EINVAL));
        assert_eq!(confine_current(&[]), Err(libc::EINVAL));
        let all = super::cores::<1024>();
        let confined = std::thread::spawn(move || {
            confine_current(&all[..all.len().min(2)]).unwrap();
            std::thread::spawn(available_cores).join().unwrap()
        });
        assert_eq!(confined.join().unwrap(), cores.min(2));
    }

    #[test]
    fn threads_that_run_first_are_inherited() {
        fn policy() -> i32 {
            // SAFETY: a question about the calling thread.
            unsafe { libc::sched_getscheduler(0) }
        }
        assert_eq!(run_first_current(0), Err(libc::EINVAL));
        let before = policy();
        let policies = std::thread::spawn(move || match run_first_current(1) {
            Ok(()) => join(policy, policy).unwrap(),
            // Where that is not allowed, nothing has changed.
            Err(libc::EPERM) if policy() == before => (libc::SCHED_FIFO, libc::SCHED_FIFO),
            Err(errno) => panic!("error {errno}"),
        });
        assert_eq!(policies.join().unwrap(), (libc::SCHED_FIFO, libc::SCHED_FIFO));
    }

    #[test]
    fn many_threads_one_after_the_other() {
        for i in 0..500 {
            assert_eq!(join(|| i, || 2 * i).unwrap(), (i, 2 * i));
        }
    }
}
