"""Warm-up: a model gets every kind of data that a config can name, before it is ready."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbook.common import paths
from workbook.common.errors import LoadError
from workbook.server import Triton

pytestmark = pytest.mark.server

IO = """
backend: "python"
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [ 2 ] },
       { name: "text" data_type: TYPE_STRING dims: [ 1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ 2 ] }]
"""
#: Writes the requests of each execution into the file that the config names.
MODEL = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, arguments):
        config = json.loads(arguments["model_config"])
        self.file = config["parameters"]["file"]["string_value"]
        self.instance = arguments["model_instance_name"]

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            text = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
            if (x == 13).any():
                raise ValueError("unlucky")
            words = [word.decode() for word in text.ravel()]
            seen = {"instance": self.instance, "x": x.tolist(), "text": words}
            with open(self.file, "a") as file:
                file.write(json.dumps(seen) + "\\n")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
        return responses
"""


def sample(name: str, x: str, text: str = "zero_data: true", count: int = 0, rows: int = 1) -> str:
    """A `model_warmup` entry for both inputs."""
    return (
        f'model_warmup [{{ name: "{name}" batch_size: {rows} count: {count} '
        f'inputs {{ key: "x" value {{ data_type: TYPE_FP32 dims: [ 2 ] {x} }} }} '
        f'inputs {{ key: "text" value {{ data_type: TYPE_STRING dims: [ 1 ] {text} }} }} }}]\n'
    )


def write(repository: Path, config: str, data: dict[str, bytes] | None = None) -> Path:
    """Write the model `m`; returns the file into which it writes."""
    folder, file = repository / "m", repository / "seen.jsonl"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(MODEL)
    parameter = f'parameters {{ key: "file" value {{ string_value: "{file}" }} }}\n'
    (folder / "config.pbtxt").write_text(IO + parameter + config)
    for name, content in (data or {}).items():
        (folder / "warmup").mkdir(exist_ok=True)
        (folder / "warmup" / name).write_bytes(content)
    return file


def seen(file: Path) -> list[dict[str, Any]]:
    """The inputs that the model was given, request by request."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.quick
def test_every_kind_of_data_arrives_before_the_model_is_ready(tmp_path: Path) -> None:
    """A batch of n rows comes as n requests of one row, and counts as such in the statistics."""
    values, word = np.array([[1.5, -2.5]], np.float32), b"\x04\x00\x00\x00auch"
    config = (
        sample("zeros", "zero_data: true", count=2, rows=4)
        + sample("chance", "random_data: true")
        + sample("files", 'input_data_file: "x"', 'input_data_file: "text"')
    )
    file = write(tmp_path, config, {"x": values.tobytes(), "text": word})
    with Triton(tmp_path) as server:
        server.load("m")
        given = seen(file)
        zero = {"instance": "m_0", "x": [[0.0, 0.0]], "text": [""]}
        assert given[:8] == [zero] * 8
        assert given[9:] == [{"instance": "m_0", "x": values.tolist(), "text": ["auch"]}]
        (record,) = server.statistics("m")
        assert record["inference_stats"]["success"]["count"] == 10
        assert record["execution_count"] == 4


def test_each_instance_is_warmed_up(tmp_path: Path) -> None:
    file = write(tmp_path, sample("zeros", "zero_data: true") + "instance_group [{ count: 2 }]")
    with Triton(tmp_path, models=["m"]):
        assert sorted(entry["instance"] for entry in seen(file)) == ["m_0_0", "m_0_1"]


def test_a_warm_up_is_repeated_at_each_load(tmp_path: Path) -> None:
    file = write(tmp_path, sample("zeros", "zero_data: true"))
    with Triton(tmp_path) as server:
        for turn in range(2):
            server.load("m")
            assert len(seen(file)) == turn + 1
            server.unload("m")


def test_a_warm_up_that_fails_keeps_the_model_from_loading(tmp_path: Path) -> None:
    thirteen = np.array([[13, 0]], np.float32).tobytes()
    file = write(tmp_path, sample("bad", 'input_data_file: "x"'), {"x": thirteen})
    with Triton(tmp_path) as server:
        with pytest.raises(LoadError) as caught:
            server.load("m")
        assert "unlucky" in caught.value.message
        assert not server.ready("m")
        (tmp_path / "m" / "warmup" / "x").write_bytes(bytes(8))
        server.load("m")
        assert len(seen(file)) == 1


def test_a_data_file_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, sample("gone", 'input_data_file: "x"'))
    with Triton(tmp_path) as server, pytest.raises(LoadError) as caught:
        server.load("m")
    assert "warmup/x" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "name", "dims"),
    [
        ("digits_onnx", "image", "1, 8, 8"),
        ("digits_torch", "INPUT__0", "1, 8, 8"),
        ("digits_openvino", "image", "1, 8, 8"),
        ("forest_xgboost", "input__0", "30"),
        ("language_onnx", "input_ids", "64"),
    ],
)
def test_the_stand_ins_are_warmed_up(tmp_path: Path, model: str, name: str, dims: str) -> None:
    """Also a model that the server runs itself."""
    kind = "TYPE_INT64" if model == "language_onnx" else "TYPE_FP32"
    inputs = [name, *(["attention_mask"] if model == "language_onnx" else [])]
    data = f"data_type: {kind} dims: [ {dims} ] zero_data: true"
    values = " ".join(f'inputs {{ key: "{one}" value {{ {data} }} }}' for one in inputs)
    shutil.copytree(paths.repository() / model, tmp_path / model)
    config = tmp_path / model / "config.pbtxt"
    warm = f'\nmodel_warmup [{{ name: "zeros" batch_size: 2 {values} }}]\n'
    config.write_text(config.read_text() + warm)
    with Triton(tmp_path, options=["--log-verbose=1"]) as server:
        server.load(model)
        assert f"model '{model}' instance" in server.log_text()
        assert "is running warmup sample 'zeros'" in server.log_text()
        for record in server.statistics(model):
            assert record["inference_count"] == 2
            assert record["execution_count"] == 1
