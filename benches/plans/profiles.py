"""The costs that plans are made with: the machine, measured once for each way of reading."""

import json
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from common import call
from settings import IO, PROFILED, PROFILES


@dataclass
class Profile:
    """One measurement of the machine."""

    io: str
    path: Path
    # What it took, and what it predicts.
    seconds: float
    predicted_ms: float
    chosen: bool = False

    @property
    def costs(self):
        return tomllib.loads(self.path.read_text())


def measure(eyelet, work, threads, log):
    """All measurements. Others may have the machine's processors, its memory or its disk while it is measured: so it is measured several
    times, and the lower quartile counts, as it does of the turns of a plan."""
    network, budget = PROFILED
    onnx, pack = model(eyelet, work, network), work / "profile.pack"
    found = []
    for attempt in range(PROFILES):
        for io in IO:
            log(f"profile, {io}, {attempt + 1} of {PROFILES}")
            path = work / f"{io}-{attempt}.toml"
            start = time.monotonic()
            call([eyelet, "profile", "--io", io, "--threads", threads, "--dir", work, "-o", path])
            seconds = time.monotonic() - start
            plan = [eyelet, "plan", onnx, "--budget", budget, "--threads", threads, "--profile", path, "--json", "-o", pack]
            predicted_ms = json.loads(call(plan))["plans"][0]["predicted_ms"]
            found.append(Profile(io, path, seconds, predicted_ms))
    pack.unlink()
    for io in IO:
        ranked = sorted((one for one in found if one.io == io), key=lambda one: one.predicted_ms)
        ranked[len(ranked) // 4].chosen = True
    return found


def model(eyelet, work, network):
    """The network's file, made where it is missing."""
    onnx = work / f"{network}.onnx"
    if not onnx.exists():
        call([eyelet, "zoo", network, "-o", onnx])
    return onnx
