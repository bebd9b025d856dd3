#!/usr/bin/env python3
"""Compares what eyelet folds with what onnxruntime computes: every operator on constants, every type, edge values.

    tests/fold_check.py [--eyelet target/debug/eyelet] [--seed 7] [--only OPERATOR]

Each case is one operator on constants. onnxruntime computes it without optimisation; what it lacks, ONNX's reference
evaluator does, and what both lack is skipped. eyelet folds all cases of an operator in one model, whose constants reach
the output by an addition. Integers must be equal in every bit, floats within the case's tolerance (most are exact).
Exit code 1 on a disagreement or a refusal, 0 (with a line that says so) where onnxruntime or onnx is missing.
"""

import argparse
import itertools
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    print("onnxruntime or onnx is not installed: not compared")
    sys.exit(0)

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64", "float16", "bfloat16"]
BF16 = onnx.helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


def np_type(name):
    return BF16 if name == "bfloat16" else np.dtype(name)


def onnx_type(name):
    return TensorProto.BFLOAT16 if name == "bfloat16" else helper.np_dtype_to_tensor_dtype(np.dtype(name))


def edges(name):
    """Values at the edges of a type, and some between."""
    if name == "bool":
        return np.array([False, True])
    if name in INTEGERS:
        info = np.iinfo(name)
        few = [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.max // 2 + 1, info.max // 3]
        if info.min < 0:
            few += [-1, -2, -3, -7, -100, info.min, info.min + 1, info.min // 2]
        return np.array(few, dtype=name)
    few = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 0.1, 3.7, -3.7, 7.0, -7.0, 300.0, -1234.5, 6e-8, 65504.0,
           np.inf, -np.inf, np.nan]
    if name in ("float32", "bfloat16"):
        few += [1e10, -3e38, 1e-40, 16777217.0]
    if name == "float64":
        few += [1e10, -3e38, 1.0000000001, 16777217.0, 9007199254740993.0, 1e300, -1e-300]
    with np.errstate(over="ignore"):
        return np.array(few).astype(np_type(name))


def pairs(name, keep=None):
    """All pairs of edge values that `keep` keeps."""
    values = edges(name)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    if keep is not None:
        with np.errstate(all="ignore"):
            kept = keep(a, b)
        a, b = a[kept], b[kept]
    return [a, b]


class Case:
    """One operator on constants; all its outputs are compared."""

    def __init__(self, operator, inputs, opset=17, tolerance=0.0, outputs=1, **attributes):
        self.operator, self.inputs, self.opset = operator, inputs, opset
        self.tolerance, self.outputs, self.attributes = tolerance, outputs, attributes

    def __str__(self):
        types = ", ".join("-" if one is None else f"{one.dtype}{list(one.shape)}" for one in self.inputs)
        given = {name: value for name, value in self.attributes.items() if name != "value"}
        return f"{self.operator}-{self.opset}({types}) {given}"

    def node(self, prefix):
        names = ["" if one is None else f"{prefix}i{at}" for at, one in enumerate(self.inputs)]
        outputs = [f"{prefix}o{at}" for at in range(self.outputs)]
        return helper.make_node(self.operator, names, outputs, name=f"{prefix}node", **self.attributes)

    def initializers(self, prefix):
        given = [(at, one) for at, one in enumerate(self.inputs) if one is not None]
        return [numpy_helper.from_array(np.asarray(one), f"{prefix}i{at}") for at, one in given]

    def expected(self):
        """What onnxruntime computes, or the reference; None where neither does."""
        node = self.node("")
        ports = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "one", [], ports, self.initializers(""))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        try:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            if any("bfloat16" in port.type for port in session.get_outputs()):
                raise ValueError("onnxruntime gives no bfloat16 to numpy")
            return session.run(None, {})
        except Exception:  # whatever it does not have, it says in its own ways
            pass
        try:
            with np.errstate(all="ignore"):
                return [np.asarray(one) for one in ReferenceEvaluator(model).run(None, {})]
        except Exception:
            return None


def arithmetic():
    for name in INTEGERS:
        low = np.iinfo(name).min
        divisible = lambda a, b: (b != 0) & ~((a == low) & (b + 1 == 0) & (low < 0))  # noqa: E731, B023
        for operator in ["Add", "Sub", "Mul"]:
            yield Case(operator, pairs(name))
        yield Case("Div", pairs(name, divisible))
        yield Case("Mod", pairs(name, divisible))
        # onnxruntime computes this one in double precision
        exact = lambda a, b: divisible(a, b) & (np.abs(a.astype(float)) < 2**52) & (np.abs(b.astype(float)) < 2**52)  # noqa: E731, B023
        yield Case("Mod", pairs(name, exact), fmod=1)
        for count in [1, 2, 3, 4]:
            for operator in ["Max", "Min"]:
                yield Case(operator, [np.roll(edges(name), 3 * at) for at in range(count)])
        yield Case("Max", [edges(name)[:, None], edges(name), edges(name)[:1]])
    for name in FLOATS:
        for operator in ["Add", "Sub", "Mul", "Div"]:
            yield Case(operator, pairs(name))
        yield Case("Mod", pairs(name, lambda a, b: np.isfinite(a) & (b != 0) & ~np.isnan(b)), fmod=1)
        for count in [1, 2, 3, 4]:
            # the order of additions is onnxruntime's own
            finite = edges(name)[np.isfinite(edges(name))]
            operands = [np.roll(finite, 5 * at) for at in range(count)]
            tolerance = {"float16": 2e-3, "bfloat16": 1e-2}.get(name, 1e-6)
            for operator in ["Max", "Min"]:
                yield Case(operator, [np.roll(edges(name), 5 * at) for at in range(count)])
            for operator in ["Sum", "Mean"]:
                yield Case(operator, [np.abs(one) for one in operands], tolerance=tolerance)


def comparisons():
    for name in INTEGERS + FLOATS:
        for operator in ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]:
            yield Case(operator, pairs(name))
    yield Case("Equal", pairs("bool"))
    for operator in ["And", "Or"]:
        yield Case(operator, pairs("bool"))
    yield Case("Not", [edges("bool")])


def unary():
    for name in SIGNED:
        yield Case("Neg", [edges(name)])
    for name in INTEGERS:
        yield Case("Abs", [edges(name)])
    for name in FLOATS:
        values = edges(name)
        for operator in ["Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal"]:
            yield Case(operator, [values])
        moderate = values[~(np.abs(values.astype(np.float64)) > 80)]
        tolerance = {"float16": 2e-3, "bfloat16": 1e-2}.get(name, 1e-6)
        yield Case("Exp", [moderate], tolerance=tolerance)
        yield Case("Log", [np.abs(values)], tolerance=tolerance)
        for operator in ["Relu", "Sigmoid", "Tanh", "Erf", "HardSigmoid", "LeakyRelu"]:
            # onnxruntime approximates some of these
            yield Case(operator, [values[np.isfinite(values)]], tolerance=max(tolerance, 1e-5))
        yield Case("Clip", [values[~np.isnan(values)], np.array(-2, values.dtype), np.array(3, values.dtype)])
        if name != "bfloat16":  # without a bound the reference goes to infinity, onnxruntime to the largest number
            yield Case("Clip", [values, None, np.array(3, values.dtype)])
            yield Case("Clip", [values])


def powers():
    for name in ["int32", "int64"]:
        small = lambda a, b: (b >= 0) & (b <= 3) & (np.abs(a.astype(float)) <= 100)  # noqa: E731
        yield Case("Pow", pairs(name, small))
    for name in ["float32", "float64"]:
        finite = lambda a, b: np.isfinite(a) & np.isfinite(b) & (np.abs(b) < 8)  # noqa: E731
        yield Case("Pow", pairs(name, finite), tolerance=1e-6)
        yield Case("Pow", [edges(name)[:, None], np.array([0, 1, 2, 3, -1], np.int64)], tolerance=1e-6)


def casts():
    every = INTEGERS + ["bool"] + FLOATS
    for source, target in itertools.product(every, every):
        values = edges(source)
        if source in FLOATS and target in INTEGERS:
            # Beyond the range a cast to integers is undefined.
            info = np.iinfo(target)
            wide = np.trunc(values.astype(np.float64))
            with np.errstate(invalid="ignore"):
                values = values[(wide >= float(info.min)) & (wide < float(info.max) + (info.bits < 64))]
        yield Case("Cast", [values], to=onnx_type(target))
        yield Case("CastLike", [values, edges(target)[:1]])


def reductions():
    rng = np.random.default_rng(SEED)
    for name in ["int32", "int64", "int8", "uint8", "float32", "float64", "float16"]:
        info = np.iinfo(name) if name in INTEGERS else None
        if info is None:
            data = rng.uniform(0.5, 2, (2, 3, 4)).astype(name)
        else:
            data = rng.integers(info.min, info.max, (2, 3, 4), dtype=name, endpoint=True)
        tolerance = {"float16": 4e-3}.get(name, 2e-6) if info is None else 0
        # onnxruntime sums and multiplies integers in floating point: what that rounds is no measure.
        small = data if info is None else np.clip(data // (info.max // 4), -3, 3).astype(name)
        for operator in ["ReduceSum", "ReduceProd", "ReduceMin", "ReduceMax"]:
            if operator in ("ReduceSum", "ReduceProd") and name in ("int8", "uint8"):
                continue
            axes = np.array([-1, 0])
            data = small if operator in ("ReduceSum", "ReduceProd") else data
            yield Case(operator, [data, axes], opset=18, tolerance=tolerance, keepdims=0)
            yield Case(operator, [data, axes[:1]], opset=18, tolerance=tolerance)
            yield Case(operator, [data], opset=18, tolerance=tolerance)
            yield Case(operator, [data], opset=18, tolerance=tolerance, noop_with_empty_axes=1)
            if operator == "ReduceSum":
                yield Case(operator, [data, axes], opset=13, tolerance=tolerance, keepdims=0)
            else:
                yield Case(operator, [data], opset=13, tolerance=tolerance, keepdims=0, axes=[1, -1])
    for name in ["float32", "float64"]:
        data = rng.uniform(0.5, 2, (2, 3, 4)).astype(name)
        yield Case("ReduceMean", [data], tolerance=2e-6, axes=[-2], keepdims=0)


def ranges():
    for name in ["int16", "int32", "int64", "float32", "float64"]:
        for start, limit, delta in [(10, 0, -4), (0, 10, 3), (0, 9, 3), (3, 3, 1), (-5, 5, 1), (5, -5, 1), (7, -8, -7)]:
            yield Case("Range", [np.array(one, name) for one in (start, limit, delta)])
    yield Case("Range", [np.array(one, np.int64) for one in (2**62, 2**62 + 5, 2)])
    yield Case("Range", [np.array(one, np.int16) for one in (32000, 32767, 300)])
    for start, limit, delta in [(0.1, 0.7, 0.1), (0, 1, 0.1), (1, 0, -0.25), (0.3, 2.1, 0.6)]:
        for name in ["float32", "float64"]:
            yield Case("Range", [np.array(one, name) for one in (start, limit, delta)], tolerance=1e-6)


def moves():
    """Operators that move elements: the type does not matter, except that each has its own path."""
    for name in ["int64", "int32", "uint8", "bool", "float32", "float64", "float16"]:
        data = (np.arange(24) % 2 == 0 if name == "bool" else np.arange(24)).astype(name).reshape(2, 3, 4)
        if name == "float64":
            data = data + 1e-12
        for indices in [[0, -1, 1], [[2, 0], [-3, 1]], -2, []]:
            yield Case("Gather", [data, np.array(indices, np.int64)], axis=1)
        yield Case("Gather", [data, np.array([-1, 0], np.int32)], axis=-1)
        yield Case("Transpose", [data], perm=[2, 0, 1])
        yield Case("Transpose", [data])
        for start, end, step in [(0, 4, 1), (-1, -5, -1), (3, 0, -2), (1, 2**31 - 1, 2), (-1, -(2**31), -3),
                                 (2**31 - 1, -(2**63), -1), (-100, 2**63 - 1, 3), (2, 2, 1), (0, 4, 2**62)]:
            bounds = [np.array([one], np.int64) for one in (start, end)]
            yield Case("Slice", [data, *bounds, np.array([2]), np.array([step])])
        yield Case("Slice", [data, np.array([1, -1]), np.array([-3, 3]), np.array([1, 0]), np.array([-1, 1])])
        yield Case("Slice", [data, np.array([0, 1]), np.array([1, 3])])
        yield Case("Concat", [data], axis=1)
        yield Case("Concat", [data, data[:, :1], data[:, 1:]], axis=-2)
        yield Case("Split", [data], opset=13, outputs=2, axis=2)
        yield Case("Split", [data, np.array([1, 2])], opset=13, outputs=2, axis=-2)
        yield Case("Split", [data], opset=18, outputs=3, axis=2, num_outputs=3)
        yield Case("Expand", [data[:, :1], np.array([5, 1, 3, 1])])
        yield Case("Reshape", [data, np.array([0, -1, 2])])
        yield Case("Flatten", [data], axis=2)
        yield Case("Squeeze", [data[:1], np.array([0])])
        yield Case("Unsqueeze", [data, np.array([-1, 1])])
        yield Case("Identity", [data])
        yield Case("Where", [np.array([[True], [False], [True]]), data, data[::-1]])
        yield Case("Where", [np.array([True, False, False, True]), data[:, :1], data[0, 0, 0]])
        yield Case("ConstantOfShape", [np.array([2, 3])], value=numpy_helper.from_array(data.ravel()[7:8]))
        if name.startswith("float"):
            yield Case("Pad", [data, np.array([0, 1, 0, 2, 0, 1]), np.array(2.5, name)])
    data = np.zeros((2, 3, 4), np.float32)
    yield Case("ConstantOfShape", [np.array([3])])
    for start, end in [(0, 3), (-2, 3), (1, -1), (-9, 9)]:
        yield Case("Shape", [data], start=start, end=end)
    yield Case("Size", [data])


def resizes():
    data = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    nearest = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield Case("Resize", [data, None, np.array([1, 1, 2, 3], np.float32)], **nearest)
    yield Case("Resize", [data, None, None, np.array([1, 2, 4, 6])], **nearest)
    yield Case("Resize", [data, None, np.array([2, 3], np.float32)], opset=18, axes=[2, 3], **nearest)
    yield Case("Resize", [data, None, None, np.array([6, 4])], opset=18, axes=[3, 2], **nearest)
    for policy in ["stretch", "not_larger", "not_smaller"]:
        for sizes in [[4, 6], [6, 4], [4, 4]]:
            yield Case("Resize", [data, None, None, np.array(sizes)], opset=18, axes=[2, 3],
                       keep_aspect_ratio_policy=policy, **nearest)
    for rounding in ["round_prefer_floor", "round_prefer_ceil"]:
        yield Case("Resize", [data, None, np.array([1, 1, 2, 3], np.float32)], mode="nearest",
                   coordinate_transformation_mode="half_pixel", nearest_mode=rounding)


def products():
    rng = np.random.default_rng(SEED)
    floats = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    image, tolerance = floats(1, 4, 5, 6), 1e-4
    yield Case("MatMul", [floats(2, 3, 4), floats(4, 5)], tolerance=tolerance)
    yield Case("Gemm", [floats(4, 3), floats(5, 4), floats(5)], tolerance=tolerance, transA=1, transB=1, alpha=0.5, beta=2.0)
    yield Case("Conv", [image, floats(6, 2, 3, 3), floats(6)], tolerance=tolerance, group=2, pads=[1, 0, 1, 2])
    window = dict(kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1])
    yield Case("MaxPool", [image], **window)
    yield Case("MaxPool", [image], ceil_mode=1, **window)
    yield Case("MaxPool", [floats(1, 2, 1, 1)], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    yield Case("MaxPool", [floats(1, 2, 2, 3)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield Case("AveragePool", [image], tolerance=tolerance, **window)
    yield Case("AveragePool", [image], tolerance=tolerance, opset=19, count_include_pad=1, **window)
    yield Case("AveragePool", [floats(1, 2, 1, 3)], tolerance=tolerance, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    yield Case("GlobalAveragePool", [image], tolerance=tolerance)
    yield Case("Softmax", [image], tolerance=tolerance, axis=1)
    yield Case("LRN", [image], tolerance=tolerance, size=3)
    yield Case("BatchNormalization", [image, floats(4), floats(4), floats(4), np.abs(floats(4))], tolerance=1e-4)
    yield Case("LayerNormalization", [image, floats(6), floats(6)], tolerance=1e-4)
    yield Case("PRelu", [image, floats(4, 1, 1)])
    yield Case("HardSwish", [image], tolerance=tolerance)
    yield Case("Gelu", [image], opset=20, tolerance=tolerance)
    yield Case("Dropout", [image])


def indexed():
    rng = np.random.default_rng(SEED)
    for name in ["int64", "int32", "uint8", "bool", "float32", "float64"]:
        data = (np.arange(24) % 2 == 0 if name == "bool" else np.arange(24)).astype(name).reshape(2, 3, 4)
        for axis, extent in enumerate(data.shape):
            indices = rng.integers(-extent, extent, (2, 2, 3))
            yield Case("GatherElements", [data, indices], axis=axis)
            distinct = np.argsort(rng.random((2, 3, 4)), axis=axis)
            yield Case("ScatterElements", [data, distinct, data[::-1].copy()], opset=18, axis=axis - 3)
        yield Case("GatherND", [data, np.array([[0, 1], [-1, 2]])])
        yield Case("GatherND", [data, np.array([[[0, 1, -1]], [[1, 2, 3]]])])
        yield Case("GatherND", [data, np.array([[[2], [0]], [[1], [-1]]])], batch_dims=1)
        yield Case("ScatterND", [data, np.array([[1], [0]]), data[::-1].copy()], opset=18)
        yield Case("ScatterND", [data, np.array([[1, 2], [0, -1]]), data[0, :2]], opset=18)
        yield Case("Compress", [data, np.array([True, False, True])], axis=1)
        yield Case("Compress", [data, np.array([True, False, True, True])])
        yield Case("Tile", [data, np.array([2, 1, 3])])
        yield Case("NonZero", [data])
        if name != "bool":
            for reduction in ["add", "mul", "max", "min"]:
                yield Case("ScatterND", [data, np.array([[1], [1]]), data], opset=18, reduction=reduction)
                yield Case("ScatterElements", [data, np.zeros((2, 1, 4), np.int64), data[:, :1]], opset=18, axis=1,
                           reduction=reduction)
        if name in ("int64", "float32"):
            for upper in [0, 1]:
                for k in [-2, 0, 1]:
                    yield Case("Trilu", [data, np.array(k)], upper=upper)
            yield Case("ReverseSequence", [data, np.array([1, 2, 2])])
            yield Case("ReverseSequence", [data, np.array([1, 3])], batch_axis=0, time_axis=1)


def ordered():
    rng = np.random.default_rng(SEED)
    for name in ["int64", "int32", "float32", "float64"]:
        data = rng.integers(0, 5, (3, 4, 5)).astype(name)
        for axis, k in [(0, 2), (-1, 5), (1, 1)]:
            for largest in [0, 1]:
                yield Case("TopK", [data, np.array([k])], outputs=2, axis=axis, largest=largest)
        for exclusive, reverse in itertools.product([0, 1], [0, 1]):
            yield Case("CumSum", [data, np.array(1)], exclusive=exclusive, reverse=reverse)
    for name in ["int64", "float32", "float64"]:
        data = rng.integers(0, 3, (4, 2, 2)).astype(name)
        for given in [{}, {"sorted": 0}, {"axis": 0}, {"axis": 1}, {"axis": -1, "sorted": 0}]:
            yield Case("Unique", [data], outputs=4, **given)
    for indices, kind in [([0, 2, -1, 7], "int64"), ([[1, 0]], "int32")]:
        for axis in [-1, 0, 1]:
            values = np.array([2, 5], "float32")
            yield Case("OneHot", [np.array(indices, kind), np.array(3), values], axis=axis)
    for k in [-1, 0, 2]:
        yield Case("EyeLike", [np.zeros((3, 4), np.float32)], k=k)
        yield Case("EyeLike", [np.zeros((3, 2), np.int32)], k=k, dtype=TensorProto.INT64)


def bits():
    for name in INTEGERS:
        for operator in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
            yield Case(operator, pairs(name), opset=18)
        yield Case("BitwiseNot", [edges(name)], opset=18)
    for name in ["uint8", "uint32", "uint64"]:
        for direction in ["LEFT", "RIGHT"]:
            yield Case("BitShift", pairs(name, lambda a, b: b < 8), direction=direction)
    yield Case("Xor", pairs("bool"))
    for name in ["float32", "float64"]:
        yield Case("IsNaN", [edges(name)])
        for positive, negative in itertools.product([0, 1], [0, 1]):
            yield Case("IsInf", [edges(name)], detect_positive=positive, detect_negative=negative)


def of_integers():
    """Operators that are written for floats, of integers."""
    rng = np.random.default_rng(SEED)
    for name in INTEGERS:
        low = max(np.iinfo(name).min, -9)
        some = lambda *shape: rng.integers(low, 10, shape).astype(name)  # noqa: E731, B023
        yield Case("Clip", [edges(name), np.array(2, name), np.array(100, name)])
        yield Case("Clip", [edges(name), None, np.array(3, name)])
        pads = np.array([0, 1, 2, 0])
        yield Case("Pad", [edges(name).reshape(1, -1), pads, np.array(7, name)])
        for mode in ["constant", "reflect", "edge"]:
            yield Case("Pad", [some(3, 4), pads], mode=mode)
        yield Case("SpaceToDepth", [some(1, 2, 4, 4)], blocksize=2)
        yield Case("DepthToSpace", [some(1, 8, 2, 2)], blocksize=2)
        yield Case("DepthToSpace", [some(1, 8, 2, 2)], blocksize=2, mode="CRD")
        scales = np.array([1, 1, 2, 3], np.float32)
        yield Case("Resize", [some(1, 1, 2, 3), None, scales], mode="nearest")
        yield Case("Einsum", [some(2, 3), some(3)], equation="ij,j->i")
    for name in ["int32", "int64", "uint32", "uint64"]:
        data = rng.integers(0, 10, (2, 3, 4)).astype(name)
        yield Case("MatMul", [data, data[0].T])
        yield Case("Gemm", [data[0], data[1].T, data[0, :, :3]])
    for name in ["int32", "int64"]:
        data = rng.integers(-9, 10, (2, 3, 4)).astype(name)
        for operator in ["ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"]:
            yield Case(operator, [data], axes=[1], keepdims=0)
        yield Case("Relu", [data])
    for name in ["int8", "uint8"]:
        data = rng.integers(0, 100, (1, 2, 4, 4)).astype(name)
        yield Case("MaxPool", [data], kernel_shape=[2, 2], strides=[2, 2])


def signals():
    rng = np.random.default_rng(SEED)
    signal = rng.standard_normal((2, 10, 1)).astype(np.float32)
    both = rng.standard_normal((2, 6, 2)).astype(np.float32)
    for data in [signal, both]:
        yield Case("DFT", [data], tolerance=1e-3, axis=1)
        yield Case("DFT", [data, np.array(4)], tolerance=1e-3, axis=1)
        yield Case("DFT", [data, np.array(13)], tolerance=1e-3, axis=1)
        yield Case("DFT", [data], tolerance=1e-3, axis=0)
    yield Case("DFT", [signal], tolerance=1e-3, axis=1, onesided=1)
    yield Case("DFT", [both], tolerance=1e-3, axis=1, inverse=1)
    window = rng.standard_normal(4).astype(np.float32)
    yield Case("STFT", [signal, np.array(2), window], tolerance=1e-3)
    yield Case("STFT", [signal, np.array(3), None, np.array(5)], tolerance=1e-3, onesided=0)
    for operator in ["HannWindow", "HammingWindow", "BlackmanWindow"]:
        for periodic in [0, 1]:
            yield Case(operator, [np.array(9)], tolerance=1e-5, periodic=periodic)
    for bands, length, rate, low, high in [(8, 16, 8192, 0, 4096), (20, 256, 16000, 60, 7600), (5, 7, 100, 10, 30)]:
        edges = [np.array(edge, np.float32) for edge in (low, high)]
        yield Case("MelWeightMatrix", [np.array(bands), np.array(length), np.array(rate), *edges], tolerance=1e-5)
    for corners in [0, 1]:
        yield Case("AffineGrid", [rng.standard_normal((2, 2, 3)).astype(np.float32), np.array([2, 1, 3, 4])], opset=20,
                   tolerance=1e-4, align_corners=corners)
        yield Case("AffineGrid", [rng.standard_normal((1, 3, 4)).astype(np.float32), np.array([1, 1, 2, 3, 2])], opset=20,
                   tolerance=1e-4, align_corners=corners)


def einsums():
    rng = np.random.default_rng(SEED)
    floats = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    for equation, *shapes in [("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
                              ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)), ("ij->ji", (2, 3)), ("ij->i", (2, 3)),
                              ("ij->", (2, 3)), ("ii->i", (3, 3)), ("iji->j", (3, 2, 3)), ("i,j->ij", (2,), (3,)),
                              ("i,i->", (4,), (4,)), ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 4)),
                              ("...ij,jk->...ik", (5, 2, 3), (3, 4)), ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
                              ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5)), ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)),
                              ("ij,ij->ij", (2, 3), (2, 3)), ("ijk,ik->ij", (2, 3, 4), (2, 4)), ("bc,bd", (2, 3), (2, 4))]:
        yield Case("Einsum", [floats(*shape) for shape in shapes], tolerance=1e-4, equation=equation)


def all_cases():
    for family in [arithmetic, comparisons, unary, powers, casts, reductions, ranges, moves, resizes, products, indexed, ordered,
                   bits, of_integers, einsums, signals]:
        yield from family()


def model_of(cases, expected):
    """A model of all cases: `y = x + everything that they come out as`, and where each part begins in it."""
    nodes, initializers, parts, at, spans = [], [numpy_helper.from_array(np.array([-1]), "flat")], [], 0, []
    for index, (case, values) in enumerate(zip(cases, expected)):
        prefix = f"c{index}"
        nodes.append(case.node(prefix))
        initializers += case.initializers(prefix)
        for output, value in enumerate(values):
            result, part = f"{prefix}o{output}", f"{prefix}f{output}"
            nodes.append(helper.make_node("Cast", [result], [f"{part}c"], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("Reshape", [f"{part}c", "flat"], [part]))
            parts.append(part)
            spans.append((case, value, at, "differs at"))
            at += value.size
            nodes.append(helper.make_node("Shape", [result], [f"{part}d"]))
            nodes.append(helper.make_node("Cast", [f"{part}d"], [f"{part}h"], to=TensorProto.FLOAT))
            parts.append(f"{part}h")
            spans.append((case, np.array(value.shape, np.float32), at, "its shape differs at"))
            at += value.ndim
            if value.dtype.kind in "iu":
                # A float holds 24 bits: eyelet itself compares all of them.
                initializers.append(numpy_helper.from_array(value, f"{part}e"))
                nodes.append(helper.make_node("Equal", [result, f"{part}e"], [f"{part}q"]))
                nodes.append(helper.make_node("Cast", [f"{part}q"], [f"{part}r"], to=TensorProto.FLOAT))
                nodes.append(helper.make_node("Reshape", [f"{part}r", "flat"], [f"{part}s"]))
                parts.append(f"{part}s")
                spans.append((case, np.ones(value.shape, np.float32), at, "bits of the integers differ at"))
                at += value.size
    nodes.append(helper.make_node("Concat", parts, ["all"], axis=0))
    nodes.append(helper.make_node("Add", ["x", "all"], ["y"]))
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [at])  # noqa: E731
    graph = helper.make_graph(nodes, "cases", [port("x")], [port("y")], initializers)
    opset = helper.make_opsetid("", cases[0].opset)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8), spans, at


def fold(eyelet, model, count, work):
    """What eyelet makes of the model, or the error it ends in."""
    onnx.save(model, work / "m.onnx")
    np.save(work / "x.npy", np.zeros(count, np.float32))
    plan = [eyelet, "plan", work / "m.onnx", "--budget", "64MiB", "--effort", "fast", "-o", work / "m.pack", "--json"]
    run = [eyelet, "run", work / "m.pack", "--io", "buffered", "--input", work / "x.npy", "--output", work / "out", "--json"]
    for command in [plan, run]:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr.strip()
    return np.load(work / "out" / "y.npy"), None


# Sums of many terms that cancel: onnxruntime's have errors in proportion to the largest of them.
OF_THE_LARGEST = ("DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow", "AffineGrid")


def agree(found, value, tolerance, largest):
    """Which elements agree, within a share of each, or of the largest."""
    with np.errstate(all="ignore"):
        expected = value.astype(np.float32).ravel()
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        scale = np.abs(expected).max(initial=0.0) / 100 if largest else 1e-6
        return same | (np.abs(found - expected) <= tolerance * np.maximum(np.abs(expected), scale))


def judge(eyelet, known, work):
    """Failures of cases that share a model; where it is refused, each case by itself."""
    model, spans, count = model_of(*zip(*known))
    found, error = fold(eyelet, model, count, work)
    if error is not None:
        if len(known) == 1:
            return [f"{known[0][0]}: refused: {error}"]
        half = len(known) // 2
        return judge(eyelet, known[:half], work) + judge(eyelet, known[half:], work)
    failures = []
    for case, value, at, what in spans:
        part = found[at:at + value.size]
        tolerance = case.tolerance if what == "differs at" else 0.0
        good = agree(part, value, tolerance, case.operator in OF_THE_LARGEST)
        if not good.all():
            worst = np.flatnonzero(~good)[:4]
            with np.errstate(over="ignore"):
                expected = value.astype(np.float32).ravel()
            some = [f"[{one}] {part[one]:.9g} for {expected[one]:.9g}" for one in worst]
            failures.append(f"{case}: {what} {', '.join(some)} ({(~good).sum()} of {value.size})")
    return failures


def main():
    global SEED
    parser = argparse.ArgumentParser()
    parser.add_argument("--eyelet", default="target/debug/eyelet")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    SEED = arguments.seed
    groups, skipped, compared = {}, 0, 0
    for case in all_cases():
        if arguments.only and case.operator != arguments.only:
            continue
        expected = case.expected()
        if expected is None:
            skipped += 1
            continue
        compared += 1
        groups.setdefault((case.operator, case.opset), []).append((case, expected))
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for cases in groups.values():
            failures += judge(arguments.eyelet, cases, pathlib.Path(folder))
    for failure in failures:
        print(f"FAIL {failure}")
    print(f"{compared} cases of {len({operator for operator, _ in groups})} operators are folded as onnxruntime computes "
          f"them, but for {len(failures)}; {skipped} that it lacks were left out")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
