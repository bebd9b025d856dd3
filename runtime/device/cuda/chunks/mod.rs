//! Several networks in less GPU memory than they take together: RT-Swap's memory manager (RTAS
//! '24).
//!
//! Physical memory is cut into *chunks* of one size, all made when [`Chunks`] is opened: that is
//! the budget, and it never changes. Each network has one contiguous range of addresses, reserved
//! for as long as it is there, so that no address of its plan ever changes; chunks are mapped into
//! it (*in*) and taken away again (*out*).
//!
//! ```text
//! addresses of network 0  [c3][c0][  ][  ][c5]        a range each, reserved for good
//!              network 1  [  ][c1][c4][  ]
//! free chunks             c2                          a stack, shared
//! pinned copies           network 0: all chunks; network 1: writable chunks (the others come from storage)
//! ```
//!
//! - One range for all of a network's objects: what is wasted is the rest of its last chunk
//!   ([`Chunks::waste_bytes`]), whatever the number of objects. Chunks of one size: no fragments
//!   between networks.
//! - What has to be copied out has its place in pinned host memory from the start. A chunk that
//!   holds nothing but weights is not copied out at all: its bytes are in the pinned copy already
//!   ([`Origin::Pinned`]), or come from storage again, through staging memory
//!   ([`Origin::Refilled`]).
//! - Chunks go out in sequence from where the last swap stopped, around the range, and come in
//!   again in the same order. So what is out is always one run (around the range's end), and a swap
//!   is at most two calls of the driver for unmapping, two for access, and two copies where there
//!   are pinned copies of all.
//! - The paper's library makes and releases physical chunks at every swap; here a swap only maps
//!   and unmaps. Nothing is allocated after [`Chunks::add`], on the host or on the GPU.
//!
//! A swap happens between inferences of its network, on a stream of its own while other networks
//! compute; it has happened when the call returns. It is all or nothing: after a failure as much is
//! in as before, unless the driver fails at undoing, too; then the network is
//! [`ChunkError::Broken`] and the others go on. Which network goes out, how much and when is a
//! scheduler's to say.
//!
//! Bookkeeping is in slices that the caller gives: a [`Chunk`] for each physical chunk, a [`Slot`]
//! for each chunk of addresses of a network. There are at most [`NETWORKS`] networks.

mod error;
mod pool;
mod range;
mod refill;
mod vmm;

pub use error::ChunkError;
pub use pool::Chunk;
pub use range::{Origin, Slot, Swapped};
pub use refill::{FromStorage, Refill};

use super::{Context, Stream};
use crate::pack::PAGE;
use crate::sys::discard::has_room;
use core::ops::Range;
use pool::Pool;
use refill::Staging;
use vmm::Vmm;

/// How many networks there may be.
pub const NETWORKS: usize = 32;

/// A network in [`Chunks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(u32);

/// The memory that a network needs.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// Bytes of its range: a multiple of [`PAGE`].
    pub bytes: u64,
    /// The bytes that kernels write. A chunk that holds any such byte is copied out as a whole.
    pub writable: &'a [Range<u64>],
    /// Where the other chunks come from.
    pub origin: Origin,
}

/// Physical memory in chunks, and the networks that share it.
pub struct Chunks<'a> {
    // Fields are dropped in this order: ranges are unmapped before their chunks are released.
    networks: heapless::Vec<range::Mapped<'a>, NETWORKS>,
    staging: Option<Staging<'a>>,
    pool: Pool<'a>,
    vmm: Vmm<'a>,
}

impl<'a> Chunks<'a> {
    /// Makes all physical memory: a chunk of `chunk_bytes` bytes for each record. `staging_bytes`
    /// of pinned memory are for chunks that come from storage, in two halves, one being copied
    /// while the other is read; 0 if there are none.
    pub fn new(
        context: &'a Context<'a>,
        chunk_bytes: u64,
        chunks: &'a mut [Chunk],
        staging_bytes: usize,
    ) -> Result<Self, ChunkError> {
        let vmm = Vmm::new(context)?;
        let granularity = vmm.granularity()?;
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(granularity) {
            return Err(ChunkError::Granularity { chunk_bytes, granularity });
        }
        let staging = match staging_bytes {
            0 => None,
            bytes => Some(Staging::new(context, bytes)?),
        };
        let pool = Pool::new(vmm, chunk_bytes, chunks)?;
        Ok(Self { networks: heapless::Vec::new(), staging, pool, vmm })
    }

    /// Reserves a network's range of addresses, with a record for each chunk of them, and its
    /// pinned memory. All of it is out.
    pub fn add(&mut self, needs: &Needs<'_>, slots: &'a mut [Slot]) -> Result<Network, ChunkError> {
        if self.networks.is_full() {
            return Err(ChunkError::Networks { limit: NETWORKS });
        }
        let range = range::Mapped::new(self.vmm, self.pool.chunk_bytes(), needs, slots)?;
        has_room(self.networks.push(range));
        Ok(Network(self.networks.len() as u32 - 1))
    }

    /// Swaps in the next `chunks` of a network, in the order in which they went out. Chunks of
    /// [`Origin::Refilled`] get their bytes from `refill`; their first contents, too. When this
    /// returns they are there.
    pub fn swap_in(
        &mut self,
        network: Network,
        chunks: usize,
        stream: &Stream<'_>,
        refill: Option<&mut dyn Refill>,
    ) -> Result<Swapped, ChunkError> {
        let range = self.networks.get_mut(network.0 as usize).ok_or(ChunkError::Unknown)?;
        range.swap_in(&mut self.pool, chunks, stream, self.staging.as_mut().zip(refill))
    }

    /// Swaps out the next `chunks` of a network, from where the last swap stopped. None of its
    /// kernels may be in progress or start until it is in again: the GPU would fault.
    pub fn swap_out(
        &mut self,
        network: Network,
        chunks: usize,
        stream: &Stream<'_>,
    ) -> Result<Swapped, ChunkError> {
        let range = self.networks.get_mut(network.0 as usize).ok_or(ChunkError::Unknown)?;
        range.swap_out(&mut self.pool, chunks, stream)
    }

    /// The pinned copy of a chunk of a network, if it has one: what will be there when it has come
    /// in. While a writable chunk is in, its copy is what went out last.
    pub fn pinned_mut(&mut self, network: Network, chunk: usize) -> Option<&mut [u8]> {
        self.networks.get_mut(network.0 as usize)?.pinned_mut(chunk)
    }

    /// Where a network's range starts.
    pub fn address(&self, network: Network) -> Option<u64> {
        Some(self.get(network)?.base())
    }

    /// Chunks of a network that are in.
    pub fn inside(&self, network: Network) -> Option<usize> {
        Some(self.get(network)?.inside())
    }

    /// Chunks of a network that are out.
    pub fn outside(&self, network: Network) -> Option<usize> {
        Some(self.get(network)?.outside())
    }

    /// Internal fragmentation: bytes of a network's last chunk that are not its own.
    pub fn waste_bytes(&self, network: Network) -> Option<u64> {
        Some(self.get(network)?.waste_bytes())
    }

    /// Chunks that no network has.
    pub fn free(&self) -> usize {
        self.pool.free()
    }

    /// All chunks.
    pub fn total(&self) -> usize {
        self.pool.total()
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        self.pool.chunk_bytes()
    }

    fn get(&self, network: Network) -> Option<&range::Mapped<'a>> {
        self.networks.get(network.0 as usize)
    }
}

/// Chunks that a range of `bytes` bytes takes, which is the number of records that [`Chunks::add`]
/// needs. `None` if no network has that size.
pub fn chunks_of(bytes: u64, chunk_bytes: u64) -> Option<usize> {
    let whole = bytes > 0 && bytes.is_multiple_of(PAGE) && chunk_bytes > 0;
    let chunks = whole.then(|| bytes.div_ceil(chunk_bytes))?;
    chunks.checked_mul(chunk_bytes)?;
    u32::try_from(chunks).ok().map(|chunks| chunks as usize)
}
