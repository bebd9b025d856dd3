"""Writes lab/results/peers.md from what was measured."""

import math
import statistics

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import MIB, ms, table  # noqa: E402
from busy import loops  # noqa: E402
from measure import EIGHTH, PEERS, REFERENCE, RESIDENT, Way  # noqa: E402
from settings import BUSY_LOOPS_PER_CORE, MEMORY_RATIO, TOLERANCE  # noqa: E402

# Operators that multiply: what others do is no matter of the peak.
MULTIPLYING = {"Conv", "F(2,3)", "F(4,3)", "Depthwise", "MatMul"}

NAMES = {"openvino": "OpenVINO", "mnn": "MNN"}


def mib(size):
    return "–" if size is None else f"{size / MIB:.1f}"


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


class Report:
    def __init__(self, bench, machine, unmeasured, shares, loaded):
        self.bench, self.machine, self.unmeasured, self.shares = bench, machine, unmeasured, shares
        self.loaded = loaded
        self.networks, self.threads = bench.networks, bench.threads

    def result(self, network, threads, engine):
        result = self.bench.results.get((network.name, threads, engine))
        return result if result is not None and result.rounds else None

    def good(self, network, threads, engine):
        """A result that counts: it ran to the end, and its output is right."""
        result = self.result(network, threads, engine)
        return result if result is not None and result.ok else None

    def write(self):
        parts = [self.head(), self.peers(), self.memory(), self.checksums(), self.busy()]
        return "\n\n".join(part for part in parts if part) + "\n"

    def head(self):
        rounds, seconds = self.bench.rounds, self.bench.seconds
        facts = "\n".join(f"- {name}: {value}" for name, value in self.machine.items())
        estimated = any(network.estimated for network in self.networks)
        plans = "estimated costs of this kind of machine" if estimated else "measured costs (`eyelet profile`)"
        return f"""# Results

Written by `benches/peers/run.sh`; run it again rather than change it by hand. `benches/peers/README.md` says
what is measured and how. Strategies beside each other and the bound, at many budgets, are in
[plans.md](plans.md).

{facts}

Times are in milliseconds, of one inference of one image, everything in 32-bit floats: the median within a
process of about {seconds:g} s of inferences, and of these the median of {rounds} round{"" if rounds == 1 else "s"}, in each of which every
engine runs once in a process of its own. {self.noise()} Plans were made with {plans}; those for
the page cache with its measured bandwidth."""

    def noise(self):
        spreads = [
            max(result.rounds) / min(result.rounds) - 1
            for result in self.bench.results.values()
            if len(result.rounds) > 1
        ]
        if not spreads:
            return "One round says nothing of the noise."
        middle, worst = statistics.median(spreads), max(spreads)
        return f"Rounds of the same engine differ by {middle:.0%} (median; at most {worst:.0%})."

    # 1

    def peers(self):
        parts = ["## 1. Beside other engines", "All of eyelet's weights are resident here."]
        for threads in self.threads:
            parts.append(self.latency(threads))
        parts += [self.operators(), self.eighth(), self.peak(), self.agreement(), self.missing()]
        return "\n\n".join(part for part in parts if part)

    def fastest(self, network, threads):
        found = [(peer, self.good(network, threads, peer)) for peer in PEERS]
        return min(((r.ms, peer) for peer, r in found if r), default=(None, None))

    def latency(self, threads):
        rows, ratios = [], []
        for network in self.networks:
            best, fastest = self.fastest(network, threads)
            row = [network.name]
            for peer in PEERS:
                result = self.good(network, threads, peer)
                value = ms(result.ms if result else None)
                row.append(f"**{value}**" if peer == fastest else value)
            own = self.good(network, threads, RESIDENT)
            row.append(ms(own.ms if own else None))
            if own and best:
                ratios.append(own.ms / best)
                row.append(f"{ratios[-1]:.2f}")
            else:
                row.append("–")
            rows.append(row)
        if ratios:
            empty = [""] * (len(PEERS) + 1)
            rows.append(["geometric mean", *empty, f"**{geometric_mean(ratios):.2f}**"])
        head = ["network", *(NAMES.get(peer, peer) for peer in PEERS), "eyelet", "eyelet / fastest peer"]
        plural = "thread" if threads == 1 else "threads"
        return f"### Latency, {threads} {plural} (ms)\n\n{table(head, rows)}"

    def operators(self):
        rows = []
        for network in self.networks:
            for share in self.shares.get(network.name, []):
                # Where little is multiplied, the peak says nothing.
                counts = share.operator in MULTIPLYING
                rows.append(
                    [
                        network.name,
                        share.operator,
                        share.layers,
                        ms(share.ms),
                        f"{share.share:.1%}",
                        f"{share.gflops:.0f}" if counts else "–",
                        f"{share.of_peak:.0%}" if counts else "–",
                    ]
                )
        if not rows:
            return ""
        peak = max(share.peak for found in self.shares.values() for share in found)
        head = ["network", "operator", "layers", "ms", "share", "GFLOP/s", "of the peak"]
        return f"""### Where eyelet's time goes, 1 thread

By operator, all weights resident (`eyelet run --layers`). The peak of fused multiply-adds was measured beside each
network: {peak:.0f} GFLOP/s at most. F(2,3) and F(4,3) are Winograd's algorithms, counted with what they multiply, transforms
included.

{table(head, rows)}"""

    def eighth(self):
        rows = []
        for network in self.networks:
            for threads in self.threads:
                whole = self.good(network, threads, RESIDENT)
                part = self.good(network, threads, EIGHTH)
                if whole and part:
                    least = network.eighth > network.parameters // 8
                    rows.append(
                        [
                            network.name,
                            threads,
                            mib(network.eighth) + (" (the least possible)" if least else ""),
                            mib(part.median("bytes_read_per_inference")),
                            ms(whole.ms),
                            ms(part.ms),
                            f"{part.ms / whole.ms:.2f}",
                            mib(part.peak()),
                        ]
                    )
        head = ["network", "threads", "budget (MiB)", "read each time (MiB)", "resident (ms)", "at 1/8 (ms)", "ratio", "peak memory (MiB)"]
        return f"""### An eighth of the memory

eyelet with a budget of an eighth of the weights, its pack in the page cache (`--io buffered`; the page cache is
not in the peak), against itself with all weights resident.

{table(head, rows)}"""

    def peak(self):
        threads = self.threads[0]
        rows, floors = [], []
        for network in self.networks:
            row = [network.name, mib(network.parameters)]
            for engine in [*PEERS, RESIDENT]:
                result = self.result(network, threads, engine)
                if not result:
                    row.append("–")
                    continue
                before = result.median("rss_before_bytes")
                row.append(f"{mib(result.peak())} ({mib(result.peak() - before)})")
            rows.append(row)
            own = self.result(network, threads, RESIDENT)
            if own:
                packed, alive = network.weights_bytes, network.activation_bytes
                ratio = own.peak() / (packed + alive)
                floors.append(
                    [
                        network.name,
                        mib(packed),
                        mib(alive),
                        mib(network.arena_bytes - packed - alive),
                        mib(own.peak() - network.arena_bytes),
                        mib(own.peak()),
                        f"{ratio:.2f}" if ratio <= MEMORY_RATIO else f"**{ratio:.2f}**",
                    ]
                )
        head = ["network", "model file", *(NAMES.get(peer, peer) for peer in PEERS), "eyelet"]
        own = ["network", "weights as packed", "activations", "scratch and tables", "process", "eyelet's peak", "peak / (weights + activations)"]
        plural = "thread" if threads == 1 else "threads"
        return f"""### Peak memory, {threads} {plural} (MiB)

VmHWM of the whole process, and in brackets that less what was resident before the engine was loaded: onnxruntime,
OpenVINO, ncnn and MNN run in a Python process, eyelet in a small program in C (`examples/c/run.c`).

{table(head, rows)}

What eyelet's peak is made of: weights as packed (transformed ones count as they are), the activations alive at
once, what else is in the arena, and the process around it (code, stacks; less than nothing where parts of the arena
are never touched). Above {MEMORY_RATIO:g} the ratio is marked.

{table(own, floors)}"""

    def agreement(self):
        rows = []
        engines = [*(peer for peer in PEERS if peer != REFERENCE), RESIDENT, EIGHTH]
        for network in self.networks:
            row = [network.name]
            for engine in engines:
                found = (self.result(network, threads, engine) for threads in self.threads)
                errors = [result.error for result in found if result and result.error is not None]
                # Neither does max() see what is not a number.
                worst = max(errors, default=None) if all(map(math.isfinite, errors)) else math.nan
                if worst is None:
                    row.append("–")
                elif worst <= TOLERANCE:
                    row.append(f"{worst:.1e}")
                else:
                    row.append(f"**{worst:.1e}: disagrees**")
            rows.append(row)
        head = ["network", *(NAMES.get(engine, engine) for engine in engines)]
        return f"""### Agreement with {REFERENCE}

The largest difference of any output value, relative to the largest magnitude, over all numbers of threads. Above {TOLERANCE:g} an
engine does not count.

{table(head, rows)}"""

    def missing(self):
        lines = [f"- {name}: {why}" for name, why in self.unmeasured.items()]
        for network in self.networks:
            for engine, why in network.missing.items():
                lines.append(f"- {network.name}, {NAMES.get(engine, engine)}: {why}")
        for (name, threads, engine), result in self.bench.results.items():
            if result.failure:
                lines.append(f"- {name}, {NAMES.get(engine, engine)}, threads {threads}: {result.failure}")
        return "### Not measured\n\n" + "\n".join(lines) if lines else ""

    # 2

    def memory(self):
        rows = []
        for network in self.networks:
            for threads in self.threads:
                whole = self.good(network, threads, RESIDENT)
                for budget in network.budgets:
                    result = self.good(network, threads, Way.name_at(budget))
                    if result:
                        rows.append(self.budget_row(network, threads, budget, result, whole))
        if not rows:
            return ""
        head = ["network", "threads", "budget (MiB)", "VmHWM (MiB)", "VmHWM - budget", "in the page cache", "read each time (MiB)", "latency (ms)", "of that waiting", "latency / resident"]
        return f"""## 2. Memory

eyelet within a budget, weights read past the page cache (`--io direct`).

{table(head, rows)}"""

    @staticmethod
    def budget_row(network, threads, budget, result, whole):
        return [
            network.name,
            threads,
            f"{budget / MIB:g}",
            mib(result.peak()),
            mib(result.peak() - budget),
            mib(result.peak("page_cache_bytes")),
            mib(result.median("bytes_read_per_inference")),
            ms(result.ms),
            ms(result.median("stall_ms")),
            f"{result.ms / whole.ms:.2f}" if whole else "–",
        ]

    # 3

    def checksums(self):
        if self.bench.checksums is None:
            return ""
        name, budget = self.bench.checksums
        network = next(network for network in self.networks if network.name == name)
        rows = []
        for threads in self.threads:
            with_them = self.good(network, threads, Way.name_at(budget))
            without = self.good(network, threads, Way.name_at(budget, verify=False))
            if with_them and without:
                cost = with_them.ms / without.ms - 1
                read = mib(with_them.median("bytes_read_per_inference"))
                rows.append([threads, read, ms(with_them.ms), ms(without.ms), f"{cost:+.1%}"])
        if not rows:
            return ""
        head = ["threads", "read each time (MiB)", "with (ms)", "without (ms)", "cost"]
        return f"""## 3. What checksums cost

{name} within {budget / MIB:g} MiB, with the checksum of every load compared before use (as by default) and with
`--no-verify`, in turns with everything above.

{table(head, rows)}"""

    # 4

    def busy(self):
        rows = []
        count = loops()
        for network in self.loaded.networks:
            for threads in self.threads:
                for engine in self.loaded.engines(network):
                    name = engine.name if isinstance(engine, Way) else engine
                    idle, busy = (self.loaded.results.get((network.name, threads, name, loops)) for loops in (0, count))
                    if idle and busy and idle.ok and busy.ok:
                        rows.append([network.name, threads, NAMES.get(name, name), ms(idle.ms), ms(busy.ms), f"{busy.ms / idle.ms:.1f}"])
        if not rows:
            return ""
        head = ["network", "threads", "engine", "idle (ms)", "busy (ms)", "busy / idle"]
        return f"""## 4. Busy machines

Latency next to {count} processes that loop and want all cores, and without them, in turns. An engine that used its share of a core and
nothing else would take {1 + BUSY_LOOPS_PER_CORE} times as long on one thread. eyelet's budgets are read past the page cache; the first one is
the least that is possible.

{table(head, rows)}"""
