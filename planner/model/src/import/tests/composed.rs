//! Operators that become several others: what they compute, on small numbers.

use super::*;
use crate::import::Options;
use crate::import::import_bytes_with;

fn close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{found} {wanted}");
    }
}

impl Model {
    /// An input of integers.
    fn integers(mut self, name: &str, shape: &[i64]) -> Self {
        let dims = shape.iter().map(|&extent| dimension(extent)).collect();
        self.graph().input.push(port(name, DataType::Int64, dims));
        self
    }

    fn floats(self, name: &str, dims: &[i64], data: &[f32]) -> Self {
        self.initializer(float_tensor(name, dims, data))
    }

    /// All outputs for these inputs.
    #[track_caller]
    fn outputs(&self, inputs: &[&[f64]]) -> Vec<Vec<f64>> {
        let inputs: Vec<Vec<f64>> = inputs.iter().map(|input| input.to_vec()).collect();
        reference::run(&self.import(), &inputs)
    }

    /// A node of onnxruntime's operators.
    fn contrib(self, operator: &str, inputs: &str, attributes: Vec<AttributeProto>) -> Self {
        let mut model = self.node(operator, inputs, "y", attributes).output("y");
        model.graph().node[0].domain = "com.microsoft".into();
        model
    }
}

#[test]
fn remainders_have_the_divisors_sign() {
    let model = Model::new(13).input("a", &[6]).input("b", &[6]);
    let model = model.node("Mod", "a b", "y", vec![]).output("y");
    let (a, b) = ([5.0, -5.0, 5.0, -5.0, 6.0, -6.5], [3.0, 3.0, -3.0, -3.0, 3.0, f64::INFINITY]);
    assert_eq!(model.outputs(&[&a, &b])[0], [2.0, 1.0, -1.0, -2.0, 0.0, f64::INFINITY]);
}

#[test]
fn signed_shifts_keep_the_sign() {
    let model = Model::new(13).integers("x", &[4]).integers("n", &[4]);
    let right = vec![string("direction", "RIGHT")];
    let model = model.node("BitShift", "x n", "y", right).output("y");
    let made = model.outputs(&[&[-9.0, 9.0, -1.0, -9.0], &[1.0, 1.0, 31.0, 40.0]]);
    assert_eq!(made[0], [-5.0, 4.0, -1.0, -1.0]);
}

#[test]
fn powers_have_the_bases_type() {
    let model = |inputs: &str| {
        let model = Model::new(13).input("x", &[2]).integers("n", &[2]);
        model.node("Pow", inputs, "y", vec![]).output("y")
    };
    close(&model("x n").outputs(&[&[1.5, 2.0], &[2.0, -1.0]])[0], &[2.25, 0.5]);
    close(&model("n x").outputs(&[&[0.5, 2.0], &[7.0, 3.0]])[0], &[2.0, 9.0]);
}

#[test]
fn zeros_of_integer_products_may_be_of_channels() {
    let mut model = Model::new(13).floats("unused", &[1], &[0.0]);
    for (name, shape) in [("a", vec![2, 2]), ("b", vec![2, 2]), ("za", vec![2]), ("zb", vec![2])] {
        let dims = shape.into_iter().map(dimension).collect();
        model.graph().input.push(port(name, DataType::Uint8, dims));
    }
    let model = model.node("MatMulInteger", "a b za zb", "y", vec![]).output("y");
    let inputs: [&[f64]; 4] =
        [&[3.0, 4.0, 5.0, 6.0], &[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0], &[0.0, 1.0]];
    // [[2, 3], [3, 4]] · [[1, 1], [3, 3]]
    assert_eq!(model.outputs(&inputs)[0], [11.0, 11.0, 15.0, 15.0]);
}

#[test]
fn padding_of_integer_convolutions_is_the_zero() {
    let mut model = Model::new(13).list("z", &[]).floats("unused", &[1], &[0.0]);
    for (name, shape) in [("x", vec![1, 1, 1, 2]), ("w", vec![1, 1, 1, 2]), ("zero", vec![])] {
        let dims = shape.into_iter().map(dimension).collect();
        model.graph().input.push(port(name, DataType::Uint8, dims));
    }
    let pads = vec![ints("pads", &[0, 1, 0, 1])];
    let model = model.node("ConvInteger", "x w zero", "y", pads).output("y");
    assert_eq!(model.outputs(&[&[5.0, 7.0], &[1.0, 10.0], &[4.0]])[0], [10.0, 31.0, 3.0]);
}

#[test]
fn masks_of_truth_values_hide_keys() {
    let mut model = Model::new(23).input("x", &[1, 1, 2, 1]);
    model.graph().input.push(port("m", DataType::Bool, vec![dimension(2), dimension(2)]));
    let model = model.node("Attention", "x x x m", "y", vec![]).output("y");
    // The first position sees the second key alone, the second none.
    assert_eq!(model.outputs(&[&[3.0, 5.0], &[0.0, 1.0, 0.0, 0.0]])[0], [5.0, 0.0]);
}

#[test]
fn a_state_is_carried_through_linear_attention() {
    let model = Model::new(27).input("q", &[1, 2, 1]).input("k", &[1, 2, 1]).input("v", &[1, 2, 1]);
    let model = model.input("s", &[1, 1, 1, 1]).input("b", &[1, 2, 1]);
    let heads = || vec![int("q_num_heads", 1), int("kv_num_heads", 1), float("scale", 1.0)];
    let rule = |name: &str| [heads(), vec![string("update_rule", name)]].concat();
    let linear = model.clone().node("LinearAttention", "q k v s", "y t", rule("linear"));
    let inputs: [&[f64]; 5] = [&[1.0, 2.0], &[3.0, 4.0], &[5.0, 6.0], &[7.0], &[0.5, 1.0]];
    let made = linear.output("y").output("t").outputs(&inputs);
    assert_eq!(made, [vec![22.0, 92.0], vec![46.0]]);
    let delta = model.node("LinearAttention", "q k v s - b", "y t", rule("delta")).output("t");
    // 7 + 3 · 0.5 (5 - 3 · 7) = -17, and -17 + 4 (6 + 4 · 17) = 279
    assert_eq!(delta.outputs(&inputs)[0], [279.0]);
}

#[test]
fn causal_convolutions_carry_what_is_before() {
    let model = Model::new(27).input("x", &[1, 1, 3]).input("s", &[1, 1, 1]);
    let model = model.floats("w", &[1, 1, 2], &[10.0, 1.0]);
    let model = model.node("CausalConvWithState", "x w - s", "y t", vec![]);
    let made = model.output("y").output("t").outputs(&[&[1.0, 2.0, 3.0], &[4.0]]);
    assert_eq!(made, [vec![41.0, 12.0, 23.0], vec![3.0]]);
}

#[test]
fn caches_are_written_from_a_place_on() {
    let model = Model::new(24).input("c", &[2, 3, 1]).input("u", &[2, 2, 1]).integers("at", &[2]);
    let cache: [&[f64]; 3] = [&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[7.0, 8.0, 9.0, 10.0], &[0.0, 2.0]];
    let attributes = vec![string("mode", "circular")];
    let model = model.node("TensorScatter", "c u at", "y", attributes).output("y");
    assert_eq!(model.outputs(&cache)[0], [7.0, 8.0, 3.0, 10.0, 5.0, 9.0]);
}

#[test]
fn determinants() {
    let model = single(13, "Det", &[2, 3, 3], "x", vec![]);
    let x =
        [2.0, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0];
    close(&model.outputs(&[&x])[0], &[0.0, -3.0]);
    assert!(single(13, "Det", &[5, 5], "x", vec![]).error().contains("at most 4"));
}

#[test]
fn one_side_is_transformed_back() {
    let forth = single(20, "DFT", &[1, 6, 1], "x", vec![int("onesided", 1)]);
    let x = [1.0, 4.0, -2.0, 3.0, 0.5, 7.0];
    let half = forth.outputs(&[&x]).swap_remove(0);
    let attributes = vec![int("onesided", 1), int("inverse", 1)];
    let back = single(20, "DFT", &[1, 4, 2], "x", attributes);
    close(&back.outputs(&[&half])[0], &x);
}

#[test]
fn bands_of_frequencies_are_weights() {
    let bands = |upper: f32| {
        let model = Model::new(17).input("x", &[5, 5]);
        let numbers = [("bands", 3), ("length", 8), ("rate", 80)];
        let model = numbers.into_iter().fold(model, |model, (name, value)| {
            model.initializer(integer_tensor(name, &[], &[value]))
        });
        model
            .floats("low", &[], &[0.0])
            .floats("high", &[], &[upper])
            .node("MelWeightMatrix", "bands length rate low high", "w", vec![])
            .node("MatMul", "x w", "y", vec![])
            .output("y")
    };
    let mut unit = [0.0; 25];
    (0..5).for_each(|at| unit[6 * at] = 1.0);
    // Bands begin at the frequencies 0, 0, 1, 2 and 3.
    let wanted = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    close(&bands(40.0).outputs(&[&unit])[0], &wanted);
    assert!(bands(400.0).error().contains("from 0 to 400 Hz"));
}

#[test]
fn taps_that_are_not_moved_are_a_convolution() {
    let offset = "x w o";
    let attributes = || vec![ints("pads", &[1, 1, 1, 1]), ints("strides", &[2, 1])];
    let model = Model::new(19).input("x", &[2, 4, 5, 6]).input("o", &[2, 36, 3, 6]);
    let model = model.weights("w", &[3, 4, 3, 3]);
    let groups = [attributes(), vec![int("offset_group", 2)]].concat();
    let deformed = model.clone().node("DeformConv", offset, "y", groups).output("y");
    let plain = model.node("Conv", "x w", "y", attributes()).output("y");
    let x: Vec<f64> = (0..240).map(|at| f64::from(at * 7 % 11) - 5.0).collect();
    let none = vec![0.0; 2 * 36 * 18];
    let wanted = plain.outputs(&[&x, &none]);
    let found = deformed.outputs(&[&x, &none]);
    for (found, wanted) in found[0].iter().zip(&wanted[0]) {
        assert!((found - wanted).abs() < 1e-3, "{found} {wanted}");
    }
    // Moved down by one everywhere.
    let down: Vec<f64> = (0..none.len()).map(|at| f64::from(u8::from(at / 18 % 2 == 0))).collect();
    let moved: Vec<f64> =
        (0..240).map(|at| if at / 6 % 5 == 4 { 0.0 } else { x[at + 6] }).collect();
    let (found, wanted) = (deformed.outputs(&[&x, &down]), plain.outputs(&[&moved, &none]));
    // Of the lines at the upper edge the padding is moved into the image.
    for at in (0..found[0].len()).filter(|at| at / 6 % 3 > 0) {
        assert!((found[0][at] - wanted[0][at]).abs() < 1e-3, "{at}");
    }
}

#[test]
fn regions_are_means_of_samples() {
    let model = Model::new(16).input("x", &[2, 1, 3, 3]).input("r", &[2, 4]).integers("b", &[2]);
    let attributes =
        vec![int("output_height", 1), int("output_width", 1), int("sampling_ratio", 2)];
    let model = model.node("RoiAlign", "x r b", "y", attributes.clone()).output("y");
    let x: Vec<f64> = (0..18).map(f64::from).collect();
    // Of a linear image a mean is the value in the middle; half a pixel is between corner and center.
    let made = model.outputs(&[&x, &[0.5, 0.5, 2.5, 2.5, 1.0, 1.0, 2.0, 3.0], &[0.0, 1.0]]);
    close(&made[0], &[4.0, 9.0 + 3.0 * 1.5 + 1.0]);
    let adaptive = Model::new(16).input("x", &[2, 1, 3, 3]).input("r", &[2, 4]).integers("b", &[2]);
    let adaptive = adaptive.node("RoiAlign", "x r b", "y", attributes[..2].to_vec()).output("y");
    assert!(adaptive.error().contains("`sampling_ratio` is 0"));
}

#[test]
fn places_of_maxima_lead_back() {
    let attributes = || vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let model = Model::new(13).input("x", &[2, 1, 4, 4]);
    let model = model.node("MaxPool", "x", "m where", attributes());
    let model = model.node("MaxUnpool", "m where", "y", attributes());
    let model = model.output("where").output("y");
    let x: Vec<f64> = (0..32).map(|at| f64::from(at * 5 % 32 + 1)).collect();
    let made = model.outputs(&[&x]);
    let mut wanted = vec![0.0; 32];
    for (&place, lane) in made[0].iter().zip(0..) {
        let (plane, row, column) = (lane / 4, lane / 2 % 2, lane % 2);
        let block = [0, 1, 4, 5].map(|at| plane * 16 + row * 8 + column * 2 + at);
        let best = block.into_iter().reduce(|a, b| if x[b] > x[a] { b } else { a }).unwrap();
        assert_eq!(place as usize, best, "{lane}");
        wanted[best] = x[best];
    }
    assert_eq!(made[1], wanted);
    let padded = vec![
        ints("kernel_shape", &[3]),
        ints("pads", &[1, 1]),
        ints("dilations", &[2]),
        int("ceil_mode", 1),
        ints("strides", &[2]),
    ];
    let model = Model::new(13).input("x", &[1, 2, 5]);
    let model = model.node("MaxPool", "x", "m where", padded).output("where");
    // Windows begin at -1 and 1; columns first make no difference along one axis.
    let x = [1.0, 9.0, 2.0, 8.0, 3.0, 5.0, 1.0, 4.0, 2.0, 3.0];
    assert_eq!(model.outputs(&[&x])[0], [1.0, 1.0, 8.0, 8.0]);
}

#[test]
fn the_first_in_order() {
    let model = Model::new(13).input("x", &[2, 4]).list("k", &[2]);
    let top = |largest| vec![int("axis", 1), int("largest", largest)];
    let x = [1.0, 3.0, 3.0, 2.0, 5.0, 0.0, -1.0, 5.0];
    let made =
        model.clone().node("TopK", "x k", "v i", top(1)).output("v").output("i").outputs(&[&x]);
    assert_eq!(made, [vec![3.0, 3.0, 5.0, 5.0], vec![1.0, 2.0, 0.0, 3.0]]);
    let made = model.node("TopK", "x k", "v i", top(0)).output("v").output("i").outputs(&[&x]);
    assert_eq!(made, [vec![1.0, 2.0, -1.0, 0.0], vec![0.0, 3.0, 2.0, 1.0]]);
}

#[test]
fn computed_indices_name_elements_and_rows() {
    let model = || Model::new(16).input("x", &[2, 3]).integers("i", &[2, 2]).input("u", &[2, 2]);
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let along = || vec![int("axis", 1)];
    let gathered = model().node("GatherElements", "x i", "y", along()).output("y");
    let made = gathered.outputs(&[&x, &[2.0, -3.0, 1.0, 1.0], &[0.0; 4]]);
    assert_eq!(made[0], [3.0, 1.0, 5.0, 5.0]);
    let tuples = model().node("GatherND", "x i", "y", vec![]).output("y");
    assert_eq!(tuples.outputs(&[&x, &[1.0, -1.0, 0.0, 1.0], &[0.0; 4]])[0], [6.0, 2.0]);
    let batched = model().node("GatherND", "x c", "y", vec![int("batch_dims", 1)]);
    let batched = batched.node("Slice", "i s e a", "c", vec![]).list("s", &[0]).list("e", &[1]);
    let batched = batched.list("a", &[1]).output("y");
    assert_eq!(batched.outputs(&[&x, &[2.0, 0.0, -3.0, 0.0], &[0.0; 4]])[0], [3.0, 4.0]);
    let sums = [along(), vec![string("reduction", "add")]].concat();
    let written = model().node("ScatterElements", "x i u", "y", sums).output("y");
    let made = written.outputs(&[&x, &[0.0, 0.0, -1.0, 1.0], &[10.0, 20.0, 30.0, 40.0]]);
    assert_eq!(made[0], [31.0, 2.0, 3.0, 4.0, 45.0, 36.0]);
    // Rows of a constant: [-1, -0.75], [-0.5, -0.25], [0, 0.25].
    let rows = Model::new(16).weights("x", &[3, 2]).integers("i", &[2, 1]).input("u", &[2, 2]);
    let rows = rows.node("ScatterND", "x i u", "y", vec![]).output("y");
    let made = rows.outputs(&[&[2.0, -3.0], &[10.0, 20.0, 30.0, 40.0]]);
    assert_eq!(made[0], [30.0, 40.0, -0.5, -0.25, 10.0, 20.0]);
    let bad = model().node("ScatterElements", "x i i", "y", along()).output("y").error();
    assert!(bad.contains("FLOAT") && bad.contains("INT64"), "{bad}");
}

#[test]
fn boxes_that_overlap_go() {
    let model = Model::new(13).input("b", &[1, 3, 4]).input("s", &[1, 2, 3]).list("n", &[2]);
    let model = model.floats("t", &[], &[0.5]).floats("u", &[], &[0.0]);
    let model = model.node("NonMaxSuppression", "b s n t u", "y", vec![]).output("y");
    let boxes = [0.0, 0.0, 2.0, 2.0, 2.1, 2.1, 0.1, 0.1, 5.0, 5.0, 6.0, 6.0];
    let made = model.outputs(&[&boxes, &[1.0, 2.0, 3.0, 4.0, 0.0, -1.0]]);
    let wanted = [[0.0, 0.0, 2.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, -1.0, -1.0]];
    assert_eq!(made[0], wanted.concat());
    let notes = model.import().notes;
    assert!(notes.iter().any(|note| note.contains("has 4 rows")), "{notes:?}");
}

/// A dimension of 0 makes an input one that has no elements, as a past of no positions.
#[test]
fn a_past_may_be_empty() {
    let mut model = Model::new(13).input("x", &[1, 2]);
    let name = Some(Dimension::Param("past".into()));
    let dims = vec![dimension(1), DimensionProto { value: name }];
    model.graph().input.push(port("past", DataType::Float, dims));
    let model = model.node("Concat", "past x", "c", vec![int("axis", 1)]);
    let model = model.node("Split", "c sizes", "none y", vec![int("axis", 1)]);
    let model = model.list("sizes", &[0, 2]).node("Relu", "y", "z", vec![]).output("z");
    let options = Options { dims: vec![("past".into(), 0)], ..Options::default() };
    let graph = import_bytes_with(model.bytes().into(), None, &options).unwrap();
    assert_eq!(graph.inputs.len(), 1);
    assert_eq!(reference::run(&graph, &[vec![-3.0, 4.0]])[0], [0.0, 4.0]);
}

#[test]
fn operators_of_onnxruntime() {
    let x = [1.0, -2.0, 3.0, 0.5];
    let gelu = |x: f64| 0.5 * x * (1.0 + reference::erf(x / 2f64.sqrt()));
    let model = || Model::new(17).input("x", &[1, 2, 2]);
    let biased = model().floats("b", &[2], &[1.0, 2.0]).contrib("BiasGelu", "x b", vec![]);
    let sums = [2.0, 0.0, 4.0, 2.5];
    close(&biased.outputs(&[&x])[0], &sums.map(gelu));
    let quick = model().contrib("QuickGelu", "x", vec![]);
    close(&quick.outputs(&[&x])[0], &x.map(|x| x / (1.0 + (-1.702 * x).exp())));
    let scaled = vec![int("transB", 1), float("alpha", 2.0)];
    let product = model().contrib("FusedMatMul", "x x", scaled);
    close(&product.outputs(&[&x])[0], &[10.0, 4.0, 4.0, 18.5]);
    let ones = |model: Model| model.floats("g", &[2], &[2.0, 2.0]).floats("o", &[2], &[1.0, 1.0]);
    let norm = ones(model()).contrib("SkipLayerNormalization", "x x g o", vec![]);
    close(&norm.outputs(&[&x])[0], &[3.0, -1.0, 3.0, -1.0]);
    let image = Model::new(17).input("x", &[1, 1, 2, 2]).floats("w", &[1, 1, 1, 1], &[-1.0]);
    let relu = vec![string("activation", "Relu")];
    let fused = image.contrib("FusedConv", "x w - x", relu);
    assert_eq!(fused.outputs(&[&x])[0], [0.0; 4]);
    let heads = || vec![int("num_heads", 1)];
    let attention = model().contrib("MultiHeadAttention", "x x x", heads());
    let onnx = Model::new(23).input("x", &[1, 2, 2]);
    let onnx =
        onnx.node("Attention", "x x x", "y", vec![int("q_num_heads", 1), int("kv_num_heads", 1)]);
    close(&attention.outputs(&[&x])[0], &onnx.output("y").outputs(&[&x])[0]);
    let both = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
    let packed = model().floats("w", &[2, 6], &both).contrib("Attention", "x w", heads());
    close(&packed.outputs(&[&x])[0], &attention.outputs(&[&x])[0]);
}
