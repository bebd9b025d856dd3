#!/usr/bin/env python3
"""Takes every export of tools/torch_models.py through the command, and compares with onnxruntime's output.

    ENV/bin/python tools/check_torch.py FOLDER [MODEL | MODEL/EXPORT ...]      (needs numpy)

For each export:
- the smallest feasible budget is what `plan --min-budget` names, and a plan for just that is made;
- a pack is planned, with --exact and --effort fast, for a small budget (1.3 times the smallest) and for one that
  holds everything;
- `check` proves the pack;
- `run` at each of the three budgets, with one and with two threads, gives one and the same output, bit for bit;
- that output differs from the expected one by at most 1e-4 of its largest magnitude;
- planning takes less than a second.

A line a check: the largest difference as a share of the largest magnitude (err/max) and of the standard
deviation (err/std), layers by kind, the smallest budget, milliseconds of planning (import, passes and all
plans). EYELET names the command (default target/release/eyelet), WORK a folder for packs.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

EYELET = os.environ.get("EYELET", "target/release/eyelet")
TOLERANCE = 1e-4
PLANNING_MS = 1000
THREADS = (1, 2)
SMALL = 1.3
LARGE = 1 << 30
TIMEOUT_S = 300


class Failure(Exception):
    """A check that did not hold; the text says which."""


def eyelet(*arguments):
    """The report of a verb."""
    arguments = [EYELET, *map(str, arguments), "--json"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise Failure(f"{arguments[1]}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def smallest(model):
    """The smallest feasible budget."""
    return eyelet("plan", model, "--exact", "--threads", THREADS[-1], "--min-budget")["min_budget_bytes"]


def check(model, image, expected, work):
    """What is worth telling about an export that passes; raises Failure for one that does not."""
    pack = work / "net.pack"
    least = smallest(model)
    budgets = [least, int(least * SMALL), LARGE]
    planned = eyelet(
        "plan", model, "--exact", "--effort", "fast", "--threads", THREADS[-1], "--budget", *budgets, "-o", pack
    )
    eyelet("check", pack)
    kinds = Counter(layer["kind"] for layer in eyelet("inspect", pack)["layers"])

    digests = {}
    for budget in budgets:
        for threads in THREADS:
            run = eyelet(
                "run", pack, "--budget", budget, "--threads", threads, "--input", image, "--output", work
            )
            digests[f"{budget} bytes, {threads} threads"] = run["output_digest"]
    (output,) = run["outputs"]
    found = np.load(output["file"])
    if found.shape != expected.shape:
        raise Failure(f"output has shape {found.shape}, expected {expected.shape}")
    difference = np.abs(found.astype(np.float64) - expected).max()
    told = {
        "err/max": difference / np.abs(expected).max(),
        "err/std": difference / expected.std(),
        "kinds": kinds,
        "smallest": least,
        "planning_ms": planned["import_ms"] + planned["planning_ms"],
    }
    if not told["err/max"] <= TOLERANCE:  # also where it is no number
        raise Failure(f"differs by {told['err/max']:.1e} of the largest magnitude, {told['err/std']:.1e} std")
    if len(set(digests.values())) != 1:
        raise Failure(f"outputs differ: {digests}")
    if told["planning_ms"] > PLANNING_MS:
        raise Failure(f"planning took {told['planning_ms']:.0f} ms")
    return told


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    wanted = sys.argv[2:]
    exports = sorted(folder.glob("*/*.onnx"))
    exports = [e for e in exports if not wanted or {e.parent.name, f"{e.parent.name}/{e.stem}"} & set(wanted)]
    if not exports:
        sys.exit(f"no exports in {folder}: make them with tools/torch_models.py")
    failed = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("WORK")) as work:
        for path in exports:
            name = f"{path.parent.name}/{path.stem}"
            expected = np.load(path.with_suffix(".output.npy"))
            try:
                told = check(path, path.parent / "input.npy", expected, Path(work))
            except (Failure, subprocess.TimeoutExpired) as failure:
                failed += 1
                print(f"FAIL {name}: {failure}", flush=True)
                continue
            kinds = " ".join(f"{kind} {count}" for kind, count in told["kinds"].most_common())
            print(
                f"ok   {name:32} err/max {told['err/max']:.1e} err/std {told['err/std']:.1e} "
                f"smallest {told['smallest'] / (1 << 20):6.2f} MiB planning {told['planning_ms']:4.0f} ms: {kinds}",
                flush=True,
            )
    print(f"{len(exports) - failed} of {len(exports)} ok")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
