"""Which runs of 06__queue_policies show something."""

from __future__ import annotations

import pandas as pd

from workbook.lessons import units
from workbook.lessons.runs import Run

setup = units.load(units.find("06__queue_policies"), "setup")


def flood(late_ms: float = 0.0, share: float = 0.0) -> pd.DataFrame:
    """The answers to the flood's plan, of which the last share was sent late."""
    sent = [request.at_ms for request in setup.flood()]
    first = round(len(sent) * (1 - share))
    return pd.DataFrame({"sent_ms": [at + late_ms * (i >= first) for i, at in enumerate(sent)]})


def test_a_flood_that_comes_late_or_meets_a_slow_model_is_another_load() -> None:
    assert setup.came_as_planned(flood(), 21.0)
    assert setup.came_as_planned(flood(late_ms=300, share=0.05), 21.0)
    assert not setup.came_as_planned(flood(late_ms=300, share=0.2), 21.0)
    assert not setup.came_as_planned(flood(), 30.0)


def test_urgent_requests_are_compared_with_others_that_waited() -> None:
    names = [*(f"o{i}" for i in range(12)), "u0"]
    places = pd.DataFrame({"request_id": names, "queued_ms": 0.0, "start_ms": 50.0})
    places.loc[places["request_id"] == "u0", "queued_ms"] = 10.0
    answers = pd.DataFrame({"sent_ms": [8.0 * i for i in range(13)]})
    in_time = Run(answers, places, pd.DataFrame(), pd.DataFrame())
    assert setup.found_a_queue(in_time)
    late = Run(2 * answers, places, pd.DataFrame(), pd.DataFrame())
    assert "sending the requests took 192 ms" in str(setup.found_a_queue(late))


def test_one_execution_is_no_rush() -> None:
    assert setup.enough(pd.DataFrame({"executions": [[3, 4]] * 5 + [[4]] * 3}))
    assert not setup.enough(pd.DataFrame({"executions": [[3, 4]] * 4 + [[1, 4, 4]] * 4}))


def test_executions_are_counted_by_kind() -> None:
    places = pd.DataFrame(
        {"request_id": ["o0", "u0", "o1"], "queued_ms": [0.0, 5.0, 5.0], "start_ms": [1.0, 21, 41]}
    )
    waited = setup.executions_waited(Run(pd.DataFrame(), places, pd.DataFrame(), pd.DataFrame()))
    assert waited["mean"]["urgent"] == 1
    assert waited["mean"]["ordinary"] == 1.5
