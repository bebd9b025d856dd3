"""Plans every network by every strategy for some budgets, and runs the packs in turns.

Where a machine's processors and disk are not its own, neighbours change how fast they are for seconds or minutes, and no plan can know of that.
So all plans of a network take turns, round after round, which spreads those of one plan over minutes, and the machine is measured anew
every other round. Of a plan's turns the median counts. It is compared by turns that follow each other with other plans, and with what
the costs say that were measured before and behind: quotients are the medians of those of all rounds. `joint` has two turns in a round, whose quotient
tells what that is worth.

What takes seconds is over before the machine is measured again. So a small convolution, the *gauge*, is timed between all inferences, as it is in
each profile. Latencies times its rate beside them are what the processor could have done meanwhile: by these, too, plans are compared with
each other and with the costs. That changes no other figure, but stands beside them.
"""

import json
import math
import os
import re
import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from common import MIB, Failed, call
from profiles import for_planning, measure, model
from settings import ABLATION, ABLATION_PLACE, EVERY, IO, JOINT, PLACES, STRATEGIES

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
    # When it was planned.
    planned_ms: float
    report: dict
    pack: Path
    # Of each turn the median: milliseconds, and what the gauge could have done meanwhile, in billions of operations.
    samples: list = field(default_factory=list)
    work: list = field(default_factory=list)
    # Of `joint` those of a second one in each round.
    again: list = field(default_factory=list)
    work_again: list = field(default_factory=list)
    # The gauge's rate in each turn, in billions of operations a second,
    rates: list = field(default_factory=list)
    stalls: list = field(default_factory=list)
    # What the machine, as it was measured before and behind each round, is predicted to take, the bound, and the gauge's rate.
    predicted: list = field(default_factory=list)
    bounds: list = field(default_factory=list)
    rated: list = field(default_factory=list)

    @property
    def ms(self):
        return statistics.median(self.samples + self.again)

    @property
    def predicted_ms(self):
        return statistics.median(self.predicted)

    @property
    def bound_ms(self):
        return statistics.median(self.bounds)

    @property
    def turns(self):
        """What it took in each round."""
        return [math.sqrt(one * two) for one, two in zip(self.samples, self.again or self.samples)]

    @property
    def gauged(self):
        """The same where the gauge would have been as fast as when the machine was measured."""
        works = zip(self.work, self.work_again or self.work, self.rated)
        return [1e3 * math.sqrt(one * two) / rate for one, two, rate in works]

    @property
    def slow(self):
        """How many times as slow the gauge was as when the machine was measured."""
        return statistics.median(self.rated) / statistics.median(self.rates)

    @property
    def spread(self):
        """How far apart the middle half of the turns is, of what the plan takes: what no prediction can hit."""
        low, _, high = statistics.quantiles(self.samples + self.again, n=4, method="inclusive")
        return (high - low) / self.ms

    def times(self, other):
        """How many times as long this takes as another plan that took turns with it."""
        return statistics.median(one / than for one, than in zip(self.turns, other.samples))

    def times_gauged(self, other):
        return statistics.median(one / than for one, than in zip(self.gauged, other.gauged))

    @property
    def over_bound(self):
        """By which part it takes longer than the bound."""
        return statistics.median(one / bound for one, bound in zip(self.turns, self.bounds)) - 1

    @property
    def over_gauged(self):
        return statistics.median(one / bound for one, bound in zip(self.gauged, self.bounds)) - 1

    @property
    def error(self):
        """By which part more is predicted than it takes."""
        return statistics.median(predicted / one for one, predicted in zip(self.turns, self.predicted)) - 1

    @property
    def error_gauged(self):
        return statistics.median(predicted / one for one, predicted in zip(self.gauged, self.predicted)) - 1

    @property
    def repeats(self):
        """The same of the second turns and the first ones."""
        return statistics.median(two / one for one, two in zip(self.samples, self.again))


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
    def __init__(self, eyelet, work, networks, threads, rounds, seconds, effort, log):
        self.eyelet, self.work, self.networks, self.threads = eyelet, work, networks, threads
        self.rounds, self.seconds, self.log = rounds, seconds, log
        self.effort = ["--effort", effort] if effort else []
        self.plans, self.ablation, self.overheads, self.infeasible = [], [], [], []
        self.measurements, self.profiles = [], {}

    def run(self, done):
        """Measures all networks; `done` is called when one more is."""
        self.measurements = for_planning(self.eyelet, self.work, self.threads, self.log)
        self.profiles = {one.io: one.path for one in self.measurements if one.chosen}
        for name in self.networks:
            onnx = model(self.eyelet, self.work, name)
            budgets, of_ablation = self.budgets(name, onnx)
            packs = self.work / "packs"
            packs.mkdir(exist_ok=True)
            try:
                self.log(f"{name}, planning")
                cells = [self.plan(name, onnx, budget, io, STRATEGIES) for budget in budgets for io in IO]
                ablation = self.plan(name, onnx, of_ablation, "direct", ABLATION)
                self.turns(name, [*cells, ablation])
            finally:
                for pack in packs.iterdir():
                    pack.unlink()
            self.plans += [plan for cell in cells for plan in cell]
            self.ablation += ablation
            done()

    def budgets(self, name, onnx):
        """From the smallest budget that is feasible with the costs of every way to read, to the smallest in which all weights stay;
        and, from what FlexNN needs at least, the one for its ablation."""
        common = [self.eyelet, "plan", onnx, "--threads", self.threads, "--json"]

        def smallest(strategy):
            command = [*common, "--strategy", strategy, "--min-budget", "--profile"]
            return max(json.loads(call([*command, self.profiles[io]]))["min_budget_bytes"] for io in IO)

        least, least_flexnn, most = smallest("joint"), smallest("flexnn"), smallest("preload")
        # Winograd's weights take up to four times the bytes.
        huge = onnx.stat().st_size * 4 + 256 * MIB
        pack = self.work / "whole.pack"
        costs = ["--profile", self.profiles["buffered"]]
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

        def between(least, place):
            # As one would ask for it, and as the tables write it: tenths of a MiB.
            return int(math.ceil(least * (most / least) ** place / TENTH) * TENTH)

        return [between(least, place) for place in PLACES], between(least_flexnn, ABLATION_PLACE)

    def plan(self, network, onnx, budget, io, strategies):
        """A pack by each strategy that has a plan for the budget."""
        planned = []
        for name, options in strategies.items():
            pack = self.work / "packs" / f"{budget}-{io}-{name.replace(' ', '-')}.pack"
            command = [self.eyelet, "plan", onnx, "--budget", budget, "--threads", self.threads]
            command += ["--profile", self.profiles[io], "--json", "-o", pack, *options]
            command += self.effort if options[1] == "joint" else []
            try:
                report = json.loads(call(command))
            except Failed as failed:
                if not re.search(r"smallest feasible one is", str(failed)):
                    raise
                self.infeasible.append((network, budget, io, name))
                continue
            write_through(pack, io)
            (plan,) = report["plans"]
            planned.append(Measured(network, budget, io, name, plan["predicted_ms"], report, pack))
        return planned

    def turns(self, network, cells):
        """Each plan's turn in each round; those of a cell follow each other, and the next round begins with another."""
        beside = {io: [] for io in IO}
        for number in range(self.rounds):
            self.log(f"{network}, round {number + 1} of {self.rounds}")
            if number % EVERY == 0:
                self.measure(network, beside)
            for cell in cells:
                first = number % len(cell) if cell else 0
                for plan in cell[first:] + cell[:first]:
                    self.turn(plan, plan.samples, plan.work)
                for plan in cell:
                    if plan.name == JOINT:
                        self.turn(plan, plan.again, plan.work_again)
        self.measure(network, beside)
        self.measurements += [profile for io in IO for profile in beside[io]]
        for cell in cells:
            for plan in cell:
                self.predict(plan, beside[plan.io])

    def measure(self, network, beside):
        """The machine once more, for each way to read."""
        for io in IO:
            when = f"{network} {len(beside[io]) + 1}"
            beside[io].append(measure(self.eyelet, self.work, self.threads, io, when))

    def predict(self, plan, profiles):
        """What was predicted in each round by the costs that were measured before it and behind it: the mean of both."""
        options = [option for profile in profiles for option in ("--profile", profile.path)]
        report = json.loads(call([self.eyelet, "inspect", plan.pack, "--json", *options]))
        forecasts = report["plans"][0]["forecasts"]

        def of_rounds(values):
            means = [math.sqrt(before * behind) for before, behind in pairwise(values)]
            return [means[number // EVERY] for number in range(self.rounds)]

        plan.predicted = of_rounds([forecast["predicted_ms"] for forecast in forecasts])
        plan.bounds = of_rounds([forecast["lower_bound_ms"] for forecast in forecasts])
        plan.rated = of_rounds([profile.costs["compute"]["gauge_gflops"] for profile in profiles])

    def turn(self, plan, samples, work):
        """The median of some inferences, in milliseconds, and by the gauge."""
        runs = round(self.seconds * 1e3 / max(plan.planned_ms, 0.5))
        runs = min(max(runs, RUNS.start), RUNS.stop)
        warmup = WARMUP if plan.planned_ms < SLOW_MS else 1
        command = [self.eyelet, "run", plan.pack, "--io", plan.io, "--threads", self.threads, "--gauge", "--json"]
        report = json.loads(call([*command, "--warmup", warmup, "--runs", runs]))
        plan.stalls.append(report["stall_ms"])
        plan.rates.append(report["gauge"]["median_gflops"])
        samples.append(report["latency_ms"]["median"])
        work.append(report["gauge"]["latency_gflop"])


def write_through(pack, io):
    """Has a pack on the disk; not in memory, too, if it is not read from there."""
    file = os.open(pack, os.O_RDONLY)
    try:
        os.fsync(file)
        if io == "direct":
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
