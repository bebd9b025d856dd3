#!/usr/bin/env python3
"""How much less memory plans would take if everything in them were placed by a complete search.

    lab/trials/placing.py [NETWORK]...     on the costs of host-avx2; the programs `eyelet` and `alloc` are built

Plans for the smallest budget, and for one with room for all weights, are taken as they are: slices, strips and steps.
Activations, scratch and loads become rectangles: what lives from which step to which, and its bytes. A load lives only as
long as steps read it, as if storage took no time. Then no placement of rectangles is lower than the bytes that are alive
at once (peak), and `alloc` finds one as low as it can. Plans may lie lower still: rings and outputs share bytes with what
is read, line by line, which rectangles cannot.
"""

import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = ["inception_v4", "nasnet_a", "densenet201", "yolov3", "unet", "resnet152"]
EYELET = ROOT / "target" / "debug" / "eyelet"
ALLOC = ROOT / "target" / "lab" / "debug" / "alloc"
SECONDS, PAGE = 20, 4096


def plan_of(model, budget, folder):
    """The plan for a budget, as the report draws it."""
    made = ["plan", model, *budget, "--board", "host-avx2", "--exact", "--effort", "fast",
            "-o", "net.pack", "--report", "net.html"]
    subprocess.run([EYELET, *made], cwd=folder, check=True, capture_output=True)
    page = (folder / "net.html").read_text()
    start = page.index('{"network":')
    return json.JSONDecoder().raw_decode(page, start)[0]["plans"][0]


def rectangles(plan):
    """First and last step, and bytes: of activations, and of all. The steps of an inference are 1 to n."""
    end = len(plan["steps"]["layer"]) + 1
    buffers = plan["buffers"]
    lives = list(zip(buffers["first"], buffers["last"], buffers["bytes"]))
    rest = [(at + 1, at + 1, bytes) for at, bytes in enumerate(plan["steps"]["scratch_bytes"]) if bytes]
    loads = plan["loads"]
    places = list(zip(loads["address"], loads["pages"], loads["first"]))
    for at, (address, pages, first) in enumerate(places):
        # No later than that is its last reader: another load has come to its place.
        over = (later for start, more, later in places[at + 1:] if start < address + pages and address < start + more)
        last = min(first + loads["more"][at], next(over, end) - 1)
        # Parts of it are free when their last reader is done.
        parts = loads["parts"][at] or [(0, last)]
        for (start, until), stop in zip(parts, [start for start, _ in parts[1:]] + [pages]):
            rest.append((first + 1, min(until, last) + 1, (stop - start) * PAGE))
    rest += [(0, end, pages * PAGE) for pages in plan["residents"]["pages"]]
    return lives, lives + rest


def peak_of(items):
    changes = sorted([(first, bytes) for first, _, bytes in items] + [(last + 1, -bytes) for _, last, bytes in items])
    most = now = 0
    for _, bytes in changes:
        now += bytes
        most = max(most, now)
    return most


def height_of(items, capacity, folder):
    """What the complete search needs at most, in its time."""
    rows = [f"{k},{first},{last + 1},{bytes},64" for k, (first, last, bytes) in enumerate(items)]
    (folder / "b.csv").write_text("id,lower,upper,size,alignment\n" + "\n".join(rows) + "\n")
    words = ["b.csv", "--capacity", str(capacity), "--time-limit", str(SECONDS), "-o", "out.csv"]
    done = subprocess.run([ALLOC, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode == 0:
        return capacity
    return int(re.search(r"height found is (\d+)", done.stderr)[1])


def main():
    print("| network | arena | activations | their peak | by `alloc` | all but tables | peak | by `alloc` | gain at most |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    budgets = {"smallest": ["--min-budget"], "all weights": ["--budget", "8GiB"]}
    for network, (budget, option) in itertools.product(sys.argv[1:] or NETWORKS, budgets.items()):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            written = subprocess.run([EYELET, "zoo", network, "--json"], cwd=folder, check=True, capture_output=True)
            plan = plan_of(json.loads(written.stdout)["file"], option, folder)
            activations, every = rectangles(plan)
            buffers = plan["buffers"]
            ends = [at + bytes for at, bytes in zip(buffers["address"], buffers["bytes"])]
            cells = [plan["arena"]]
            heights = max(ends) - min(buffers["address"]), plan["arena"] - plan["tables"]
            for items, ours in zip((activations, every), heights):
                peak = peak_of(items)
                cells += [ours, peak, height_of(items, peak, folder)]
        gain = (cells[4] - cells[5]) / cells[0]
        print(f"| {network}, {budget} | " + " | ".join(f"{bytes:,}" for bytes in cells) + f" | {100 * gain:.2f} % |", flush=True)


if __name__ == "__main__":
    main()
