"""`require.ratio`: its interval by simulation, its verdicts on a real server with given times, and
one measurement of models that sleep."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.vocabulary import require, tolerance
from grader.vocabulary.define import Check, evaluate
from grader.vocabulary.probe import Probe
from grader.vocabulary.require_ratio import FEWEST, Ratio, paired_ratio
from tests.vocabulary.conftest import Put
from tests.vocabulary.expect import fails_with

REQUESTS = [{"x": np.float32([[n, -n]])} for n in range(3)]
COSTS = st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.01, 10)), min_size=FEWEST, max_size=40)


@pytest.mark.parametrize("rounds", [6, 9, 15, 30, 60])
def test_the_interval_holds_the_true_ratio(rounds: int) -> None:
    """In 95 of 100 simulated runs, also where one round in ten takes three times as long."""
    draw = np.random.default_rng(rounds)
    held = 0
    for _ in range(1_000):
        noise = draw.lognormal(0, 0.3, (2, rounds)) * np.where(draw.random((2, rounds)) < 0.1, 3, 1)
        found = paired_ratio(noise[0], 2 * noise[1])
        held += found.low <= 2 <= found.high
    assert held >= 940


@given(COSTS)
def test_the_interval_holds_the_median(costs: list[tuple[float, float]]) -> None:
    found = paired_ratio(*zip(*costs, strict=True))
    assert 0 < found.low <= found.value <= found.high < np.inf
    assert found.rounds == len(costs)


def test_many_rounds_give_a_narrow_interval() -> None:
    found = paired_ratio([1.0] * 3_000, [float(n) for n in range(3_000)])
    assert 1_400 < found.low < found.value < found.high < 1_600


def test_few_rounds_give_no_interval() -> None:
    found = paired_ratio([1, 1], [3, 5])
    assert (found.value, found.low, found.high) == (4, 0, np.inf)
    assert str(found) == "×4.00 (no interval from 2 rounds)"
    assert not found.is_within(0.5)


@pytest.fixture(scope="module")
def pair(probe: Probe) -> Probe:
    """The models `quick`, `slow` and `wrong`, which answers other numbers."""
    from tests.vocabulary.python_models import config, model

    for name, body in (
        ("quick", "answer(y=x)"),
        ("slow", "time.sleep(0.03)\nanswer(y=x)"),
        ("wrong", "answer(y=x + 1)"),
    ):
        folder = probe.server.repository / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(model(body)["1/model.py"])
        (folder.parent / "config.pbtxt").write_text(config())
    return probe


def costs(quick: Iterator[float], slow: Iterator[float]) -> Callable[[str], float]:
    """A measurement with given results."""
    return lambda model: next(quick if model == "quick" else slow)


def steady(value: float, noise: float = 0.0) -> Iterator[float]:
    draw = np.random.default_rng(int(value))
    return (value * float(draw.lognormal(0, noise)) for _ in itertools.count())


def run(pair: Probe, measure: Callable[[str], float], at_least: float, limit_s: float = 5) -> Ratio:
    return require.ratio(
        pair,
        "quick",
        "slow",
        REQUESTS,
        at_least=at_least,
        limit_s=limit_s,
        measure=measure,
        help="Look at the delay.",
    )


@pytest.mark.server
@pytest.mark.quick
def test_a_ratio_that_is_reached(pair: Probe) -> None:
    found = run(pair, costs(steady(1), steady(3)), 2)
    assert (found.value, found.rounds) == (3, FEWEST)


@pytest.mark.server
@pytest.mark.quick
def test_a_ratio_that_is_not_reached(pair: Probe) -> None:
    with fails_with(
        "quick answers ×1.50 (95% interval 1.50 to 1.50, 6 rounds) as many requests per second as "
        "slow; at least ×2 is asked: not reached. → Look at the delay."
    ):
        run(pair, costs(steady(1), steady(1.5)), 2)


@pytest.mark.server
@pytest.mark.quick
def test_noise_takes_more_rounds(pair: Probe) -> None:
    """It goes on until the interval is narrow; what is asked and within it counts as reached."""
    found = run(pair, costs(steady(1, 0.3), steady(2, 0.3)), 2.02)
    assert found.rounds > 20
    assert found.is_within(0.1)


@pytest.mark.server
@pytest.mark.quick
def test_one_slow_round_changes_nothing(pair: Probe) -> None:
    once = itertools.chain([1.0, 50.0], itertools.repeat(1.0))
    found = run(pair, costs(once, steady(3)), 2)
    assert found.value == 3
    assert found.low == 3 or found.rounds > FEWEST


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize(("slow", "is_reached"), [(2.5, True), (1.5, False)])
def test_where_the_time_is_up_the_number_decides(
    pair: Probe, slow: float, is_reached: bool
) -> None:
    def measure() -> Callable[[str], float]:
        return costs(steady(1), itertools.cycle([slow, slow, 100 * slow, slow / 100]))

    if is_reached:
        assert run(pair, measure(), 2, limit_s=0).rounds < FEWEST
    else:
        with fails_with("(no interval from 1 rounds)", "not reached"):
            run(pair, measure(), 2, limit_s=0)


@pytest.mark.server
@pytest.mark.quick
def test_answers_that_differ_are_no_speed(pair: Probe) -> None:
    with fails_with(
        "The answers of wrong differ", "compared with those of slow to the same requests"
    ):
        require.ratio(
            pair, "wrong", "slow", REQUESTS, at_least=1, output="y", tolerance=tolerance.rounding()
        )


@pytest.mark.server
@pytest.mark.quick
def test_the_number_is_shown_where_the_check_passes(pair: Probe) -> None:
    """Measured for real: 3 requests that sleep 30 ms each, beside 3 that do not."""

    def faster(server: Probe, model: str) -> None:
        """It is faster."""
        found = require.ratio(
            server,
            model,
            "slow",
            REQUESTS,
            at_least=1.5,
            output="y",
            tolerance=tolerance.rounding(),
        )
        assert found.value > 1.5

    def hidden(server: Probe, model: str) -> None:
        faster(server, model)

    check = Check("zz.faster", faster, variants=(hidden,))
    result = evaluate(check, lambda: pair, {"model": "quick"}, {})
    assert (result.status, result.credit, result.hidden) == ("passed", 1, False)
    assert result.rationale.startswith("quick answers ×")
    assert result.rationale.endswith("at least ×1.5 is asked: reached.")
    assert "\n" not in result.rationale


@pytest.mark.server
@pytest.mark.quick
def test_a_model_that_fails_is_no_measurement(pair: Probe, put: Put) -> None:
    put("failing", "raise ValueError('no')")
    with fails_with("A request to failing failed."):
        require.ratio(pair, "failing", "slow", REQUESTS, at_least=1)
