//! A network's range of addresses, and which of its chunks are in.

use super::pool::Pool;
use super::refill::{Refill, Staging};
use super::vmm::{Pinned, Reserved, Vmm};
use super::{ChunkError, Needs, chunks_of};
use crate::device::cuda::Stream;
use crate::device::cuda::error::given_up;
use crate::pack::{NONE, PAGE};
use core::ops::Range;

/// Where the chunks of a network that kernels do not write come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A copy in pinned host memory: swaps are as fast as the bus, and the host holds the whole
    /// network.
    Pinned,
    /// A [`Refill`]: the host holds only what kernels write.
    Refilled,
}

/// The record of one chunk of addresses.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The physical chunk that is mapped, or [`NONE`].
    chunk: u32,
    /// Its place in the pinned copy, in chunks, or [`NONE`].
    pinned: u32,
    writable: bool,
}

impl Default for Slot {
    fn default() -> Self {
        Self { chunk: NONE, pinned: NONE, writable: false }
    }
}

/// The result of a swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swapped {
    /// Chunks mapped or unmapped.
    pub chunks: usize,
    /// Bytes copied to or from pinned copies.
    pub copied_bytes: u64,
    /// Bytes that a [`Refill`] gave.
    pub refilled_bytes: u64,
}

/// Waits for a stream when it is dropped, be it by a panic: copies that are in flight must not find
/// their memory gone.
struct Quiet<'s>(&'s Stream<'s>);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        given_up(self.0.synchronize());
    }
}

/// A network's range.
pub(super) struct Mapped<'a> {
    reserved: Reserved<'a>,
    vmm: Vmm<'a>,
    chunk_bytes: u64,
    bytes: u64,
    slots: &'a mut [Slot],
    pinned: Option<Pinned<'a>>,
    /// The chunks that are out are one run around the range: `outside` chunks from `first` on.
    first: usize,
    outside: usize,
    broken: bool,
}

impl<'a> Mapped<'a> {
    /// Reserves addresses and pinned memory.
    pub fn new(
        vmm: Vmm<'a>,
        chunk_bytes: u64,
        needs: &Needs<'_>,
        slots: &'a mut [Slot],
    ) -> Result<Self, ChunkError> {
        let Needs { bytes, writable, origin } = *needs;
        let chunks = chunks_of(bytes, chunk_bytes);
        let needed = chunks.ok_or(ChunkError::Bytes { bytes, page: PAGE })?;
        let given = slots.len();
        let slots = slots.get_mut(..needed).ok_or(ChunkError::Bookkeeping { given, needed })?;
        slots.fill(Slot::default());
        for range in writable {
            if range.end > bytes {
                return Err(ChunkError::Writable { end: range.end, bytes });
            }
            if range.start < range.end {
                let first = (range.start / chunk_bytes) as usize;
                let end = range.end.div_ceil(chunk_bytes) as usize;
                slots[first..end].iter_mut().for_each(|slot| slot.writable = true);
            }
        }
        let kept = slots.iter_mut().filter(|slot| slot.writable || origin == Origin::Pinned);
        let kept = kept.zip(0..).map(|(slot, place)| slot.pinned = place).count();
        let pinned_bytes = usize::try_from(kept as u64 * chunk_bytes);
        let pinned_bytes = pinned_bytes.map_err(|_| ChunkError::Bytes { bytes, page: PAGE })?;
        let pinned = match pinned_bytes {
            0 => None,
            bytes => Some(Pinned::new(vmm.context(), bytes)?),
        };
        let reserved = vmm.reserve(needed as u64 * chunk_bytes)?;
        let (first, outside, broken) = (0, needed, false);
        Ok(Self { reserved, vmm, chunk_bytes, bytes, slots, pinned, first, outside, broken })
    }

    pub fn base(&self) -> u64 {
        self.reserved.address()
    }

    pub fn inside(&self) -> usize {
        self.slots.len() - self.outside
    }

    pub fn outside(&self) -> usize {
        self.outside
    }

    pub fn waste_bytes(&self) -> u64 {
        self.slots.len() as u64 * self.chunk_bytes - self.bytes
    }

    /// The pinned copy of a chunk, as long as the chunk is the network's.
    pub fn pinned_mut(&mut self, chunk: usize) -> Option<&mut [u8]> {
        let slot = self.slots.get(chunk).filter(|slot| slot.pinned != NONE && !self.broken)?;
        let start = slot.pinned as usize * self.chunk_bytes as usize;
        let bytes = self.used(chunk..chunk + 1) as usize;
        Some(self.pinned.as_mut()?.part(start..start + bytes))
    }

    /// Swaps in the run of `chunks` that went out first.
    pub fn swap_in(
        &mut self,
        pool: &mut Pool<'_>,
        chunks: usize,
        stream: &Stream<'_>,
        source: Option<(&mut Staging<'_>, &mut dyn Refill)>,
    ) -> Result<Swapped, ChunkError> {
        self.check(chunks, self.outside)?;
        if chunks > pool.free() {
            return Err(ChunkError::Full { chunks, free: pool.free() });
        }
        let runs = self.runs(self.first, chunks);
        let refilled = |slot: &Slot| slot.pinned == NONE;
        if source.is_none() && runs.iter().any(|run| self.slots[run.clone()].iter().any(refilled)) {
            return Err(ChunkError::NoRefill);
        }
        // A refill that panics leaves a range that nobody knows the state of.
        self.broken = true;
        let quiet = Quiet(stream);
        let filled = self.map(pool, &runs).and_then(|()| self.fill(&runs, stream, source));
        // The call below waits, too, and returns the error.
        core::mem::forget(quiet);
        self.broken = false;
        // Even after an error: copies that are in flight must not find their chunks gone.
        let filled = filled.and_then(|swapped| Ok((swapped, stream.synchronize()?)));
        match filled {
            Ok((swapped, ())) => {
                self.first = (self.first + chunks) % self.slots.len();
                self.outside -= chunks;
                Ok(Swapped { chunks, ..swapped })
            }
            Err(error) => {
                let quiet = stream.synchronize();
                for run in runs {
                    let mapped =
                        self.slots[run.clone()].iter().take_while(|slot| slot.chunk != NONE);
                    let end = run.start + mapped.count();
                    if quiet.is_err() || self.unmap(pool, run.start..end).is_err() {
                        self.broken = true;
                    }
                }
                Err(error)
            }
        }
    }

    /// Swaps out `chunks` from where the last swap stopped.
    pub fn swap_out(
        &mut self,
        pool: &mut Pool<'_>,
        chunks: usize,
        stream: &Stream<'_>,
    ) -> Result<Swapped, ChunkError> {
        self.check(chunks, self.inside())?;
        let runs = self.runs((self.first + self.outside) % self.slots.len(), chunks);
        let mut copied_bytes = 0;
        let mut copy = || -> Result<(), ChunkError> {
            for run in &runs {
                let mut at = run.start;
                while let Some(part) = part(&self.slots[..run.end], at, |slot| slot.writable) {
                    let (from, bytes) = (self.at(part.start), self.used(part.clone()));
                    at = part.end;
                    let place = self.slots[part.start].pinned as usize * self.chunk_bytes as usize;
                    // Writable chunks have pinned copies, so that there is memory.
                    let Some(pinned) = &mut self.pinned else { continue };
                    let to = pinned.part(place..place + bytes as usize);
                    // SAFETY: nobody sees the pinned memory before the stream is idle, below; the
                    // addresses are mapped chunks of a range that no kernel uses.
                    unsafe { stream.copy_to_host(to.as_mut_ptr(), from, to.len()) }?;
                    copied_bytes += bytes;
                }
            }
            Ok(stream.synchronize()?)
        };
        if let Err(error) = copy() {
            // All is in as before; but no copy may be in flight when the caller next sees the
            // pinned memory.
            self.broken |= stream.synchronize().is_err();
            return Err(error);
        }
        for run in runs {
            let chunks = run.len();
            if let Err(error) = self.unmap(pool, run) {
                self.broken = true;
                return Err(error);
            }
            self.outside += chunks;
        }
        Ok(Swapped { chunks, copied_bytes, refilled_bytes: 0 })
    }

    /// Refuses a swap of more chunks than there are, and of a range that nobody knows the state of.
    fn check(&self, chunks: usize, there: usize) -> Result<(), ChunkError> {
        match self.broken {
            true => Err(ChunkError::Broken),
            false if chunks > there => Err(ChunkError::Asked { chunks, there }),
            false => Ok(()),
        }
    }

    /// So many chunks from `first` on, around the range's end.
    fn runs(&self, first: usize, chunks: usize) -> [Range<usize>; 2] {
        let end = (first + chunks).min(self.slots.len());
        [first..end, 0..chunks - (end - first)]
    }

    /// Maps free chunks; when it fails, those that it has mapped are in their slots.
    fn map(&mut self, pool: &mut Pool<'_>, runs: &[Range<usize>]) -> Result<(), ChunkError> {
        for run in runs.iter().filter(|run| !run.is_empty()) {
            for index in run.clone() {
                let full = ChunkError::Full { chunks: 1, free: 0 };
                let chunk = pool.take().ok_or(full)?;
                let mapped = self.vmm.map(self.at(index), self.chunk_bytes, pool.handle(chunk));
                if let Err(error) = mapped {
                    pool.give(chunk);
                    return Err(error.into());
                }
                self.slots[index].chunk = chunk;
            }
            self.vmm.allow(self.at(run.start), run.len() as u64 * self.chunk_bytes)?;
        }
        Ok(())
    }

    /// Unmaps a run of mapped chunks, which are free then.
    fn unmap(&mut self, pool: &mut Pool<'_>, run: Range<usize>) -> Result<(), ChunkError> {
        if run.is_empty() {
            return Ok(());
        }
        self.vmm.unmap(self.at(run.start), run.len() as u64 * self.chunk_bytes)?;
        for slot in &mut self.slots[run] {
            pool.give(slot.chunk);
            slot.chunk = NONE;
        }
        Ok(())
    }

    /// Gives mapped chunks their bytes: copies are in flight when it returns.
    fn fill(
        &mut self,
        runs: &[Range<usize>],
        stream: &Stream<'_>,
        mut source: Option<(&mut Staging<'_>, &mut dyn Refill)>,
    ) -> Result<Swapped, ChunkError> {
        let mut swapped = Swapped::default();
        for run in runs {
            let mut at = run.start;
            while let Some(part) = part(&self.slots[..run.end], at, |slot| slot.pinned != NONE) {
                let (to, bytes) = (self.at(part.start), self.used(part.clone()));
                at = part.end;
                let place = self.slots[part.start].pinned as usize * self.chunk_bytes as usize;
                let Some(pinned) = &mut self.pinned else { continue };
                let from = pinned.part(place..place + bytes as usize);
                // SAFETY: nobody writes the pinned memory before the stream is idle (the caller
                // waits); the addresses are mapped chunks of a range that nobody uses yet.
                unsafe { stream.copy_to_device(to, from.as_ptr(), from.len()) }?;
                swapped.copied_bytes += bytes;
            }
            let mut at = run.start;
            while let Some(part) = part(&self.slots[..run.end], at, |slot| slot.pinned == NONE) {
                let (to, bytes) = (self.at(part.start), self.used(part.clone()));
                at = part.end;
                let (staging, refill) = source.as_mut().ok_or(ChunkError::NoRefill)?;
                let offset = part.start as u64 * self.chunk_bytes;
                staging.fill(&mut **refill, stream, to, offset, bytes)?;
                swapped.refilled_bytes += bytes;
            }
        }
        Ok(swapped)
    }

    /// Where a chunk's addresses start.
    fn at(&self, chunk: usize) -> u64 {
        self.base() + chunk as u64 * self.chunk_bytes
    }

    /// Bytes of a run of chunks that are the network's: all, but of the last chunk.
    fn used(&self, run: Range<usize>) -> u64 {
        (run.end as u64 * self.chunk_bytes).min(self.bytes) - run.start as u64 * self.chunk_bytes
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        // Chunk by chunk, so that one failure does not keep the others mapped.
        for index in 0..self.slots.len() {
            if self.slots[index].chunk != NONE {
                given_up(self.vmm.unmap(self.at(index), self.chunk_bytes));
            }
        }
    }
}

/// The first run of slots, from `from` on, of which this is true.
fn part(slots: &[Slot], from: usize, is: impl Fn(&Slot) -> bool) -> Option<Range<usize>> {
    let start = from + slots.get(from..)?.iter().position(&is)?;
    let length = slots[start..].iter().take_while(|slot| is(slot)).count();
    Some(start..start + length)
}
