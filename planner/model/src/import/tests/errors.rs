//! Every error that a user can cause, and what it says.

use super::*;
use crate::import::import;
use std::fs;
use std::path::Path;

#[track_caller]
fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[track_caller]
fn file_error(path: &Path) -> String {
    import(path).expect_err("a model that cannot be read").to_string()
}

#[test]
fn missing_file() {
    let error = file_error(Path::new("no/such/model.onnx"));
    says(&error, &["cannot read the model no/such/model.onnx", "No such file"]);
    let folder = tempfile::tempdir().expect("a folder");
    says(&file_error(folder.path()), &["cannot read the model", "it is a directory; give a file"]);
}

#[test]
fn not_onnx() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.onnx");
    for (content, reason) in [
        (&b""[..], "it is empty"),
        (b"\x7fELF\x02\x01\x01", "at byte 0 there is none of a model's fields"),
        (b"PK\x13\x14", "at byte 0"),
        (b"\x08\x07\x3d\x00", "at byte 2 its graph has the wrong type"),
    ] {
        fs::write(&path, content).expect("a file");
        says(&file_error(&path), &["not an ONNX model", reason]);
    }
    fs::write(&path, b"GGUF\x03\0\0\0").expect("a file");
    let error = file_error(&path);
    says(
        &error,
        &["of llama.cpp (.gguf), not an ONNX model", "export the model that it was made from"],
    );
}

#[test]
fn truncated() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.onnx");
    let bytes = single(13, "Add", &[64], "x w", vec![]).weights("w", &[64]).bytes();
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("a file");
    let error = file_error(&path);
    let left = format!("only {} are left", bytes.len() / 2 - 5);
    says(&error, &["truncated: its graph at byte 2 needs", &left, "copy or export"]);
    fs::write(&path, &bytes[..2]).expect("a file");
    says(&file_error(&path), &["truncated", "ends after 2 bytes without a graph"]);
}

#[test]
fn damaged() {
    // A graph of three bytes that are no field.
    let error = import_bytes(Bytes::from_static(b"\x3a\x03\xff\xff\xff\x42\x00"), None);
    says(&error.expect_err("damage").to_string(), &["the ONNX file is damaged"]);
}

#[test]
fn opset() {
    let relu = |opset| single(opset, "Relu", &[1], "x", vec![]);
    for opset in [5, 29] {
        let found = format!("operator set {opset}, supported are 6 to 28");
        says(&relu(opset).error(), &[&found, "convert it with onnx.version_converter"]);
    }
    relu(6).import();
    relu(28).import();
    let mut model = relu(13);
    model.0.opset_import[0].domain = "ai.onnx.ml".into();
    says(&model.error(), &["operator sets `ai.onnx.ml` alone", "none of ONNX's own"]);
    assert!(!model.error().contains("truncated"));
}

#[test]
fn dynamic_shape() {
    let with = |dims| {
        let mut model = single(13, "Relu", &[1], "x", vec![]);
        model.graph().input[0] = port("x", DataType::Float, dims);
        model.error()
    };
    let batch = DimensionProto { value: Some(Dimension::Param("batch_size".into())) };
    let error = with(vec![batch, dimension(3)]);
    says(
        &error,
        &["1 of the model's inputs is not fixed: `x` [batch_size, 3]", "--dim batch_size=1"],
    );
    let error = with(vec![dimension(1), DimensionProto { value: None }]);
    says(&error, &["`x` [1, ?]", "--shape x=1,128"]);
    says(&with(vec![dimension(-1)]), &["`x` [?]"]);
    let error = with(vec![dimension(1 << 40), dimension(1 << 40)]);
    says(&error, &["input `x` has the shape", "more than 2^40 elements"]);
    says(&with(vec![dimension(1); 9]), &["rank 9 is above 8"]);
    let mut model = single(13, "Relu", &[1], "x", vec![]);
    model.graph().input[0].r#type = None;
    says(&model.error(), &["input `x` is no tensor"]);
}

#[test]
fn types_of_inputs_and_outputs() {
    let mut model = single(13, "Relu", &[1], "x", vec![]);
    model.graph().input[0] = port("x", DataType::Uint8, vec![dimension(1)]);
    assert_eq!(model.run(), [1.0]);
    model.graph().input[0] = port("x", DataType::String, vec![dimension(1)]);
    says(&model.error(), &["input `x` has the type STRING, but inputs must be floats, integers"]);
    let mut model = single(13, "Tanh", &[1], "x", vec![]);
    model.graph().input[0] = port("x", DataType::Int64, vec![dimension(1)]);
    says(&model.error(), &["node `Tanh_0`", "`x` must be floats, but its type is INT64"]);
    assert!(!model.error().contains("quantiz"));
    let model = single(13, "Add", &[1], "x i", vec![]).list("i", &[1]);
    says(&model.error(), &["operands have the types FLOAT and INT64; the model is invalid"]);
}

/// Random numbers are refused where something needs them; times a constant 0 nothing does.
#[test]
fn random_numbers() {
    let noise = |factor: f32| {
        let model = Model::new(15).input("x", &[2]).initializer(float_tensor("s", &[], &[factor]));
        let model = model.node("RandomNormalLike", "x", "n", vec![]).node("Exp", "x", "e", vec![]);
        let model = model.node("Mul", "e n", "d", vec![]).node("Mul", "d s", "m", vec![]);
        model.node("Add", "x m", "y", vec![]).output("y")
    };
    assert_eq!(noise(0.0).run(), [1.0, 2.0]);
    let error = noise(0.5).error();
    let advice = "make them an input of the model, or their factor a constant 0";
    says(&error, &["node `RandomNormalLike_0`", "its numbers are random", advice]);
    let own = Model::new(15).input("x", &[2]).output("y");
    let own = own.node("RandomUniform", "", "u", vec![ints("shape", &[2])]);
    let blocked = own.node("Bernoulli", "x", "b", vec![]).node("Add", "b u", "y", vec![]).error();
    says(&blocked, &["2 things", "Bernoulli_1", "RandomUniform_0`): not supported; its numbers"]);
}

/// What only follows from a node that is refused is no reason of its own, whatever it says of its other inputs.
#[test]
fn followers_are_not_blamed() {
    let model = Model::new(17).input("x", &[3]).node("Bernoulli", "x", "b", vec![]);
    let model = model.node("Cast", "x", "c", vec![int("to", DataType::Bool as i64)]);
    let model = model.initializer(float_tensor("z", &[], &[1.0]));
    let model = model.node("Where", "c b z", "w", vec![]).node("Gather", "w c", "g", vec![]);
    let error = model.node("Reshape", "g c", "y", vec![]).output("y").error();
    says(&error, &["node `Bernoulli_0`: operator `Bernoulli`"]);
    assert!(!error.contains("things stand between"), "{error}");
}

/// What is found of elements that are computed has no fixed length. The error names where to cut the model.
#[test]
fn lengths_that_values_decide_name_the_cut() {
    let detector = |operator: &str| {
        let model = Model::new(17).input("x", &[4]).node("Sigmoid", "x", "s", vec![]);
        let mut model =
            model.node("Exp", "x", "boxes", vec![]).node(operator, "s", "places", vec![]);
        model.graph().node[0].output = vec!["the scores".into()];
        model.graph().node[2].input = vec!["the scores".into()];
        let model = model.node("Squeeze", "places", "p", vec![]);
        let model = model.node("Gather", "boxes p", "y", vec![]).output("y").output("boxes");
        model.error()
    };
    let error = detector("NonZero");
    says(&error, &["node `NonZero_2`", "how many elements it makes follows from `the scores`"]);
    says(&error, &["cut the model before this node: --until 'the scores' --until boxes"]);
    assert!(!error.contains("Gather"), "{error}");
    says(&detector("Unique"), &["`the scores`, which is computed, and its input must be constant"]);
}

#[test]
fn bounds_of_floats_may_be_computed() {
    let model =
        Model::new(13).input("x", &[4]).input("low", &[]).node("Add", "low low", "m", vec![]);
    assert_eq!(model.node("Clip", "x m", "y", vec![]).output("y").run(), [2.0, 2.0, 3.0, 4.0]);
    let model = Model::new(13).input("x", &[4]).input("low", &[1]).weights("t", &[]);
    let model = model.node("Sub", "low t", "m", vec![]).node("Clip", "x t m", "y", vec![]);
    assert_eq!(model.output("y").run(), [1.0, 2.0, 2.0, 2.0]);
    let model = Model::new(13).input("x", &[2]).node("IsNaN", "x", "c", vec![]);
    let model = model.initializer(float_tensor("z", &[], &[f32::NAN])).list("on", &[1, 0]);
    let model = model.node("Cast", "on", "b", vec![int("to", DataType::Bool as i64)]);
    let found = model.node("Where", "b x z", "y", vec![]).output("y").run();
    assert!(found[0] == 1.0 && found[1].is_nan(), "{found:?}");
}

/// Only truth values are negated by `Not`.
#[test]
fn types_of_logic() {
    let error = single(13, "Not", &[2], "x", vec![]).error();
    says(&error, &["`x` must be truth values, but its type is FLOAT; the model is invalid"]);
}

#[test]
fn unsupported_operators() {
    let mut model = single(17, "Bernoulli", &[1], "x", vec![]);
    model.graph().node[0].name = "Foo_3".into();
    says(
        &model.error(),
        &[
            "node `Foo_3`: operator `Bernoulli` (opset 17): not supported;",
            "replace it by supported operators",
        ],
    );
    let model = single(17, "Frobnicate", &[1], "x", vec![]);
    says(&model.error(), &["node `Frobnicate_0`", "replace it by supported operators"]);
    let model = single(17, "DynamicQuantizeLSTM", &[1], "x", vec![]);
    says(&model.error(), &["DynamicQuantizeLSTM", "quantise the model statically", "QDQ"]);
    let mut model = single(17, "Relu", &[1], "x", vec![]);
    model.graph().node[0].domain = "com.microsoft".into();
    says(&model.error(), &["`com.microsoft`", "standard ONNX operators"]);
    let model = single(17, "Conv", &[1, 1, 4, 4, 4, 4], "x w", vec![]);
    let model = model.weights("w", &[1, 1, 1, 1, 1, 1]);
    says(&model.error(), &["4 spatial dimensions, supported are 1 to 3"]);
    let model = single(9, "Pad", &[1], "x", vec![string("mode", "mirror"), ints("pads", &[0, 1])]);
    says(&model.error(), &["`mode` is `mirror`", "expected constant, reflect, edge or wrap"]);
    let model = single(9, "Pad", &[3], "x", vec![ints("pads", &[-2, -2])]);
    says(&model.error(), &["axis 0 of extent 3 loses 4 elements"]);
}

#[test]
fn weights_must_be_constant() {
    let model = single(13, "ConvTranspose", &[1, 1, 3, 3], "x v", vec![]);
    let model = model.input("v", &[1, 1, 1, 1]);
    says(&model.error(), &["`weight` must be constant, but `v` is computed", "onnxsim"]);
    let model = single(13, "Reshape", &[4], "x v", vec![]).input("v", &[1]);
    says(&model.error(), &["`shape` must be constant, but `v` is computed"]);
    let model = single(13, "Conv", &[1, 1, 3, 3], "x", vec![]);
    says(&model.error(), &["input 1 (`weight`) is missing"]);
    let model = single(13, "Conv", &[1, 1, 3, 3], "x w", vec![]);
    let model = model.initializer(integer_tensor("w", &[1, 1, 1, 1], &[1]));
    says(&model.error(), &["`weight` must be floats, but its type is INT64"]);
}

#[test]
fn initializers() {
    let with = |tensor| single(13, "Add", &[2], "x w", vec![]).initializer(tensor).error();
    let error = with(float_tensor("w", &[2, 3], &[0.0; 5]));
    says(&error, &["tensor `w`: its shape [2, 3] needs 24 bytes, but the file holds 20"]);
    says(&error, &["truncated or damaged"]);
    let mut typed = float_tensor("w", &[2], &[]);
    typed.float_data = vec![1.0; 3];
    says(&with(typed), &["its shape [2] needs 2 values, but the file holds 3"]);
    says(&with(float_tensor("w", &[-2], &[])), &["dimension 0 is -2"]);
    says(&with(float_tensor("w", &[1 << 40, 1 << 40], &[])), &["too many elements"]);
    let mut string = float_tensor("w", &[1], &[]);
    string.data_type = DataType::String as i32;
    says(&with(string.clone()), &["the type STRING is not supported"]);
    string.data_type = 17;
    says(&with(string), &["the type FLOAT8 is not supported", "float weights"]);
}

/// A tensor whose data are external.
fn external(entries: &[(&str, &str)]) -> TensorProto {
    let mut tensor = float_tensor("w", &[2], &[]);
    tensor.data_location = 1;
    let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
        key: key.into(),
        value: value.into(),
    };
    tensor.external_data = entries.iter().map(entry).collect();
    tensor
}

#[test]
fn external_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("model");
    fs::create_dir(&inside).expect("a folder");
    let data: Vec<u8> = [9.0f32, 1.0, -2.0, 9.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    fs::write(inside.join("weights"), &data).expect("a file");
    fs::write(folder.path().join("secret"), &data).expect("a file");
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret", inside.join("link")).expect("a link");
    let path = inside.join("model.onnx");
    let try_with = |entries: &[(&str, &str)]| {
        let model = single(13, "Mul", &[2], "x w", vec![]).initializer(external(entries));
        fs::write(&path, model.bytes()).expect("a file");
        import(&path)
    };
    let error = |entries: &[(&str, &str)]| try_with(entries).expect_err("an error").to_string();

    for length in [&[][..], &[("length", "8")]] {
        let entries = [&[("location", "weights"), ("offset", "4")], length].concat();
        let graph = try_with(&entries).expect("a model");
        assert_eq!(reference::run(&graph, &[vec![1.0, 1.0]]), [[1.0, -2.0]]);
        let constants = graph.values.iter().filter_map(|value| value.constant.as_ref());
        assert!(constants.into_iter().all(|c| matches!(c, crate::graph::Constant::Raw(_, _))));
    }
    let text = error(&[("location", "weights"), ("offset", "12")]);
    says(&text, &["tensor `w`", "bytes 12 to 20 of", "which has only 16 bytes"]);
    let text = error(&[("location", "weights"), ("offset", "18446744073709551615")]);
    says(&text, &["which has only 16 bytes"]);
    let text = error(&[("location", "weights"), ("length", "4")]);
    says(&text, &["its shape [2] needs 8 bytes, but the file holds 4"]);
    let text = error(&[("location", "weights"), ("offset", "-4")]);
    says(&text, &["have the offset `-4`, which is not a number of bytes"]);
    says(&error(&[]), &["no `location`"]);
    let text = error(&[("location", "missing")]);
    says(&text, &["cannot be read from", "missing", "No such file", "put the file beside"]);
    let absolute = folder.path().join("secret");
    for location in ["../secret", "a/../../secret", absolute.to_str().expect("UTF-8"), ""] {
        let text = error(&[("location", location)]);
        let found = format!("lie in `{location}`, outside the model's folder");
        says(&text, &[&found, "put the file beside the model"]);
    }
    let model = single(13, "Mul", &[2], "x w", vec![]);
    let text = model.initializer(external(&[("location", "weights")])).error();
    says(&text, &["the model was not read from a folder"]);
    #[cfg(unix)]
    try_with(&[("location", "link"), ("offset", "4")]).expect("data behind a link");
}

/// Caches of models keep blobs under other names, and links to them under the models' own.
#[cfg(unix)]
#[test]
fn models_and_data_behind_links() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |path: &str| folder.path().join(path);
    for path in ["blobs", "snapshots/one", "elsewhere"] {
        fs::create_dir_all(inside(path)).expect("a folder");
    }
    let model = single(13, "Mul", &[2], "x w", vec![]);
    let model = model.initializer(external(&[("location", "model.onnx_data")]));
    fs::write(inside("blobs/aaaa"), model.bytes()).expect("a file");
    let data: Vec<u8> = [3.0f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(inside("blobs/bbbb"), &data).expect("a file");
    symlink("../../blobs/aaaa", inside("snapshots/one/model.onnx")).expect("a link");
    let error = file_error(&inside("snapshots/one/model.onnx"));
    says(&error, &["snapshots/one/model.onnx_data", "No such file"]);
    symlink("../../blobs/bbbb", inside("snapshots/one/model.onnx_data")).expect("a link");
    // A link to the link, from a folder without the data, and one to the file next to its data.
    symlink("../snapshots/one/model.onnx", inside("elsewhere/far.onnx")).expect("a link");
    fs::write(inside("blobs/model.onnx_data"), &data).expect("a file");
    for path in ["snapshots/one/model.onnx", "elsewhere/far.onnx"] {
        let graph = import(&inside(path)).expect("a model");
        assert_eq!(reference::run(&graph, &[vec![1.0, 1.0]]), [[3.0, -2.0]], "{path}");
    }
}

/// All that is in the way is reported, and nothing that only follows from it.
#[test]
fn all_blockers_at_once() {
    let model = Model::new(17)
        .input("x", &[2, 3])
        .weights("w", &[3])
        .node("Bernoulli", "x", "a", vec![])
        .node("Relu", "a", "b", vec![])
        .node("Bernoulli", "b", "c", vec![])
        .node("Conv", "c w", "d", vec![])
        .node("Multinomial", "d", "e", vec![])
        .node("Frobnicate", "e", "f", vec![])
        .node("Add", "x x", "g", vec![])
        .node("Concat", "g f", "h", vec![int("axis", 0)])
        .node("Add", "g missing", "i", vec![])
        .output("h")
        .output("i");
    let error = model.try_import().expect_err("an error");
    let found: Vec<(Option<String>, Option<String>)> =
        error.blockers().into_iter().map(|blocker| (blocker.operator, blocker.node)).collect();
    let node = |operator: &str, index: usize| {
        (Some(operator.to_owned()), Some(format!("{operator}_{index}")))
    };
    let expected = [
        node("Bernoulli", 0),
        node("Bernoulli", 2),
        node("Multinomial", 4),
        node("Frobnicate", 5),
        (None, None),
    ];
    assert_eq!(found, expected);
    let text = error.to_string();
    says(&text, &["5 things stand between this model and a pack:"]);
    says(
        &text,
        &[
            "\n  operator `Bernoulli`, 2 nodes (`Bernoulli_0`, `Bernoulli_2`): not supported; replace",
        ],
    );
    says(&text, &["operator `Multinomial`, 1 node (`Multinomial_4`): not supported; replace"]);
    says(&text, &["node `Add_8` reads `missing`, which nothing produces"]);
    assert_eq!(text.lines().count(), 5);
    // Nothing is known of an input without a shape, but of operators.
    let mut model =
        single(17, "Relu", &[1], "x", vec![]).node("Bernoulli", "y", "z", vec![]).output("z");
    model.graph().input[0].r#type = None;
    let [input, bernoulli] = &model.try_import().expect_err("an error").blockers()[..] else {
        panic!("{}", model.error())
    };
    says(&input.reason, &["input `x` is no tensor"]);
    assert_eq!(bernoulli.operator.as_deref(), Some("Bernoulli"));
}

#[test]
fn shapes_that_disagree() {
    let model = single(13, "Conv", &[1, 3, 4, 4], "x w", vec![]).weights("w", &[2, 2, 1, 1]);
    says(&model.error(), &["weights of shape [2, 2, 1, 1] in 1 groups", "shape [1, 3, 4, 4]"]);
    let model = single(13, "Conv", &[1, 2, 4, 4], "x w b", vec![]);
    let error = model.weights("w", &[2, 2, 1, 1]).weights("b", &[3]).error();
    says(&error, &["the bias has the shape [3], but there are 2 output channels"]);
    let model = single(13, "Conv", &[1, 1, 2, 2], "x w", vec![]).weights("w", &[1, 1, 3, 3]);
    says(&model.error(), &["reaches over 3 positions, but the padded input has only 2"]);
    let pads = vec![ints("kernel_shape", &[2, 2]), ints("pads", &[2, 0, 0, 0])];
    let error = single(13, "MaxPool", &[1, 1, 4, 4], "x", pads).error();
    says(&error, &["attribute `pads` has 2, not less than the window's reach 2"]);
    let model = single(13, "Add", &[2, 3], "x w", vec![]).weights("w", &[2]);
    says(&model.error(), &["shapes [2, 3] and [2] do not broadcast"]);
    let model = single(13, "Gemm", &[2, 3], "x w", vec![int("transB", 1)]).weights("w", &[3, 4]);
    says(&model.error(), &["shapes [2, 3] and [3, 4] (transposed) cannot be multiplied"]);
    let model = single(13, "Reshape", &[2, 3], "x l", vec![]).list("l", &[4, -1]);
    says(&model.error(), &["shape [2, 3] cannot take the shape [4, -1]"]);
    let model = single(13, "Concat", &[2, 3], "x w", vec![int("axis", 1)]).weights("w", &[3, 3]);
    says(&model.error(), &["shapes [2, 3] and [3, 3] cannot be joined along axis 1"]);
    let model = single(13, "Softmax", &[2, 3], "x", vec![int("axis", 2)]);
    says(&model.error(), &["axis 2 is outside a tensor of rank 2"]);
    let model = single(13, "Softmax", &[2, 3], "x", vec![float("axis", 2.0)]);
    says(&model.error(), &["attribute `axis` is Float, not Int"]);
    let model = single(13, "Slice", &[3], "x s e", vec![]).list("s", &[2]).list("e", &[2]);
    says(&model.error(), &["no output has an element: `y` [0]; give the inputs other extents"]);
}

#[test]
fn graphs_that_are_wrong() {
    let model = Model::new(13).input("x", &[1]).node("Relu", "x", "y", vec![]);
    says(&model.error(), &["the graph has no outputs"]);
    let model = single(13, "Add", &[1], "x missing", vec![]);
    says(&model.error(), &["node `Add_0` reads `missing`, which nothing produces"]);
    let model = single(13, "Relu", &[1], "x", vec![]).output("z");
    says(&model.error(), &["output `z` reads `z`, which nothing produces"]);
    let model = single(13, "Relu", &[1], "x", vec![]).node("Tanh", "x", "y", vec![]);
    says(&model.error(), &["node `Relu_0` and node `Tanh_1` both produce `y`"]);
    let model = single(13, "Relu", &[1], "x", vec![]).node("Tanh", "y", "x", vec![]);
    says(&model.error(), &["an input and node `Tanh_1` both produce `x`"]);
    let model = single(13, "Add", &[1], "x b", vec![]).node("Tanh", "y", "b", vec![]);
    says(&model.error(), &["the graph has a cycle through"]);
    let model = Model::new(27).input("x", &[1, 1, 1]).weights("w", &[1, 1, 1]);
    let model = model.node("CausalConvWithState", "x w", "c state", vec![]).output("state");
    says(
        &model.error(),
        &["output `state` reads `state`, output 1 of node `CausalConvWithState_0`", "which is not"],
    );
    let model =
        single(15, "BatchNormalization", &[1, 1], "x w w w w", vec![int("training_mode", 1)]);
    says(&model.weights("w", &[1]).error(), &["training mode", "model.eval()"]);
}
