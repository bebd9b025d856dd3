"""A folder of models with inputs and expected outputs: what tools/check_models.py takes.

FOLDER/NETWORK/EXPORT.onnx is a model. EXPORT.json next to it says

    source      where the model comes from
    arguments   options of `eyelet plan` that fix what the model leaves open
    inputs      .npy files, one for each input that is not fixed, in the model's order
    outputs     .npy files, what onnxruntime computes, in the model's order
"""

import json

import numpy as np
import onnx
import onnxruntime


def store(path, feeds, source, constants=None, arguments=()):
    """Runs the model at `path` by onnxruntime, and writes its description. Returns the outputs."""
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    constants = constants or {}
    kept = {port.name for port in session.get_inputs()}
    known = {name: value for name, value in {**feeds, **constants}.items() if name in kept}
    outputs = session.run(None, known)
    arguments = list(arguments)
    for name in kept & set(constants):
        arguments += ["--constant", f"{name}={','.join(map(str, np.ravel(constants[name])))}"]
    described = {"source": source, "arguments": arguments, "inputs": [], "outputs": []}
    arrays = [("inputs", feeds[port.name]) for port in session.get_inputs() if port.name in feeds]
    arrays += [("outputs", output) for output in outputs]
    for kind, array in arrays:
        file = f"{path.stem}.{kind}.{len(described[kind])}.npy"
        np.save(path.parent / file, array)
        described[kind].append(file)
    path.with_suffix(".json").write_text(json.dumps(described, indent=1) + "\n")
    return outputs


def summary(path):
    """The operators of a model, and its operator set, for a log."""
    model = onnx.load(str(path), load_external_data=False)
    operators = sorted({node.op_type for node in model.graph.node})
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return f"opset {opset}, {len(model.graph.node)} nodes: {' '.join(operators)}"
