//! Writes packs: header, skeletons, plans, names, weights.
//!
//! Weights are packed panel by panel while they are written, so that memory is needed for one layer's
//! slice at a time. The checksums of the loads are taken from the written file, through a map. The file
//! appears under its name when it is complete, and not before.

use crate::limits::{self, LimitError};
use crate::network::Network;
use crate::plan::Plan;
use crate::replace::replace;
use crate::tables;
use crate::weights::{Overflow, pack_panels};
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{
    self, Flaw, Header, Load, MAX_PLANS, MAX_SHAPES, PAGE, PLANS, PlanEntry, ShapeEntry,
};
use eyelet::proof::Bounds;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why a pack could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("layer `{layer}`: {source}")]
    Overflow { layer: String, source: Overflow },
    #[error(
        "a pack holds at most {MAX_PLANS} plans in all shapes, {0} were asked for: leave out some budgets, or shapes"
    )]
    Plans(usize),
    #[error(
        "a pack holds at most {MAX_SHAPES} shapes, {0} were asked for: give fewer extents after --dim"
    )]
    Shapes(usize),
    #[error(transparent)]
    Limit(#[from] LimitError),
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

/// A network in one shape, with its plans.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// As in `seq=64`; empty where a pack has one shape.
    pub name: &'a str,
    pub network: &'a Network,
    pub plans: &'a [Plan],
    /// One latency per plan.
    pub predicted_ns: &'a [u64],
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
    let shape = Shape { name: "", network, plans, predicted_ns };
    write_shapes(path, &[shape], weights_bytes, progress)
}

/// Writes a pack with the plans of one or several shapes of a network. The weights of all have been
/// placed in one section ([`SharedWeights`](crate::layout::SharedWeights)), which takes `weights_bytes`.
/// `progress` and what is returned are those of [`write_pack`].
pub fn write_shapes(
    path: &Path,
    shapes: &[Shape<'_>],
    weights_bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, WriteError> {
    let plans = shapes.iter().map(|shape| shape.plans.len()).sum();
    if plans > MAX_PLANS || shapes.iter().any(|shape| shape.plans.is_empty()) {
        return Err(WriteError::Plans(plans));
    }
    if shapes.len() > MAX_SHAPES || shapes.is_empty() {
        return Err(WriteError::Shapes(shapes.len()));
    }
    let layout = Layout::new(shapes, weights_bytes)?;
    let mut denormal = 0;
    let mut content = |file: &mut std::fs::File| {
        file.set_len(layout.file_bytes)?;
        file.seek(SeekFrom::Start(layout.weights_offset))?;
        denormal = write_weights(file, shapes, weights_bytes, progress)?;
        let entries = layout.write_plans(file, shapes)?;
        for (skeleton, entry) in layout.skeletons.iter().zip(&layout.shapes) {
            file.seek(SeekFrom::Start(entry.offset))?;
            file.write_all(skeleton)?;
        }
        file.seek(SeekFrom::Start(layout.names_offset))?;
        file.write_all(&layout.names)?;
        let header = layout.header(shapes[0].network, weights_bytes, &entries);
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&first_page(header, &layout.shapes, &entries.plans))
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

/// Whether a runtime will take the pack of these shapes, as it proves a pack that it opens.
pub fn prove(shapes: &[Shape<'_>], weights_bytes: u64) -> Result<(), WriteError> {
    let layout = Layout::new(shapes, weights_bytes)?;
    let plans = shapes.iter().map(|shape| shape.plans.len() as u32).sum();
    let effort = Bounds::effort_for(layout.file_bytes, plans);
    let stored = layout.skeletons.iter().zip(&layout.shapes);
    for (shape, (skeleton, entry)) in shapes.iter().zip(stored) {
        let of = limits::Stored { skeleton, front: entry.front(), weights_bytes, effort };
        limits::plans(shape.network, shape.plans, &of)?;
    }
    Ok(())
}

/// What the header has of the plans, and of the weights.
struct Entries {
    plans: Vec<PlanEntry>,
    weights_crc: u32,
}

/// Where each section of a pack lies, and those that are made in memory.
struct Layout {
    /// Whether the pack is used where it lies in memory.
    mapped: bool,
    shapes: Vec<ShapeEntry>,
    /// Of each shape.
    skeletons: Vec<Vec<u8>>,
    names: Vec<u8>,
    /// Of each plan, one shape after the other.
    offsets: Vec<u64>,
    names_offset: u64,
    weights_offset: u64,
    file_bytes: u64,
}

impl Layout {
    fn new(shapes: &[Shape<'_>], weights_bytes: u64) -> Result<Self, WriteError> {
        for shape in shapes {
            limits::network(shape.network)?;
            shape.plans.iter().try_for_each(limits::threads)?;
        }
        let named: Vec<_> = shapes.iter().map(|shape| (shape.name, shape.network)).collect();
        let names = tables::names(&named, &strategies(shapes));
        let (mut entries, mut skeletons) = (Vec::new(), Vec::new());
        let mut end = PAGE;
        for shape in shapes {
            let skeleton = tables::skeleton(shape.network)?;
            let bytes = stored_bytes(&skeleton)?;
            entries.push(ShapeEntry { offset: end, bytes, crc: crc32c(0, &skeleton) });
            end += u64::from(bytes).next_multiple_of(PAGE);
            skeletons.push(skeleton);
        }
        let mut offsets = Vec::new();
        for (shape, entry) in shapes.iter().zip(&entries) {
            for plan in shape.plans {
                offsets.push(end);
                let bytes = u64::from(stored_bytes(&tables::plan(plan, |_| 0)?)?);
                end += bytes.next_multiple_of(PAGE);
                let (found, planned) = (entry.front() + bytes.next_multiple_of(PAGE), plan.tables);
                if found > planned && shape.network.mapped.is_none() {
                    return Err(WriteError::Tables { found, planned });
                }
            }
        }
        let weights_offset = end + (names.len() as u64).next_multiple_of(PAGE);
        let file_bytes = weights_offset + weights_bytes;
        let mapped = shapes[0].network.mapped.is_some();
        Ok(Self {
            mapped,
            shapes: entries,
            skeletons,
            names,
            offsets,
            names_offset: end,
            weights_offset,
            file_bytes,
        })
    }

    /// Writes the plans into a file that has its weights, of which each load gets a checksum.
    fn write_plans(&self, file: &mut std::fs::File, shapes: &[Shape<'_>]) -> io::Result<Entries> {
        // SAFETY: a private temporary file that nobody else knows; it is not shortened while mapped.
        let map = unsafe { memmap2::Mmap::map(&*file) }?;
        let weights = &map[self.weights_offset as usize..];
        let crc = |load: &Load| {
            let start = load.offset as usize;
            crc32c(0, &weights[start..start + load.bytes as usize])
        };
        // What is used in place is compared as a whole, when the pack is opened.
        let weights_crc = if self.mapped { crc32c(0, weights) } else { 0 };
        let plans = shapes.iter().enumerate().flat_map(|(index, shape)| {
            shape.plans.iter().zip(shape.predicted_ns).map(move |plan| (index as u16, plan))
        });
        let strategies = strategies(shapes);
        let mut entries = Vec::new();
        for ((shape, (plan, &predicted_ns)), &offset) in plans.zip(&self.offsets) {
            let section =
                tables::plan(plan, crc).map_err(|flaw| io::Error::other(WriteError::from(flaw)))?;
            let strategy = strategies.iter().position(|name| *name == plan.strategy);
            entries.push(PlanEntry {
                budget: plan.budget,
                arena_bytes: plan.arena_bytes,
                offset,
                predicted_ns,
                bytes: section.len() as u32,
                crc: crc32c(0, &section),
                threads: short("pack: threads of a plan", plan.threads.into())?,
                fast_pages: short("pack: pages of fast memory", plan.fast_bytes.div_ceil(PAGE))?,
                strategy: strategy.unwrap_or(0) as u16,
                shape,
            });
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(&section)?;
        }
        Ok(Entries { plans: entries, weights_crc })
    }

    fn header(&self, network: &Network, weights_bytes: u64, entries: &Entries) -> Header {
        let Entries { ref plans, weights_crc } = *entries;
        Header {
            magic: pack::MAGIC,
            version: pack::VERSION,
            crc: 0,
            isa: network.isa as u32,
            panel: network.isa.panel() as u16,
            mapped: self.mapped.into(),
            file_bytes: self.file_bytes,
            names_offset: self.names_offset,
            names_bytes: self.names.len() as u64,
            weights_offset: self.weights_offset,
            weights_bytes,
            names_crc: crc32c(0, &self.names),
            shapes: self.shapes.len() as u32,
            plans: plans.len() as u32,
            weights_crc,
        }
    }
}

/// The strategies of all plans, each once.
fn strategies<'a>(shapes: &[Shape<'a>]) -> Vec<&'a str> {
    let mut strategies: Vec<&str> = Vec::new();
    for plan in shapes.iter().flat_map(|shape| shape.plans) {
        if !strategies.contains(&plan.strategy.as_str()) {
            strategies.push(&plan.strategy);
        }
    }
    strategies
}

/// What an entry has 16 bits for.
fn short(what: &'static str, value: u64) -> io::Result<u16> {
    let flaw = Flaw { what, index: pack::NONE, found: value, limit: u16::MAX.into() };
    u16::try_from(value).map_err(|_| io::Error::other(WriteError::from(flaw)))
}

/// Bytes of a section, of which an entry says no more than 32 bits.
fn stored_bytes(section: &[u8]) -> Result<u32, WriteError> {
    let (what, index, limit) = ("pack: bytes of a section", pack::NONE, u32::MAX.into());
    let found = section.len() as u64;
    u32::try_from(found).map_err(|_| Flaw { what, index, found, limit }.into())
}

/// Header and entries, with the checksum of the first page.
fn first_page(header: Header, shapes: &[ShapeEntry], entries: &[PlanEntry]) -> Vec<u8> {
    let mut page = bytemuck::bytes_of(&header).to_vec();
    page.extend_from_slice(bytemuck::cast_slice(shapes));
    page.resize(PLANS, 0);
    page.extend_from_slice(bytemuck::cast_slice(entries));
    page.resize(PAGE as usize, 0);
    let crc = crc32c(0, &page);
    let field = std::mem::offset_of!(Header, crc);
    page[field..field + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// Packs and writes the weights section from the file's position on: what several shapes have
/// placed in one place once. Returns how many weights were denormal.
fn write_weights(
    file: &mut std::fs::File,
    shapes: &[Shape<'_>],
    weights_bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<u64> {
    /// Panels are packed this many bytes at a time.
    const CHUNK: u64 = 8 << 20;
    let (mut written, mut denormal) = (0u64, 0);
    let mut buffer = Vec::new();
    let networks = shapes.iter().map(|shape| shape.network);
    let layers = networks.flat_map(|of| of.layers.iter().zip(&of.weights).zip(&of.names));
    let mut layers: Vec<_> = layers.collect();
    layers.retain(|((layer, _), _)| layer.panels > 0);
    layers.sort_by_key(|((layer, _), _)| layer.weights);
    layers.dedup_by_key(|((layer, _), _)| layer.weights);
    let nr = shapes[0].network.isa.panel();
    for ((layer, weights), name) in layers {
        let gap = layer.weights - written;
        file.write_all(&vec![0; gap as usize])?;
        written += gap;
        let at_once = (CHUNK / u64::from(layer.panel_bytes)).clamp(1, layer.panels.into()) as u32;
        let mut first = 0;
        while first < layer.panels {
            let last = (first + at_once).min(layer.panels);
            buffer.clear();
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
