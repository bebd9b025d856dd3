//! Small models of large constants: each ends with an error before the memory is taken.

use super::*;

/// A model that makes a constant of `list`, a shape, by `ConstantOfShape`.
fn filled(shape: &[i64]) -> Model {
    let model = Model::new(17).input("x", &[1]).list("s", shape);
    model.node("ConstantOfShape", "s", "c", vec![])
}

#[track_caller]
fn too_much(model: Model, node: &str) {
    let error = model.output("y").error();
    for part in [node, "of memory for a constant", "of the 256 MiB", "--import-memory"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn every_operator_that_makes_constants_asks_before() {
    let many = 1 << 27;
    too_much(filled(&[many]).node("Add", "x c", "y", vec![]), "ConstantOfShape_0");
    let model = filled(&[1]).list("to", &[many]);
    too_much(model.node("Expand", "c to", "y", vec![]), "Expand_1");
    let model = filled(&[1]).list("p", &[many, 0]);
    too_much(model.node("Pad", "c p", "y", vec![]), "Pad_1");
    let model = filled(&[1, 1 << 20]).list("i", &[0; 100]);
    too_much(model.node("Gather", "c i", "y", vec![int("axis", 0)]), "Gather_1");
    let model = filled(&[1 << 13, 1]).node("Transpose", "c", "t", vec![]);
    too_much(model.node("MatMul", "c t", "y", vec![]), "MatMul_2");
    let model = filled(&[1 << 13, 1]).node("Transpose", "c", "t", vec![]);
    too_much(model.node("Less", "c t", "y", vec![]), "Less_2");
    let model = Model::new(17).input("x", &[1, many]).weights("k", &[1]);
    too_much(model.node("LayerNormalization", "x k", "y", vec![]), "LayerNormalization_0");
    let scalar = |name: &str, value: i64| integer_tensor(name, &[], &[value]);
    let model = Model::new(17).input("x", &[1]).initializer(scalar("a", 0));
    let model = model.initializer(scalar("b", many)).initializer(scalar("d", 1));
    too_much(
        model.node("Range", "a b d", "r", vec![]).node("Reshape", "x r", "y", vec![]),
        "Range_0",
    );
}

#[test]
fn a_list_of_extents_is_short() {
    let model = filled(&[1 << 16]).node("Cast", "c", "r", vec![int("to", DataType::Int64 as i64)]);
    let error = model.node("Reshape", "x r", "y", vec![]).output("y").error();
    assert!(error.contains("`shape` lists 65536 numbers, at most 128"), "{error}");
    let model = filled(&[1 << 16]).node("Cast", "c", "r", vec![int("to", DataType::Int64 as i64)]);
    let error = model.node("Squeeze", "x r", "y", vec![]).output("y").error();
    assert!(error.contains("65536 axes are named of a tensor of rank 1"), "{error}");
}
