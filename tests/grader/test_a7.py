"""Tests for a7__speed only. test_assignments.py has the tests for every assignment."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np
import pytest

from grader.assignments.a7__speed import checks, facts, load, reference, speed
from grader.vocabulary.failure import Failure
from grader.vocabulary.require_ratio import Ratio
from tests import sources
from workbook import assignments


def test_the_grader_s_program_computes_what_the_models_as_found_compute() -> None:
    """It is vectorised; theirs loops over pixels. Also for pictures of one colour, and noise."""
    random = np.random.default_rng(0)
    shape = (facts.SIDE, facts.SIDE, 3)
    noise = random.integers(0, 256, (2, *shape), dtype=np.uint8)
    plain = np.full((1, *shape), 137, np.uint8)
    pictures = np.concatenate([facts.draw(random, 4)[0], noise, plain])
    found = facts._as_found()(pictures)
    assert found.shape == (7, 1, facts.SMALL, facts.SMALL)
    np.testing.assert_allclose(reference.prepare(pictures), found, atol=1e-4)


def test_the_scale_in_the_text_is_the_one_that_counts() -> None:
    """The notebook has a table of ratios and points."""
    cells = sources.read(assignments.named("a7").source).cells
    (text,) = [c.source for c in cells if "| throughput |" in c.source]
    rows = [line.strip("# |").split(" | ") for line in text.splitlines() if " | " in line]
    (_, *ratios), (_, *points) = rows
    for ratio, wanted in zip(ratios, points, strict=True):
        number = float(ratio.split("×")[1].split()[0])
        below = "below" in ratio
        found = 40 * speed.throughput_credit(number - 0.01 if below else number)
        assert found == pytest.approx(float(wanted))


def test_an_open_load_counts_from_when_a_picture_was_due() -> None:
    """99 of 100: a request without scores counts as one that never came."""
    answers = [load.Answer(k, 0.0, 0.001 * k, np.zeros((1, 10))) for k in range(1, 100)]
    assert load.percentile([*answers, load.Answer(0, 0.0, 0.5, message="no")], 0.99) == 0.099
    assert math.isinf(load.percentile([load.Answer(0, 0.0, 0.5, message="no")], 0.99))
    assert math.isinf(load.percentile([], 0.99))


@pytest.mark.parametrize(
    ("in_time", "goodput", "credit"),
    [(1.0, 1.0, 1.0), (0.65, 0.5, 1.0), (0.35, 1.0, 0.0), (1.0, 0.25, 0.5), (0.5, 1.0, 0.5)],
)
def test_an_overload_s_points_are_by_both_shares(
    in_time: float, goodput: float, credit: float
) -> None:
    overload = speed.Overload(1_000, in_time, 0.1, 0, goodput, 0, 64)
    assert overload.credit == pytest.approx(credit)


def test_a_moment_in_which_nothing_is_answered_does_not_count() -> None:
    """1,000 pictures per second, and half a second in which the batcher slept."""
    times = np.arange(1, 501) / 1000
    times[200:] += 0.5
    answers = [load.Answer(k, 0.0, t, np.zeros((1, 10))) for k, t in enumerate(times.tolist())]
    assert speed._seconds_each(answers, 1.1) == pytest.approx(0.001)
    assert speed._seconds_each(answers[:5], 1.1) == pytest.approx(0.001)
    assert math.isinf(speed._seconds_each(answers, 0.0001))


@pytest.mark.parametrize("judge", [False, True])
@pytest.mark.parametrize(("high", "wide"), [(16.9, False), (23.0, True)])
def test_a_notebook_says_what_its_figure_counts_as(
    judge: bool, high: float, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge takes no margin off, and measures until the interval is narrow."""
    value = 15.0 if judge else 16.04
    monkeypatch.setattr(checks, "_require_right", lambda *_: None)
    monkeypatch.setattr(speed, "throughput", lambda *_: Ratio(value, 14.8, high, 6))
    server: Any = types.SimpleNamespace(may_reload=judge)
    with pytest.raises(Failure) as found:
        checks.throughput(server, "anna", "service", "")
    assert ("Here ×14.6 counts" in found.value.rationale) is not judge
    assert ("The interval is wide" in found.value.rationale) is (wide and not judge)
    assert ("run this cell again" in found.value.help) is not (wide or judge)


def test_a_batcher_that_waits_longer_than_its_queue_allows_is_named() -> None:
    """Both settings are in the message; a shorter delay, or no limit, is no fault."""

    def require(delay: int, limit: int) -> None:
        policy = {"default_timeout_microseconds": limit}
        batcher = {"max_queue_delay_microseconds": delay, "default_queue_policy": policy}
        server: Any = types.SimpleNamespace(config=lambda _: {"dynamic_batching": batcher})
        checks._require_limit_above_delay(server, "service")

    with pytest.raises(Failure, match=r"waits 50 ms .* after 40 ms"):
        require(50_000, 40_000)
    require(5_000, 40_000)
    require(50_000, 0)
