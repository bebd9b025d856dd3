//! A device that computes nothing, and does what it is given as late and in as odd an order as its marks permit.
//!
//! Its streams are lists. Something is taken from them when the host waits, or by chance when something is issued; from
//! which of the two, chance decides. So what should have waited for a mark, and did not, sooner or later sees the wrong bytes. There are few marks, that they
//! are used again.

use eyelet::device::DeviceError;
use eyelet::device::accelerator::Launch;
use eyelet::device::accelerator::{Accelerator, Home, Lent, MemoryError, Stream};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Marks of a stream.
const MARKS: usize = 8;
/// Moments that it keeps: few, too. And what a kernel takes.
const MOMENTS: usize = 5;
pub const KERNEL_NS: u64 = 1000;
/// Where its memory begins: no address of the host's.
const BASE: u64 = 0x7f00_0000_0000_0000;

/// Memory that starts on a page, and is poisoned.
#[derive(Default)]
struct Pages(Vec<[u64; 512]>);

impl Pages {
    fn new(bytes: u64) -> Self {
        // A page's alignment is not a vector's: one more, to start inside of.
        Self(vec![[0xF1F1_F1F1_F1F1_F1F1; 512]; bytes.div_ceil(4096) as usize + 1])
    }

    fn start(&self) -> *mut u8 {
        let start = self.0.as_ptr().cast::<u8>().cast_mut();
        start.wrapping_add(start.align_offset(4096))
    }

    fn bytes(&self) -> usize {
        self.0.len().saturating_sub(1) * 4096
    }
}

enum Op {
    Copy {
        from: *const u8,
        to: *mut u8,
        bytes: usize,
    },
    /// One that computes nothing.
    Kernel,
    Moment(usize),
    Mark {
        count: u32,
        generation: u64,
    },
    Follow {
        other: usize,
        slot: usize,
        generation: u64,
    },
}

/// What is done when a mark of the kernels' stream is passed: with its count, the arena's bytes that the device has, and the
/// address of the first.
pub type Watch = Box<dyn FnMut(u32, &mut [u8], u64) + Send>;

#[derive(Default)]
struct State {
    random: u64,
    streams: [VecDeque<Op>; 2],
    /// Of each mark: the generation that was recorded last, and that was passed last.
    recorded: [[u64; MARKS]; 2],
    passed: [[u64; MARKS]; 2],
    generation: u64,
    /// The device's clock, and what it has kept of it; nothing of moments that are to come.
    now_ns: u64,
    moments: [Option<u64>; MOMENTS],
    watch: Option<Watch>,
    /// Bytes at the arena's start that the device does not have.
    tables: u64,
    calls: u64,
    /// The call that fails, and whether all after it do.
    fault: Option<(u64, bool)>,
    broken: bool,
    launches: u64,
    copies: u64,
}

pub struct Adversary {
    own: bool,
    arena: u64,
    host: Pages,
    pinned: Pages,
    device: Pages,
    control: Control,
}

/// What tests do with a device that an instance has.
#[derive(Clone, Default)]
pub struct Control(Arc<Mutex<State>>);

// SAFETY: the pointers of operations are to memory that the device owns, which alone uses them.
unsafe impl Send for State {}

impl fmt::Debug for Adversary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adversary").field("own", &self.own).finish_non_exhaustive()
    }
}

impl State {
    fn below(&mut self, limit: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) % limit
    }
}

impl Control {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a plan's marks watched, whose tables take so many bytes.
    pub fn watch(&self, tables: u64, watch: Watch) {
        let mut state = self.state();
        (state.tables, state.watch) = (tables, Some(watch));
    }

    /// Has a call fail, counted from now; with all that come after it, if it stays.
    pub fn fail(&self, call: u64, stays: bool) {
        let mut state = self.state();
        state.fault = Some((state.calls + call, stays));
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Launches and copies of loads so far.
    pub fn counts(&self) -> [u64; 2] {
        let state = self.state();
        [state.launches, state.copies]
    }
}

impl Adversary {
    /// With an arena that the host shares, or one of its own and so many bytes of tables.
    pub fn new(arena: u64, tables: Option<u64>, seed: u64) -> Self {
        Self {
            own: tables.is_some(),
            arena,
            host: Pages::new(tables.unwrap_or(arena)),
            pinned: Pages::default(),
            device: Pages::default(),
            control: Control(Arc::new(Mutex::new(State { random: seed, ..State::default() }))),
        }
    }

    pub fn control(&self) -> Control {
        self.control.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.control.state()
    }

    /// Counts a call, lets some of what was issued before be done, and fails if it is its turn.
    fn call(&self, call: &'static str) -> Result<MutexGuard<'_, State>, DeviceError> {
        let mut state = self.state();
        state.calls += 1;
        let error = Err(DeviceError { call, code: 719 });
        if state.broken {
            return error;
        }
        if let Some((_, stays)) = state.fault.filter(|(at, _)| *at == state.calls) {
            state.broken = stays;
            if stays {
                state.streams.iter_mut().for_each(VecDeque::clear);
            }
            return error;
        }
        for _ in 0..state.below(3) {
            let stream = state.below(2) as usize;
            self.advance(&mut state, stream);
        }
        Ok(state)
    }

    /// Does what is first in a stream, if it does not wait.
    fn advance(&self, state: &mut State, stream: usize) -> bool {
        match state.streams[stream].front() {
            None => return false,
            Some(Op::Follow { other, slot, generation }) => {
                if state.passed[*other][*slot] < *generation {
                    return false;
                }
            }
            // SAFETY: whoever issued the copy has promised that both are valid until it is done.
            Some(Op::Copy { from, to, bytes }) => unsafe { from.copy_to(*to, *bytes) },
            Some(Op::Kernel) => state.now_ns += KERNEL_NS,
            Some(&Op::Moment(moment)) => state.moments[moment] = Some(state.now_ns),
            Some(&Op::Mark { count, generation }) => {
                state.passed[stream][count as usize % MARKS] = generation;
                if stream == 0
                    && let Some(mut watch) = state.watch.take()
                {
                    let (memory, first) = match self.own {
                        true => (&self.device, state.tables),
                        false => (&self.host, 0),
                    };
                    // SAFETY: the device's own memory, or the arena, as a kernel would touch it.
                    let bytes =
                        unsafe { std::slice::from_raw_parts_mut(memory.start(), memory.bytes()) };
                    watch(count, bytes, first);
                    state.watch = Some(watch);
                }
            }
        }
        state.streams[stream].pop_front();
        true
    }

    /// Goes on until it is so.
    fn until(&self, state: &mut State, done: impl Fn(&State) -> bool) {
        let mut stuck = 0;
        while !done(state) {
            let stream = state.below(2) as usize;
            stuck = if self.advance(state, stream) { 0 } else { stuck + 1 };
            assert!(stuck < 1000, "the streams wait for one another");
        }
    }
}

// SAFETY: all memory is the value's own; `lend` and `reserve` do what was issued first, and when it is dropped nothing is done any
// more.
unsafe impl Accelerator for Adversary {
    fn arena(&self) -> u64 {
        self.arena
    }

    fn home(&self) -> Home {
        match self.own {
            true => Home::Own(BASE, self.device.bytes() as u64),
            false => Home::Shared(BASE),
        }
    }

    fn multiprocessors(&self) -> u32 {
        3
    }

    fn reserve(&mut self, pinned: u64, device: u64) -> Result<(), MemoryError> {
        self.state().streams.iter_mut().for_each(VecDeque::clear);
        if device > 1 << 30 {
            let error = DeviceError { call: "cuMemAlloc", code: 2 };
            return Err(MemoryError {
                what: "memory of the GPU",
                bytes: device,
                free: None,
                error,
            });
        }
        (self.pinned, self.device) = (Pages::new(pinned), Pages::new(device));
        Ok(())
    }

    fn lend(&mut self) -> Lent<'_> {
        let mut state = self.state();
        self.until(&mut state, |state| state.streams.iter().all(VecDeque::is_empty));
        drop(state);
        let (host, pinned) = (&self.host, &self.pinned);
        // SAFETY: the value's own memory, borrowed exclusively with it.
        let [host, pinned] = [host, pinned]
            .map(|pages| unsafe { std::slice::from_raw_parts_mut(pages.start(), pages.bytes()) });
        Lent { arena: self.arena, host, pinned, accelerator: self }
    }

    unsafe fn launch(&self, _: &Launch<'_>) -> Result<(), DeviceError> {
        let mut state = self.call("cuLaunchKernel")?;
        state.launches += 1;
        state.streams[Stream::Kernels as usize].push_back(Op::Kernel);
        Ok(())
    }

    unsafe fn copy_in(&self, stream: Stream, from: &[u8], to: u64) -> Result<(), DeviceError> {
        let mut state = self.call("cuMemcpyHtoDAsync")?;
        assert!(to >= BASE && to - BASE + from.len() as u64 <= self.device.bytes() as u64);
        state.copies += u64::from(stream == Stream::Copies);
        let to = self.device.start().wrapping_add((to - BASE) as usize);
        let copy = Op::Copy { from: from.as_ptr(), to, bytes: from.len() };
        state.streams[stream as usize].push_back(copy);
        Ok(())
    }

    unsafe fn copy_out(&self, stream: Stream, from: u64, to: &mut [u8]) -> Result<(), DeviceError> {
        let mut state = self.call("cuMemcpyDtoHAsync")?;
        assert!(from >= BASE && from - BASE + to.len() as u64 <= self.device.bytes() as u64);
        let from = self.device.start().wrapping_add((from - BASE) as usize);
        let copy = Op::Copy { from, to: to.as_mut_ptr(), bytes: to.len() };
        state.streams[stream as usize].push_back(copy);
        Ok(())
    }

    fn record(&self, stream: Stream, count: u32) -> Result<(), DeviceError> {
        let mut state = self.call("cuEventRecord")?;
        state.generation += 1;
        let generation = state.generation;
        state.recorded[stream as usize][count as usize % MARKS] = generation;
        state.streams[stream as usize].push_back(Op::Mark { count, generation });
        Ok(())
    }

    fn follow(&self, stream: Stream, other: Stream, count: u32) -> Result<(), DeviceError> {
        let mut state = self.call("cuStreamWaitEvent")?;
        let (other, slot) = (other as usize, count as usize % MARKS);
        let generation = state.recorded[other][slot];
        state.streams[stream as usize].push_back(Op::Follow { other, slot, generation });
        Ok(())
    }

    fn wait(&self, stream: Stream, count: u32) -> Result<(), DeviceError> {
        let mut state = self.call("cuEventSynchronize")?;
        let (stream, slot) = (stream as usize, count as usize % MARKS);
        let generation = state.recorded[stream][slot];
        self.until(&mut state, |state| state.passed[stream][slot] >= generation);
        Ok(())
    }

    fn drain(&self, stream: Stream) -> Result<(), DeviceError> {
        let mut state = self.call("cuStreamSynchronize")?;
        self.until(&mut state, |state| state.streams[stream as usize].is_empty());
        Ok(())
    }

    fn moments(&self) -> u32 {
        MOMENTS as u32
    }

    fn keep(&self, moment: u32) -> Result<(), DeviceError> {
        let mut state = self.call("cuEventRecord")?;
        state.moments[moment as usize] = None;
        state.streams[Stream::Kernels as usize].push_back(Op::Moment(moment as usize));
        Ok(())
    }

    fn ns_between(&self, from: u32, to: u32) -> Result<u64, DeviceError> {
        let state = self.call("cuEventElapsedTime")?;
        let [from, to] = [from, to].map(|moment| state.moments[moment as usize]);
        Ok(to.expect("a moment that is past") - from.expect("a moment that is past"))
    }
}
