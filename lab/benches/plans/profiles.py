"""The machine, as it is measured: for planning before all else, and again before and behind the turns of each network."""

import json
import statistics
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from common import call
from settings import IO, PROFILE_TRIES, PROFILED, PROFILES, QUIET


@dataclass
class Profile:
    """One measurement of the machine."""

    io: str
    path: Path
    # Before or during which network's turns, and how long it took.
    when: str
    seconds: float
    # Whether others disturbed it, as far as is known when it is used.
    disturbed: bool = False
    # What is planned with: what each predicts for one plan tells which that is.
    predicted_ms: float | None = None
    chosen: bool = False

    @property
    def costs(self):
        return tomllib.loads(self.path.read_text())

    @property
    def rates(self):
        """The speed probe's rate, and that of 1x1 convolutions, in billions of operations a second."""
        compute = self.costs["compute"]
        return compute["speed_probe_gflops"], compute["conv_1x1_gflops"]


class Fastest:
    """The highest rates of all profiles so far: the machine's, where nothing disturbs it."""

    def __init__(self):
        self.probe = self.conv = 0

    def saw(self, rates):
        self.probe, self.conv = max(self.probe, rates[0]), max(self.conv, rates[1])

    def undisturbed(self, rates):
        return rates[0] >= QUIET * self.probe and rates[1] >= QUIET * self.conv

    def judge(self, profiles):
        """Says of profiles, by what is known now, whether they were disturbed."""
        for profile in profiles:
            profile.disturbed = not self.undisturbed(profile.rates)


def first_undisturbed(attempt, fastest):
    """What `attempt` measures with a number from 1 on: the first that is not disturbed; of those that all are, the one in which the speed probe was fastest."""
    found = []
    for number in range(1, PROFILE_TRIES + 1):
        profile = attempt(number)
        fastest.saw(profile.rates)
        if fastest.undisturbed(profile.rates):
            return profile
        found.append(profile)
    return max(found, key=lambda profile: profile.rates[0])


def measure(eyelet, work, threads, io, when, fastest):
    """One measurement, made again where others disturbed it."""

    def attempt(number):
        path = work / f"{when.replace(' ', '-')}-{io}-{number}.toml"
        start = time.monotonic()
        call([eyelet, "profile", "--io", io, "--threads", threads, "--dir", work, "-o", path])
        return Profile(io, path, when, time.monotonic() - start)

    return first_undisturbed(attempt, fastest)


def for_planning(eyelet, work, threads, fastest, log):
    """Others may have the machine's processors, its memory or its disk while it is measured: so it is measured several times, and of
    the undisturbed ones, of all where there are none, the one is taken that is in the middle."""
    network, budget = PROFILED
    onnx, pack = model(eyelet, work, network), work / "profile.pack"
    found = []
    for attempt in range(PROFILES):
        for io in IO:
            log(f"profile, {io}, {attempt + 1} of {PROFILES}")
            profile = measure(eyelet, work, threads, io, f"before {attempt + 1}", fastest)
            plan = [eyelet, "plan", onnx, "--budget", budget, "--threads", threads, "--profile", profile.path, "--json", "-o", pack]
            profile.predicted_ms = json.loads(call(plan))["plans"][0]["predicted_ms"]
            found.append(profile)
    pack.unlink()
    fastest.judge(found)
    for io in IO:
        middle([profile for profile in found if profile.io == io]).chosen = True
    return found


def middle(profiles):
    """By what they predict, of the undisturbed ones; of all, where there are none."""
    kept = [profile for profile in profiles if not profile.disturbed] or profiles
    predicted = statistics.median_low(profile.predicted_ms for profile in kept)
    return next(profile for profile in kept if profile.predicted_ms == predicted)


def model(eyelet, work, network):
    """The network's file, made where it is missing."""
    onnx = work / f"{network}.onnx"
    if not onnx.exists():
        call([eyelet, "zoo", network, "-o", onnx])
    return onnx
