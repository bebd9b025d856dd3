#!/usr/bin/env python3
"""What `eyelet run` takes beside its arena: the peak of the process, as the kernel has it, for networks of the zoo in many uses.

    tools/memory.py                                    all networks, all uses; a table
    tools/memory.py --networks squeezenet1_1 vit_b_16  some
    tools/memory.py --most 5                           exit code 1 where a process takes more MiB beside its budget

Each network is planned for the board `host-avx2` or the one that --board names: for its smallest budget, for one that
holds half of its weights, and for one that holds all. Each plan is run in each use. What counts is the peak of resident memory
(VmHWM, by wait4) less the budget, or less the arena where the plan leaves some of its budget.
"""

import argparse
import ctypes
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NETWORKS = ["squeezenet1_1", "mobilenet_v2", "resnet50", "inception_v3", "vit_b_16", "vgg19", "densenet201", "gpt2", "unet"]
# Of these inputs are integers: rows of tables.
INTEGERS = ["gpt2"]
MIB = 1 << 20
# Of Linux, for prctl.
CHILD_SUBREAPER = 36
# Options of each use. IN and OUT stand for files; the first input is that of all others.
USES = {
    "plain": [],
    "one thread": ["--threads", "1"],
    "json": ["--json"],
    "input": ["--input", "IN"],
    "input and output": ["--input", "IN", "--output", "OUT"],
    "layers": ["--layers"],
    "trace": ["--trace", "OUT.json"],
    "report": ["--report", "OUT.html"],
}


def call(command, *args):
    """What a verb reports."""
    done = subprocess.run([str(word) for word in (command, *args, "--json")], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"eyelet {' '.join(map(str, args))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def peak(words, errors):
    """Bytes that a process had resident at most.

    The kernel counts what a process had before it became another program, and Python has more than some networks take. So a
    shell starts it and ends, and this process is the one that it is left to.
    """
    shell = ["sh", "-c", '"$@" >/dev/null 2>"$0" & echo $!', errors, *words]
    child = int(subprocess.run(shell, stdout=subprocess.PIPE, check=True).stdout)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(map(str, words))}: {errors.read_text().strip()}")
    return usage.ru_maxrss << 10


def budgets_of(command, model, board):
    """Three budgets: the smallest, half of the weights, and all of them."""
    least = call(command, "plan", model, "--board", board, "--min-budget")["min_budget_bytes"]
    weights = model.stat().st_size
    return sorted({least, max(least, weights // 2), 5 * weights // 4 + (64 << 20)})


def values(plan, path):
    """Writes the first input of a plan's network."""
    shape = tuple(plan["inputs"][0]["shape"])
    kind, one = ("<i8", struct.pack("<q", 1)) if plan["network"] in INTEGERS else ("<f4", struct.pack("<f", 1))
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}"
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(one * math.prod(shape))


def of_network(command, folder, name, board, uses):
    """Bytes beside the budget, by use, of all plans of a network."""
    model, pack = folder / f"{name}.onnx", folder / f"{name}.pack"
    call(command, "zoo", name, "-o", model)
    found = {use: [] for use in uses}
    for budget in budgets_of(command, model, board):
        plan = call(command, "plan", model, "--board", board, "--budget", budget, "--effort", "fast", "-o", pack)
        values(plan, folder / "in.npy")
        taken = min(budget, plan["plans"][0]["arena_bytes"])
        for use in uses:
            words = [str(folder / word.replace("IN", "in.npy").replace("OUT", "out")) if word[:2] in ("IN", "OU") else word
                     for word in USES[use]]
            ran = peak([command, "run", pack, "--runs", "2", *words], folder / "errors")
            found[use].append(ran - taken)
        pack.unlink()
    model.unlink()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=ROOT / "target" / "release" / "eyelet", type=pathlib.Path)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME")
    parser.add_argument("--uses", nargs="+", default=list(USES), metavar="USE")
    parser.add_argument("--board", default="host-avx2")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "target", help="on a disk, where packs lie")
    parser.add_argument("--most", type=float, metavar="MIB")
    args = parser.parse_args()
    command = args.command.resolve()
    # Whose parent has ended becomes this process's child.
    ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1)
    found = {use: [] for use in args.uses}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for name in args.networks:
            one = of_network(command, pathlib.Path(folder), name, args.board, args.uses)
            for use, bytes_of in one.items():
                found[use] += [(beside, name) for beside in bytes_of]
            print(f"{name}: {max(max(bytes_of) for bytes_of in one.values()) / MIB:.2f} MiB at most", file=sys.stderr, flush=True)
    print(f"| use | median, MiB | most, MiB | of |\n|---|---|---|---|")
    for use, all_of in found.items():
        most, name = max(all_of)
        print(f"| {use} | {statistics.median(beside for beside, _ in all_of) / MIB:.2f} | {most / MIB:.2f} | {name} |")
    worst = max(max(all_of) for all_of in found.values())
    if args.most and worst[0] > args.most * MIB:
        raise SystemExit(f"{worst[1]} takes {worst[0] / MIB:.2f} MiB beside its arena, of {args.most} MiB that are promised")


if __name__ == "__main__":
    main()
