"""Latency while others want the cores: some engines, idle and next to busy loops, in turns."""

import contextlib
import os
import signal
import subprocess

from common import Failed
from measure import REFERENCE, RESIDENT, Result, Way, output_file
from settings import BUSY_LOOPS_PER_CORE

# Inferences next to busy loops, of those on an idle machine: each takes several times as long.
FEWER = 4


def loops():
    """Busy loops on this machine."""
    return BUSY_LOOPS_PER_CORE * len(os.sched_getaffinity(0))


@contextlib.contextmanager
def busy(count):
    """So many processes that do nothing, as fast as they can."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()


class Busy:
    """Runs some networks and budgets of a bench idle and busy. `results` are by network, threads, engine and loops."""

    def __init__(self, bench, networks):
        self.bench = bench
        self.networks = [network for network in bench.networks if network.name in networks]
        self.results = {}

    def engines(self, network):
        """The reference, eyelet with all weights resident, and eyelet within its budgets, the least first."""
        budgets = sorted({network.least, *network.budgets})
        resident = Way(RESIDENT, network.pack(network.everything), "direct")
        return [REFERENCE, *(Way.at(network, budget) for budget in budgets), resident]

    def run(self):
        for number in range(self.bench.rounds):
            for network in self.networks:
                for threads in self.bench.threads:
                    for count in (0, loops()):
                        self.bench.log(f"round {number + 1} of {self.bench.rounds}: {network.name}, threads {threads}, {count} busy loops")
                        with busy(count):
                            self.turn(network, threads, count)

    def turn(self, network, threads, count):
        """Every engine once."""
        runs, warmup = self.bench.counts(network, threads)
        if count:
            runs = max(5, runs // FEWER)
        for engine in self.engines(network):
            name = engine.name if isinstance(engine, Way) else engine
            result = self.results.setdefault((network.name, threads, name, count), Result())
            if result.failure or name in network.missing:
                continue
            output = output_file(network, f"{name} busy", threads)
            one = self.bench.run_eyelet if isinstance(engine, Way) else self.bench.run_peer
            try:
                report = one(network, engine, threads, warmup, runs, output)
            except Failed as failed:
                result.failure = str(failed)
                self.bench.log(f"  {name} failed: {failed}")
                continue
            result.rounds.append(report["latency_ms"]["median"])
            result.reports.append(report)
