"""Model control: index, load, load with another config or other files, unload, dependents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_waits import wait_until
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

ONE = np.ones((1, 4), np.int32)
TEN_TIMES = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("y", pb_utils.get_input_tensor_by_name(r, "x").as_numpy() * 10)]
            )
            for r in requests
        ]
"""
CONFIG = {
    "backend": "python",
    "max_batch_size": 2,
    "input": [{"name": "x", "data_type": "TYPE_INT32", "dims": [4]}],
    "output": [{"name": "y", "data_type": "TYPE_INT32", "dims": [4]}],
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, copy: Any) -> Iterator[Triton]:
    """A server of this module's own, since its models come and go."""
    models = tmp_path_factory.mktemp("models")
    copy(models, "square", "add_sub", "pipeline", "echo")
    with Triton(models, models=["square", "pipeline"]) as triton:
        yield triton


def index(protocol: Any) -> dict[str, dict[str, Any]]:
    answer = protocol.json(protocol.client.get_model_repository_index())
    models = answer if protocol.name == "http" else answer["models"]
    # A removed version stays in the index with its state, so the ready version is sorted last.
    models.sort(key=lambda m: m.get("state") == "READY")
    return {m["name"]: m for m in models}


def unload(protocol: Any, name: str, **options: Any) -> None:
    protocol.client.unload_model(name, **options)
    unloaded = (None, "UNAVAILABLE")
    wait_until(lambda: index(protocol).get(name, {}).get("state") in unloaded)


def square(protocol: Any, model: str = "square") -> Any:
    x = protocol.tensor("x", 3 * ONE)
    return protocol.client.infer(model, [x]).as_numpy("y")[0, 0]


def test_the_index_shows_what_is_loaded(protocol: Any) -> None:
    models = index(protocol)
    assert set(models) == {"square", "add_sub", "pipeline", "echo"}
    assert (models["square"]["state"], models["square"]["version"]) == ("READY", "1")
    assert "state" not in models["echo"]


def test_unload_and_load(protocol: Any) -> None:
    unload(protocol, "square")
    assert index(protocol)["square"]["reason"] == "unloaded"
    assert not protocol.client.is_model_ready("square")
    with pytest.raises(InferenceServerException, match="'square' has no available versions"):
        square(protocol)
    protocol.client.load_model("square")
    assert protocol.client.is_model_ready("square")
    assert square(protocol) == 9


def test_load_with_another_config(http: Any, server: Triton) -> None:
    """Loading a model again that has not changed on disk keeps the client's config (24.10)."""
    x = http.tensor("x", np.ones((3, 4), np.int32))
    http.client.load_model("square", config=json.dumps(CONFIG))
    for _ in range(2):
        with pytest.raises(InferenceServerException, match="batch-size must be <= 2"):
            http.client.infer("square", [x])
        http.client.load_model("square")
    (server.repository / "square" / "config.pbtxt").touch()
    http.client.load_model("square")  # and back to the repository's own
    assert http.client.infer("square", [x]).as_numpy("y").shape == (3, 4)


def test_load_from_files_that_the_client_sends(protocol: Any) -> None:
    """They replace the repository's files, including version numbers."""
    files = {"file:7/model.py": TEN_TIMES.encode()}
    protocol.client.load_model("square", config=json.dumps(CONFIG), files=files)
    assert square(protocol) == 30
    assert protocol.client.is_model_ready("square", "7")
    assert index(protocol)["square"]["version"] == "7"
    protocol.client.load_model("square")
    assert square(protocol) == 9
    assert index(protocol)["square"]["version"] == "1"


def test_sent_files_need_a_config(protocol: Any, server: Triton) -> None:
    with pytest.raises(InferenceServerException, match="failed to poll from model repository"):
        protocol.client.load_model("square", files={"file:1/model.py": TEN_TIMES.encode()})
    assert "'config' must be specified for model file override" in server.log_text()
    assert square(protocol) == 9


def test_a_changed_model_is_loaded_anew(grpc: Any, server: Triton) -> None:
    file = server.repository / "square" / "1" / "model.py"
    before = file.read_text()
    file.write_text(TEN_TIMES)
    assert square(grpc) == 9
    grpc.client.load_model("square")
    assert square(grpc) == 30
    file.write_text(before)
    grpc.client.load_model("square")
    assert square(grpc) == 9


def test_a_failed_reload_keeps_the_old_model(protocol: Any, server: Triton) -> None:
    config: Path = server.repository / "square" / "config.pbtxt"
    good = config.read_text()
    config.write_text(good.replace("TYPE_INT32", "INT32"))
    with pytest.raises(InferenceServerException, match="failed to load 'square'"):
        protocol.client.load_model("square")
    config.write_text(good)
    assert protocol.client.is_model_ready("square")
    assert square(protocol) == 9


def test_an_unknown_model(protocol: Any) -> None:
    with pytest.raises(InferenceServerException) as caught:
        protocol.client.load_model("nowhere")
    assert caught.value.message() == (
        "failed to load 'nowhere', failed to poll from model repository"
    )


def test_an_ensemble_and_its_parts(protocol: Any) -> None:
    """`add_sub` is loaded and unloaded with the ensemble; `square`, loaded by name, stays."""
    inputs = [protocol.tensor("left", ONE), protocol.tensor("right", ONE)]
    assert protocol.client.is_model_ready("add_sub")
    unload(protocol, "pipeline", unload_dependents=True)
    wait_until(lambda: index(protocol)["add_sub"]["state"] == "UNAVAILABLE")
    assert protocol.client.is_model_ready("square")
    protocol.client.load_model("pipeline")
    result = protocol.client.infer("pipeline", inputs)
    np.testing.assert_array_equal(result.as_numpy("squared_sum"), 4 * ONE)
