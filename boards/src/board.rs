//! The memory, the cores and the storage of a board, from its description.

use crate::check::{bytes, inner, narrow, natural, number, tables, text};
use crate::cores::Cores;
use toml::de::DeTable;

/// A board, without its costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    pub name: String,
    pub description: String,
    /// Bytes of a page of its storage: the granularity of reads.
    pub page: u64,
    /// The instruction set of its processor, where one is described.
    pub isa: Option<String>,
    /// Threads that compute.
    pub threads: Option<u32>,
    pub cores: Option<Cores>,
    /// The counter that firmware measures timeouts with.
    pub clock_hz: Option<u64>,
    pub storage: Option<Storage>,
    pub memories: Vec<Memory>,
}

/// The storage that packs are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    pub kind: String,
}

/// A range of addresses with one kind of memory behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub name: String,
    pub kind: MemoryKind,
    pub base: u64,
    pub bytes: u64,
    /// Rate at which one core reads it, in bytes a nanosecond.
    pub gbs: Option<f64>,
    /// Bytes of each region in it, by [`Region::ALL`]; 0 where it has none.
    regions: [u64; 5],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    Ram,
    /// Read like memory, and never written while a network runs.
    Flash,
}

/// The use that a memory is set aside for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Bytes of the network that mean nothing between two inferences: activations, scratch, streamed weights.
    Working,
    /// Bytes of the network that live on: tables, residents.
    Kept,
    /// Tightly coupled memory for the network.
    Fast,
    /// The pack itself, where it is read like memory.
    Mapped,
    /// Stacks.
    Stack,
}

impl Region {
    pub const ALL: [Self; 5] = [Self::Working, Self::Kept, Self::Fast, Self::Mapped, Self::Stack];

    /// Its key in a description.
    pub fn name(self) -> &'static str {
        ["working", "kept", "fast", "mapped", "stack"][self as usize]
    }
}

impl Memory {
    /// Bytes that are set aside in it.
    pub fn region(&self, region: Region) -> u64 {
        self.regions[region as usize]
    }

    /// The address after its last byte.
    pub fn end(&self) -> u64 {
        self.base + self.bytes
    }
}

impl Board {
    /// Bytes of a region, in whichever memory it lies.
    pub fn bytes(&self, region: Region) -> u64 {
        self.memories.iter().map(|memory| memory.region(region)).sum()
    }

    /// Bytes of arena: the working and the kept region, which lie side by side. `None` where the description gives
    /// the network no memory.
    pub fn arena_bytes(&self) -> Option<u64> {
        let bytes = self.bytes(Region::Working) + self.bytes(Region::Kept);
        (bytes > 0).then_some(bytes)
    }

    /// The memory of a region, if it has one.
    pub fn memory_of(&self, region: Region) -> Option<&Memory> {
        self.memories.iter().find(|memory| memory.region(region) > 0)
    }

    /// The cores that compute, one for each thread: the large ones first. Empty if the description has no cores.
    pub fn compute_cores(&self) -> Vec<u32> {
        let threads = self.threads.unwrap_or(1);
        self.cores.as_ref().map_or_else(Vec::new, |cores| cores.computing(threads))
    }

    /// The core of the loader: the one that is named, or a small one that does not compute, or else a large one. `None`
    /// where all compute and none is named.
    pub fn loader_core(&self) -> Option<u32> {
        let cores = self.cores.as_ref()?;
        cores.loader_for(&self.compute_cores())
    }

    /// Reads what the schema has found good.
    pub(crate) fn read(table: &DeTable<'_>) -> Self {
        Self {
            name: text(table, "name").unwrap_or_default(),
            description: text(table, "description").unwrap_or_default(),
            page: natural(table, "page").unwrap_or_default(),
            isa: text(table, "isa"),
            threads: natural(table, "threads").map(narrow),
            cores: inner(table, "cores").map(Cores::read),
            clock_hz: inner(table, "clock").and_then(|clock| natural(clock, "hz")),
            storage: inner(table, "storage")
                .and_then(|storage| text(storage, "kind"))
                .map(|kind| Storage { kind }),
            memories: tables(table, "memory").map(Memory::read).collect(),
        }
    }
}

impl Memory {
    fn read(table: &DeTable<'_>) -> Self {
        let size = |key| table.get(key).and_then(|value| bytes(value.get_ref())).unwrap_or(0);
        let gbs = table.get("gbs").and_then(|value| number(value.get_ref()));
        let kind = match text(table, "kind").as_deref() {
            Some("flash") => MemoryKind::Flash,
            _ => MemoryKind::Ram,
        };
        Self {
            name: text(table, "name").unwrap_or_default(),
            kind,
            base: natural(table, "base").unwrap_or_default(),
            bytes: size("bytes"),
            gbs,
            regions: Region::ALL.map(|region| size(region.name())),
        }
    }
}
