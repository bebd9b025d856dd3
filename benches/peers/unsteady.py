"""eyelet and the reference alone, in many short turns, for machines whose speed changes within minutes.

A disturbance only slows. So the fastest inference of all turns tells what the machine allows, and the quartiles of the
turns' medians tell how unsteady it was.
"""

from common import ms, table
from layers import Layers
from measure import REFERENCE, RESIDENT, Bench, Way
from report import geometric_mean


class Unsteady(Bench):
    """Rounds of two engines. Layers are measured after them, in turns as well."""

    peers = [REFERENCE]

    def ways(self, network):
        return [Way(RESIDENT, network.pack(network.everything), "direct")]

    def choose_checksums(self):
        return None

    def run(self):
        super().run()
        self.layers = Layers(self)
        self.layers.run()

    def pairs(self):
        """Networks, threads, and what both engines showed, where both results count."""
        for network in self.networks:
            for threads in self.threads:
                own, other = (self.results[network.name, threads, engine] for engine in (RESIDENT, REFERENCE))
                if own.ok and other.ok:
                    yield network, threads, own, other

    def table(self):
        rows, minima, medians, sums = [], [], [], []
        for network, threads, own, other in self.pairs():
            row = [network.name, threads]
            for result in (other, own):
                row += [ms(result.least_ms), " ".join(map(ms, result.quartiles))]
            minima.append(own.least_ms / other.least_ms)
            medians.append(own.ms / other.ms)
            layers = self.layers.ratio(network, threads)
            sums += [layers] if layers else []
            rows.append([*row, f"{minima[-1]:.2f}", f"{medians[-1]:.2f}", f"{layers:.2f}" if layers else "–"])
        if rows:
            means = (f"**{geometric_mean(ratios):.2f}**" if ratios else "–" for ratios in (minima, medians, sums))
            rows.append(["geometric mean", "", "", "", "", "", *means])
        head = ["network", "threads", "onnxruntime, minimum", "quartiles", "eyelet, minimum", "quartiles", "by minima", "by medians", "by layers"]
        return table(head, rows)

    def section(self, title, facts):
        """A section of the results."""
        lines = "\n".join(f"- {name}: {value}" for name, value in facts.items())
        failures = [f"- {name}, threads {threads}, {engine}: {result.failure or f'differs by {result.error:.1e}'}"
                    for (name, threads, engine), result in self.results.items() if not result.ok]
        missing = "\n\nNot measured:\n\n" + "\n".join(failures) if failures else ""
        return f"""{title}

{lines}

Milliseconds of one inference, all weights resident. The engines took {self.rounds} short turns in alternation, each in a process
of its own. The minimum is that of all inferences; the quartiles are those of the turns' medians. The last three columns are eyelet's
time as a part of onnxruntime's; for that by layers, each layer's fastest time counts, as below. A layer is so short that it is
rarely disturbed in all turns.

{self.table()}{missing}

Layer by layer, as both engines time their own (`eyelet run --layers`, onnxruntime's profile): for each layer its
fastest time of all turns, added up by kind. k is the number of products in one sum. What one of them does beside such layers
(other operators, changes of layout) is among the others.

{self.layers.table()}"""


def replace_section(page, title, section):
    """The page with that section in the place of the one with this title, or at the end."""
    before, found, after = page.partition(f"\n{title}\n")
    if not found:
        return f"{page.rstrip()}\n\n{section}\n"
    _, next_title, rest = after.partition("\n## ")
    return f"{before}\n{section}\n" + (f"\n## {rest}" if next_title else "")


def section_of(page, title):
    """That section of a page, or nothing."""
    _, found, after = page.partition(f"\n{title}\n")
    return f"{title}\n{after.partition(chr(10) + '## ')[0].rstrip()}" if found else ""
