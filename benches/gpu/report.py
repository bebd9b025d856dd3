"""The page of results, from whatever parts there are."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import MIB, ms, table  # noqa: E402
from settings import LEAST_WANTED, MEAN_WANTED  # noqa: E402

INTRODUCTION = """# On a GPU: measured

This page is written by one command, on a machine with a GPU of compute capability 9.0 and PyTorch for it:

```sh
benches/gpu/pack.sh            # where Rust is: a folder of programs with kernels for sm_90
benches/gpu/run.sh             # where the GPU is, over that folder; --part for one part at a time
```

- **Tests** are those of kernels, memory and networks that run over the fake driver elsewhere, on the GPU; also under
  compute-sanitizer where the machine has it.
- **Convolutions** are all of ResNet-50 and 152, VGG-19, YOLOv3 and v4 (416x416), batch 1, 32-bit floats: eyelet's kernels and PyTorch's
  (cuDNN in both memory formats with its search on, cuBLAS where a convolution is a matrix product; TF32 off) take turns in the same
  minutes, {turns} turns of {rounds} rounds each. A round is as many convolutions as take about {us} µs, between two events;
  PyTorch's are replayed from a CUDA graph, so that they wait for no Python, eyelet's are launched one by one. Both have weights
  and activations in cache. Each side counts with its fastest algorithm; medians of all rounds.
- **Latency**: a network of batch 1, all weights resident; eager PyTorch and its CUDA graph, with batch norms and without.
- **Demand Layering**: its strategies, from the page cache and past it, all in turns; device memory is what the driver
  says is taken (`cuMemGetInfo`), not what the plan says.
"""


def introduction():
    import settings

    return INTRODUCTION.format(turns=settings.TURNS, rounds=settings.ROUNDS, us=settings.ROUND_US)


def about(data):
    """When, where, with what."""
    facts = dict(data["facts"])
    if data.get("gpu"):
        name, capability, multiprocessors, driver = data["gpu"].split("; ")
        facts["GPU"] = f"{name}, compute capability {capability}, {multiprocessors} multiprocessors"
        facts["Driver"] = f"for CUDA {driver}"
    facts |= data.get("torch") or {}
    facts["Took"] = f"{data['seconds']} s"
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    if facts.get("Dry run") == "yes":
        lines.append("- **A dry run: these figures say nothing about a GPU.**")
    return lines


def tests(data):
    rows = []
    for row in data["rows"]:
        outcome = {0: "passed", None: "out of time"}.get(row["status"], f"**failed** ({row['status']})")
        rows.append([row["tests"], row["tool"] or "–", row["passed"], row["failed"], f"{row['seconds']} s", outcome])
    lines = [table(["tests", "under", "passed", "failed", "time", "outcome"], rows)]
    if not data["sanitizer"]:
        lines += ["", "This machine has no compute-sanitizer."]
    for row in data["rows"]:
        if row["end"]:
            lines += ["", f"{row['tests']} {row['tool']}, the end of what it says:", "```", *row["end"], "```"]
    return lines


def kernels(data):
    lines = []
    summary = data["summary"]
    if summary:
        lines += [
            f"Speed, PyTorch's being 1: {summary['mean']:.2f} in the geometric mean of {summary['shapes']} shapes (wanted: at least "
            f"{MEAN_WANTED}), {summary['worst']:.2f} at the worst, {summary['worst_shape']} (wanted: at least {LEAST_WANTED}).",
            "",
            table(
                ["all convolutions of", "eyelet ms", "PyTorch ms", "mean of ratios"],
                [[name, ms(of["ours_us"] / 1e3), ms(of["theirs_us"] / 1e3), f"{of['mean']:.2f}"] for name, of in summary["networks"].items()],
            ),
            "",
        ]
    rows = []
    for shape in sorted(data["shapes"], key=lambda shape: shape.get("ratio", 0)):
        ours = shape["ours"][shape["ours_best"]]
        rate = shape["macs"] / ours["us"] / 1e6
        row = [shape["shape"], "+".join(shape["count"]), f"{ours['us']:.1f} ±{ours['spread']:.0%}", shape["ours_best"], f"{2 * rate:.1f}"]
        if "ratio" in shape:
            theirs = shape["theirs"][shape["theirs_best"]]
            row += [f"{theirs['us']:.1f} ±{theirs['spread']:.0%}", shape["theirs_best"], f"{shape['ratio']:.2f}"]
        else:
            row += ["–", "–", "–"]
        rows.append(row)
    return [*lines, table(["shape", "of", "eyelet µs", "by", "Tflop/s", "PyTorch µs", "by", "ratio"], rows)]


def latency(data):
    run = data["run"]
    rows = [["eyelet", ms(data["ours_ms"]), "1.00"]]
    rows += [[f"PyTorch, {way}", ms(t), f"{t / data['ours_ms']:.2f}"] for way, t in sorted(data["theirs_ms"].items())]
    taken = run["gpu"]["device_bytes"]
    return [f"{data['network']}, batch 1. Device memory of eyelet: {mib(taken)} MiB.", "", table(["", "ms", "PyTorch's through eyelet's"], rows)]


def mib(value):
    return "–" if value is None else f"{value / MIB:.1f}"


def layering(data):
    lines = []
    for name in dict.fromkeys(row["network"] for row in data["rows"]):
        rows = []
        of = [row for row in data["rows"] if row["network"] == name]
        for row in of:
            if "refused" not in row:
                sizes = [mib(row[key]) for key in ("weight_buffer_bytes", "staging_bytes", "arena_bytes", "device_bytes", "host_bytes", "bytes_read")]
                rows.append([f"{row['strategy']}, {row['io']}", *sizes, ms(row["ms"]), ms(row["max_ms"]), ms(row["predicted_ms"])])
        head = ["MiB:", "weight buffers", "staging", "arena", "device, by the driver", "host, pinned", "read", "ms", "at most", "predicted"]
        lines += [f"### {name}", "", table(head, rows), ""]
        lines += [f"- {row['strategy']}{', ' + row['io'] if 'io' in row else ''}: {row['refused']}" for row in of if "refused" in row]
        lines.append("")
    return lines


SECTIONS = {
    "tests": ("Tests", tests),
    "kernels": ("Convolutions", kernels),
    "latency": ("Latency", latency),
    "layering": ("Demand Layering", layering),
}


def page(parts):
    """The whole page; with no part it says that there is none."""
    lines = [introduction()]
    if not parts:
        lines.append("**No results have been taken yet**: there is no figure of a GPU in these pages.")
    for part, (title, write) in SECTIONS.items():
        if part in parts:
            data = parts[part]
            lines += [f"\n## {title}", "", *about(data), ""]
            lines += [f"**Failed:** {data['error']}"] if "error" in data else write(data)
        elif parts:
            lines += [f"\n## {title}", "", "Not measured yet."]
    return "\n".join(lines).rstrip() + "\n"
