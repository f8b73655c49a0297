"""How far two right answers may be apart, derived from how they are computed.

A tolerance carries its reason, which a check says to the student beside the number::

    score = tolerance.float_sum(terms=61, magnitude=12.0, over="60 trees")
    require.agreement("the server's probabilities", served, library, "the library's",
                      tolerance=tolerance.logistic(score))
    # … differ in 3 of 114 rows, by up to 0.2. Allowed is 9e-05: two float32 sums over 60 trees may
    # be that far apart.
"""

from __future__ import annotations

import dataclasses
import math

#: The unit roundoff of float32: rounding to float32 changes a number by at most this share of it.
UNIT = 2.0**-24


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The largest difference that is allowed, and why.

    Attributes:
        allowed: the largest absolute difference.
        because: the reason, as the end of a sentence.
        far: a difference above `far` times `allowed` has another reason, so this one is not shown.
    """

    allowed: float
    because: str
    far: float = math.inf


def float_sum(terms: int, magnitude: float, *, over: str = "") -> Tolerance:
    """For two float32 sums of the same terms, added in different orders.

    A float32 sum of n terms, in any order, has an error of at most n u M. Here u is the unit
    roundoff, and M is the sum of the terms' magnitudes. Two such sums differ by at most 2 n u M.
    Another u M is added for a program that adds in float64 and rounds once at the end.

    Example::

        tolerance.float_sum(terms=61, magnitude=60 * 0.2, over="60 trees").allowed      # 8.8e-05

    Args:
        terms: how many numbers are added, a bias included.
        magnitude: at least the sum of their absolute values.
        over: what is added, for the message: "60 trees". By default the number of terms.

    Returns:
        The tolerance.
    """
    over = over or f"{terms} terms"
    return Tolerance(
        (2 * terms + 1) * UNIT * magnitude,
        f"two float32 sums over {over} may be that far apart",
    )


def logistic(score: Tolerance) -> Tolerance:
    """For two probabilities, each the logistic function of a score.

    The slope of that function is at most 1/4, so a difference of the scores counts a quarter.
    Computing the function adds at most four roundings.

    Example::

        tolerance.logistic(tolerance.float_sum(terms=61, magnitude=12.0))

    Args:
        score: the tolerance of the scores.

    Returns:
        The tolerance of the probabilities.
    """
    return Tolerance(score.allowed / 4 + 4 * UNIT, score.because)


def rounding(magnitude: float = 1.0, *, because: str = "") -> Tolerance:
    """For float32 numbers that one program has computed twice in the same way.

    They may differ where a batch of another size was added up in another order: four roundings.

    Example::

        tolerance.rounding(float(np.abs(served).max()))

    Args:
        magnitude: the largest absolute value.
        because: the reason, as the end of a sentence.

    Returns:
        The tolerance.
    """
    because = because or "the server answers the same rows in the same way"
    return Tolerance(4 * UNIT * max(1.0, magnitude), because)
