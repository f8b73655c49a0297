"""The simulator in a notebook: the drawings of all positions, the button, and the real server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from IPython import display

from workbook import measure
from workbook.common.errors import WorkbookError
from workbook.lessons import laboratory, runs, simulated, simulator, slots
from workbook.lessons.shared import sleeper
from workbook.server import Triton


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    models = tmp_path_factory.mktemp("models")
    sleeper.add(models, "eager", "dynamic_batching { }", ms=60)
    server = laboratory(models)
    yield server
    server.stop()


def setting(delay_ms: int, queue: int) -> tuple[dict[str, Any], list[measure.Request]]:
    policy = {"default_queue_policy": {"max_queue_size": queue}} if queue else {}
    batching = {"max_queue_delay_microseconds": 1000 * delay_ms, **policy}
    return batching, measure.every(25, 8)


SLIDERS: dict[str, Any] = {"delay_ms": [140, 0], "queue": [0, 2]}


@pytest.mark.server
def test_a_page_without_a_kernel_has_a_drawing_for_each_position(
    lab: Triton, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setenv("WORKBOOK_UNATTENDED", "1")
    monkeypatch.setattr(simulated, "_display", lambda html, text: shown.append(html))
    bench = simulated.explore(lab, "eager", setting, duration_ms=60, **SLIDERS)
    drawn = dict(re.findall(r'data-state="([\d,]+)"[^>]*>(<svg.*?</svg>)', shown[0]))
    assert set(drawn) == {"140,0", "140,2", "0,0", "0,2"}
    assert len(set(drawn.values())) == 4
    assert drawn["0,2"] == bench.draw({"delay_ms": 0, "queue": 2}).svg
    hidden = re.findall(r'data-state="([\d,]+)" hidden', shown[0])
    assert "140,0" not in hidden
    assert len(hidden) == 3
    assert "is refused" in drawn["0,2"]
    assert "is refused" not in drawn["0,0"]


@pytest.mark.server
@pytest.mark.parametrize("values", [{"delay_ms": 140}, {"delay_ms": 0}, {"queue": 2}])
def test_the_server_gets_the_same_settings_and_the_same_plan(
    lab: Triton, monkeypatch: pytest.MonkeyPatch, values: dict[str, int]
) -> None:
    monkeypatch.setenv("WORKBOOK_UNATTENDED", "1")
    monkeypatch.setattr(simulated, "_display", lambda html, text: None)
    bench = simulated.explore(lab, "eager", setting, duration_ms=60, **SLIDERS)
    deadline = time.monotonic() + 60  # requests may come late on a busy machine
    served = bench.serve(**values)
    while not (served.premise and served.agrees) and time.monotonic() < deadline:
        served = bench.serve(**values)
    assert served.agrees, (served.premise, served.run.sizes, served.expected)
    assert served.picture().svg.count('stroke-width="2"') == len(served.run.sizes) + 1
    config = lab.config("eager")["dynamic_batching"]
    wanted = {"delay_ms": 140, "queue": 0} | values
    assert int(config.get("max_queue_delay_microseconds", 0)) == 1000 * wanted["delay_ms"]
    policy = config.get("default_queue_policy", {})
    assert int(policy.get("max_queue_size", 0)) == wanted["queue"]


@pytest.mark.server
def test_the_button_serves_the_position_of_the_sliders(
    lab: Triton, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes: list[Any] = []
    monkeypatch.delenv("WORKBOOK_UNATTENDED", raising=False)
    monkeypatch.setattr(display, "display", boxes.append)
    simulated.explore(lab, "eager", setting, duration_ms=60, **SLIDERS)
    delay, _, picture, row = boxes[0].children
    button, note = row.children
    before = picture.value
    delay.value = 0
    assert picture.value != before
    button.click()
    assert "the real server" in picture.value
    assert note.value
    assert not button.disabled
    assert lab.config("eager")["dynamic_batching"].get("max_queue_delay_microseconds", 0) == 0


@pytest.mark.server
def test_too_many_positions_are_refused(lab: Triton) -> None:
    with pytest.raises(WorkbookError, match="positions"):
        simulated.explore(
            lab, "eager", setting, duration_ms=60, delay_ms=range(100), queue=range(9)
        )


def simulation() -> simulator.Simulation:
    policy = simulator.QueuePolicy(max_queue_size=2)
    model = simulator.Model("m", 4, 1, simulator.DynamicBatching(default_queue_policy=policy))
    return simulator.simulate(model, measure.every(1, 6), duration_ms=20)


def test_a_drawing_marks_who_was_refused_and_which_slots_stayed_empty() -> None:
    result = simulation()
    table = measure.executions(result.spans)
    drawn = slots.draw(table, answers=result.requests, most=4)
    assert drawn.description == "2 executions of 1, 2 requests, 3 refused."
    assert drawn.svg.count(slots.RED) == 3 + 1  # one more in the legend
    assert drawn.svg.count("stroke-dasharray") == 2
    assert slots.draw(table).svg.count(slots.RED) == 0
    urgent = slots.draw(table, group=lambda name: "urgent" if name == "r2" else "ordinary")
    assert slots.ORANGE in urgent.svg


def test_what_cannot_be_drawn_is_said() -> None:
    result = simulation()
    table = measure.executions(result.spans)
    with pytest.raises(WorkbookError, match="no execution"):
        slots.draw(table.iloc[:0])
    many = pd.concat([table.assign(request_id=f"{i}") for i in range(100)])
    with pytest.raises(WorkbookError, match="told apart"):
        slots.draw(many)


@pytest.mark.server
def test_a_run_knows_its_batches_and_its_counts(lab: Triton) -> None:
    lab.load("eager")
    run = runs.record(lab, "eager", measure.every(0, 10))
    assert sum(run.sizes) == run.count("inferences") == 10
    assert len(run.sizes) == run.count("executions")
    assert run.refused.empty
