#!/usr/bin/env python3
"""Plans the networks of the zoo for every board, and writes lab/results/boards-predicted.md.

    tools/boards_predicted.py                                  prints the page, by target/debug/eyelet
    tools/boards_predicted.py --write                          writes it
    tools/boards_predicted.py --only gpt2 --boards cortex-a53  some of the networks and boards
    tools/boards_predicted.py --keep FILE --write              keeps the figures in FILE, and makes only those that it lacks

A board's GPU is NAME:cuda. Networks are made one after the other in a folder that is removed: the largest takes a gigabyte.
Everything is predicted from the costs of named boards, so that the page is the same on every machine.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from networks import ROOM, ROOT

PAGE = ROOT / "lab" / "results" / "boards-predicted.md"
MIB = 1 << 20

# Boards that QEMU emulates are not among them: an emulator's costs say nothing about hardware.
BOARDS = {
    "raspberry-pi-4": "Raspberry Pi 4",
    "cortex-a53": "A board with four Cortex-A53",
    "rockpro64": "RockPro64, all six cores",
    "jetson-nano": "Jetson Nano, processor",
    "jetson-nano:cuda": "Jetson Nano, GPU",
    "jetson-xavier-nx": "Jetson Xavier NX, processor",
    "jetson-xavier-nx:cuda": "Jetson Xavier NX, GPU",
    "jetson-orin-nano": "Jetson Orin Nano, processor",
    "jetson-orin-nano:cuda": "Jetson Orin Nano, GPU",
    "host-neon": "64-bit ARM server",
    "host-avx2": "x86-64 with AVX2",
    "host-avx512": "x86-64 with AVX-512",
    "gpu-host:cuda": "A server's GPU",
    "portable": "Any processor, portable kernels",
}
# Larger relatives of networks that are there: with them planning takes hours, without about twenty minutes.
LEFT_OUT = ["densenet201", "wide_resnet50_2", "wide_resnet152", "inception_v4", "vit_b_16_384", "brnn", "unet", "fcn_resnet50"]
LEFT_OUT += ["yolov3", "yolov4", "yolov4_p6"]
# Columns after the smallest budget: shares of the weights, and room for all.
SHARES = {"1/8": 8, "1/4": 4, "1/2": 2}
# So many of the widest gaps are listed.
LISTED = 20


def call(command, *args, folder=None):
    """The JSON that a verb prints, or its error as text."""
    done = subprocess.run([command, *map(str, args), "--json"], cwd=folder, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()


def predict(command, model, target, file_bytes):
    """What is predicted of a network on a board: the smallest budget, and a sweep; or an error."""
    board, _, device = target.partition(":")
    options = ["--board", board] + (["--device", device] if device else [])
    least = call(command, "plan", model, "--min-budget", *options)
    if isinstance(least, str):
        return {"error": least}
    least = least["min_budget_bytes"]
    shares = [file_bytes // parts for parts in SHARES.values()]
    budgets = sorted({least, ROOM, *(bytes for bytes in shares if bytes > least)})
    sweep = call(command, "sweep", model, "--strategies", "joint", "--budgets", ",".join(map(str, budgets)), *options)
    return {"error": sweep} if isinstance(sweep, str) else {"least": least, "sweep": sweep}


def collect(command, networks, boards, kept):
    """Figures of all networks and boards, with those that were kept."""
    for network in networks:
        name = network["name"]
        known = kept.setdefault(name, {})
        missing = [board for board in boards if board not in known]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as folder:
            written = call(command, "zoo", name, folder=folder)
            model = pathlib.Path(folder) / written["file"]
            for board in missing:
                known[board] = predict(command, model, board, network["file_bytes"])
        yield name


class Cell:
    """One plan: a network on a board, in a budget."""

    def __init__(self, board, network, column, found, budget):
        point = next(p for p in found["sweep"]["points"] if p["budget_bytes"] == budget)
        bounds = {b["budget_bytes"]: b["lower_bound_ms"] for b in found["sweep"]["budgets"]}
        self.board, self.network, self.column, self.budget = board, network, column, budget
        self.feasible = point["feasible"]
        if self.feasible:
            self.ms, self.bound = point["predicted_ms"], bounds[budget]
            self.gap = self.ms / self.bound - 1
            self.read = point["bytes_read_per_inference"]
            self.weights = found["sweep"]["weights_bytes"]

    def text(self):
        if not self.feasible:
            return "no plan"
        return f"{digits(self.ms)} (+{100 * self.gap:.0f} %)"


def digits(ms):
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def cells(board, network, found):
    """The columns of a line of a table; None where a share is below the smallest budget."""
    budgets = [point["budget_bytes"] for point in found["sweep"]["points"]]
    row = {"smallest": Cell(board, network["name"], "smallest", found, found["least"])}
    for name, parts in SHARES.items():
        share = network["file_bytes"] // parts
        row[name] = Cell(board, network["name"], name, found, share) if share > found["least"] and share in budgets else None
    row["all"] = Cell(board, network["name"], "all", found, ROOM)
    return row


def table(heads, lines):
    rule = "|".join("---:" if index else "---" for index in range(len(heads)))
    return "\n".join(["| " + " | ".join(heads) + " |", f"|{rule}|", *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"


def board_section(title, networks, board, rows):
    """The table of a board, and which networks it cannot have."""
    heads = ["network", "weights (MiB)", "smallest budget (MiB)", "in it", *(f"in {name}" for name in SHARES), "all resident"]
    lines = []
    for network in networks:
        row = rows.get((board, network["name"]))
        if row is None:
            continue
        texts = [cell.text() if cell else "–" for cell in row.values()]
        weights = network["file_bytes"] / MIB
        lines.append([network["name"], digits(weights), f"{row['smallest'].budget / MIB:.2f}", *texts])
    missing = [network["name"] for network in networks if (board, network["name"]) not in rows]
    without = f"\nNot there: {', '.join(missing)}. GPUs do not compute recurrent networks.\n" if missing else ""
    return f"## {title}\n\n{table(heads, lines)}{without}\n"


def widths(found):
    """How wide the gaps are, for each column."""
    lines = []
    for column in ["smallest", *SHARES, "all"]:
        gaps = sorted(cell.gap for cell in found if cell.column == column)
        if not gaps:
            continue
        share = sum(gap < 0.1 for gap in gaps) / len(gaps)
        lines.append([column, str(len(gaps)), f"{100 * statistics.median(gaps):.0f} %", f"{100 * share:.0f} %", f"{100 * gaps[-1]:.0f} %"])
    return table(["budget", "plans", "median gap", "below 10 %", "widest"], lines)


def widest(found):
    """The widest gaps, the smallest budgets aside."""
    listed = sorted((cell for cell in found if cell.column != "smallest"), key=lambda cell: -cell.gap)[:LISTED]
    lines = [
        [
            f"{cell.network}, {BOARDS[cell.board]}",
            cell.column,
            digits(cell.ms),
            digits(cell.bound),
            f"{100 * cell.gap:.0f} %",
            f"{100 * cell.read / cell.weights:.0f} %",
        ]
        for cell in listed
    ]
    return table(["plan", "budget", "predicted (ms)", "bound (ms)", "gap", "reads, of all weights"], lines)


HEAD = """# Boards: predicted latency

What `eyelet plan` predicts of the zoo's networks on each board, by budget, and how far that is above the [lower
bound](../proofs/lower-bound.md). Written by `tools/boards_predicted.py --write`: do not edit.

Nothing here was measured. Costs are those of `boards/NAME/board.toml`, estimated from data sheets. Plans are constructed
without search (`--effort fast`); weights are fp32. Boards that QEMU emulates are left out: [their
results](boards.md) are memory and instructions. So are the zoo's larger relatives of networks that are here;
`tools/boards_predicted.py --only NAME` prints theirs.

A cell is the latency in milliseconds, and in brackets the gap to the bound. The columns are the smallest budget that a
plan exists for, shares of the weights, and room for all weights. A dash stands where the share is below the smallest
budget. *No plan* stands where that budget takes the times of a recurrent network apart: `plan` does this, and `sweep`,
which predicts these figures, does not.

"""

REASONS = """## Why gaps are wide

The bound takes memory to be a liquid: at any moment, each byte that activations leave free holds weights. It counts the
fewest bytes of activations that any way to slide leaves alive. A plan cannot do this in three cases.

- **In the smallest budget** layers slide. Groups of them read their weights again for each strip of the image, so such a
  plan reads more than the network has. A little more memory removes that.
- **Where nearly all weights fit**, and storage is slow. Each kilobyte that is not resident is read in every inference.
  On a Raspberry Pi 4 squeezenet1_1 in 4 MiB computes for 25 ms. The bound keeps all but 1.2 MiB of its weights, and reads
  these in 33 ms. The plan lays out 1.2 MiB of activations, and needs room where streamed weights arrive. So it keeps 2.5
  MiB, and reads 2.3 MiB in 63 ms. mobilenet_v2 in 11.7 MiB keeps 9.9 of 13.4 MiB: 96 ms are predicted, and the bound is
  52. A search (`--effort default`) gains 4 % and 1 %. `--weights fp16` takes 24 and 30 ms: nearly all weights stay.
- **Where inferences are short.** Steps and loads have a fixed cost each, and the bound charges the fewest of them that any
  plan can have. In its smallest budget ds_cnn reads 15 to 21 loads, each of which waits for the storage.

"""


def page(networks, boards, kept):
    rows = {}
    for network in networks:
        for board in boards:
            found = kept.get(network["name"], {}).get(board)
            if found and "error" not in found:
                rows[board, network["name"]] = cells(board, network, found)
    every = [cell for row in rows.values() for cell in row.values() if cell and cell.feasible]
    text = HEAD + "## In short\n\n" + widths(every) + "\n" + REASONS
    text += "The widest gaps, the smallest budgets aside:\n\n" + widest(every) + "\n"
    text += "".join(board_section(BOARDS[board], networks, board, rows) for board in boards)
    return text.rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=ROOT / "target" / "debug" / "eyelet", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", metavar="NETWORK")
    parser.add_argument("--boards", nargs="+", metavar="BOARD", choices=BOARDS, default=list(BOARDS))
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    command = args.command.resolve()
    wanted = lambda name: name in args.only if args.only else name not in LEFT_OUT
    networks = [n for n in call(command, "zoo", "--list")["networks"] if wanted(n["name"])]
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    for name in collect(command, networks, args.boards, kept):
        print(name, flush=True)
        if args.keep:
            args.keep.write_text(json.dumps(kept))
    text = page(networks, args.boards, kept)
    if args.write:
        PAGE.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
