#!/usr/bin/env python3
"""Exports torchvision's networks to ONNX, as a user of torch would, to test the importer on.

    python3 -m venv ENV && ENV/bin/pip install torch torchvision onnx onnxruntime onnxscript
    ENV/bin/python tools/torch_models.py OUT [MODEL ...]

Weights are random but seeded, so nothing but the packages is downloaded. Batch norms have random
scales and shifts, and disturbed statistics of random images, so that activations keep their size
through the whole depth and none of the four vectors is trivial. Per model the folder holds

    input.npy            the input, [1, 3, H, W]
    EXPORT.onnx          one file for each exporter and opset that works:
                         legacy-N    TorchScript exporter, opset N, batch norms folded
                         unfolded-N  the same without folding: BatchNormalization nodes, Constant nodes
                         dynamo-N    torch.export exporter
    EXPORT.output.npy    onnxruntime's output for it
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision

warnings.filterwarnings("ignore")

MODELS = {
    "resnet18": {},
    "alexnet": {},
    "densenet121": {},
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False},
    "shufflenet_v2_x1_0": {},
    "efficientnet_b0": {"stochastic_depth_prob": 0.0},
    "regnet_y_400mf": {},
    "mobilenet_v3_small": {},
    "mobilenet_v2": {},
    "squeezenet1_1": {},
}
SIDE = {"inception_v3": 299}
LEGACY_OPSETS = (11, 13, 17)
DYNAMO_OPSETS = (18, 20)


def image(side, batch, generator):
    """Noise with the falling spectrum of photographs, standardised."""
    planes = sum(
        torch.nn.functional.interpolate(
            torch.randn(batch, 3, max(2, side >> octave), max(2, side >> octave), generator=generator),
            (side, side),
            mode="bilinear",
        )
        for octave in range(6)
    )
    return (planes - planes.mean()) / planes.std()


def calibrate(model, side, generator):
    """Draws the batch norms' scales and shifts, takes their statistics from images and disturbs them."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # cumulative average
    model.train()
    with torch.no_grad():
        for norm in norms:
            norm.weight.mul_(0.7 + 0.6 * torch.rand(norm.weight.shape, generator=generator))
            norm.bias.add_(0.2 * torch.randn(norm.bias.shape, generator=generator))
        for _ in range(2):
            model(image(side, 4, generator))
        for norm in norms:
            shape = norm.running_mean.shape
            norm.running_mean += 0.1 * norm.running_var.sqrt() * torch.randn(shape, generator=generator)
            norm.running_var *= 0.8 + 0.45 * torch.rand(shape, generator=generator)
    model.eval()


def exports(model, x, folder):
    """Yields (name, path, error or None) for every exporter and opset."""
    names = {"input_names": ["input"], "output_names": ["output"]}
    jobs = [(f"legacy-{n}", {"dynamo": False, "opset_version": n}) for n in LEGACY_OPSETS]
    jobs.append(
        (
            "unfolded-13",
            {
                "dynamo": False,
                "opset_version": 13,
                "do_constant_folding": False,
                "training": torch.onnx.TrainingMode.PRESERVE,
            },
        )
    )
    jobs += [(f"dynamo-{n}", {"dynamo": True, "opset_version": n, "external_data": False}) for n in DYNAMO_OPSETS]
    for name, options in jobs:
        path = folder / f"{name}.onnx"
        try:
            torch.onnx.export(model, (x,), str(path), **names, **options)
            yield name, path, None
        except Exception as error:  # an exporter's failure is a result, not the end of the run
            path.unlink(missing_ok=True)
            yield name, path, error


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    names = sys.argv[2:] or list(MODELS)
    for name in names:
        if name not in MODELS:
            sys.exit(f"unknown model {name}; known: {', '.join(MODELS)}")
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        generator = torch.Generator().manual_seed(7)
        torch.manual_seed(7)
        side = SIDE.get(name, 224)
        model = getattr(torchvision.models, name)(weights=None, **MODELS[name])
        calibrate(model, side, generator)
        x = image(side, 1, generator)
        np.save(folder / "input.npy", x.numpy())
        with torch.no_grad():
            reference = model(x).numpy()
        print(f"{name}: output {reference.shape}, std {reference.std():.3g}", flush=True)
        for export, path, error in exports(model, x, folder):
            if error is not None:
                print(f"  {export:12} failed: {str(error).splitlines()[0][:150]}", flush=True)
                continue
            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
            np.save(folder / f"{export}.output.npy", result)
            proto = onnx.load(str(path), load_external_data=False)
            operators = sorted({node.op_type for node in proto.graph.node})
            opset = next(o.version for o in proto.opset_import if o.domain == "")
            difference = np.abs(result - reference).max() / reference.std()
            print(
                f"  {export:12} opset {opset}, {len(proto.graph.node)} nodes, "
                f"difference to torch {difference:.1e} std: {' '.join(operators)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
