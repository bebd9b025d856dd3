#!/usr/bin/env python3
"""Checks the zoo's ONNX files with onnx and onnxruntime: tools/check_zoo.py FILE.onnx ...

Each must pass onnx.checker with full shape inference, run, and give logits of a sensible spread that
differ between images, or texts. Prints the spread, the correlation of two inputs' logits, and the smallest and
largest spread of any activation inside.
"""

import sys

import numpy as np
import onnx
import onnxruntime


def image(rng, side=224):
    """Noise with the falling spectrum of photographs, standardised."""
    planes = np.zeros((1, 3, side, side))
    for octave in range(6):
        coarse = rng.standard_normal((1, 3, -(-side >> octave), -(-side >> octave)))
        planes += coarse.repeat(1 << octave, 2).repeat(1 << octave, 3)[:, :, :side, :side]
    return ((planes - planes.mean()) / planes.std()).astype(np.float32)


def made_up(rng, port):
    """An image, or token ids."""
    if port.type == "tensor(int64)":
        return rng.integers(0, 50257, port.shape)
    return image(rng, port.shape[2])


def spreads(model, feeds):
    """Standard deviation of every activation, run with all of them as outputs."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    computed = [node for node in probe.graph.node if node.op_type not in ("Constant", "Cast", "Reshape", "Where")]
    names = [node.output[0] for node in computed if node.output[0] != "output"]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    return {name: float(value.std()) for name, value in zip(names, session.run(names, feeds))}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)
        (declared,) = model.graph.output
        shape = [dim.dim_value for dim in declared.type.tensor_type.shape.dim]
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(1)
        (port,) = session.get_inputs()
        inputs = [{port.name: made_up(rng, port)} for _ in range(2)]
        a, b = (session.run(["output"], feeds)[0] for feeds in inputs)
        assert list(a.shape) == shape and shape[-1] in (1000, 50257), (path, a.shape, shape)
        assert np.isfinite(a).all() and 0.1 < a.std() < 10, (path, a.std())
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert correlation < 0.995, (path, correlation)
        inside = spreads(model, inputs[0])
        print(
            f"{path}: logits std {a.std():.3f}, correlation {correlation:.3f}, "
            f"activations std {min(inside.values()):.3f} ({min(inside, key=inside.get)}) .. "
            f"{max(inside.values()):.3f} ({max(inside, key=inside.get)})"
        )


if __name__ == "__main__":
    main()
