"""The machine as it is at the moment: measured with the costs that plans are made with, and probed beside every run.

Where a machine's processors and disk are not its own, neighbours slow them down for seconds or minutes. No plan can know of that, and a
median of few rounds does not forget it. So a probe runs between the plans: a network whose layers are each loaded when their turn
comes, and then computed, so that its stalls tell of the storage and the rest of the processor. What ran beside a probe that took
longer, or less long, than those beside the profile is run again; where that does not help for several plans, the next ones are made with another profile.
"""

import json
import statistics
import time
import tomllib

from common import MIB, call

NETWORK = "mobilenet_v2"
BUDGET = 8 * MIB
RUNS = 8

# How far from the usual a probe may be, and how often that is waited for, for so long.
APART = 0.10
TRIES = 8
PAUSE_SECONDS = 0.5

# After so many turns in a row for which that did not help, it is another machine.
STALE = 4

# For so long a probe tells of the machine.
FRESH_SECONDS = 0.3

# A profile is taken again if the probes before it and behind it are further apart.
PROFILES = 3


class Machine:
    def __init__(self, eyelet, work, threads, log):
        self.eyelet, self.work, self.threads, self.log = eyelet, work, threads, log
        self.pack = work / "probe.pack"
        self.profiles, self.profile_seconds, self.costs = {}, {}, []
        self.usual, self.stale = {}, set()
        # Turns, those among them that were taken again, and those that are none the better for it.
        self.turns, self.again, self.disturbed = 0, 0, 0
        self.in_a_row, self.last = 0, (None, False, 0.0)

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
        return report["compute_ms"], report["stall_ms"]

    def profile(self, network, io):
        """Measures what plans are made with."""
        path = self.work / f"{io}.toml"
        command = [self.eyelet, "profile", "--io", io, "--threads", self.threads, "--dir", self.work]
        for left in reversed(range(PROFILES)):
            before = self.probes(io)
            start = time.monotonic()
            call([*command, "-o", path])
            self.profile_seconds[io] = time.monotonic() - start
            after = self.probes(io)
            if apart(before, after) <= APART or not left:
                break
            self.log(f"{network}, profile, {io}, again")
        self.stale.discard(io)
        self.in_a_row = 0
        self.usual[io] = tuple(statistics.mean(each) for each in zip(before, after))
        self.profiles[io] = path
        self.costs.append((network, io, tomllib.loads(path.read_text())))

    def probes(self, io):
        """The median of some, which a moment does not disturb."""
        return tuple(statistics.median(each) for each in zip(*(self.probe(io) for _ in range(5))))

    def is_usual(self, io):
        """Whether the machine is as it was when it was measured."""
        usual = apart(self.probe(io), self.usual[io]) <= APART
        self.last = io, usual, time.monotonic()
        return usual

    def was_usual(self, io):
        """The same, by what ran behind the turn before, if that was just now."""
        last, usual, when = self.last
        return usual if last == io and time.monotonic() < when + FRESH_SECONDS else self.is_usual(io)

    def undisturbed(self, io, turn):
        """What a turn returns, taken beside two probes that are as usual, if that can be had."""
        self.turns += 1
        before = self.was_usual(io)
        for attempt in range(TRIES):
            # Where nothing is as usual, nothing is worth a turn; but some turn must be taken.
            if before or attempt + 1 == TRIES:
                result = turn()
                after = self.is_usual(io)
                if before and after:
                    self.in_a_row = 0
                    return result
                before = after
            else:
                time.sleep(PAUSE_SECONDS)
                before = self.is_usual(io)
            self.again += attempt == 0
        self.disturbed += 1
        self.in_a_row += 1
        if self.in_a_row >= STALE:
            self.stale.add(io)
        return result


def apart(probe, other):
    """How far two probes are from each other, in computing or in waiting."""
    return max(abs(a - b) / max(min(a, b), 1e-3) for a, b in zip(probe, other))
