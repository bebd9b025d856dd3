#!/usr/bin/env python3
"""Trains the small convolutional network of tests/data/digits on scikit-learn's bundled digits.

    pip install numpy scikit-learn onnx onnxruntime
    OPENBLAS_NUM_THREADS=1 python3 tools/train_digits.py tests/data/digits

Everything is seeded; the split is fixed. Plain numpy with hand-written gradients: a minute on one
core, and no framework whose version the result would depend on. Writes

    digits.onnx   the network, input [1, 1, 8, 8] (pixels 0..1), output [1, 10] (logits)
    images.npy    the first 64 held-out images, [64, 1, 8, 8]
    labels.npy    their digits, [64]
    logits.npy    onnxruntime's output for them, [64, 10]

and prints the accuracy over all held-out images, as computed by onnxruntime from the file.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED = 1
HELD_OUT = 360
SAMPLES = 64
EPOCHS = 60
BATCH = 32
RATE = 2e-3
DECAY = 1e-4  # of weights, decoupled


class Conv:
    """3x3, stride 1, padded to keep the extent. Activations are [N, H, W, C]."""

    def __init__(self, rng, inputs, outputs):
        std = np.sqrt(2 / (9 * inputs))
        self.parameters = [rng.normal(0, std, (9 * inputs, outputs)), np.zeros(outputs)]

    def forward(self, x):
        n, h, w, c = x.shape
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        taps = [padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)]
        self.shape, self.columns = x.shape, np.concatenate(taps, 3).reshape(n * h * w, 9 * c)
        weight, bias = self.parameters
        return (self.columns @ weight + bias).reshape(n, h, w, -1)

    def backward(self, gradient):
        n, h, w, c = self.shape
        flat = gradient.reshape(n * h * w, -1)
        self.gradients = [self.columns.T @ flat, flat.sum(0)]
        taps = (flat @ self.parameters[0].T).reshape(n, h, w, 9, c)
        padded = np.zeros((n, h + 2, w + 2, c))
        for tap in range(9):
            i, j = divmod(tap, 3)
            padded[:, i : i + h, j : j + w] += taps[:, :, :, tap]
        return padded[:, 1:-1, 1:-1]


class Relu:
    parameters = gradients = ()

    def forward(self, x):
        self.positive = x > 0
        return x * self.positive

    def backward(self, gradient):
        return gradient * self.positive


class MaxPool:
    """2x2; the gradient goes to the first largest of each window."""

    parameters = gradients = ()

    def forward(self, x):
        n, h, w, c = x.shape
        windows = x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 5, 2, 4).reshape(n, h // 2, w // 2, c, 4)
        self.shape, self.largest = x.shape, windows.argmax(4)[..., None]
        return np.take_along_axis(windows, self.largest, 4)[..., 0]

    def backward(self, gradient):
        n, h, w, c = self.shape
        windows = np.zeros((n, h // 2, w // 2, c, 4))
        np.put_along_axis(windows, self.largest, gradient[..., None], 4)
        return windows.reshape(n, h // 2, w // 2, c, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(n, h, w, c)


class Linear:
    """Flattens, then a matrix product."""

    def __init__(self, rng, inputs, outputs):
        self.parameters = [rng.normal(0, np.sqrt(1 / inputs), (inputs, outputs)), np.zeros(outputs)]

    def forward(self, x):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.parameters[0] + self.parameters[1]

    def backward(self, gradient):
        self.gradients = [self.x.T @ gradient, gradient.sum(0)]
        return (gradient @ self.parameters[0].T).reshape(self.shape)


def shifted(images, rng):
    """Every image moved by up to one pixel each way."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    places = rng.integers(0, 3, (len(images), 2))
    return np.stack([image[i : i + 8, j : j + 8] for image, (i, j) in zip(padded, places)])


def train(layers, images, labels, rng):
    """Adam with a rate falling to 0 along a cosine."""
    moments = [[[np.zeros_like(p), np.zeros_like(p)] for p in layer.parameters] for layer in layers]
    steps, step = EPOCHS * (len(images) // BATCH), 0
    for epoch in range(EPOCHS):
        order, total = rng.permutation(len(images)), 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            x = shifted(images[batch], rng)
            for layer in layers:
                x = layer.forward(x)
            odds = np.exp(x - x.max(1, keepdims=True))
            odds /= odds.sum(1, keepdims=True)
            total -= np.log(odds[np.arange(BATCH), labels[batch]]).sum()
            odds[np.arange(BATCH), labels[batch]] -= 1
            gradient = odds / BATCH
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for layer, kept in zip(layers, moments):
                for parameter, gradient_, (first, second) in zip(layer.parameters, layer.gradients, kept):
                    first += 0.1 * (gradient_ - first)
                    second += 0.001 * (gradient_**2 - second)
                    update = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
                    parameter -= rate * update + RATE * DECAY * parameter
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {total / len(images):.4f}", flush=True)


def export(layers):
    """The network in ONNX's layouts: NCHW activations, weights [outputs, inputs, 3, 3]."""
    nodes, initializers, x, channels, counts = [], [], "input", 1, {}
    for layer in layers:
        kind = type(layer).__name__.lower()
        counts[kind] = counts.get(kind, 0) + 1
        name = f"{kind}{counts[kind]}"
        if isinstance(layer, (Conv, Linear)):
            weight, bias = layer.parameters
            outputs = len(bias)
            if isinstance(layer, Conv):
                weight = weight.reshape(3, 3, channels, outputs).transpose(3, 2, 0, 1)
            else:
                weight = weight.reshape(4, 4, channels, outputs).transpose(3, 2, 0, 1).reshape(outputs, -1)
                nodes.append(helper.make_node("Flatten", [x], ["flatten"], "flatten", axis=1))
                x = "flatten"
            channels = outputs
            for part, data in (("weight", weight), ("bias", bias)):
                data = np.ascontiguousarray(data, np.float32)
                initializers.append(numpy_helper.from_array(data, f"{name}.{part}"))
        inputs = [x, f"{name}.weight", f"{name}.bias"]
        if isinstance(layer, Conv):
            nodes.append(helper.make_node("Conv", inputs, [name], name, kernel_shape=[3, 3], pads=[1] * 4))
        elif isinstance(layer, Linear):
            nodes.append(helper.make_node("Gemm", inputs, ["output"], name, transB=1))
        elif isinstance(layer, MaxPool):
            nodes.append(helper.make_node("MaxPool", [x], [name], name, kernel_shape=[2, 2], strides=[2, 2]))
        else:
            nodes.append(helper.make_node("Relu", [x], [name], name))
        x = name
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 10])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="train_digits.py")
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    rng = np.random.default_rng(SEED)
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    images, labels = digits.images[order][..., None] / 16.0, digits.target[order]
    held_images, held_labels = images[:HELD_OUT], labels[:HELD_OUT]
    layers = [
        Conv(rng, 1, 16),
        Relu(),
        Conv(rng, 16, 32),
        Relu(),
        MaxPool(),
        Conv(rng, 32, 32),
        Relu(),
        Linear(rng, 4 * 4 * 32, 10),
    ]
    train(layers, images[HELD_OUT:], labels[HELD_OUT:], rng)

    out.mkdir(parents=True, exist_ok=True)
    onnx.save(export(layers), str(out / "digits.onnx"))
    session = onnxruntime.InferenceSession(str(out / "digits.onnx"), providers=["CPUExecutionProvider"])
    held_images = held_images.transpose(0, 3, 1, 2).astype(np.float32)
    logits = np.concatenate([session.run(None, {"input": image[None]})[0] for image in held_images])
    right = logits.argmax(1) == held_labels
    print(f"held-out: {right.sum()} of {HELD_OUT} right ({100 * right.mean():.2f} %)")
    print(f"samples: {right[:SAMPLES].sum()} of {SAMPLES} right")
    np.save(out / "images.npy", held_images[:SAMPLES])
    np.save(out / "labels.npy", held_labels[:SAMPLES].astype(np.float32))
    np.save(out / "logits.npy", logits[:SAMPLES])


if __name__ == "__main__":
    main()
