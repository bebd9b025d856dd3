//! Recurrent networks, against numbers of onnxruntime.

use super::*;

/// The three outputs for inputs that count up in steps of a tenth from a negative number.
#[track_caller]
fn outputs(model: &Model) -> Vec<Vec<f64>> {
    let graph = model.import();
    let stepped = |id: &usize| {
        let count = graph.values[*id].elements();
        (0..count).map(|at| (at % 7) as f64 * 0.1 - 0.3).collect()
    };
    let inputs: Vec<Vec<f64>> = graph.inputs.iter().map(stepped).collect();
    reference::run(&graph, &inputs)
}

#[track_caller]
fn near(found: &[f64], expected: &[f64]) {
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(same, "{found:?}, not {expected:?}");
}

fn strings(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    AttributeProto { strings, ..attribute(name, AttributeType::Strings) }
}

/// Weights of so many directions and gates of two units, over two inputs.
fn weighted(model: Model, directions: i64, gates: i64, inputs: i64) -> Model {
    let model = model.weights("w", &[directions, gates * 2, inputs]);
    model.weights("r", &[directions, gates * 2, 2]).weights("b", &[directions, gates * 4])
}

#[test]
fn lstm_in_both_directions_with_all_that_is_optional() {
    let attributes = vec![int("hidden_size", 2), string("direction", "bidirectional")];
    let model =
        Model::new(14).input("x", &[2, 1, 2]).input("h0", &[2, 1, 2]).input("c0", &[2, 1, 2]);
    let model = weighted(model, 2, 4, 2).weights("p", &[2, 6]);
    let model = model.node("LSTM", "x w r b - h0 c0 p", "y h c", attributes);
    let found = outputs(&model.clone().output("y").output("h").output("c"));
    let all = [0.219399, 0.256716, 0.856985, 0.717756, 0.388104, 0.587108, 0.556697, 0.405351];
    near(&found[0], &all);
    near(&found[1], &[0.388104, 0.587108, 0.856985, 0.717756]);
    near(&found[2], &[0.653030, 0.896257, 1.809255, 1.041637]);
    // With sequences first.
    let attributes =
        vec![int("hidden_size", 2), string("direction", "bidirectional"), int("layout", 1)];
    let model =
        Model::new(14).input("x", &[1, 2, 2]).input("h0", &[1, 2, 2]).input("c0", &[1, 2, 2]);
    let model = weighted(model, 2, 4, 2).weights("p", &[2, 6]);
    let model = model.node("LSTM", "x w r b - h0 c0 p", "y h c", attributes);
    let found = outputs(&model.output("y").output("h").output("c"));
    near(&found[0], &all);
    near(&found[1], &[0.388104, 0.587108, 0.856985, 0.717756]);
}

#[test]
fn gru_resets_before_or_after_the_product() {
    let attributes =
        vec![int("hidden_size", 2), string("direction", "reverse"), int("linear_before_reset", 1)];
    let model = weighted(Model::new(14).input("x", &[3, 1, 2]), 1, 3, 2);
    let found = outputs(&model.node("GRU", "x w r b", "y h", attributes).output("y").output("h"));
    near(&found[0], &[0.917328, 0.917996, 0.861759, 0.796842, 0.585474, 0.509311]);
    near(&found[1], &[0.917328, 0.917996]);
    let attributes = vec![int("hidden_size", 2), float("clip", 0.5)];
    let model = weighted(Model::new(14).input("x", &[2, 2, 1]), 1, 3, 1);
    let found = outputs(&model.node("GRU", "x w r b", "y h", attributes).output("h"));
    near(&found[0], &[0.383578, 0.340277, 0.387871, 0.349465]);
}

#[test]
fn rnn_with_a_function_of_its_own() {
    let functions =
        vec![strings("activations", &["LeakyRelu"]), floats("activation_alpha", &[0.2])];
    let model = weighted(Model::new(14).input("x", &[2, 2, 2]), 1, 1, 2);
    let model = model.node("RNN", "x w r", "y h", functions);
    near(&outputs(&model.output("h"))[0], &[-0.17, -0.075, -0.0425, -0.0275]);
}

#[test]
fn what_recurrent_networks_are_refused_for() {
    let of = |attributes, inputs: &str| {
        let model = weighted(Model::new(14).input("x", &[2, 1, 2]), 1, 4, 2).list("l", &[1]);
        let model = model.initializer(float_tensor("h0", &[1, 1, 2], &[1.0, 0.0]));
        model.node("LSTM", inputs, "y", attributes).output("y").error()
    };
    assert!(of(vec![int("input_forget", 1)], "x w r").contains("input_forget"));
    assert!(of(vec![], "x w r b l").contains("differ in length"));
    assert!(of(vec![], "x w r b - h0").contains("constant, but not zero"));
    let functions = vec![strings("activations", &["Sigmoid", "Sine", "Tanh"])];
    assert!(of(functions, "x w r").contains("function `Sine`"));
    let error = of(vec![int("hidden_size", 3)], "x w r");
    assert!(error.contains("`w` has the shape [1, 8, 2], expected [1, 12, 2]"), "{error}");
}
