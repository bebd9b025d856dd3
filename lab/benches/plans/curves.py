"""Draws the measured curves: latency by budget, each strategy a line, the bound below."""

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plot  # noqa: E402

from settings import JOINT, STRATEGIES  # noqa: E402

MIB = 1 << 20


def draw(plans, network, io, path):
    """One figure for a network and a way of reading."""
    plot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "eyelet", "font.size": 10})
    figure, axes = plot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for name in STRATEGIES:
        points = sorted((plan.budget, plan.ms.value) for plan in plans if plan.name == name)
        if points:
            budgets, times = zip(*((budget / MIB, time) for budget, time in points))
            style = {"linewidth": 2.2, "marker": "o"} if name == JOINT else {"linewidth": 1.2, "marker": "."}
            axes.plot(budgets, times, label=name, **style)
    bounds = sorted((plan.budget / MIB, plan.bound_ms) for plan in plans if plan.name == JOINT)
    axes.plot(*zip(*bounds), label="bound", color="0.4", linestyle="--", linewidth=1)
    axes.set(xscale="log", xlabel="budget (MiB)", ylabel="latency (ms)", title=f"{network}, --io {io}")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plot.close(figure)
