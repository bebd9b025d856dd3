//! What computes: the processor, or a GPU.

use super::super::Error;
use eyelet::device::Accelerator;
use eyelet::kernels::Isa;
use eyelet::pack::{Header, PlanEntry};
use eyelet::storage::Storage;
use eyelet_planner::size;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// An option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Cpu,
    /// The GPU of this number.
    Cuda(u32),
}

impl Device {
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = match text {
            "cpu" => return Ok(Self::Cpu),
            "cuda" => Some(0),
            other => other.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
        };
        number.map(Self::Cuda).ok_or_else(|| "it must be cpu, cuda, or cuda:N".to_owned())
    }

    /// What a pack is for.
    pub fn of(isa: u32) -> Self {
        match isa == Isa::Cuda as u32 {
            true => Self::Cuda(0),
            false => Self::Cpu,
        }
    }
}

/// A GPU as `run` tells of it.
#[derive(Debug, Serialize)]
pub struct Gpu {
    pub name: String,
    pub number: u32,
    /// CUDA's version, as the driver has it.
    pub driver: String,
    pub memory_mode: &'static str,
    /// By what less was free of the GPU's memory, as its driver counts it, than before the kernels were loaded.
    pub device_bytes: u64,
    /// Bytes of the host's memory that were allocated for the GPU to reach.
    pub host_bytes: u64,
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GPU          {} {}, driver for CUDA {}\n\
             memory       {}: {} of the GPU's, {} of the host's for it",
            self.number,
            self.name,
            self.driver,
            self.memory_mode,
            size::human(self.device_bytes),
            size::human(self.host_bytes)
        )
    }
}

#[cfg(not(feature = "cuda"))]
pub fn with_gpu<S: Storage, T>(
    _: u32,
    _: &Path,
    _: &mut S,
    _: &Header,
    _: &PlanEntry,
    _: bool,
    _: impl FnOnce(&mut dyn Accelerator, &mut S) -> Result<T, Error>,
) -> Result<(T, Gpu), Error> {
    Err(super::super::error::RunError::NoCuda.into())
}

#[cfg(feature = "cuda")]
pub use cuda::with_gpu;

#[cfg(feature = "cuda")]
mod cuda {
    use super::*;
    use eyelet::arena::MappedArena;
    use eyelet::device::cuda::{self, Context, Driver, Memory, images};
    use eyelet::executor::{entries, tables_bytes};
    use eyelet::pack::{PAGE, PlanHeader};

    /// Calls `body` with a GPU that has memory for a plan, in the mode that the plan is for, and keeps the time of
    /// steps if it is `timed`.
    pub fn with_gpu<S: Storage, T>(
        number: u32,
        path: &Path,
        storage: &mut S,
        header: &Header,
        entry: &PlanEntry,
        timed: bool,
        body: impl FnOnce(&mut dyn Accelerator, &mut S) -> Result<T, Error>,
    ) -> Result<(T, Gpu), Error> {
        let driver = Driver::load().map_err(Error::gpu)?;
        let context = Context::open(&driver, number).map_err(Error::gpu)?;
        let (before, _) = context.free_bytes().map_err(Error::gpu)?;
        let (tables, memory) = needs(path, storage, header, entry)?;
        let memory = memory.unwrap_or(Memory::of(&context));
        let arena = entry.arena_bytes;
        let gpu = cuda::Gpu::new(&context, images(), memory, arena, tables);
        let mut gpu = gpu.map_err(Error::gpu)?;
        if timed {
            gpu.keep_time().map_err(Error::gpu)?;
        }
        let result = body(&mut gpu, storage)?;
        // All that was allocated still is.
        context.bind().map_err(Error::gpu)?;
        let (after, _) = context.free_bytes().map_err(Error::gpu)?;
        let about = Gpu {
            name: context.attributes().name().to_owned(),
            number,
            driver: driver.version().to_string(),
            memory_mode: memory.name(),
            device_bytes: before.saturating_sub(after) as u64,
            host_bytes: gpu.host_bytes(),
        };
        Ok((result, about))
    }

    /// Bytes of tables, and the memory mode of a pack's plans that are opened with one: none if they stream nothing, and were
    /// planned for memory that is shared, and so suit both.
    fn needs(
        path: &Path,
        storage: &mut impl Storage,
        header: &Header,
        largest: &PlanEntry,
    ) -> Result<(u64, Option<Memory>), Error> {
        let wrong = |source| Error::pack(path, source);
        let mut page = MappedArena::new(PAGE as usize)?;
        let mut page = page.memory();
        storage.read(0, page.as_mut_slice()).map_err(|error| wrong(error.into()))?;
        let tables = tables_bytes(page.as_slice(), header);
        // All plans are proved that fit where this one does.
        let opened: Vec<PlanEntry> = entries(page.as_slice(), header.plans)
            .filter(|entry| entry.arena_bytes <= largest.arena_bytes)
            .collect();
        let mut memory = None;
        for entry in opened {
            storage.read(entry.offset, page.as_mut_slice()).map_err(|error| wrong(error.into()))?;
            let plan: PlanHeader =
                bytemuck::pod_read_unaligned(&page.as_slice()[..size_of::<PlanHeader>()]);
            memory = match (plan.loads, plan.staging_pages) {
                (_, 1..) => Some(Memory::Staged),
                (0, 0) => memory,
                (_, 0) => memory.or(Some(Memory::ZeroCopy)),
            };
        }
        Ok((tables, memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_and_numbers() {
        assert_eq!(Device::parse("cpu"), Ok(Device::Cpu));
        assert_eq!(Device::parse("cuda"), Ok(Device::Cuda(0)));
        assert_eq!(Device::parse("cuda:3"), Ok(Device::Cuda(3)));
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:0"] {
            assert!(Device::parse(text).unwrap_err().contains("cuda:N"), "{text}");
        }
        assert_eq!(Device::of(Isa::Cuda as u32), Device::Cuda(0));
        assert_eq!(Device::of(Isa::Avx2 as u32), Device::Cpu);
    }
}
