#!/usr/bin/env python3
"""Plans every network of the zoo and writes its section of docs/networks.md.

    tools/networks.py                      prints the table, by target/debug/eyelet
    tools/networks.py --write              writes the section
    tools/networks.py --only vgg19 gpt2    some of the networks

Networks are made one after the other in a folder that is removed: the largest takes a gigabyte. Plans are for a named
board, from its costs, so that the table is the same on every machine.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "networks.md"
MIB = 1 << 20
# More than any network has with all of its weights resident, in multiples of the weights and beyond.
ROOM = 8 << 30

PREFACE = """# Networks

Networks that are known to work, and the memory that they need.
"""

TITLE = "The zoo"
HEAD = """
The zoo's networks have random weights and the shapes of published ones: torchvision's, GPT-2, keyword spotting,
detectors. `eyelet zoo NAME` writes one. Those of Darknet are a description and a file of weights.

The table is for the board `{board}`. Times are predicted from its costs. The smallest budget is exact: no plan takes
less. Where an eighth of the weights is below the smallest budget, the smallest budget is planned.

| network | input | parameters, million | multiply-accumulates, G | weights, MiB | smallest budget, MiB | latency at 1/8 of the weights, ms | all resident, ms |
|---|---|---|---|---|---|---|---|
"""

TAIL = """
Made by `tools/networks.py --write`.
"""


def call(command, *args, folder=None):
    """The JSON that a verb prints."""
    done = subprocess.run([command, *map(str, args), "--json"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def replace_section(page, title, text):
    """Gives the section of a page with this title this text, and makes page and section where they are missing."""
    before = page.read_text() if page.exists() else PREFACE
    heading = f"\n## {title}\n"
    start = before.find(heading)
    if start < 0:
        page.write_text(before + heading + text)
        return
    end = before.find("\n## ", start + len(heading))
    page.write_text(before[:start] + heading + text + (before[end:] if end >= 0 else ""))


def row(command, board, network, folder):
    """The line of a network."""
    name = network["name"]
    written = call(command, "zoo", name, folder=folder)
    model = pathlib.Path(folder) / written["file"]
    target = ["--board", board]
    least = call(command, "plan", model, "--min-budget", *target)["min_budget_bytes"]
    eighth = max(least, network["file_bytes"] // 8)
    sweep = call(
        command, "sweep", model, "--strategies", "joint", "--points", 2, "--budgets", f"{eighth}..{eighth + ROOM}", *target
    )
    eighth_ms, resident_ms = (point["predicted_ms"] for point in sweep["points"])
    for file in pathlib.Path(folder).iterdir():
        file.unlink()
    cells = [
        name,
        "x".join(map(str, network["input"])),
        f"{network['parameters'] / 1e6:.2f}",
        f"{network['macs'] / 1e9:.2f}",
        f"{sweep['weights_bytes'] / MIB:.1f}",
        f"{least / MIB:.2f}",
        f"{eighth_ms:.1f}" + ("" if eighth > least else " (smallest)"),
        f"{resident_ms:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=ROOT / "target" / "debug" / "eyelet", type=pathlib.Path)
    parser.add_argument("--board", default="raspberry-pi-4")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    command = args.command.resolve()
    networks = call(command, "zoo", "--list")["networks"]
    lines = []
    for network in networks:
        if args.only and network["name"] not in args.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            lines.append(row(command, args.board, network, folder))
        print(lines[-1], flush=True)
    if args.write:
        replace_section(PAGE, TITLE, HEAD.format(board=args.board) + "\n".join(lines) + "\n" + TAIL)


if __name__ == "__main__":
    main()
