"""Writes docs/results-plans.md and its curves from what was measured."""

import random
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import MIB, ms, table  # noqa: E402
from settings import ABLATION, DRAWN, EVERY, IO, JOINT, NEAR, NOISE, PROFILED, PROFILES, SEED, STRATEGIES  # noqa: E402


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


class Report:
    def __init__(self, bench, facts, curves):
        self.bench, self.facts, self.curves = bench, facts, curves

    def write(self):
        parts = [self.head(), self.latencies(), self.predictions(), self.ablation(), self.overheads()]
        return "\n\n".join(parts) + "\n"

    def head(self):
        facts = "\n".join(f"- {name}: {value}" for name, value in self.facts.items())
        return f"""# Results: plans

Written by `benches/plans/run.sh`; run it again rather than change it by hand.

{facts}

Times are in milliseconds, of one inference in the steady state. All plans of a network take {self.bench.rounds} turns, round after round, each in a process
of its own. Of a turn's inferences the median counts, and of a plan's turns. Others have the machine's processors and its disk, too, which changes how fast
they are for seconds or minutes. So plans are compared turn by turn, by those that follow each other, and with what the costs say that were
measured in the same minutes: quotients are the medians of those of all rounds. `{JOINT}` takes a second turn in each round: {self.repeated()}.

Every budget has a pack for each strategy, planned with costs measured before all else (`eyelet profile`). Before and behind each
{EVERY} rounds of a network the machine is measured again; bounds and predictions are those of the same packs by these costs
(`eyelet inspect --profile`), the mean of both. All strategies share kernels and runtime.

These costs are those of a machine that is left alone (the lower quartile of each layer's times), which the medians of turns are not: what slows the
processors for seconds the costs do not know. So between all inferences a small convolution is timed, the *gauge*
(`eyelet run --gauge`), as it is in every profile: `slow` is how many times as long it took as there. Figures do not depend on it, but for
those called *gauged*: what the gauge could have computed in an inference's time, at the rate that it had beside that inference, by the rate that it had when the
machine was measured. Of the disk it knows nothing, nor of memory."""

    def repeated(self):
        """What quotients are worth."""
        off = [abs(plan.repeats - 1) for plan in self.bench.plans if plan.name == JOINT]
        count = sum(each > NOISE for each in off)
        return f"held against its first ones these differ by {statistics.median(off):.1%} in the median, in {count} of {len(off)} cases by more than {NOISE:.0%}"

    def group(self, plans):
        """By network, way of reading, and budget: the measured plans by strategy."""
        found = {}
        for plan in plans:
            found.setdefault((plan.network, plan.io, plan.budget), {})[plan.name] = plan
        return found

    def latencies(self):
        rows, worse, gaps = {io: [] for io in IO}, [], {io: {} for io in IO}
        gauged = {io: [] for io in IO}
        for (network, io, budget), plans in self.group(self.bench.plans).items():
            joint = plans.get(JOINT)
            if joint is None:
                continue
            others = [plan for name, plan in plans.items() if name != JOINT]
            best = max(others, key=joint.times, default=None)
            ratio = joint.times(best) if best else None
            if ratio is not None and ratio > 1 + NOISE:
                worse.append((network, io, budget, best.name, ratio, joint.times_gauged(best)))
            gap = joint.over_bound
            gaps[io].setdefault(network, []).append(gap)
            gauged[io].append(joint.over_gauged)
            row = [network, f"{budget / MIB:.1f}"]
            row += [ms(plans[name].ms) if name in plans else "–" for name in STRATEGIES]
            row += [f"{ratio:.2f}" if ratio else "–", ms(joint.bound_ms), ms(joint.predicted_ms), f"{gap:+.0%}"]
            row += [f"{joint.slow:.2f}", f"{joint.over_gauged:+.0%}"]
            rows[io].append(row)
        head = ["network", "budget (MiB)", *STRATEGIES, f"{JOINT} / best baseline", "bound (ms)", f"{JOINT} predicted (ms)", f"{JOINT} over bound"]
        head += ["slow", "gauged"]
        parts = [
            f"""## Latency by budget

The bound is that of [planning](planning.md#the-lower-bound), from the profile: no plan for the budget with the algorithms that
`{JOINT}` has chosen can be faster. A dash: the strategy has no plan for the budget."""
        ]
        for io in IO:
            within = {network: sum(gap <= NEAR for gap in each) for network, each in gaps[io].items()}
            budgets = {network: len(each) for network, each in gaps[io].items()}
            each = ", ".join(f"{network} {count} of {budgets[network]}" for network, count in within.items())
            text = f"{sum(within.values())} of {sum(budgets.values())} within {NEAR:.0%} of the bound: {each}; gauged {sum(gap <= NEAR for gap in gauged[io])}."
            parts.append(f"### `--io {io}`\n\n{table(head, rows[io])}\n\n{text}")
        if worse:
            lines = "\n".join(
                f"- {network}, {io}, {budget / MIB:.1f} MiB: {ratio:.2f} of {name} (gauged {gauged:.2f})"
                for network, io, budget, name, ratio, gauged in worse
            )
            parts.append(f"Slower than a baseline by more than {NOISE:.0%}:\n\n{lines}")
        else:
            parts.append(f"Nowhere is `{JOINT}` slower than a baseline by more than {NOISE:.0%}.")
        if self.curves:
            parts.append("\n".join(f"![{name}]({path})" for name, path in self.curves))
        return "\n\n".join(parts)

    def predictions(self):
        plans = self.bench.plans
        drawn = random.Random(SEED).sample(plans, min(DRAWN, len(plans)))
        rows = []
        for plan in sorted(drawn, key=lambda plan: (plan.network, plan.io, plan.budget, plan.name)):
            name = [plan.network, plan.io, f"{plan.budget / MIB:.1f}", plan.name]
            gauged = [f"{plan.slow:.2f}", f"{plan.error_gauged:+.1%}"]
            rows.append([*name, ms(plan.predicted_ms), ms(plan.ms), f"{plan.error:+.1%}", *gauged])
        near = sum(abs(plan.error) <= NEAR for plan in drawn)
        near_gauged = sum(abs(plan.error_gauged) <= NEAR for plan in drawn)
        whole = [abs(plan.error) for plan in plans]
        whole_gauged = [abs(plan.error_gauged) for plan in plans]
        spreads = [plan.spread for plan in plans]
        groups = {}
        for plan in plans:
            for name in ((plan.io, ""), (plan.io, plan.name)):
                groups.setdefault(name, []).append(plan.error)
        by_group = [
            [io, name or "all", len(errors), f"{statistics.mean(abs(e) <= NEAR for e in errors):.0%}"]
            + [f"{value:+.1%}" for value in (min(errors), statistics.median(errors), max(errors))]
            for (io, name), errors in sorted(groups.items())
        ]
        order = statistics.correlation(
            ranks([plan.predicted_ms for plan in drawn]), ranks([plan.ms for plan in drawn])
        )
        return f"""## Prediction and measurement

{len(drawn)} of the plans above, drawn at random (seed {SEED}).

{table(["network", "io", "budget (MiB)", "strategy", "predicted (ms)", "measured (ms)", "error", "slow", "gauged"], rows)}

{near} of {len(drawn)} within ±{NEAR:.0%}, gauged {near_gauged}; correlation of ranks (Spearman) {order:.3f}. Of all {len(plans)}: {statistics.mean(error <= NEAR for error in whole):.0%} within
±{NEAR:.0%}, median error {statistics.median(whole):.1%}; gauged {statistics.mean(error <= NEAR for error in whole_gauged):.0%} and {statistics.median(whole_gauged):.1%}.

{table(["io", "strategy", "plans", f"within ±{NEAR:.0%}", "least", "median", "most"], by_group)}

Part of that is noise: the middle half of a plan's turns is {statistics.median(spreads):.1%} apart in the median, that
of {statistics.mean(spread > NEAR for spread in spreads):.0%} of the plans more than {NEAR:.0%}.

{self.costs()}"""

    def costs(self):
        """What the machine was like each time it was measured."""
        rows = []
        for one in self.bench.measurements:
            compute, storage = one.costs["compute"], one.costs["storage"]
            reads = {read["bytes"]: read["mbs"] for read in storage["reads"]}
            rates = [compute["conv_1x1_gflops"], compute["conv_kxk_gflops"], compute["fully_connected_gbs"]]
            rates += [compute["gauge_gflops"], reads[16 << 10] / 1e3, reads[1 << 20] / 1e3]
            drag = storage["drag"]
            lost = [drag["near_ns_per_byte"], drag["far_ns_per_byte"]]
            row = [one.when, one.io, *(f"{rate:.3g}" for rate in rates), *(f"{ns:.3f}" for ns in lost)]
            predicted = "–" if one.predicted_ms is None else ms(one.predicted_ms)
            rows.append([*row, f"{predicted}{' (taken)' if one.chosen else ''}"])
        network, budget = PROFILED
        head = ["when", "io", "1x1 (GFLOP/s)", "3x3 (GFLOP/s)", "weights (GB/s)", "gauge (GFLOP/s)", "16 KiB read (GB/s)", "1 MiB read (GB/s)"]
        head += ["drag near (ns/B)", "far (ns/B)", f"{network} in {budget // MIB} MiB (ms)"]
        return f"""The machine, as it was measured: {PROFILES} times before all else, of which for each way to read the middle one was planned with, and before and
behind each {EVERY} rounds of a network:

{table(head, rows)}"""

    def ablation(self):
        rows = []
        for (network, _io, budget), plans in self.group(self.bench.ablation).items():
            full = plans.get("full")
            row = [network, f"{budget / MIB:.1f}"]
            for name in ABLATION:
                plan = plans.get(name)
                if plan is None:
                    row.append("infeasible")
                elif full is None:
                    row.append(ms(plan.ms))
                else:
                    row.append(f"{ms(plan.ms)} ({plan.ms / full.ms:.2f})")
            rows.append(row)
        return f"""## FlexNN and its parts

`flexnn` as published, without its static memory plan (an online best-fit allocator instead), without preloading, and without both.
`--io direct`; in brackets relative to the first.

{table(["network", "budget (MiB)", *ABLATION], rows)}"""

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
