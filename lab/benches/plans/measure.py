"""Plans every network by every strategy for some budgets, and runs the packs in turns.

Where a machine's processors and disk are not its own, neighbours change how fast they are for seconds or minutes, and no plan can know of that.
So all plans of a network take turns, round after round, which spreads those of one plan over minutes. And a small convolution, the *speed probe*, is timed
between all inferences, as it is in each profile: inferences beside which it was slower than the machine is otherwise do not count, nor do
profiles, and both are made again for a while (`turns.py`, `profiles.py`). What counts of a turn is the lower quartile of the others, as it is
of a layer's times in a profile; of a plan's turns it is the median.

Plans are compared by turns that follow each other with other plans, and with what the costs say that were measured before and behind: quotients
are the medians of those of all rounds in which nothing was disturbed. `joint` has two turns in a round, whose quotient tells what that is worth.
"""

import json
import math
import os
import re
from dataclasses import dataclass
from itertools import pairwise

from common import MIB, Failed, call
from profiles import Fastest, for_planning, measure, model
from settings import ABLATION, ABLATION_PLACE, EVERY, IO, JOINT, PLACES, STRATEGIES
from turns import Figure, Measured, mean, take

# The first few inferences are not looked at; of slow ones fewer are needed, and fewer there are.
WARMUP = 2
SLOW_MS = 100
TENTH = MIB / 10
RUNS = range(3, 300)


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
        self.measurements, self.profiles, self.fastest = [], {}, Fastest()

    def run(self, done):
        """Measures all networks; `done` is called when one more is."""
        self.measurements = for_planning(self.eyelet, self.work, self.threads, self.fastest, self.log)
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
                    plan.turns.append(self.turn(plan))
                for plan in cell:
                    if plan.name == JOINT:
                        plan.again.append(self.turn(plan))
        self.measure(network, beside)
        for io in IO:
            self.fastest.judge(beside[io])
            self.measurements += beside[io]
        for cell in cells:
            for plan in cell:
                self.predict(plan, beside[plan.io])

    def measure(self, network, beside):
        """The machine once more, for each way to read."""
        for io in IO:
            when = f"{network} {len(beside[io]) + 1}"
            beside[io].append(measure(self.eyelet, self.work, self.threads, io, when, self.fastest))

    def predict(self, plan, profiles):
        """What was predicted in each round by the costs that were measured before it and behind it: the mean of both."""
        options = [option for profile in profiles for option in ("--profile", profile.path)]
        report = json.loads(call([self.eyelet, "inspect", plan.pack, "--json", *options]))
        forecasts = report["plans"][0]["forecasts"]

        def of_rounds(name):
            figures = [Figure(forecast[name], not profile.disturbed) for forecast, profile in zip(forecasts, profiles, strict=True)]
            means = [mean(before, behind) for before, behind in pairwise(figures)]
            return [means[number // EVERY] for number in range(self.rounds)]

        plan.predicted, plan.bounds = of_rounds("predicted_ms"), of_rounds("lower_bound_ms")

    def turn(self, plan):
        """Some inferences, by the clock and by the speed probe."""
        warmup = WARMUP if plan.planned_ms < SLOW_MS else 1
        command = [self.eyelet, "run", plan.pack, "--io", plan.io, "--threads", self.threads, "--speed", "--json", "--warmup", warmup]
        runs = round(self.seconds * 1e3 / max(plan.planned_ms, 0.5))
        runs = min(max(runs, RUNS.start), RUNS.stop)
        return take(lambda runs: json.loads(call([*command, "--runs", runs])), runs, self.fastest.probe)


def write_through(pack, io):
    """Has a pack on the disk; not in memory, too, if it is not read from there."""
    file = os.open(pack, os.O_RDONLY)
    try:
        os.fsync(file)
        if io == "direct":
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
