//! Damaged models: whatever the bytes, there is a graph or an error, never a panic.

use super::control::{calling, counting};
use super::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A model with something of everything.
fn model() -> Model {
    Model::new(13)
        .input("x", &[1, 4, 6, 6])
        .weights("w", &[4, 2, 3, 3])
        .weights("b", &[4])
        .node("Conv", "x w b", "c", vec![ints("pads", &[1, 1, 1, 1]), int("group", 2)])
        .node("Relu", "c", "r", vec![])
        .node(
            "AveragePool",
            "r",
            "p",
            vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2]), int("ceil_mode", 1)],
        )
        .node("Split", "p", "s t", vec![int("axis", 1)])
        .node("Concat", "t s", "j", vec![int("axis", 1)])
        .node("Shape", "j", "n", vec![])
        .list("from", &[0])
        .list("to", &[1])
        .list("rest", &[-1])
        .node("Slice", "n from to", "m", vec![])
        .node("Concat", "m rest", "o", vec![int("axis", 0)])
        .node("Reshape", "j o", "f", vec![])
        .node("Transpose", "v", "u", vec![ints("perm", &[1, 0])])
        .weights("v", &[5, 36])
        .node("MatMul", "f u", "g", vec![])
        .node("Softmax", "g", "h", vec![int("axis", -1)])
        .list("pads", &[0, 1, 0, 2])
        .node("Pad", "h pads", "i", vec![])
        .node("ReduceMean", "i", "y", vec![ints("axes", &[1])])
        .output("y")
}

/// The same of a transformer.
fn transformer() -> Model {
    let mut model = Model::new(20).weights("t", &[5, 4]).weights("s", &[4]);
    model.graph().input.push(port("ids", DataType::Int64, vec![dimension(1), dimension(3)]));
    model
        .node("Gather", "t ids", "x", vec![])
        .node("LayerNormalization", "x s s", "n", vec![])
        .node("Gelu", "n", "g", vec![string("approximate", "tanh")])
        .node("Transpose", "g", "k", vec![ints("perm", &[0, 2, 1])])
        .node("MatMul", "g k", "p", vec![])
        .initializer(integer_tensor("c", &[1, 3], &[1, 1, 0]))
        .initializer(float_tensor("low", &[], &[-9.0]))
        .node("Where", "c p low", "m", vec![])
        .initializer(float_tensor("three", &[], &[3.0]))
        .node("Pow", "m three", "q", vec![])
        .list("e", &[2, 3, 3])
        .node("Expand", "q e", "z", vec![])
        .initializer(float_tensor("f", &[3], &[1.0, 2.0, 1.0]))
        .node("Resize", "z - f", "y", vec![])
        .output("y")
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = Bytes::from(model().bytes());
    import_bytes(bytes.clone(), None).expect("the whole model");
    for length in 0..bytes.len() {
        let error = import_bytes(bytes.slice(..length), None).expect_err("a truncated model");
        let text = error.to_string();
        assert!(length == 0 || text.contains("truncated"), "{length}: {text}");
    }
}

#[test]
fn random_changes_never_panic() {
    let originals = [model().bytes(), transformer().bytes()];
    // Damage may make a loop of these run until it is stopped, which takes a while.
    let controlled = [counting("three", 99).output("all").bytes(), calling(vec![]).bytes()];
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut imported = 0;
    for round in 0..50_000 {
        let mut bytes = match round % 16 {
            0 => &controlled[round / 16 % 2],
            _ => &originals[round % 2],
        }
        .clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..4) {
                0 => bytes[at] ^= 1 << random.random_range(0..8),
                1 => bytes[at] = random.random(),
                2 => drop(bytes.remove(at)),
                _ => {
                    let from = random.random_range(0..bytes.len());
                    let end = (from + random.random_range(1..16)).min(bytes.len());
                    let piece = bytes[from..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        if let Ok(graph) = import_bytes(bytes.into(), None) {
            imported += 1;
            // What was imported is consistent: it can be run, unless a change made it large.
            let largest = graph.values.iter().map(|value| value.elements()).max();
            if largest.is_some_and(|largest| largest < 10_000) {
                let input = |id: &usize| vec![1.0; graph.values[*id].elements()];
                reference::run(&graph, &graph.inputs.iter().map(input).collect::<Vec<_>>());
            }
        }
    }
    assert!(imported > 1000, "{imported}");
}

/// Changes to the decoded messages reach further than changes to bytes.
#[test]
fn random_attributes_and_dimensions_never_panic() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let numbers = [-1, 0, 1, 2, 3, 7, 64, -64, 1 << 31, 1 << 40, 1 << 62, i64::MAX, i64::MIN];
    for round in 0..30_000 {
        let mut model = if round % 3 == 0 { transformer() } else { model() };
        for _ in 0..random.random_range(1..4) {
            let number = numbers[random.random_range(0..numbers.len())];
            let graph = model.graph();
            let node = random.random_range(0..graph.node.len());
            let tensor = random.random_range(0..graph.initializer.len());
            match random.random_range(0..6) {
                0 => {
                    for attribute in &mut graph.node[node].attribute {
                        attribute.i = number;
                        let count = attribute.ints.len().max(1);
                        if let Some(one) = attribute.ints.get_mut(random.random_range(0..count)) {
                            *one = number;
                        }
                    }
                }
                1 => {
                    let dims = &mut graph.initializer[tensor].dims;
                    let at = random.random_range(0..dims.len().max(1));
                    if let Some(dim) = dims.get_mut(at) {
                        *dim = number;
                    }
                }
                2 => {
                    let data = &mut graph.initializer[tensor].int64_data;
                    data.iter_mut().for_each(|value| *value = number);
                }
                3 => {
                    let at = random.random_range(0..4);
                    let extents = vec![dimension(number); at];
                    graph.input[0] = port("x", DataType::Float, extents);
                }
                4 => {
                    let other = random.random_range(0..graph.node.len());
                    let operator = graph.node[other].op_type.clone();
                    graph.node[node].op_type = operator;
                }
                _ => {
                    let other = random.random_range(0..graph.node.len());
                    let output = graph.node[other].output[0].clone();
                    let inputs = &mut graph.node[node].input;
                    let at = random.random_range(0..inputs.len());
                    inputs[at] = output;
                }
            }
        }
        drop(model.try_import());
    }
}
