//! Interpolation, padding and choices along an axis. Expected numbers are onnxruntime's, or follow
//! from the definitions.

use super::*;

/// A `Resize` of these numbers in one row, by factor or to a size.
#[track_caller]
fn row(data: &[f32], attributes: &[(&str, &str)], factor: f32, size: Option<i64>) -> Vec<f64> {
    let mut given: Vec<_> = attributes.iter().map(|(name, text)| string(name, text)).collect();
    given.push(ints("axes", &[3]));
    let inputs = if size.is_some() { "x - - s" } else { "x - f" };
    let model = single(19, "Resize", &[1, 1, 1, data.len() as i64], inputs, given);
    let model = model.initializer(float_tensor("f", &[1], &[factor]));
    let graph = model.list("s", &[size.unwrap_or(0)]).import();
    let data = data.iter().map(|&value| f64::from(value)).collect();
    reference::run(&graph, &[data]).swap_remove(0)
}

#[track_caller]
fn near(found: &[f64], expected: &[f64]) {
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(same, "{found:?}, not {expected:?}");
}

#[test]
fn linear_in_each_place() {
    let place = |name| [("mode", "linear"), ("coordinate_transformation_mode", name)];
    let four = [1.0, 2.0, 3.0, 4.0];
    let doubled = row(&four, &place("half_pixel"), 2.0, None);
    near(&doubled, &[1.0, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4.0]);
    let corners = row(&four, &place("align_corners"), 1.0, Some(7));
    near(&corners, &[1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]);
    near(&row(&four, &place("asymmetric"), 0.5, None), &[1.0, 3.0]);
    near(&row(&four, &place("pytorch_half_pixel"), 0.25, None), &[1.0]);
    near(&row(&four, &place("half_pixel"), 0.6, None), &[1.3333333, 3.0]);
    near(&row(&four, &place("half_pixel_symmetric"), 0.6, None), &[1.6666667, 3.3333333]);
}

/// ONNX's reference would align the corner to 2.4 elements, onnxruntime to two.
#[test]
fn corners_of_no_whole_extent_are_refused() {
    let place = string("coordinate_transformation_mode", "align_corners");
    let model = single(19, "Resize", &[1, 1, 1, 4], "x - f", vec![place, ints("axes", &[3])]);
    let error = model.initializer(float_tensor("f", &[1], &[0.6])).error();
    assert!(error.contains("export it with sizes"), "{error}");
}

#[test]
fn nearest_by_each_rounding() {
    let by = |place, rounding| {
        let attributes = [("coordinate_transformation_mode", place), ("nearest_mode", rounding)];
        row(&[1.0, 2.0, 3.0, 4.0], &attributes, 1.0, Some(8))
    };
    near(&by("half_pixel", "round_prefer_floor"), &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]);
    near(&by("asymmetric", "round_prefer_ceil"), &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    near(&by("align_corners", "floor"), &[1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0]);
    near(&by("half_pixel", "ceil"), &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    // Three times three fifths is a whole element, in single precision.
    let attributes = [("coordinate_transformation_mode", "asymmetric"), ("nearest_mode", "floor")];
    let data: Vec<f32> = (0..10).map(|at| at as f32).collect();
    near(&row(&data, &attributes, 0.6, None), &[0.0, 1.0, 3.0, 5.0, 6.0, 8.0]);
}

/// A half is one as well where single precision makes a little less or more of it.
#[test]
fn nearest_of_halves() {
    let by = |from: u8, to, place, rounding| {
        let attributes = [("coordinate_transformation_mode", place), ("nearest_mode", rounding)];
        let data: Vec<f32> = (0..from).map(f32::from).collect();
        row(&data, &attributes, 1.0, Some(to))
    };
    let found = by(13, 8, "asymmetric", "round_prefer_ceil");
    near(&found, &[0.0, 2.0, 3.0, 5.0, 7.0, 8.0, 10.0, 11.0]);
    let found = by(14, 9, "half_pixel", "round_prefer_ceil");
    near(&found, &[0.0, 2.0, 3.0, 5.0, 7.0, 8.0, 10.0, 11.0, 13.0]);
    let found = by(23, 14, "asymmetric", "round_prefer_floor");
    let expected = [0, 2, 3, 5, 7, 8, 10, 11, 13, 15, 16, 18, 20, 21];
    near(&found, &expected.map(f64::from));
}

#[test]
fn cubic_antialiased_and_cropped() {
    let four = [1.0, 2.0, 3.0, 4.0];
    let doubled = row(&four, &[("mode", "cubic")], 2.0, None);
    let expected = [
        0.89453125, 1.19140625, 1.66796875, 2.296875, 2.703125, 3.33203125, 3.80859375, 4.10546875,
    ];
    near(&doubled, &expected);
    let model = |extra: Vec<AttributeProto>| {
        let attributes = [vec![ints("axes", &[3])], extra].concat();
        single(19, "Resize", &[1, 1, 1, 4], "x r f", attributes)
            .initializer(float_tensor("f", &[1], &[0.5]))
            .initializer(float_tensor("r", &[2], &[0.5, 1.5]))
            .run()
    };
    let linear = string("mode", "linear");
    near(&model(vec![linear.clone(), int("antialias", 1)]), &[1.625, 3.375]);
    let crop = string("coordinate_transformation_mode", "tf_crop_and_resize");
    near(&model(vec![linear, crop, float("extrapolation_value", 9.0)]), &[2.5, 9.0]);
    let outside = vec![string("mode", "cubic"), int("exclude_outside", 1)];
    let found = model(outside);
    near(&found, &[1.3714286, 3.6285715]);
}

#[test]
fn pads_in_each_mode() {
    let padded = |mode: &str, pads: &[i64]| {
        let model = single(19, "Pad", &[1, 4], "x p - a", vec![string("mode", mode)]);
        model.list("p", pads).list("a", &[-1]).run()
    };
    assert_eq!(padded("reflect", &[2, 1]), [3.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0]);
    assert_eq!(padded("edge", &[2, 1]), [1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
    assert_eq!(padded("wrap", &[2, 1]), [3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0]);
    assert_eq!(padded("constant", &[2, -1]), [0.0, 0.0, 1.0, 2.0, 3.0]);
    assert_eq!(padded("constant", &[-1, -2]), [2.0]);
    assert_eq!(padded("reflect", &[-1, 2]), [2.0, 3.0, 4.0, 3.0, 2.0]);
    for (wanted, expected) in
        [(2, vec![2.0, 3.0]), (3, vec![1.0, 2.0, 3.0]), (5, vec![1.0, 2.0, 3.0, 4.0, 0.0])]
    {
        let model = single(18, "CenterCropPad", &[1, 4], "x s", vec![ints("axes", &[1])]);
        assert_eq!(model.list("s", &[wanted]).run(), expected);
    }
}

#[test]
fn slices_backwards_and_uneven_choices() {
    let model = single(13, "Slice", &[2, 3], "x s e a t", vec![]);
    let model = model.list("s", &[-1, 0]).list("e", &[-4, 2]).list("a", &[1, 0]);
    assert_eq!(model.list("t", &[-2, 1]).run(), [3.0, 1.0, 6.0, 4.0]);
    let model = single(13, "Gather", &[2, 3], "x i", vec![int("axis", 1)]);
    assert_eq!(model.list("i", &[2, 0, 0, -1]).run(), [3.0, 1.0, 1.0, 3.0, 6.0, 4.0, 4.0, 6.0]);
}
