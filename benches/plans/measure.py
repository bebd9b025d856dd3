"""Plans every network by every strategy for some budgets, and runs the packs in turns."""

import json
import math
import re
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import MIB, Failed, call  # noqa: E402
from machine import Machine  # noqa: E402
from settings import ABLATION, ABLATION_PLACE, CLOSE, IO, JOINT, MORE, PLACES, STRATEGIES  # noqa: E402

# Every inference is counted, but the first few; of slow ones fewer are needed, and fewer there are.
WARMUP = 2
SLOW_MS = 100
TENTH = MIB / 10
RUNS = range(3, 300)


@dataclass
class Measured:
    """One plan, as it was predicted and as it ran."""

    network: str
    budget: int
    io: str
    name: str
    predicted_ms: float
    bound_ms: float
    report: dict
    samples: list = field(default_factory=list)
    # Of each whether it was taken between probes of undisturbed moments.
    undisturbed: list = field(default_factory=list)
    stalls: list = field(default_factory=list)

    @property
    def ms(self):
        """The median of the undisturbed rounds; the fastest of all where each was disturbed: others only add time."""
        good = [ms for ms, good in zip(self.samples, self.undisturbed) if good]
        return statistics.median(good or [min(self.samples)])

    @property
    def spread(self):
        """How far apart the rounds are, of their median: what no prediction can hit."""
        return (max(self.samples) - min(self.samples)) / self.ms


@dataclass
class Overhead:
    """What it costs to have a pack."""

    network: str
    model_bytes: int
    pack_bytes: int
    least: int
    least_flexnn: int
    import_ms: float
    writing_ms: float


class Bench:
    def __init__(self, eyelet, work, networks, threads, rounds, seconds, patience, effort, log):
        self.eyelet, self.work, self.networks, self.threads = eyelet, work, networks, threads
        self.rounds, self.seconds, self.log = rounds, seconds, log
        self.effort = ["--effort", effort] if effort else []
        self.plans, self.ablation, self.overheads, self.infeasible = [], [], [], []
        self.machine = Machine(eyelet, work, threads, patience, log)

    def run(self):
        with self.machine:
            self.networks_in_turn()

    def networks_in_turn(self):
        for name in self.networks:
            onnx = self.work / f"{name}.onnx"
            if not onnx.exists():
                call([self.eyelet, "zoo", name, "-o", onnx])
            # A machine that is not one's own is not the same all day, its storage least of all.
            for io in IO:
                self.log(f"{name}, profile, {io}")
                self.machine.profile(name, io)
            budgets, of_ablation = self.budgets(name, onnx)
            for budget in budgets:
                for io in IO:
                    self.log(f"{name}, {budget / MIB:.1f} MiB, {io}")
                    self.plans += self.compare(name, onnx, budget, io, STRATEGIES)
            self.log(f"{name}, {of_ablation / MIB:.1f} MiB, ablation")
            self.ablation += self.compare(name, onnx, of_ablation, "direct", ABLATION)

    def budgets(self, name, onnx):
        """From the smallest budget that is feasible with the costs of every way to read, to what all weights and activations take;
        and, from what FlexNN needs at least, the one for its ablation."""
        common = [self.eyelet, "plan", onnx, "--threads", self.threads, "--json"]

        def smallest(strategy):
            command = [*common, "--strategy", strategy, "--min-budget", "--profile"]
            return max(json.loads(call([*command, self.machine.profiles[io]]))["min_budget_bytes"] for io in IO)

        least, least_flexnn = smallest("joint"), smallest("flexnn")
        # Winograd's weights take up to four times the bytes.
        huge = onnx.stat().st_size * 4 + 256 * MIB
        pack = self.work / "whole.pack"
        costs = ["--profile", self.machine.profiles["buffered"]]
        report = json.loads(call([*common, *costs, "--budget", huge, "-o", pack, *self.effort]))
        self.overheads.append(
            Overhead(
                name,
                onnx.stat().st_size,
                report["file_bytes"],
                least,
                least_flexnn,
                report["import_ms"],
                report["write_ms"],
            )
        )
        pack.unlink()
        most = report["plans"][0]["arena_bytes"]

        def between(least, place):
            # As one would ask for it, and as the tables write it: tenths of a MiB.
            return int(math.ceil(least * (most / least) ** place / TENTH) * TENTH)

        return [between(least, place) for place in PLACES], between(least_flexnn, ABLATION_PLACE)

    def compare(self, network, onnx, budget, io, strategies):
        """Plans by each strategy, runs them in turns."""
        measured = []
        for name, options in strategies.items():
            pack = self.work / f"{len(measured)}.pack"
            command = [self.eyelet, "plan", onnx, "--budget", budget, "--threads", self.threads]
            command += ["--profile", self.machine.profiles[io], "--json", "-o", pack, *options]
            command += self.effort if options[1] == "joint" else []
            try:
                report = json.loads(call(command))
            except Failed as failed:
                if not re.search(r"smallest feasible one is", str(failed)):
                    raise
                self.infeasible.append((network, budget, io, name))
                continue
            call(["sync", pack])
            (plan,) = report["plans"]
            measured.append(
                Measured(network, budget, io, name, plan["predicted_ms"], plan["lower_bound_ms"], report)
            )
        self.turns(measured, range(self.rounds))
        # Of what shall be about as fast nothing is known before each has had an undisturbed turn.
        close = self.close(measured)
        for number in range(self.rounds, MORE * self.rounds):
            if all(any(plan.undisturbed) for plan in close):
                break
            self.turns(measured, [number], close)
        for index in range(len(measured)):
            (self.work / f"{index}.pack").unlink()
        return measured

    def close(self, measured):
        """`joint`'s plan and those that are predicted to be about as fast."""
        joint = next((plan for plan in measured if plan.name == JOINT), None)
        return [plan for plan in measured if joint and abs(plan.predicted_ms / joint.predicted_ms - 1) <= CLOSE]

    def turns(self, measured, numbers, taking=None):
        """Each plan's turn in each of these rounds, or that of those which take one."""
        for number in numbers:
            for turn in range(len(measured)):
                index = (number + turn) % len(measured)
                if taking is None or any(measured[index] is plan for plan in taking):
                    self.turn(measured[index], self.work / f"{index}.pack")

    def turn(self, plan, pack):
        runs = round(self.seconds * 1e3 / max(plan.predicted_ms, 0.5))
        runs = min(max(runs, RUNS.start), RUNS.stop)
        warmup = WARMUP if plan.predicted_ms < SLOW_MS else 1
        command = [self.eyelet, "run", pack, "--io", plan.io, "--threads", self.threads, "--json"]
        command += ["--warmup", warmup, "--runs", runs]
        report, good = self.machine.undisturbed(plan.io, lambda: json.loads(call(command)))
        plan.samples.append(report["latency_ms"]["median"])
        plan.undisturbed.append(good)
        plan.stalls.append(report["stall_ms"])
