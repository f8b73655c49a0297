"""What 08__fil reads and compares."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from workbook.lessons import units

setup = units.load(units.find("08__fil"), "setup")

_HEADER = (
    "Concurrency,Inferences/Second,p50 latency,p90 latency,p95 latency,p99 latency,"
    "Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output\n"
)


def test_the_spread_compares_the_gains_of_two_rounds(tmp_path: Path) -> None:
    """Served, 256 rows gain ×20 in the first round and ×30 in the second; in-process ×10 twice."""
    for turn, rates in {1: (100, 800, 2000), 2: (100, 900, 3000)}.items():
        for size, rate in zip(setup.SIZES, rates, strict=True):
            report = tmp_path / f"rows_{size}.{turn}.csv"
            report.write_text(f"{_HEADER}1,{rate},1,1,1,1,1,1,1,1\n")
    table = setup.read_speeds(tmp_path, [[10, 50, 100], [20, 100, 200]])
    assert list(table["served"]) == [100, 900, 3000]
    assert list(table["in-process"]) == [20, 100, 200]
    assert table.loc[256, "spread"] == pytest.approx(1.5)


def test_a_premise_says_what_differed() -> None:
    table = pd.DataFrame({"spread": [1.0, 60.3]})
    assert "60.3 times larger in one round than in the other" in setup.agreed(table).differs


def test_the_task_s_model_is_not_copied() -> None:
    assert "pickled" not in [folder.name for folder in setup.CONFIGS]
    assert len(setup.CONFIGS) == 9
