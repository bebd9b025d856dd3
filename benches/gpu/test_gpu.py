"""Tests of what needs no GPU: `python3 -m unittest discover -s benches/gpu -p 'test_*.py'`."""

import unittest

import shapes
import statistics_of as statistics


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


if __name__ == "__main__":
    unittest.main()
