"""The machine, as it is measured: for planning before all else, and again between the turns of each network."""

import json
import statistics
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
    # Before or during which network's turns, and how long it took.
    when: str
    seconds: float
    # What is planned with: what each predicts for one plan tells which that is.
    predicted_ms: float | None = None
    chosen: bool = False

    @property
    def costs(self):
        return tomllib.loads(self.path.read_text())


def measure(eyelet, work, threads, io, when):
    """One measurement."""
    path = work / f"{when.replace(' ', '-')}-{io}.toml"
    start = time.monotonic()
    call([eyelet, "profile", "--io", io, "--threads", threads, "--dir", work, "-o", path])
    return Profile(io, path, when, time.monotonic() - start)


def for_planning(eyelet, work, threads, log):
    """Others may have the machine's processors, its memory or its disk while it is measured: so it is measured several times, and the one
    is taken that is in the middle."""
    network, budget = PROFILED
    onnx, pack = model(eyelet, work, network), work / "profile.pack"
    found = []
    for attempt in range(PROFILES):
        for io in IO:
            log(f"profile, {io}, {attempt + 1} of {PROFILES}")
            profile = measure(eyelet, work, threads, io, f"before {attempt + 1}")
            plan = [eyelet, "plan", onnx, "--budget", budget, "--threads", threads, "--profile", profile.path, "--json", "-o", pack]
            profile.predicted_ms = json.loads(call(plan))["plans"][0]["predicted_ms"]
            found.append(profile)
    pack.unlink()
    for io in IO:
        measured = [profile for profile in found if profile.io == io]
        middle = statistics.median_low([profile.predicted_ms for profile in measured])
        next(profile for profile in measured if profile.predicted_ms == middle).chosen = True
    return found


def model(eyelet, work, network):
    """The network's file, made where it is missing."""
    onnx = work / f"{network}.onnx"
    if not onnx.exists():
        call([eyelet, "zoo", network, "-o", onnx])
    return onnx
