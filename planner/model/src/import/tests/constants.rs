//! Folding: the integer chains of exporters, and constant floats in every form a file can hold them.

use super::*;
use crate::graph::Constant;

#[test]
fn weights_stay_slices_of_the_file() {
    let model = single(13, "Add", &[3], "x w", vec![]).weights("w", &[3]);
    let bytes = Bytes::from(model.bytes());
    let graph = import_bytes(bytes.clone(), None).expect("a model");
    let weights = graph.values.iter().find_map(|value| value.constant.as_ref()).expect("weights");
    let Constant::Raw(data, _) = weights else { panic!("copied") };
    assert!(bytes.as_ptr_range().contains(&data.as_ptr()));
    assert_eq!(weights.to_vec(), [-1.0, -0.75, -0.5]);
}

/// The view of `x [2, 3, 4]` as `[batch, -1]` that older exporters write.
#[test]
fn a_view_by_shape_gather_concat() {
    for (opset, attributes, inputs) in [(9, vec![ints("axes", &[0])], "b"), (13, vec![], "b zeros")]
    {
        let model = Model::new(opset)
            .input("x", &[2, 3, 4])
            .initializer(integer_tensor("zero", &[], &[0]))
            .list("zeros", &[0])
            .list("rest", &[-1])
            .node("Shape", "x", "s", vec![])
            .node("Gather", "s zero", "b", vec![int("axis", 0)])
            .node("Unsqueeze", inputs, "u", attributes)
            .node("Concat", "u rest", "t", vec![int("axis", 0)])
            .node("Reshape", "x t", "y", vec![])
            .output("y");
        assert_eq!(only(&model), (Op::Reshape, vec![2, 12]));
    }
}

#[test]
fn integer_arithmetic() {
    let results = |operator: &str, attributes, inputs: &str| {
        let model = Model::new(13)
            .input("x", &[1])
            .list("a", &[7, -7])
            .list("b", &[3, 3])
            .list("axis", &[0])
            .list("two", &[2])
            .initializer(integer_tensor("from", &[], &[10]))
            .initializer(integer_tensor("to", &[], &[0]))
            .initializer(integer_tensor("by", &[], &[-4]))
            .node(operator, inputs, "r", attributes)
            .node("Cast", "r", "f", vec![int("to", 1)])
            .node("Add", "f zero", "y", vec![])
            .initializer(float_tensor("zero", &[], &[0.0]))
            .output("y");
        model.run()
    };
    assert_eq!(results("Add", vec![], "a b"), [10.0, -4.0]);
    assert_eq!(results("Sub", vec![], "a b"), [4.0, -10.0]);
    assert_eq!(results("Mul", vec![], "a b"), [21.0, -21.0]);
    assert_eq!(results("Div", vec![], "a b"), [2.0, -2.0]);
    assert_eq!(results("Mod", vec![], "a b"), [1.0, 2.0]);
    assert_eq!(results("Max", vec![], "a b"), [7.0, 3.0]);
    assert_eq!(results("Neg", vec![], "a"), [-7.0, 7.0]);
    assert_eq!(results("Greater", vec![], "a b"), [1.0, 0.0]);
    assert_eq!(results("ReduceProd", vec![], "a"), [-49.0]);
    assert_eq!(results("ReduceSum", vec![int("keepdims", 0)], "a axis"), [0.0]);
    assert_eq!(results("Shape", vec![], "a"), [2.0]);
    assert_eq!(results("Size", vec![], "a"), [2.0]);
    assert_eq!(results("Gather", vec![], "a axis"), [7.0]);
    assert_eq!(results("Concat", vec![int("axis", 0)], "a b"), [7.0, -7.0, 3.0, 3.0]);
    assert_eq!(results("Slice", vec![], "a axis two"), [7.0, -7.0]);
    assert_eq!(results("Range", vec![], "from to by"), [10.0, 6.0, 2.0]);
    assert_eq!(results("Constant", vec![ints("value_ints", &[4])], ""), [4.0]);
    assert_eq!(results("Constant", vec![int("value_int", 4)], ""), [4.0]);
    assert_eq!(results("Constant", vec![floats("value_floats", &[0.5, 4.0])], ""), [0.5, 4.0]);
    assert_eq!(results("Constant", vec![float("value_float", 0.5)], ""), [0.5]);
    let three = tensor("value", integer_tensor("", &[1], &[3]));
    assert_eq!(results("ConstantOfShape", vec![three], "two"), [3.0, 3.0]);
}

/// Cases that a user met; `tests/fold_check.py` compares all operators and types with onnxruntime.
#[test]
fn integers_have_the_width_of_their_type() {
    let typed = |name: &str, data_type: DataType, data: &[i64]| {
        let data = data.iter().map(|&value| value as i32).collect();
        TensorProto {
            name: name.into(),
            dims: vec![3],
            data_type: data_type as i32,
            int32_data: data,
            ..Default::default()
        }
    };
    let run = |operator: &str, inputs: &str, attributes: Vec<AttributeProto>| {
        Model::new(17)
            .input("x", &[1])
            .list("a", &[200, -200, 5])
            .list("b", &[3, 3, 2])
            .list("c", &[9, 300, 2])
            .initializer(typed("m", DataType::Int32, &[1 << 30, -(1 << 31), 7]))
            .initializer(typed("n", DataType::Int32, &[4, -1, 2]))
            .initializer(typed("u", DataType::Uint8, &[250, 3, 7]))
            .initializer(typed("v", DataType::Uint8, &[10, 4, 2]))
            .node(operator, inputs, "r", attributes)
            .node("Cast", "r", "f", vec![int("to", 1)])
            .output("f")
            .run()
    };
    let to = |kind: DataType| vec![int("to", kind as i64)];
    assert_eq!(run("Cast", "a", to(DataType::Int8)), [-56.0, 56.0, 5.0]);
    assert_eq!(run("Cast", "a", to(DataType::Uint8)), [200.0, 56.0, 5.0]);
    assert_eq!(run("Cast", "a", to(DataType::Bool)), [1.0, 1.0, 1.0]);
    assert_eq!(run("Mul", "m n", vec![]), [0.0, -2147483648.0, 14.0]);
    assert_eq!(run("Div", "m n", vec![])[1], -2147483648.0);
    assert_eq!(run("Add", "u v", vec![]), [4.0, 7.0, 9.0]);
    assert_eq!(run("Sub", "v u", vec![]), [16.0, 1.0, 251.0]);
    assert_eq!(run("Max", "a b c", vec![]), [200.0, 300.0, 5.0]);
    assert_eq!(run("Min", "c", vec![]), [9.0, 300.0, 2.0]);
    assert_eq!(run("Mod", "a b", vec![]), [2.0, 1.0, 1.0]);
    assert_eq!(run("Mod", "a b", vec![int("fmod", 1)]), [2.0, -2.0, 1.0]);
    let flowing = |operator: &str| single(17, operator, &[3], "x", vec![]).run();
    assert_eq!([flowing("Max"), flowing("Sum"), flowing("Mean")], [[1.0, 2.0, 3.0]; 3]);
    let mean = single(17, "Mean", &[3], "x x c", vec![]).weights("c", &[3]);
    assert_eq!(mean.run(), [1.0 / 3.0, 3.25 / 3.0, 5.5 / 3.0].map(|value: f64| value));
}

/// What `expand` and `interpolate` come out as.
#[test]
fn where_expand_and_floats_between_integers() {
    let model = Model::new(13)
        .input("x", &[2, 3, 4])
        .list("wanted", &[2, -1, 4])
        .list("rank", &[3])
        .initializer(integer_tensor("minus", &[], &[-1]))
        .node(
            "ConstantOfShape",
            "rank",
            "ones",
            vec![tensor("value", integer_tensor("", &[1], &[1]))],
        )
        .node("Mul", "ones minus", "minuses", vec![])
        .node("Equal", "wanted minuses", "open", vec![])
        .node("Where", "open ones wanted", "shape", vec![])
        .node("Expand", "token shape", "tokens", vec![])
        .weights("token", &[1, 1, 4])
        .node("Concat", "tokens x", "y", vec![int("axis", 1)])
        .output("y");
    assert_eq!(only(&model), (Op::Concat { axis: 1 }, vec![2, 4, 4]));
    assert_eq!(model.run()[16..22], [-1.0, -0.75, -0.5, -0.25, 13.0, 14.0]);

    let model = Model::new(11)
        .input("x", &[5, 2])
        .initializer(float_tensor("half", &[], &[0.5]))
        .list("tail", &[-1])
        .node("Shape", "x", "s", vec![])
        .node("Cast", "s", "f", vec![int("to", 1)])
        .node("Mul", "f half", "h", vec![])
        .node("Floor", "h", "l", vec![])
        .node("Cast", "l", "i", vec![int("to", 7)])
        .node("Concat", "i tail", "t", vec![int("axis", 0)])
        .node("Reshape", "x t", "y", vec![])
        .output("y");
    assert_eq!(only(&model), (Op::Reshape, vec![2, 1, 5]));
}

#[test]
fn constant_floats_fold() {
    let model = Model::new(13)
        .input("x", &[1, 2])
        .weights("w", &[3, 2])
        .initializer(float_tensor("two", &[], &[2.0]))
        .node("Transpose", "w", "t", vec![])
        .node("Identity", "t", "u", vec![])
        .node("Mul", "u two", "v", vec![])
        .node("Sqrt", "two", "r", vec![])
        .node("Mul", "r r", "q", vec![])
        .node("MatMul", "x v", "m", vec![])
        .node("Mul", "m q", "y", vec![])
        .output("y");
    let graph = model.import();
    assert_eq!(graph.nodes.len(), 2);
    // w = [-1 -.75; -.5 -.25; 0 .25]
    let expected = [-2.5, -1.0, 0.5].map(|value| value * 4.0);
    model.run().iter().zip(expected).for_each(|(y, e)| assert!((y - e).abs() < 1e-5));
}

#[test]
fn float_types_and_their_fields() {
    let make = |data_type: DataType| TensorProto {
        name: "w".into(),
        dims: vec![2],
        data_type: data_type as i32,
        ..Default::default()
    };
    let raw = |data_type, bytes: &[u8]| TensorProto {
        raw_data: Bytes::copy_from_slice(bytes),
        ..make(data_type)
    };
    for tensor in [
        TensorProto { float_data: vec![1.0, -2.0], ..make(DataType::Float) },
        TensorProto { double_data: vec![1.0, -2.0], ..make(DataType::Double) },
        TensorProto { int32_data: vec![0x3c00, 0xc000], ..make(DataType::Float16) },
        TensorProto { int32_data: vec![0x3f80, 0xc000], ..make(DataType::Bfloat16) },
        raw(DataType::Float, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]),
        raw(DataType::Float16, &[0, 0x3c, 0, 0xc0]),
        raw(DataType::Bfloat16, &[0x80, 0x3f, 0, 0xc0]),
        raw(DataType::Double, &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0]),
    ] {
        let mut model = single(13, "Mul", &[2], "x w", vec![]).initializer(tensor.clone());
        let data_type = DataType::try_from(tensor.data_type).expect("a type");
        model.graph().input[0] = port("x", data_type, vec![dimension(2)]);
        assert_eq!(model.run(), [1.0, -4.0], "{tensor:?}");
    }
    for tensor in [
        raw(DataType::Int8, &[2, 255]),
        raw(DataType::Int16, &[2, 0, 255, 255]),
        raw(DataType::Int32, &[2, 0, 0, 0, 255, 255, 255, 255]),
        TensorProto { int32_data: vec![2, -1], ..make(DataType::Int32) },
        TensorProto { uint64_data: vec![2, 3], ..make(DataType::Uint64) },
        TensorProto { uint64_data: vec![2, 3], ..make(DataType::Uint32) },
        TensorProto { int64_data: vec![2, -1], ..make(DataType::Int64) },
    ] {
        let model = single(13, "Reshape", &[6], "x w", vec![]).initializer(tensor.clone());
        assert_eq!(only(&model).1, [2, 3], "{tensor:?}");
    }
}

#[test]
fn folding_is_bounded() {
    let model = single(13, "Add", &[1], "x c", vec![]).list("s", &[1 << 20, 1 << 12]);
    let error = model.node("ConstantOfShape", "s", "c", vec![]).error();
    assert!(error.contains("needs 16 GiB (17179869184 bytes) of memory"), "{error}");
    assert!(error.contains("node `ConstantOfShape_1`"), "{error}");
    assert!(error.contains("of the 256 MiB (268435456 bytes)"), "{error}");
    assert!(error.contains("--import-memory"), "{error}");
    // The result is empty, what leads to it is not.
    let mut model = Model::new(13).input("x", &[1]).list("n", &[1 << 20, 1]).list("m", &[1 << 20]);
    model = model.list("e", &[0, 1, 1]).node("ConstantOfShape", "n", "a", vec![]);
    model = model.node("ConstantOfShape", "m", "b", vec![]);
    model = model.node("ConstantOfShape", "e", "f", vec![]);
    model = model.node("Cast", "f", "c", vec![int("to", DataType::Bool as i64)]);
    let error = model.node("Where", "c a b", "w", vec![]).output("w").error();
    assert!(error.contains("node `Where_4`") && error.contains("of memory"), "{error}");
}
