//! Inputs and outputs of a job, while the program's function that has them runs.

use super::super::error::{Error, Status, argument};
use super::super::give;
use super::super::model::TensorInfo;
use crate::executor::{self, PortError};
use crate::pack::Port;

/// A job's inputs and outputs: opaque to C.
pub struct Ports<'p>(pub(super) &'p mut dyn executor::Ports);

impl core::fmt::Debug for Ports<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ports")
    }
}

/// Gives a port's address and number of elements, or null and 0.
///
/// # Safety
/// `ports` is null, or what the set has called a function with that has not returned. `count` is
/// null, or valid for writes.
unsafe fn values<T>(
    ports: *mut Ports<'_>,
    count: *mut u64,
    port: impl FnOnce(&mut dyn executor::Ports) -> Result<(*mut T, usize), PortError>,
) -> *mut T {
    // SAFETY: the caller's promises.
    unsafe {
        let found = ports.as_mut().and_then(|ports| port(&mut *ports.0).ok());
        let (start, elements) = found.unwrap_or((core::ptr::null_mut(), 0));
        give(count, elements as u64);
        start
    }
}

/// Where an input is written, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_ports_input(
    ports: *mut Ports<'_>,
    index: u32,
    elements: *mut u64,
) -> *mut f32 {
    // SAFETY: the caller's promises.
    unsafe {
        values(ports, elements, |ports| {
            ports.input_mut(index as usize).map(|x| (x.as_mut_ptr(), x.len()))
        })
    }
}

/// Where an input of integers or truth values is written, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_ports_input_words(
    ports: *mut Ports<'_>,
    index: u32,
    elements: *mut u64,
) -> *mut i32 {
    // SAFETY: the caller's promises.
    unsafe {
        values(ports, elements, |ports| {
            ports.input_words_mut(index as usize).map(|x| (x.as_mut_ptr(), x.len()))
        })
    }
}

/// Where an output is read, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_ports_output(
    ports: *mut Ports<'_>,
    index: u32,
    elements: *mut u64,
) -> *const f32 {
    // SAFETY: the caller's promises.
    unsafe {
        values(ports, elements, |ports| {
            ports.output(index as usize).map(|x| (x.as_ptr().cast_mut(), x.len()))
        })
    }
}

/// Where an output of integers or truth values is read, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_ports_output_words(
    ports: *mut Ports<'_>,
    index: u32,
    elements: *mut u64,
) -> *const i32 {
    // SAFETY: the caller's promises.
    unsafe {
        values(ports, elements, |ports| {
            ports.output_words(index as usize).map(|x| (x.as_ptr().cast_mut(), x.len()))
        })
    }
}

/// Describes an input.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_ports_input_info(
    ports: *mut Ports<'_>,
    index: u32,
    info: *mut TensorInfo,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { describe(ports, index, |ports| ports.inputs(), info, error) }
}

/// Describes an output.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_ports_output_info(
    ports: *mut Ports<'_>,
    index: u32,
    info: *mut TensorInfo,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { describe(ports, index, |ports| ports.outputs(), info, error) }
}

/// # Safety
/// As the header says of the functions that this serves.
unsafe fn describe(
    ports: *mut Ports<'_>,
    index: u32,
    side: impl FnOnce(&dyn executor::Ports) -> &[Port],
    info: *mut TensorInfo,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        give(info, TensorInfo::NONE);
        let Some(ports) = ports.as_ref() else {
            return argument("the ports are missing").tell(error);
        };
        let ports = &*ports.0;
        let Some(port) = side(ports).get(index as usize) else {
            return argument("the network has no input or output of that number").tell(error);
        };
        give(info, TensorInfo::of(port, ports.name(port)));
    }
    Status::Ok as i32
}
