"""What 13__what_goes_wrong reads of the server's replies, and the model of its task."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbook.common.errors import WorkbookError
from workbook.lessons import units

setup = units.load(units.find("13__what_goes_wrong"), "setup")


def test_replies_are_told_apart_by_model(tmp_path: Path) -> None:
    file = tmp_path / "loads.txt"
    file.write_text(
        '\nonnx_half: \n{"error":"expects: TYPE_FP16;\\n"}HTTP 400\n\nkept: \nHTTP 200\n'
    )
    found = setup.replies(file)
    assert found == {"onnx_half": '{"error":"expects: TYPE_FP16;\\n"}HTTP 400', "kept": "HTTP 200"}


def test_the_model_of_the_task_has_the_file_and_the_program_of_int8(tmp_path: Path) -> None:
    for name in ("int8", "launch"):
        (tmp_path / name / "1").mkdir(parents=True)
    with pytest.raises(WorkbookError, match="int8 is not there"):
        setup.launch(tmp_path)
    (tmp_path / "int8/quantize.py").write_text("raise SystemExit('it is made already')")
    (tmp_path / "int8/1/model.onnx").write_bytes(b"weights")
    setup.launch(tmp_path)
    assert (tmp_path / "launch/1/model.onnx").read_bytes() == b"weights"
    assert "made already" in (tmp_path / "launch/quantize.py").read_text()
