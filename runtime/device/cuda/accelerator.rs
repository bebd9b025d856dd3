//! A GPU as the executor's [`Accelerator`]: two streams, their marks, and the memories of one
//! arena.
//!
//! **Memory modes.** *Zero-copy*, for GPUs that share the host's memory: the arena is pinned memory
//! of the host that the GPU addresses, and storage reads to where kernels read. *Staged*, for those
//! with a memory of their own: one allocation there, and pinned memory for the staging ring and the
//! ports' mirrors, which are made when a pack is opened, because its plans say how much; the tables
//! are pinned, too. After that nothing is allocated.
//!
//! Managed memory is not used: on the integrated GPUs that would profit from it the processor must
//! not touch any of it while a kernel runs, and a loader does nothing else.
//!
//! **Threads.** Each call makes the context the calling thread's first, which the driver does in
//! some ten nanoseconds where it is so already.
#![allow(unsafe_code)]

use super::error::given_up;
use super::{
    Context, DeviceMemory, Event, HostMemory, Image, MemoryError as CudaMemoryError, Module,
    ModuleError, Stream,
};
use crate::device::DeviceError;
use crate::device::accelerator::{self as executor, Accelerator, Home, Lent, MemoryError};
use crate::device::accelerator::{Launch, Queue};
use crate::sys::discard::has_room;
use core::fmt;

/// Marks of a stream, a power of two. With at least one for each step of an inference nobody waits
/// longer than needed.
const MARKS: usize = 1024;

type Marks<'c> = heapless::Vec<Event<'c>, MARKS>;

/// Moments: three for a step, at most, so that few inferences are interrupted to read them.
const MOMENTS: usize = 1024;

/// Which memory a GPU computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The host's.
    ZeroCopy,
    /// Its own.
    Staged,
}

impl Memory {
    /// That which suits a GPU.
    pub fn of(context: &Context<'_>) -> Self {
        match context.attributes().integrated {
            true => Self::ZeroCopy,
            false => Self::Staged,
        }
    }

    /// Its name, as in board files and `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Staged => "staged",
        }
    }
}

/// A GPU cannot be the executor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuError {
    /// It cannot address memory of the host.
    NoMapping,
    /// Its kernels cannot be loaded.
    Module(ModuleError),
    /// There is not enough memory.
    Memory(MemoryError),
    /// The driver refuses.
    Call(DeviceError),
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMapping => f.write_str(
                "the GPU cannot address the host's memory: plan for a board whose GPU has its own (memory = \"staged\")",
            ),
            Self::Module(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GpuError {}

impl From<DeviceError> for GpuError {
    fn from(error: DeviceError) -> Self {
        Self::Call(error)
    }
}

/// A GPU with all that it takes to follow plans of one arena.
#[derive(Debug)]
pub struct Gpu<'c> {
    context: &'c Context<'c>,
    module: Module<'c>,
    kernels: Stream<'c>,
    copies: Stream<'c>,
    /// The marks of both streams.
    marks: [Marks<'c>; 2],
    /// None, or all: events that know their time.
    moments: heapless::Vec<Event<'c>, MOMENTS>,
    memory: Memory,
    arena: u64,
    host: HostMemory<'c>,
    pinned: Option<HostMemory<'c>>,
    device: Option<DeviceMemory<'c>>,
}

impl<'c> Gpu<'c> {
    /// Loads the kernels, and makes streams, marks and host memory. The host memory is for the
    /// whole arena. With memory of the GPU's own it is for `tables`
    /// ([`tables_bytes`](crate::executor::tables_bytes)).
    pub fn new(
        context: &'c Context<'_>,
        images: &[Image],
        memory: Memory,
        arena: u64,
        tables: u64,
    ) -> Result<Self, GpuError> {
        context.bind()?;
        if memory == Memory::ZeroCopy && !context.attributes().maps_host_memory {
            return Err(GpuError::NoMapping);
        }
        let module = context.load(images).map_err(GpuError::Module)?;
        let mut marks = [Marks::new(), Marks::new()];
        for marks in &mut marks {
            while !marks.is_full() {
                has_room(marks.push(context.event()?));
            }
        }
        let (what, bytes) = match memory {
            Memory::ZeroCopy => ("memory of the host that the GPU addresses", arena),
            Memory::Staged => (PINNED, tables),
        };
        let host = host_memory(context, what, bytes).map_err(GpuError::Memory)?;
        let (kernels, copies) = (context.stream()?, context.stream()?);
        let (pinned, device) = (None, None);
        let moments = heapless::Vec::new();
        Ok(Self {
            context,
            module,
            kernels,
            copies,
            marks,
            moments,
            memory,
            arena,
            host,
            pinned,
            device,
        })
    }

    /// Makes what it takes to measure [the time of each step](crate::executor::Model::infer_timed).
    pub fn keep_time(&mut self) -> Result<(), GpuError> {
        self.context.bind()?;
        while !self.moments.is_full() {
            has_room(self.moments.push(self.context.timed_event()?));
        }
        Ok(())
    }

    /// Which memory it computes in.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Bytes of the host's memory that it has, pinned all of them.
    pub fn host_bytes(&self) -> u64 {
        let pinned = self.pinned.as_ref().map_or(0, HostMemory::bytes);
        (self.host.bytes() + pinned) as u64
    }

    /// Bytes of the GPU's own memory that it has.
    pub fn device_bytes(&self) -> u64 {
        self.device.as_ref().map_or(0, |memory| memory.bytes() as u64)
    }

    /// A stream, in a context that is the calling thread's.
    fn stream(&self, stream: executor::Stream) -> Result<&Stream<'c>, DeviceError> {
        self.context.bind()?;
        Ok(match stream {
            executor::Stream::Kernels => &self.kernels,
            executor::Stream::Copies => &self.copies,
        })
    }

    fn mark(&self, stream: executor::Stream, count: u32) -> &Event<'c> {
        &self.marks[stream as usize][count as usize % MARKS]
    }

    /// Waits until nothing is in flight any more. After an error that stays, nothing is.
    fn quiesce(&self) {
        if executor::drain(self).is_err() {
            given_up(self.context.synchronize());
        }
    }
}

const PINNED: &str = "pinned memory of the host";

fn refused(
    what: &'static str,
    bytes: u64,
    call: &'static str,
) -> impl FnOnce(CudaMemoryError) -> MemoryError {
    move |error| match error {
        CudaMemoryError::Exhausted { free, .. } => {
            let error = DeviceError { call, code: super::memory::OUT_OF_MEMORY };
            MemoryError { what, bytes, free: Some(free as u64), error }
        }
        CudaMemoryError::Call(error) => MemoryError { what, bytes, free: None, error },
    }
}

/// Memory of the host, no less than a page.
fn host_memory<'c>(
    context: &'c Context<'_>,
    what: &'static str,
    bytes: u64,
) -> Result<HostMemory<'c>, MemoryError> {
    let wanted = usize::try_from(bytes.max(crate::pack::PAGE)).unwrap_or(usize::MAX);
    context.host_memory(wanted).map_err(refused(what, bytes, "cuMemHostAlloc"))
}

// SAFETY: the memories are this value's own, and borrowed with it while they are lent. `home` is
// where the driver says that they are. `lend`, `reserve` and `drop` wait for both streams.
unsafe impl Accelerator for Gpu<'_> {
    fn arena(&self) -> u64 {
        self.arena
    }

    fn home(&self) -> Home {
        match (self.memory, &self.device) {
            (Memory::ZeroCopy, _) => Home::Shared(self.host.address()),
            (Memory::Staged, Some(memory)) => Home::Own(memory.address(), memory.bytes() as u64),
            (Memory::Staged, None) => Home::Own(0, 0),
        }
    }

    fn multiprocessors(&self) -> u32 {
        self.context.attributes().multiprocessors
    }

    fn reserve(&mut self, pinned: u64, device: u64) -> Result<(), MemoryError> {
        self.quiesce();
        (self.pinned, self.device) = (None, None);
        self.pinned = Some(host_memory(self.context, PINNED, pinned)?);
        let wanted = usize::try_from(device.max(1)).unwrap_or(usize::MAX);
        let memory = self.context.device_memory(wanted);
        self.device = Some(memory.map_err(refused("memory of the GPU", device, "cuMemAlloc"))?);
        Ok(())
    }

    fn lend(&mut self) -> Lent<'_> {
        self.quiesce();
        // SAFETY: initialised memory of this value's own, page by page, borrowed exclusively with
        // it.
        let slice = |memory: &HostMemory<'_>| unsafe {
            core::slice::from_raw_parts_mut(memory.memory().as_ptr(), memory.bytes())
        };
        Lent {
            arena: self.arena,
            host: slice(&self.host),
            pinned: self.pinned.as_ref().map(slice).unwrap_or_default(),
            accelerator: self,
        }
    }

    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let stream = self.stream(executor::Stream::Kernels)?;
        // SAFETY: the caller's promise.
        unsafe { self.module.launches(stream) }.launch(launch)
    }

    unsafe fn copy_in(
        &self,
        stream: executor::Stream,
        from: &[u8],
        to: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.stream(stream)?.copy_to_device(to, from.as_ptr(), from.len()) }
    }

    unsafe fn copy_out(
        &self,
        stream: executor::Stream,
        from: u64,
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.stream(stream)?.copy_to_host(to.as_mut_ptr(), from, to.len()) }
    }

    fn record(&self, stream: executor::Stream, count: u32) -> Result<(), DeviceError> {
        self.mark(stream, count).record(self.stream(stream)?)
    }

    fn follow(
        &self,
        stream: executor::Stream,
        other: executor::Stream,
        count: u32,
    ) -> Result<(), DeviceError> {
        self.stream(stream)?.wait_for(self.mark(other, count))
    }

    fn wait(&self, stream: executor::Stream, count: u32) -> Result<(), DeviceError> {
        self.context.bind()?;
        self.mark(stream, count).synchronize()
    }

    fn drain(&self, stream: executor::Stream) -> Result<(), DeviceError> {
        self.stream(stream)?.synchronize()
    }

    fn moments(&self) -> u32 {
        self.moments.len() as u32
    }

    fn keep(&self, moment: u32) -> Result<(), DeviceError> {
        let stream = self.stream(executor::Stream::Kernels)?;
        self.moments.get(moment as usize).map_or(Ok(()), |event| event.record(stream))
    }

    fn ns_between(&self, from: u32, to: u32) -> Result<u64, DeviceError> {
        self.context.bind()?;
        let [from, to] = [from, to].map(|moment| self.moments.get(moment as usize));
        let (Some(from), Some(to)) = (from, to) else { return Ok(0) };
        // Saturates, whatever a driver says.
        Ok((f64::from(to.ms_since(from)?) * 1e6) as u64)
    }
}

impl Drop for Gpu<'_> {
    fn drop(&mut self) {
        // Memory goes next.
        self.quiesce();
    }
}
