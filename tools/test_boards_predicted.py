"""Tests of the page that boards_predicted.py makes, and that it has every board and network that it should have."""

import unittest

from boards_predicted import BOARDS, LEFT_OUT, PAGE, ROOT, page
from networks import ROOM

MIB = 1 << 20


def found(least, points):
    """What is kept of a network on a board: points are budget, predicted, bound, bytes read."""
    budgets = [{"budget_bytes": budget, "lower_bound_ms": bound} for budget, _, bound, _ in points]
    plans = [
        {"budget_bytes": budget, "feasible": ms is not None, "predicted_ms": ms, "bytes_read_per_inference": read}
        for budget, ms, _, read in points
    ]
    return {"least": least, "sweep": {"weights_bytes": 8 * MIB, "budgets": budgets, "points": plans}}


class Page(unittest.TestCase):
    def setUp(self):
        points = [(2 * MIB, 30.0, 20.0, 12 * MIB), (4 * MIB, 15.0, 12.0, 4 * MIB), (ROOM, 5.0, 5.0, 0)]
        self.networks = [{"name": "net", "file_bytes": 8 * MIB}]
        self.kept = {"net": {"cortex-a53": found(2 * MIB, points), "jetson-nano:cuda": {"error": "no kernel"}}}

    def test_a_cell_has_latency_and_gap(self):
        text = page(self.networks, ["cortex-a53"], self.kept)
        # An eighth and a quarter of the weights are no more than the smallest budget.
        self.assertIn("| net | 8.00 | 2.00 | 30.0 (+50 %) | – | – | 15.0 (+25 %) | 5.00 (+0 %) |", text)
        self.assertIn("| net, A board with four Cortex-A53 | 1/2 | 15.0 | 12.0 | 25 % | 50 % |", text)
        self.assertIn("| smallest | 1 | 50 % | 0 % | 50 % |", text)

    def test_what_cannot_be_planned_is_said(self):
        text = page(self.networks, ["cortex-a53", "jetson-nano:cuda"], self.kept)
        self.assertIn("Not there: net.", text)
        self.kept["net"]["cortex-a53"]["sweep"]["points"][0]["feasible"] = False
        self.assertIn("| 2.00 | no plan | – |", page(self.networks, ["cortex-a53"], self.kept))

    def test_the_page_has_every_board(self):
        text = PAGE.read_text()
        for title in BOARDS.values():
            self.assertIn(f"\n## {title}\n", text)
        described = {folder.parent.name for folder in (ROOT / "boards").glob("*/board.toml")}
        emulated = {"mps3-an547", "qemu-virt-a15", "qemu-virt-a57"}
        self.assertEqual({board.partition(":")[0] for board in BOARDS}, described - emulated)
        for name in LEFT_OUT:
            self.assertNotIn(f"| {name} |", text)


if __name__ == "__main__":
    unittest.main()
