"""The machine as it is at the moment: measured with the costs that plans are made with, and probed beside every run.

Where a machine's processors and disk are not its own, neighbours slow them down for seconds or minutes. No plan can know of that, and a
median of few rounds does not forget it. So a probe runs between the plans: a network whose layers are each loaded when their turn
comes, and then computed, so that its stalls tell of the storage and the rest of the processor. What ran beside a probe that took
longer than those of undisturbed moments is run again.
"""

import collections
import json
import statistics
import time
import tomllib

from common import MIB, call

NETWORK = "mobilenet_v2"
BUDGET = 8 * MIB
RUNS = 8

# Undisturbed is what the fastest eighth of so many probes, the last ones, take; and how much longer one may compute, and
# wait for reads.
PROBES = 80
FIRST = 16
LONGER = (0.10, 0.25)

# How often a turn is taken, at most, and a profile; and how often the machine is looked at while it is disturbed.
TRIES = 6
PROFILES = 3
PAUSE_SECONDS = 0.5

# For so long a probe tells of the machine.
FRESH_SECONDS = 0.3


class Machine:
    def __init__(self, eyelet, work, threads, patience, log):
        self.eyelet, self.work, self.threads, self.log = eyelet, work, threads, log
        self.pack = work / "probe.pack"
        self.profiles, self.profile_seconds, self.costs = {}, {}, []
        self.probes = {}
        # Seconds for which the bench may yet wait for the machine.
        self.patience = patience
        # Turns, those among them that were taken again, and those that were disturbed nevertheless.
        self.turns, self.again, self.disturbed = 0, 0, 0
        self.last = None, False, 0.0

    def __enter__(self):
        onnx = self.work / f"{NETWORK}.onnx"
        if not onnx.exists():
            call([self.eyelet, "zoo", NETWORK, "-o", onnx])
        command = [self.eyelet, "plan", onnx, "--budget", BUDGET, "--threads", self.threads, "--json"]
        call([*command, "--strategy", "on-demand", "-o", self.pack])
        call(["sync", self.pack])
        return self

    def __exit__(self, *_):
        self.pack.unlink(missing_ok=True)

    def probe(self, io):
        """Milliseconds of computing and of waiting for reads."""
        command = [self.eyelet, "run", self.pack, "--io", io, "--threads", self.threads, "--json"]
        report = json.loads(call([*command, "--warmup", 1, "--runs", RUNS]))
        found = report["compute_ms"], report["stall_ms"]
        self.probes.setdefault(io, collections.deque(maxlen=PROBES)).append(found)
        return found

    def is_undisturbed(self, io):
        """Whether a probe takes what it takes in undisturbed moments."""
        while len(self.probes.get(io, ())) < FIRST:
            self.probe(io)
        found = self.probe(io)
        least = [statistics.quantiles(each, n=8)[0] for each in zip(*self.probes[io])]
        good = all(now <= (1 + longer) * of for now, of, longer in zip(found, least, LONGER))
        self.last = io, good, time.monotonic()
        return good

    def wait(self, io):
        """Until the machine is undisturbed, or nobody waits any longer. What was seen just now counts."""
        seen, good, when = self.last
        good = good if seen == io and time.monotonic() < when + FRESH_SECONDS else self.is_undisturbed(io)
        while not good and self.patience > 0:
            start = time.monotonic()
            time.sleep(PAUSE_SECONDS)
            good = self.is_undisturbed(io)
            self.patience -= time.monotonic() - start
        return good

    def profile(self, network, io):
        """Measures what plans are made with."""
        path = self.work / f"{io}.toml"
        command = [self.eyelet, "profile", "--io", io, "--threads", self.threads, "--dir", self.work]

        def measure():
            start = time.monotonic()
            call([*command, "-o", path])
            self.profile_seconds[io] = time.monotonic() - start

        self.beside(io, measure, PROFILES)
        self.profiles[io] = path
        self.costs.append((network, io, tomllib.loads(path.read_text())))

    def undisturbed(self, io, turn):
        """What a turn returns, taken between two probes of undisturbed moments, if that can be had; and whether it was."""
        result, tries, good = self.beside(io, turn, TRIES)
        self.turns += 1
        self.again += tries > 1
        self.disturbed += not good
        return result, good

    def beside(self, io, turn, tries):
        """What the last of so many tries returns, which try it was, and whether it was undisturbed."""
        for attempt in range(1, tries + 1):
            before = self.wait(io)
            start = time.monotonic()
            result = turn()
            if self.is_undisturbed(io) and before:
                return result, attempt, True
            self.patience -= time.monotonic() - start
            if self.patience <= 0:
                break
        return result, attempt, False
