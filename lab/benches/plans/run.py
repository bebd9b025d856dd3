"""Measures plans: strategies beside each other and the bound; run.sh sets up what this needs and starts it."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benches"))

from common import ROOT, eyelet, facts  # noqa: E402
from measure import Bench  # noqa: E402
from report import Report  # noqa: E402
from settings import IO, NETWORKS  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(
        prog="lab/benches/plans/run.sh",
        description="Measures eyelet's strategies on this machine, and writes lab/results/plans.md.",
    )

    def names(text):
        return [name for name in text.split(",") if name]

    def rounds(text):
        if int(text) < 2:
            raise ValueError
        return int(text)

    parser.add_argument("--networks", type=names, default=NETWORKS, metavar="A,B", help=f"of `eyelet zoo --list` [default: {','.join(NETWORKS)}]")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="compute threads [default: 1]")
    parser.add_argument("--rounds", type=rounds, default=6, metavar="N", help="turns that every plan takes, two at least [default: 6]")
    parser.add_argument("--seconds", type=float, default=0.2, metavar="S", help="of inferences for each plan in each try of a turn, three at least [default: 0.2]")
    parser.add_argument("--effort", metavar="E", help="of `eyelet plan` [default: its own]")
    parser.add_argument("--output", type=Path, default=ROOT / "lab" / "results" / "plans.md", metavar="FILE.md", help="[default: lab/results/plans.md]")
    return parser.parse_args()


def draw(bench, output):
    """The curves beside the page; none without the library that draws them."""
    try:
        from curves import draw as figure
    except ImportError:
        return []
    drawn = []
    folder = output.parent / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    for network in bench.networks:
        for io in IO:
            plans = [plan for plan in bench.plans if (plan.network, plan.io) == (network, io)]
            if plans:
                path = folder / f"{network}-{io}.svg"
                figure(plans, network, io, path)
                drawn.append((f"{network}, {io}", path.relative_to(output.parent)))
    return drawn


def main():
    args = arguments()
    work = ROOT / "target" / "plans"
    work.mkdir(parents=True, exist_ok=True)

    def log(text):
        print(f"plans: {text}", file=sys.stderr, flush=True)

    bench = Bench(eyelet(), work, args.networks, args.threads, args.rounds, args.seconds, args.effort, log)

    def write():
        """What there is so far: a run that is cut off is not lost."""
        raw = {
            "plans": [dataclasses.asdict(plan) | plan.summary() for plan in bench.plans],
            "ablation": [dataclasses.asdict(plan) | plan.summary() for plan in bench.ablation],
            "infeasible": bench.infeasible,
            "profiles": [dataclasses.asdict(one) | {"costs": one.costs} for one in bench.measurements],
        }
        (work / "results.json").write_text(json.dumps(raw, indent=1, default=str))
        args.output.parent.mkdir(parents=True, exist_ok=True)
        curves = draw(bench, args.output)
        heading = facts("lab/benches/plans/run.sh") | {"Threads": args.threads}
        args.output.write_text(Report(bench, heading, curves).write())

    bench.run(write)
    log(f"wrote {args.output}")


if __name__ == "__main__":
    main()
