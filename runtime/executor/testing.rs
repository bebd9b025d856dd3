//! A pack that fits a page or two, made by hand: small enough for an interpreter.
//!
//! Three layers over an image of 2x1 or 1x3 pixels, the shapes of the pack: a convolution of 8 channels to 16 in two panels, each
//! a step, one back to 8, and a depthwise 3x3. Weights are small whole numbers, so that sums are
//! exact. Each layer's weights are a page of the file. Three plans of each shape have different pages for
//! residents, in different places, and stream the others through one page of the arena. A second pack has a plan that
//! streams all weights and one that holds all.

use crate::kernels::testing::pack;
use crate::ops::{self, Problem, Slice};
use crate::pack::crc32c::crc32c;
use crate::pack::{
    Activation, Buffer, ConvParams, Header, Isa, Layer, Load, MAGIC, NONE, Name, OpKind, PAGE,
    PLANS, Place, PlanEntry, PlanHeader, Port, SHAPES, SKELETON, ShapeEntry, SkeletonHeader, Step,
    Tensor, VERSION, params_words,
};
use bytemuck::{Pod, Zeroable, bytes_of, cast_slice};
use std::vec::Vec;

/// Height and width of the image in each shape.
const IMAGES: [[u32; 2]; 2] = [[2, 1], [1, 3]];

/// Pixels of the image in a shape.
pub fn pixels(shape: usize) -> usize {
    IMAGES[shape].iter().product::<u32>() as usize
}

const CHANNELS: [u32; 4] = [8, 16, 8, 8];
const NR: usize = Isa::Portable.panel();

/// Threads that plans have scratch for.
pub const THREADS: u32 = 3;

/// Pages of the arena of each plan: header and skeleton, tables, activations, streamed weights, and
/// residents.
pub const BUDGETS: [u64; 3] = [4 * PAGE, 5 * PAGE, 6 * PAGE];

/// The pages of weights that are residents of each plan, and the page of the arena that each has.
const RESIDENTS: [&[(u64, u64)]; 3] = [&[], &[(1, 4)], &[(0, 4), (1, 5)]];

/// Pages of the arena of a plan that holds all weights, and of one that streams them: the chunks of the former are
/// pages 3 to 6, the last of which holds nothing. The latter's are pages 2 and 3.
pub const WHOLE: u64 = 7 * PAGE;
pub const STREAMING: u64 = 4 * PAGE;

/// A memory that starts on a page.
#[repr(align(4096))]
pub struct Pages<const N: usize>(pub [u8; N]);

fn input(at: usize) -> f32 {
    (at % 7) as f32 - 3.0
}

/// The network's input in a shape.
pub fn inputs(shape: usize) -> Vec<f32> {
    (0..pixels(shape) * CHANNELS[0] as usize).map(input).collect()
}

/// Weights of a layer, `[channel][k]`.
fn weights(layer: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * (layer + 3) + at / 5) % 5) as f32 - 2.0).collect()
}

fn bias(layer: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at + layer) % 3) as f32).collect()
}

/// The outputs of the network in a shape, by the definition.
pub fn outputs(shape: usize) -> Vec<f32> {
    outputs_of(shape, inputs(shape))
}

/// The outputs of the network for these inputs.
pub fn outputs_of(shape: usize, mut image: Vec<f32>) -> Vec<f32> {
    for layer in 0..2 {
        let [from, to] = [layer, layer + 1].map(|at| CHANNELS[at] as usize);
        let (weights, bias) = (weights(layer, from * to), bias(layer, to));
        let pixel = |pixel: &[f32]| -> Vec<f32> {
            let sum = |channel: usize| -> f32 {
                let weights = &weights[channel * from..][..from];
                bias[channel] + pixel.iter().zip(weights).map(|(x, w)| x * w).sum::<f32>()
            };
            (0..to).map(sum).collect()
        };
        image = image.chunks_exact(from).flat_map(pixel).collect();
    }
    let channels = CHANNELS[3] as usize;
    let (weights, bias) = (weights(2, 9 * channels), bias(2, channels));
    let [height, width] = IMAGES[shape].map(|extent| extent as i64);
    let mut out = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for channel in 0..channels {
            let mut sum = bias[channel];
            for (at, weight) in weights[channel * 9..][..9].iter().enumerate() {
                let (y, x) = (y + at as i64 / 3 - 1, x + at as i64 % 3 - 1);
                if (0..height).contains(&y) && (0..width).contains(&x) {
                    sum += image[(y * width + x) as usize * channels + channel] * weight;
                }
            }
            out.push(sum);
        }
    }
    out
}

fn tensors(shape: usize) -> Vec<Tensor> {
    let [height, width] = IMAGES[shape];
    let of = |(buffer, &channels): (usize, &u32)| Tensor {
        buffer: buffer as u32,
        offset: 0,
        dims: [1, height, width, channels],
        pitch: channels,
    };
    CHANNELS.iter().enumerate().map(of).collect()
}

fn buffers(shape: usize) -> Vec<Buffer> {
    let floats = |channels: &u32| pixels(shape) as u64 * u64::from(*channels);
    let bytes = |channels: &u32| (floats(channels) * 4).next_multiple_of(64);
    CHANNELS.iter().map(|channels| Buffer::floats(bytes(channels))).collect()
}

/// The layers, and a page of weights for each.
fn layers() -> (Vec<Layer>, Vec<u8>) {
    let mut pages = Vec::new();
    let layer = |index: usize| {
        let depthwise = index == 2;
        let (taps, pad) = if depthwise { (3, 1) } else { (1, 0) };
        let groups = if depthwise { CHANNELS[2] } else { 1 };
        let params = ConvParams {
            kernel: [taps; 2],
            stride: [1; 2],
            dilation: [1; 2],
            pad: [pad; 2],
            groups,
            chains: 0,
        };
        let (from, to) = (CHANNELS[index] / groups, CHANNELS[index + 1] as usize);
        let k = (taps * taps * from) as usize;
        let packed = pack(&weights(index, k * to), &bias(index, to), 1, NR);
        pages.resize(index * PAGE as usize, 0);
        pages.extend_from_slice(cast_slice(&packed));
        let panels = to.div_ceil(NR) as u32;
        Layer {
            kind: if depthwise { OpKind::Depthwise } else { OpKind::Conv } as u32,
            inputs: [index as u32, NONE, NONE],
            output: index as u32 + 1,
            activation: Activation::NONE,
            panels,
            panel_bytes: 4 * packed.len() as u32 / panels,
            width: 0,
            encoding: 0,
            weights: index as u64 * PAGE,
            params: params_words(&params),
        }
    };
    let layers = (0..3).map(layer).collect();
    pages.resize(3 * PAGE as usize, 0);
    (layers, pages)
}

fn skeleton(layers: &[Layer], shape: usize) -> Vec<u8> {
    let mut words: Vec<u32> = Vec::new();
    let stored = |layer: &Layer| {
        let (mut record, all) = layer.store().unwrap();
        record.first_word = words.len() as u32;
        words.extend_from_slice(&all[..record.words.into()]);
        record
    };
    let records: Vec<_> = layers.iter().map(stored).collect();
    let [height, width] = IMAGES[shape];
    let port = |tensor: usize| Port {
        name: Name::default(),
        tensor: tensor as u32,
        kind: 0,
        rank: 4,
        shape: [1, height, width, CHANNELS[tensor], 1, 1, 1, 1],
    };
    let header = SkeletonHeader {
        buffers: 4,
        tensors: 4,
        layers: 3,
        words: words.len() as u32,
        inputs: 1,
        outputs: 1,
        ..Zeroable::zeroed()
    };
    let buffers: Vec<_> = buffers(shape).iter().map(|buffer| buffer.store().unwrap()).collect();
    let mut bytes = bytes_of(&header).to_vec();
    bytes.extend_from_slice(cast_slice(&buffers));
    bytes.extend_from_slice(cast_slice(&tensors(shape)));
    bytes.extend_from_slice(cast_slice(&records));
    bytes.extend_from_slice(cast_slice(&words));
    bytes.extend_from_slice(cast_slice(&[port(0), port(3)]));
    bytes
}

/// A plan of a shape with these residents; everything else is loaded to page 3, one layer after the other.
fn plan(layers: &[Layer], pages: &[u8], shape: usize, residents: &[(u64, u64)]) -> Vec<u8> {
    const ACTIVATIONS: u64 = 2 * PAGE;
    const STREAMED: u64 = 3;
    /// The steps of each layer.
    const STEPS: [&[u32]; 3] = [&[0, 1], &[2], &[3]];
    let rows = pixels(shape) as u32;
    let mut address = ACTIVATIONS;
    let mut take = |bytes: u64| {
        address += bytes;
        address - bytes
    };
    let places: Vec<Place> = buffers(shape).iter().map(|b| Place::whole(take(b.bytes))).collect();
    let load = |page: u64, address: u64, release: i32| {
        let bytes = &pages[(page * PAGE) as usize..][..PAGE as usize];
        let (offset, address) = (page * PAGE, address * PAGE);
        Load { offset, address, bytes: PAGE as u32, crc: crc32c(0, bytes), release }
    };
    let resident: Vec<_> =
        residents.iter().map(|&(page, address)| load(page, address, 0).store().unwrap()).collect();
    let (mut loads, mut steps, mut works) = (Vec::new(), Vec::new(), Vec::new());
    let mut free = 0;
    for (index, layer) in layers.iter().enumerate() {
        let found = residents.iter().find(|(page, _)| *page == index as u64);
        let at = found.map_or(STREAMED, |(_, address)| *address);
        if found.is_none() {
            loads.push(load(index as u64, at, free).store().unwrap());
            // With the host's turn, when all steps of the layer are done.
            free = 2 + STEPS[index].last().copied().unwrap() as i32;
        }
        let tensors = tensors(shape);
        let (inputs, output) =
            (&[tensors[index], Tensor::default(), Tensor::default()], &tensors[index + 1]);
        for first in 0..layer.panels {
            let slice = Slice { first, count: 1, row: 0, rows, ..Slice::default() };
            let (threads, isa) = (THREADS, Isa::Portable);
            let problem = Problem { layer, inputs, output, slice, threads, isa };
            let bytes = ops::scratch_bytes(&problem);
            let step = Step {
                layer: index as u32,
                ready: loads.len() as u32,
                first,
                count: 1,
                rows,
                weights: at * PAGE + u64::from(first * layer.panel_bytes),
                scratch: take(bytes),
                scratch_bytes: bytes,
                ..Step::default()
            };
            let (mut record, work) = step.store().unwrap();
            record.work = works.len() as u32;
            steps.push(record);
            works.push(work);
        }
    }
    // The first load waits for the last one of the inference before.
    assert!(address <= ACTIVATIONS + PAGE && loads.len() + resident.len() == 3);
    let header = PlanHeader {
        buffers: 4,
        resident_loads: resident.len() as u32,
        loads: loads.len() as u32,
        works: works.len() as u32,
        steps: steps.len() as u32,
        staging_pages: 0,
    };
    let mut bytes = bytes_of(&header).to_vec();
    let places: Vec<_> = places.iter().map(|place| place.store().unwrap()).collect();
    bytes.extend_from_slice(cast_slice(&places));
    bytes.extend_from_slice(cast_slice(&resident));
    bytes.extend_from_slice(cast_slice(&loads));
    bytes.extend_from_slice(cast_slice(&works));
    bytes.extend_from_slice(cast_slice(&steps));
    bytes
}

/// Puts a record into a page.
fn put(page: &mut [u8], at: usize, record: &impl Pod) {
    let bytes = bytes_of(record);
    page[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Appends a section to a file of whole pages. Returns where it starts.
fn append(file: &mut Vec<u8>, section: &[u8]) -> u64 {
    let at = file.len() as u64;
    file.extend_from_slice(section);
    file.resize(file.len().next_multiple_of(PAGE as usize), 0);
    at
}

/// The pack: in each shape a plan for each budget.
pub fn network() -> Vec<u8> {
    file(&[0, 1, 2].map(|at| (RESIDENTS[at], BUDGETS[at])))
}

/// A pack of two plans in each shape: one that streams, and one that holds all weights.
#[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
pub fn two_ways() -> Vec<u8> {
    file(&[(&[], STREAMING), (&[(0, 3), (1, 4), (2, 5)], WHOLE)])
}

/// A pack with these plans in each shape: residents, and bytes of the arena.
fn file(kinds: &[(&[(u64, u64)], u64)]) -> Vec<u8> {
    let (layers, pages) = layers();
    let page = PAGE as usize;
    let mut file = std::vec![0; page];
    let mut plans = 0;
    for shape in 0..IMAGES.len() {
        let skeleton = skeleton(&layers, shape);
        assert!(SKELETON as usize + skeleton.len() <= page);
        let offset = append(&mut file, &skeleton);
        let (bytes, crc) = (skeleton.len() as u32, crc32c(0, &skeleton));
        let at = SHAPES + shape * size_of::<ShapeEntry>();
        put(&mut file, at, &ShapeEntry { offset, bytes, crc });
        for &(residents, bytes) in kinds {
            let plan = plan(&layers, &pages, shape, residents);
            let entry = PlanEntry {
                budget: bytes,
                arena_bytes: bytes,
                offset: append(&mut file, &plan),
                bytes: plan.len() as u32,
                crc: crc32c(0, &plan),
                threads: THREADS as u16,
                shape: shape as u16,
                ..PlanEntry::zeroed()
            };
            put(&mut file, PLANS + plans * size_of::<PlanEntry>(), &entry);
            plans += 1;
        }
    }
    let weights_offset = append(&mut file, &pages);
    let mut header = Header {
        magic: MAGIC,
        version: VERSION,
        isa: Isa::Portable as u32,
        panel: NR as u16,
        file_bytes: file.len() as u64,
        weights_offset,
        weights_bytes: pages.len() as u64,
        shapes: IMAGES.len() as u32,
        plans: plans as u32,
        ..Header::zeroed()
    };
    put(&mut file, 0, &header);
    header.crc = crc32c(0, &file[..page]);
    put(&mut file, 0, &header);
    file
}
