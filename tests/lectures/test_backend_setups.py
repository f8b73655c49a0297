"""What the notebooks of the framework backends share: printed configs, settings, profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from workbook.common.errors import LoadError, WorkbookError
from workbook.lessons.setups import documented, variants
from workbook.lessons.setups import onnxruntime as onnx_setup
from workbook.lessons.setups import openvino as openvino_setup

PRINTED = """\
name: "m"
platform: "onnxruntime_onnx"
input [
   name: "x"
   data_type: TYPE_FP32
   dims: [5]
instance_group [
    kind: KIND_GPU
"""


def parse(text: str) -> Any:
    """A config as the server's own parser reads it."""
    return text_format.Parse(text, model_config_pb2.ModelConfig())  # type: ignore[attr-defined]


class Server:
    """A server that loads what its `accepts` likes."""

    def __init__(self, repository: Path, accepts: Any) -> None:
        self.repository, self.accepts = repository, accepts

    def load(self, model: str) -> None:
        text = (self.repository / model / "config.pbtxt").read_text()
        if not self.accepts(text):
            raise LoadError("It did not load.", model=model, message="no such thing", todo="Mend.")


def test_braces_make_a_printed_config_whole() -> None:
    config = parse(documented.braces(PRINTED))
    assert list(config.input[0].dims) == [5]
    assert "KIND_GPU" in str(config.instance_group[0])
    assert documented.braces(documented.braces(PRINTED)) == documented.braces(PRINTED)


def test_each_step_is_tried_on_top_of_the_one_before(tmp_path: Path) -> None:
    server: Any = Server(tmp_path, lambda text: "KIND_CPU" in text)
    steps = {"with braces": documented.braces, "on the CPU": documented.on_cpu}
    mended = documented.mend(server, "m", PRINTED, steps)
    assert mended.refused == [documented.PRINTED, "with braces"]
    assert (mended.words("with braces"), mended.words("on the CPU")) == ("no such thing", "")
    assert "✓ on the CPU: The server loads it." in str(mended)
    assert "✗ with braces: It did not load." in str(mended)
    assert "KIND_CPU\n} ]" in (tmp_path / "m/config.pbtxt").read_text()


def test_on_the_cpu_there_is_no_list_of_gpus() -> None:
    assert documented.on_cpu("count: 1 kind: KIND_GPU gpus: [ 0 ]") == "count: 1 kind: KIND_CPU"
    with pytest.raises(WorkbookError, match="does not have 'KIND_GPU'"):
        documented.on_cpu("kind: KIND_CPU")


def test_a_variant_has_the_files_and_one_more_line(tmp_path: Path) -> None:
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.onnx").write_bytes(b"weights")
    (tmp_path / "m/config.pbtxt").write_text(f"{variants.parameter('threads', 1)}\n")
    names = variants.add(tmp_path, "m", {"as it is": "", **variants.each({"threads": 2})})
    assert names == {"as it is": "m_0", "threads: 2": "m_1"}
    assert (tmp_path / "m_1/1/model.onnx").read_bytes() == b"weights"
    config = parse((tmp_path / "m_1/config.pbtxt").read_text())
    assert config.parameters["threads"].string_value == "2"


def test_turns_that_differ_are_no_result() -> None:
    table = pd.DataFrame({"ms": [1.0, 2.0], "spread": [1.1, 1.7]}, index=["a", "b"])
    assert not variants.repeated(table)
    assert variants.repeated(table.loc[["a"]])


def test_a_profile_is_read_node_by_node(tmp_path: Path) -> None:
    def event(name: str, operator: str, us: int) -> dict[str, Any]:
        return {"cat": "Node", "name": name, "dur": us, "args": {"op_name": operator}}

    kernels = [("/features.0/Conv", 1000), ("/features.3/Conv", 3000), ("/features.10/Conv", 2000)]
    events = [event(f"{name}_kernel_time", "FusedConv", us) for name, us in kernels * 2]
    events += [event("/pool_kernel_time", "MaxPool", 500), {"cat": "Session", "name": "run"}]
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(events))
    nodes = onnx_setup.nodes(file)
    assert list(nodes["ms"]) == [3.0, 2.0, 1.0, 0.5]
    assert nodes.index[0] == "convolution 2 (/features.3/Conv)"
    assert list(onnx_setup.convolutions(nodes)) == [1.0, 3.0, 2.0]
    assert onnx_setup.clearly_slowest(nodes)
    assert not file.exists()


def test_a_padded_sentence_has_a_mask() -> None:
    inputs = onnx_setup.sentence(3, padded=5)
    assert inputs["attention_mask"].tolist() == [[1, 1, 1, 0, 0]]
    assert np.count_nonzero(inputs["input_ids"]) == 3
    assert [r.id for r in onnx_setup.sentences([2, 4])] == ["s2", "s4"]


def test_half_a_file_is_half_as_long(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(bytes(100))
    assert onnx_setup.cut(tmp_path / "model.onnx") == "`model.onnx` has half of its bytes."
    assert (tmp_path / "model.onnx").stat().st_size == 50


def test_batches_of_any_size_have_the_batch_in_dims(tmp_path: Path) -> None:
    home = tmp_path / "focus_openvino"
    (home / "1").mkdir(parents=True)
    (home / "1/model.bin").write_bytes(b"weights")
    (home / "config.pbtxt").write_text(openvino_setup._LONE)
    configs = openvino_setup.batches(home)
    assert parse(configs["any_batch"]).max_batch_size == 0
    assert "dims: [ -1, 3, 64, 64 ]" in configs["any_batch"]
    assert '"NO"' in configs["exact"]
    assert (tmp_path / "exact/1/model.bin").read_bytes() == b"weights"
