//! The C interface: what `include/eyelet.h` declares, and documents for whoever writes C.
//!
//! A model lives in its caller's memory: the plan's arena first, and after it one record
//! (`open.rs`) that holds what Rust programs keep on the stack. So a handle can be had without an
//! allocator, and everything is in one place.
//!
//! A record of [`Options`], [`Source`] or [`Error`] is laid out as C has it; `examples/c/digits.c`
//! asserts the same numbers.
//!
//! Functions take pointers that their caller vouches for; a null one is an error, not a crash.
//! Every other mistake (an index, a size, a plan that is not there, a damaged pack) comes back as a
//! number and a text ([`Error`]). Nothing unwinds into C: the static library is built to abort.
#![allow(unsafe_code)]

mod choose;
mod computer;
mod error;
mod model;
mod open;
mod pack;
mod refused;
mod set;
mod source;

pub use error::{Error, Status};
pub use model::{
    PlanInfo, Switch, TensorInfo, Times, eyelet_infer, eyelet_input, eyelet_input_info,
    eyelet_input_words, eyelet_inputs, eyelet_output, eyelet_output_info, eyelet_output_words,
    eyelet_outputs, eyelet_plan, eyelet_set_budget, eyelet_set_shape, eyelet_shape, eyelet_shapes,
    eyelet_step, eyelet_times, eyelet_unused,
};
pub use open::{Model, Options, eyelet_close, eyelet_open};
pub use pack::{eyelet_arena_bytes, eyelet_fast_bytes, eyelet_version};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use pack::{eyelet_map, eyelet_page_cache, eyelet_unmap};
pub use set::{
    Counts, Functions, Job, Ports, Set, SetOptions, TaskOf, Timing, eyelet_now, eyelet_ports_input,
    eyelet_ports_input_info, eyelet_ports_input_words, eyelet_ports_output,
    eyelet_ports_output_info, eyelet_ports_output_words, eyelet_set_bytes, eyelet_set_change,
    eyelet_set_close, eyelet_set_counts, eyelet_set_name, eyelet_set_open, eyelet_set_release,
    eyelet_set_run, eyelet_set_run_until, eyelet_set_start, eyelet_set_step, eyelet_set_stop,
    eyelet_set_tasks, eyelet_set_timing,
};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use set::{eyelet_set_file_bytes, eyelet_set_open_file};
pub use source::{Finish, Kind, Poll, Read, Source, Start};

/// A reference to what a caller's pointer points to, if there is one.
///
/// # Safety
/// It is null, or valid for reads, initialised and not written for `'a`.
unsafe fn given<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }
}

/// The length of a slice of `bytes` bytes, if there can be one.
fn length(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|bytes| *bytes <= isize::MAX as usize)
}

/// Writes a value where the caller wants it, if it does.
///
/// # Safety
/// The pointer is null, or valid for writes.
unsafe fn give<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        unsafe { pointer.write(value) };
    }
}

/// The records as a C compiler lays them out where pointers have 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Source>() == 80 && core::mem::offset_of!(Source, read) == 32);
    assert!(size_of::<Options>() == 64 && core::mem::offset_of!(Options, fast) == 48);
    assert!(size_of::<Error>() == 256);
    assert!(size_of::<TensorInfo>() == 64 && core::mem::offset_of!(TensorInfo, shape) == 32);
    assert!(size_of::<PlanInfo>() == 48 && core::mem::offset_of!(PlanInfo, steps) == 40);
    assert!(size_of::<Switch>() == 32 && size_of::<Times>() == 16);
};

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;
    use core::ptr::{null, null_mut};

    /// Whether `call` zeroes memory that held something else.
    fn zeroed<T>(call: impl FnOnce(*mut T)) -> bool {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: its own bytes, all of which have a value from here on.
        unsafe {
            value.as_mut_ptr().cast::<u8>().write_bytes(0xa5, size_of::<T>());
            call(value.as_mut_ptr());
            let bytes = value.as_ptr().cast::<u8>();
            core::slice::from_raw_parts(bytes, size_of::<T>()).iter().all(|byte| *byte == 0)
        }
    }

    #[test]
    fn what_a_function_would_write_is_zero_after_an_error() {
        let (model, ports, set) = (null_mut::<Model>(), null_mut::<Ports<'_>>(), null_mut::<Set>());
        let argument = Status::Argument as i32;
        let refused = |status: i32| assert_eq!(status, argument);
        // SAFETY: null pointers are errors, and the others are of locals.
        unsafe {
            for port in [eyelet_input_info, eyelet_output_info] {
                assert!(zeroed(|info| refused(port(model, 0, info, null_mut()))));
            }
            for port in [eyelet_ports_input_info, eyelet_ports_output_info] {
                assert!(zeroed(|info| refused(port(ports, 0, info, null_mut()))));
            }
            assert!(zeroed(|count| assert!(eyelet_input(model, 0, count).is_null())));
            assert!(zeroed(|count| assert!(eyelet_output(model, 0, count).is_null())));
            assert!(zeroed(|count| assert!(eyelet_input_words(model, 0, count).is_null())));
            assert!(zeroed(|count| assert!(eyelet_output_words(model, 0, count).is_null())));
            assert!(zeroed(|count| assert!(eyelet_ports_input(ports, 0, count).is_null())));
            assert!(zeroed(|count| assert!(eyelet_ports_output(ports, 0, count).is_null())));
            assert!(zeroed(|count| assert!(eyelet_ports_input_words(ports, 0, count).is_null())));
            assert!(zeroed(|count| assert!(eyelet_ports_output_words(ports, 0, count).is_null())));
            assert!(zeroed(|bytes| assert!(eyelet_unused(model, bytes).is_null())));
            assert!(zeroed(|bytes| assert!(eyelet_set_name(set, 0, bytes).is_null())));
            assert!(zeroed(|took| refused(eyelet_set_budget(model, 0, took, null_mut()))));
            assert!(zeroed(|took| refused(eyelet_set_shape(model, 0, took, null_mut()))));
            assert!(zeroed(|info| eyelet_plan(model, info)));
            assert!(zeroed(|times| eyelet_times(model, times)));
            assert!(zeroed(|counts| refused(eyelet_set_counts(set, 0, counts, null_mut()))));
            assert!(zeroed(|timing| refused(eyelet_set_timing(set, 0, timing, null_mut()))));
            let (none, options) = (null_mut(), null());
            assert!(zeroed(|model| {
                refused(eyelet_open(model, null(), none, 0, options, null_mut()));
            }));
            assert!(zeroed(|set| {
                refused(eyelet_set_open(set, null(), 1, none, 0, null(), null_mut()));
            }));
        }
    }
}
