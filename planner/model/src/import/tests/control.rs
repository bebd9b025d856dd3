//! Control flow that constants decide, and functions.

use super::*;

pub(super) fn graph_attribute(name: &str, body: Model) -> AttributeProto {
    let g = body.0.graph.map(Box::new);
    AttributeProto { g, ..attribute(name, AttributeType::Graph) }
}

/// `x` doubled or negated, as `condition` says.
fn branch(condition: Model) -> Model {
    let double = Model::new(13).node("Add", "x x", "r", vec![]).output("r");
    let minus = Model::new(13).node("Neg", "x", "r", vec![]).output("r");
    let branches =
        vec![graph_attribute("then_branch", double), graph_attribute("else_branch", minus)];
    condition.node("If", "c", "y", branches).output("y")
}

#[test]
fn a_branch_with_a_constant_condition_folds() {
    // The condition follows from the input's shape.
    let of_rank = |rank: i64| {
        let model = Model::new(13)
            .input("x", &[3])
            .node("Shape", "x", "s", vec![])
            .node("Size", "s", "n", vec![])
            .initializer(integer_tensor("r", &[], &[rank]));
        branch(model.node("Equal", "n r", "c", vec![]))
    };
    assert_eq!(of_rank(1).run(), [2.0, 4.0, 6.0]);
    assert_eq!(of_rank(2).run(), [-1.0, -2.0, -3.0]);
    let mut open = Model::new(13).input("x", &[3]);
    open.graph().input.push(port("c", DataType::Int64, vec![dimension(1)]));
    let error = branch(open).error();
    assert!(error.contains("`cond` is computed (`c`)") && error.contains("--constant"), "{error}");
}

#[test]
fn branches_see_names_from_outside_and_have_their_own() {
    // The inner branch reads the outer branch's value, and a name of the graph that is made after it in the file.
    let inner = Model::new(13).node("Mul", "own late", "r", vec![]).output("r");
    let inner_else = Model::new(13).node("Frobnicate", "own", "r", vec![]).output("r");
    let attributes =
        vec![graph_attribute("then_branch", inner), graph_attribute("else_branch", inner_else)];
    let outer = Model::new(13)
        .weights("w", &[2])
        .node("Add", "x w", "own", vec![])
        .node("If", "yes", "r", attributes)
        .output("r");
    let empty = Model::new(13).node("Neg", "x", "own", vec![]).output("own");
    let attributes =
        vec![graph_attribute("then_branch", outer), graph_attribute("else_branch", empty)];
    let mut yes = integer_tensor("yes", &[], &[1]);
    yes.data_type = DataType::Bool as i32;
    (yes.int64_data, yes.int32_data) = (vec![], vec![1]);
    let model = Model::new(13)
        .input("x", &[2])
        .initializer(yes)
        .node("If", "yes", "y", attributes)
        .node("Relu", "x", "late", vec![])
        .output("y");
    assert_eq!(model.run(), [(1.0 - 1.0) * 1.0, (2.0 - 0.75) * 2.0]);
}

/// A loop that adds its round to `x`, and collects what it has, as long as `holds` of the round is true.
pub(super) fn counting(rounds: &str, last: i64) -> Model {
    let mut body = Model::new(13);
    for (name, kind) in [("i", DataType::Int64), ("go", DataType::Bool), ("v", DataType::Float)] {
        body.graph().input.push(port(name, kind, vec![]));
    }
    let body = body
        .node("Cast", "i", "f", vec![int("to", 1)])
        .node("Add", "v f", "next", vec![])
        .initializer(integer_tensor("last", &[], &[last]))
        .node("Less", "i last", "more", vec![])
        .node("Identity", "next", "each", vec![])
        .output("more")
        .output("next")
        .output("each");
    Model::new(13)
        .input("x", &[2])
        .initializer(integer_tensor("three", &[], &[3]))
        .initializer(integer_tensor("none", &[], &[0]))
        .node("Loop", &format!("{rounds} - x"), "sum all", vec![graph_attribute("body", body)])
}

#[test]
fn a_loop_of_known_rounds_unrolls() {
    assert_eq!(counting("three", 99).output("sum").run(), [4.0, 5.0]);
    // Rounds 0, 1, 2, stacked.
    let model = counting("three", 99).output("all");
    assert_eq!(model.run(), [1.0, 2.0, 2.0, 3.0, 4.0, 5.0]);
    let graph = model.import();
    assert_eq!(graph.values[graph.outputs[0]].shape, [3, 2]);
    // The condition ends it after round 1, with a trip count and without.
    assert_eq!(counting("three", 1).output("sum").run(), [2.0, 3.0]);
    assert_eq!(counting("-", 1).output("sum").run(), [2.0, 3.0]);
    assert_eq!(counting("none", 1).output("sum").run(), [1.0, 2.0]);
    let error = counting("none", 1).output("all").error();
    assert!(
        error.contains("reads `all`, output 1 of node `Loop_0` (`Loop`), which is not computed"),
        "{error}"
    );
    // An endless one is noticed.
    let error = counting("-", i64::MAX).output("sum").error();
    assert!(error.contains("too many nodes"), "{error}");
}

#[test]
fn a_scan_unrolls() {
    let mut body = Model::new(13);
    for name in ["state", "one"] {
        body.graph().input.push(port(name, DataType::Float, vec![]));
    }
    let body = body
        .node("Add", "state one", "next", vec![])
        .node("Identity", "next", "each", vec![])
        .output("next")
        .output("each");
    let scan = |attributes: Vec<AttributeProto>| {
        let all =
            [vec![graph_attribute("body", body.clone()), int("num_scan_inputs", 1)], attributes];
        Model::new(13)
            .initializer(float_tensor("zero", &[1], &[0.0]))
            .input("x", &[3, 1])
            .node("Scan", "zero x", "sum each", all.concat())
            .output("each")
    };
    assert_eq!(scan(vec![]).run(), [1.0, 3.0, 6.0]);
    assert_eq!(scan(vec![ints("scan_input_directions", &[1])]).run(), [3.0, 5.0, 6.0]);
    assert_eq!(scan(vec![ints("scan_output_directions", &[1])]).run(), [6.0, 3.0, 1.0]);
}

fn reference(name: &str, to: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { ref_attr_name: to.into(), ..attribute(name, kind) }
}

/// A model of one node of the function `own.Leak`, which calls another.
pub(super) fn calling(attributes: Vec<AttributeProto>) -> Model {
    let function = |name: &str, model: Model, defaults: Vec<AttributeProto>| FunctionProto {
        name: name.into(),
        domain: "own".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["r".into()],
        node: model.0.graph.unwrap_or_default().node,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 9 }],
        attribute_proto: defaults,
        ..Default::default()
    };
    let leak = Model::new(9)
        .node("LeakyRelu", "a", "t", vec![reference("alpha", "slope", AttributeType::Float)])
        // Operator set 9 has the bounds as attributes.
        .node("Clip", "t", "r", vec![float("max", 2.0)]);
    let mut twice = Model::new(9)
        .node("Leak", "a", "t", vec![reference("slope", "slope", AttributeType::Float)])
        .node("Neg", "t", "n", vec![])
        .node("Leak", "n", "r", vec![reference("slope", "slope", AttributeType::Float)]);
    for at in [0, 2] {
        twice.graph().node[at].domain = "own".into();
    }
    let mut model = Model::new(17).input("x", &[3]).node("Twice", "x", "y", attributes).output("y");
    model.graph().node[0].domain = "own".into();
    model.0.functions = vec![
        function("Leak", leak, vec![float("slope", 0.5)]),
        function("Twice", twice, vec![float("slope", 0.25)]),
    ];
    model
}

#[test]
fn functions_are_inlined_with_their_own_opset_and_attributes() {
    assert_eq!(calling(vec![]).run(), [-0.25, -0.5, -0.5]);
    assert_eq!(calling(vec![float("slope", 0.5)]).run(), [-0.5, -1.0, -1.0]);
    let names: Vec<String> =
        calling(vec![]).import().nodes.into_iter().map(|node| node.name).collect();
    assert_eq!(names[0], "Twice_0/Leak_0/LeakyRelu_0");
    // A function that calls itself never ends.
    let mut model = calling(vec![]);
    model.0.functions[0].node[0].op_type = "Twice".into();
    model.0.functions[0].node[0].domain = "own".into();
    let error = model.error();
    assert!(error.contains("or are more than 32 deep"), "{error}");
    let mut model = calling(vec![]);
    model.0.functions[0].opset_import[0].version = 3;
    assert!(model.error().contains("function is written in operator set 3"), "{}", model.error());
}

#[test]
fn operator_set_6_broadcasts_as_it_is_told() {
    let model = single(6, "Add", &[2, 3], "x w", vec![int("broadcast", 1), int("axis", 0)]);
    let model = model.initializer(float_tensor("w", &[2], &[10.0, 20.0]));
    assert_eq!(model.run(), [11.0, 12.0, 13.0, 24.0, 25.0, 26.0]);
    let model = single(6, "PRelu", &[1, 2, 2], "n s", vec![]).node("Neg", "x", "n", vec![]);
    let model = model.initializer(float_tensor("s", &[2], &[2.0, 3.0]));
    assert_eq!(model.run(), [-2.0, -4.0, -9.0, -12.0]);
    let model = single(6, "Dropout", &[1], "x", vec![]);
    assert!(model.error().contains("training mode"));
    assert_eq!(single(6, "Dropout", &[1], "x", vec![int("is_test", 1)]).run(), [1.0]);
}

#[test]
fn sequences_are_known_while_the_model_is_read() {
    let list = |model: Model, name: &str, value: i64| {
        model.initializer(integer_tensor(name, &[], &[value]))
    };
    let model = Model::new(17).input("x", &[2, 3]);
    let model = list(list(model, "last", -1), "first", 0)
        .node("SplitToSequence", "x", "rows", vec![int("axis", 1), int("keepdims", 0)])
        .node("SequenceAt", "rows last", "z", vec![])
        .node("SequenceErase", "rows first", "less", vec![])
        .node("SequenceInsert", "less z first", "more", vec![])
        .node("SequenceLength", "more", "count", vec![])
        .node("Cast", "count", "counted", vec![int("to", 1)])
        .node("ConcatFromSequence", "more", "joined", vec![int("axis", 0), int("new_axis", 1)])
        .node("Mul", "joined counted", "y", vec![]);
    // Columns 2, 1, 2, each as a row, times 3.
    let found = model.clone().output("y").run();
    assert_eq!(found, [9.0, 18.0, 6.0, 15.0, 9.0, 18.0]);
    let error = model.clone().node("Relu", "rows", "r", vec![]).output("r").error();
    assert!(error.contains("a sequence of tensors is read where a tensor is needed"), "{error}");
    let error = model.clone().output("rows").error();
    assert!(error.contains("output `rows`: a sequence of tensors"), "{error}");
    let error =
        list(model, "far", 7).node("SequenceAt", "rows far", "r", vec![]).output("r").error();
    assert!(error.contains("the position 7 is outside a sequence of 3 entries"), "{error}");
}

#[test]
fn a_body_is_mapped_over_a_sequence() {
    let mut body = Model::new(17).node("Mul", "one by", "r", vec![]).output("r");
    for name in ["one", "by"] {
        body.graph().input.push(port(name, DataType::Float, vec![]));
    }
    let model = Model::new(17)
        .input("x", &[4])
        .initializer(float_tensor("by", &[1], &[0.5]))
        .initializer(integer_tensor("three", &[], &[3]))
        .node("SplitToSequence", "x three", "parts", vec![])
        .node("SequenceMap", "parts by", "made", vec![graph_attribute("body", body)])
        .node("ConcatFromSequence", "made", "y", vec![int("axis", 0)])
        .output("y");
    assert_eq!(model.run(), [0.5, 1.0, 1.5, 2.0]);
}
