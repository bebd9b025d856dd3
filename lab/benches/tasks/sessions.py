#!/usr/bin/env python3
"""A session of onnxruntime for each network in one process, jobs by a period: what a user does today.

    sessions.py PERIOD_MS JOBS LONGEST_S SEED MODEL...

Prints jobs, misses, p99 of each network, and memory by the kernel's count, as JSON. One thread computes, for the
request with the earliest deadline. Offsets are random, as `eyelet serve` has them.
"""

import json
import random
import sys
import time

import numpy
import onnxruntime


def status(name):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))


def main():
    period, jobs, longest, seed = float(sys.argv[1]) / 1e3, int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    before = status("VmRSS")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"]) for path in sys.argv[5:]]
    inputs = []
    for session in sessions:
        shapes = {port.name: [d if isinstance(d, int) else 1 for d in port.shape] for port in session.get_inputs()}
        numbers = numpy.random.default_rng(0)
        inputs.append({name: numbers.standard_normal(shape, "float32") for name, shape in shapes.items()})
        session.run(None, inputs[-1])
    chance = random.Random(seed)
    start = time.monotonic()
    arrivals = [start + chance.random() * period for _ in sessions]
    responses = [[] for _ in sessions]
    missed = 0
    while sum(map(len, responses)) < jobs and time.monotonic() - start < longest:
        # All have one period: the earliest arrival has the earliest deadline.
        k = min(range(len(sessions)), key=lambda k: arrivals[k])
        time.sleep(max(0, arrivals[k] - time.monotonic()))
        sessions[k].run(None, inputs[k])
        response = time.monotonic() - arrivals[k]
        responses[k].append(response * 1e3)
        missed += response > period
        arrivals[k] += period
    p99 = [sorted(times)[(len(times) * 99 + 99) // 100 - 1] if times else 0 for times in responses]
    peak = status("VmHWM")
    found = {"jobs": sum(map(len, responses)), "missed": missed, "p99_ms": p99}
    print(json.dumps(found | {"peak_bytes": peak, "before_bytes": before}))


if __name__ == "__main__":
    main()
