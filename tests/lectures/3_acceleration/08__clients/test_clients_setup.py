"""What 08__clients takes for a measurement."""

from __future__ import annotations

import pandas as pd

from workbook.lessons import units

setup = units.load(units.find("08__clients"), "setup")


def test_the_two_fastest_runs_of_each_client_agree() -> None:
    names = ["blocking", "8 under way"]
    assert setup.repeats(pd.Series([290, 680, 130, 600, 240, 300], 3 * names))
    assert not setup.repeats(pd.Series([290, 680, 280, 300, 240, 310], 3 * names))


def test_two_instances_need_two_cores() -> None:
    names = ["blocking", "8 under way"]
    assert setup.cores_free(pd.DataFrame({"ms per picture": [2.6, 3.1]}, names))
    taken = setup.cores_free(pd.DataFrame({"ms per picture": [2.6, 6.0]}, names))
    assert "2.3 times as long" in taken.differs
