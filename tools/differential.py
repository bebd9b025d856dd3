#!/usr/bin/env python3
"""Compares random small graphs with onnxruntime, and across budgets and threads.

    tools/differential.py --graphs 1000            graphs of the seeds 0 to 999
    tools/differential.py --seed 412 --graphs 1    one graph again
    tools/differential.py --only Resize --only Pad graphs of these operators alone

Each graph is planned with its smallest budget, with half as much again, and with 64 MiB, for one of the boards that this
machine can stand for. Outputs must agree with onnxruntime's within 1e-4 of their largest magnitude, integers exactly; the
runs of one graph must have the same bits. A graph that differs is cut down to the fewest nodes that still differ, and
kept in target/differential/. Refused graphs are counted by reason. Exit code 1 on a difference or a crash; 0 (with a line
that says so) where onnxruntime is missing.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from random_graphs import OPERATORS, Graph
except ImportError:
    print("onnx or onnxruntime is not installed: no random graphs are compared")
    sys.exit(0)

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "target" / "differential"
TOLERANCE = 1e-4
LARGE = 64 << 20
SECONDS = 120
MOST_NODES = 8


class Different(Exception):
    """The outputs differ, or a command crashed."""


class Refused(Exception):
    """An error said why the graph cannot be planned, and which operators are in the way."""

    def __init__(self, stdout, error):
        try:
            blockers = json.loads(stdout).get("blockers", [])
        except (ValueError, AttributeError):
            blockers = []
        self.operators = {blocker["operator"] for blocker in blockers if blocker["operator"]}
        texts = [f"{blocker['operator']}: {blocker['reason']}" for blocker in blockers]
        self.reasons = texts or [error.splitlines()[0].removeprefix("eyelet: error: ")]
        super().__init__(error)


def boards():
    """Boards whose kernels this machine has."""
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    except OSError:
        flags = []
    return ["portable"] + [f"host-{isa}" for isa, flag in (("avx2", "avx2"), ("avx512", "avx512f")) if flag in flags]


class Runner:
    """Plans and runs one graph in a folder of its own."""

    def __init__(self, eyelet, board, folder):
        self.eyelet, self.board, self.folder = eyelet, board, pathlib.Path(folder)

    def call(self, *words):
        words = [str(word) for word in (self.eyelet, *words, "--json")]
        try:
            done = subprocess.run(words, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Different(f"`{words[1]}` takes more than {SECONDS} s") from None
        if done.returncode == 0:
            return json.loads(done.stdout)
        error = done.stderr.decode(errors="replace").strip().replace(f"{self.folder / 'model.onnx'}: ", "")
        if done.returncode == 1 and error.startswith("eyelet: error:") and words[1] == "plan":
            raise Refused(done.stdout, error)
        raise Different(f"`{words[1]}`, exit code {done.returncode}: {error}")

    def compare(self, graph, outputs, given=()):
        """Raises what is wrong with the part of the graph that makes these outputs."""
        model, inputs = graph.model(outputs, given)
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        feeds = []
        for index, tensor in enumerate(inputs):
            file = self.folder / f"in{index}.npy"
            np.save(file, tensor.value)
            feeds.append(f"--input={file}")
        digests = {}
        plan = ["plan", path, "--board", self.board, "--threads", "2", "--effort", "fast", "--exact"]
        pack = self.folder / "least.pack"
        least = self.call(*plan, "--min-budget", "-o", pack)["plans"][0]["budget_bytes"]
        self.run(pack, least, 1, feeds, outputs, digests)
        pack = self.folder / "more.pack"
        more = max(least + least // 2, least + 4096)
        self.call(*plan, "--budget", more, "--budget", LARGE, "-o", pack)
        self.run(pack, more, 2, feeds, outputs, digests)
        self.run(pack, LARGE, 1 + graph.seed % 2, feeds, outputs, digests)
        if len(set(digests.values())) != 1:
            raise Different(f"runs have different bits: {digests}")

    def run(self, pack, budget, threads, feeds, outputs, digests):
        folder = self.folder / "out"
        report = self.call("run", pack, "--io", "buffered", "--threads", threads, "--budget", budget, "--runs", 2,
                           "--output", folder, *feeds)
        digests[f"{budget} bytes, {threads} threads"] = report["output_digest"]
        for tensor, port in zip(outputs, report["outputs"]):
            check(tensor, np.load(port["file"]))


def check(tensor, found):
    wanted = tensor.value
    if found.shape != wanted.shape:
        raise Different(f"`{tensor.name}` has shape {found.shape}, not {wanted.shape}")
    if wanted.dtype.kind != "f":
        if not np.array_equal(found.astype(np.float64), wanted.astype(np.float64)):
            raise Different(f"`{tensor.name}`: integers differ")
        return
    worst = np.abs(found.astype(np.float64) - wanted).max()
    # A result near zero of terms near one has their rounding, a few times 1e-7.
    if not worst <= TOLERANCE * max(np.abs(wanted).max(), 1e-2):
        raise Different(f"`{tensor.name}` differs by {worst:.2e}, of a largest magnitude of {np.abs(wanted).max():.2e}")


def shrunk(runner, graph):
    """The fewest nodes that still differ: of the outputs that do, the first; of its operands, as many as can be given."""
    made = {name for node in graph.nodes for name in node.output}
    tensors = [tensor for tensor in graph.tensors if tensor.name in made]
    for tensor in tensors:
        for depth in range(1, len(graph.nodes) + 1):
            given = outside(graph, tensor.name, depth)
            try:
                runner.compare(graph, [tensor], given)
            except Different as problem:
                return [tensor], given, str(problem)
            except Refused:
                continue
    return None


def outside(graph, name, depth):
    """Tensors that are read, and not made, by the nodes at most `depth` before this tensor."""
    maker = {output: node for node in graph.nodes for output in node.output}
    inside, border = {name}, {name}
    for _ in range(depth):
        border = {read for output in border if output in maker for read in maker[output].input} - inside
        inside |= {name for name in border}
    kept = border & set(maker)
    return kept - {name}


def ends(graph, refused):
    """Tensors that nothing reads, of the part of the graph that needs no refused operator."""
    made, lost = [], set()
    for node in graph.nodes:
        if node.op_type in refused or lost & set(node.input):
            lost |= set(node.output)
        else:
            made.append(node)
    read = {name for node in made for name in node.input}
    names = {name for node in made for name in node.output} - read
    return [tensor for tensor in graph.tensors if tensor.name in names], [node.op_type for node in made]


def one(arguments, seed):
    """What became of the graph of this seed: how, its operators, and why."""
    chosen = {name: OPERATORS[name] for name in arguments.only or OPERATORS}
    graph = Graph(seed).grow(chosen, 1 + seed % MOST_NODES)
    refused, reasons = set(), []
    with tempfile.TemporaryDirectory(prefix="differential-") as folder:
        runner = Runner(arguments.eyelet, arguments.boards[seed % len(arguments.boards)], folder)
        while True:
            outputs, operators = ends(graph, refused)
            if not outputs:
                return "refused", operators, reasons
            try:
                runner.compare(graph, outputs)
                return "same", operators, reasons
            except Refused as refusal:
                reasons += refusal.reasons
                if not refusal.operators - refused:
                    return "refused", operators, reasons
                refused |= refusal.operators
            except Different as problem:
                return "different", operators, [kept(runner, graph, outputs, str(problem))]


def kept(runner, graph, outputs, text):
    """Keeps what is left of a graph that differs, and says what it is."""
    outputs, given, text = shrunk(runner, graph) or (outputs, (), text)
    model, inputs = graph.model(outputs, given)
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{graph.seed}.onnx"
    onnx.save(model, path)
    for index, tensor in enumerate(inputs):
        np.save(KEPT / f"{graph.seed}-in{index}.npy", tensor.value)
    nodes = ", ".join(node.op_type for node in model.graph.node)
    return f"{nodes} on {runner.board}: {text} ({path.relative_to(ROOT)})"


def general(text):
    """A refusal without names and numbers."""
    return re.sub(r"(?<!\w)\d+", "N", re.sub(r"`[^`]*`", "`…`", text))[:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eyelet", default="target/debug/eyelet")
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", action="append", metavar="OPERATOR", help="an operator of the list that --operators prints")
    parser.add_argument("--operators", action="store_true", dest="names", help="prints the operators")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if arguments.names:
        print("\n".join(OPERATORS))
        return 0
    unknown = set(arguments.only or ()) - set(OPERATORS)
    if unknown:
        parser.error(f"no operator {', '.join(sorted(unknown))}; --operators prints all")
    arguments.boards = boards()
    outcomes, refusals, reached = collections.Counter(), collections.Counter(), collections.Counter()
    seeds = range(arguments.seed, arguments.seed + arguments.graphs)
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        for seed, result in zip(seeds, pool.map(one, [arguments] * len(seeds), seeds, chunksize=1)):
            outcome, operators, texts = result
            outcomes[outcome] += 1
            if outcome == "same":
                reached.update(set(operators))
            if outcome == "different":
                print(f"FAIL seed {seed}: {texts[0]}", flush=True)
            else:
                refusals.update(set(map(general, texts)))
    for text, count in refusals.most_common(12):
        print(f"refused {count}: {text}")
    print(f"{len(seeds)} graphs: {outcomes['same']} agree, {outcomes['refused']} refused as a whole, {outcomes['different']} differ; "
          f"{len(reached)} operators compared")
    return 1 if outcomes["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
