//! Packs that are made by hand.
#![allow(dead_code)]

use super::forge::{Guarded, PLAIN, run, seal};
use eyelet::executor::OpenError;
use eyelet::kernels::Isa;
use eyelet::pack::stored::{LayerRecord, StepRecord, WorkRecord};
use eyelet::pack::{
    Buffer, ConvParams, CopyParams, Encoding, Flaw, Header, Layer, Load, MAGIC, NONE, Name, OpKind,
    PAGE, PLANS, Place, PlanEntry, PlanHeader, PoolParams, Port, SHAPES, ShapeEntry,
    SkeletonHeader, Step, Tensor, VERSION, params_words,
};
use std::collections::HashMap;
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
    /// Threads that the plan serves.
    pub threads: u16,
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
            threads: 3,
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

    /// Steps of a convolution in two groups with weights of 16 bits, which threads expand together:
    /// `works` different ones, each `times` times.
    pub fn grouped(arena: u64, works: u32, times: u32) -> Self {
        let mut records = Self::copy(arena);
        let (side, channels) = (128u32, 16u32);
        let (rows, isa) = (side * side, records.isa);
        let bytes = u64::from(4 * channels * rows);
        records.buffers = vec![Buffer::floats(bytes); 2];
        let image =
            Tensor { dims: [1, side, side, channels], pitch: channels, ..Tensor::default() };
        records.tensors = vec![image, Tensor { buffer: 1, ..image }];
        for port in records.inputs.iter_mut().chain(&mut records.outputs) {
            port.shape[0] = rows * channels;
        }
        let p = ConvParams {
            kernel: [1; 2],
            stride: [1; 2],
            dilation: [1; 2],
            groups: 2,
            ..ConvParams::default()
        };
        let (in_group, encoding) = (channels / 2, Encoding::F16);
        let panel = encoding.panel_bytes(in_group.into(), isa.panel(), isa.panel()).unwrap();
        let panels = 2 * in_group.div_ceil(isa.panel() as u32);
        records.layers[0] = Layer {
            kind: OpKind::Conv as u32,
            panels,
            panel_bytes: panel as u32,
            encoding: encoding as u32,
            params: params_words(&p),
            ..records.layers[0]
        };
        records.places = vec![Place::whole(arena - bytes), Place::whole(arena - 2 * bytes)];
        let scratch_bytes = 1 << 20;
        let scratch = arena - 2 * bytes - scratch_bytes;
        let step = Step { count: panels, scratch, scratch_bytes, ..Step::default() };
        let weights = scratch - PAGE;
        // They differ in their rows.
        let step = |i: u32| Step { rows: 1 + i % works, row: i / works, weights, ..step };
        records.steps = (0..works * times).map(step).collect();
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
        let mut works: Vec<WorkRecord> = Vec::new();
        let mut known = HashMap::new();
        let steps = stored(&self.steps, Step::store).into_iter().map(|(step, work)| {
            let work = *known.entry(work).or_insert_with(|| {
                works.push(work);
                works.len() as u32 - 1
            });
            StepRecord { work, ..step }
        });
        let steps: Vec<StepRecord> = steps.collect();
        let plan = PlanHeader {
            buffers: self.places.len() as u32,
            resident_loads: self.resident.len() as u32,
            loads: self.loads.len() as u32,
            works: works.len() as u32,
            steps: self.steps.len() as u32,
            ..PlanHeader::default()
        };
        let plan = [
            bytemuck::bytes_of(&plan),
            bytemuck::cast_slice(&stored(&self.places, Place::store)),
            bytemuck::cast_slice(&stored(&self.resident, Load::store)),
            bytemuck::cast_slice(&stored(&self.loads, Load::store)),
            bytemuck::cast_slice(&works),
            bytemuck::cast_slice(&steps),
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
            threads: self.threads,
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
