"""Runs everything in turns: each engine in a process of its own, once in every round.

What disturbs a machine lasts for seconds; taking turns spreads it over all engines. The order starts
with another engine in each round.
"""

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import MIB, Failed, call  # noqa: E402
from settings import RUN_SECONDS, TOLERANCE  # noqa: E402

PYTHON_PEERS = ["onnxruntime", "openvino", "ncnn", "mnn"]
RUST_PEERS = ["tract", "rten"]
PEERS = PYTHON_PEERS + RUST_PEERS
REFERENCE = "onnxruntime"

# Ways in which eyelet runs; those by budget are `Way.at`.
RESIDENT = "eyelet"
EIGHTH = "eyelet, 1/8 of the weights"


@dataclass(frozen=True)
class Way:
    """A way in which eyelet runs."""

    name: str
    pack: Path
    io: str
    verify: bool = True

    @staticmethod
    def name_at(budget, verify=True):
        """Within a budget, weights read past the page cache."""
        return f"eyelet, {budget / MIB:g} MiB" + ("" if verify else ", no checksums")

    @staticmethod
    def at(network, budget, verify=True):
        return Way(Way.name_at(budget, verify), network.pack(budget), "direct", verify)


@dataclass
class Result:
    """What an engine showed for a network and a number of threads."""

    rounds: list = field(default_factory=list)
    reports: list = field(default_factory=list)
    failure: str | None = None
    error: float | None = None

    @property
    def ms(self):
        """The median of the rounds' medians: a round that was disturbed is one of several."""
        return statistics.median(self.rounds) if self.rounds else None

    def peak(self, key="peak_rss_bytes"):
        known = (report[key] for report in self.reports if report[key] is not None)
        return max(known, default=None)

    def median(self, key):
        return statistics.median(report[key] for report in self.reports)

    @property
    def least_ms(self):
        """The fastest inference of all rounds: what the machine allows while nothing disturbs it."""
        return min(report["latency_ms"]["min"] for report in self.reports)

    @property
    def quartiles(self):
        """Of the rounds' medians."""
        return statistics.quantiles(self.rounds, n=4, method="inclusive") if len(self.rounds) > 1 else self.rounds * 3

    @property
    def ok(self):
        return bool(self.rounds) and self.failure is None and not self.disagrees

    @property
    def disagrees(self):
        return self.error is not None and not self.error <= TOLERANCE


def other_seconds():
    """Seconds of processor time of this machine, its hypervisor's theft included, but for what this process
    and its children used."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])


def output_file(network, engine, threads):
    plain = "".join(letter if letter.isalnum() else "_" for letter in engine)
    return network.folder / f"{plain}-{threads}.f32"


class Bench:
    peers = PEERS

    def __init__(self, networks, threads, rounds, seconds, work, versions, log):
        self.networks, self.threads, self.rounds, self.seconds = networks, threads, rounds, seconds
        self.work, self.versions, self.log = work, versions, log
        # The leanest program: `examples/c/run.c`.
        self.runner = work / "c" / "run"
        self.results = {}
        self.checksums = self.choose_checksums()

    def choose_checksums(self):
        """The network and budget at which checksums cost most: where most is read for the memory given."""
        pairs = [(n, b) for n in self.networks for b in n.budgets]
        if not pairs:
            return None
        network, budget = max(pairs, key=lambda pair: pair[0].parameters / pair[1])
        return network.name, budget

    def ways(self, network):
        ways = [
            Way(RESIDENT, network.pack(network.everything), "direct"),
            Way(EIGHTH, network.warm_pack, "buffered"),
        ]
        for budget in network.budgets:
            ways.append(Way.at(network, budget))
            if (network.name, budget) == self.checksums:
                ways.append(Way.at(network, budget, verify=False))
        return ways

    def run(self):
        start, busy = time.monotonic(), other_seconds()
        for number in range(self.rounds):
            for network in self.networks:
                for threads in self.threads:
                    self.turn(number, network, threads)
        # How far the figures are to be trusted: others' work on these cores while this ran.
        self.other_cores = (other_seconds() - busy) / (time.monotonic() - start)
        self.compare()

    def turn(self, number, network, threads):
        """One round of one network at one number of threads."""
        engines = [peer for peer in self.peers if peer not in network.missing]
        engines += self.ways(network)
        first = number % len(engines)
        runs, warmup = self.counts(network, threads)
        for engine in engines[first:] + engines[:first]:
            name = engine.name if isinstance(engine, Way) else engine
            result = self.results.setdefault((network.name, threads, name), Result())
            if result.failure:
                continue
            self.log(f"round {number + 1} of {self.rounds}: {network.name}, threads {threads}, {name}")
            output = output_file(network, name, threads)
            try:
                if isinstance(engine, Way):
                    report = self.run_eyelet(network, engine, threads, warmup, runs, output)
                else:
                    report = self.run_peer(network, engine, threads, warmup, runs, output)
            except Failed as failed:
                result.failure = str(failed)
                self.log(f"  {name} failed: {failed}")
                continue
            result.rounds.append(report["latency_ms"]["median"])
            result.reports.append(report)

    def counts(self, network, threads):
        """Inferences to measure, and before those: for about as many seconds for each engine as were
        asked, judged by eyelet itself."""
        if not hasattr(network, "pace_ms"):
            command = [self.runner, network.pack(network.everything), "--runs", 3, "--threads", 1]
            network.pace_ms = json.loads(call(command))["latency_ms"]["min"]
        runs = round(self.seconds * 1e3 * threads / network.pace_ms)
        runs = min(max(runs, 5), 500)
        return runs, max(2, runs // 5)

    def run_eyelet(self, network, way, threads, warmup, runs, output):
        command = [self.runner, way.pack, "--input", network.floats, "--output", output]
        command += ["--io", way.io, "--threads", threads, "--warmup", warmup, "--runs", runs]
        if way.name == RESIDENT and threads == len(os.sched_getaffinity(0)):
            # Each thread has a core, and there is no loader beside them that needs one.
            command.append("--pin")
        command += [] if way.verify else ["--no-verify"]
        return json.loads(call(command, RUN_SECONDS))

    def run_peer(self, network, peer, threads, warmup, runs, output, *more):
        model = {"ncnn": network.ncnn, "mnn": network.mnn}.get(peer, network.onnx)
        if peer in RUST_PEERS:
            program = self.work / "rust" / "release" / f"peer-{peer}"
            if not program.exists():
                raise Failed("is not installed")
            command = [program]
        else:
            if not self.versions.get(peer):
                raise Failed("is not installed")
            command = [sys.executable, Path(__file__).with_name("peer.py"), peer]
        command += [model, network.input, output, threads, warmup, runs, *more]
        printed = call(command, RUN_SECONDS)
        try:
            report = json.loads(printed.strip().splitlines()[-1])
            samples = report.pop("samples_ms")
        except (IndexError, KeyError, ValueError) as error:
            raise Failed(f"printed no report: {printed.strip()[-200:]}") from error
        report["latency_ms"] = {
            "min": min(samples),
            "median": statistics.median(samples),
            "max": max(samples),
        }
        return report

    def compare(self):
        """How far outputs are from the reference's, relative to its largest magnitude."""
        for (name, threads, engine), result in self.results.items():
            network = next(network for network in self.networks if network.name == name)
            reference = self.results.get((name, threads, REFERENCE))
            if result.failure or reference is None or reference.failure:
                continue
            expected, found = (
                numpy.fromfile(output_file(network, of, threads), numpy.float32)
                for of in (REFERENCE, engine)
            )
            if found.shape != expected.shape:
                result.failure = f"gives {found.size} values, {REFERENCE} {expected.size}"
                continue
            # Not a number, if anywhere, makes this not a number, which is no agreement.
            result.error = float(abs(found - expected).max() / abs(expected).max())
