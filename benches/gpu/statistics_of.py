"""Medians, ratios and their mean."""

import math


def median(values):
    """The middle value; of an even number of values the mean of the middle two."""
    values = sorted(values)
    if not values:
        raise ValueError("no values")
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def spread(values):
    """Half the distance between the quartiles as a share of the median: what a ratio may be off by."""
    values = sorted(values)

    def quantile(share):
        at = share * (len(values) - 1)
        low = math.floor(at)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (at - low)

    return (quantile(0.75) - quantile(0.25)) / 2 / median(values)


def geometric_mean(values):
    """Of positive values."""
    values = list(values)
    if not values or min(values) <= 0:
        raise ValueError("the geometric mean is of positive values")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def speed(ours, theirs):
    """How fast ours is, theirs being 1: their median time through ours."""
    return median(theirs) / median(ours)
