"""Whole networks: latency beside PyTorch, and Demand Layering's table."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import settings  # noqa: E402
from common import Failed, call  # noqa: E402
from statistics_of import median  # noqa: E402


class Bench:
    def __init__(self, eyelet, work, tiny, log):
        self.eyelet, self.work, self.tiny, self.log = eyelet, Path(work), tiny, log
        self.work.mkdir(parents=True, exist_ok=True)
        self.turns = 1 if tiny else 3

    def json(self, *command):
        return json.loads(call([self.eyelet, *command, "--json"], seconds=540))

    def pack(self, network, strategy, budget=settings.PLENTY):
        """A pack of one plan, and what `plan` says of it."""
        onnx, pack = self.work / f"{network}.onnx", self.work / f"{network}-{strategy}-{budget}.pack"
        if not onnx.exists():
            call([self.eyelet, "zoo", network, "-o", onnx])
        options = ["--board", settings.BOARD, "--strategy", strategy, "--budget", budget]
        return pack, self.json("plan", onnx, *options, "-o", pack)

    def run(self, pack, io, runs, warmup):
        """A turn of inferences."""
        options = ["--device", "cuda", "--io", io, "--runs", runs, "--warmup", warmup]
        return self.json("run", pack, *options)

    def latency(self, torch):
        """All weights resident, batch 1, in turns with PyTorch."""
        name = settings.TINY_LATENCY if self.tiny else settings.LATENCY
        pack, _ = self.pack(name, "joint")
        theirs = torch.Network(name) if torch else None
        runs, warmup = (2, 1) if self.tiny else (settings.RUNS, settings.WARMUP)
        ours, others, run = [], {}, {}
        for _ in range(self.turns):
            run = self.run(pack, "buffered", runs, warmup)
            ours.append(run["latency_ms"]["median"])
            for way, times in (theirs.time(runs, warmup) if theirs else {}).items():
                others.setdefault(way, []).append(median(times))
            self.log(f"{name}: {ours[-1]:.3f} ms")
        return {
            "network": name,
            "ours_ms": median(ours),
            "ours_turns": ours,
            "run": run,
            "theirs_ms": {way: median(times) for way, times in others.items()},
            "torch": torch and torch.facts(),
        }

    def layering(self, networks):
        """Every strategy of Demand Layering, from the page cache and past it, in turns."""
        runs, warmup = (2, 1) if self.tiny else (settings.LAYERING_RUNS, settings.LAYERING_WARMUP)
        rows = []
        for name in networks:
            packs = {}
            for strategy in settings.STRATEGIES:
                try:
                    packs[strategy] = self.pack(name, strategy)
                except Failed as error:
                    # What a strategy cannot be on a board, the command says.
                    rows.append({"network": name, "strategy": strategy, "refused": str(error)})
            if settings.FAIR in packs:
                # What eyelet's own strategy makes of the memory that this one takes.
                budget = packs[settings.FAIR][1]["plans"][0]["arena_bytes"]
                try:
                    packs[f"joint, in {settings.FAIR}'s memory"] = self.pack(name, "joint", budget)
                except Failed as error:
                    rows.append({"network": name, "strategy": f"joint, in {settings.FAIR}'s memory", "refused": str(error)})
            for io in settings.IO:
                turns = {strategy: [] for strategy in packs}
                for _ in range(self.turns):
                    for strategy, (pack, _) in packs.items():
                        try:
                            turns[strategy].append(self.run(pack, io, runs, warmup))
                        except Failed as error:
                            rows.append({"network": name, "strategy": strategy, "io": io, "refused": str(error)})
                            turns[strategy] = None
                            break
                for strategy, (_, plan) in packs.items():
                    if turns[strategy]:
                        rows.append(self.row(name, strategy, io, plan, turns[strategy]))
            for pack, _ in packs.values():
                pack.unlink(missing_ok=True)
        return {"rows": rows}

    def row(self, name, strategy, io, plan, turns):
        last = turns[-1]
        [made] = plan["plans"]
        row = {
            "network": name,
            "strategy": strategy,
            "io": io,
            "ms": median([turn["latency_ms"]["median"] for turn in turns]),
            "max_ms": max(turn["latency_ms"]["max"] for turn in turns),
            "predicted_ms": last["predicted_ms"],
            "arena_bytes": last["arena_bytes"],
            "weight_buffer_bytes": made.get("weight_buffer_bytes"),
            "staging_bytes": made.get("staging_bytes"),
            "device_bytes": last["gpu"]["device_bytes"],
            "host_bytes": last["gpu"]["host_bytes"],
            "bytes_read": last["bytes_read_per_inference"],
        }
        self.log(f"{name}, {strategy}, {io}: {row['ms']:.3f} ms")
        return row
