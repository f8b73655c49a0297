"""The simulator of the scheduler: properties of all plans, and the rules one by one.

test_simulator_served.py compares it with the real server.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbook import measure
from workbook.common.errors import WorkbookError
from workbook.lessons import simulator
from workbook.lessons.simulator import (
    Direct,
    DynamicBatching,
    Model,
    Oldest,
    QueuePolicy,
    Request,
    Simulation,
    simulate,
)

LENGTH = 10.0  # ms of an execution, plus one per row


def length(rows: int) -> float:
    return LENGTH + rows


def batches(result: Simulation) -> list[list[str | None]]:
    """The ids of each execution, in the order in which they began."""
    return [list(slots) for slots in result.executions["slots"]]


# -- plans and models that hypothesis draws ------------------------------------------------------

policies = st.builds(
    QueuePolicy,
    timeout_action=st.sampled_from(["REJECT", "DELAY"]),
    default_timeout_us=st.sampled_from([0, 5_000, 30_000]),
    allow_timeout_override=st.booleans(),
    max_queue_size=st.sampled_from([0, 1, 4]),
)


@st.composite
def dynamic(draw: st.DrawFn, plain: bool = False) -> Model:
    most = draw(st.integers(1, 8))
    levels = 0 if plain else draw(st.sampled_from([0, 2, 3]))
    batching = DynamicBatching(
        preferred_batch_size=tuple(draw(st.lists(st.integers(1, most), max_size=2))),
        max_queue_delay_us=draw(st.sampled_from([0, 3_000, 25_000])),
        preserve_ordering=draw(st.booleans()),
        priority_levels=levels,
        default_priority_level=draw(st.integers(1, levels)) if levels else 0,
        default_queue_policy=QueuePolicy() if plain else draw(policies),
        priority_queue_policy={1: draw(policies)} if levels and draw(st.booleans()) else {},
    )
    return Model("m", most, draw(st.integers(1, 3)), batching)


@st.composite
def sequential(draw: st.DrawFn) -> Model:
    most = draw(st.integers(1, 4))
    oldest = st.builds(
        Oldest,
        max_candidate_sequences=st.integers(1, 4),
        max_queue_delay_us=st.sampled_from([0, 20_000]),
    )
    direct = st.builds(
        Direct,
        max_queue_delay_us=st.sampled_from([0, 20_000]),
        minimum_slot_utilization=st.sampled_from([0.0, 0.5, 1.0]),
    )
    return Model("m", most, draw(st.integers(1, 2)), draw(st.one_of(oldest, direct)))


alone = st.builds(Model, max_batch_size=st.integers(0, 4), instances=st.integers(1, 3))


@st.composite
def plans(draw: st.DrawFn, rows: int = 3) -> list[Request]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, 100), st.integers(1, rows), st.integers(0, 4),
                st.sampled_from([0, 2_000, 50_000]),
            ),
            min_size=1,
            max_size=30,
        )
    )  # fmt: skip
    return [
        Request(f"r{i}", at, size, priority, timeout)
        for i, (at, size, priority, timeout) in enumerate(sorted(drawn, key=lambda row: row[0]))
    ]


@st.composite
def sequence_plans(draw: st.DrawFn) -> list[Request]:
    plan = []
    for sequence in range(1, draw(st.integers(1, 7)) + 1):
        times = sorted(draw(st.lists(st.integers(0, 200), min_size=1, max_size=5)))
        ends = draw(st.booleans())
        for k, at in enumerate(times):
            last = k == len(times) - 1
            plan.append(
                Request(f"{sequence}.{k}", at, sequence=sequence, start=k == 0, end=ends and last)
            )
    return sorted(plan, key=lambda request: request.at_ms)


def check_books(model: Model, plan: list[Request], result: Simulation) -> None:
    """Check that nothing is lost or served twice, with one execution at a time per instance."""
    table = result.requests
    assert table["id"].tolist() == [request.id for request in plan]
    served = [name for slots in result.executions["slots"] for name in slots if name]
    assert sorted(served) == sorted(table.loc[table["error"] == "", "id"])
    assert table["answered_ms"].notna().all()
    refused = table[table["error"] != ""]
    assert refused["start_ms"].isna().all()
    assert (refused["answered_ms"] >= refused["queued_ms"]).all()
    done = table[table["error"] == ""]
    assert (done["queued_ms"] <= done["start_ms"]).all()
    assert (done["end_ms"] <= done["answered_ms"]).all()
    for _, own in result.executions.groupby("instance"):
        starts, ends = own["start_ms"].to_numpy(), own["end_ms"].to_numpy()
        assert (starts[1:] >= ends[:-1]).all()
    assert (result.executions["instance"] < model.instances).all()
    assert (result.executions["rows"] <= max(1, model.max_batch_size)).all()
    lengths = result.executions["end_ms"] - result.executions["start_ms"]
    assert np.allclose(lengths, [length(rows) for rows in result.executions["rows"]])


@given(st.one_of(dynamic(), alone), plans())
@settings(max_examples=50)
def test_nothing_is_lost_and_nothing_is_served_twice(model: Model, plan: list[Request]) -> None:
    result = simulate(model, plan, duration_ms=length)
    check_books(model, plan, result)
    rows = {request.id: request.rows for request in plan}
    for execution in result.executions.itertuples():
        assert execution.rows == sum(rows[name] for name in execution.slots)


@given(sequential(), sequence_plans())
@settings(max_examples=50)
def test_a_sequence_stays_in_order_and_on_its_instance(model: Model, plan: list[Request]) -> None:
    result = simulate(model, plan, duration_ms=length)
    check_books(model, plan, result)
    table = result.requests
    assert set(table["error"]) == {""}
    own = table.set_index("id")
    for sequence in {request.sequence for request in plan}:
        ids = [request.id for request in plan if request.sequence == sequence]
        steps = own.loc[ids]
        assert steps["instance"].nunique() == 1
        assert (steps["start_ms"].to_numpy()[1:] >= steps["end_ms"].to_numpy()[:-1]).all()
        if isinstance(model.batching, Direct):
            assert steps["place"].nunique() == 1


@given(sequential(), sequence_plans())
@settings(max_examples=40)
def test_no_more_sequences_are_open_than_there_are_slots(model: Model, plan: list[Request]) -> None:
    batching = model.batching
    slots = (
        batching.max_candidate_sequences
        if isinstance(batching, Oldest)
        else max(1, model.max_batch_size)
    )
    sequence = {request.id: request.sequence for request in plan}
    table = simulate(model, plan, duration_ms=length).requests
    spans = table.assign(sequence=table["id"].map(sequence)).groupby("sequence")
    begins, ends = spans["start_ms"].min(), spans["start_ms"].max()
    for moment in begins:
        assert ((begins <= moment) & (ends > moment)).sum() <= slots * model.instances


@given(dynamic(plain=True), plans())
@settings(max_examples=50)
def test_first_come_first_served_without_policies(model: Model, plan: list[Request]) -> None:
    table = simulate(model, plan, duration_ms=length).requests
    table = table[table["error"] == ""]
    assert table["start_ms"].is_monotonic_increasing


@given(dynamic(), plans())
@settings(max_examples=50)
def test_within_a_level_the_older_one_goes_first(model: Model, plan: list[Request]) -> None:
    """Unless a timeout put it behind."""
    batching = model.batching
    assert isinstance(batching, DynamicBatching)
    policies_used = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    if any(policy.timeout_action == "DELAY" for policy in policies_used):
        return
    table = simulate(model, plan, duration_ms=length).requests

    def level(priority: int) -> int:
        known = 0 < priority <= batching.priority_levels
        return priority if known else batching.default_priority_level

    table["level"] = [level(request.priority) for request in plan]
    for _, own in table[table["error"] == ""].groupby("level"):
        assert own["start_ms"].is_monotonic_increasing


@given(dynamic(plain=True), plans())
@settings(max_examples=50)
def test_with_a_free_instance_nobody_waits_longer_than_the_delay(
    model: Model, plan: list[Request]
) -> None:
    """Without a delay this says that no instance is idle while requests wait."""
    result = simulate(model, plan, duration_ms=length)
    batching = model.batching
    assert isinstance(batching, DynamicBatching)
    delay = batching.max_queue_delay_us / 1000
    table = result.requests[result.requests["error"] == ""]
    for row in table.itertuples():
        latest = row.queued_ms + delay
        if row.start_ms <= latest + 1e-6:
            continue
        # The batch waited longer, so all instances must have been busy until it began.
        for instance in range(model.instances):
            own = result.executions[result.executions["instance"] == instance]
            covered = latest
            for other in own.itertuples():
                if other.start_ms <= covered + 1e-6:
                    covered = max(covered, other.end_ms)
            assert covered >= row.start_ms - 1e-6


@given(alone, plans(rows=1))
@settings(max_examples=40)
def test_without_a_batcher_each_request_goes_alone_as_soon_as_it_can(
    model: Model, plan: list[Request]
) -> None:
    result = simulate(model, plan, duration_ms=LENGTH)
    assert set(result.executions["size"]) == {1}
    free = [0.0] * model.instances
    for row in result.requests.itertuples():
        instance = min(range(len(free)), key=free.__getitem__)
        assert row.start_ms == pytest.approx(max(row.queued_ms, free[instance]))
        free[instance] = row.end_ms


@given(st.one_of(dynamic(), sequential()), sequence_plans())
@settings(max_examples=25)
def test_the_timeline_table_is_that_of_a_real_server(model: Model, plan: list[Request]) -> None:
    result = simulate(model, plan, duration_ms=length)
    table = measure.executions(result.spans)
    ours = result.requests[result.requests["error"] == ""].set_index("id")
    assert set(table["request_id"]) == set(ours.index)
    found = table.set_index("request_id").loc[ours.index]
    assert (found["size"] == ours["size"]).all()
    pairs = zip(found["execution"], ours["execution"], strict=True)
    assert len(set(pairs)) == ours["execution"].nunique()
    begin = ours["queued_ms"].min()
    assert np.allclose(found["start_ms"], ours["start_ms"] - begin, atol=0.001)
    assert np.allclose(found["end_ms"], ours["end_ms"] - begin, atol=0.001)


# -- the rules one by one ----------------------------------------------------------------------


def batched(plan: list[Request], most: int = 4, instances: int = 1, **batching: Any) -> Simulation:
    model = Model("m", most, instances, DynamicBatching(**batching))
    return simulate(model, plan, duration_ms=100)


def every(ms: float, count: int, **request: Any) -> list[Request]:
    return [Request(f"r{i + 1}", i * ms, **request) for i in range(count)]


def test_the_delay_begins_with_the_oldest_request_of_the_batch() -> None:
    result = batched(every(20, 3), max_queue_delay_us=50_000)
    assert batches(result) == [["r1", "r2", "r3"]]
    assert result.executions["start_ms"].tolist() == [50]


def test_the_example_of_the_docstring() -> None:
    model = Model(max_batch_size=8, batching=DynamicBatching(max_queue_delay_us=20_000))
    result = simulate(model, measure.every(5, 12), duration_ms=30)
    assert result.executions["rows"].tolist() == [4, 4, 4]


def test_a_preferred_size_ends_the_delay() -> None:
    result = batched(every(20, 3), preferred_batch_size=(2,), max_queue_delay_us=500_000)
    assert result.executions["start_ms"].tolist() == [20, 540]
    assert batches(result) == [["r1", "r2"], ["r3"]]


def test_two_batches_are_formed_ahead_and_the_queue_keeps_the_rest() -> None:
    result = batched(every(1, 12))
    assert batches(result) == [
        ["r1"], ["r2", "r3", "r4", "r5"], ["r6", "r7", "r8", "r9"], ["r10", "r11", "r12"],
    ]  # fmt: skip


def test_a_queue_size_counts_what_waits_and_not_what_runs() -> None:
    policy = QueuePolicy(max_queue_size=4)
    result = batched(every(0.1, 30), most=8, default_queue_policy=policy)
    assert batches(result) == [["r1"], ["r2", "r3", "r4", "r5"]]
    assert set(result.requests["error"]) == {"", "Exceeds maximum queue size"}


def test_a_batcher_that_looks_too_early_sleeps_for_half_a_second() -> None:
    model = Model("m", 8, 1, DynamicBatching(default_queue_policy=QueuePolicy(max_queue_size=4)))
    plan = every(0.1, 4)
    soon = simulate(model, plan, duration_ms=20)
    assert soon.executions["start_ms"].tolist() == [0, 20]
    for first in (True, {1}):
        late = simulate(model, plan, duration_ms=20, batcher_first=first)
        assert late.executions["start_ms"].tolist() == [0, 520]
        woken = simulate(model, [*plan, Request("x", 90)], duration_ms=20, batcher_first=first)
        assert woken.executions["start_ms"].tolist() == [0, 90]
    full = [*every(0.1, 5), Request("x", 90)]  # it is refused, and that wakes nobody
    late = simulate(model, full, duration_ms=20, batcher_first=True)
    assert late.executions["start_ms"].tolist() == [0, 520]
    free = simulate(Model("m", 8, 1, DynamicBatching()), plan, duration_ms=20, batcher_first=True)
    assert free.executions["start_ms"].tolist() == [0, 20]


def test_a_timeout_refuses_when_the_batcher_looks() -> None:
    policy = QueuePolicy(default_timeout_us=30_000)
    result = batched(every(10, 2), most=1, default_queue_policy=policy)
    late = result.requests.iloc[1]
    assert late["error"] == "Request timeout expired"
    assert late["answered_ms"] == 100  # and not 40: until then no instance was free


def test_a_delayed_request_goes_behind_the_others() -> None:
    policy = QueuePolicy("DELAY", default_timeout_us=85_000)
    result = batched(every(10, 4), most=1, default_queue_policy=policy)
    assert batches(result) == [["r1"], ["r3"], ["r2"], ["r4"]]


def test_an_own_timeout_only_shortens_the_default() -> None:
    for default, own, refused in ((0, 10_000, False), (200_000, 10_000, True),
                                  (30_000, 900_000, True)):  # fmt: skip
        policy = QueuePolicy(default_timeout_us=default, allow_timeout_override=True)
        plan = [Request("first"), Request("second", 10, timeout_us=own)]
        result = batched(plan, most=1, default_queue_policy=policy)
        assert bool(result.requests["error"].iloc[1]) is refused


def test_the_urgent_go_first_and_unknown_levels_get_the_default() -> None:
    plan = [
        Request("now", 0), Request("low", 1, priority=2), Request("odd", 2, priority=9),
        Request("high", 3, priority=1),
    ]  # fmt: skip
    result = batched(plan, most=1, priority_levels=2, default_priority_level=2)
    assert batches(result) == [["now"], ["high"], ["low"], ["odd"]]


def test_answers_wait_for_earlier_ones_where_the_order_is_preserved() -> None:
    model = Model("m", 2, 2, DynamicBatching(preserve_ordering=True))
    plan = [Request("long", 0, rows=2), Request("short", 1)]
    result = simulate(model, plan, duration_ms=lambda rows: 100 * rows)
    assert result.requests["end_ms"].tolist() == [200, 101]
    assert result.requests["answered_ms"].tolist() == [200, 200]


def steps(names: str, count: int, apart: float = 100) -> list[Request]:
    """Sequences a, b, …, a step of each every 100 ms, 10 ms between the sequences."""
    return [
        Request(f"{name}{k}", k * apart + 10 * i, sequence=i + 1, start=k == 0, end=k == count - 1)
        for k in range(count)
        for i, name in enumerate(names)
    ]


def test_direct_keeps_slots_and_oldest_does_not() -> None:
    plan = steps("abc", 2)
    direct = simulate(Model("m", 4, 1, Direct()), plan, duration_ms=50)
    assert batches(direct) == [["a0"], [None, "b0", "c0"], ["a1"], [None, "b1", "c1"]]
    oldest = simulate(Model("m", 4, 1, Oldest(4)), plan, duration_ms=50)
    assert batches(oldest) == [["a0"], ["b0", "c0"], ["a1"], ["b1", "c1"]]


def test_a_sequence_without_a_slot_waits_for_the_end_of_another() -> None:
    for batching in (Direct(), Oldest(2)):
        result = simulate(Model("m", 2, 1, batching), steps("abc", 2), duration_ms=30)
        own = result.requests.set_index("id")
        assert own.loc["c0", "start_ms"] > own.loc["a1", "start_ms"]


def test_an_idle_sequence_loses_its_slot() -> None:
    plan = [
        Request("a0", 0, sequence=1, start=True), Request("b0", 10, sequence=2, start=True),
        Request("a1", 1500, sequence=1), Request("b1", 1600, sequence=2, end=True),
    ]  # fmt: skip
    result = simulate(Model("m", 1, 1, Direct()), plan, duration_ms=30)
    own = result.requests.set_index("id")
    assert own.loc["b0", "start_ms"] == 1000
    assert "START" in own.loc["a1", "error"]
    assert "START" in own.loc["b1", "error"]  # b0 came at 10, so b too was idle at 1010


def test_a_plan_for_the_server_is_a_plan_for_the_simulator() -> None:
    plan = [*measure.every(5, 2), measure.Request("big", 7, {"X": np.zeros((3, 1))})]
    result = simulate(Model("m", 2, 1, DynamicBatching()), plan, duration_ms=10)
    assert result.requests["error"].tolist()[2].startswith("inference request batch-size")
    assert "2 executions" in measure.plot_timeline(result.spans).description


def test_a_config_becomes_a_model() -> None:
    config = {
        "name": "m", "max_batch_size": 8,
        "instance_group": [{"count": 2, "gpus": []}, {"count": 1, "gpus": [0, 1]}],
        "dynamic_batching": {
            "preferred_batch_size": [4], "max_queue_delay_microseconds": "100",
            "priority_levels": "2", "default_priority_level": "1",
            "default_queue_policy": {"timeout_action": "DELAY", "max_queue_size": 3},
            "priority_queue_policy": {"2": {"default_timeout_microseconds": "7"}},
        },
    }  # fmt: skip
    assert simulator.from_config(config) == Model(
        "m", 8, 4,
        DynamicBatching((4,), 100, False, 2, 1, QueuePolicy("DELAY", max_queue_size=3),
                        {2: QueuePolicy(default_timeout_us=7)}),
    )  # fmt: skip
    assert simulator.from_config({"name": "x"}) == Model("x")
    with pytest.raises(WorkbookError, match="ensemble"):
        simulator.from_config({"ensemble_scheduling": {"step": [1]}})


def test_what_makes_no_sense_is_said() -> None:
    for wrong in (
        lambda: Model(instances=0),
        lambda: Model(max_batch_size=-1),
        lambda: Model(max_batch_size=4, batching=DynamicBatching((8,))),
        lambda: Model(batching=DynamicBatching(priority_levels=2)),
        lambda: Model(batching=Oldest(0)),
        lambda: Model(batching=Direct(max_sequence_idle_us=0)),
        lambda: simulate(Model(), [], duration_ms=1),
        lambda: simulate(Model(), [Request("a"), Request("a")], duration_ms=1),
        lambda: simulate(Model(), [Request("a", after="b"), Request("b")], duration_ms=1),
        lambda: simulate(Model(), [Request("a", after="a")], duration_ms=1),
        lambda: simulate(Model(), [Request("a", -1)], duration_ms=1),
        lambda: simulate(Model(), [Request("a")], duration_ms=0),
        lambda: simulate(Model(), [Request("a")], duration_ms=float("nan")),
    ):
        with pytest.raises(WorkbookError):
            wrong()


def test_tables_without_an_execution_have_their_columns() -> None:
    result = simulate(Model(), [Request("big", rows=2)], duration_ms=1)
    assert result.executions.empty
    assert isinstance(result.spans, pd.DataFrame)
    assert measure.executions(result.spans).empty


def test_a_blocking_client_sends_when_it_has_its_answer() -> None:
    result = simulate(Model(), simulator.clients(2, 3, pause_ms=5), duration_ms=10)
    assert result.requests["queued_ms"].tolist() == [5, 5, 20, 30, 40, 50]
    assert result.requests["answered_ms"].tolist() == [15, 25, 35, 45, 55, 65]


def test_a_client_whose_request_is_refused_sends_its_next_one() -> None:
    plan = [Request("big", rows=2), Request("next", 3, after="big")]
    requests = simulate(Model(), plan, duration_ms=1).requests
    assert requests["queued_ms"].tolist() == [0, 3]
    assert requests["error"].ne("").tolist() == [True, False]


def test_a_delay_that_lets_all_clients_into_one_batch_leaves_an_instance_idle() -> None:
    def per_s(most: int) -> float:
        model = Model("m", most, 2, DynamicBatching(max_queue_delay_us=5_000))
        requests = simulate(model, simulator.clients(8, 20), duration_ms=lambda n: 5 * n).requests
        return 1000 * len(requests) / float(requests["answered_ms"].max())

    assert per_s(4) > 1.8 * per_s(8)


def test_executions_that_share_cores_take_longer() -> None:
    plan = [Request("a"), Request("b", 1)]
    result = simulate(Model(instances=2), plan, duration_ms=10, slower=lambda running: running)
    assert result.requests["answered_ms"].tolist() == [10, 21]
