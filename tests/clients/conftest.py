"""One server for all clients' tests, its models, and one client of each protocol.

The models are real folders below `models/`. A test module names those it needs:

    @pytest.fixture(scope="module", autouse=True)
    def _models(serve: Serve) -> None:
        serve("add_sub", "square")

Starting a server and loading a model take most of the time here. So there is one server for the
session, and tests leave its models as they found them; other tests start a server of their own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import np_to_triton_dtype

from workbook.server import Triton, all_models

MODELS = Path(__file__).with_name("models")
Copy = Callable[..., None]
Serve = Callable[..., None]


class Protocol(NamedTuple):
    """One of the two protocols: its client library and a client of it."""

    name: str
    api: ModuleType
    client: Any

    def tensor(self, name: str, array: npt.NDArray[Any], **options: Any) -> Any:
        """An `InferInput` that holds `array`."""
        tensor = self.api.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        return tensor.set_data_from_numpy(array, **options)

    def json(self, answer: Any) -> Any:
        """An answer as JSON: over HTTP it is JSON already, over gRPC a message is converted."""
        from google.protobuf.json_format import MessageToDict

        if isinstance(answer, (dict, list)) or answer is None:
            return answer
        return MessageToDict(answer, preserving_proto_field_name=True)


def copy_models(repository: Path, *names: str) -> None:
    """Put models of this folder into a repository; the ONNX model's graph is y = 2x + 1."""
    for name in names:
        version = repository / name / "1"
        shutil.copytree(MODELS / name, repository / name)
        version.mkdir(exist_ok=True)  # git keeps no empty folder, and Triton needs one
        if name.startswith("total_"):
            shutil.copy(MODELS / "total.py", version / "model.py")
        if name == "line":
            (version / "model.onnx").write_bytes(line())


def line() -> bytes:
    """An ONNX graph: y = 2x + 1 on rows of four numbers."""
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "two"], ["double"]),
            helper.make_node("Add", ["double", "one"], ["y"]),
        ],
        "line",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 4])],
        [
            numpy_helper.from_array(np.array([2], np.float32), "two"),
            numpy_helper.from_array(np.array([1], np.float32), "one"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@pytest.fixture(scope="session")
def copy() -> Copy:
    """`copy(repository, *names)`: models of this room, for a server of a test's own."""
    return copy_models


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """The server of this room, in explicit mode."""
    with Triton(tmp_path_factory.mktemp("models")) as triton:
        yield triton


@pytest.fixture(scope="module")
def serve(server: Triton) -> Serve:
    """`serve(*names)`: the server has these models loaded, the ensemble after its parts."""

    def load(*names: str) -> None:
        new = [name for name in names if not (server.repository / name).exists()]
        copy_models(server.repository, *new)
        assert not all_models.load_all(server, new)

    return load


@pytest.fixture(scope="module")
def http(server: Triton) -> Iterator[Protocol]:
    """A client of `tritonclient.http` with room for several requests at a time."""
    address = server.url.removeprefix("http://")
    with tritonclient.http.InferenceServerClient(address, concurrency=8) as client:
        yield Protocol("http", tritonclient.http, client)


@pytest.fixture(scope="module")
def grpc(server: Triton) -> Iterator[Protocol]:
    """A client of `tritonclient.grpc`."""
    with tritonclient.grpc.InferenceServerClient(server.grpc_url) as client:
        yield Protocol("grpc", tritonclient.grpc, client)


@pytest.fixture(scope="module", params=["http", "grpc"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    """Each protocol in turn."""
    return request.getfixturevalue(request.param)
