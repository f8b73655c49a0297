"""What 05__onnxruntime reads and prepares: a profile, padded sentences, half a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from workbook.lessons import units

setup = units.load(units.find("05__onnxruntime"), "setup")


def test_a_profile_is_read_node_by_node(tmp_path: Path) -> None:
    def event(name: str, operator: str, us: int) -> dict[str, Any]:
        return {"cat": "Node", "name": name, "dur": us, "args": {"op_name": operator}}

    kernels = [("/features.0/Conv", 1000), ("/features.3/Conv", 3000), ("/features.10/Conv", 2000)]
    events = [event(f"{name}_kernel_time", "FusedConv", us) for name, us in kernels * 2]
    events += [event("/pool_kernel_time", "MaxPool", 500), {"cat": "Session", "name": "run"}]
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(events))
    nodes = setup.nodes(file)
    assert list(nodes["ms"]) == [3.0, 2.0, 1.0, 0.5]
    assert nodes.index[0] == "convolution 2 (/features.3/Conv)"
    assert list(setup.convolutions(nodes)) == [1.0, 3.0, 2.0]
    assert setup.clearly_slowest(nodes)
    assert not file.exists()


def test_a_padded_sentence_has_a_mask() -> None:
    inputs = setup.sentence(3, padded=5)
    assert inputs["attention_mask"].tolist() == [[1, 1, 1, 0, 0]]
    assert np.count_nonzero(inputs["input_ids"]) == 3
    assert [r.id for r in setup.sentences([2, 4])] == ["s2", "s4"]


def test_half_a_file_is_half_as_long(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(bytes(100))
    assert setup.cut(tmp_path / "model.onnx") == "`model.onnx` has half of its bytes."
    assert (tmp_path / "model.onnx").stat().st_size == 50
