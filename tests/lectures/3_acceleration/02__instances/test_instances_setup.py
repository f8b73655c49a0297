"""What 02__instances takes for a result."""

from __future__ import annotations

import pandas as pd
import pytest

from workbook.lessons import runs, units

setup = units.load(units.find("02__instances"), "setup")


def test_the_forecast_grows_with_the_instances() -> None:
    one, two, eight = setup.forecast(2.5, [1, 2, 8])
    assert one == pytest.approx(400, rel=0.01)
    assert two == pytest.approx(2 * one, rel=0.03)
    assert eight == pytest.approx(8 * one, rel=0.03)


def test_executions_at_the_same_time_are_counted_once_each() -> None:
    places = pd.DataFrame(
        [(1, 0, 10), (1, 0, 10), (2, 5, 12), (3, 10, 20), (4, 11, 13)],
        columns=["execution", "start_ms", "end_ms"],
    )
    nothing = pd.DataFrame()
    assert setup.most_at_once(runs.Run(nothing, places, nothing, nothing)) == 3


def test_cores_decide_what_a_run_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "cores", lambda: 2)
    assert setup.several_cores() & setup.few_cores()
    monkeypatch.setattr(setup, "cores", lambda: 1)
    assert "one core" in setup.several_cores().differs
    monkeypatch.setattr(setup, "cores", lambda: 16)
    assert "16 cores" in setup.few_cores().differs


def test_the_deployments_have_the_same_program() -> None:
    """What `pair` gains is not due to another program."""
    home = units.find("02__instances")
    program = "models/{}/1/model.py"
    first = home.parent / "01__point_a" / program.format("single")
    assert (home / program.format("pair")).read_text("utf-8") == first.read_text("utf-8")
