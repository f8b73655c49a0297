"""What 05__dynamic_batcher takes for a result."""

from __future__ import annotations

import pandas as pd

from workbook.lessons import units

setup = units.load(units.find("05__dynamic_batcher"), "setup")

PAIRS = {"A": ("a1", "a8"), "B": ("b1", "b8")}


def measured(first: dict[str, float], second: dict[str, float]) -> pd.DataFrame:
    """The table of two rounds: model → throughput."""
    rounds = iter([*first.values(), *second.values()])
    table: pd.DataFrame = setup.in_turn(lambda name: next(rounds), PAIRS)
    return table


def test_what_both_rounds_show_is_a_result() -> None:
    once = {"a1": 100.0, "a8": 300.0, "b1": 100.0, "b8": 200.0}
    table = measured(once, {**once, "a8": 330.0})
    assert list(table["gain 1"]) == [3.0, 2.0]
    assert list(table["gain 2"]) == [3.3, 2.0]
    assert setup.repeated(table)
    assert setup.one_gains_most(table)


def test_rounds_that_differ_in_their_answer_are_none() -> None:
    once = {"a1": 100.0, "a8": 300.0, "b1": 100.0, "b8": 200.0}
    other = measured(once, {**once, "a8": 190.0})
    assert setup.repeated(other)
    assert not setup.one_gains_most(other)
    slow = {"a1": 100.0, "a8": 160.0, "b1": 100.0, "b8": 120.0}
    assert not setup.repeated(measured(slow, {**slow, "a8": 140.0}))
