//! Writes packs: header page, skeleton, plans, weights.
//!
//! Weights are packed panel by panel while they are written, so that memory is needed for one layer's
//! slice at a time. The checksums of the loads are taken from the written file, through a map. The file
//! appears under its name when it is complete, and not before.

use crate::network::{Network, Port};
use crate::plan::Plan;
use crate::replace::replace;
use crate::weights::{Overflow, pack_panels};
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{self, Header, MAX_PLANS, Name, PAGE, PlanEntry, PlanHeader, SkeletonHeader};
use eyelet::pack::{Load, Place, STRATEGIES, Stage, Step};
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
}

/// Bytes at the start of the arena for header, skeleton and the tables of a plan of that many loads
/// (resident ones included), steps and stages of loads.
pub fn table_bytes(network: &Network, loads: usize, steps: usize, stages: usize) -> u64 {
    let plan = size_of::<PlanHeader>()
        + size_of::<Place>() * network.buffers.len()
        + size_of::<Load>() * loads
        + size_of::<Step>() * steps
        + size_of::<Stage>() * stages;
    PAGE + skeleton_bytes(network).next_multiple_of(PAGE) + (plan as u64).next_multiple_of(PAGE)
}

fn names_bytes(network: &Network) -> usize {
    let ports = network.inputs.iter().chain(&network.outputs).map(|port| port.name.len());
    let layers = network.names.iter().map(String::len);
    (network.name.len() + ports.sum::<usize>() + layers.sum::<usize>()).next_multiple_of(8)
}

fn skeleton_bytes(network: &Network) -> u64 {
    let bytes = size_of::<SkeletonHeader>()
        + size_of_val(network.buffers.as_slice())
        + size_of_val(network.tensors.as_slice())
        + size_of_val(network.layers.as_slice())
        + (network.inputs.len() + network.outputs.len()) * size_of::<pack::Port>()
        + names_bytes(network);
    bytes as u64
}

fn skeleton(network: &Network) -> Vec<u8> {
    let mut text = Vec::new();
    let mut name = |string: &str| {
        let start = text.len() as u32;
        text.extend_from_slice(string.as_bytes());
        Name { start, len: string.len() as u32 }
    };
    let own = name(&network.name);
    let mut layers = network.layers.clone();
    for (layer, string) in layers.iter_mut().zip(&network.names) {
        layer.name = name(string);
    }
    let mut port = |port: &Port| {
        let mut shape = [1; 8];
        shape.iter_mut().zip(&port.shape).for_each(|(to, from)| *to = *from as u32);
        pack::Port {
            name: name(&port.name),
            tensor: port.tensor,
            rank: port.shape.len() as u32,
            shape,
        }
    };
    let inputs: Vec<pack::Port> = network.inputs.iter().map(&mut port).collect();
    let outputs: Vec<pack::Port> = network.outputs.iter().map(&mut port).collect();
    text.resize(names_bytes(network), 0);
    let header = SkeletonHeader {
        buffers: network.buffers.len() as u32,
        tensors: network.tensors.len() as u32,
        layers: layers.len() as u32,
        inputs: inputs.len() as u32,
        outputs: outputs.len() as u32,
        names: text.len() as u32,
        name: own,
    };
    let mut bytes = bytemuck::bytes_of(&header).to_vec();
    bytes.extend_from_slice(bytemuck::cast_slice(&network.buffers));
    bytes.extend_from_slice(bytemuck::cast_slice(&network.tensors));
    bytes.extend_from_slice(bytemuck::cast_slice(&layers));
    bytes.extend_from_slice(bytemuck::cast_slice(&inputs));
    bytes.extend_from_slice(bytemuck::cast_slice(&outputs));
    bytes.extend_from_slice(&text);
    bytes
}

fn plan_section(plan: &Plan, weights: &[u8]) -> Vec<u8> {
    let header = PlanHeader {
        buffers: plan.places.len() as u32,
        resident_loads: plan.resident.len() as u32,
        loads: plan.loads.len() as u32,
        steps: plan.steps.len() as u32,
        staging_bytes: plan.staging_bytes,
        reserved: 0,
    };
    let mut bytes = bytemuck::bytes_of(&header).to_vec();
    bytes.extend_from_slice(bytemuck::cast_slice(&plan.places));
    for load in plan.resident.iter().chain(&plan.loads) {
        let range = load.offset as usize..load.offset as usize + load.bytes as usize;
        let load = Load { crc: crc32c(0, &weights[range]), ..*load };
        bytes.extend_from_slice(bytemuck::bytes_of(&load));
    }
    bytes.extend_from_slice(bytemuck::cast_slice(&plan.steps));
    bytes.extend_from_slice(bytemuck::cast_slice(&plan.stages));
    bytes
}

/// Writes a pack with one or several plans over `network`, whose weights have been placed
/// ([`place_weights`](crate::layout::place_weights)) and take `weights_bytes`. `predicted_ns` has one
/// latency per plan. `progress` is called with the bytes of weights written so far.
pub fn write_pack(
    path: &Path,
    network: &Network,
    weights_bytes: u64,
    plans: &[Plan],
    predicted_ns: &[u64],
    progress: &mut dyn FnMut(u64),
) -> Result<(), WriteError> {
    if plans.len() > MAX_PLANS || plans.is_empty() {
        return Err(WriteError::Plans(plans.len()));
    }
    let skeleton = skeleton(network);
    let skeleton_end = PAGE + (skeleton.len() as u64).next_multiple_of(PAGE);
    let mut offsets = Vec::new();
    let mut end = skeleton_end;
    for plan in plans {
        offsets.push(end);
        let loads = plan.resident.len() + plan.loads.len();
        let tables = table_bytes(network, loads, plan.steps.len(), plan.stages.len());
        end += tables - skeleton_end;
    }
    let weights_offset = end;
    let file_bytes = weights_offset + weights_bytes;

    let mut content = |file: &mut std::fs::File| {
        file.set_len(file_bytes)?;
        file.seek(SeekFrom::Start(weights_offset))?;
        write_weights(file, network, weights_bytes, progress)?;
        // SAFETY: a private temporary file that nobody else knows; it is not shortened while mapped.
        let map = unsafe { memmap2::Mmap::map(&*file) }?;
        let weights = &map[weights_offset as usize..];
        let mut entries = Vec::new();
        for ((plan, &offset), &predicted_ns) in plans.iter().zip(&offsets).zip(predicted_ns) {
            let section = plan_section(plan, weights);
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
                reserved2: 0,
            });
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(&section)?;
        }
        file.seek(SeekFrom::Start(PAGE))?;
        file.write_all(&skeleton)?;
        let header = Header {
            magic: pack::MAGIC,
            version: pack::VERSION,
            crc: 0,
            isa: network.isa as u32,
            panel: network.isa.panel() as u32,
            file_bytes,
            skeleton_offset: PAGE,
            skeleton_bytes: skeleton.len() as u64,
            weights_offset,
            weights_bytes,
            skeleton_crc: crc32c(0, &skeleton),
            plans: plans.len() as u32,
        };
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header_page(header, &entries))
    };
    replace(path, |sink| {
        sink.flush()?;
        content(sink.get_mut())
    })
    .map_err(|error| match error.downcast::<WriteError>() {
        Ok(ours) => ours,
        Err(error) => WriteError::Io { path: path.to_owned(), error },
    })
}

/// The first page, with its checksum.
fn header_page(header: Header, entries: &[PlanEntry]) -> Vec<u8> {
    let mut page = bytemuck::bytes_of(&header).to_vec();
    page.extend_from_slice(bytemuck::cast_slice(entries));
    page.resize(PAGE as usize, 0);
    let crc = crc32c(0, &page);
    let field = std::mem::offset_of!(Header, crc);
    page[field..field + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// Packs and writes the weights section from the file's position on.
fn write_weights(
    file: &mut std::fs::File,
    network: &Network,
    weights_bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    /// Panels are packed this many bytes at a time.
    const CHUNK: u64 = 8 << 20;
    let mut written = 0u64;
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
            pack_panels(weights, layer, network.isa.panel(), first..last, &mut buffer).map_err(
                |source| io::Error::other(WriteError::Overflow { layer: name.clone(), source }),
            )?;
            file.write_all(&buffer)?;
            written += buffer.len() as u64;
            first = last;
            progress(written);
        }
    }
    file.write_all(&vec![0; (weights_bytes - written) as usize])
}
