#!/usr/bin/env python3
"""Runs task sets on this host, and writes the tables under "On this host" of lab/results/tasks.md, each in its place.

    lab/benches/tasks/serve.py                 # all tables; on a quiet machine
    lab/benches/tasks/serve.py --quick         # small networks, few jobs
    lab/benches/tasks/serve.py --quick --busy  # without times, on a machine that others use
    lab/benches/tasks/serve.py --jobs 10000 --only swapped

Packs and sets are kept in target/serve. onnxruntime is compared if Python has it.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benches"))
import common
from common import MIB, ROOT, call, ms, table

PAGE = ROOT / "lab" / "results" / "tasks.md"
FOLDER = ROOT / "target" / "serve"
EYELET = os.environ.get("EYELET", common.eyelet())
# Options that give runs a real-time priority.
PRIORITY = []
# Plans of each network: from the smallest budget to one for all weights.
PLANS = 6
# Part of the time that networks compute.
LOAD = 0.35
SWAPNET = {
    "UAV surveillance": ["yolov3", "resnet101"],
    "self-driving": ["vgg19", "resnet101", "yolov3", "fcn_resnet50"],
    "road-side unit": ["yolov3", "yolov3", "resnet101", "resnet101", "vgg19"],
}
QUICK_SWAPNET = {"three small networks": ["squeezenet1_1", "mobilenet_v2", "densenet121"]}
RTSWAP = ["resnet50", "densenet201", "resnext50_32x4d", "yolov3"]
# Written as a description of Darknet's, which onnxruntime does not read.
DARKNET = ["yolov3", "yolov3_tiny"]
QUICK_RTSWAP = ["squeezenet1_1", "mobilenet_v2", "densenet121", "resnet18"]
# The part of the demand in which parts of what divides the memory are left out.
PART = 3.5
# Most of their bytes are weights.
QUICK_HEAVY = ["resnet18", "densenet121", "resnet18", "densenet121"]
# Memories of a set of small networks: the sum of the arenas against the memory; whether all weights of a network are in
# its one plan, so that chunks swap; and the part of the time that the networks next to the detectors compute.
SMALL_MEMORIES = [(1.1, True, 0.12), (1.2, True, 0.06), (2, False, 0.15), (4, False, 0.15)]
ALIKE_MEMORIES = [(1.1, True, 0.12), (1.2, True, 0.06), (2, False, 0.15), (3, False, 0.12)]
# Sets of small networks, each with three detectors of words: the networks, periods of the detectors in ms, the
# deadlines' part of the periods, and memories.
SMALL_SETS = [
    (["squeezenet1_1", "mobilenet_v2"], (14, 16, 20), 1.0, SMALL_MEMORIES),
    (["squeezenet1_1", "squeezenet1_1", "mobilenet_v2"], (15, 15, 20), 0.9, SMALL_MEMORIES),
    (["squeezenet1_1", "resnet18"], (16, 18, 20), 1.0, SMALL_MEMORIES),
    (["mobilenet_v2"] * 2, (11, 12, 14), 1.0, ALIKE_MEMORIES),
    (["squeezenet1_1"] * 3, (11, 13, 14), 0.9, ALIKE_MEMORIES),
    (["squeezenet1_1"] * 2 + ["mobilenet_v2"] * 2, (12, 12, 14), 0.8, ALIKE_MEMORIES),
    (["mobilenet_v2"] * 3, (12, 13, 13), 0.9, ALIKE_MEMORIES),
]
# How often the periods of a refused set are made longer by what the test asks for, and by how much more: times that are
# measured anew differ.
STRETCHES = 4
STRETCH_MORE = 1.1
# How long a set is rehearsed at most, and with --quick.
REHEARSAL, QUICK_REHEARSAL = "120s", "10s"
# Sets whose costs are to hold, as SMALL_SETS with one memory each, and their jobs.
COSTS_SETS = [
    (["squeezenet1_1", "mobilenet_v2"], (14, 16, 20), (1.1, True, 0.12)),
    (["squeezenet1_1", "mobilenet_v2"], (16, 18, 20), (1.3, True, 0.06)),
    (["mobilenet_v2"] * 2, (11, 12, 14), (2, False, 0.15)),
]
COSTS_JOBS, QUICK_COSTS_JOBS = 100_000, 2000
# Changes of all budgets in each direction.
CHANGES = 20
SMALL_JOBS = 10_000
OVERRUNS = ["jobs", "steps", "chunks"]


def eyelet(*arguments, seconds=3600):
    return json.loads(call([EYELET, *arguments, "--json"], seconds))


class Network:
    """A network of the zoo, planned for some budgets on this machine, with direct algorithms: their weights are least."""

    def __init__(self, name):
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.model = FOLDER / f"{name}.{'cfg' if name in DARKNET else 'onnx'}"
        self.pack = FOLDER / f"{name}.pack"
        if not self.model.exists():
            call([EYELET, "zoo", name, "-o", self.model])
        least = eyelet("plan", self.model, "--min-budget", "--exact")["min_budget_bytes"]
        self.whole = FOLDER / f"{name}-whole.pack"
        whole = self.plan(self.whole, [1 << 40])["plans"][0]["arena_bytes"]
        self.plan(self.whole, [whole])
        self.budgets = [int(least * (whole / least) ** (n / (PLANS - 1))) // 4096 * 4096 + 4096 for n in range(PLANS)]
        self.plan(self.pack, self.budgets)
        # With all weights in it, whatever plan is the fastest.
        self.bytes = whole
        run = eyelet("run", self.pack, "--runs", "3", "--warmup", "1", "--threads", "1", *PRIORITY)
        self.alone_ms = run["latency_ms"]["max"]

    def plan(self, pack, budgets):
        budgets = [part for budget in budgets for part in ("--budget", str(budget))]
        return eyelet("plan", self.model, *budgets, "--effort", "fast", "--exact", "--threads", "1", "-o", pack)


def networks(names, cache={}):
    for name in names:
        if name not in cache:
            print(f"planning {name}", file=sys.stderr)
            cache[name] = Network(name)
    return [cache[name] for name in names]


def names(members):
    return ", ".join(member.name for member in members)


def period_ms(members):
    """One period for all, in which they compute for LOAD of the time."""
    return sum(member.alone_ms for member in members) / LOAD


def write_set(path, memory, period, members, chunks=("1MiB",), packs=None, deadline=1.0):
    """`period` is one for all networks, or a list. `deadline` is the deadlines' part of the periods."""
    lines = [f'memory = "{int(memory)}B"', f"chunks = {json.dumps(list(chunks))}", "[storage]", 'read = "1GB/s"']
    periods = period if isinstance(period, list) else [period] * len(members)
    for n, member in enumerate(members):
        pack = packs[n] if packs else member.pack
        lines += ["[[task]]", f'name = "{n + 1} {member.name}"', f'period = "{periods[n]:.3f}ms"', f'pack = "{pack}"']
        lines += [f'deadline = "{periods[n] * deadline:.3f}ms"']
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(error):
    """Why a set was not run: what the command prints as an object is whole."""
    try:
        return json.loads(error.out)["error"]
    except (AttributeError, ValueError, KeyError):
        return str(error)


class Served:
    """A set that was run."""

    def __init__(self, path, arguments, *more, jobs=None):
        self.refused = None
        period = [f"--duration={arguments.longest}s", f"--jobs={jobs or arguments.jobs}", f"--seed={arguments.seed}"]
        try:
            self.report = eyelet("serve", path, *period, *PRIORITY, *more)
        except common.Failed as error:
            self.refused = refusal(error)
            print(f"{path.name}: {error}", file=sys.stderr)
            if "not schedulable" not in self.refused and "alone needs" not in self.refused:
                raise

    def longer(self):
        """How many times as long all periods of a refused set must be, if that would help."""
        found = re.search(r"all periods and deadlines longer by ([0-9.]+) %", self.refused or "")
        return 1 + float(found[1]) / 100 if found else None

    def worst(self, key):
        return max(task["response_ms"][key] for task in self.report["tasks"])

    def against(self, first):
        """Its medians together as part of `first`, and `first`: its own if that is none yet."""
        if self.refused:
            return "–", first
        total = sum(task["response_ms"]["median"] for task in self.report["tasks"])
        first = first or total
        return f"{total / first:.2f}", first

    def cells(self):
        """Admitted, jobs, misses, chunks a job, memory, memory promised, steal."""
        if self.refused:
            return ["refused", "–", "–", "–", "–", "–", "–"]
        report, tasks = self.report, self.report["tasks"]
        memory = report["memory"]
        chunks = sum(task["chunks_per_job"] * task["jobs"] for task in tasks) / max(report["jobs"], 1)
        over = mib(memory["counted_bytes"] - memory["promised_bytes"])
        if not report["outputs_as_alone"]:
            raise common.Failed(f"other outputs: {tasks}")
        return [
            "yes" if report["admitted"] else "no",
            report["jobs"],
            report["missed"],
            f"{chunks:.1f}",
            mib(memory["counted_bytes"]),
            over,
            f"{report['steal_percent']} %",
        ]


HEAD = ["admitted", "jobs", "missed", "chunks a job", "memory (MiB)", "over the promise", "steal"]


def mib(size):
    return f"{size / MIB:.1f}"


def scenarios(arguments):
    """SwapNet's applications at parts of their demand."""
    rows = []
    for name, members in (QUICK_SWAPNET if arguments.quick else SWAPNET).items():
        members = networks(members)
        period, demand = period_ms(members), sum(member.bytes for member in members)
        whole = None
        for part in (0.9, 2.32, 3.5, 5.81):
            path = write_set(FOLDER / "scenario.toml", demand / part, period, members)
            served = Served(path, arguments, "--anyway")
            slower, whole = served.against(whole)
            label = "all in memory" if part < 1 else f"1/{part}"
            rows.append([name, label, *served.cells(), *timed(arguments, slower)])
    head = ["application", "part of the demand", *HEAD, *timed(arguments, "medians against all in memory")]
    return (
        "### SwapNet's applications\n\nNetworks of the same names from the zoo. The part of the demand is that of the "
        "arenas that hold all weights. SwapNet's budgets are 1/2.32 to 1/5.81 of what its networks take without it. "
        "Each memory is divided by `eyelet serve`: volumes, residents, and plans that stream.\n\n"
        + table(head, rows)
    )


def parts(arguments):
    """SwapNet's applications without parts of what divides the memory."""
    rows = []
    for name, members in (QUICK_SWAPNET if arguments.quick else SWAPNET).items():
        members = networks(members)
        demand = sum(member.bytes for member in members)
        memory = demand / PART
        ways = [
            ("plans and chunks", None, ["1MiB"]),
            ("plans, chunks of 16 MiB", None, ["16MiB"]),
            ("one plan for all weights, chunks", [member.whole for member in members], ["1MiB"]),
            ("memory divided by size, no chunks", divided(members, memory), ["1MiB"]),
        ]
        best = None
        for label, packs, chunks in ways:
            path = write_set(FOLDER / "parts.toml", memory * 1.01, period_ms(members), members, chunks, packs)
            served = Served(path, arguments, "--anyway")
            slower, best = served.against(best)
            rows.append([name, label, *served.cells(), *timed(arguments, slower)])
    head = ["application", "with", *HEAD, *timed(arguments, "medians against the first row")]
    return (
        f"### Without parts\n\nSwapNet's applications in 1/{PART} of their demand. The first row of each is what `eyelet serve` "
        "does. The others lack the choice of small chunks, of plans that stream, or of a memory in common.\n\n"
        + table(head, rows)
    )


def divided(members, memory):
    """Packs in which each network has its part of the memory, in proportion to its size, and streams in it."""
    packs = []
    for member in members:
        pack = FOLDER / f"{member.name}-split.pack"
        member.plan(pack, [int(memory * member.bytes / sum(each.bytes for each in members)) // 4096 * 4096])
        packs.append(pack)
    return packs


def swapped(arguments):
    """Sets whose networks together exceed the memory, as RT-Swap's."""
    members = networks(QUICK_RTSWAP if arguments.quick else RTSWAP)
    heavy = networks(QUICK_HEAVY if arguments.quick else RTSWAP)

    def rows(members, packs, ratios):
        demand = sum(member.bytes for member in members)
        for ratio in ratios:
            path = write_set(FOLDER / "swapped.toml", demand / ratio, period_ms(members), members, packs=packs)
            yield [f"{ratio}x", *Served(path, arguments).cells()]

    head = ["sum of arenas", *HEAD]
    return (
        f"### Sets larger than the memory\n\n{names(members)}: the sum of their arenas is so many times the memory, as in "
        "RT-Swap's experiments. Each network has six plans, of which small ones stream. A refused set is not run.\n\n"
        + table(head, list(rows(members, None, (1.5, 2, 3, 4))))
        + f"\n\n{names(heavy)}: each with the plan for all weights only, so that networks swap, as RT-Swap's do. Their "
        "activations stay in memory.\n\n"
        + table(head, list(rows(heavy, [member.whole for member in heavy], (1.2, 1.5, 2, 2.5))))
    )


def stretched(path, arguments, members, detectors, deadline, memory, jobs):
    """A set of detectors and other networks, with periods that are longer until it is admitted, and these periods."""
    ratio, whole, load = memory
    others = members[len(detectors) :]
    periods = [float(period) for period in detectors]
    periods += [member.alone_ms * len(others) / load for member in others]
    packs = [member.whole for member in members] if whole else None
    demand = sum(member.bytes for member in members)
    rehearsal = QUICK_REHEARSAL if arguments.quick else REHEARSAL
    for _ in range(STRETCHES):
        write_set(path, demand / ratio, periods, members, ["256KiB", "1MiB"], packs, deadline)
        served = Served(path, arguments, "--rehearsal", rehearsal, "--alone", "20", jobs=jobs)
        longer = served.longer()
        if longer is None:
            break
        periods = [period * longer * STRETCH_MORE for period in periods]
    return served, periods


def costs(arguments):
    """Whether what the test counts holds, and then its promise."""
    rows = []
    jobs = QUICK_COSTS_JOBS if arguments.quick else COSTS_JOBS
    for number, (names_of, detectors, memory) in enumerate(COSTS_SETS, 1):
        members = networks(["ds_cnn"] * len(detectors)) + networks(names_of)
        path = FOLDER / f"costs-{number}.toml"
        served, periods = stretched(path, arguments, members, detectors, 1.0, memory, jobs)
        of_detectors = "/".join(f"{period:.0f}" for period in periods[: len(detectors)])
        label = f"{', '.join(names_of)}; {of_detectors} ms; {memory[0]}x"
        if served.refused:
            rows.append([label, "refused", *["–"] * 10])
            continue
        report, tasks = served.report, served.report["tasks"]
        path.with_suffix(".json").write_text(json.dumps(report))
        exceeded = [sum(task["overruns"][what]["count"] for task in tasks) for what in OVERRUNS]
        worst = f"{ms(report['exceeded']['worst_ms'])} ({report['exceeded']['worst_factor']:.2f}x)"
        plans = [plan for plan in report["costs"]["plans"] if plan["rehearsed"]]
        room = [plan["counted_job_ns"] / plan["job"]["median_ns"] for plan in plans]
        chunk = [chunk["read"] for chunk in report["costs"]["chunks"] if chunk["rehearsed"]]
        bound = max(task["response_ms"]["max"] / task["bound_ms"] for task in tasks if task["jobs"])
        rows.append([
            label,
            report["jobs"],
            report["missed"],
            " / ".join(str(count) for count in exceeded),
            worst if sum(exceeded) else "–",
            f"{report['pauses']['count']} ({report['pauses']['worst_ms']:.1f} ms)",
            f"{min(plan['job']['samples'] for plan in plans)} / {sum(part['samples'] for part in chunk)}",
            f"{max(room):.2f}x",
            f"{max(part['counted_ns'] / max(part['median_ns'], 1) for part in chunk):.2f}x" if chunk else "–",
            f"{bound:.2f}",
            f"{report['waited_ms']:.1f}",
            f"{report['steal_percent']:.1f} %",
        ])
        print(*rows[-1], sep=" | ", file=sys.stderr)
    head = ["set", "jobs", "missed", "longer than counted: jobs / steps / chunks", "worst by (ms)", "pauses", "samples: jobs / chunks"]
    head += ["counted against median: job", "chunk", "worst response / bound", "waited (ms)", "steal"]
    return (
        "### Costs that hold\n\nThe test is worth what its costs are. Each set is rehearsed for "
        f"{QUICK_REHEARSAL if arguments.quick else REHEARSAL} at most, and its steps and chunks count by the rule of `eyelet serve`. "
        "Three detectors of words (ds_cnn) have the periods that are given. Where nothing took longer than counted, the "
        "promise applied: no response may exceed its bound.\n\n" + table(head, rows)
    )


def small(arguments):
    """Many sets, each with many jobs: what admission is worth."""
    rows, explained, runs = [], [], []
    for names_of, detectors, deadline, memories in SMALL_SETS:
        others = networks(names_of)
        members = networks(["ds_cnn"] * len(detectors)) + others
        for memory in memories:
            number = len(rows) + 1
            path = FOLDER / f"small-{number}.toml"
            served, periods = stretched(path, arguments, members, detectors, deadline, memory, SMALL_JOBS)
            ratio, _, load = memory
            runs.append(served)
            of_detectors = "/".join(f"{period:.0f}" for period in periods[: len(detectors)])
            label = f"{names(others)}; {of_detectors} ms; {deadline}"
            rows.append([number, label, f"{ratio}x", f"{load:.0%}", *small_cells(served)])
            print(*rows[-1], sep=" | ", file=sys.stderr)
            if not served.refused:
                path.with_suffix(".json").write_text(json.dumps(served.report))
            if not served.refused and served.report["missed"]:
                explained.append(f"- Set {number}: {misses(served.report)}")
    head = ["set", "networks; detectors; deadline", "sum of arenas", "load", "admitted", "jobs", "missed", "worst response"]
    head += ["chunks a job", "memory (MiB)", "over the promise", "overruns", "waited (ms)", "steal"]
    count = sum(served.refused is None for served in runs)
    reports = [served.report for served in runs if served.refused is None]
    jobs, missed = (sum(report[key] for report in reports) for key in ("jobs", "missed"))
    late = sum(report["missed"] > 0 for report in reports)
    lost = f"{missed} in {late} sets" if missed else "none"
    text = (
        "### Many sets, many jobs\n\n"
        f"**{count} of {len(runs)} sets were admitted; of their {jobs} jobs {lost} missed.** In each set three detectors of words (ds_cnn) have the periods that are given. The "
        "other networks compute for the part of the time that is their load. Where the test refused a set for its times, "
        "all periods are as much longer as it asked for, and a tenth more. Deadlines are that part of the periods. The "
        "worst response is that of any task as part of its deadline. Sets of 2x and more have six plans for each network, the "
        "others one with all weights, so that chunks swap. The test counts "
        "what a rehearsal found, by the rule of `eyelet serve`. Outputs of every job are as alone. Overruns are jobs, steps "
        "and chunks that took longer than the test counts. Waited is how long the thread that computes was ready while "
        "others had its processor.\n\n" + table(head, rows)
    )
    return text + ("\n\nMisses:\n\n" + "\n".join(explained) if explained else "")


def small_cells(served):
    if served.refused:
        return ["refused", *["–"] * 9]
    report, tasks = served.report, served.report["tasks"]
    admitted, jobs, missed, chunks, memory, over, steal = served.cells()
    worst = max(task["response_ms"]["max"] / task["deadline_ms"] for task in tasks if task["jobs"])
    overruns = sum(task["overruns"][what]["count"] for task in tasks for what in OVERRUNS)
    waited = f"{report['waited_ms']:.1f}"
    return [admitted, jobs, missed, f"{worst:.2f}", chunks, memory, over, overruns, waited, steal]


def misses(report):
    """What was measured while jobs missed."""
    tasks = report["tasks"]
    late = ", ".join(f"{task['name']} {task['missed']}" for task in tasks if task["missed"])
    over = []
    for task in tasks:
        counts = [(task["overruns"][what]["count"], what) for what in OVERRUNS]
        found = ", ".join(f"{count} {name}" for count, name in counts if count)
        over += [f"{task['name']} {found}"] if found else []
    chunk = (
        f"A chunk was counted as {report['chunk_ms']:.2f} ms and took {report['worst_chunk_ms']:.2f} ms at worst. "
        if report["worst_chunk_ms"]
        else ""
    )
    return (
        f"missed {late}. Longer than counted: {'; '.join(over) or 'nothing'}. {chunk}The computing thread waited for "
        f"{report['waited_ms']:.1f} ms."
    )


def overheads(arguments):
    """What a set adds to its networks: opening, a job, a chunk."""
    rows = []
    for member in networks(QUICK_RTSWAP if arguments.quick else RTSWAP):
        path = write_set(FOLDER / "two.toml", member.bytes * 1.6, period_ms([member] * 2), [member] * 2)
        trace = FOLDER / "two.json"
        served = Served(path, arguments, "--anyway", "--trace", trace)
        if served.refused:
            rows.append([member.name, served.refused, "–", "–", "–"])
            continue
        events = json.loads(trace.read_text())["traceEvents"]
        chunks = sorted(event["dur"] / 1e3 for event in events if event.get("cat") == "chunk")
        steps = {}
        for event in events:
            if event.get("cat") == "step":
                steps.setdefault(event["tid"], []).append(event["dur"] / 1e3)
        jobs = served.report["jobs"]
        alone = sum(task["alone_ms"] * task["jobs"] for task in served.report["tasks"])
        computed = sum(sum(times) for times in steps.values())
        chunk = chunks[len(chunks) // 2] if chunks else None
        rows.append([
            member.name,
            ms(served.report["open_ms"]),
            f"{computed / max(alone, 1e-9):.3f}",
            f"{len(chunks) / max(jobs, 1):.1f}",
            ms(chunk),
        ])
    head = ["network, twice", "opening both (ms)", "steps in the set against alone", "chunks a job", "a chunk (ms)"]
    return (
        "### What a set adds\n\nTwo instances of a network in 1.6 times the memory of one. A chunk of 1 MiB is read, "
        "mapped, and compared with its checksum. The set's steps hold writing the inputs, too.\n\n" + table(head, rows)
    )


def adaptation(arguments):
    """All budgets cut in half and given back, while jobs are in the middle of inferences."""
    members = networks(QUICK_RTSWAP if arguments.quick else RTSWAP)
    command = ["cargo", "run", "--release", "--quiet", "--locked", "--manifest-path", "lab/Cargo.toml", "--target-dir", "target/lab"]
    command += ["--bin", "budgets", "--"]
    rows = []
    for group in [[member] for member in members] + [members]:
        packs = []
        for member in group:
            packs.append(FOLDER / f"{member.name}-halves.pack")
            member.plan(packs[-1], [member.bytes, member.bytes // 2])
        found = json.loads(call([*command, str(CHANGES), *packs], 3600))
        for label, key in [("to half", "to_half"), ("back", "back")]:
            times = found[key]
            rows.append([
                names(group),
                label,
                mib(found["demand_bytes"]),
                mib(found["arena_bytes"]),
                mib(times["read_bytes"]),
                *[ms(times[part]["median"]) for part in ("change_ms", "reads_ms", "beside_ms")],
                ms(times["beside_ms"]["max"]),
                found["restarts"],
            ])
    head = ["networks", "budgets", "arenas (MiB)", "memory (MiB)", "read (MiB)", "change (ms)", "reads (ms)"]
    head += ["beside reads (ms)", "at most (ms)", "jobs that started over"]
    return (
        f"### Other budgets while jobs run\n\nAll budgets change to half and back, {CHANGES} times each, in the middle of jobs. "
        "Medians. A change reads the new plans' tables, and of the weights those that stay. Beside reads: plans are "
        "proved, checksums of what was read computed, and memory mapped. Outputs of all jobs are as alone.\n\n"
        + table(head, rows)
    )


def comparison(arguments):
    """What a user does today, next to a set."""
    members = networks(QUICK_RTSWAP if arguments.quick else [name for name in RTSWAP if name not in DARKNET])
    demand, period = sum(member.bytes for member in members), period_ms(members)
    memory = demand / 2
    rows = []
    served = Served(write_set(FOLDER / "ours.toml", memory, period, members), arguments, "--anyway")
    rows.append(["eyelet, one memory", *ours(arguments, served)])
    packs = divided(members, memory)
    split = Served(write_set(FOLDER / "split.toml", memory * 1.01, period, members, packs=packs), arguments, "--anyway")
    rows.append(["eyelet, budgets divided", *ours(arguments, split)])
    rows.append(["onnxruntime, all in memory", *peer(arguments, members, period)])
    return (
        f"### Next to sessions of their own\n\n{names(members)}, with one period, and one thread that computes. The memory is "
        "half of what the arenas take together. onnxruntime has a session for each network in one process, and serves "
        "the request with the earliest deadline. Budgets divided: each network has its part of the memory for itself.\n\n"
        + table(["", "memory (MiB)", "jobs", "missed", *timed(arguments, "worst p99 / period")], rows)
    )


def timed(arguments, cell):
    """A cell that depends on what else the machine does."""
    return [] if arguments.busy else [cell]


def ours(arguments, served):
    if served.refused:
        return [served.refused, "–", "–", *timed(arguments, "–")]
    report = served.report
    shares = [task["response_ms"]["p99"] / task["deadline_ms"] for task in report["tasks"]]
    memory = mib(report["memory"]["counted_bytes"])
    return [memory, report["jobs"], report["missed"], *timed(arguments, f"{max(shares):.2f}")]


def peer(arguments, members, period):
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return ["not installed", "–", "–", *timed(arguments, "–")]
    models = [str(member.model) for member in members]
    script = Path(__file__).with_name("sessions.py")
    numbers = [str(period), str(arguments.jobs), str(arguments.longest), str(arguments.seed)]
    found = json.loads(call([sys.executable, script, *numbers, *models], 3600))
    share = max(found["p99_ms"]) / period
    memory = mib(found["peak_bytes"] - found["before_bytes"])
    return [memory, found["jobs"], found["missed"], *timed(arguments, f"{share:.2f}")]


def serving(arguments):
    """Latency by throughput, as SwapAdvisor serves requests."""
    member = networks(["squeezenet1_1" if arguments.quick else "resnet50"])[0]
    rows = []
    capacity = 1e3 / member.alone_ms
    rates = [f"{capacity * share:.3f}" for share in (0.2, 0.4, 0.6, 0.8)]
    path = write_set(FOLDER / "serving.toml", member.bytes * 4.2, period_ms([member]), [member])
    more = ["--rates", ",".join(rates), "--networks", "1,4,16", f"--duration={arguments.point}s"]
    report = eyelet("serve", path, *more, f"--seed={arguments.seed}")
    for point in report["points"]:
        load = point["rate"] / capacity
        rows.append([
            point["networks"],
            mib(point["demand_bytes"]),
            f"{load:.1f}",
            f"{point['throughput'] / point['rate']:.2f}",
            f"{point['response_ms']['median'] / member.alone_ms:.1f}",
            f"{point['response_ms']['p99'] / member.alone_ms:.1f}",
            f"{point['chunks_per_job']:.1f}",
            mib(point["memory"]["counted_bytes"]),
        ])
    head = ["networks", "arenas (MiB)", "rate", "ended", "median", "p99", "chunks a job", "memory (MiB)"]
    return (
        f"### Requests at random\n\n{member.name}, so many instances, in the memory of 4.2 of them. The rate is that of all "
        "requests together, as part of what one instance computes alone. Ended is the part of the requests that ended "
        "within the time. Latencies are multiples of one inference alone.\n\n" + table(head, rows)
    )


# Tables of times alone.
TIMED = ["costs", "overheads", "adaptation", "serving"]
SECTIONS = {
    "scenarios": scenarios,
    "parts": parts,
    "swapped": swapped,
    "small": small,
    "costs": costs,
    "overheads": overheads,
    "adaptation": adaptation,
    "comparison": comparison,
    "serving": serving,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", action="store_true", help="leave out times: others use this machine, too")
    parser.add_argument("--quick", action="store_true", help="small networks, few jobs")
    parser.add_argument("--jobs", type=int, help="jobs of each set [default: 1000, with --quick 100]")
    parser.add_argument("--longest", type=int, default=3600, help="seconds for each set at most")
    parser.add_argument("--point", type=int, help="seconds for each rate [default: 60, with --quick 5]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--priority", type=int, help="runs sets with this real-time priority")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="only these tables; the others stay")
    parser.add_argument("--print", action="store_true", help="prints the tables instead of writing them into the page")
    arguments = parser.parse_args()
    if arguments.priority:
        PRIORITY.extend(["--priority", str(arguments.priority)])
    arguments.jobs = arguments.jobs or (100 if arguments.quick else 1000)
    arguments.point = arguments.point or (5 if arguments.quick else 60)
    wanted = arguments.only or [name for name in SECTIONS if not arguments.busy or name not in TIMED]
    for name in wanted:
        title, body = SECTIONS[name](arguments).split("\n\n", 1)
        text = f"{title}\n\n{measured(arguments)}\n\n{body}\n"
        if arguments.print:
            print(text)
        else:
            PAGE.write_text(replaced(PAGE.read_text(), title, text))


def measured(arguments):
    """When, where and how a table was made."""
    facts = common.facts("lab/benches/tasks/serve.py")
    text = f"{facts['Date']}, {facts['Machine']}, eyelet {facts['eyelet']}, {facts['Command']}."
    if arguments.busy:
        text += " Others used the machine during these runs: times are left out."
    return text


def replaced(page, title, text):
    """The page with another section under this title, or with one more at its end."""
    before, heading, after = page.partition(f"{title}\n")
    if not heading:
        return f"{page.rstrip()}\n\n{text}"
    _, next_heading, rest = after.partition("\n### ")
    return before + text + next_heading + rest


if __name__ == "__main__":
    try:
        main()
    except common.Failed as error:
        sys.exit(f"serve.py: {error}")
