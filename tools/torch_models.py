#!/usr/bin/env python3
"""Exports networks of torch to ONNX, as a user of torch would, for tools/check_models.py.

    python3 -m venv ENV && ENV/bin/pip install torch torchvision timm transformers ultralytics onnx onnxruntime onnxscript
    ENV/bin/python tools/torch_models.py OUT [NETWORK ...]

Weights are random but seeded, so nothing but the packages is downloaded. Networks whose packages are missing are
left out, with a line that says so. Per network the folder OUT/NETWORK holds a model for each export that works:

    legacy-N    TorchScript exporter, opset N, batch norms folded
    unfolded-N  the same without folding: BatchNormalization nodes, Constant nodes
    dynamo-N    torch.export exporter
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from model_folder import store, summary
from torch_networks import CLASSIFIERS, OTHERS

warnings.filterwarnings("ignore")


def legacy(opset):
    return f"legacy-{opset}", {"dynamo": False, "opset_version": opset}


def dynamo(opset):
    return f"dynamo-{opset}", {"dynamo": True, "opset_version": opset, "external_data": False}


UNFOLDED = (
    "unfolded-13",
    {
        "dynamo": False,
        "opset_version": 13,
        "do_constant_folding": False,
        "training": torch.onnx.TrainingMode.PRESERVE,
    },
)
ALL = [legacy(11), legacy(13), legacy(17), UNFOLDED, dynamo(18), dynamo(20)]
ONE_OF_EACH = [legacy(17), dynamo(20)]


def exports(model, inputs, jobs, folder):
    """Yields (name, path, error or None) for every exporter and opset."""
    names = {"input_names": list(inputs), "verbose": False}
    for name, options in jobs:
        path = folder / f"{name}.onnx"
        try:
            torch.onnx.export(model, tuple(inputs.values()), str(path), **names, **options)
            yield name, path, None
        except Exception as error:  # an exporter's failure is a result, not the end of the run
            path.unlink(missing_ok=True)
            yield name, path, error


def tensors(found):
    """The outputs of a model, in order."""
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for part in found for tensor in tensors(part)]


def export(name, folder):
    """Exports a network in all ways, and prints a line for each."""
    generator = torch.Generator().manual_seed(7)
    torch.manual_seed(7)
    model, inputs = {**CLASSIFIERS, **OTHERS}[name](generator)
    with torch.no_grad():
        expected = [tensor.numpy() for tensor in tensors(model(*inputs.values()))]
    shapes = ", ".join(f"{tensor.shape} std {tensor.std():.3g}" for tensor in expected)
    print(f"{name}: output {shapes}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    feeds = {port: tensor.numpy() for port, tensor in inputs.items()}
    jobs = ALL if name in CLASSIFIERS else ONE_OF_EACH
    for kind, path, error in exports(model, inputs, jobs, folder):
        if error is not None:
            print(f"  {kind:12} failed: {str(error).splitlines()[0][:150]}", flush=True)
            continue
        outputs = store(path, feeds, f"torch {torch.__version__.split('+')[0]}, {kind}")
        apart = max(np.abs(a - b).max() / b.std() for a, b in zip(outputs, expected))
        print(f"  {kind:12} difference to torch {apart:.1e} std, {summary(path)}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    known = [*CLASSIFIERS, *OTHERS]
    names = sys.argv[2:] or known
    for name in names:
        if name not in known:
            sys.exit(f"unknown network {name}; known: {', '.join(known)}")
        try:
            export(name, Path(sys.argv[1]) / name)
        except ImportError as missing:
            print(f"{name}: left out: {missing}", flush=True)


if __name__ == "__main__":
    main()
