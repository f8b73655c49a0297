"""The simulated fleet: it agrees with queueing theory, and it never breaks its own rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbook.lessons import units

fleet = units.load(units.find("12__fleet"), "fleet")
BALANCES = ("round_robin", "random", "least_outstanding")


def _mean_waits(rate: float, seconds: Any, times: int = 30, **options: Any) -> tuple[float, float]:
    """The mean wait of independent runs, and three standard errors of it.

    Args:
        seconds: (random, count) → service times.
    """
    found = []
    for seed in range(times):
        come = fleet.arrivals(lambda at: rate + 0 * at, until=4000 / rate, seed=seed)
        work = seconds(np.random.default_rng(1000 + seed), len(come))
        requests = fleet.simulate(come, work, seed=seed, **options).requests
        late = requests[requests["arrival"] > 500 / rate]  # the fleet was empty at first
        found.append((late["start"] - late["arrival"]).mean())
    return float(np.mean(found)), float(3 * np.std(found) / math.sqrt(times - 1))


def _erlang_c(rate: float, mean: float, servers: int) -> float:
    """The mean wait in M/M/c."""
    load = rate * mean
    busy = load**servers / math.factorial(servers) / (1 - load / servers)
    others = sum(load**k / math.factorial(k) for k in range(servers))
    return busy / (busy + others) * mean / (servers - load)


def _constant(mean: float) -> Any:
    return lambda random, count: np.full(count, mean)


def _exponential(mean: float) -> Any:
    return lambda random, count: random.exponential(mean, count)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.85])
def test_one_server_with_constant_work_is_m_d_1(load: float) -> None:
    wait, off = _mean_waits(load / 0.02, _constant(0.02), servers=1)
    assert wait == pytest.approx(load * 0.02 / (2 * (1 - load)), abs=off)


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_one_queue_before_several_slots_is_m_m_c(servers: int) -> None:
    rate = 0.75 * servers / 0.02
    wait, off = _mean_waits(rate, _exponential(0.02), servers=1, slots=servers)
    assert wait == pytest.approx(_erlang_c(rate, 0.02, servers), abs=off)


def test_random_balancing_makes_independent_queues() -> None:
    wait, off = _mean_waits(0.7 * 3 / 0.02, _exponential(0.02), servers=3, balance="random")
    assert wait == pytest.approx(_erlang_c(0.7 / 0.02, 0.02, 1), abs=off)


def test_the_balancings_are_between_one_queue_and_independent_ones() -> None:
    rate = 0.8 * 3 / 0.02
    waits = {
        balance: _mean_waits(rate, _exponential(0.02), 10, servers=3, balance=balance)[0]
        for balance in BALANCES
    }
    assert _erlang_c(rate, 0.02, 3) < waits["least_outstanding"]
    assert waits["least_outstanding"] < 0.7 * waits["round_robin"]
    assert waits["round_robin"] < 0.9 * waits["random"]


def test_arrivals_follow_the_rate() -> None:
    come = fleet.arrivals(lambda at: np.where(at < 100, 10, 50), until=200, seed=1)
    assert len(come[come < 100]) == pytest.approx(1000, abs=4 * math.sqrt(1000))
    assert len(come[come >= 100]) == pytest.approx(5000, abs=4 * math.sqrt(5000))
    gaps = np.diff(come[come >= 100])
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)  # as of independent users


plans = st.lists(st.tuples(st.floats(0, 2), st.floats(0.001, 1)), min_size=1, max_size=60).map(
    lambda pairs: (np.cumsum([gap for gap, _ in pairs]), [work for _, work in pairs])
)


@given(plans, st.integers(1, 4), st.integers(1, 3), st.sampled_from(BALANCES))
@settings(deadline=None, max_examples=60)
def test_a_calm_fleet_answers_each_request(
    plan: tuple[Any, list[float]], servers: int, slots: int, balance: str
) -> None:
    come, work = plan
    run = fleet.simulate(come, work, servers=servers, slots=slots, balance=balance)
    found = run.requests
    assert (found["error"] == "").all()
    assert (found["start"] >= found["arrival"]).all()
    assert np.allclose(found["end"] - found["start"], work)  # all work is done, and nothing else
    for _, own in found.groupby("server"):
        assert own["start"].is_monotonic_increasing  # first come, first served
        _check_slots(own, slots)


def _check_slots(own: pd.DataFrame, slots: int) -> None:
    """A server never computes more than its slots, and none is free while a request waits."""
    for row in own.itertuples():
        busy = ((own["start"] <= row.start) & (own["end"] > row.start + 1e-9)).sum()
        assert busy <= slots
        if row.start > row.arrival + 1e-9:
            middle = (row.start + row.arrival) / 2
            assert ((own["start"] <= middle) & (own["end"] > middle)).sum() == slots


@given(
    plans,
    st.integers(0, 2),
    st.lists(
        st.tuples(st.floats(0, 60), st.sampled_from(["dies", "reloads"]), st.floats(0.1, 30)),
        max_size=3,
    ),
)
@settings(deadline=None, max_examples=60)
def test_each_request_has_one_end_whatever_happens(
    plan: tuple[Any, list[float]], retries: int, happens: list[tuple[float, str, float]]
) -> None:
    come, work = plan
    events = [fleet.Event(at, what, n, away) for n, (at, what, away) in enumerate(happens)]
    health = fleet.Health(every=5, retries=retries)
    found = fleet.simulate(come, work, servers=3, health=health, events=events).requests
    assert found["end"].notna().all()
    assert (found["end"] >= found["arrival"]).all()
    assert (found["tries"] <= retries + 1).all()
    assert set(found["error"]) <= {"", "died", "refused", "no server"}
    if not any(what == "dies" for _, what, _ in happens):
        assert not (set(found["error"]) & {"died", "refused"})


def test_until_the_next_check_a_dead_server_gets_its_share() -> None:
    come = np.arange(0, 60, 0.1)
    death = [fleet.Event(20.05, "dies", 1, 24.0)]
    run = fleet.simulate(come, np.full(600, 0.01), health=fleet.Health(every=10), events=death)
    failed = run.requests[run.requests["error"] == "refused"]
    assert set(failed["server"]) == {1}
    assert len(failed) == pytest.approx(100 / 3, abs=1)  # a third of ten seconds
    away = run.requests[run.requests["arrival"].between(30.01, 49.9)]
    assert 1 not in set(away["server"])
    assert 1 in set(run.requests[run.requests["arrival"] > 50]["server"])
    again = fleet.Health(every=10, retries=1)
    run = fleet.simulate(come, np.full(600, 0.01), health=again, events=death)
    assert (run.requests["error"] == "").all()
    # A second try takes a turn as well, so the dead server's turn comes more often.
    assert (run.requests["tries"] == 2).sum() == pytest.approx(50, abs=1)


def test_a_death_takes_the_requests_that_the_server_had() -> None:
    run = fleet.simulate(
        [0.0, 0.1, 0.2], [1.0] * 3, servers=1, events=[fleet.Event(0.5, "dies", 0)]
    )
    assert run.requests["error"].tolist() == ["died"] * 3
    assert run.requests["end"].tolist() == [0.5] * 3


def test_a_rollout_server_by_server_fails_nothing() -> None:
    come = np.arange(0, 60, 0.05)
    events = [fleet.Event(5 + 15 * number, "reloads", number, 10.0) for number in range(3)]
    run = fleet.simulate(come, np.full(len(come), 0.04), events=events)
    assert (run.requests["error"] == "").all()
    first = run.requests[run.requests["arrival"].between(5.01, 14.9)]
    assert set(first["server"]) == {1, 2}


def test_by_kind_keeps_models_apart() -> None:
    come = np.arange(0, 10, 0.1)
    names = ["quick", "slow"] * 50
    run = fleet.simulate(
        come,
        np.where(np.array(names) == "slow", 0.5, 0.02),
        balance="by_kind",
        kinds=names,
        places={"quick": [0, 1], "slow": [2]},
    )
    own = run.requests.groupby("kind")["server"].agg(set)
    assert own["slow"] == {2}
    assert own["quick"] <= {0, 1}


def test_the_autoscaler_waits_for_its_servers() -> None:
    come = fleet.arrivals(lambda at: np.where(at < 300, 20, 90), until=1500, seed=3)
    rule = fleet.Scaling(target=0.05, least=1, most=6, delay=100, calm=300)
    run = fleet.simulate(
        come, np.full(len(come), 0.02), servers=1, balance="least_outstanding", scaling=rule
    )
    assert len(run.servers) > 1
    second = run.servers["since"].iloc[1]
    assert 300 < second < 345
    crowd = run.requests[run.requests["arrival"].between(301, second + 99)]
    assert set(crowd["server"]) == {0}  # until the new server is there
    later = run.requests[run.requests["arrival"] > 1200]
    assert (later["start"] - later["arrival"]).mean() < 0.05
    assert run.servers["until"].min() < run.requests["end"].max()  # the superfluous ones have gone


def test_cost_counts_the_time_of_all_servers() -> None:
    run = fleet.simulate(np.arange(0, 3600, 1.0), np.full(3600, 0.5), servers=2)
    hours = 2 * run.requests["end"].max() / 3600
    assert fleet.cost_per_million(run, 3.6) == pytest.approx(hours * 3.6 / 3600 * 1e6)


def test_latencies_are_those_of_answers() -> None:
    run = fleet.simulate([0.0, 0.3], [0.2, 0.4], servers=1, events=[fleet.Event(0.5, "dies", 0)])
    assert fleet.latency_ms(run.requests).round().tolist() == [200]
