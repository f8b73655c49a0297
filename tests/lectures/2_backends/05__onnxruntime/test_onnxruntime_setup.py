"""What 05__onnxruntime reads and prepares: perf_analyzer's reports, the log, half a file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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


def test_the_providers_are_those_of_the_last_load() -> None:
    line = "I1 base.py:3] \"onnxruntime stand-in: 'openvino' version 1 on cpu: threads 1 within an "
    first, last = (f'{line}operator, providers {p}, requests apart"' for p in ("A", "B (x y), A"))
    log = "\n".join([first, last, line.replace("openvino", "level_0")])
    assert setup.accelerated(SimpleNamespace(log_text=lambda: log)) == "B (x y), A"
    assert "no instance" in setup.accelerated(SimpleNamespace(log_text=str))


def test_half_a_file_is_half_as_long(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(bytes(100))
    assert setup.cut(tmp_path / "model.onnx") == "`model.onnx` has half of its bytes."
    assert (tmp_path / "model.onnx").stat().st_size == 50
