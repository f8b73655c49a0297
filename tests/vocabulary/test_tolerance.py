"""Tolerances are large enough for every order of additions, and small enough to find a mistake."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from grader.vocabulary import tolerance

TERMS = stn.arrays(
    np.float32, st.integers(1, 200), elements=st.floats(-8, 8, width=32, allow_subnormal=False)
)


def _sum(terms: np.ndarray) -> np.float32:
    total = np.float32(0)
    for term in terms:
        total = np.float32(total + term)
    return total


@settings(max_examples=200)
@given(TERMS, st.randoms(use_true_random=False))
def test_float_sum_holds_for_every_order(terms: np.ndarray, random: object) -> None:
    """One after the other, shuffled, in pairs, and in float64: all are within the tolerance."""
    order = np.random.default_rng(random.getrandbits(32)).permutation(len(terms))  # type: ignore[attr-defined]
    allowed = tolerance.float_sum(len(terms), float(np.abs(terms).astype(np.float64).sum()))
    sums = [
        float(_sum(terms)),
        float(_sum(terms[order])),
        float(np.add.reduce(terms)),
        float(np.float32(terms.astype(np.float64).sum())),
    ]
    assert max(sums) - min(sums) <= allowed.allowed
    scores = np.array(sums)
    p = 1 / (1 + np.exp(-np.clip(scores, -50, 50).astype(np.float32)))
    assert np.ptp(p) <= tolerance.logistic(allowed).allowed


def test_a_tolerance_sees_a_missing_tree() -> None:
    allowed = tolerance.logistic(tolerance.float_sum(61, 60 * 0.2, over="60 trees"))
    assert allowed.allowed < 1e-4
    assert allowed.because == "two float32 sums over 60 trees may be that far apart"
    assert (
        tolerance.float_sum(3, 1.0).because == "two float32 sums over 3 terms may be that far apart"
    )


@pytest.mark.parametrize(("magnitude", "allowed"), [(0.5, 2**-22), (1, 2**-22), (8, 2**-19)])
def test_rounding(magnitude: float, allowed: float) -> None:
    assert tolerance.rounding(magnitude).allowed == allowed
    assert "in the same way" in tolerance.rounding().because
    assert tolerance.rounding(because="so").because == "so"
