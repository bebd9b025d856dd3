#!/usr/bin/env python3
"""Compares eyelet's outputs with onnxruntime's, where that is installed.

    tests/onnxruntime_check.py [--eyelet target/release/eyelet] [MODEL.onnx[:BUDGET]]...

Without models: networks of the zoo, and digits. Every output must agree within 1e-4 of its largest
magnitude. Exit code 1 on a disagreement, 0 (with a line that says so) where onnxruntime is missing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ZOO = {"squeezenet1_1": "6MiB", "mobilenet_v2": "8MiB", "resnet18": "16MiB", "densenet201": "16MiB",
       "vit_b_16": "32MiB", "gpt2": "48MiB"}
# Indices that every table has.
ENTRIES = 1000
TOLERANCE = 1e-4


def compare(eyelet, model, budget, work):
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
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
        worst = max(worst, float(np.abs(found - expected).max() / np.abs(expected).max()))
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
        results = []
        for model, budget in models:
            try:
                results.append(compare(arguments.eyelet, model, budget, work))
            except subprocess.CalledProcessError as error:
                print(f"FAIL {model.name}: {error}")
                results.append(False)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
