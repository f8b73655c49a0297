"""What 06__openvino prepares: models that take any batch."""

from __future__ import annotations

from pathlib import Path

from tests.lectures.course import parse_config
from workbook.lessons import units

setup = units.load(units.find("06__openvino"), "setup")


def test_batches_of_any_size_have_the_batch_in_dims(tmp_path: Path) -> None:
    home = tmp_path / "focus_openvino"
    (home / "1").mkdir(parents=True)
    (home / "1/model.bin").write_bytes(b"weights")
    (home / "config.pbtxt").write_text(setup._LONE)
    configs = setup.batches(home)
    assert parse_config(configs["any_batch"]).max_batch_size == 0
    assert "dims: [ -1, 3, 64, 64 ]" in configs["any_batch"]
    assert '"NO"' in configs["exact"]
    assert (tmp_path / "exact/1/model.bin").read_bytes() == b"weights"
