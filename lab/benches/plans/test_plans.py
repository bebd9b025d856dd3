"""Tests of what counts: `python3 -m unittest discover -s lab/benches/plans -p 'test_*.py'`."""

import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[3] / "benches")]

import profiles  # noqa: E402
import report  # noqa: E402
import turns  # noqa: E402
from settings import PROFILE_TRIES, TRIES  # noqa: E402
from turns import Figure, Inference, Measured, Turn  # noqa: E402

RATE = 100


def told(*inferences):
    """As `eyelet run --speed --json` tells inferences: milliseconds, the rate before, the rate behind."""
    names = ("latency_ms", "before_gflops", "after_gflops")
    return {"stall_ms": 0.5, "speed": {"inferences": [dict(zip(names, each)) for each in inferences]}}


def turn(ms, disturbed=False):
    return Turn(ms, disturbed, ms, 0 if disturbed else 2, RATE, [], [Inference(ms, RATE)] * 2)


def plan(taken, again=(), bounds=(), predicted=(), name="joint"):
    bounds = [Figure(bound, True) for bound in bounds]
    predicted = [Figure(each, True) for each in predicted]
    return Measured("net", 1 << 20, "direct", name, 1.0, {}, Path(), list(taken), list(again), predicted, bounds)


class Turns(unittest.TestCase):
    def test_the_probe_must_be_fast_before_and_behind(self):
        found = turns.inferences(told((3, 95, 95), (1, 94, 99), (2, 99, 94), (4, 101, 96)))
        taken = Turn.of(found, [], RATE, 2)
        self.assertEqual((taken.undisturbed, taken.disturbed, taken.ms), (2, False, 3))

    def test_lower_quartile_is_the_profiles(self):
        for count, place in ((1, 0), (3, 0), (4, 1), (7, 1), (8, 2)):
            self.assertEqual(turns.lower_quartile(list(reversed(range(count)))), place)

    def test_where_they_are_too_few_all_count(self):
        found = turns.inferences(told((1, 100, 100), (5, 60, 60), (6, 60, 60), (7, 60, 60)))
        self.assertFalse(Turn.of(found, [], RATE, 1).disturbed)
        taken = Turn.of(found, [], RATE, 2)
        self.assertTrue(taken.disturbed)
        self.assertEqual((taken.ms, taken.median_ms, taken.undisturbed), (5, 5.5, 1))

    def test_a_turn_is_repeated_until_enough_are_undisturbed(self):
        tries = iter([told((1, 60, 60), (2, 100, 100), (3, 60, 60)), told((4, 100, 100), (5, 60, 60), (6, 60, 60))])
        asked = []
        taken = turns.take(lambda runs: asked.append(runs) or next(tries), 3, RATE)
        self.assertEqual(asked, [3, 3])
        self.assertEqual((taken.ms, taken.median_ms, taken.undisturbed, taken.disturbed), (2, 3.5, 2, False))
        self.assertEqual(len(taken.inferences), 6)

    def test_a_third_is_enough_and_two_at_least(self):
        self.assertEqual([turns.enough(runs) for runs in (3, 6, 7, 9, 300)], [2, 2, 3, 3, 100])

    def test_a_turn_is_not_repeated_for_ever(self):
        asked = []
        taken = turns.take(lambda runs: asked.append(runs) or told((1, 60, 60)), 3, RATE)
        self.assertEqual(len(asked), TRIES)
        self.assertTrue(taken.disturbed)


class Quotients(unittest.TestCase):
    def test_rounds_count_in_which_both_were_undisturbed(self):
        one = plan([turn(2), turn(9, True), turn(4)])
        other = plan([turn(1), turn(1), turn(8, True)])
        self.assertEqual(one.times(other), (2, True))

    def test_all_rounds_count_where_there_is_no_such_one(self):
        one = plan([turn(2), turn(9, True), turn(3, True)])
        other = plan([turn(1, True), turn(3), turn(1)])
        self.assertEqual(one.times(other), (3, False))

    def test_of_two_turns_in_a_round_the_undisturbed_ones_count(self):
        one = plan([turn(2), turn(2), turn(2, True)], [turn(8), turn(8, True), turn(8, True)])
        self.assertEqual(one.rounds, [(4, True), (2, True), (4, False)])
        self.assertEqual(one.repeats, (4, True))

    def test_a_plan_takes_what_its_undisturbed_turns_took(self):
        one = plan([turn(2), turn(9, True), turn(4)], bounds=[1, 1, 1], predicted=[4, 4, 4])
        self.assertEqual(one.ms, (3, True))
        self.assertEqual(one.over_bound, (2, True))
        self.assertEqual(one.error, (0.5, True))
        self.assertEqual(plan([turn(2, True), turn(9, True)]).ms, (5.5, False))

    def test_of_two_figures_the_undisturbed_ones_count(self):
        self.assertEqual(turns.mean(Figure(2, True), Figure(8, True)), (4, True))
        self.assertEqual(turns.mean(Figure(2, False), Figure(8, True)), (8, True))
        self.assertEqual(turns.mean(Figure(2, False), Figure(8, False)), (4, False))

    def test_disturbed_bounds_disturb_what_is_held_against_them(self):
        one = plan([turn(2), turn(2)])
        one.bounds = [Figure(1, False), Figure(2, True)]
        self.assertEqual(one.over_bound, (0, True))
        one.bounds = [Figure(1, False)] * 2
        self.assertEqual(one.over_bound, (1, False))

    def test_spread_is_of_turns_that_count(self):
        self.assertEqual(plan([turn(2), turn(2), turn(9, True)]).spread, 0)
        self.assertIsNone(plan([turn(2), turn(9, True)]).spread)

    def test_share_is_that_of_inferences(self):
        self.assertEqual(plan([turn(2), turn(2, True)]).share, 0.5)


class FakeProfile:
    def __init__(self, probe, conv, predicted_ms=0, disturbed=False):
        self.rates, self.predicted_ms, self.disturbed = (probe, conv), predicted_ms, disturbed


class Profiles(unittest.TestCase):
    def measured(self, *rates):
        """The one that is kept, and how many were measured, on a machine that was once as fast as can be."""
        each = iter([FakeProfile(*pair) for pair in rates])
        fastest, made = profiles.Fastest(), []
        fastest.saw((RATE, RATE))
        kept = profiles.first_undisturbed(lambda number: made.append(number) or next(each), fastest)
        return kept.rates, made

    def test_an_undisturbed_profile_is_kept(self):
        self.assertEqual(self.measured((96, 97)), ((96, 97), [1]))

    def test_a_disturbed_profile_is_measured_again(self):
        self.assertEqual(self.measured((60, 99), (95, 95)), ((95, 95), [1, 2]))
        self.assertEqual(self.measured((99, 90), (95, 95)), ((95, 95), [1, 2]))

    def test_of_disturbed_ones_that_with_the_fastest_probe_is_kept(self):
        kept, made = self.measured(*[(60, 99), (99, 90), (80, 80)][:PROFILE_TRIES])
        self.assertEqual((kept, len(made)), ((99, 90), PROFILE_TRIES))

    def test_a_first_profile_is_judged_again_when_more_is_known(self):
        fastest, slow, fast = profiles.Fastest(), FakeProfile(60, 60), FakeProfile(90, 90)
        for profile in (slow, fast):
            self.assertIs(profiles.first_undisturbed(lambda _, profile=profile: profile, fastest), profile)
        fastest.judge([slow, fast])
        self.assertEqual((slow.disturbed, fast.disturbed), (True, False))

    def test_the_middle_one_is_of_undisturbed_ones(self):
        slow, slower = FakeProfile(1, 1, 9, True), FakeProfile(1, 1, 10, True)
        quiet = FakeProfile(1, 1, 7)
        self.assertIs(profiles.middle([slow, quiet, slower]), quiet)
        self.assertIs(profiles.middle([slower, slow]), slow)


class Counts(unittest.TestCase):
    def test_all_and_the_undisturbed_ones(self):
        figures = [Figure(0.05, True), Figure(0.05, False), Figure(0.5, True)]
        self.assertEqual(report.tally(figures, report.near), ["2 of 3", "1 of 2"])
        self.assertEqual(report.tally([], report.near), ["–", "–"])

    def test_the_best_baseline_is_that_against_which_joint_is_slowest(self):
        plans = [plan([turn(4)]), plan([turn(8)], name="flexnn"), plan([turn(5, True)], name="direct")]
        (cell,) = report.against_best(plans)
        self.assertEqual((cell.best, cell.ratio), ("direct", (0.8, False)))
        (alone,) = report.against_best(plans[:1])
        self.assertIsNone(alone.ratio)
        self.assertEqual(report.against_best(plans[1:]), [])

    def test_ranks(self):
        plans = [plan([turn(ms)], predicted=[ms * 2]) for ms in (3, 1, 2)]
        self.assertEqual(report.order(plans), "1.000")
        self.assertEqual(report.order(plans[:1]), "–")


if __name__ == "__main__":
    unittest.main()
