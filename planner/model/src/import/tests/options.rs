//! What is fixed of a model when it is read: shapes, dimensions, inputs, and where it ends.

use super::*;
use crate::import::{Options, import_bytes_with};

fn named(name: &str) -> DimensionProto {
    DimensionProto { value: Some(Dimension::Param(name.into())) }
}

/// Two inputs `x` [batch, 3] and `z` [batch, width], multiplied and flattened by a shape that is computed of `x`'s.
fn model() -> Model {
    let mut model = Model::new(13);
    model.graph().input.push(port("x", DataType::Float, vec![named("batch"), dimension(3)]));
    model.graph().input.push(port("z", DataType::Float, vec![named("batch"), named("width")]));
    model
        .node("Transpose", "x", "t", vec![ints("perm", &[1, 0])])
        .node("MatMul", "t z", "m", vec![])
        .node("Shape", "z", "s", vec![])
        .initializer(integer_tensor("one", &[], &[1]))
        .node("Gather", "s one", "w", vec![])
        .list("axes", &[0])
        .node("Unsqueeze", "w axes", "v", vec![])
        .list("rest", &[-1])
        .node("Concat", "v rest", "to", vec![int("axis", 0)])
        .node("Reshape", "m to", "y", vec![])
        .output("y")
}

fn read(model: &Model, change: impl Fn(&mut Options)) -> Result<Graph, String> {
    let mut options = Options::default();
    change(&mut options);
    let read = import_bytes_with(model.bytes().into(), None, &options);
    read.map_err(|error| error.to_string())
}

#[track_caller]
fn shapes(graph: &Graph) -> [Vec<usize>; 3] {
    let [x, z] = graph.inputs[..] else { panic!("{:?}", graph.inputs) };
    [x, z, graph.outputs[0]].map(|value| graph.values[value].shape.clone())
}

#[track_caller]
fn says(error: Result<Graph, String>, parts: &[&str]) {
    let error = error.expect_err("an error");
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

fn dim(name: &str, extent: usize) -> (String, usize) {
    (name.into(), extent)
}

fn text(name: &str, value: &str) -> (String, String) {
    (name.into(), value.into())
}

#[test]
fn dimensions_are_fixed_by_name_and_shapes_follow() {
    let by_dims = read(&model(), |all| all.dims = vec![dim("batch", 2), dim("width", 5)]);
    assert_eq!(shapes(&by_dims.unwrap()), [vec![2, 3], vec![2, 5], vec![5, 3]]);
    // A shape fixes the dimensions that it names in other inputs, too.
    let by_shape = read(&model(), |all| all.shapes = vec![("z".into(), vec![2, 5])]);
    assert_eq!(shapes(&by_shape.unwrap()), [vec![2, 3], vec![2, 5], vec![5, 3]]);
}

#[test]
fn an_open_dimension_is_an_error_with_the_options_that_fix_it() {
    let model = model();
    says(
        read(&model, |_| {}),
        &[
            "2 of the model's inputs are not fixed: `x` [batch, 3], `z` [batch, width]",
            "--dim batch=1 --dim width=224",
        ],
    );
    says(
        read(&model, |all| all.dims = vec![dim("batch", 2)]),
        &["1 of the model's inputs is not fixed: `z` [2, width]", "--dim width=224"],
    );
    let mut unnamed = model.clone();
    unnamed.graph().input[1] = port("z", DataType::Float, vec![DimensionProto::default(); 4]);
    let error = unnamed.try_import().unwrap_err();
    assert_eq!(error.missing_dims().as_deref(), Some("--dim batch=1 --shape z=1,3,224,224"));
    // An input without any shape.
    unnamed.graph().input[1].r#type.as_mut().unwrap().tensor_type.as_mut().unwrap().shape = None;
    says(read(&unnamed, |_| {}), &["`z` (no shape)", "--shape z=1,3,224,224"]);
    let given =
        |all: &mut Options| all.shapes = vec![("z".into(), vec![2, 5]), ("x".into(), vec![2, 3])];
    assert_eq!(shapes(&read(&unnamed, given).unwrap())[2], [5, 3]);
}

/// Paddle's exporter calls all open dimensions `?`.
#[test]
fn a_question_mark_names_no_dimension() {
    let mut model = Model::new(13).node("Relu", "x", "y", vec![]).output("y");
    let dims = vec![dimension(1), named("?"), named("?")];
    model.graph().input.push(port("x", DataType::Float, dims));
    let graph = read(&model, |all| all.shapes = vec![("x".into(), vec![1, 48, 192])]).unwrap();
    assert_eq!(graph.values[graph.inputs[0]].shape, [1, 48, 192]);
    says(read(&model, |_| {}), &["`x` [1, ?, ?]", "--shape x=1,"]);
    says(
        read(&model, |all| all.dims = vec![dim("?", 2)]),
        &["no dimension of an input has a name"],
    );
}

#[test]
fn options_that_do_not_fit_are_errors() {
    let model = model();
    let shape = |name: &str, shape: &[usize]| vec![(name.to_owned(), shape.to_vec())];
    says(
        read(&model, |all| all.shapes = shape("q", &[1])),
        &["--shape q: the model has no such input; its inputs are `x`, `z`"],
    );
    says(read(&model, |all| all.shapes = shape("x", &[1])), &["it has 1 dimensions", "has 2"]);
    says(
        read(&model, |all| all.shapes = shape("x", &[2, 4])),
        &["dimension 1 is 4, but the model fixes it to 3"],
    );
    says(
        read(&model, |all| all.dims = vec![dim("height", 2)]),
        &["--dim height", "named are `batch`, `width`"],
    );
    says(
        read(&model, |all| all.dims = vec![dim("batch", 2), dim("batch", 3)]),
        &["the dimension `batch` is to be 2 and 3"],
    );
    let both = |all: &mut Options| {
        all.dims = vec![dim("batch", 2)];
        all.shapes = shape("z", &[3, 5]);
    };
    says(read(&model, both), &["the dimension `batch` is to be 2 and 3"]);
}

#[test]
fn inputs_become_constants() {
    let mut model = Model::new(13).input("x", &[2, 2]).node("Mul", "x k", "m", vec![]);
    model.graph().input.push(port("k", DataType::Float, vec![]));
    model.graph().input.push(port("to", DataType::Int64, vec![named("rank")]));
    let model = model.node("Reshape", "m to", "y", vec![]).output("y");
    let given =
        |k: &str, to: &str| read(&model, |all| all.constants = vec![text("k", k), text("to", to)]);
    let graph = given("0.5", "4,1").unwrap();
    assert_eq!(graph.inputs.len(), 1);
    let input = vec![1.0, 2.0, 3.0, 4.0];
    assert_eq!(reference::run(&graph, &[input])[0], [0.5, 1.0, 1.5, 2.0]);
    assert_eq!(graph.values[graph.outputs[0]].shape, [4, 1]);
    says(given("half", "4"), &["--constant k: `half` is no number of the type FLOAT"]);
    says(given("1", "4.5"), &["--constant to: `4.5` is no number of the type INT64"]);
    says(given("1,2", "4"), &["2 numbers do not fill the shape []"]);
    says(given("none.npy", "4"), &["--constant k: cannot read none.npy"]);
    says(
        read(&model, |all| all.constants = vec![text("m", "1")]),
        &["--constant m: the model has no such input; its inputs are `x`, `k`, `to`"],
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("to.npy");
    crate::npy::write(&path, &[2], &[1.0, 4.0]).unwrap();
    let graph = given("2", path.to_str().unwrap()).unwrap();
    assert_eq!(graph.values[graph.outputs[0]].shape, [1, 4]);
    crate::npy::write(&path, &[1, 1], &[4.0]).unwrap();
    says(given("2", path.to_str().unwrap()), &["a file of shape [1, 1]", "[rank]"]);
    crate::npy::write(&path, &[1], &[1.5]).unwrap();
    says(given("2", path.to_str().unwrap()), &["a number that the type INT64 does not have"]);
}

#[test]
fn a_model_is_cut_at_tensors_and_nodes() {
    let mut model = Model::new(13)
        .input("x", &[4])
        .input("late", &[2])
        .node("Relu", "x", "features/a", vec![])
        .node("Split", "features/a", "left right", vec![int("axis", 0)])
        .node("Frobnicate", "left late", "y", vec![])
        .output("y");
    model.graph().node[0].name = "backbone".into();
    // What comes after the cut is left out, and so are the inputs that only that reads.
    let outputs = |until: &[&str]| {
        let graph = read(&model, |all| all.until = until.iter().map(|&one| one.into()).collect());
        graph.map(|graph| {
            assert_eq!(graph.inputs.len(), 1);
            let names = graph.outputs.iter().map(|&value| graph.values[value].name.clone());
            names.collect::<Vec<_>>()
        })
    };
    assert_eq!(outputs(&["right"]).unwrap(), ["right"]);
    assert_eq!(outputs(&["backbone"]).unwrap(), ["features/a"]);
    assert_eq!(
        outputs(&["Split_1", "left", "features/a"]).unwrap(),
        ["left", "right", "features/a"]
    );
    let error = outputs(&["feature/a"]).unwrap_err();
    assert!(error.contains("no node or tensor of that name; near are `features/a`"), "{error}");
    let error = outputs(&["zzz"]).unwrap_err();
    assert!(error.contains("none is alike"), "{error}");
}

/// A step of a decoder: what it is given, what it has kept, and a mask over both.
fn decoder() -> Model {
    let mut model = Model::new(13);
    for (name, dims) in [
        ("mask", vec![named("batch"), named("past + sequence")]),
        ("kept", vec![named("batch"), named("past")]),
        ("given", vec![named("batch"), named("sequence")]),
    ] {
        model.graph().input.push(port(name, DataType::Float, dims));
    }
    let model = model.node("Concat", "kept given", "all", vec![int("axis", 1)]);
    model.node("Add", "all mask", "y", vec![]).output("y")
}

#[test]
fn dimensions_that_are_sums_of_others_follow_from_them() {
    let model = decoder();
    let all = [dim("batch", 1), dim("past", 4), dim("sequence", 2)];
    let graph = read(&model, |options| options.dims = all.to_vec()).unwrap();
    assert_eq!(graph.values[graph.inputs[0]].shape, [1, 6]);
    let contradiction = |options: &mut Options| {
        options.dims = [&all[..], &[dim("past + sequence", 128)]].concat();
    };
    says(read(&model, contradiction), &["`past + sequence` is to be 128 and 6"]);
    // What is advised plans as it is printed, also where some are given.
    says(read(&model, |options| options.dims = all[1..].to_vec()), &["--dim batch=1"]);
    let some = read(&model, |options| options.dims = vec![dim("sequence", 2)]);
    says(some, &["`mask` [batch, past + 2]", "numbers: --dim batch=1 --dim past=128"]);
    let error = model.try_import().unwrap_err();
    let advised = "--dim batch=1 --dim past=128 --dim sequence=1";
    assert_eq!(error.missing_dims().as_deref(), Some(advised));
    let all = [dim("batch", 1), dim("past", 128), dim("sequence", 1)];
    read(&model, |options| options.dims = all.to_vec()).unwrap();
    // None of the past: the first step.
    let first = [dim("batch", 1), dim("past", 0), dim("sequence", 2)];
    let graph = read(&model, |options| options.dims = first.to_vec()).unwrap();
    assert_eq!(graph.inputs.len(), 2);
}

/// What is kept and what is given are all that there is.
#[test]
fn a_total_is_a_step_more_than_the_past() {
    let mut model = decoder();
    let total = vec![named("batch"), named("total_sequence_length")];
    model.graph().input[0] = port("mask", DataType::Float, total);
    let advised = model.try_import().unwrap_err().missing_dims();
    let expected = "--dim batch=1 --dim total_sequence_length=129 --dim past=128 --dim sequence=1";
    assert_eq!(advised.as_deref(), Some(expected));
    let all = [("batch", 1), ("total_sequence_length", 129), ("past", 128), ("sequence", 1)];
    read(&model, |options| options.dims = all.map(|(name, extent)| dim(name, extent)).to_vec())
        .unwrap();
}

/// A name has one extent in all that is advised.
#[test]
fn advice_does_not_contradict_itself() {
    let mut model = Model::new(13).node("Mul", "a b", "y", vec![]).output("y");
    let open = DimensionProto::default();
    model.graph().input.push(port("a", DataType::Float, vec![open, named("n")]));
    model.graph().input.push(port("b", DataType::Float, vec![named("n")]));
    let advised = model.try_import().unwrap_err().missing_dims();
    assert_eq!(advised.as_deref(), Some("--shape a=1,128 --dim n=128"));
}

#[test]
fn an_extent_of_zero_is_fixed_and_outputs_without_elements_are_left_out() {
    let mut model = Model::new(13).input("k", &[2, 4]);
    model.graph().input.push(port("x", DataType::Float, vec![dimension(0), dimension(4)]));
    let model = model.node("Concat", "x k", "y", vec![int("axis", 0)]).output("y");
    let model = model.node("Relu", "x", "none", vec![]).output("none");
    let graph = read(&model, |_| {}).unwrap();
    assert_eq!((graph.inputs.len(), graph.outputs.len()), (1, 1));
    let note = "outputs without elements are left out of the pack: `none` [0, 4]";
    assert_eq!(graph.notes, [note]);
    // Some exporters write 0 where an extent is open.
    let graph = read(&model, |all| all.shapes = vec![("x".into(), vec![3, 4])]).unwrap();
    assert_eq!((graph.inputs.len(), graph.outputs.len()), (2, 2));
    let mut model = Model::new(13).node("Relu", "x", "y", vec![]).output("y");
    model.graph().input.push(port("x", DataType::Float, vec![dimension(0), dimension(4)]));
    says(read(&model, |_| {}), &["no output has an element: `y` [0, 4]; give the inputs"]);
}
