"""What 05__onnxruntime reads and prepares: perf_analyzer's reports, the log, half a file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from workbook import measure
from workbook.lessons import units

setup = units.load(units.find("05__onnxruntime"), "setup")


def test_times_are_those_of_the_fastest_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*files: Path) -> pd.DataFrame:
        slow = 14.0 if "level_2" in files[0].name else 7.0
        return pd.DataFrame({"p50_ms": [slow, 2 * slow, 1.1 * slow], "throughput": [9, 5, 8]})

    monkeypatch.setattr(measure, "read_reports", read)
    times = setup.read_times(Path())
    assert times["× default"]["level_2"] == 2
    assert times["spread"].round(3).eq(1.1).all()
    assert setup.differs(times, "level_2", 1.1)
    assert not setup.differs(times, "level_1", 1.05)


def test_half_a_file_is_half_as_long(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(bytes(100))
    assert setup.cut(tmp_path / "model.onnx") == "`model.onnx` has half of its bytes."
    assert (tmp_path / "model.onnx").stat().st_size == 50
