#!/usr/bin/env python3
"""Compares eyelet's outputs with onnxruntime's, where that is installed.

    tests/onnxruntime_check.py [--eyelet target/release/eyelet] [MODEL.onnx[:BUDGET]]...

Without models: networks of the zoo, and digits. Every output must agree within 1e-4 of its largest
magnitude. Networks of the zoo that onnxruntime's quantiser makes integers of must agree within a number of steps
of the output, since a value half-way between two steps may become either in every layer. Exit code 1 on a disagreement, 0 (with a line that says so) where onnxruntime is missing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ZOO = {"squeezenet1_1": "6MiB", "mobilenet_v2": "8MiB", "resnet18": "16MiB", "densenet201": "16MiB",
       "vit_b_16": "32MiB", "gpt2": "48MiB"}
# Budget, and steps of the output, next to onnxruntime without optimisations, whose sums are floats, too.
QUANTISED = {"squeezenet1_1": ("2MiB", 1), "resnet18": ("6MiB", 4)}
# Indices that every table has.
ENTRIES = 1000
TOLERANCE = 1e-4


def quantise(model, path):
    """Writes a model with weights of 8 bits for each channel; the scales of activations follow from random inputs."""
    import numpy as np
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    port = onnx.load(model).graph.input[0]
    shape = [dimension.dim_value for dimension in port.type.tensor_type.shape.dim]

    class Reader(CalibrationDataReader):
        def __init__(self):
            rng = np.random.default_rng(3)
            inputs = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
            self.left = iter([{port.name: given} for given in inputs])

        def get_next(self):
            return next(self.left, None)

    quantize_static(model, path, Reader(), per_channel=True, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8)


def last_scale(model):
    """The step of a quantised model's output."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(model).graph
    maker = next(node for node in graph.node if graph.output[0].name in node.output)
    scale = next(tensor for tensor in graph.initializer if tensor.name == maker.input[1])
    return float(numpy_helper.to_array(scale))


def compare(eyelet, model, budget, work, steps=None):
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if steps is not None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(7)
    feeds, arguments = {}, []
    for index, port in enumerate(session.get_inputs()):
        if port.type == "tensor(int64)":
            feeds[port.name] = rng.integers(0, ENTRIES, port.shape)
        else:
            feeds[port.name] = rng.standard_normal(port.shape).astype(np.float32)
        path = work / f"input{index}.npy"
        np.save(path, feeds[port.name])
        arguments += ["--input", str(path)]
    pack = work / "net.pack"
    subprocess.run([eyelet, "plan", model, "--budget", budget, "-o", pack, "--json"], check=True,
                   stdout=subprocess.DEVNULL)
    run = [eyelet, "run", pack, "--io", "buffered", "--runs", "2", "--output", work, "--json"]
    subprocess.run([*run, *arguments], check=True, stdout=subprocess.DEVNULL)
    worst = 0.0
    for port, expected in zip(session.get_outputs(), session.run(None, feeds)):
        found = np.load(work / f"{port.name}.npy")
        if found.shape != expected.shape:
            print(f"FAIL {model.name}: {port.name} has shape {found.shape}, not {expected.shape}")
            return False
        unit = np.abs(expected).max() if steps is None else last_scale(model)
        worst = max(worst, float(np.abs(found - expected).max() / unit))
    if steps is not None:
        ok = worst <= steps + 0.01
        print(f"{'ok  ' if ok else 'FAIL'} {model.name} at {budget}: largest difference {worst:.1f} steps of "
              f"the output, {steps} allowed")
        return ok
    ok = worst <= TOLERANCE
    print(f"{'ok  ' if ok else 'FAIL'} {model.name} at {budget}: largest difference {worst:.1e} of the "
          f"largest magnitude")
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--eyelet", default="target/release/eyelet")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        print("onnxruntime is not installed: not compared")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        models = []
        for text in arguments.models:
            path, _, budget = text.partition(":")
            models.append((pathlib.Path(path), budget or "1GiB"))
        if not models:
            models.append((pathlib.Path("tests/data/digits/digits.onnx"), "256KiB"))
            for name, budget in ZOO.items():
                path = work / f"{name}.onnx"
                subprocess.run([arguments.eyelet, "zoo", name, "-o", path, "--json"], check=True,
                               stdout=subprocess.DEVNULL)
                models.append((path, budget))
                if name in QUANTISED:
                    quantised = work / f"{name}_int8.onnx"
                    quantise(path, quantised)
                    models.append((quantised, *QUANTISED[name]))
        results = []
        for model, budget, *steps in models:
            try:
                results.append(compare(arguments.eyelet, model, budget, work, *steps))
            except subprocess.CalledProcessError as error:
                print(f"FAIL {model.name}: {error}")
                results.append(False)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
