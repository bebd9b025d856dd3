//! Streams and events.

use super::context::Context;
use super::driver::Handle;
use super::error::given_up;
use crate::device::DeviceError;
use core::ffi::c_void;

/// CU_STREAM_NON_BLOCKING: independent of the stream that has no name.
const NON_BLOCKING: u32 = 1;
/// CU_EVENT_BLOCKING_SYNC and _DISABLE_TIMING: whoever waits for a mark sleeps, and leaves his core
/// to others.
const SLEEPING_AND_UNTIMED: u32 = 1 | 2;
/// CUDA_ERROR_NOT_READY.
const NOT_READY: i32 = 600;

/// "Not yet" is no error.
fn is_done(result: Result<(), DeviceError>) -> Result<bool, DeviceError> {
    match result {
        Ok(()) => Ok(true),
        Err(DeviceError { code: NOT_READY, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A queue of work: what is in it is done in order, while others do theirs.
#[derive(Debug)]
pub struct Stream<'c> {
    context: &'c Context<'c>,
    raw: Handle,
}

// SAFETY: the driver's functions may be called from any thread.
unsafe impl Send for Stream<'_> {}
// SAFETY: likewise.
unsafe impl Sync for Stream<'_> {}

impl<'c> Stream<'c> {
    pub(super) fn new(context: &'c Context<'_>) -> Result<Self, DeviceError> {
        let mut raw = core::ptr::null_mut();
        // SAFETY: it writes one handle.
        unsafe { context.enter()?.stream_create(&mut raw, NON_BLOCKING) }?;
        Ok(Self { context, raw })
    }

    /// The context.
    pub fn context(&self) -> &'c Context<'c> {
        self.context
    }

    pub(super) fn raw(&self) -> Handle {
        self.raw
    }

    /// Waits until all is done.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream is alive.
        unsafe { self.context.driver().stream_synchronize(self.raw) }
    }

    /// Whether all is done.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        // SAFETY: the stream is alive.
        is_done(unsafe { self.context.driver().stream_query(self.raw) })
    }

    /// Later work of this stream begins after the last mark that the event has at the time of this
    /// call.
    pub fn wait_for(&self, event: &Event<'_>) -> Result<(), DeviceError> {
        // SAFETY: both are alive.
        unsafe { self.context.driver().stream_wait_event(self.raw, event.raw, 0) }
    }

    /// Copies to the GPU.
    ///
    /// # Safety
    /// Until the copy is done the host's memory is readable and nobody writes it, and the GPU's is
    /// inside an allocation, which nobody else touches.
    pub unsafe fn copy_to_device(
        &self,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's.
        unsafe {
            self.context.driver().memcpy_htod_async(to, from.cast::<c_void>(), bytes, self.raw)
        }
    }

    /// Copies to the host.
    ///
    /// # Safety
    /// As for [`copy_to_device`](Self::copy_to_device), with the roles exchanged.
    pub unsafe fn copy_to_host(
        &self,
        to: *mut u8,
        from: u64,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's.
        unsafe {
            self.context.driver().memcpy_dtoh_async(to.cast::<c_void>(), from, bytes, self.raw)
        }
    }

    /// Copies on the GPU, from and to ranges that do not overlap.
    ///
    /// # Safety
    /// Both are inside allocations, and until the copy is done nobody writes the one or touches the
    /// other.
    pub unsafe fn copy_on_device(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's.
        unsafe { self.context.driver().memcpy_dtod_async(to, from, bytes, self.raw) }
    }

    /// Fills bytes on the GPU.
    ///
    /// # Safety
    /// They are inside an allocation, and until it is done nobody touches them.
    pub unsafe fn fill(&self, to: u64, value: u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the caller's.
        unsafe { self.context.driver().memset_d8_async(to, value, bytes, self.raw) }
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        let on = self.context.enter();
        // SAFETY: from `new`, destroyed once. Work that is still in it is done all the same.
        given_up(on.and_then(|on| unsafe { on.stream_destroy(self.raw) }));
    }
}

impl Context<'_> {
    /// A queue of work.
    pub fn stream(&self) -> Result<Stream<'_>, DeviceError> {
        Stream::new(self)
    }

    /// A mark for streams.
    pub fn event(&self) -> Result<Event<'_>, DeviceError> {
        Event::new(self, false)
    }

    /// A mark that knows its time.
    pub fn timed_event(&self) -> Result<Event<'_>, DeviceError> {
        Event::new(self, true)
    }
}

/// A mark in a stream.
#[derive(Debug)]
pub struct Event<'c> {
    context: &'c Context<'c>,
    raw: Handle,
}

// SAFETY: the driver's functions may be called from any thread.
unsafe impl Send for Event<'_> {}
// SAFETY: likewise.
unsafe impl Sync for Event<'_> {}

impl<'c> Event<'c> {
    pub(super) fn new(context: &'c Context<'_>, timed: bool) -> Result<Self, DeviceError> {
        let mut raw = core::ptr::null_mut();
        let flags = if timed { 0 } else { SLEEPING_AND_UNTIMED };
        // SAFETY: it writes one handle.
        unsafe { context.enter()?.event_create(&mut raw, flags) }?;
        Ok(Self { context, raw })
    }

    /// Marks the end of what is in the stream now. An earlier mark is forgotten.
    pub fn record(&self, stream: &Stream<'_>) -> Result<(), DeviceError> {
        // SAFETY: both are alive.
        unsafe { self.context.driver().event_record(self.raw, stream.raw) }
    }

    /// Whether the stream has reached the mark, or there is none.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        // SAFETY: the event is alive.
        is_done(unsafe { self.context.driver().event_query(self.raw) })
    }

    /// Waits until it has.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the event is alive.
        unsafe { self.context.driver().event_synchronize(self.raw) }
    }

    /// Milliseconds from a mark that the stream has reached to this one, which it has too. Both
    /// know their time.
    pub fn ms_since(&self, start: &Event<'_>) -> Result<f32, DeviceError> {
        let mut ms = 0.0;
        // SAFETY: both are alive; it writes one number.
        unsafe { self.context.driver().event_elapsed_time(&mut ms, start.raw, self.raw) }?;
        Ok(ms)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        let on = self.context.enter();
        // SAFETY: from `new`, destroyed once.
        given_up(on.and_then(|on| unsafe { on.event_destroy(self.raw) }));
    }
}
