"""What 06__openvino prepares: the model of the task."""

from __future__ import annotations

from pathlib import Path

from tests.lectures.course import parse_config
from workbook.lessons import units

setup = units.load(units.find("06__openvino"), "setup")


def test_the_task_s_model_has_the_weights_and_pads(tmp_path: Path) -> None:
    (tmp_path / "focus_openvino/1").mkdir(parents=True)
    (tmp_path / "focus_openvino/1/model.bin").write_bytes(b"weights")
    setup.lone(tmp_path, "focus_openvino")
    config = parse_config((tmp_path / "lone/config.pbtxt").read_text())
    assert config.parameters["ENABLE_BATCH_PADDING"].string_value == "YES"
    assert (tmp_path / "lone/1/model.bin").read_bytes() == b"weights"
