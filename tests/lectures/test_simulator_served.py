"""The simulator and the real server: the same plan gives the same batches, refusals and order.

The models sleep for half a second. Events whose order matters are far enough apart: requests follow
each other in tens of milliseconds, and timeouts end at least 50 ms before or after an instance is
free. A run that does not agree is repeated, since requests may come late on a busy machine.

After the end of an execution, either the batcher or the instance is the first (the simulator's
docstring says what follows). The server must do what the simulator says for one of these two cases.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from workbook import measure
from workbook.lessons import simulator
from workbook.server import Triton

pytestmark = pytest.mark.server

LENGTH = 500  # ms of an execution
LATE = 45  # ms that a request, a start or an end may be late
ATTEMPTS = 4
MODEL = f"""\
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep({LENGTH / 1000})
        x = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", a)]) for a in x]
"""
CONFIG = """\
backend: "python"
max_batch_size: 4
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
ONE = "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
TWO = ONE.replace("1", "2", 1)
POLICY = "dynamic_batching {{ default_queue_policy {{ {} }} }}"
PATIENT = " max_sequence_idle_microseconds: 9000000"
CONTROL = """ control_input [ { name: "READY" control [ {
  kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } ] } ] }"""


def every(ms: float, count: int) -> list[measure.Request]:
    return measure.every(ms, count)


def pairs(ms: float, count: int) -> list[measure.Request]:
    """Requests of two rows: two of them fill a batch."""
    rows = {"X": np.zeros((2, 1), np.float32)}
    return [dataclasses.replace(request, inputs=rows) for request in every(ms, count)]


def ranked() -> list[measure.Request]:
    names = ["now", "low1", "low2", "low3", "low4", "high1", "high2"]
    return [
        measure.Request(name, 20 * i, priority=1 if "high" in name else 2)
        for i, name in enumerate(names)
    ]


def sequences(names: str, count: int, every_ms: float) -> list[measure.Request]:
    return [
        measure.Request(
            f"{name}{k}", k * every_ms + 120 * i,
            sequence=i + 1, start=k == 0, end=k == count - 1,
        )
        for k in range(count)
        for i, name in enumerate(names)
    ]  # fmt: skip


def crowd() -> list[measure.Request]:
    """Three sequences. With two slots, c waits for the end of a."""
    return [
        measure.Request("a0", 0, sequence=1, start=True),
        measure.Request("b0", 120, sequence=2, start=True),
        measure.Request("c0", 240, sequence=3, start=True, end=True),
        measure.Request("a1", 1300, sequence=1, end=True),
        measure.Request("b1", 2000, sequence=2, end=True),
    ]


#: name: (what the config says, the plan)
PLANS = {
    "alone": (ONE, every(100, 4)),
    "alone_two": (TWO, every(120, 4)),
    "eager": (ONE + "dynamic_batching { }", every(30, 11)),
    "eager_two": (TWO + "dynamic_batching { }", every(120, 7)),
    "patient": (ONE + "dynamic_batching { max_queue_delay_microseconds: 400000 }", every(150, 5)),
    "preferred": (
        ONE + "dynamic_batching { preferred_batch_size: [ 2 ]"
        " max_queue_delay_microseconds: 900000 }",
        every(100, 3),
    ),
    "full": (ONE + POLICY.format("max_queue_size: 3"), every(40, 8)),
    "hasty": (
        ONE + POLICY.format("timeout_action: REJECT default_timeout_microseconds: 250000"),
        every(100, 5),
    ),
    "behind": (
        ONE + POLICY.format("timeout_action: DELAY default_timeout_microseconds: 250000"),
        pairs(100, 5),
    ),
    "ranked": (ONE + "dynamic_batching { priority_levels: 2 default_priority_level: 2 }", ranked()),
    "direct": (ONE + "sequence_batching { direct { }" + PATIENT + CONTROL, crowd()),
    "oldest": (
        ONE + "sequence_batching { oldest { max_candidate_sequences: 2 }" + PATIENT + CONTROL,
        crowd(),
    ),
    "idle": (ONE + "sequence_batching { direct { }" + CONTROL, sequences("ab", 2, 1300)),
}


@pytest.fixture(scope="module")
def sleepy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server that can be recorded, with a model for each plan."""
    models = tmp_path_factory.mktemp("models")
    for name, (config, _) in PLANS.items():
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(CONFIG + config)
        (models / name / "1" / "model.py").write_text(MODEL)
    trace = {"file": tmp_path_factory.mktemp("trace") / "t.json", "rate": 1, "level": "OFF"}
    with Triton(models, models=list(PLANS), trace=trace) as server:
        yield server


class Run(NamedTuple):
    """The answers, the executions, and what was not in time."""

    answers: pd.DataFrame
    table: pd.DataFrame
    wrong: list[str]


def run(server: Triton, name: str) -> Run:
    """Send a plan to the server, and record what it does."""
    plan = PLANS[name][1]
    with measure.recording(server) as recorded:
        answers = measure.send(server, name, plan)
    table = measure.executions(recorded.spans)
    # `measure.executions` counts from the first wait; so does `queued_ms` of these plans.
    planned = {request.id: request.at_ms for request in plan}
    wrong = [
        f"{row.request_id} came at {row.queued_ms:.0f} ms"
        for row in table.itertuples()
        if abs(row.queued_ms - planned[row.request_id]) > LATE
    ]
    wrong += [
        f"{row.id} was sent at {row.sent_ms:.0f} ms"
        for row in answers.itertuples()
        if abs(row.sent_ms - planned[row.id]) > LATE
    ]
    wrong += [
        f"{row.request_id} took {row.end_ms - row.start_ms:.0f} ms"
        for row in table.itertuples()
        if row.end_ms - row.start_ms > LENGTH + LATE
    ]
    return Run(answers, table, wrong)


def differences(expected: simulator.Simulation, real: Run) -> list[str]:
    """Where a run differs from a simulation."""
    found = []
    for row in expected.requests.itertuples():
        error = real.answers.set_index("id").loc[row.id, "error"]
        if bool(row.error) != bool(error) or row.error not in error:
            found.append(f"{row.id}: {row.error!r} here, {error!r} there")
    # A trace does not say in which order requests stand in their batch.
    theirs = real.table.sort_values("start_ms").groupby("execution", sort=False)
    batches = [sorted(ids) for ids in theirs["request_id"].agg(list)]
    ours = [sorted(filter(None, slots)) for slots in expected.executions["slots"]]
    if ours != batches:
        return [*found, f"batches {ours} here, {batches} there"]
    starts = zip(expected.executions["start_ms"], theirs["start_ms"].first(), strict=True)
    return found + [
        f"execution {i} begins at {here:.0f} ms here, {there:.0f} ms there"
        for i, (here, there) in enumerate(starts, 1)
        if abs(here - there) > LATE * 2
    ]


def possible(server: Triton, name: str) -> Iterator[simulator.Simulation]:
    """The simulations of a plan: after each execution, batcher or instance may be the first."""
    config, plan = PLANS[name]
    model = simulator.from_config(server.config(name))
    raced = "policy" in config or "priority" in config
    for count in range(4 if raced else 1):
        for first in itertools.combinations((1, 2, 3), count):
            yield simulator.simulate(model, plan, duration_ms=LENGTH, batcher_first=first)


@pytest.mark.parametrize("name", PLANS)
def test_the_server_does_what_the_simulator_says(sleepy: Triton, name: str) -> None:
    seen = []
    for _ in range(ATTEMPTS):
        real = run(sleepy, name)
        all_found = [differences(expected, real) for expected in possible(sleepy, name)]
        if [] in all_found:
            return
        seen.append("; ".join([*all_found[0], *real.wrong]))
    pytest.fail("\n".join(seen))
