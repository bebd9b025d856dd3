"""Turns of plans, and what counts of them: inferences that others did not disturb."""

import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from settings import ENOUGH, FEWEST, QUIET, TRIES


class Inference(NamedTuple):
    """How long it took, and the speed probe's rate beside it: the lower one of those just before and just behind."""

    ms: float
    gflops: float


class Figure(NamedTuple):
    """A number, and whether only what was undisturbed counts in it."""

    value: float
    quiet: bool


def median(figures):
    """That of the undisturbed ones; of all, where there are none."""
    figures = list(figures)
    kept = [one for one in figures if one.quiet]
    return Figure(statistics.median(one.value for one in kept or figures), bool(kept))


def mean(one, other):
    """That of two figures; where one was disturbed and the other was not, the other."""
    kept = [figure.value for figure in (one, other) if figure.quiet] or [one.value, other.value]
    return Figure(math.sqrt(kept[0] * kept[-1]), one.quiet or other.quiet)


def quotients(ones, others):
    """Those of rounds, each undisturbed where both figures are; and the median of them."""
    pairs = zip(ones, others, strict=True)
    return median(Figure(one.value / other.value, one.quiet and other.quiet) for one, other in pairs)


def lower_quartile(values):
    """As `eyelet profile` has it of a layer's times."""
    return sorted(values)[len(values) // 4]


def inferences(report):
    """Those of `eyelet run --speed --json`."""
    each = report["speed"]["inferences"]
    return [Inference(one["latency_ms"], min(one["before_gflops"], one["after_gflops"])) for one in each]


def enough(runs):
    """How many undisturbed inferences a turn of so many has at least: some few are undisturbed by chance beside others that are not."""
    return max(FEWEST, math.ceil(runs / ENOUGH))


@dataclass
class Turn:
    """One turn of a plan, over all its tries."""

    # The lower quartile of the undisturbed inferences; of all, where they are too few.
    ms: float
    disturbed: bool
    # The median of all.
    median_ms: float
    undisturbed: int
    # What the speed probe was held against, in billions of operations a second; and of each try how long its inferences waited for loads.
    rate: float
    stalls: list
    inferences: list

    @classmethod
    def of(cls, found, stalls, rate, least):
        kept = [one for one in found if one.gflops >= QUIET * rate]
        disturbed = len(kept) < least
        counted = found if disturbed else kept
        return cls(
            ms=lower_quartile([one.ms for one in counted]),
            disturbed=disturbed,
            median_ms=statistics.median(one.ms for one in found),
            undisturbed=len(kept),
            rate=rate,
            stalls=stalls,
            inferences=found,
        )


def take(run, runs, rate):
    """A turn: `run` makes so many inferences, and is called again until enough of all were undisturbed, or it has been often enough."""
    found, stalls = [], []
    for _ in range(TRIES):
        report = run(runs)
        found += inferences(report)
        stalls.append(report["stall_ms"])
        turn = Turn.of(found, stalls, rate, enough(runs))
        if not turn.disturbed:
            break
    return turn


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
    # One in each round; of `joint` a second one, too.
    turns: list = field(default_factory=list)
    again: list = field(default_factory=list)
    # What the machine, as it was measured before and behind each round, is predicted to take, and the bound.
    predicted: list = field(default_factory=list)
    bounds: list = field(default_factory=list)

    @property
    def ms(self):
        return median(self.figures(self.turns + self.again))

    @property
    def median_ms(self):
        """Of all inferences, however disturbed."""
        return statistics.median(turn.median_ms for turn in self.turns + self.again)

    @property
    def predicted_ms(self):
        return median(self.predicted).value

    @property
    def bound_ms(self):
        return median(self.bounds).value

    @staticmethod
    def figures(turns):
        return [Figure(turn.ms, not turn.disturbed) for turn in turns]

    @property
    def rounds(self):
        """What it took in each round."""
        turns = self.figures(self.turns)
        return list(map(mean, turns, self.figures(self.again) or turns))

    @property
    def share(self):
        """The part of its inferences that was undisturbed."""
        return share([self])

    @property
    def spread(self):
        """How far apart the middle half of the turns is, of what the plan takes: what no prediction can hit. None where fewer than two count."""
        turns = self.figures(self.turns + self.again)
        counted = [turn.value for turn in turns if turn.quiet == self.ms.quiet]
        if len(counted) < 2:
            return None
        low, _, high = statistics.quantiles(counted, n=4, method="inclusive")
        return (high - low) / self.ms.value

    def times(self, other):
        """How many times as long this takes as another plan that took turns with it."""
        return quotients(self.rounds, other.rounds)

    @property
    def over_bound(self):
        """By which part it takes longer than the bound."""
        found = quotients(self.rounds, self.bounds)
        return found._replace(value=found.value - 1)

    @property
    def error(self):
        """By which part more is predicted than it takes."""
        found = quotients(self.predicted, self.rounds)
        return found._replace(value=found.value - 1)

    @property
    def repeats(self):
        """How many times as long its second turns take as its first ones."""
        return quotients(self.figures(self.again), self.figures(self.turns))

    def summary(self):
        """What the page tells, for who reads the raw figures."""
        names = ["ms", "median_ms", "predicted_ms", "bound_ms", "share", "spread", "over_bound", "error"]
        return {name: getattr(self, name) for name in names}


def share(plans):
    """The part of their inferences that was undisturbed."""
    turns = [turn for plan in plans for turn in plan.turns + plan.again]
    return sum(turn.undisturbed for turn in turns) / sum(len(turn.inferences) for turn in turns)
