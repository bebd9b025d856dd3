"""Where eyelet's time goes: by operator, its share of the time and of the peak of fused multiply-adds.

The peak is measured on one core (`cargo bench --bench kernels`) before and after each network; the higher of the two
counts, since what disturbs a machine only slows it.
"""

import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import ROOT, Failed, call  # noqa: E402

# Inferences, of which each layer's median counts.
RUNS = 20
# Below this share of the time an operator is one of the others.
LEAST = 0.01


@dataclass
class Share:
    """All layers of one operator in one network, on one thread."""

    operator: str
    layers: int
    ms: float
    macs: int
    share: float
    peak: float

    @property
    def gflops(self):
        return 2 * self.macs / self.ms / 1e6

    @property
    def of_peak(self):
        return self.gflops / self.peak


def peak_gflops():
    """Of one core, in billions of operations a second."""
    # No layer has this name: the peak alone is printed.
    printed = call(["cargo", "bench", "--quiet", "--bench", "kernels", "--", "peak"], cwd=ROOT)
    found = re.search(r"peak (\d+) GFLOP/s", printed)
    if not found:
        raise Failed(f"the kernels' bench printed no peak: {printed.strip()[-200:]}")
    return float(found[1])


def shares(eyelet, network):
    """The operators of a network with all its weights resident, those that take most time first."""
    before = peak_gflops()
    command = [eyelet, "run", network.pack(network.everything), "--threads", 1, "--runs", RUNS, "--layers", "--json"]
    layers = json.loads(call(command))["layers"]
    peak = max(before, peak_gflops())
    whole = sum(layer["compute_ms"]["median"] for layer in layers)

    found = defaultdict(list)
    for layer in layers:
        found[layer["op"]].append(layer)
    ms = {op: sum(layer["compute_ms"]["median"] for layer in of) for op, of in found.items()}
    rest = [op for op in found if ms[op] < LEAST * whole]
    found["others"] = [layer for op in rest for layer in found.pop(op)]
    ms["others"] = sum(ms.pop(op) for op in rest)
    return sorted(
        (
            Share(op, len(of), ms[op], sum(layer["macs"] for layer in of), ms[op] / whole, peak)
            for op, of in found.items()
            if of
        ),
        key=lambda share: (share.operator == "others", -share.ms),
    )
