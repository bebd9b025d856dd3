//! Integers: constants of any type, positions that are counted, parts from computed starts.

use super::*;
use crate::graph::Constant;

/// What operators make of constants, as the integers of the output.
#[track_caller]
fn folded(model: &Model) -> (Vec<i32>, Vec<usize>) {
    let graph = model.import();
    let output = &graph.values[graph.outputs[0]];
    let Some(Constant::Words(words)) = &output.constant else { panic!("{output:?} is not folded") };
    (words.to_vec(), output.shape.clone())
}

fn typed(name: &str, dims: &[i64], kind: DataType, data: &[i64]) -> TensorProto {
    let tensor = integer_tensor(name, dims, data);
    let int32_data = data.iter().map(|&value| value as i32).collect();
    match kind {
        DataType::Int64 => tensor,
        _ => TensorProto { data_type: kind as i32, int64_data: vec![], int32_data, ..tensor },
    }
}

fn of_constants(opset: i64) -> Model {
    Model::new(opset).input("x", &[1])
}

#[test]
fn constants_are_folded_in_any_type_by_operators_of_floats() {
    let one = |opset, operator: &str, kind, dims: &[i64], data: &[i64], attributes| {
        let model = of_constants(opset).initializer(typed("c", dims, kind, data));
        folded(&model.node(operator, "c", "y", attributes).output("y"))
    };
    use DataType::{Int8, Int32, Int64, Uint8};
    let row = [-3, 2, 0, 5];
    assert_eq!(one(14, "Relu", Int64, &[4], &row, vec![]).0, [0, 2, 0, 5]);
    assert_eq!(one(17, "ReduceMean", Int32, &[2, 2], &row, vec![ints("axes", &[1])]).0, [0, 2]);
    assert_eq!(one(17, "ReduceL1", Int32, &[4], &row, vec![]).0, [10]);
    assert_eq!(one(17, "ReduceSumSquare", Int32, &[4], &row, vec![]).0, [38]);
    let block = vec![int("blocksize", 2)];
    let (values, shape) = one(13, "SpaceToDepth", Int64, &[1, 1, 2, 2], &row, block.clone());
    assert_eq!((&values[..], &shape[..]), (&[-3, 2, 0, 5][..], &[1, 4, 1, 1][..]));
    let (values, shape) = one(13, "DepthToSpace", Int8, &[1, 4, 1, 1], &row, block);
    assert_eq!((&values[..], &shape[..]), (&[-3, 2, 0, 5][..], &[1, 1, 2, 2][..]));
    let pool = vec![ints("kernel_shape", &[2]), ints("strides", &[2])];
    assert_eq!(one(13, "MaxPool", Uint8, &[1, 1, 4], &[3, 200, 0, 5], pool).0, [200, 5]);
}

#[test]
fn products_and_samples_of_constant_integers() {
    let model = of_constants(13).list("s", &[1, 1, 4]);
    let image = typed("c", &[1, 1, 2], DataType::Int64, &[1 << 20, -7]);
    let resized = model.initializer(image).node("Resize", "c - - s", "y", vec![]).output("y");
    assert_eq!(folded(&resized).0, [1 << 20, 1 << 20, -7, -7]);
    let model = of_constants(13).list("a", &[3, 1 << 20]).list("b", &[5, 2]);
    let product = model.clone().node("MatMul", "a b", "y", vec![]).output("y");
    assert_eq!(folded(&product), (vec![15 + (2 << 20)], vec![]));
    let equation = vec![string("equation", "i,j->ij")];
    let outer = model.node("Einsum", "a b", "y", equation).output("y");
    assert_eq!(folded(&outer), (vec![15, 6, 5 << 20, 2 << 20], vec![2, 2]));
    let model = of_constants(13).list("a", &[3, 5]).list("b", &[2]).list("c", &[7]);
    let equation = vec![string("equation", "i,j,j->i")];
    let scaled = model.node("Einsum", "a b c", "y", equation).output("y");
    assert_eq!(folded(&scaled).0, [42, 70]);
    // Of what does not fit 53 bits a product is not exact.
    let model = of_constants(13).list("a", &[3, (1 << 60) + 1]).list("b", &[5, 2]);
    let error = model.node("MatMul", "a b", "y", vec![]).output("y").error();
    assert!(error.contains("1152921504606846977 of its constants is beyond 2^53"), "{error}");
}

#[test]
fn bounds_of_constant_integers_are_exact() {
    let model = of_constants(17)
        .list("c", &[-3, 5, i64::MAX])
        .initializer(integer_tensor("lo", &[], &[0]))
        .initializer(integer_tensor("hi", &[], &[(1 << 62) + 1]))
        .initializer(integer_tensor("less", &[], &[(1 << 62) - 6]));
    let both = model.clone().node("Clip", "c lo hi", "b", vec![]);
    let both = both.node("Min", "b less", "m", vec![]).node("Sub", "b m", "y", vec![]);
    assert_eq!(folded(&both.output("y")).0, [0, 0, 7]);
    let least = model.node("Clip", "c - lo", "y", vec![]).output("y");
    assert_eq!(folded(&least).0, [-3, 0, 0]);
}

#[test]
fn constant_integers_are_padded_with_any_number() {
    let pad = |value: i64, attributes| {
        let model = of_constants(18).list("c", &[i64::MAX, 2]).list("p", &[1, 2]);
        let model = model.initializer(integer_tensor("v", &[], &[value]));
        let model = model.initializer(integer_tensor("less", &[], &[i64::MAX - 9]));
        let model = model.node("Pad", "c p v", "q", attributes).list("at", &[0, 2, 3]);
        folded(&model.node("Gather", "q at", "y", vec![]).output("y")).0
    };
    assert_eq!(pad(-5, vec![]), [-5, 2, -5]);
    assert_eq!(pad(0, vec![]), [0, 2, 0]);
    let model = of_constants(18).list("c", &[7, 2]).list("p", &[1, 2]);
    let edge = model.node("Pad", "c p", "y", vec![string("mode", "edge")]).output("y");
    assert_eq!(folded(&edge).0, [7, 7, 2, 2, 2]);
    let model = of_constants(18).list("p", &[1, 0]);
    let truths = model.initializer(typed("c", &[2], DataType::Bool, &[1, 0]));
    let truths = truths.initializer(typed("v", &[], DataType::Bool, &[1]));
    assert_eq!(folded(&truths.node("Pad", "c p v", "y", vec![]).output("y")).0, [1, 1, 0]);
}

/// Inputs of a type that count up from 1, made integers that flow.
fn flowing(opset: i64, kind: DataType, shape: &[i64]) -> Model {
    let model = Model::new(opset).input("x", shape);
    model.node("Cast", "x", "w", vec![int("to", kind as i64)])
}

#[test]
fn integers_that_flow_are_padded_with_any_number() {
    let model = flowing(18, DataType::Int64, &[2]).list("p", &[1, 1]);
    let padded = model.initializer(integer_tensor("v", &[], &[-4]));
    assert_eq!(padded.node("Pad", "w p v", "y", vec![]).output("y").run(), [-4.0, 1.0, 2.0, -4.0]);
    let truths = flowing(18, DataType::Bool, &[2]).list("p", &[1, 1]);
    let truths =
        truths.initializer(typed("v", &[], DataType::Bool, &[1])).node("Not", "w", "n", vec![]);
    assert_eq!(truths.node("Pad", "n p v", "y", vec![]).output("y").run(), [1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn running_sums_of_integers_wrap_and_are_exact() {
    let sums = |axis: i64, attributes| {
        let model = flowing(14, DataType::Int32, &[2, 3]);
        let model = model.initializer(integer_tensor("a", &[], &[axis]));
        model.node("CumSum", "w a", "y", attributes).output("y").run()
    };
    assert_eq!(sums(1, vec![]), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    assert_eq!(sums(0, vec![]), [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
    assert_eq!(sums(1, vec![int("exclusive", 1)]), [0.0, 1.0, 3.0, 0.0, 4.0, 9.0]);
    let both = vec![int("exclusive", 1), int("reverse", 1)];
    assert_eq!(sums(1, both), [5.0, 3.0, 0.0, 11.0, 6.0, 0.0]);
    // Beyond 2^24, which floats of 32 bits do not count to.
    let model = flowing(14, DataType::Int32, &[3]).list("by", &[20_000_001]);
    let model = model.initializer(integer_tensor("a", &[], &[0]));
    let cast = vec![int("to", DataType::Int32 as i64)];
    let model = model.node("Cast", "by", "b", cast).node("Mul", "w b", "m", vec![]);
    let found = model.node("CumSum", "m a", "y", vec![]).output("y").run();
    assert_eq!(found, [20_000_001.0, 60_000_003.0, 120_000_006.0]);
}

/// One number that is computed, `s`, and what follows from it.
fn from_start(opset: i64) -> Model {
    let model = flowing(opset, DataType::Int64, &[1]);
    let model = model.initializer(integer_tensor("none", &[0], &[]));
    let number = |name: &str, value| integer_tensor(name, &[], &[value]);
    let model = model.initializer(number("one", 1)).initializer(number("three", 3));
    let model = model.initializer(number("two", 2)).list("back", &[-2]).list("first", &[0]);
    model.node("Reshape", "w none", "s", vec![]).node("Add", "s three", "e", vec![])
}

#[test]
fn ranges_from_computed_starts() {
    let range = |inputs: &str| from_start(17).node("Range", inputs, "y", vec![]).output("y").run();
    assert_eq!(range("s e one"), [1.0, 2.0, 3.0]);
    assert_eq!(range("s e two"), [1.0, 3.0]);
    // The same start, however it came to its end.
    let model = from_start(17).node("Unsqueeze", "s first", "u", vec![]);
    let model = model.node("Add", "one e", "f", vec![]).node("Squeeze", "u", "t", vec![]);
    let model = model.node("Sub", "f three", "g", vec![]);
    assert_eq!(model.node("Range", "t g one", "y", vec![]).output("y").run(), [1.0]);
    let error = from_start(17).node("Range", "one e one", "y", vec![]).output("y").error();
    assert!(error.contains("how many elements it makes follows from `e`"), "{error}");
    assert!(error.contains("limit - start must be constant"), "{error}");
    let error = from_start(17).node("Range", "s e s", "y", vec![]).output("y").error();
    assert!(error.contains("`delta` must be constant, but `s` is computed"), "{error}");
    let model = Model::new(17).input("x", &[]).initializer(float_tensor("n", &[], &[2.0]));
    let model = model.initializer(float_tensor("h", &[], &[0.5])).node("Add", "x n", "e", vec![]);
    let model = model.node("Range", "x e h", "y", vec![]).output("y");
    assert_eq!(model.run(), [1.0, 1.5, 2.0, 2.5]);
}

#[test]
fn slices_from_computed_starts() {
    let slice = |data: &str, from: &str, to: &str| {
        let model = from_start(17).weights("table", &[2, 8]).list("ids", &[5, 6, 7, 8, 9]);
        let model = model.list("on", &[1]).list("length", &[2]);
        let model = model.node("Unsqueeze", "s first", "b", vec![]);
        let model = model.node("Add", "b length", "c", vec![]).node("Sub", "b length", "a", vec![]);
        let axes = if data == "table" { "on" } else { "first" };
        model.node("Slice", &format!("{data} {from} {to} {axes}"), "y", vec![]).output("y")
    };
    assert_eq!(slice("ids", "b", "c").run(), [6.0, 7.0]);
    // From the second on, of two rows.
    assert_eq!(slice("table", "b", "c").run(), [-0.75, -0.5, 1.25, 1.5]);
    // One before the end counts from it.
    assert_eq!(slice("ids", "a", "b").run().len(), 2);
    let error = slice("ids", "first", "c").error();
    assert!(error.contains("`ends` - `starts` must be constant"), "{error}");
    // What flows, along two axes: one start is constant, one computed.
    let model = from_start(17).input("z", &[2, 4]).list("on", &[0, 1]).list("all", &[0, 2]);
    let model = model.list("length", &[1, 2]).node("Unsqueeze", "s first", "b", vec![]);
    let model = model.node("Concat", "first b", "from", vec![int("axis", 0)]);
    let model = model.node("Add", "from length", "to", vec![]);
    let found = model.node("Slice", "z from to on", "y", vec![]).output("y").run();
    assert_eq!(found, [2.0, 3.0]);
}

#[test]
fn scales_by_block() {
    let model = |x: &str| {
        let model = Model::new(21).input("x", &[4]);
        let model = model.initializer(typed("q", &[4], DataType::Int8, &[10, 20, 30, 40]));
        let model = model.initializer(float_tensor("s", &[2], &[0.5, 2.0]));
        let model = model.initializer(typed("z", &[2], DataType::Int8, &[0, 10]));
        let model = model.node("Cast", "x", "w", vec![int("to", DataType::Int8 as i64)]);
        let blocks = vec![int("axis", 0), int("block_size", 2)];
        let model = model.node("DequantizeLinear", &format!("{x} s z"), "f", blocks);
        model.node("Add", "f f", "y", vec![]).output("y").run()
    };
    assert_eq!(model("q"), [10.0, 20.0, 80.0, 120.0]);
    // So are tensors that are computed.
    assert_eq!(model("w"), [1.0, 2.0, -28.0, -24.0]);
}

#[test]
fn integers_that_may_not_fit_32_bits_are_said() {
    let whole = || vec![int("to", DataType::Int64 as i64)];
    let notes = |model: Model| model.output("y").import().notes;
    let [note] = &notes(single(18, "Cast", &[2], "x", whole()))[..] else { panic!("no note") };
    assert!(note.starts_with("node `Cast_0` (Cast): results may be beyond 32 bits"), "{note}");
    let sigmoid = Model::new(18).input("x", &[2]).node("Sigmoid", "x", "s", vec![]);
    let sigmoid =
        sigmoid.initializer(float_tensor("k", &[], &[1e9])).node("Mul", "s k", "m", vec![]);
    assert!(notes(sigmoid.node("Cast", "m", "y", whole())).is_empty());
    // A product of an integer of the model's input, of two of which nothing is known, and of truth values.
    let mut ids = Model::new(18);
    ids.graph().input.push(port("ids", DataType::Int64, vec![dimension(2)]));
    let unknown = ids.clone().node("Mul", "ids ids", "y", vec![]);
    assert!(notes(unknown).is_empty());
    let [note] = &notes(ids.list("k", &[3600]).node("Mul", "ids k", "y", vec![]))[..] else {
        panic!("no note")
    };
    assert!(note.starts_with("node `Mul_0` (Mul): results may be"), "{note}");
    let mut masks = Model::new(18).list("zero", &[0]).node("Equal", "ids zero", "e", vec![]);
    masks.graph().input.push(port("ids", DataType::Int64, vec![dimension(2)]));
    let masks = masks.node("Cast", "e", "m", whole()).list("k", &[1 << 30]);
    assert!(notes(masks.node("Mul", "m k", "y", vec![])).is_empty());
}

#[test]
fn integers_are_added_up_where_constant_indices_say() {
    let scattered = |how: &str| {
        let model = flowing(18, DataType::Int32, &[3]).list("at", &[2, 0, 2]);
        let model = model.node("Add", "w w", "u", vec![]);
        let how = vec![string("reduction", how)];
        model.node("ScatterElements", "w at u", "y", how).output("y").run()
    };
    assert_eq!(scattered("add"), [5.0, 2.0, 11.0]);
    assert_eq!(scattered("mul"), [4.0, 2.0, 36.0]);
    assert_eq!(scattered("max"), [4.0, 2.0, 6.0]);
    assert_eq!(scattered("min"), [1.0, 2.0, 2.0]);
}

/// `clamp(min=0)` of token ids has the largest integer of 64 bits as its other bound.
#[test]
fn bounds_beyond_32_bits_bound_nothing() {
    let number = |name: &str, value| integer_tensor(name, &[], &[value]);
    let model = || {
        let model = flowing(17, DataType::Int64, &[3]).initializer(number("most", i64::MAX));
        model.initializer(number("two", 2)).initializer(number("least", i64::MIN))
    };
    let clip = |inputs: &str| model().node("Clip", inputs, "y", vec![]).output("y").run();
    assert_eq!(clip("w two most"), [2.0, 2.0, 3.0]);
    assert_eq!(clip("w least two"), [1.0, 2.0, 2.0]);
    let min = model().node("Min", "w most two", "y", vec![]).output("y");
    assert_eq!(min.run(), [1.0, 2.0, 2.0]);
    let sum = model().node("Add", "w most", "y", vec![]).output("y").error();
    assert!(sum.contains("an integer of its constants is 9223372036854775807"), "{sum}");
    let places = model().list("c", &[1 << 40, -7, 1 << 50]).node("ArgMax", "c", "y", vec![]);
    assert_eq!(places.output("y").run(), [2.0]);
}
