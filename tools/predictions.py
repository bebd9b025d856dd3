#!/usr/bin/env python3
"""How near predictions are on this machine: draws plans, runs them, and counts which medians lie in the printed range.

    tools/predictions.py                          20 plans, as they are made right after installation
    tools/predictions.py --plans 40 --seed 7
    tools/predictions.py --profile here.toml      by costs that were measured before

A plan is drawn by its network, its number of threads, and its budget: between the smallest one and one that holds all
weights, evenly by their ratio. What is measured is the median of `eyelet bench`. The load is printed before and after.
The last column is how much of the difference the slower processor accounts for, by `eyelet run`. Without --profile the command measures the machine before its first plan, as for any user; give
it an empty folder as XDG_CACHE_HOME to have that again.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NETWORKS = ["squeezenet1_1", "mobilenet_v2", "resnet18", "resnet50", "inception_v3", "vit_b_16", "resnet152", "gpt2", "vgg19"]
NEAR = 0.15


def call(command, *args):
    """What a verb reports."""
    done = subprocess.run([str(word) for word in (command, *args, "--json")], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"eyelet {' '.join(map(str, args))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def between(least, most, place):
    """The budget at a place from 0 (the least) to 1 (the most)."""
    return int(least * (max(most, least) / least) ** place)


def error(predicted, measured):
    """How far a prediction is from what was measured, as a share of that."""
    return predicted / measured - 1


def near(errors, most=NEAR):
    """How many errors are small enough."""
    return sum(abs(one) <= most for one in errors)


def lies_in(value, ends):
    """Whether a value lies in a range, if there is one."""
    return ends is not None and ends[0] <= value <= ends[1]


def width(predicted, ends):
    """How far a range goes to either side of the prediction, as shares of it."""
    return [end / predicted - 1 for end in ends]


def draw(count, networks, threads, seed):
    """Networks, threads and places of budgets. Every network has its turn before one comes again."""
    drawn = random.Random(seed)
    plans = []
    while len(plans) < count:
        order = networks[:]
        drawn.shuffle(order)
        plans += [(name, drawn.choice(threads), drawn.random()) for name in order]
    return plans[:count]


def measure(command, folder, plan, options, seconds):
    """A drawn plan's budget, its plan as `plan --json` has it, its median, and the machine's part, in milliseconds."""
    name, threads, place = plan
    model, pack = folder / f"{name}.onnx", folder / f"{name}.pack"
    if not model.exists():
        call(command, "zoo", name, "-o", model)
    common = ["plan", model, "--threads", threads, *options]
    least = call(command, *common, "--min-budget")["min_budget_bytes"]
    budget = between(least, 1.3 * model.stat().st_size + least, place)
    (planned,) = call(command, *common, "--budget", budget, "-o", pack)["plans"]
    (program,) = call(command, "bench", pack, "--duration", f"{seconds}s")["programs"]
    machine = call(command, "run", pack, "--runs", 9, "--warmup", 2).get("machine")
    pack.unlink()
    return budget, planned, program["latency_ms"]["p50"], machine["more_ms"] if machine else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=ROOT / "target" / "release" / "eyelet", type=pathlib.Path)
    parser.add_argument("--plans", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1], metavar="N")
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME")
    parser.add_argument("--profile", type=pathlib.Path, metavar="FILE.toml")
    parser.add_argument("--seconds", type=float, default=2.0, help="of inferences for each plan")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "target", help="on the storage that packs are to lie on")
    args = parser.parse_args()
    options = ["--profile", args.profile] if args.profile else []
    print(f"load before: {os.getloadavg()[0]:.2f}", flush=True)
    print(f"{'network':<16}{'threads':>8}{'MiB':>9}{'predicted':>11}{'from':>9}{'to':>9}{'measured':>10}{'error':>9}{'machine':>9}")
    errors, inside, widths, below = [], 0, [], 0
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for plan in draw(args.plans, args.networks, args.threads, args.seed):
            found = measure(args.command.resolve(), pathlib.Path(folder), plan, options, args.seconds)
            budget, planned, measured, machine = found
            predicted, ends = planned["predicted_ms"], planned.get("predicted_range_ms")
            errors.append(error(predicted, measured))
            below += measured < planned["lower_bound_ms"]
            inside += lies_in(measured, ends)
            widths += [width(predicted, ends)] if ends else []
            least, most = (f"{end:.2f}" for end in ends) if ends else ("-", "-")
            part = "-" if machine is None else f"{machine:+.2f}"
            print(
                f"{plan[0]:<16}{plan[1]:>8}{budget / 2**20:>9.1f}{predicted:>11.2f}{least:>9}{most:>9}{measured:>10.2f}"
                f"{errors[-1]:>+9.1%}{part:>9}",
                flush=True,
            )
    print(f"load after: {os.getloadavg()[0]:.2f}")
    print(f"{inside} of {len(errors)} medians in the range, {near(errors)} within {NEAR:.0%}; {below} below the bound by these costs")
    if widths:
        middle = [statistics.median(ends) for ends in zip(*widths)]
        print(f"the range goes from {middle[0]:+.0%} to {middle[1]:+.0%} of the prediction (medians)")


if __name__ == "__main__":
    main()
