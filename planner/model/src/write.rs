//! Writes packs: header and skeleton, plans, names, weights.
//!
//! Weights are packed panel by panel while they are written, so that memory is needed for one layer's
//! slice at a time. The checksums of the loads are taken from the written file, through a map. The file
//! appears under its name when it is complete, and not before.

use crate::network::Network;
use crate::plan::Plan;
use crate::replace::replace;
use crate::tables;
use crate::weights::{Overflow, pack_panels};
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{self, Flaw, Header, Load, MAX_PLANS, PAGE, PlanEntry, SKELETON, STRATEGIES};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why a pack could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("layer `{layer}`: {source}")]
    Overflow { layer: String, source: Overflow },
    #[error("a pack holds at most {MAX_PLANS} plans, {0} were asked for: leave out some budgets")]
    Plans(usize),
    #[error("a pack cannot say this: {0}; cut the model, or plan it for less memory")]
    Beyond(Flaw),
    #[error(
        "the tables of a plan take {found} bytes, and it leaves {planned} for them: tell whoever made the plan"
    )]
    Tables { found: u64, planned: u64 },
}

impl From<Flaw> for WriteError {
    fn from(flaw: Flaw) -> Self {
        Self::Beyond(flaw)
    }
}

/// Writes a pack with one or several plans over `network`, whose weights have been placed
/// ([`place_weights`](crate::layout::place_weights)) and take `weights_bytes`. `predicted_ns` has one
/// latency per plan. `progress` is called with the bytes of weights written so far. Returns how many weights were denormal, which are
/// stored as zeros.
pub fn write_pack(
    path: &Path,
    network: &Network,
    weights_bytes: u64,
    plans: &[Plan],
    predicted_ns: &[u64],
    progress: &mut dyn FnMut(u64),
) -> Result<u64, WriteError> {
    if plans.len() > MAX_PLANS || plans.is_empty() {
        return Err(WriteError::Plans(plans.len()));
    }
    let layout = Layout::new(network, weights_bytes, plans)?;
    let mut denormal = 0;
    let mut content = |file: &mut std::fs::File| {
        file.set_len(layout.file_bytes)?;
        file.seek(SeekFrom::Start(layout.weights_offset))?;
        denormal = write_weights(file, network, weights_bytes, progress)?;
        let entries = layout.write_plans(file, plans, predicted_ns)?;
        file.seek(SeekFrom::Start(layout.names_offset))?;
        file.write_all(&layout.names)?;
        let header = layout.header(network, weights_bytes, entries.len());
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&front_pages(header, &entries, &layout.skeleton))
    };
    replace(path, |sink| {
        sink.flush()?;
        content(sink.get_mut())
    })
    .map_err(|error| match error.downcast::<WriteError>() {
        Ok(ours) => ours,
        Err(error) => WriteError::Io { path: path.to_owned(), error },
    })?;
    Ok(denormal)
}

/// Where each section of a pack lies, and those that are made in memory.
struct Layout {
    skeleton: Vec<u8>,
    names: Vec<u8>,
    /// Of each plan.
    offsets: Vec<u64>,
    names_offset: u64,
    weights_offset: u64,
    file_bytes: u64,
}

impl Layout {
    fn new(network: &Network, weights_bytes: u64, plans: &[Plan]) -> Result<Self, WriteError> {
        let (skeleton, names) = (tables::skeleton(network)?, tables::layer_names(network));
        let front = (SKELETON + skeleton.len() as u64).next_multiple_of(PAGE);
        let mut offsets = Vec::new();
        let mut end = front;
        for plan in plans {
            offsets.push(end);
            let bytes = tables::plan(plan, |_| 0)?.len() as u64;
            end += bytes.next_multiple_of(PAGE);
            let (found, planned) = (front + bytes.next_multiple_of(PAGE), plan.tables);
            if found > planned {
                return Err(WriteError::Tables { found, planned });
            }
        }
        let weights_offset = end + (names.len() as u64).next_multiple_of(PAGE);
        let file_bytes = weights_offset + weights_bytes;
        Ok(Self { skeleton, names, offsets, names_offset: end, weights_offset, file_bytes })
    }

    /// Writes the plans into a file that has its weights, of which each load gets a checksum.
    fn write_plans(
        &self,
        file: &mut std::fs::File,
        plans: &[Plan],
        predicted_ns: &[u64],
    ) -> io::Result<Vec<PlanEntry>> {
        // SAFETY: a private temporary file that nobody else knows; it is not shortened while mapped.
        let map = unsafe { memmap2::Mmap::map(&*file) }?;
        let weights = &map[self.weights_offset as usize..];
        let crc = |load: &Load| {
            let start = load.offset as usize;
            crc32c(0, &weights[start..start + load.bytes as usize])
        };
        let mut entries = Vec::new();
        for ((plan, &offset), &predicted_ns) in plans.iter().zip(&self.offsets).zip(predicted_ns) {
            let section =
                tables::plan(plan, crc).map_err(|flaw| io::Error::other(WriteError::from(flaw)))?;
            let strategy = STRATEGIES.iter().position(|name| *name == plan.strategy).unwrap_or(0);
            entries.push(PlanEntry {
                budget: plan.budget,
                arena_bytes: plan.arena_bytes,
                offset,
                bytes: section.len() as u64,
                crc: crc32c(0, &section),
                threads: plan.threads,
                strategy: strategy as u32,
                reserved: 0,
                predicted_ns,
            });
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(&section)?;
        }
        Ok(entries)
    }

    fn header(&self, network: &Network, weights_bytes: u64, plans: usize) -> Header {
        Header {
            magic: pack::MAGIC,
            version: pack::VERSION,
            crc: 0,
            isa: network.isa as u32,
            panel: network.isa.panel() as u32,
            file_bytes: self.file_bytes,
            names_offset: self.names_offset,
            names_bytes: self.names.len() as u64,
            skeleton_bytes: self.skeleton.len() as u64,
            weights_offset: self.weights_offset,
            weights_bytes,
            skeleton_crc: crc32c(0, &self.skeleton),
            names_crc: crc32c(0, &self.names),
            plans: plans as u32,
            reserved: 0,
        }
    }
}

/// Header, entries and skeleton, with the checksum of the first page.
fn front_pages(header: Header, entries: &[PlanEntry], skeleton: &[u8]) -> Vec<u8> {
    let mut front = bytemuck::bytes_of(&header).to_vec();
    front.extend_from_slice(bytemuck::cast_slice(entries));
    front.resize(SKELETON as usize, 0);
    front.extend_from_slice(skeleton);
    front.resize(front.len().next_multiple_of(PAGE as usize), 0);
    let crc = crc32c(0, &front[..PAGE as usize]);
    let field = std::mem::offset_of!(Header, crc);
    front[field..field + 4].copy_from_slice(&crc.to_le_bytes());
    front
}

/// Packs and writes the weights section from the file's position on. Returns how many weights were denormal.
fn write_weights(
    file: &mut std::fs::File,
    network: &Network,
    weights_bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<u64> {
    /// Panels are packed this many bytes at a time.
    const CHUNK: u64 = 8 << 20;
    let (mut written, mut denormal) = (0u64, 0);
    let mut buffer = Vec::new();
    for ((layer, weights), name) in network.layers.iter().zip(&network.weights).zip(&network.names)
    {
        if layer.panels == 0 {
            continue;
        }
        let gap = layer.weights - written;
        file.write_all(&vec![0; gap as usize])?;
        written += gap;
        let at_once = (CHUNK / u64::from(layer.panel_bytes)).clamp(1, layer.panels.into()) as u32;
        let mut first = 0;
        while first < layer.panels {
            let last = (first + at_once).min(layer.panels);
            buffer.clear();
            let nr = network.isa.panel();
            denormal +=
                pack_panels(weights, layer, nr, first..last, &mut buffer).map_err(|source| {
                    io::Error::other(WriteError::Overflow { layer: name.clone(), source })
                })?;
            file.write_all(&buffer)?;
            written += buffer.len() as u64;
            first = last;
            progress(written);
        }
    }
    file.write_all(&vec![0; (weights_bytes - written) as usize])?;
    Ok(denormal)
}
