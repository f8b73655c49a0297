"""What 07__tensorflow prepares and reads: a SavedModel in a wrong folder, and the server's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from workbook.lessons import units

setup = units.load(units.find("07__tensorflow"), "setup")


class Log:
    """A server that has only a log."""

    def log_text(self) -> str:
        """The log's lines."""
        ignored = "GPU Execution Accelerator will be ignored for model instance on CPU"
        return f'I1127 12:00:00 1 model.cc:10] "{ignored}"\nI1127 12:00:01 1 x.cc:1] "loaded"'


def test_the_log_s_lines_on_accelerators() -> None:
    lines = setup.accelerator_lines(cast(Any, Log()))
    assert lines == ["GPU Execution Accelerator will be ignored for model instance on CPU"]


def test_a_saved_model_that_lies_one_folder_too_deep(tmp_path: Path) -> None:
    (tmp_path / "1/model.savedmodel").mkdir(parents=True)
    (tmp_path / "1/model.savedmodel/saved_model.pb").touch()
    setup.deeper(tmp_path)
    assert (tmp_path / "1/model.savedmodel/saved_model/saved_model.pb").exists()
