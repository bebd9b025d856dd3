//! Random networks against Darknet's own loops ([`machine`]), and what is wrong with files.

mod errors;
mod machine;

use super::*;
use crate::reference;
use crate::testing::Net;
use machine::{Machine, Map, Part};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

/// Weights with a header of the given version.
fn file(version: [i32; 2], numbers: &[u8]) -> Bytes {
    let mut file: Vec<u8> =
        [version[0], version[1], 0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let [major, minor] = version;
    let wide = major * 10 + minor >= 2 && major <= 1000 && minor <= 1000;
    file.extend_from_slice(if wide { &[7; 8] } else { &[7; 4] });
    file.extend_from_slice(numbers);
    file.into()
}

/// A section that fits what comes before it; `None` where the drawn kind does not.
fn drawn(machine: &Machine, random: &mut ChaCha8Rng) -> Option<Part> {
    let [channels, height, width] = machine.last().shape;
    let count = machine.outputs.len();
    let activation = *super::activations::NAMES.choose(random).unwrap();
    // Layers that may be read, of those with a property; some named from the front, some from the
    // back.
    let pick = |random: &mut ChaCha8Rng, fits: &dyn Fn(&Map) -> bool| {
        let layers: Vec<usize> = (0..count)
            .filter(|at| !machine.heads.contains(at) && fits(&machine.outputs[*at]))
            .collect();
        let layer = *layers.choose(random)? as i64;
        Some(if random.random() { layer } else { layer - count as i64 })
    };
    let small = machine.last().data.len() < 600;
    Some(match random.random_range(0..16) {
        0..3 => {
            let groups = *[1, 1, 2, 3, channels].choose(random)?;
            let filters = groups * random.random_range(1..4);
            let size = random.random_range(1..5usize);
            let padding = random.random::<bool>().then(|| random.random_range(0..3));
            let dilation = match padding {
                None if size % 2 == 1 => random.random_range(1..3),
                _ => 1,
            };
            let room = 2 * padding.unwrap_or(size / 2) + height.min(width);
            let fits = channels % groups == 0 && filters < 20 && room >= size;
            let stride = [random.random_range(1..3), random.random_range(1..3)];
            let norm = random.random();
            fits.then_some(Part::Convolution {
                filters,
                size,
                stride,
                padding,
                dilation,
                groups,
                norm,
                activation,
            })?
        }
        3 => {
            let output = random.random_range(1..9);
            Part::Connected { output, norm: random.random(), activation }
        }
        4 | 5 => {
            let fits = |map: &Map| {
                let [_, h, w] = map.shape;
                h >= height && w >= width && h / height == w / width
            };
            let from = (0..random.random_range(1..3)).map(|_| pick(random, &fits));
            Part::Shortcut { from: from.collect::<Option<_>>()?, activation }
        }
        6 | 7 => {
            let groups = random.random_range(1..3);
            let fits = |map: &Map| {
                map.shape[1..] == [height, width] && map.shape[0].is_multiple_of(groups)
            };
            let group = random.random_range(0..groups);
            let layers = (0..random.random_range(1..4)).map(|_| pick(random, &fits));
            Part::Route { layers: layers.collect::<Option<_>>()?, groups, group }
        }
        8 => {
            let size = random.random_range(1..6);
            let padding = random.random::<bool>().then(|| random.random_range(0..size));
            let fits = height.min(width) + padding.unwrap_or(size - 1) >= size;
            fits.then_some(Part::Max { size, stride: random.random_range(1..3), padding })?
        }
        9 if small => Part::Upsample(random.random_range(1..4)),
        10 if random.random_range(0..4) == 0 => Part::Average,
        11 => {
            let count = channels * height * width;
            let groups = *[1, 2].choose(random)?;
            (count % groups == 0 && random.random_range(0..3) == 0)
                .then_some(Part::Softmax(groups))?
        }
        12 => {
            let (stride, reverse) = (random.random_range(1..4), random.random());
            let whole = reverse || (height % stride, width % stride) == (0, 0);
            (channels % (stride * stride) == 0 && whole)
                .then_some(Part::Reorg { stride, reverse })?
        }
        13 => Part::Activation(activation),
        14 if (height, width) == (1, 1) => {
            Part::Scale(pick(random, &|map| map.shape[0] == channels)?)
        }
        14 => Part::Sam(pick(random, &|map| map.shape == [channels, height, width])?),
        _ => Part::Dropout,
    })
}

fn kind(part: &Part) -> String {
    format!("{part:?}").split([' ', '(']).next().unwrap().to_string()
}

#[test]
fn random_networks_compute_what_darknet_computes() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut kinds = BTreeSet::new();
    for round in 0..300 {
        let extents =
            [random.random_range(1..9), random.random_range(1..9), random.random_range(1..9)];
        let version = *[[0, 1], [0, 2], [1, 0], [0, 1001]].choose(&mut random).unwrap();
        let mut machine = Machine::new(extents, version[1] > 1000, &mut random);
        while machine.outputs.len() < 12 {
            let Some(part) = drawn(&machine, &mut random) else { continue };
            machine.push(&part, &mut random);
            kinds.insert(kind(&part));
            if random.random_range(0..12) == 0 {
                let (boxes, classes) = (random.random_range(1..4), random.random_range(0..3));
                let conv = Part::Convolution {
                    filters: boxes * (classes + 5),
                    size: 1,
                    stride: [1, 1],
                    padding: None,
                    dilation: 1,
                    groups: 1,
                    norm: false,
                    activation: "linear",
                };
                let back = Part::Route { layers: vec![-3], groups: 1, group: 0 };
                for part in [conv, Part::Yolo { boxes, classes }, back] {
                    machine.push(&part, &mut random);
                    kinds.insert(kind(&part));
                }
            }
        }
        let graph =
            import_bytes("random", machine.text.as_bytes(), file(version, &machine.weights))
                .unwrap_or_else(|error| panic!("{round}: {error}\n{}", machine.text));
        compare(&graph, &machine, round);
        if round % 10 == 0 {
            Net { graph, seed: round }.check_all();
        }
    }
    assert_eq!(kinds.len(), 14, "{kinds:?}");
}

fn compare(graph: &Graph, machine: &Machine, round: u64) {
    let found = reference::run(graph, std::slice::from_ref(&machine.image.data));
    let outputs = match machine.heads.is_empty() {
        true => vec![machine.outputs.len() - 1],
        false => machine.heads.clone(),
    };
    assert_eq!(found.len(), outputs.len(), "{round}\n{}", machine.text);
    for ((found, output), &port) in found.iter().zip(outputs).zip(&graph.outputs) {
        let expected = &machine.outputs[output];
        let scale = expected.data.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        assert_eq!(found.len(), expected.data.len());
        for (found, expected) in found.iter().zip(&expected.data) {
            let name = &graph.values[port].name;
            let near = (found - expected).abs() <= 1e-4 * scale;
            assert!(near, "{round} {name}: {found}, not {expected}\n{}", machine.text);
        }
    }
}

#[test]
fn heads_are_outputs_and_weights_stay_in_their_file() {
    let text = b"[net]\nchannels=3\nheight=4\nwidth=4\n[conv]\nfilters=6\nactivation=linear\n\
        [yolo]\nclasses=1\nmask=0\n[route]\nlayers=0\n[conv]\nfilters=12\nactivation=linear\n[yolo]\nclasses=1\nmask=0,1\n";
    let numbers: Vec<u8> = (0..108u32).flat_map(|at| (at as f32).to_le_bytes()).collect();
    assert_eq!(weights_bytes(text).unwrap(), 20 + numbers.len() as u64);
    let weights = file([0, 2], &numbers);
    let graph = import_bytes("heads", text, weights.clone()).unwrap();
    let names: Vec<&str> = graph.outputs.iter().map(|&id| &*graph.values[id].name).collect();
    assert_eq!(names, ["yolo_1", "yolo_4"]);
    assert_eq!(graph.values[graph.outputs[1]].shape, [1, 12, 4, 4]);
    let inside = weights.as_ptr_range();
    for constant in graph.values.iter().filter_map(|value| value.constant.as_ref()) {
        let crate::graph::Constant::Raw(bytes, _) = constant else { panic!("copied") };
        assert!(inside.contains(&bytes.as_ptr()));
    }
}

#[test]
fn only_keys_of_training_go_unread() {
    let text = b"[net]\nchannels=1\nheight=2\nwidth=2\nmomentum=0.9\ncolour=red\n[avgpool]\n";
    let graph = import_bytes("net", text, file([0, 2], &[])).unwrap();
    assert_eq!(graph.notes.len(), 1);
    assert!(
        graph.notes[0].contains("line 6") && graph.notes[0].contains("colour"),
        "{:?}",
        graph.notes
    );
    assert_eq!(graph.values[graph.outputs[0]].shape, [1, 1]);
}
