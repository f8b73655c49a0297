"""What 11__tuning computes from the runs of its sweep."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from workbook.lessons import units

setup = units.load(units.find("11__tuning"), "setup")

COLUMNS = ["instances", "threads", "batch", "delay_ms", "clients"]


def ran(instances: int, per_s: float, per_picture: float, clients: int = 8) -> dict[str, object]:
    """A measured run of at_work/sweep.py: executions of 2 ms, and so much per picture."""
    ms = {size: 10 * (2 + per_picture * size) for size in (1, 4, 8)}
    return {
        **dict(zip(COLUMNS, (instances, 1, 16, 0, clients), strict=True)),
        "per_s": per_s,
        "p99_ms": 20.0,
        "Client Send": 500,
        "Network+Server Send/Recv": 400,
        "Client Recv": 100,
        "done": json.dumps({"count": dict.fromkeys(ms, 10), "ms": ms}),
    }


@pytest.fixture
def measured() -> pd.DataFrame:
    runs = [ran(1, 800.0, 1.0), ran(2, 1000.0, 1.5)]
    return pd.DataFrame(runs).set_index(COLUMNS)


def test_the_times_of_executions_become_a_line(measured: pd.DataFrame) -> None:
    (_, alone), _ = setup.pairs(measured)
    assert setup.execution_ms(alone["done"]) == pytest.approx((2, 1))


def test_a_forecast_of_what_was_measured_is_the_measurement(measured: pd.DataFrame) -> None:
    known = measured.index.to_frame(index=False)
    found = setup.forecast(measured, known)
    assert found["per_s"].tolist() == pytest.approx([800, 1000])
    assert found["p99_ms"].tolist() == pytest.approx([20, 20])


def test_a_forecast_knows_that_a_delay_can_leave_an_instance_idle(measured: pd.DataFrame) -> None:
    settings = pd.DataFrame([(2, 1, 16, 5, 8), (2, 1, 4, 0, 8)], columns=COLUMNS)
    late, prompt = setup.forecast(measured, settings).itertuples()
    assert late.pictures == 8
    assert prompt.pictures <= 4
    assert late.per_s < 0.8 * prompt.per_s


def test_turns_that_differ_much_are_no_result() -> None:
    table = pd.DataFrame({"spread": [1.1, 1.3, 4.0]})
    assert setup.repeated(table)
    assert not setup.repeated(table, 1.2)
