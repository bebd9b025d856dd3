"""Tests of what needs no GPU: `python3 -m unittest discover -s benches/gpu -p 'test_*.py'`."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import kernels  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import shapes  # noqa: E402
import statistics_of as statistics  # noqa: E402
import tests_on_gpu  # noqa: E402


class Shapes(unittest.TestCase):
    # Convolutions with fully connected layers, and multiply-accumulates in millions, as published: torchvision's for the
    # first three; Darknet's 65.86 and 60.1 billion operations, two to a multiply-accumulate, for YOLO at 416x416.
    PUBLISHED = {
        "resnet50": (54, 4_089, 0.001),
        "resnet152": (156, 11_514, 0.001),
        "vgg19": (19, 19_632, 0.001),
        "yolov3": (75, 65_860 / 2, 0.001),
        "yolov4": (110, 60_100 / 2, 0.001),
    }

    def test_networks_are_the_published_ones(self):
        networks = shapes.networks()
        self.assertEqual(networks.keys(), self.PUBLISHED.keys())
        for name, (count, macs, within) in self.PUBLISHED.items():
            found = sum(shape.macs for shape in networks[name]) / 1e6
            self.assertEqual(len(networks[name]), count, name)
            self.assertLess(abs(found / macs - 1), within, f"{name}: {found}")

    def test_weights_are_those_of_the_networks(self):
        # Without biases: 25,557,032 parameters less batch norms' and the last layer's bias.
        weights = lambda name: sum(
            s.kernel**2 * s.inputs // s.groups * s.outputs for s in shapes.networks()[name]
        )
        self.assertEqual(weights("resnet50"), 25_557_032 - 2 * 26_560 - 1000)
        self.assertEqual(weights("resnet152"), 60_192_808 - 2 * 75_712 - 1000)

    def test_outputs_fit_inputs(self):
        for name, list_ in shapes.networks().items():
            for shape in list_:
                height, width = shape.output
                self.assertTrue(0 < height <= shape.height and 0 < width <= shape.width, (name, shape))
                self.assertEqual(shape.inputs % shape.groups, 0)

    def test_unique_counts_every_convolution_once(self):
        networks = shapes.networks()
        counts = shapes.unique(networks)
        for name, list_ in networks.items():
            self.assertEqual(sum(of.get(name, 0) for of in counts.values()), len(list_))
        # ResNet-50 and 152 have the same shapes.
        for of in counts.values():
            self.assertEqual("resnet50" in of, "resnet152" in of)
        self.assertEqual(len(set(shape.name for shape in counts)), len(counts))

    def test_lines_have_all_fields(self):
        self.assertEqual(shapes.Shape(56, 40, 64, 128, 3, 2, 1, 2).line(), "56 40 64 128 3 2 1 2")
        self.assertEqual(shapes.Shape(56, 40, 64, 128, 3, 2, 1, 2).name, "56x40x64 3x3/2 128 g2")


class Statistics(unittest.TestCase):
    def test_median(self):
        self.assertEqual(statistics.median([3, 1, 2]), 2)
        self.assertEqual(statistics.median([4, 1, 2, 3]), 2.5)
        self.assertRaises(ValueError, statistics.median, [])

    def test_spread(self):
        self.assertEqual(statistics.spread([2, 2, 2]), 0)
        self.assertAlmostEqual(statistics.spread([1, 2, 3, 4, 5]), 1 / 3)

    def test_geometric_mean(self):
        self.assertAlmostEqual(statistics.geometric_mean([0.5, 2]), 1)
        self.assertAlmostEqual(statistics.geometric_mean([1, 10, 100]), 10)
        self.assertRaises(ValueError, statistics.geometric_mean, [1, 0])
        self.assertRaises(ValueError, statistics.geometric_mean, [])

    def test_speed_is_above_one_when_ours_is_faster(self):
        self.assertEqual(statistics.speed([1, 1, 9], [2, 2, 2]), 2)


class Recorded:
    """A bench that has two algorithms: the second takes half the time."""

    def __init__(self, us):
        self.us, self.log = us, []

    def prepare(self, shape):
        self.log.append("shape")

    def time(self, rounds, launches):
        self.log.append(("ours", rounds, launches))
        return {"direct": [self.us] * rounds, "winograd2": [self.us / 2] * rounds}


class Kernels(unittest.TestCase):
    SHAPE = shapes.Shape(8, 8, 16, 32, 3, 1, 1)

    def measured(self, ours_us, theirs_us, count=None):
        ours = Recorded(ours_us)

        def theirs(_):
            def time(rounds, launches):
                ours.log.append(("theirs", rounds, launches))
                return [theirs_us] * rounds

            return {"cudnn nchw": time}

        return ours, kernels.measure(self.SHAPE, count or {"a": 2}, ours, theirs, turns=3, rounds=4)

    def test_sides_take_turns(self):
        ours, measured = self.measured(40.0, 10.0)
        # The first times say how many launches a round has.
        self.assertEqual(ours.log[:3], ["shape", ("ours", 1, 1), ("theirs", 1, 1)])
        turn = [("ours", 4, round(kernels.ROUND_US / 20)), ("theirs", 4, kernels.ROUND_US // 10)]
        self.assertEqual(ours.log[3:], 3 * turn)
        self.assertEqual(len(measured.ours["direct"]), 12)
        self.assertEqual(len(measured.theirs["cudnn nchw"]), 12)

    def test_each_side_counts_with_its_fastest(self):
        out = self.measured(40.0, 10.0)[1].report()
        self.assertEqual((out["ours_best"], out["theirs_best"], out["ratio"]), ("winograd2", "cudnn nchw", 0.5))

    def test_without_pytorch_there_is_no_ratio(self):
        out = kernels.measure(self.SHAPE, {"a": 1}, Recorded(3.0), None, 2, 2).report()
        self.assertNotIn("ratio", out)
        self.assertIsNone(kernels.summary([out]))

    def test_summary_weighs_networks_by_their_convolutions(self):
        slow = self.measured(40.0, 10.0, {"a": 2, "b": 1})[1].report()
        fast = self.measured(10.0, 10.0, {"a": 1})[1].report()
        summary = kernels.summary([slow, fast])
        self.assertEqual((summary["shapes"], summary["worst"]), (2, 0.5))
        self.assertAlmostEqual(summary["mean"], 1)
        self.assertAlmostEqual(summary["networks"]["a"]["ours_us"], 2 * 20 + 5)
        self.assertAlmostEqual(summary["networks"]["a"]["theirs_us"], 30)
        self.assertAlmostEqual(summary["networks"]["b"]["mean"], 0.5)

    def test_launches_fill_a_round(self):
        self.assertEqual(kernels.launches_for(1e9), 1)
        self.assertEqual(kernels.launches_for(0), 1000)


class Report(unittest.TestCase):
    FACTS = {"facts": {"Date": "2000-01-01", "Dry run": "no"}, "seconds": 1.5, "gpu": "a GPU; 9.0; 132; 12.6", "torch": None}

    def test_without_parts_it_says_so(self):
        page = report.page({})
        self.assertIn("No results have been taken yet", page)
        self.assertNotIn("##", page)

    def test_parts_that_are_missing_are_named(self):
        shape = Kernels().measured(40.0, 10.0)[1].report()
        data = self.FACTS | {"shapes": [shape], "summary": kernels.summary([shape])}
        page = report.page({"kernels": data})
        self.assertIn("0.50 in the geometric mean of 1 shapes", page)
        self.assertIn("a GPU, compute capability 9.0, 132 multiprocessors", page)
        self.assertEqual(page.count("Not measured yet."), 3)
        self.assertNotIn("No results have been taken yet", page)

    def test_failures_are_on_the_page(self):
        page = report.page({"latency": {"facts": {}, "seconds": 1, "error": "Failed: out of memory"}})
        self.assertIn("**Failed:** Failed: out of memory", page)

    def test_dry_runs_are_named(self):
        data = self.FACTS | {"facts": {"Dry run": "yes"}, "rows": [], "sanitizer": None}
        self.assertIn("A dry run", report.page({"tests": data}))

    def test_strategies_that_a_board_refuses_are_named(self):
        row = {"network": "n", "strategy": "demand-2s", "refused": "needs zero-copy"}
        self.assertIn("- demand-2s: needs zero-copy", report.page({"layering": self.FACTS | {"rows": [row]}}))


class Outcomes(unittest.TestCase):
    def test_counts_are_summed(self):
        text = "test result: ok. 3 passed; 0 failed; 1 ignored\ntest result: FAILED. 2 passed; 4 failed; 0 ignored\n"
        self.assertEqual(tests_on_gpu.count(text), (5, 4))

    def test_status_and_the_end_of_what_fails_are_kept(self):
        done = tests_on_gpu.run_one(["sh", "-c", "echo nothing works; exit 3"], 10)
        self.assertEqual((done["status"], done["passed"], done["end"]), (3, 0, ["nothing works"]))
        self.assertIsNone(tests_on_gpu.run_one(["sleep", "5"], 0.1)["status"])


class Layering(unittest.TestCase):
    def test_networks_of_earlier_calls_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "layering.json"
            self.assertEqual(run.others(path, ["a"]), [])
            rows = [{"network": "a", "ms": 1}, {"network": "b", "ms": 2}]
            path.write_text(json.dumps({"rows": rows}))
            self.assertEqual(run.others(path, ["a"]), rows[1:])
            self.assertEqual(run.others(path, list(run.LAYERING)), [])
            path.write_text(json.dumps({"error": "out of memory"}))
            self.assertEqual(run.others(path, ["a"]), [])


if __name__ == "__main__":
    unittest.main()
