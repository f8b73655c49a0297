"""Decide whether a figure grows: its slope in the last third of a measurement, with its noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

BLOCKS = 10
#: A quantile of Student's distribution with `BLOCKS - 2` degrees of freedom: if a figure does not
#: grow, 95 of 100 slopes lie within this many standard errors of zero.
_STUDENT = 2.306


class Growth(NamedTuple):
    """How much a figure grows per unit, and how far the true growth may lie from this (95 %)."""

    slope: float
    noise: float

    @property
    def beyond_noise(self) -> float:
        """The least growth that the samples allow; 0 where the figure may not grow at all."""
        return max(0.0, self.slope - self.noise)


def growth(at: Sequence[float], values: Sequence[float]) -> Growth | None:
    """The growth in the last third of the samples.

    The third is cut into ten blocks. A line is fitted to their means by least squares; the
    distances of the means from this line give the noise. Means of blocks are used and not samples,
    because neighbouring samples are alike: the noise would come out too small.

    Args:
        at: when each sample was taken (minutes, or loads), rising.
        values: the figure at each of these moments.

    Returns:
        The growth per unit of `at`; None where the third has fewer than ten samples.
    """
    first = at[0] + (at[-1] - at[0]) * 2 / 3
    third = [(x, y) for x, y in zip(at, values, strict=True) if x >= first]
    if len(third) < BLOCKS:
        return None
    means = [np.mean(block, axis=0) for block in np.array_split(np.array(third), BLOCKS)]
    x, y = np.array(means).T
    if np.ptp(y) == 0:  # otherwise rounding would make a slope of it
        return Growth(0.0, 0.0)
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    error = float(np.sqrt(rest @ rest / (BLOCKS - 2) / (x @ x)))
    return Growth(slope, _STUDENT * error)
