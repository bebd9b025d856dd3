//! Windows over one to three dimensions, against the definitions, place by place.

use super::*;

/// Places of a shape, in row-major order.
fn places(shape: &[usize]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &extent in shape {
        let longer = |place: &Vec<i64>| {
            (0..extent as i64).map(|at| [&place[..], &[at]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// A tensor whose elements count up from 1, or that `Model::weights` makes.
struct Filled {
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Filled {
    fn input(shape: &[usize]) -> Self {
        let data = (1..=shape.iter().product::<usize>()).map(|at| at as f64).collect();
        Self { shape: shape.to_vec(), data }
    }

    fn weights(shape: &[usize]) -> Self {
        let count = shape.iter().product::<usize>();
        let data = (0..count).map(|at| (at % 17) as f64 * 0.25 - 1.0).collect();
        Self { shape: shape.to_vec(), data }
    }

    /// An element, if it is there.
    fn at(&self, place: &[i64]) -> Option<f64> {
        let inside = |(&at, &extent): (&i64, &usize)| at >= 0 && (at as usize) < extent;
        let all = place.iter().zip(&self.shape).all(inside);
        let row_major = |sum: usize, (&at, &extent): (&i64, &usize)| sum * extent + at as usize;
        all.then(|| self.data[place.iter().zip(&self.shape).fold(0, row_major)])
    }
}

/// Attributes of a window over some dimensions, the same along each but for what is said by axis.
#[derive(Clone)]
struct Geometry {
    stride: Vec<i64>,
    dilation: Vec<i64>,
    pads: Vec<i64>,
    group: i64,
}

impl Geometry {
    fn attributes(&self) -> Vec<AttributeProto> {
        vec![
            ints("strides", &self.stride),
            ints("dilations", &self.dilation),
            ints("pads", &self.pads),
            int("group", self.group),
        ]
    }
}

fn longs(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&extent| extent as i64).collect()
}

#[track_caller]
fn same(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-7 * b.abs().max(1.0), "{what} [{at}]: {a}, not {b}");
    }
}

/// Each input gives each place that a tap leads to its product.
fn transposed(x: &Filled, w: &Filled, of: &Geometry, made: &[usize]) -> Vec<f64> {
    let rank = made.len();
    let (groups, outputs) = (of.group as usize, w.shape[1]);
    let shape = [&[x.shape[0], groups * outputs][..], made].concat();
    let mut y = Filled { data: vec![0.0; shape.iter().product()], shape };
    for from in places(&x.shape) {
        for tap in places(&w.shape[1..]) {
            let group = from[1] as usize / (x.shape[1] / groups);
            let mut to = vec![from[0], (group * outputs) as i64 + tap[0]];
            for axis in 0..rank {
                let place = from[2 + axis] * of.stride[axis] + tap[1 + axis] * of.dilation[axis];
                to.push(place - of.pads[axis]);
            }
            if y.at(&to).is_some() {
                let weight = w.at(&[&[from[1]][..], &tap].concat()).expect("a weight");
                let at = to
                    .iter()
                    .zip(&y.shape)
                    .fold(0, |sum, (&at, &extent)| sum * extent + at as usize);
                y.data[at] += weight * x.at(&from).expect("an input");
            }
        }
    }
    y.data
}

#[test]
fn transposed_convolutions_are_sums_of_what_inputs_give() {
    for (shape, kernel, stride, dilation, pads, more, group) in [
        (vec![1, 2, 5], vec![2, 3, 4], vec![2], vec![1], vec![1, 1], vec![0], 1),
        (vec![2, 4, 3], vec![4, 1, 3], vec![3], vec![2], vec![2, 0], vec![1], 2),
        (vec![1, 3, 4, 3], vec![3, 2, 2, 2], vec![2, 2], vec![1, 1], vec![0; 4], vec![0; 2], 1),
        (vec![2, 4, 3, 4], vec![4, 3, 3, 3], vec![2, 2], vec![1, 1], vec![1; 4], vec![1, 1], 2),
        (
            vec![1, 2, 3, 4],
            vec![2, 1, 3, 2],
            vec![1, 3],
            vec![2, 1],
            vec![1, 0, 2, 1],
            vec![0, 0],
            2,
        ),
        (
            vec![1, 2, 4, 4],
            vec![2, 2, 3, 3],
            vec![3, 2],
            vec![2, 3],
            vec![4, 3, 1, 2],
            vec![1, 0],
            1,
        ),
        (
            vec![1, 2, 2, 3, 2],
            vec![2, 2, 2, 3, 2],
            vec![2, 1, 3],
            vec![1; 3],
            vec![0, 1, 0, 0, 1, 1],
            vec![0; 3],
            1,
        ),
        (
            vec![1, 2, 2, 2, 2],
            vec![2, 1, 3, 3, 3],
            vec![2; 3],
            vec![1; 3],
            vec![1; 6],
            vec![1; 3],
            2,
        ),
    ] {
        let rank = stride.len();
        let whole = |axis: usize| {
            let reach = (kernel[2 + axis] as i64 - 1) * dilation[axis] + 1;
            let full = (shape[2 + axis] as i64 - 1) * stride[axis] + reach + more[axis];
            (full - pads[axis] - pads[rank + axis]) as usize
        };
        let made: Vec<usize> = (0..rank).map(whole).collect();
        let of = Geometry { stride, dilation, pads, group };
        let mut attributes = of.attributes();
        attributes.push(ints("output_padding", &more));
        let model = single(13, "ConvTranspose", &longs(&shape), "x w", attributes);
        let model = model.weights("w", &longs(&kernel));
        let expected = transposed(&Filled::input(&shape), &Filled::weights(&kernel), &of, &made);
        let graph = model.import();
        let shape_of = &graph.values[graph.outputs[0]].shape;
        assert_eq!(shape_of[2..], made, "{shape:?} {kernel:?}");
        same(&model.run(), &expected, &format!("{shape:?} {kernel:?}"));
    }
}

#[test]
fn transposed_convolutions_to_a_shape_with_bias() {
    let model = |attributes| {
        single(13, "ConvTranspose", &[1, 1, 3], "x w b", attributes)
            .initializer(float_tensor("w", &[1, 2, 3], &[1.0, 1.0, 1.0, 0.0, 2.0, 0.0]))
            .initializer(float_tensor("b", &[2], &[0.5, 0.0]))
    };
    let strides = || ints("strides", &[2]);
    // 1 1 1+2 2 2+3 3 3, and 0 2 0 4 0 6 0
    let found = model(vec![strides(), ints("output_shape", &[6])]).run();
    assert_eq!(found[..6], [1.5, 3.5, 2.5, 5.5, 3.5, 3.5]);
    assert_eq!(found[6..], [2.0, 0.0, 4.0, 0.0, 6.0, 0.0]);
    let found = model(vec![strides(), string("auto_pad", "SAME_UPPER")]).run();
    assert_eq!(found[..6], [1.5, 1.5, 3.5, 2.5, 5.5, 3.5]);
    let found = model(vec![strides(), ints("output_shape", &[8])]).run();
    assert_eq!(found[..8], [1.5, 1.5, 3.5, 2.5, 5.5, 3.5, 3.5, 0.5]);
}

fn convolved(x: &Filled, w: &Filled, of: &Geometry, made: &[usize]) -> Vec<f64> {
    let (groups, outputs) = (of.group as usize, w.shape[0] / of.group as usize);
    let shape = [&[x.shape[0], w.shape[0]][..], made].concat();
    let at = |to: &Vec<i64>| {
        let group = to[1] as usize / outputs;
        let taps = places(&w.shape[1..]);
        let term = |tap: &Vec<i64>| {
            let mut from = vec![to[0], (group * x.shape[1] / groups) as i64 + tap[0]];
            for axis in 0..made.len() {
                let place = to[2 + axis] * of.stride[axis] + tap[1 + axis] * of.dilation[axis];
                from.push(place - of.pads[axis]);
            }
            x.at(&from).unwrap_or(0.0) * w.at(&[&[to[1]][..], tap].concat()).expect("a weight")
        };
        taps.iter().map(term).sum()
    };
    places(&shape).iter().map(at).collect()
}

#[test]
fn convolutions_of_each_rank_with_weights_that_are_constant_or_flow() {
    for (shape, kernel, stride, dilation, pads, group) in [
        (vec![1, 2, 5], vec![3, 2, 3], vec![2], vec![1], vec![1, 1], 1),
        (vec![1, 2, 6], vec![2, 2, 2], vec![1], vec![2], vec![-1, 2], 1),
        (vec![2, 4, 5, 4], vec![4, 2, 3, 2], vec![1, 2], vec![2, 1], vec![1, 0, 2, 1], 2),
        (
            vec![2, 2, 4, 3, 3],
            vec![3, 2, 2, 2, 2],
            vec![2, 1, 1],
            vec![1; 3],
            vec![1, 0, 0, 0, 1, 0],
            1,
        ),
        (
            vec![1, 4, 3, 4, 2],
            vec![4, 2, 3, 1, 2],
            vec![1; 3],
            vec![1, 2, 1],
            vec![1, 0, 0, 1, 0, 0],
            2,
        ),
        (
            vec![1, 2, 5, 3, 3],
            vec![2, 1, 2, 3, 3],
            vec![2, 1, 1],
            vec![2, 1, 1],
            vec![-1, 1, 1, 0, 1, 1],
            2,
        ),
    ] {
        let rank = stride.len();
        let positions = |axis: usize| {
            let reach = (kernel[2 + axis] as i64 - 1) * dilation[axis] + 1;
            let padded = shape[2 + axis] as i64 + pads[axis] + pads[rank + axis];
            ((padded - reach) / stride[axis] + 1) as usize
        };
        let made: Vec<usize> = (0..rank).map(positions).collect();
        let of = Geometry { stride, dilation, pads, group };
        let (x, w) = (Filled::input(&shape), Filled::weights(&kernel));
        // What negative padding takes away is not there.
        let mut seen = Filled::input(&shape);
        for (place, value) in places(&shape).iter().zip(&mut seen.data) {
            let gone = |axis: usize| {
                place[2 + axis] < -of.pads[axis]
                    || place[2 + axis] >= shape[2 + axis] as i64 + of.pads[rank + axis].min(0)
            };
            if (0..rank).any(gone) {
                *value = 0.0;
            }
        }
        let expected = convolved(&seen, &w, &of, &made);
        let model = single(13, "Conv", &longs(&shape), "x w", of.attributes());
        same(&model.clone().weights("w", &longs(&kernel)).run(), &expected, &format!("{shape:?}"));
        let graph = model.input("w", &longs(&kernel)).import();
        let found = reference::run(&graph, &[x.data, w.data]).swap_remove(0);
        same(&found, &expected, &format!("{shape:?} with weights that flow"));
    }
}

#[test]
fn biases_may_flow() {
    let model = single(13, "Conv", &[1, 1, 3], "x w b", vec![]);
    let model = model.initializer(float_tensor("w", &[2, 1, 1], &[1.0, 2.0])).input("b", &[2]);
    assert_eq!(model.run(), [2.0, 3.0, 4.0, 4.0, 6.0, 8.0]);
}

#[test]
fn pools_of_three_dimensions() {
    let shape = [1, 2, 4, 3, 5];
    let x = Filled::input(&shape);
    for (average, count_include_pad) in [(false, 0), (true, 0), (true, 1)] {
        let operator = if average { "AveragePool" } else { "MaxPool" };
        let mut attributes = vec![
            ints("kernel_shape", &[2, 3, 2]),
            ints("strides", &[2, 1, 2]),
            ints("pads", &[1, 1, 0, 0, 1, 1]),
        ];
        if average {
            attributes.push(int("count_include_pad", count_include_pad));
        }
        let model = single(13, operator, &longs(&shape), "x", attributes);
        let made = [1, 2, 2, 3, 3];
        let expected: Vec<f64> = places(&made)
            .iter()
            .map(|to| {
                let (mut values, mut count) = (vec![], 0.0);
                for tap in places(&[2, 3, 2]) {
                    let from = [
                        to[0],
                        to[1],
                        to[2] * 2 + tap[0] - 1,
                        to[3] + tap[1] - 1,
                        to[4] * 2 + tap[2],
                    ];
                    values.extend(x.at(&from));
                    count += f64::from(u8::from(x.at(&from).is_some() || count_include_pad == 1));
                }
                match average {
                    true => values.iter().sum::<f64>() / count,
                    false => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
                }
            })
            .collect();
        same(&model.run(), &expected, operator);
    }
    let whole = single(13, "GlobalMaxPool", &longs(&shape), "x", vec![]);
    assert_eq!(whole.run(), [60.0, 120.0]);
}

#[test]
fn roots_of_sums_of_powers() {
    for (p, expected) in
        [(1, [3.0, 5.0]), (2, [5f64.sqrt(), 13f64.sqrt()]), (3, [9f64.cbrt(), 35f64.cbrt()])]
    {
        let attributes = vec![int("p", p), ints("kernel_shape", &[2])];
        same(&single(18, "LpPool", &[1, 1, 3], "x", attributes).run(), &expected, "LpPool");
    }
    let attributes = vec![ints("kernel_shape", &[2]), ints("strides", &[2]), int("ceil_mode", 1)];
    same(&single(18, "LpPool", &[1, 1, 3], "x", attributes).run(), &[5f64.sqrt(), 3.0], "last");
    let all = single(13, "GlobalLpPool", &[1, 2, 1, 2], "x", vec![]).run();
    same(&all, &[5f64.sqrt(), 5.0], "GlobalLpPool");
}

#[test]
fn blocks_of_pixels_and_columns() {
    let apart = |mode: &str| {
        let attributes = vec![int("blocksize", 2), string("mode", mode)];
        single(13, "DepthToSpace", &[1, 8, 1, 1], "x", attributes).run()
    };
    assert_eq!(apart("DCR"), [1.0, 3.0, 5.0, 7.0, 2.0, 4.0, 6.0, 8.0]);
    assert_eq!(apart("CRD"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let attributes = vec![int("blocksize", 2)];
    let joined = single(13, "SpaceToDepth", &[1, 1, 2, 4], "x", attributes).run();
    assert_eq!(joined, [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0]);
    let attributes = vec![int("blocksize", 2), string("mode", "CRD")];
    let joined = single(13, "SpaceToDepth", &[1, 2, 2, 2], "x", attributes).run();
    assert_eq!(joined, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    // Three blocks of two, one apart, in a row of four: what overlaps is added.
    let model = single(18, "Col2Im", &[1, 2, 3], "x i b", vec![]);
    let model = model.list("i", &[1, 4]).list("b", &[1, 2]);
    assert_eq!(model.run(), [1.0, 2.0 + 4.0, 3.0 + 5.0, 6.0]);
}
