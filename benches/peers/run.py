"""Measures eyelet beside other engines; run.sh sets up what this needs and starts it. See README.md."""

import argparse
import importlib.metadata
import json
import os
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import MIB, ROOT, Failed, call, eyelet, facts  # noqa: E402
from settings import BUDGETS, BUSY, NETWORKS, UNSTEADY  # noqa: E402


# Sections of the results that `--unsteady` writes.
UNSTEADY_TITLE = "## 5. In short turns"
AVX2_TITLE = "## 6. A processor with AVX2 only"


def arguments():
    parser = argparse.ArgumentParser(
        prog="benches/peers/run.sh",
        description="Measures eyelet beside other engines on this machine, and writes lab/results/peers.md.",
    )

    def names(text):
        return [name for name in text.split(",") if name]

    def numbers(text):
        values = [int(number) for number in names(text)]
        if not values or min(values) < 1:
            raise ValueError
        return values

    def above_zero(text):
        value = float(text)
        if not value > 0:
            raise ValueError
        return value

    def count(text):
        return numbers(text)[0]

    parser.add_argument("--networks", type=names, metavar="A,B", help=f"of `eyelet zoo --list` [default: {','.join(NETWORKS)}; with --unsteady {','.join(UNSTEADY)}]")
    parser.add_argument("--threads", type=numbers, default=[1, 2], metavar="N,M", help="numbers of threads [default: 1,2]")
    parser.add_argument("--rounds", type=count, metavar="N", help="turns that every engine takes [default: 5; with --unsteady 15]")
    parser.add_argument("--seconds", type=above_zero, metavar="S", help="of inferences for each engine in each turn [default: 1; with --unsteady 0.2]")
    parser.add_argument("--profile", metavar="FILE.toml", help="costs to plan with, as `eyelet profile` writes them")
    parser.add_argument("--only-busy", action="store_true", help="measures nothing but latency next to busy loops, and prints its table")
    parser.add_argument("--unsteady", action="store_true", help="measures nothing but eyelet and onnxruntime, in many short turns and layer by layer, and writes one section")
    parser.add_argument("--avx2", action="store_true", help="with --unsteady: both engines as on a processor without AVX-512")
    parser.add_argument("--output", type=Path, default=ROOT / "lab" / "results" / "peers.md", metavar="FILE.md", help="[default: lab/results/peers.md]")
    args = parser.parse_args()
    if args.avx2 and (args.profile or not args.unsteady):
        parser.error("--avx2 is a part of --unsteady, and plans for a board: leave out --profile")
    if args.only_busy and args.unsteady:
        parser.error("--only-busy and --unsteady exclude each other")
    args.networks = args.networks or (UNSTEADY if args.unsteady else NETWORKS)
    args.rounds = args.rounds or (15 if args.unsteady else 5)
    args.seconds = args.seconds or (0.2 if args.unsteady else 1.0)
    return args


def versions():
    from measure import PYTHON_PEERS, RUST_PEERS

    found = {}
    for package in PYTHON_PEERS:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    with open(Path(__file__).with_name("rust") / "Cargo.lock", "rb") as file:
        locked = {package["name"]: package["version"] for package in tomllib.load(file)["package"]}
    return found | {peer: locked["tract-onnx" if peer == "tract" else peer] for peer in RUST_PEERS}


def machine(found, networks):
    from report import NAMES

    known = facts("benches/peers/run.sh")
    kernels = ", ".join(sorted({network.isa for network in networks}))
    peers = ", ".join(f"{NAMES.get(name, name)} {version or '(not installed)'}" for name, version in found.items())
    return known | {"eyelet": f"{known['eyelet']}, kernels for {kernels}", "Peers": peers}


def unsteady(args, command, work, log):
    """Measures in short turns, and replaces that section of the results."""
    import avx2
    from networks import Network
    from unsteady import Unsteady, replace_section

    costs = ["--profile", args.profile] if args.profile else []
    if args.avx2:
        costs = ["--board", "host-avx2"]
        # Before the packages of the virtual environment, in each process of the reference.
        os.environ["PYTHONPATH"] = str(avx2.copy(work))
    networks = []
    for name in args.networks:
        log(f"preparing {name}")
        networks.append(Network(name, command, work, max(args.threads), costs))
    found = versions()
    bench = Unsteady(networks, args.threads, args.rounds, args.seconds, work, found, log)
    bench.run()
    raw = [{"network": name, "threads": threads, "engine": engine} | vars(result) for (name, threads, engine), result in bench.results.items()]
    (work / "unsteady.json").write_text(json.dumps({"results": raw, "layers": bench.layers.raw()}, indent=1))
    facts = machine({"onnxruntime": found["onnxruntime"]}, networks)
    facts["Other load"] = other_load(bench)
    page = args.output.read_text() if args.output.exists() else "# Results\n"
    title = AVX2_TITLE if args.avx2 else UNSTEADY_TITLE
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(replace_section(page, title, bench.section(title, facts)))
    log(f"wrote {args.output}")


def other_load(bench):
    return f"{bench.other_cores:.2f} cores were busy with something else during the run"


def main():
    args = arguments()
    # After --help, which is there before what these need is installed.
    from busy import Busy
    from measure import Bench
    from networks import Network
    from report import Report
    from shares import shares
    from unsteady import section_of

    work = ROOT / "target" / "peers"
    command = eyelet()

    def log(text):
        print(f"peers: {text}", file=sys.stderr, flush=True)

    if args.unsteady:
        try:
            unsteady(args, command, work, log)
        except Failed as failed:
            sys.exit(f"peers: error: {failed}")
        return
    found = versions()

    log("measuring reads from the page cache")
    warm = work / "warm.toml"
    call([command, "profile", "--io", "buffered", "--threads", max(args.threads), "--dir", work, "-o", warm])

    networks, unmeasured = [], {}
    costs = ["--profile", args.profile] if args.profile else []
    wanted = [name for name in args.networks if name in BUSY] if args.only_busy else args.networks
    for name in wanted:
        log(f"preparing {name}")
        try:
            budgets = [budget * MIB for budget in BUDGETS.get(name, [])]
            networks.append(Network(name, command, work, max(args.threads), costs, warm, budgets))
        except Failed as failed:
            unmeasured[name] = str(failed)
            log(f"  {name} cannot be measured: {failed}")
    if not networks:
        sys.exit("peers: error: no network can be measured")

    bench = Bench(networks, args.threads, args.rounds, args.seconds, work, found, log)
    busy = Busy(bench, BUSY)
    if args.only_busy:
        busy.run()
        print(Report(bench, {}, unmeasured, {}, busy).busy())
        return
    bench.run()
    busy.run()
    log("measuring where eyelet's time goes")
    profile = {}
    for network in networks:
        try:
            profile[network.name] = shares(command, network)
        except Failed as failed:
            log(f"  {network.name} cannot be measured by operator: {failed}")
    facts = machine(found, networks)
    facts["Other load"] = other_load(bench)
    raw = [
        {"network": name, "threads": threads, "engine": engine} | vars(result)
        for (name, threads, engine), result in bench.results.items()
    ]
    raw += [
        {"network": name, "threads": threads, "engine": engine, "busy_loops": loops} | vars(result)
        for (name, threads, engine, loops), result in busy.results.items()
    ]
    (work / "results.json").write_text(json.dumps(raw, indent=1))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    before = args.output.read_text() if args.output.exists() else ""
    # What is measured apart stays.
    kept = [section for title in (UNSTEADY_TITLE, AVX2_TITLE) if (section := section_of(before, title))]
    args.output.write_text("\n\n".join([Report(bench, facts, unmeasured, profile, busy).write().rstrip(), *kept]) + "\n")
    log(f"wrote {args.output}")


if __name__ == "__main__":
    main()
