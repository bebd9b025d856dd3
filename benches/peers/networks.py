"""The networks that are measured, in the forms that the engines read.

Everything lies in one folder per network: NAME.onnx from `eyelet zoo`, the input (twice), NAME.ncnn.param and .bin
(pnnx), NAME.mnn (MNN's converter), and for each budget a pack of its own (`eyelet plan`), so that layers'
algorithms are chosen for that budget. What is there is kept, except for packs, which belong to the code being
measured, and except when `eyelet zoo` writes another model.
"""

import filecmp
import json
import re
import shutil
import sys
import zlib
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import MIB, Failed, call  # noqa: E402
from settings import BUSY, VOCABULARY  # noqa: E402

# Room for the activations, input, output and tables of a plan that keeps all weights: given in excess, since
# what a plan does not touch is not resident.
ROOM = 256 * MIB

# MNN's own command reports to its makers over the network and installs what it needs for that. This calls the
# converter beneath it.
MNN_CONVERT = """
import sys, _tools
_tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", sys.argv[1], "--MNNModel", sys.argv[2],
                   "--bizCode", "eyelet"])
"""


class Network:
    """A network and its files. `missing` says of engines why they cannot run it."""

    def __init__(self, name, eyelet, work, threads, costs, warm_profile=None, budgets=None):
        """`costs` are options of `eyelet plan`. Without `budgets` there is one pack, with all weights, and nothing is
        converted for other engines."""
        self.name = name
        self.eyelet = eyelet
        self.folder = work / "networks" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.onnx = self.folder / f"{name}.onnx"
        self.input = self.folder / "input.npy"
        self.floats = self.folder / "input.f32"
        self.mnn = self.folder / f"{name}.mnn"
        self.ncnn = self.folder / f"{name}.ncnn"
        self.missing = {}
        self.export()
        self.plan(threads, costs)
        self.make_input()
        if budgets is None:
            return
        self.plan_budgets(costs, warm_profile, budgets)
        self.convert("ncnn", self.to_ncnn, self.ncnn.with_suffix(".ncnn.bin"))
        self.convert("mnn", self.to_mnn, self.mnn)

    def export(self):
        """Writes the model, and drops what was converted from another one of that name."""
        part = self.onnx.with_suffix(".part.onnx")
        call([self.eyelet, "zoo", self.name, "-o", part])
        if not self.onnx.exists() or not filecmp.cmp(part, self.onnx, shallow=False):
            for stale in (self.mnn, self.ncnn.with_suffix(".ncnn.bin"), self.input):
                stale.unlink(missing_ok=True)
            part.replace(self.onnx)
        part.unlink(missing_ok=True)

    def plan(self, threads, costs):
        """Plans for all weights."""
        self.parameters = self.parameter_bytes()
        for stale in self.folder.glob("*.pack"):
            stale.unlink()
        self.command = [self.eyelet, "plan", self.onnx, "--threads", threads, "--json"]
        # Winograd's algorithms take up to four times the bytes of weights.
        self.everything = self.parameters * 4 + ROOM
        report = self.pack_for(self.everything, self.pack(self.everything), costs)
        self.weights_bytes = report["weights_bytes"]
        self.winograd_layers = report["winograd_layers"]
        self.isa = report["isa"]
        self.estimated = report["estimated"]
        (port,) = report["inputs"]
        self.shape = port["shape"]
        (kept,) = report["plans"]
        self.activation_bytes = kept["peak_activation_bytes"]
        self.arena_bytes = kept["arena_bytes"]
        if kept["bytes_read_per_inference"]:
            raise Failed(f"a budget of {self.everything} bytes does not keep all weights of {self.name}")

    def plan_budgets(self, costs, warm_profile, budgets):
        """Plans for an eighth of the weights (or the least that is possible) in the page cache, and the budgets."""
        self.eighth = self.feasible(self.parameters // 8, self.warm_pack, ["--profile", warm_profile])
        self.least = self.least_budget(costs) if self.name in BUSY else None
        self.budgets = sorted(b for b in budgets if self.feasible(b, self.pack(b), costs) == b)

    def pack(self, budget):
        """The pack for a budget."""
        return self.folder / f"{self.name}-{budget}.pack"

    @property
    def warm_pack(self):
        """The pack for an eighth of the weights, to be read from the page cache."""
        return self.folder / f"{self.name}-eighth.pack"

    def pack_for(self, budget, pack, costs):
        """Writes a pack for a budget."""
        report = json.loads(call([*self.command, *costs, "--budget", budget, "-o", pack]))
        # Direct reading would not be what it is with a copy left in the page cache, and a pack written back
        # during a measurement would disturb it.
        call(["sync", pack])
        return report

    def feasible(self, budget, pack, costs):
        """Writes a pack for a budget or, if that cannot be met, for the least that can, which it returns."""
        try:
            self.pack_for(budget, pack, costs)
            return budget
        except Failed as failed:
            least = re.search(r"smallest feasible one is [^(]*\((\d+) bytes\)", str(failed))
            if not least:
                raise
        self.pack_for(int(least[1]), pack, costs)
        return int(least[1])

    def least_budget(self, costs):
        """Writes a pack for the least budget that is possible."""
        part = self.folder / f"{self.name}-least.pack"
        least = self.feasible(1, part, costs)
        part.replace(self.pack(least))
        return least

    def parameter_bytes(self):
        """Bytes of the weights in the model as 32-bit floats: the file but for its structure."""
        return self.onnx.stat().st_size

    def make_input(self):
        """As an array, and as nothing but 32-bit floats, which eyelet reads."""
        if not self.input.exists():
            random = numpy.random.default_rng(zlib.crc32(self.name.encode()))
            if self.name in VOCABULARY:
                numpy.save(self.input, random.integers(VOCABULARY[self.name], size=self.shape))
            else:
                numpy.save(self.input, random.standard_normal(self.shape, dtype=numpy.float32))
        numpy.load(self.input).astype(numpy.float32).tofile(self.floats)

    def convert(self, engine, convert, result):
        if result.exists():
            return
        try:
            convert()
        except Failed as failed:
            self.missing[engine] = f"conversion: {failed}"

    def to_ncnn(self):
        """With pnnx, at full precision, in a folder of its own: it leaves much beside its result."""
        import importlib.util

        package = importlib.util.find_spec("pnnx")
        if package is None:
            raise Failed("pnnx is not installed")
        scratch = self.folder / "pnnx"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        model = scratch / "model.onnx"
        model.symlink_to(self.onnx)
        shape = ",".join(map(str, self.shape))
        kind = "i64" if self.name in VOCABULARY else "f32"
        # The package's own entry asks for PyTorch; the program in it does without.
        program = f"{package.submodule_search_locations[0]}/pnnx"
        call([program, "model.onnx", f"inputshape=[{shape}]{kind}", "fp16=0"], cwd=scratch)
        for suffix in (".param", ".bin"):
            made = scratch / f"model.ncnn{suffix}"
            if not made.exists():
                raise Failed(f"pnnx wrote no {made.name}")
            made.replace(f"{self.ncnn}{suffix}")
        shutil.rmtree(scratch)

    def to_mnn(self):
        part = self.mnn.with_suffix(".part.mnn")
        call([sys.executable, "-c", MNN_CONVERT, self.onnx, part])
        if not part.exists():
            raise Failed("the converter wrote nothing")
        part.replace(self.mnn)
