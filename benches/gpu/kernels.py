"""Convolutions, in turns: eyelet's kernels in a process of their own, PyTorch's cuDNN and cuBLAS in this one."""

import subprocess
from dataclasses import dataclass, field

from settings import ROUND_US, ROUNDS, TURNS
from statistics_of import geometric_mean, median, spread


class Ours:
    """The bench binary, which is told shapes and answers with times."""

    def __init__(self, binary, environment):
        self.process = subprocess.Popen(
            [str(binary)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.gpu = self.answer().removeprefix("gpu ")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the bench ended with status {self.process.wait()}; its error is above")
        return line.strip()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def prepare(self, shape):
        """Takes a shape; the names of the algorithms that compute it."""
        self.tell(f"shape {shape.line()}")
        self.algorithms = self.answer().split()[1:]
        return self.algorithms

    def time(self, rounds, launches):
        """Microseconds of one convolution in each round, by algorithm."""
        self.tell(f"time {rounds} {launches}")
        lines = (self.answer().split() for _ in self.algorithms)
        return {name: [float(us) for us in times] for name, *times in lines}


@dataclass
class Measured:
    """Times of a shape in microseconds, all rounds of all turns, by algorithm."""

    shape: object
    count: dict
    ours: dict = field(default_factory=dict)
    theirs: dict = field(default_factory=dict)

    @staticmethod
    def best(times):
        """The algorithm that is fastest in the median."""
        return min(times, key=lambda name: median(times[name])) if times else None

    @property
    def ratio(self):
        """How fast ours is, theirs being 1, each with its fastest algorithm."""
        return median(self.theirs[self.best(self.theirs)]) / median(self.ours[self.best(self.ours)])

    def report(self):
        def side(times):
            return {name: {"us": median(t), "spread": spread(t)} for name, t in times.items()}

        out = {"shape": self.shape.name, "macs": self.shape.macs, "count": self.count}
        out |= {"ours": side(self.ours), "ours_best": self.best(self.ours)}
        if self.theirs:
            out |= {"theirs": side(self.theirs), "theirs_best": self.best(self.theirs), "ratio": self.ratio}
        return out


def launches_for(us):
    """How many launches take a round's time."""
    return max(1, min(1000, round(ROUND_US / max(us, 0.1))))


def measure(shape, count, ours, theirs, turns=TURNS, rounds=ROUNDS):
    """One shape. `theirs` makes a shape's timers, by name: functions of rounds and launches; None without PyTorch."""
    measured = Measured(shape, count)
    ours.prepare(shape)
    first = ours.time(1, 1)
    mine = launches_for(min(min(times) for times in first.values()))
    timers = theirs(shape) if theirs else {}
    other = {name: launches_for(timer(1, 1)[0]) for name, timer in timers.items()}
    for _ in range(turns):
        for name, times in ours.time(rounds, mine).items():
            measured.ours.setdefault(name, []).extend(times)
        for name, timer in timers.items():
            measured.theirs.setdefault(name, []).extend(timer(rounds, other[name]))
    return measured


def summary(shapes):
    """Of the reports of shapes that both sides computed: the mean over shapes, over each network's convolutions, the worst."""
    compared = [shape for shape in shapes if "ratio" in shape]
    if not compared:
        return None
    worst = min(compared, key=lambda shape: shape["ratio"])
    networks = {}
    for shape in compared:
        ours, theirs = (shape[side][shape[f"{side}_best"]]["us"] for side in ("ours", "theirs"))
        for name, count in shape["count"].items():
            of = networks.setdefault(name, {"ours_us": 0, "theirs_us": 0, "ratios": []})
            of["ours_us"] += count * ours
            of["theirs_us"] += count * theirs
            of["ratios"].append(shape["ratio"])
    for of in networks.values():
        of["mean"] = geometric_mean(of.pop("ratios"))
    return {
        "shapes": len(compared),
        "mean": geometric_mean(shape["ratio"] for shape in compared),
        "worst": worst["ratio"],
        "worst_shape": worst["shape"],
        "networks": networks,
    }
