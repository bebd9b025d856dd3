//! The tables of a pack, which lie at the start of the arena: how they are written, and how many bytes they take.
//!
//! What many records have in common is stored once ([`eyelet::pack::stored`]): words of layers, works of steps. Before a plan
//! has addresses it is known how many there will be, since steps that share a work do so by what they compute.

use crate::network::{Network, Port};
use crate::plan::Plan;
use eyelet::pack::stored::{
    LayerRecord, LoadRecord, PlaceRecord, StageRecord, StepRecord, WorkRecord,
};
use eyelet::pack::{self, Flaw, Load, Name, PAGE, PlanHeader, SKELETON, SkeletonHeader, Step};
use std::collections::HashMap;
use std::hash::Hash;

/// How many records a plan has, but for those that the network says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads, resident ones included.
    pub loads: usize,
    /// Steps that differ in more than where they begin and where their scratch lies.
    pub works: usize,
    pub steps: usize,
    /// Loads that are staged.
    pub stages: usize,
}

/// What tables a network's plans have.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// Bytes of header and skeleton, in whole pages.
    front: u64,
    layers: usize,
    buffers: usize,
    /// They are used where they lie in the pack.
    mapped: bool,
}

impl Tables {
    pub fn of(network: &Network) -> Self {
        // What cannot be stored is found when it is.
        let skeleton = skeleton(network).map_or(0, |bytes| bytes.len() as u64);
        let front = (SKELETON + skeleton).next_multiple_of(PAGE);
        let (layers, buffers) = (network.layers.len(), network.buffers.len());
        Self { front, layers, buffers, mapped: network.mapped.is_some() }
    }

    /// Bytes of header, skeleton and the tables of a plan in the arena.
    pub fn bytes(&self, counts: Counts) -> u64 {
        if self.mapped {
            return 0;
        }
        let Counts { loads, works, steps, stages } = counts;
        let plan = size_of::<PlanHeader>()
            + size_of::<PlaceRecord>() * self.buffers
            + size_of::<LoadRecord>() * loads
            + size_of::<WorkRecord>() * works
            + size_of::<StepRecord>() * steps
            + size_of::<StageRecord>() * stages;
        self.front + (plan as u64).next_multiple_of(PAGE)
    }

    /// The same for a plan that is there.
    pub fn of_plan(&self, plan: &Plan) -> u64 {
        let stores =
            |step: &Step| step.store().ok().map(|(_, work)| bytemuck::bytes_of(&work).to_vec());
        let works = different(plan.steps.iter().map(stores));
        let (loads, steps) = (plan.resident.len() + plan.loads.len(), plan.steps.len());
        self.bytes(Counts { loads, works, steps, stages: plan.stages.len() })
    }

    /// The same of no plan with fewer loads: each layer is a step.
    pub fn least(&self, loads: usize) -> u64 {
        let (works, steps) = (self.layers, self.layers);
        self.bytes(Counts { loads, works, steps, stages: 0 })
    }
}

/// How many of these are different.
pub fn different<T: Ord>(all: impl Iterator<Item = T>) -> usize {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// A table of runs of values, each of which is in it once.
struct Once<T> {
    table: Vec<T>,
    known: HashMap<Vec<T>, u32>,
}

impl<T: Copy + Eq + Hash> Once<T> {
    fn new() -> Self {
        Self { table: Vec::new(), known: HashMap::new() }
    }

    /// Where a run begins.
    fn put(&mut self, run: &[T]) -> u32 {
        if let Some(at) = self.known.get(run) {
            return *at;
        }
        let at = self.table.len() as u32;
        self.table.extend_from_slice(run);
        self.known.insert(run.to_vec(), at);
        at
    }
}

/// Says of which record something is.
fn at(index: usize) -> impl Fn(Flaw) -> Flaw {
    move |flaw| Flaw { index: index as u32, ..flaw }
}

/// As they are stored, one by one.
fn records<T, R: bytemuck::Pod>(
    all: &[T],
    store: impl Fn(&T) -> Result<R, Flaw>,
) -> Result<Vec<u8>, Flaw> {
    let mut bytes = Vec::with_capacity(size_of_val(all));
    for (index, record) in all.iter().enumerate() {
        bytes.extend_from_slice(bytemuck::bytes_of(&store(record).map_err(at(index))?));
    }
    Ok(bytes)
}

/// Strings, one behind the other.
fn name(text: &mut Vec<u8>, string: &str) -> Name {
    let start = text.len() as u32;
    text.extend_from_slice(string.as_bytes());
    Name { start, len: string.len() as u32 }
}

/// The skeleton of a network.
pub fn skeleton(network: &Network) -> Result<Vec<u8>, Flaw> {
    let mut text = Vec::new();
    let own = name(&mut text, &network.name);
    let mut port = |port: &Port| {
        let mut shape = [1; 8];
        shape.iter_mut().zip(&port.shape).for_each(|(to, from)| *to = *from as u32);
        let (name, rank) = (name(&mut text, &port.name), port.shape.len() as u32);
        pack::Port { name, tensor: port.tensor, kind: port.kind as u32, rank, shape }
    };
    let inputs: Vec<pack::Port> = network.inputs.iter().map(&mut port).collect();
    let outputs: Vec<pack::Port> = network.outputs.iter().map(&mut port).collect();
    text.resize(text.len().next_multiple_of(4), 0);
    let mut words = Once::new();
    let mut layers: Vec<LayerRecord> = Vec::new();
    for (index, layer) in network.layers.iter().enumerate() {
        let (mut record, all) = layer.store().map_err(at(index))?;
        record.first_word = words.put(&all[..record.words.into()]);
        layers.push(record);
    }
    let header = SkeletonHeader {
        buffers: network.buffers.len() as u32,
        tensors: network.tensors.len() as u32,
        layers: layers.len() as u32,
        words: words.table.len() as u32,
        inputs: inputs.len() as u32,
        outputs: outputs.len() as u32,
        names: text.len() as u32,
        name: own,
    };
    let mut bytes = bytemuck::bytes_of(&header).to_vec();
    bytes.extend(records(&network.buffers, pack::Buffer::store)?);
    bytes.extend_from_slice(bytemuck::cast_slice(&network.tensors));
    bytes.extend_from_slice(bytemuck::cast_slice(&layers));
    bytes.extend_from_slice(bytemuck::cast_slice(&words.table));
    bytes.extend_from_slice(bytemuck::cast_slice(&inputs));
    bytes.extend_from_slice(bytemuck::cast_slice(&outputs));
    bytes.extend_from_slice(&text);
    Ok(bytes)
}

/// The names of the shapes of a pack and of their layers, and of the strategies of its plans.
pub fn names(shapes: &[(&str, &Network)], strategies: &[&str]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut known: HashMap<&str, Name> = HashMap::new();
    let mut names: Vec<Name> = Vec::new();
    for (own, network) in shapes {
        // Shapes have the same layers, or nearly.
        for string in [*own].into_iter().chain(network.names.iter().map(String::as_str)) {
            names.push(*known.entry(string).or_insert_with(|| name(&mut text, string)));
        }
    }
    for strategy in strategies {
        names.push(name(&mut text, strategy));
    }
    let layers = shapes.iter().map(|(_, network)| network.names.len() as u32);
    let counts: Vec<u32> = layers.chain([strategies.len() as u32]).collect();
    let mut bytes = bytemuck::cast_slice(&counts).to_vec();
    bytes.extend_from_slice(bytemuck::cast_slice(&names));
    bytes.extend_from_slice(&text);
    bytes
}

/// The tables of a plan, with checksums of its loads by `crc`.
pub fn plan(plan: &Plan, crc: impl Fn(&Load) -> u32) -> Result<Vec<u8>, Flaw> {
    let (mut works, mut steps) = (Once::<WorkRecord>::new(), Vec::<StepRecord>::new());
    for (index, step) in plan.steps.iter().enumerate() {
        let (mut record, work) = step.store().map_err(at(index))?;
        record.work = works.put(&[work]);
        steps.push(record);
    }
    let staging_pages = pack::stored::pages(plan.staging_bytes)?;
    let header = PlanHeader {
        buffers: plan.places.len() as u32,
        resident_loads: plan.resident.len() as u32,
        loads: plan.loads.len() as u32,
        works: works.table.len() as u32,
        steps: steps.len() as u32,
        staging_pages,
    };
    let mut bytes = bytemuck::bytes_of(&header).to_vec();
    bytes.extend(records(&plan.places, pack::Place::store)?);
    for loads in [&plan.resident, &plan.loads] {
        bytes.extend(records(loads, |load| Load { crc: crc(load), ..*load }.store())?);
    }
    bytes.extend_from_slice(bytemuck::cast_slice(&works.table));
    bytes.extend_from_slice(bytemuck::cast_slice(&steps));
    bytes.extend(records(&plan.stages, pack::Stage::store)?);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::example;
    use eyelet::kernels::Isa;
    use eyelet::pack::LayerNames;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn names_are_found_again() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (network, _) = example::network(Isa::Portable, &mut rng, 5);
        let bytes = names(&[("seq=4", &network), ("seq=8", &network)], &["joint", "mine"]);
        // Views need the alignment that a page has.
        let mut words = vec![0u32; bytes.len().div_ceil(4)];
        bytemuck::cast_slice_mut::<_, u8>(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        let aligned = &bytemuck::cast_slice::<_, u8>(&words)[..bytes.len()];
        let found = LayerNames::view(aligned, 2).unwrap();
        assert_eq!([found.of_shape(0), found.of_shape(1)], ["seq=4", "seq=8"]);
        for (layer, name) in network.names.iter().enumerate() {
            assert_eq!([found.of(0, layer), found.of(1, layer)], [name, name]);
        }
        assert_eq!(found.strategies().collect::<Vec<_>>(), ["joint", "mine"]);
        // Tables that end too early are refused.
        let table = 4 * 3 + size_of::<Name>() * (2 * (network.names.len() + 1) + 2);
        assert!(LayerNames::view(&aligned[..table], 2).is_ok());
        assert!(LayerNames::view(&aligned[..table - 4], 2).is_err());
        assert!(LayerNames::view(&aligned[..8], 2).is_err());
    }
}
