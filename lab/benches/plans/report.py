"""Writes lab/results/plans.md and its curves from what was measured."""

import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benches"))

from common import MIB, ms, table  # noqa: E402
from settings import (  # noqa: E402
    ABLATION, DRAWN, ENOUGH, EVERY, FEWEST, IO, JOINT, NEAR, NOISE, PROFILE_TRIES, PROFILED, PROFILES, QUIET, SEED, STRATEGIES, TRIES,
)
from turns import Figure, median, share  # noqa: E402

def ranks(values):
    """The place of each value in order; equal ones share the middle of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for index in order[start:end]:
            found[index] = (start + end - 1) / 2
        start = end
    return found


@dataclass
class Cell:
    """The plans for one budget and way of reading; of `joint`, which has one, how it stands against the fastest other strategy."""

    network: str
    io: str
    budget: int
    plans: dict
    best: str | None = None
    ratio: Figure | None = None

    @property
    def joint(self):
        return self.plans[JOINT]


def cells(plans):
    """By network, way of reading, and budget: the measured plans by strategy."""
    found = {}
    for plan in plans:
        key = plan.network, plan.io, plan.budget
        found.setdefault(key, Cell(*key, {})).plans[plan.name] = plan
    return list(found.values())


def against_best(plans):
    """Those cells in which `joint` has a plan."""
    found = [cell for cell in cells(plans) if JOINT in cell.plans]
    for cell in found:
        ratios = {name: cell.joint.times(plan) for name, plan in cell.plans.items() if name != JOINT}
        if ratios:
            cell.best = max(ratios, key=lambda name: ratios[name].value)
            cell.ratio = ratios[cell.best]
    return found


def tally(figures, holds):
    """Of how many figures something holds; the same of the undisturbed ones."""

    def of(each):
        return f"{sum(holds(figure.value) for figure in each)} of {len(each)}" if each else "–"

    figures = list(figures)
    return [of(figures), of([figure for figure in figures if figure.quiet])]


def near(value):
    return abs(value) <= NEAR


def order(plans):
    """How far predictions keep the ranks."""
    predicted = ranks([plan.predicted_ms for plan in plans])
    measured = ranks([plan.ms.value for plan in plans])
    if len(set(predicted)) < 2 or len(set(measured)) < 2:
        return "–"
    return f"{statistics.correlation(predicted, measured):.3f}"


class Report:
    def __init__(self, bench, facts, curves):
        self.bench, self.facts, self.curves = bench, facts, curves
        self.cells = against_best(bench.plans)
        self.drawn = random.Random(SEED).sample(bench.plans, min(DRAWN, len(bench.plans)))
        # Whether each figure that is shown in a table is undisturbed.
        self.shown = []

    def write(self):
        parts = [self.counts(), self.latencies(), self.predictions(), self.ablation(), self.overheads()]
        # Which says how many of their figures are marked.
        return "\n\n".join([self.head(), *parts]) + "\n"

    def figure(self, figure, text):
        """In a table: marked where all had to count."""
        self.shown.append(figure.quiet)
        return text if figure.quiet else f"{text}*"

    def ms(self, figure):
        return self.figure(figure, ms(figure.value))

    def head(self):
        facts = "\n".join(f"- {name}: {value}" for name, value in self.facts.items())
        marked = len(self.shown) - sum(self.shown)
        return f"""# Results: plans

Written by `lab/benches/plans/run.sh`; run it again rather than change it by hand.

{facts}

Times are in milliseconds, of one inference in the steady state. All plans of a network take {self.bench.rounds} turns, round after round, each in a process
of its own. Others have the machine's processors and its disk, too, which changes how fast they are for seconds or minutes. Costs
(`eyelet profile`) are those of a machine that is left alone: the lower quartile of each layer's times. So only those inferences count
that others left alone, too. Between all of them a small convolution is timed, the *speed probe* (`eyelet run --speed`), as it is in every
profile. An inference is *undisturbed* if the speed probe ran at {QUIET:.0%} at least of the machine's rate both just before and just behind it;
that rate is the highest that any profile had told by then, {self.bench.fastest.probe:.1f} GFLOP/s in the end. Of the disk the speed probe knows nothing, nor of
memory, nor of the core that loads, nor of what comes and goes within one inference.

A turn has up to {TRIES} tries, until the undisturbed inferences of all are one in {ENOUGH} of one try's, and {FEWEST} at least. Their lower quartile is
what the turn took; where they are fewer, that of all its inferences, and the turn is disturbed. Of a plan's undisturbed turns
the median counts. Plans are compared turn by turn, by those that follow each other, and with what the costs say: quotients are
the medians of those of all rounds in which both were undisturbed. `*`: there was no such turn or round, so that all count;
{marked} of {len(self.shown)} figures in the tables are marked. How disturbed it was all the same, the columns *undisturbed* say (the part of `{JOINT}`'s
inferences, or of those of the plans in that line), and *median of all* (of all inferences of a turn, and of all turns), by which nothing is
compared. `{JOINT}` takes a second turn in each round: {self.repeated()}.

Every budget has a pack for each strategy, planned with costs measured before all else. Before a network's first round{self.between()} and behind
its last one the machine is measured again; bounds and predictions are those of the same packs by these costs (`eyelet inspect
--profile`), in each round the mean of those before and behind. A profile in which the speed probe or 1x1 convolutions ran at less than {QUIET:.0%} of
the highest rate so far is measured again, up to {PROFILE_TRIES} times in all; if it stays disturbed, it does not count where the other one of a
round does. All strategies share kernels and runtime."""

    def between(self):
        return f", behind each {EVERY} rounds" if self.bench.rounds > EVERY else ""

    def repeated(self):
        """What quotients are worth."""
        found = [plan.repeats for plan in self.bench.plans if plan.name == JOINT]
        off = [abs(figure.value - 1) for figure in found if figure.quiet]
        if not off:
            return "nowhere were both turns of a round undisturbed"
        count = sum(each > NOISE for each in off)
        return (
            f"held against its first ones, where both were undisturbed, these differ by {statistics.median(off):.1%} in the median, "
            f"in {count} of {len(off)} cases by more than {NOISE:.0%}"
        )

    def counts(self):
        """What is asked of plans and predictions, and how often it holds."""
        rows = []
        for io in IO:
            of_io = [cell for cell in self.cells if cell.io == io]
            groups = {f"`{JOINT}` within {NEAR:.0%} of the bound, {io}": of_io}
            for cell in of_io:
                groups.setdefault(f"– {cell.network}", []).append(cell)
            for name, group in groups.items():
                rows.append([name, *tally((cell.joint.over_bound for cell in group), lambda gap: gap <= NEAR)])
        for io in IO:
            ratios = [cell.ratio for cell in self.cells if cell.io == io and cell.ratio]
            name = f"`{JOINT}` slower than the best baseline by more than {NOISE:.0%}, {io}"
            rows.append([name, *tally(ratios, lambda ratio: ratio > 1 + NOISE)])
        drawn = [plan for plan in self.drawn if plan.error.quiet]
        rows.append([f"predicted within ±{NEAR:.0%}, of those drawn", *tally((plan.error for plan in self.drawn), near)])
        rows.append(["– correlation of ranks (Spearman)", order(self.drawn), order(drawn)])
        rows.append([f"predicted within ±{NEAR:.0%}, of all", *tally((plan.error for plan in self.bench.plans), near)])
        return f"""## In short

What the tables below say, of all figures and of those without a mark.

{table(["", "all", "undisturbed"], rows)}"""

    def latencies(self):
        rows, worse = {io: [] for io in IO}, []
        for cell in self.cells:
            joint, ratio = cell.joint, cell.ratio
            if ratio and ratio.value > 1 + NOISE:
                mark = "" if ratio.quiet else "*"
                worse.append(f"- {cell.network}, {cell.io}, {cell.budget / MIB:.1f} MiB: {ratio.value:.2f}{mark} of {cell.best}")
            gap = joint.over_bound
            row = [cell.network, f"{cell.budget / MIB:.1f}"]
            row += [self.ms(cell.plans[name].ms) if name in cell.plans else "–" for name in STRATEGIES]
            row += [self.figure(ratio, f"{ratio.value:.2f}") if ratio else "–", ms(joint.bound_ms), ms(joint.predicted_ms)]
            row += [self.figure(gap, f"{gap.value:+.0%}"), f"{joint.share:.0%}", ms(joint.median_ms)]
            rows[cell.io].append(row)
        head = ["network", "budget (MiB)", *STRATEGIES, f"{JOINT} / best baseline", "bound (ms)", f"{JOINT} predicted (ms)", f"{JOINT} over bound"]
        head += ["undisturbed", f"{JOINT}, median of all (ms)"]
        parts = [
            f"""## Latency by budget

The bound is that of [planning](../../docs/planning.md#the-lower-bound), from the profile: no plan for the budget with the algorithms that
`{JOINT}` has chosen can be faster. A dash: the strategy has no plan for the budget."""
        ]
        parts += [f"### `--io {io}`\n\n{table(head, rows[io])}" for io in IO]
        if worse:
            parts.append(f"Slower than a baseline by more than {NOISE:.0%}:\n\n" + "\n".join(worse))
        else:
            parts.append(f"Nowhere is `{JOINT}` slower than a baseline by more than {NOISE:.0%}.")
        if self.curves:
            parts.append("\n".join(f"![{name}]({path})" for name, path in self.curves))
        return "\n\n".join(parts)

    def predictions(self):
        plans, drawn = self.bench.plans, self.drawn
        rows = []
        for plan in sorted(drawn, key=lambda plan: (plan.network, plan.io, plan.budget, plan.name)):
            row = [plan.network, plan.io, f"{plan.budget / MIB:.1f}", plan.name, ms(plan.predicted_ms), self.ms(plan.ms)]
            rows.append([*row, self.figure(plan.error, f"{plan.error.value:+.1%}"), f"{plan.share:.0%}", ms(plan.median_ms)])
        errors = [plan.error for plan in plans]
        sizes = median(error._replace(value=abs(error.value)) for error in errors)
        groups = {}
        for plan in plans:
            for name in ((plan.io, ""), (plan.io, plan.name)):
                groups.setdefault(name, []).append(plan.error)
        by_group = []
        for (io, name), group in sorted(groups.items()):
            values = [error.value for error in group if error.quiet]
            spans = [min(values), statistics.median(values), max(values)] if values else []
            by_group.append([io, name or "all", *tally(group, near), *([f"{value:+.1%}" for value in spans] or ["–"] * 3)])
        of_those = "those that are undisturbed" if sizes.quiet else "all, as none is undisturbed"
        return f"""## Prediction and measurement

{len(drawn)} of the plans above, drawn at random (seed {SEED}).

{table(["network", "io", "budget (MiB)", "strategy", "predicted (ms)", "measured (ms)", "error", "undisturbed", "median of all (ms)"], rows)}

Of all {len(plans)} plans (least, median and most of the undisturbed ones); the median error without its sign is {sizes.value:.1%}, of {of_those}:

{table(["io", "strategy", f"within ±{NEAR:.0%}", "undisturbed", "least", "median", "most"], by_group)}

{self.spread()}

{self.costs()}"""

    def spread(self):
        """What no prediction can hit."""
        spreads = [plan.spread for plan in self.bench.plans if plan.spread is not None]
        if not spreads:
            return "No plan has two turns that count."
        wide = statistics.mean(spread > NEAR for spread in spreads)
        return f"""Part of that is noise: the middle half of a plan's turns, of those that count, is {statistics.median(spreads):.1%} apart in the median, and
more than {NEAR:.0%} for {wide:.0%} of the {len(spreads)} plans that have two such turns."""

    def costs(self):
        """What the machine was like each time it was measured."""
        rows = []
        for one in self.bench.measurements:
            compute, storage = one.costs["compute"], one.costs["storage"]
            reads = {read["bytes"]: read["mbs"] for read in storage["reads"]}
            rates = [compute["conv_1x1_gflops"], compute["conv_kxk_gflops"], compute["fully_connected_gbs"]]
            rates += [compute["speed_probe_gflops"], reads[16 << 10] / 1e3, reads[1 << 20] / 1e3]
            contention = storage["contention"]
            lost = [contention["llc_ns_per_byte"], contention["dram_ns_per_byte"]]
            when = f"{one.when}{'*' if one.disturbed else ''}"
            row = [when, one.io, *(f"{rate:.3g}" for rate in rates), *(f"{ns:.3f}" for ns in lost)]
            predicted = "–" if one.predicted_ms is None else ms(one.predicted_ms)
            rows.append([*row, f"{predicted}{' (taken)' if one.chosen else ''}"])
        network, budget = PROFILED
        head = ["when", "io", "1x1 (GFLOP/s)", "3x3 (GFLOP/s)", "weights (GB/s)", "speed probe (GFLOP/s)", "16 KiB read (GB/s)", "1 MiB read (GB/s)"]
        head += ["contention LLC (ns/B)", "DRAM (ns/B)", f"{network} in {budget // MIB} MiB (ms)"]
        return f"""The machine, as it was measured: {PROFILES} times before all else, of which for each way to read the middle one of the undisturbed
ones was planned with (of all, where there were none), and beside the rounds of each network. `*`: disturbed.

{table(head, rows)}"""

    def ablation(self):
        rows = []
        for cell in cells(self.bench.ablation):
            full = cell.plans.get("full")
            row = [cell.network, f"{cell.budget / MIB:.1f}"]
            for name in ABLATION:
                plan = cell.plans.get(name)
                if plan is None:
                    row.append("infeasible")
                elif full is None or plan is full:
                    row.append(self.ms(plan.ms))
                else:
                    ratio = plan.times(full)
                    row.append(f"{self.ms(plan.ms)} ({self.figure(ratio, f'{ratio.value:.2f}')})")
            rows.append([*row, f"{share(cell.plans.values()):.0%}"])
        return f"""## FlexNN and its parts

`flexnn` as published, without its static memory plan (an online best-fit allocator instead), without preloading, and without both.
`--io direct`; in brackets relative to the first.

{table(["network", "budget (MiB)", *ABLATION, "undisturbed"], rows)}"""

    def overheads(self):
        rows = []
        for overhead in self.bench.overheads:
            found = [plan for plan in self.bench.plans if (plan.network, plan.name) == (overhead.network, JOINT)]
            reports = [plan.report for plan in found]
            rows.append(
                [
                    overhead.network,
                    f"{overhead.model_bytes / MIB:.1f}",
                    f"{overhead.pack_bytes / MIB:.1f}",
                    f"{overhead.pack_bytes / overhead.model_bytes:.2f}",
                    f"{overhead.least / MIB:.1f}",
                    f"{overhead.least_flexnn / MIB:.1f}",
                    f"{overhead.import_ms:.1f}",
                    f"{max(report['plans'][0]['constructive_ms'] for report in reports):.0f}",
                    f"{max(report['planning_ms'] for report in reports):.0f}",
                    f"{overhead.writing_ms:.0f}",
                ]
            )
        seconds = ", ".join(f"{one.seconds:.0f} s ({one.io})" for one in self.bench.measurements if one.chosen)
        head = ["network", "model (MiB)", "pack (MiB)", "pack / model", "smallest budget (MiB)", "that of `flexnn` (MiB)"]
        head += ["import (ms)", "construction (ms)", "planning (ms)", "writing (ms)"]
        return f"""## What a pack costs

Packs with all weights resident, algorithms chosen for that. Construction (slicing, sliding, placing) is that of the plan that is
searched from, planning all from the choice of algorithms to the proof: the most of any plan of `{JOINT}` above. Profiling the
machine, once, took {seconds}.

{table(head, rows)}"""
