"""Layer by layer: eyelet's own times beside those of onnxruntime's profile."""

import json
import math
from collections import defaultdict
from dataclasses import dataclass

from common import Failed, call, ms, table
from measure import REFERENCE, RESIDENT, output_file
from settings import LAYER_TURNS, LONG_SUM

# Operators that multiply, by their names in eyelet and in onnxruntime.
OWN = {"Conv", "F(2,3)", "F(4,3)", "Depthwise", "MatMul"}
OTHER = {"Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul"}
OTHERS = "others"


@dataclass
class Layer:
    """A layer that multiplies, in one of the engines."""

    name: str
    elements: int
    ms: float
    kind: str = ""
    sum_length: int = 0


def kind(node):
    """What a node of a profile computes, and the length of its sums."""
    left, right = (next(iter(shape.values())) for shape in node["args"]["input_type_shape"][:2])
    if "Conv" not in node["args"]["op_name"]:
        return "matrix", left[-1]
    size = "x".join(map(str, right[2:]))
    length = math.prod(right[1:])
    if right[1] == 1 and right[0] > 1 and left[1] > 1:
        return ("scale" if length == 1 else f"depthwise {size}"), length
    return (f"grouped {size}" if right[1] != left[1] and left[1] > 4 else size), length


class Layers:
    """Runs both engines in turns with their own clocks. `times` are by network and threads: pairs of layers, and what
    is left of each engine's time."""

    def __init__(self, bench):
        self.bench = bench
        self.times = {}

    def run(self):
        for network in self.bench.networks:
            for threads in self.bench.threads:
                own, other = defaultdict(lambda: math.inf), defaultdict(lambda: math.inf)
                nodes, layers = {}, {}
                self.bench.log(f"layers: {network.name}, threads {threads}")
                try:
                    for _ in range(LAYER_TURNS):
                        for key, node in self.profile(network, threads):
                            nodes[key] = node
                            other[key] = min(other[key], node["dur"] / 1e3)
                        for layer in self.own(network, threads):
                            layers[layer["name"]] = layer
                            own[layer["name"]] = min(own[layer["name"]], layer["compute_ms"]["min"])
                except Failed as failed:
                    self.bench.log(f"  {network.name} cannot be measured by layer: {failed}")
                    continue
                self.times[network.name, threads] = pair(layers, own, nodes, other)

    def own(self, network, threads):
        runs, warmup = self.bench.counts(network, threads)
        command = [network.eyelet, "run", network.pack(network.everything), "--threads", threads]
        return json.loads(call([*command, "--runs", runs, "--warmup", warmup, "--layers", "--json"]))["layers"]

    def profile(self, network, threads):
        """The nodes of all inferences, each with a key that is the same in each inference."""
        runs, warmup = self.bench.counts(network, threads)
        prefix = network.folder / "profile"
        for stale in network.folder.glob("profile_*.json"):
            stale.unlink()
        output = output_file(network, "profiled", threads)
        self.bench.run_peer(network, REFERENCE, threads, warmup, runs, output, prefix)
        (written,) = network.folder.glob("profile_*.json")
        for event in json.loads(written.read_text()):
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                yield int(event["args"]["node_index"]), event

    def ratio(self, network, threads):
        """The sum of eyelet's fastest layers as a part of that of onnxruntime's."""
        pairs, rest = self.times.get((network.name, threads), (None, None))
        if not pairs:
            return None
        own, other = (sum(pair[side].ms for pair in pairs) + rest[side] for side in (0, 1))
        return own / other

    def raw(self):
        """All pairs, for a file."""
        return [
            {"network": name, "threads": threads, "name": own.name, "kind": own.kind, "k": own.sum_length,
             RESIDENT: own.ms, REFERENCE: other.ms, "gflops": 2e-6 * own.elements * own.sum_length / own.ms}
            for (name, threads), (pairs, _) in self.times.items()
            for own, other in pairs
        ]

    def table(self):
        threads = self.bench.threads
        rows = []
        for network in self.bench.networks:
            sums = {}
            for count in threads:
                for group, layers, own, other, products in groups(*self.times.get((network.name, count), ([], None))):
                    sums.setdefault((group, layers), {})[count] = own, other, products
            first = lambda item: (item[0][0] == OTHERS, -max(own for own, _, _ in item[1].values()))  # noqa: E731
            for (group, layers), times in sorted(sums.items(), key=first):
                row = [network.name, group, layers or "–"]
                for count in threads:
                    own, other, products = times.get(count, (None, None, 0))
                    speeds = (f"{2e-6 * products / time:.0f}" if products and time else "–" for time in (other, own))
                    row += [ms(other), ms(own), f"{own / other:.2f}" if own and other else "–", " / ".join(speeds)]
                rows.append(row)
        head = ["network", "layers of", "number"]
        for count in threads:
            head += [f"onnxruntime, {count} thr.", f"eyelet, {count} thr.", "ratio", "GFLOP/s"]
        return table(head, rows)


def pair(layers, own_ms, nodes, other_ms):
    """Layers of both that are the same: of one name, or else, in order, of as many outputs. Fused nodes bear the
    activation's name in the profile."""
    own = [Layer(name, math.prod(layer["output"]), own_ms[name]) for name, layer in layers.items() if layer["op"] in OWN]
    other = []
    for key, node in sorted(nodes.items()):
        if node["args"]["op_name"] in OTHER:
            shape = next(iter(node["args"]["output_type_shape"][0].values()))
            name = node["name"].removesuffix("_kernel_time").removesuffix("_nchwc").split("/")[0]
            other.append(Layer(name, math.prod(shape), other_ms[key], *kind(node)))
    pairs = []
    for same in (lambda a, b: a.name == b.name, lambda a, b: a.elements == b.elements):
        for layer in list(own):
            found = next((node for node in other if same(layer, node)), None)
            if found:
                layer.kind, layer.sum_length = found.kind, found.sum_length
                pairs.append((layer, found))
                own.remove(layer)
                other.remove(found)
    rest = (sum(own_ms.values()) - sum(layer.ms for layer, _ in pairs), sum(other_ms.values()) - sum(node.ms for _, node in pairs))
    return pairs, rest


def groups(pairs, rest):
    """By kind: its name, layers, both engines' time, and products. Long sums are a kind of their own."""
    found = defaultdict(list)
    for own, other in pairs:
        found[f"{own.kind}, k ≥ {LONG_SUM}" if own.sum_length >= LONG_SUM else own.kind].append((own, other))
    for group, of in found.items():
        products = sum(own.elements * own.sum_length for own, _ in of)
        yield group, len(of), sum(own.ms for own, _ in of), sum(other.ms for _, other in of), products
    if rest:
        yield OTHERS, 0, *rest, 0
