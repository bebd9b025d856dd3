"""Tests of what predictions.py draws and counts."""

import unittest

from predictions import between, draw, error, lies_in, near, width


class Predictions(unittest.TestCase):
    def test_budgets_lie_between_the_smallest_and_the_largest(self):
        self.assertEqual([between(4, 64, place) for place in (0, 0.5, 1)], [4, 16, 64])
        self.assertEqual(between(4, 1, 0.5), 4)

    def test_every_network_has_its_turn(self):
        plans = draw(5, ["a", "b", "c"], [1, 2], seed=3)
        self.assertEqual(len(plans), 5)
        self.assertEqual({name for name, _, _ in plans[:3]}, {"a", "b", "c"})
        self.assertEqual(plans, draw(5, ["a", "b", "c"], [1, 2], seed=3))
        self.assertNotEqual(plans, draw(5, ["a", "b", "c"], [1, 2], seed=4))

    def test_errors_are_shares_of_what_was_measured(self):
        self.assertAlmostEqual(error(115, 100), 0.15)
        self.assertEqual(near([0.1, -0.1, 0.2, -0.3]), 2)

    def test_ranges_hold_their_ends(self):
        self.assertTrue(lies_in(3.0, [3.0, 4.0]) and lies_in(4.0, [3.0, 4.0]))
        self.assertFalse(lies_in(2.9, [3.0, 4.0]) or lies_in(3.5, None))
        self.assertEqual(width(4.0, [3.0, 5.0]), [-0.25, 0.25])


if __name__ == "__main__":
    unittest.main()
