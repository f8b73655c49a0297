"""What 04__sequences takes for the planned rounds."""

from __future__ import annotations

import pandas as pd

from workbook.lessons import units

setup = units.load(units.find("04__sequences"), "setup")


def test_rounds_are_as_planned_if_the_first_runs_alone_and_the_others_together() -> None:
    names = [request.id for request in setup.plan()]
    executions = [2 * (place // 3) + (place % 3 > 0) for place in range(len(names))]
    table = pd.DataFrame({"id": names, "execution": executions})
    assert setup.in_rounds(table)
    table.loc[1, "execution"] = 0
    assert "the executions were A1B1, C1" in str(setup.in_rounds(table))


def test_each_sequence_has_a_sum_of_its_own() -> None:
    sums = setup.right_sums()
    assert [sums[name] for name in ("A4", "B2", "C4", "D4")] == [4, 20, 400, 2000]
