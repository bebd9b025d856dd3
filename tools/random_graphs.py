"""Random small ONNX graphs, each node valid, with the values that onnxruntime computes for every tensor.

A graph grows node by node. Each new node is run by onnxruntime on the values so far, so that shapes and types follow
from what the node does. A node that onnxruntime refuses, or whose values are no numbers or are large, is not added.
Nor is one that makes much of little: each node is run again on values that are a rounding apart, and its own must stay
near to what they were.
Functions with steps (Floor, comparisons, ArgMax) see only values that every implementation computes alike.
"""

import collections
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MOST_ELEMENTS = 40_000
LARGEST = 1e4
OPSETS = range(11, 23)

# Roundings of a node, and what they may come to, of the largest magnitude.
ROUNDING, MOST_DRIFT = 2e-7, 3e-5

# `exact`: every implementation computes the same bits. `other`: the value with roundings of another implementation.
Tensor = collections.namedtuple("Tensor", "name value exact other")

# Functions of floats that are not continuous.
STEPS = {"Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "TopK", "Mod", "Shrink"}

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.bool_): TensorProto.BOOL,
         np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}


class Graph:
    """A graph while it grows."""

    def __init__(self, seed):
        self.random, self.rounding = np.random.default_rng(seed), np.random.default_rng(seed)
        self.seed = seed
        self.opset = int(self.random.choice(OPSETS))
        self.nodes, self.tensors, self.inputs, self.constants = [], [], [], {}

    # What operators choose by.

    def chance(self, share):
        return self.random.random() < share

    def one(self, values):
        return values[int(self.random.integers(len(values)))]

    def integer(self, least, most):
        return int(self.random.integers(least, most + 1))

    def floats(self, shape, scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def pick(self, suits):
        """A tensor that suits, later ones rather than early ones."""
        found = [tensor for tensor in self.tensors if suits(tensor)]
        if not found:
            return None
        return found[max(self.integer(0, len(found) - 1), self.integer(0, len(found) - 1))]

    def flowing(self, rank=None, kind="f", exact=False):
        ranks = (rank,) if isinstance(rank, int) else rank
        return self.pick(lambda tensor: tensor.value.dtype.kind == kind and (not exact or tensor.exact)
                         and (ranks is None or tensor.value.ndim in ranks))

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return Tensor(name, self.constants[name], True, self.constants[name])

    def integers(self, values):
        return self.constant(np.array(values, np.int64))

    def input(self, value):
        tensor = Tensor(f"x{len(self.inputs)}", value, True, value)
        self.inputs.append(tensor)
        self.tensors.append(tensor)

    def add(self, operator, inputs, outputs=1, keeps=False, **attributes):
        """Adds a node if onnxruntime runs it and its values are tame. `keeps`: exact inputs give exact outputs."""
        names = [f"t{len(self.tensors) + index}" for index in range(outputs)]
        node = helper.make_node(operator, [tensor.name if tensor else "" for tensor in inputs], names,
                                name=f"n{len(self.nodes)}_{operator}", **attributes)
        made = evaluate(node, [tensor for tensor in inputs if tensor], self)
        if made is None or not all(map(tame, made[0])) or not all(map(steady, *made)):
            return False
        exact = keeps and all(tensor.exact for tensor in inputs if tensor)
        self.nodes.append(node)
        self.tensors += [Tensor(name, value, exact, other if exact else self.rounded(other))
                         for name, value, other in zip(names, *made)]
        return True

    def rounded(self, value):
        """As another implementation may round it."""
        if value.dtype.kind != "f":
            return value
        noise = self.rounding.standard_normal(value.shape)
        # Not by chance so little that what becomes of it is not seen.
        noise = np.copysign(np.maximum(np.abs(noise), 1.0), noise)
        return (value + noise * ROUNDING * np.abs(value).max()).astype(value.dtype)

    def grow(self, operators, nodes):
        shape = self.one(SHAPES)
        self.input(self.floats([extent(self) for _ in shape]))
        if self.chance(0.4):
            self.input(self.floats(self.tensors[0].value.shape))
        if self.chance(0.2):
            self.input(self.random.integers(-5, 6, self.tensors[0].value.shape).astype(self.one([np.int32, np.int64])))
        for _ in range(20 * nodes):
            if len(self.nodes) >= nodes:
                break
            operators[self.one(list(operators))](self)
        return self

    def model(self, outputs, given=()):
        """The part that these tensors need, with tensors of the names `given` as inputs."""
        needed, nodes = {tensor.name for tensor in outputs} - set(given), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                nodes.insert(0, node)
                needed |= set(node.input) - set(given)
        read = {name for node in nodes for name in node.input} | {tensor.name for tensor in outputs}
        made = {name for node in nodes for name in node.output}
        inputs = [tensor for tensor in self.tensors if tensor.name in read - made]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items() if name in read]
        graph = helper.make_graph(nodes, f"graph_{self.seed}", list(map(described, inputs)),
                                  list(map(described, outputs)), constants)
        model = helper.make_model(graph, opset_imports=sets(self.opset))
        model.ir_version = 8
        return model, inputs


def sets(opset):
    """ONNX's operators, and onnxruntime's own."""
    return [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]


def described(tensor):
    return helper.make_tensor_value_info(tensor.name, TYPES[tensor.value.dtype], tensor.value.shape)


def tame(value):
    if value.size == 0 or value.size > MOST_ELEMENTS or value.dtype not in TYPES or value.ndim > 6:
        return False
    return value.dtype.kind != "f" or bool(np.isfinite(value).all() and np.abs(value).max() < LARGEST)


def steady(value, other):
    """Whether roundings before a node have changed little in what it makes."""
    if value.shape != other.shape or value.dtype.kind != "f":
        return value.shape == other.shape and np.array_equal(value, other)
    return bool(np.abs(value - other).max() <= MOST_DRIFT * max(np.abs(value).max(), 1e-2))


def evaluate(node, inputs, graph):
    """What onnxruntime computes of the values, and of the others, unless it refuses the node."""
    opset, constants, rounding = graph.opset, graph.constants, graph.rounded
    unique = {tensor.name: tensor for tensor in inputs}
    fed = [tensor for name, tensor in unique.items() if name not in constants]
    stored = [numpy_helper.from_array(tensor.value, name) for name, tensor in unique.items() if name in constants]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    model = helper.make_model(helper.make_graph([node], "node", list(map(described, fed)), outputs, stored),
                              opset_imports=sets(opset))
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = session.run(None, {tensor.name: tensor.value for tensor in fed})
            others = {tensor.name: tensor.other for tensor in fed}
            if node.op_type not in STEPS and all(value.dtype.kind == "f" for value in made):
                # Also of values without roundings another implementation may make something else.
                others.update((tensor.name, rounding(tensor.other)) for tensor in fed if tensor.exact)
            return made, session.run(None, others)
    except Exception:  # onnxruntime has a type for each failure
        return None


CHANNELS, EXTENTS = [1, 2, 3, 4, 7, 8, 16, 17], [1, 2, 3, 5, 6, 8, 9, 12]
# Ranks, as letters: batch, channels, positions.
SHAPES = ["ncpp", "ncpp", "ncpp", "ncp", "ncppp", "np", "p", "npp"]


def extent(graph):
    return graph.one([1, 1, 2, 3]) if graph.chance(0.2) else graph.one(EXTENTS)


def broadcast(graph, shape):
    """A shape that broadcasts to this one."""
    shape = [1 if graph.chance(0.3) else size for size in shape]
    return shape[graph.integer(0, len(shape)):] if graph.chance(0.3) else shape


def unary(name, keeps=False, exact=False, kind="f", **choices):
    def make(graph):
        tensor = graph.flowing(kind=kind, exact=exact)
        if tensor:
            graph.add(name, [tensor], keeps=keeps, **{key: choice(graph) for key, choice in choices.items()})
    return make


def binary(name, exact=False, kind="f", positive=False):
    def make(graph):
        a = graph.flowing(kind=kind, exact=exact)
        if not a:
            return
        b = graph.pick(lambda tensor: tensor.value.dtype == a.value.dtype and (not exact or tensor.exact)
                       and fits(a.value.shape, tensor.value.shape))
        if kind == "f" and graph.chance(0.5) or b is None:
            b = graph.constant(values_like(graph, a.value.dtype, broadcast(graph, a.value.shape), positive))
        operands = [a, b] if graph.chance(0.7) else [b, a]
        graph.add(name, operands, keeps=kind != "f" or exact)
    return make


def values_like(graph, dtype, shape, positive):
    if dtype.kind == "f":
        values = graph.floats(shape)
        return np.abs(values) + np.float32(0.5) if positive else values
    if dtype.kind == "b":
        return graph.random.random(shape) < 0.5
    return graph.random.integers(1, 6, shape).astype(dtype)


def fits(a, b):
    try:
        np.broadcast_shapes(a, b)
        return True
    except ValueError:
        return False


def choose(graph):
    """Where: a condition, and what it chooses between."""
    condition = graph.flowing(kind="b")
    if condition:
        shape = condition.value.shape
        a = graph.pick(lambda tensor: tensor.value.dtype.kind == "f" and fits(shape, tensor.value.shape))
        b = graph.constant(graph.floats(broadcast(graph, shape)))
        if a:
            graph.add("Where", [condition, *([a, b] if graph.chance(0.5) else [b, a])])


def cast(to, kind):
    def make(graph):
        tensor = graph.flowing(kind=kind, exact=True)
        if tensor:
            graph.add("Cast", [tensor], keeps=True, to=to)
    return make


def padding(graph, dims, most):
    if graph.chance(0.2):
        return {"auto_pad": graph.one(["SAME_UPPER", "SAME_LOWER", "VALID"])}
    return {"pads": [graph.integer(0, most) for _ in range(2 * dims)]}


def window(graph, dims, dilated=True):
    attributes = {"kernel_shape": [graph.integer(1, 4) for _ in range(dims)],
                  "strides": [graph.one([1, 1, 2, 3]) for _ in range(dims)], **padding(graph, dims, 2)}
    if dilated and graph.chance(0.3):
        attributes["dilations"] = [graph.integer(1, 2) for _ in range(dims)]
    return attributes


def leaves_gaps(attributes):
    """Whether windows do not see all of an axis, since a step between them is longer than they are."""
    kernel, strides = attributes["kernel_shape"], attributes["strides"]
    spans = zip(kernel, attributes.get("dilations", [1] * len(kernel)), strides)
    return any((kernel - 1) * dilation + 1 < stride for kernel, dilation, stride in spans)


def conv(name):
    def make(graph):
        tensor = graph.flowing(rank=(3, 4, 5))
        if not tensor:
            return
        channels, dims = tensor.value.shape[1], tensor.value.ndim - 2
        groups = graph.one([size for size in range(1, channels + 1) if channels % size == 0])
        attributes = {**window(graph, dims), "group": groups}
        each = graph.one([1, 2, 3, 8])
        out = each * groups
        if name == "ConvTranspose":
            shape = [channels, each, *attributes["kernel_shape"]]
            if leaves_gaps(attributes):
                # The specification wants extent times stride, and onnxruntime makes less.
                attributes.pop("auto_pad", None)
            if graph.chance(0.3):
                attributes["output_padding"] = [graph.integer(0, 1) for _ in range(dims)]
        else:
            shape = [out, channels // groups, *attributes["kernel_shape"]]
        weights = graph.constant(graph.floats(shape, (np.prod(shape[1:])) ** -0.5))
        bias = [graph.constant(graph.floats([out]))] if graph.chance(0.6) else []
        graph.add(name, [tensor, weights, *bias], **attributes)
    return make


def pool(name, **choices):
    def make(graph):
        tensor = graph.flowing(rank=(3, 4, 5))
        if tensor:
            attributes = window(graph, tensor.value.ndim - 2, dilated=name == "MaxPool")
            if "auto_pad" in attributes:  # for which onnxruntime takes the window as not dilated
                attributes.pop("dilations", None)
            if name == "LpPool" or leaves_gaps(attributes):
                # onnxruntime then lets padding be negative: it refuses the model, or its windows begin inside the image.
                # The ONNX project's own evaluator fails, or begins elsewhere. Here padding is 0 at least, as for Conv.
                attributes.pop("auto_pad", None)
            graph.add(name, [tensor], **attributes, **{key: choice(graph) for key, choice in choices.items()})
    return make


def normalised(name, parameters, **choices):
    def make(graph):
        tensor = graph.flowing(rank=(3, 4, 5))
        if tensor:
            channels = tensor.value.shape[1]
            if name == "InstanceNormalization" and tensor.value[0, 0].size == 1:
                # What is left is the shift, which onnxruntime rounds as it does numbers 300 times as large as the input.
                return
            constants = [graph.constant(np.abs(graph.floats([channels])) + np.float32(0.5)) for _ in range(parameters)]
            graph.add(name, [tensor, *constants], **{key: choice(graph) for key, choice in choices.items()})
    return make


def layer_norm(graph):
    tensor = graph.flowing(rank=(2, 3, 4))
    if tensor and graph.opset >= 17:
        axis = graph.integer(1, tensor.value.ndim - 1)
        shape = tensor.value.shape[axis:]
        graph.add("LayerNormalization", [tensor, graph.constant(graph.floats(shape)), graph.constant(graph.floats(shape))],
                  axis=axis)


def gemm(graph):
    tensor = graph.flowing(rank=2)
    if tensor:
        flipped, columns = graph.integer(0, 1), graph.one(CHANNELS)
        rows = tensor.value.shape[1]
        shape = [columns, rows] if flipped else [rows, columns]
        weights = graph.constant(graph.floats(shape, rows ** -0.5))
        bias = [graph.constant(graph.floats(broadcast(graph, [columns])))] if graph.chance(0.6) else []
        graph.add("Gemm", [tensor, weights, *bias], transB=flipped, alpha=graph.one([1.0, 0.5]), beta=graph.one([1.0, 2.0]))


def matmul(graph):
    a = graph.flowing(rank=(2, 3, 4))
    if a:
        inner = a.value.shape[-1]
        b = graph.pick(lambda tensor: tensor.value.dtype.kind == "f" and tensor.value.ndim >= 2
                       and tensor.value.shape[-2] == inner and fits(a.value.shape[:-2], tensor.value.shape[:-2]))
        if b is None or graph.chance(0.5):
            b = graph.constant(graph.floats([inner, graph.one(CHANNELS)], inner ** -0.5))
        graph.add("MatMul", [a, b])


def axes_of(graph, rank):
    chosen = [axis for axis in range(rank) if graph.chance(0.5)] or [graph.integer(0, rank - 1)]
    return [axis - rank if graph.chance(0.3) else axis for axis in chosen]


def reduce(name, axes_since, kind="f", keeps=False):
    def make(graph):
        tensor = graph.flowing(kind=kind)
        if tensor and tensor.value.ndim:
            axes, attributes = axes_of(graph, tensor.value.ndim), {"keepdims": graph.integer(0, 1)}
            inputs = [tensor]
            if graph.opset >= axes_since:
                inputs.append(graph.integers(axes))
            else:
                attributes["axes"] = axes
            graph.add(name, inputs, keeps=keeps, **attributes)
    return make


def arg(name):
    def make(graph):
        tensor = graph.flowing(exact=True)
        if tensor and tensor.value.ndim:
            graph.add(name, [tensor], keeps=True, axis=graph.integer(0, tensor.value.ndim - 1), keepdims=graph.integer(0, 1))
    return make


def softmax(name):
    def make(graph):
        tensor = graph.flowing()
        if tensor and tensor.value.ndim:
            graph.add(name, [tensor], axis=graph.integer(-tensor.value.ndim, tensor.value.ndim - 1))
    return make


def concat(graph):
    first = graph.flowing()
    if first and first.value.ndim:
        axis = graph.integer(0, first.value.ndim - 1)
        alike = lambda tensor: tensor.value.dtype.kind == "f" and tensor.value.ndim == first.value.ndim and all(
            at == axis or size == first.value.shape[at] for at, size in enumerate(tensor.value.shape))
        others = [graph.pick(alike) for _ in range(graph.integer(1, 2))]
        graph.add("Concat", [first, *others], keeps=True, axis=axis)


def split(graph):
    tensor = graph.flowing()
    axes = [axis for axis, size in enumerate(tensor.value.shape) if size >= 2] if tensor else []
    if axes and graph.opset >= 13:
        axis = graph.one(axes)
        cut = graph.integer(1, tensor.value.shape[axis] - 1)
        sizes = graph.integers([cut, tensor.value.shape[axis] - cut])
        graph.add("Split", [tensor, sizes], outputs=2, keeps=True, axis=axis)


def cut(graph):
    tensor = graph.flowing()
    if tensor and tensor.value.ndim:
        axis = graph.integer(0, tensor.value.ndim - 1)
        size, step = tensor.value.shape[axis], graph.one([1, 1, 2, -1, -2])
        start, end = sorted([graph.integer(0, size), graph.integer(0, size)])
        if step < 0:
            start, end = end, start
        graph.add("Slice", [tensor, *(graph.integers([value]) for value in (start, end, axis, step))], keeps=True)


def transpose(graph):
    tensor = graph.pick(lambda tensor: tensor.value.ndim >= 2)
    if tensor:
        graph.add("Transpose", [tensor], keeps=True, perm=graph.random.permutation(tensor.value.ndim).tolist())


def reshape(graph):
    tensor = graph.pick(lambda tensor: tensor.value.ndim >= 1)
    if tensor:
        shape = list(tensor.value.shape)
        at = graph.integer(0, len(shape) - 1)
        if len(shape) > 1 and graph.chance(0.5):
            shape[at - 1:at + 1] = [-1] if at else []
            shape = shape if at else [-1]
        else:
            divisors = [size for size in range(1, shape[at] + 1) if shape[at] % size == 0]
            size = graph.one(divisors)
            shape[at:at + 1] = [size, shape[at] // size]
        graph.add("Reshape", [tensor, graph.integers(shape)], keeps=True)


def expand(graph):
    tensor = graph.pick(lambda tensor: 1 in tensor.value.shape or tensor.value.ndim < 4)
    if tensor:
        shape = [graph.integer(1, 4) if size == 1 else size for size in tensor.value.shape]
        if graph.chance(0.3):
            shape.insert(0, 2)
        graph.add("Expand", [tensor, graph.integers(shape)], keeps=True)


def tile(graph):
    tensor = graph.flowing()
    if tensor and tensor.value.ndim:
        graph.add("Tile", [tensor, graph.integers([graph.one([1, 1, 2, 3]) for _ in tensor.value.shape])], keeps=True)


def unsqueeze(graph):
    tensor = graph.pick(lambda tensor: tensor.value.ndim < 5)
    if tensor and graph.opset >= 13:
        graph.add("Unsqueeze", [tensor, graph.integers([graph.integer(0, tensor.value.ndim)])], keeps=True)


def flatten(graph):
    tensor = graph.flowing()
    if tensor:
        graph.add("Flatten", [tensor], keeps=True, axis=graph.integer(0, tensor.value.ndim))


def pad(graph):
    tensor = graph.flowing()
    if tensor and tensor.value.ndim:
        mode = graph.one(["constant", "constant", "reflect", "edge"])
        least = -1 if graph.chance(0.2) else 0
        pads = graph.integers([graph.integer(least, 2) for _ in range(2 * tensor.value.ndim)])
        value = [graph.constant(np.float32(graph.one([0.0, 1.5])))] if mode == "constant" else []
        graph.add("Pad", [tensor, pads, *value], keeps=True, mode=mode)


def gather(graph):
    tensor = graph.flowing()
    if tensor and tensor.value.ndim:
        axis = graph.integer(0, tensor.value.ndim - 1)
        size = tensor.value.shape[axis]
        indices = graph.random.integers(-size, size, [graph.integer(1, 3) for _ in range(graph.integer(0, 2))])
        graph.add("Gather", [tensor, graph.constant(indices.astype(np.int64))], keeps=True, axis=axis)


def gather_elements(graph):
    tensor = graph.flowing()
    if tensor and tensor.value.ndim:
        axis = graph.integer(0, tensor.value.ndim - 1)
        shape = list(tensor.value.shape)
        indices = graph.random.integers(0, shape[axis], shape).astype(np.int64)
        graph.add("GatherElements", [tensor, graph.constant(indices)], keeps=True, axis=axis)


def scatter(graph):
    tensor = graph.flowing(rank=(1, 2, 3))
    if tensor:
        rows = graph.integer(1, tensor.value.shape[0])
        indices = graph.random.permutation(tensor.value.shape[0])[:rows].reshape(rows, 1).astype(np.int64)
        updates = graph.constant(graph.floats([rows, *tensor.value.shape[1:]]))
        graph.add("ScatterND", [tensor, graph.constant(indices), updates], keeps=True)


def resize(graph):
    tensor = graph.flowing(rank=(3, 4))
    if not tensor:
        return
    mode = graph.one(["nearest", "linear", "linear", "cubic"])
    if mode == "cubic" and tensor.value.ndim != 4:
        return
    kept = list(tensor.value.shape[:2])
    attributes = {"mode": mode, "coordinate_transformation_mode": graph.one(
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])}
    if mode == "nearest":
        attributes["nearest_mode"] = graph.one(["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"])
    empty = graph.constant(np.array([], np.float32))
    if graph.chance(0.5):
        sizes = graph.integers([*kept, *(graph.integer(1, 2 * size) for size in tensor.value.shape[2:])])
        inputs = [tensor, empty, empty, sizes]
    else:
        scales = graph.constant(np.array([1, 1, *(graph.one([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in tensor.value.shape[2:])],
                                         np.float32))
        inputs = [tensor, empty, scales]
    graph.add("Resize", inputs, **attributes)


def blocks(name, **choices):
    def make(graph):
        tensor = graph.flowing(rank=4)
        if tensor:
            graph.add(name, [tensor], keeps=True, blocksize=2, **{key: choice(graph) for key, choice in choices.items()})
    return make


def cumsum(graph):
    tensor = graph.flowing()
    if tensor and tensor.value.ndim:
        axis = graph.constant(np.int64(graph.integer(0, tensor.value.ndim - 1)))
        graph.add("CumSum", [tensor, axis], exclusive=graph.integer(0, 1), reverse=graph.integer(0, 1))


def topk(graph):
    tensor = graph.flowing(exact=True)
    if tensor and tensor.value.ndim:
        axis = graph.integer(0, tensor.value.ndim - 1)
        k = graph.integers([graph.integer(1, tensor.value.shape[axis])])
        graph.add("TopK", [tensor, k], outputs=2, keeps=True, axis=axis, largest=graph.integer(0, 1))


def places_of_maxima(graph):
    tensor = graph.flowing(rank=(3, 4), exact=True)
    if tensor:
        spatial = tensor.value.ndim - 2
        kernel = [graph.one([1, 2, 3]) for _ in range(spatial)]
        pads = [graph.integer(0, size - 1) for size in kernel]
        graph.add("MaxPool", [tensor], outputs=2, keeps=True, kernel_shape=kernel, pads=pads * 2,
                  strides=[graph.one([1, 2]) for _ in kernel], storage_order=graph.integer(0, 1))


def computed_elements(graph):
    """Elements by indices that are computed: those of the same shape in all axes but one."""
    data = graph.flowing()
    if not data or not data.value.ndim:
        return
    axis = graph.integer(0, data.value.ndim - 1)

    def names(tensor):
        value, shape = tensor.value, data.value.shape
        return (value.dtype in (np.int32, np.int64) and value.ndim == data.value.ndim
                and all(at == axis or size <= shape[at] for at, size in enumerate(value.shape))
                and value.min() >= -shape[axis] and value.max() < shape[axis])
    indices = graph.pick(names)
    if indices:
        graph.add("GatherElements", [data, indices], keeps=data.exact, axis=axis)


def regions(graph):
    tensor = graph.flowing(rank=4)
    if tensor:
        images, _, height, width = tensor.value.shape
        count = graph.integer(1, 3)
        low = graph.random.random((count, 2)) * [width, height] - 1
        rois = np.concatenate([low, low + graph.random.random((count, 2)) * [width, height] + 0.5], axis=1)
        graph.add("RoiAlign", [tensor, graph.constant(rois.astype(np.float32)),
                               graph.constant(graph.random.integers(0, images, count))],
                  output_height=graph.one([1, 2, 3]), output_width=graph.one([1, 2, 5]), sampling_ratio=graph.one([1, 2]),
                  spatial_scale=graph.one([1.0, 0.5]))


def of_onnxruntime(operator, make):
    """An operator of onnxruntime: inputs after the first, and attributes, which follow from the first one's shape."""
    def add(graph):
        tensor = graph.flowing(rank=make.rank)
        if tensor:
            more, attributes = make(graph, tensor.value.shape)
            inputs = [tensor, *(graph.constant(value) if isinstance(value, np.ndarray) else value and tensor for value in more)]
            graph.add(operator, inputs, domain="com.microsoft", **attributes)
    return add


def ranked(*rank):
    def mark(make):
        make.rank = rank or None
        return make
    return mark


@ranked(2, 3, 4, 5)
def with_bias(graph, shape):
    return [graph.floats([shape[-1]])], {}


@ranked()
def alone(graph, shape):
    return [], {}


@ranked(3)
def skip_norm(graph, shape):
    width = shape[-1]
    more = [True, graph.floats([width]), graph.floats([width])]
    return more + [graph.floats([width])] * graph.integer(0, 1), {"epsilon": 1e-5}


@ranked(4)
def fused_conv(graph, shape):
    kernel, channels = graph.one([1, 3]), graph.one(CHANNELS)
    weight = graph.floats([channels, shape[1], kernel, kernel], (shape[1] * kernel * kernel) ** -0.5)
    activation = graph.one(["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    attributes = {"activation": activation, "pads": [kernel // 2] * 4, "kernel_shape": [kernel] * 2}
    if activation == "LeakyRelu":
        attributes["activation_params"] = [0.1]
    return [weight, graph.floats([channels])], attributes


@ranked(2, 3)
def fused_matmul(graph, shape):
    columns, turned = graph.one(CHANNELS), graph.integer(0, 1)
    weight = graph.floats([columns, shape[-1]] if turned else [shape[-1], columns], shape[-1] ** -0.5)
    return [weight], {"transB": turned, "alpha": graph.one([1.0, 0.5])}


@ranked(3)
def packed_attention(graph, shape):
    heads, width = graph.one([1, 2]), graph.one([1, 4])
    size = heads * width
    weights = graph.floats([shape[-1], 3 * size], shape[-1] ** -0.5)
    return [weights, graph.floats([3 * size])], {"num_heads": heads, "unidirectional": graph.integer(0, 1)}


@ranked(3)
def heads_attention(graph, shape):
    return [True, True], {"num_heads": graph.one([n for n in (1, 2, 4) if shape[-1] % n == 0])}


@ranked(3)
def simplified_skip_norm(graph, shape):
    width = shape[-1]
    return [True, graph.floats([width])] + [graph.floats([width])] * graph.integer(0, 1), {"epsilon": 1e-5}


def simplified_norm(graph):
    """Of onnxruntime, but in ONNX's own set."""
    tensor = graph.flowing(rank=(2, 3, 4))
    if tensor:
        graph.add("SimplifiedLayerNormalization", [tensor, graph.constant(graph.floats([tensor.value.shape[-1]]))],
                  axis=-1, epsilon=1e-5)


def rotary(graph):
    """Heads that are flat or apart, of positions or from a position on."""
    tensor = graph.flowing(rank=(3, 4))
    if not tensor:
        return
    shape, places = tensor.value.shape, 2 * max(tensor.value.shape)
    flat = len(shape) == 3
    length, width = shape[1] if flat else shape[2], shape[-1]
    sizes = [size for size in (2, 4, 6, 8, width) if width % size == 0 and size % 2 == 0]
    if not sizes:
        return
    size = graph.one(sizes) if flat else width
    angles = graph.floats([places, size // 2])
    ids = graph.random.integers(0, places, [shape[0], length]) if graph.chance(0.5) else [graph.integer(0, places - length)]
    inputs = [tensor, graph.integers(ids), *(graph.constant(turn(angles)) for turn in (np.cos, np.sin))]
    attributes = {"num_heads": width // size} if flat and graph.chance(0.5) else {}
    graph.add("RotaryEmbedding", inputs, domain="com.microsoft", interleaved=graph.integer(0, 1), **attributes)


def embeddings(graph):
    """Of token ids that are an input of their own."""
    batch, length, width, entries = graph.one([1, 2]), graph.integer(1, 6), graph.one([1, 4, 9]), graph.integer(1, 7)
    ids = graph.random.integers(0, entries, [batch, length]).astype(np.int32)
    graph.input(ids)
    words, segments = graph.tensors[-1], graph.chance(0.5)
    tables = [graph.constant(graph.floats([rows, width])) for rows in (entries, length + 2, 2)]
    norm = [graph.constant(graph.floats([width])) for _ in range(2)]
    segment = graph.constant(graph.random.integers(0, 2, [batch, length]).astype(np.int32)) if segments else None
    inputs = [words, segment, tables[0], tables[1], tables[2] if segments else None, *norm]
    if graph.chance(0.3):
        inputs.append(graph.constant(np.ones([batch, length], np.int32)))
    graph.add("EmbedLayerNormalization", inputs, outputs=2, domain="com.microsoft", epsilon=1e-5)


def integer_products(graph):
    """Floats that are quantised by their own extremes, times integers."""
    tensor = graph.flowing(rank=(2, 3), exact=True)
    if not tensor or not graph.add("DynamicQuantizeLinear", [tensor], outputs=3):
        return
    integers, scale, zero = graph.tensors[-3:]
    columns, kind = graph.one(CHANNELS), graph.one([np.int8, np.uint8])
    limits = np.iinfo(kind)
    weight = graph.constant(graph.random.integers(limits.min, limits.max, [tensor.value.shape[-1], columns]).astype(kind))
    each = columns if graph.chance(0.5) else 1
    scales = graph.constant((graph.random.random(each) * 0.02 + 0.001).astype(np.float32))
    zeros = graph.constant(graph.random.integers(limits.min, limits.max, each).astype(kind)) if graph.chance(0.6) else None
    bias = [graph.constant(graph.floats([columns]))] if graph.chance(0.5) else []
    graph.add("MatMulIntegerToFloat", [integers, weight, scale, scales, zero, zeros, *bias], domain="com.microsoft")


def einsum(graph):
    tensor = graph.flowing(rank=3)
    if tensor:
        inner = tensor.value.shape[2]
        other = graph.constant(graph.floats([inner, 5], inner ** -0.5))
        graph.add("Einsum", [tensor, other], equation=graph.one(["bij,jk->bik", "bij,jk->bki", "bij,jk->ik"]))


def recurrent(name, gates):
    def make(graph):
        tensor = graph.flowing(rank=3)
        if tensor:
            width, hidden = tensor.value.shape[2], graph.one([1, 3, 8])
            direction = graph.one(["forward", "reverse", "bidirectional"])
            ways = 2 if direction == "bidirectional" else 1
            w = graph.constant(graph.floats([ways, gates * hidden, width], width ** -0.5))
            r = graph.constant(graph.floats([ways, gates * hidden, hidden], hidden ** -0.5))
            b = graph.constant(graph.floats([ways, 2 * gates * hidden]))
            attributes = {"linear_before_reset": graph.integer(0, 1)} if name == "GRU" else {}
            graph.add(name, [tensor, w, r, b], outputs=2, hidden_size=hidden, direction=direction, **attributes)
    return make


def some(*values):
    return lambda graph: graph.one(values)


FLAG = some(0, 1)
SMOOTH = ["Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Softplus", "Selu", "HardSwish", "Erf", "Mish", "Softsign",
          "Sin", "Cos", "Atan", "Sqrt", "Log", "Reciprocal", "Asinh", "Sinh", "Cosh", "Celu"]
COMPARED = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]
REDUCED = {"ReduceMean": 18, "ReduceSum": 13, "ReduceMax": 18, "ReduceMin": 18, "ReduceL1": 18, "ReduceL2": 18,
           "ReduceLogSumExp": 18, "ReduceSumSquare": 18, "ReduceProd": 18}

OPERATORS = {
    **{name: unary(name, keeps=name in ("Relu", "Abs", "Neg")) for name in SMOOTH},
    **{name: unary(name, exact=True, keeps=True) for name in ("Floor", "Ceil", "Round", "Sign")},
    "LeakyRelu": unary("LeakyRelu", alpha=some(0.1, 0.01)),
    "Elu": unary("Elu", alpha=some(1.0, 0.5)),
    "ThresholdedRelu": unary("ThresholdedRelu", exact=True, alpha=some(0.5, 1.0)),
    "HardSigmoid": unary("HardSigmoid", alpha=some(0.2, 1 / 6), beta=some(0.5)),
    "Not": unary("Not", kind="b", keeps=True),
    **{name: binary(name) for name in ("Add", "Sub", "Mul", "Max", "Min", "PRelu")},
    **{name: binary(name, positive=True) for name in ("Div", "Pow")},
    **{f"{name} of integers": binary(name, kind="i") for name in ("Add", "Sub", "Mul", "Max", "Min")},
    **{name: binary(name, exact=True) for name in COMPARED},
    **{name: binary(name, kind="b") for name in ("And", "Or", "Xor")},
    "Where": choose,
    "Cast to float": cast(TensorProto.FLOAT, "b"),
    "Cast of integers": cast(TensorProto.FLOAT, "i"),
    "Conv": conv("Conv"),
    "ConvTranspose": conv("ConvTranspose"),
    "MaxPool": pool("MaxPool", ceil_mode=FLAG),
    "AveragePool": pool("AveragePool", ceil_mode=some(0), count_include_pad=FLAG),
    "LpPool": pool("LpPool", p=some(1, 2)),
    **{name: normalised(name, 0) for name in ("GlobalAveragePool", "GlobalMaxPool")},
    "BatchNormalization": normalised("BatchNormalization", 4),
    "InstanceNormalization": normalised("InstanceNormalization", 2),
    "LRN": normalised("LRN", 0, size=some(1, 3, 5)),
    "LayerNormalization": layer_norm,
    "Gemm": gemm,
    "MatMul": matmul,
    **{name: reduce(name, since) for name, since in REDUCED.items()},
    "ReduceSum of integers": reduce("ReduceSum", 13, kind="i", keeps=True),
    **{name: arg(name) for name in ("ArgMax", "ArgMin")},
    **{name: softmax(name) for name in ("Softmax", "LogSoftmax")},
    "Concat": concat, "Split": split, "Slice": cut, "Transpose": transpose, "Reshape": reshape, "Expand": expand,
    "Tile": tile, "Unsqueeze": unsqueeze, "Flatten": flatten, "Pad": pad, "Gather": gather,
    "GatherElements": gather_elements, "ScatterND": scatter, "Resize": resize, "CumSum": cumsum, "TopK": topk,
    "DepthToSpace": blocks("DepthToSpace", mode=some("DCR", "CRD")), "SpaceToDepth": blocks("SpaceToDepth"),
    "Einsum": einsum,
    "MaxPool with places": places_of_maxima, "GatherElements by computed indices": computed_elements, "RoiAlign": regions,
    **{name: of_onnxruntime(name, with_bias) for name in ("BiasGelu", "FastGelu")},
    **{name: of_onnxruntime(name, alone) for name in ("QuickGelu", "Gelu")},
    "SkipLayerNormalization": of_onnxruntime("SkipLayerNormalization", skip_norm),
    "SkipSimplifiedLayerNormalization": of_onnxruntime("SkipSimplifiedLayerNormalization", simplified_skip_norm),
    "SimplifiedLayerNormalization": simplified_norm, "RotaryEmbedding of onnxruntime": rotary,
    "EmbedLayerNormalization": embeddings, "MatMulIntegerToFloat": integer_products,
    "FusedConv": of_onnxruntime("FusedConv", fused_conv), "FusedMatMul": of_onnxruntime("FusedMatMul", fused_matmul),
    "Attention of onnxruntime": of_onnxruntime("Attention", packed_attention),
    "MultiHeadAttention": of_onnxruntime("MultiHeadAttention", heads_attention),
    "LSTM": recurrent("LSTM", 4), "GRU": recurrent("GRU", 3), "RNN": recurrent("RNN", 1),
}
