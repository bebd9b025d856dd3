//! Packs that are made by hand.
#![allow(dead_code)]

use super::forge::{Guarded, PLAIN, run, seal};
use eyelet::executor::OpenError;
use eyelet::kernels::Isa;
use eyelet::pack::stored::{LayerRecord, StepRecord, WorkRecord};
use eyelet::pack::{
    Buffer, CopyParams, Flaw, Header, Layer, Load, MAGIC, NONE, Name, OpKind, PAGE, PLANS, Place,
    PlanEntry, PlanHeader, PoolParams, Port, SHAPES, ShapeEntry, SkeletonHeader, Step, Tensor,
    VERSION, params_words,
};
use std::time::{Duration, Instant};

/// A pack put together from records, with weights as given or zero: what no planner would make.
pub struct Records {
    pub buffers: Vec<Buffer>,
    pub tensors: Vec<Tensor>,
    pub layers: Vec<Layer>,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub places: Vec<Place>,
    pub resident: Vec<Load>,
    pub loads: Vec<Load>,
    pub steps: Vec<Step>,
    pub arena: u64,
    /// Bytes of the weights section, which begins with `data`.
    pub weights: u64,
    pub data: Vec<f32>,
    pub isa: Isa,
}

/// As they are stored.
fn stored<T, R>(all: &[T], store: impl Fn(&T) -> Result<R, Flaw>) -> Vec<R> {
    all.iter().map(|record| store(record).unwrap()).collect()
}

impl Records {
    /// One copy of 16 floats from an input to an output, in an arena of that size.
    pub fn copy(arena: u64) -> Self {
        let buffers = vec![Buffer::floats(64); 2];
        let tensor =
            |buffer| Tensor { buffer, dims: [1, 1, 1, 16], pitch: 16, ..Tensor::default() };
        let port = |tensor| {
            let mut shape = [1; 8];
            shape[0] = 16;
            Port { tensor, rank: 1, shape, ..Port::default() }
        };
        let params = CopyParams {
            dims: [1, 1, 1, 1, 1, 16],
            src: [1; 6],
            dst: [1; 6],
            ..CopyParams::default()
        };
        let layer = Layer {
            kind: OpKind::Copy as u32,
            inputs: [0, NONE, NONE],
            output: 1,
            params: params_words(&params),
            ..Layer::default()
        };
        let step = Step { rows: 1, ..Step::default() };
        Self {
            buffers,
            tensors: vec![tensor(0), tensor(1)],
            layers: vec![layer],
            inputs: vec![port(0)],
            outputs: vec![port(1)],
            places: vec![Place::whole(arena - 128), Place::whole(arena - 64)],
            resident: Vec::new(),
            loads: Vec::new(),
            steps: vec![step],
            arena,
            weights: PAGE,
            data: Vec::new(),
            isa: Isa::Portable,
        }
    }

    /// Pooling of an image of one channel by a window that covers all of it, wherever its middle is.
    pub fn pooling(arena: u64, side: u32, average: bool) -> Self {
        let mut records = Self::copy(arena);
        let image = Tensor { dims: [1, side, side, 1], pitch: 1, ..Tensor::default() };
        records.tensors = vec![image, Tensor { buffer: 1, ..image }];
        let bytes = u64::from(side * side * 4).next_multiple_of(64);
        records.buffers = vec![Buffer::floats(bytes); 2];
        records.places = vec![Place::whole(arena - 2 * bytes), Place::whole(arena - bytes)];
        let params = PoolParams {
            average: average.into(),
            kernel: [2 * side - 1; 2],
            stride: [1; 2],
            dilation: [1; 2],
            pad: [side - 1; 2],
            pad_end: [side - 1; 2],
            ..PoolParams::default()
        };
        let layer = &mut records.layers[0];
        (layer.kind, layer.params) = (OpKind::Pool as u32, params_words(&params));
        for port in records.inputs.iter_mut().chain(&mut records.outputs) {
            (port.rank, port.shape) = (2, [side, side, 1, 1, 1, 1, 1, 1]);
        }
        records.steps[0].rows = side * side;
        records
    }

    pub fn pack(&self) -> Vec<u8> {
        let mut words: Vec<u32> = Vec::new();
        let layers = self.layers.iter().map(|layer| {
            let (record, its) = layer.store().unwrap();
            let first_word = words.len() as u32;
            words.extend_from_slice(&its[..record.words.into()]);
            LayerRecord { first_word, ..record }
        });
        let layers: Vec<LayerRecord> = layers.collect();
        let skeleton = SkeletonHeader {
            buffers: self.buffers.len() as u32,
            tensors: self.tensors.len() as u32,
            layers: self.layers.len() as u32,
            words: words.len() as u32,
            inputs: self.inputs.len() as u32,
            outputs: self.outputs.len() as u32,
            names: 0,
            name: Name::default(),
        };
        let skeleton = [
            bytemuck::bytes_of(&skeleton),
            bytemuck::cast_slice(&stored(&self.buffers, Buffer::store)),
            bytemuck::cast_slice(&self.tensors),
            bytemuck::cast_slice(&layers),
            bytemuck::cast_slice(&words),
            bytemuck::cast_slice(&self.inputs),
            bytemuck::cast_slice(&self.outputs),
        ]
        .concat();
        let plan = PlanHeader {
            buffers: self.places.len() as u32,
            resident_loads: self.resident.len() as u32,
            loads: self.loads.len() as u32,
            works: self.steps.len() as u32,
            steps: self.steps.len() as u32,
            ..PlanHeader::default()
        };
        let steps = stored(&self.steps, Step::store);
        let works: Vec<WorkRecord> = steps.iter().map(|(_, work)| *work).collect();
        let steps = steps.iter().zip(0..).map(|((step, _), work)| StepRecord { work, ..*step });
        let plan = [
            bytemuck::bytes_of(&plan),
            bytemuck::cast_slice(&stored(&self.places, Place::store)),
            bytemuck::cast_slice(&stored(&self.resident, Load::store)),
            bytemuck::cast_slice(&stored(&self.loads, Load::store)),
            bytemuck::cast_slice(&works),
            bytemuck::cast_slice(&steps.collect::<Vec<_>>()),
        ]
        .concat();
        let plan_offset = PAGE + (skeleton.len() as u64).next_multiple_of(PAGE);
        let weights_offset = plan_offset + (plan.len() as u64).next_multiple_of(PAGE);
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            crc: 0,
            isa: self.isa as u32,
            panel: self.isa.panel() as u16,
            mapped: 0,
            file_bytes: weights_offset + self.weights,
            names_offset: weights_offset,
            names_bytes: 0,
            weights_offset,
            weights_bytes: self.weights,
            names_crc: 0,
            shapes: 1,
            plans: 1,
            weights_crc: 0,
        };
        let entry = PlanEntry {
            budget: self.arena,
            arena_bytes: self.arena,
            offset: plan_offset,
            bytes: plan.len() as u32,
            threads: 3,
            ..bytemuck::Zeroable::zeroed()
        };
        let shape = ShapeEntry { offset: PAGE, bytes: skeleton.len() as u32, crc: 0 };
        let mut pack = vec![0; header.file_bytes as usize];
        let mut put = |at: u64, bytes: &[u8]| {
            pack[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(0, bytemuck::bytes_of(&header));
        put(SHAPES as u64, bytemuck::bytes_of(&shape));
        put(PLANS as u64, bytemuck::bytes_of(&entry));
        put(PAGE, &skeleton);
        put(plan_offset, &plan);
        put(weights_offset, bytemuck::cast_slice(&self.data));
        seal(&mut pack);
        pack
    }

    /// The flaw for which it is refused, in less than ten seconds; `None` if it runs.
    pub fn flaw(&self) -> Option<&'static str> {
        let mut arena = Guarded::new(self.arena as usize);
        let pack = self.pack();
        let start = Instant::now();
        let result = run(&pack, &mut arena, PLAIN);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        match result {
            Ok(()) => None,
            Err(OpenError::Flaw(flaw)) => Some(flaw.what),
            Err(error) => panic!("{error}"),
        }
    }
}
