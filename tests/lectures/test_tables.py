"""Tables in a notebook: texts at the left, numbers at the right, headers as their column."""

from __future__ import annotations

import re

import pandas as pd

from workbook.lessons import tables


def sides(table: pd.DataFrame) -> list[list[str]]:
    """The alignment of each cell, row by row: "l" or "r", " " for none."""
    rows = re.findall(r"<tr.*?</tr>", tables.html(table) or "", re.DOTALL)
    cells = [re.findall(r"<t[hd](?: [^>]*?)?>", row) for row in rows]
    found = [[re.search(r"text-align: (.)", cell) for cell in row] for row in cells]
    return [[side[1] if side else " " for side in row] for row in found]


def test_texts_are_at_the_left_and_numbers_at_the_right() -> None:
    values = {"name": ["a <td>", None], "ms": [1.5, 2], "n": [None, 3], "batches": [{1: 2}, {}]}
    table = pd.DataFrame(values, index=["first", "second"])
    assert sides(table) == [["l", "l", "r", "r", "l"]] * 3
    assert sides(table.reset_index(drop=True)) == [["r", "l", "r", "r", "l"]] * 3


def test_a_cell_that_spans_rows_moves_no_alignment() -> None:
    table = pd.DataFrame({"model": ["m", "m"], "version": ["one", "two"], "ms": [1, 2]})
    assert sides(table.set_index(["model", "version"])) == [
        *([["l", "l", "r"]] * 3),
        ["l", "r"],
    ]


def test_headers_over_several_columns_stay_as_they_are() -> None:
    table = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_product([["ms"], ["p50", "p99"]]))
    assert sides(table) == [[" ", " "], ["r", "r", "r"], ["r", "r", "r"]]


def test_a_table_whose_middle_is_left_out_stays_as_it_is() -> None:
    table = pd.DataFrame([["a"] * 40])
    with pd.option_context("display.max_columns", 20):
        assert "text-align: left" not in (tables.html(table) or "")
    with pd.option_context("display.max_columns", None):
        assert sides(table) == [["r", *(["l"] * 40)]] * 2
