"""Measures a GPU; run.sh starts it, and says what there is to choose."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import kernels  # noqa: E402
import networks  # noqa: E402
import report  # noqa: E402
import shapes  # noqa: E402
import tests_on_gpu  # noqa: E402
from common import ROOT, facts  # noqa: E402
from settings import LAYERING, TINY_LAYERING  # noqa: E402

PARTS = ("tests", "kernels", "latency", "layering")


def log(text):
    print(f"gpu: {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        prog="benches/gpu/run.sh",
        description="Measures eyelet on this machine's GPU beside PyTorch, and writes lab/results/gpu.md.",
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; again for more [default: all]")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "gpu", metavar="DIR", help="where PART.json are written and looked for [default: target/gpu]")
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "gpu-bench", metavar="FOLDER", help="what benches/gpu/pack.sh made [default: target/gpu-bench]")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where networks and packs are made: a disk, for direct reads [default: target/gpu/work]")
    parser.add_argument("--page", type=Path, default=ROOT / "lab" / "results" / "gpu.md", metavar="FILE.md", help="[default: lab/results/gpu.md]")
    parser.add_argument("--networks", metavar="A,B", help=f"of Demand Layering's table; those that DIR has of others stay [default: {','.join(LAYERING)}]")
    parser.add_argument("--no-torch", action="store_true", help="leaves PyTorch's side out")
    parser.add_argument("--tiny", action="store_true", help="a dry run: a few small shapes, a small network, few rounds")
    parser.add_argument("--only-page", action="store_true", help="measures nothing: writes the page from DIR")
    return parser.parse_args()


def torch_side(args):
    """PyTorch's side, or None where it is not wanted."""
    if args.no_torch:
        return None
    import torch_side as torch

    torch.set_up()
    return torch


def measure_kernels(args):
    torch = torch_side(args)
    counts = {shape: {"tiny": 1} for shape in shapes.TINY} if args.tiny else shapes.unique(shapes.networks())
    # What the emulation does in a dry run takes long enough.
    turns, rounds = (1, 2) if args.tiny else (kernels.TURNS, kernels.ROUNDS)
    measured = []
    with kernels.Ours(args.folder / "bench", os.environ) as ours:
        for shape, count in counts.items():
            one = kernels.measure(shape, count, ours, torch and torch.convolution, turns, rounds)
            measured.append(one.report())
            log(f"{shape.name}: {measured[-1].get('ratio', 0):.2f}")
        gpu = ours.gpu
    return {"gpu": gpu, "torch": torch and torch.facts(), "shapes": measured, "summary": kernels.summary(measured)}


def measure(part, args):
    if part == "tests":
        return tests_on_gpu.run(args.folder, log)
    if part == "kernels":
        return measure_kernels(args)
    bench = networks.Bench(args.folder / "eyelet", args.work or args.out / "work", args.tiny, log)
    if part == "latency":
        return bench.latency(torch_side(args))
    names = TINY_LAYERING if args.tiny else LAYERING
    names = args.networks.split(",") if args.networks else names
    return {"rows": others(args.out / "layering.json", names) + bench.layering(names)["rows"]}


def others(path, names):
    """Rows of an earlier call, of other networks than are measured now; a whole table starts anew."""
    if not path.exists() or set(names) == set(LAYERING):
        return []
    return [row for row in json.loads(path.read_text()).get("rows", []) if row["network"] not in names]


def main():
    args = arguments()
    if not args.only_page and not (args.folder / "eyelet").exists():
        log(f"{args.folder} is not there: building")
        subprocess.run([HERE / "pack.sh", args.folder], check=True)
    args.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for part in [] if args.only_page else args.part or PARTS:
        start = time.monotonic()
        try:
            data = measure(part, args)
        except Exception as error:  # noqa: BLE001: the other parts go on, and what went wrong is on the page
            log(f"{part}: {error}")
            data = {"error": f"{type(error).__name__}: {error}"}
            failed.append(part)
        version = (args.folder / "version").read_text().strip()
        about = facts("benches/gpu/run.sh") | {"eyelet": version, "Dry run": "yes" if args.tiny else "no"}
        data |= {"facts": about, "seconds": round(time.monotonic() - start, 1)}
        (args.out / f"{part}.json").write_text(json.dumps(data, indent=1))
        failed += [part] if data.get("failed") else []
        log(f"{part}: {data['seconds']} s")
    found = {part: args.out / f"{part}.json" for part in PARTS}
    page = report.page({part: json.loads(path.read_text()) for part, path in found.items() if path.exists()})
    args.page.write_text(page)
    log(f"wrote {args.page}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
