"""What 05__dynamic_batcher takes for a result."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from workbook.lessons import units

setup = units.load(units.find("05__dynamic_batcher"), "setup")

#: The columns of a report of perf_analyzer.
HEADER = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,"
    "Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,"
    "p50 latency,p90 latency,p95 latency,p99 latency"
)


@pytest.fixture(autouse=True)
def two_frameworks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(setup, "FRAMEWORKS", {"A": "a", "B": "b"})
    monkeypatch.chdir(tmp_path)


def measured(first: dict[str, float], second: dict[str, float]) -> pd.DataFrame:
    """The table of two rounds: model → throughput."""
    for turn, rates in enumerate((first, second), 1):
        for name, rate in rates.items():
            row = f"32,{rate},{','.join(['1'] * 11)}"
            Path(f"{name}.{turn}.csv").write_text(f"{HEADER}\n{row}\n", "utf-8")
    table: pd.DataFrame = setup.read_speeds(Path())
    return table


def test_what_both_rounds_show_is_a_result() -> None:
    once = {"a_alone": 100.0, "a": 300.0, "b_alone": 100.0, "b": 200.0}
    table = measured(once, {**once, "a": 330.0})
    assert list(table["gain 1"]) == [3.0, 2.0]
    assert list(table["gain 2"]) == [3.3, 2.0]
    assert setup.repeated(table)
    assert setup.one_gains_least(table)


def test_rounds_that_differ_in_their_answer_are_none() -> None:
    once = {"a_alone": 100.0, "a": 300.0, "b_alone": 100.0, "b": 200.0}
    other = measured(once, {**once, "a": 190.0})
    assert setup.repeated(other)
    assert not setup.one_gains_least(other)
    slow = {"a_alone": 100.0, "a": 160.0, "b_alone": 100.0, "b": 120.0}
    assert not setup.repeated(measured(slow, {**slow, "a": 140.0}))
