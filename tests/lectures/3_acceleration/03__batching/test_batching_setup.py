"""What 03__batching takes for a result."""

from __future__ import annotations

import pandas as pd

from workbook.lessons import units

setup = units.load(units.find("03__batching"), "setup")


def test_batches_form_under_load_only() -> None:
    idle, busy = setup.forecast({1: 2.0, 4: 3.0, 16: 8.0}, [10, 1000])
    assert 1 <= idle < 1.1
    assert busy > 2


def test_an_execution_of_more_pictures_that_took_less_time_is_no_result() -> None:
    assert setup.grows(pd.DataFrame({"a": [1.0, 3.0], "b": [2.0, 2.5]}))
    assert not setup.grows(pd.DataFrame({"a": [1.0, 3.0], "b": [2.0, 1.5]}))


def test_batches_of_other_sizes_are_not_compared() -> None:
    assert setup.batches(pd.Series([6.0, 8.0]))
    assert not setup.batches(pd.Series([1.5, 8.0]))
    assert not setup.batches(pd.Series([3.0, 12.0]))
