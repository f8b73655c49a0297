"""A request whose shape no memory could hold is refused, and the server goes on.

A plain Triton 24.10 ends (workbook/server/native/README.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from compiled import needs_compiler
from tritonclient.grpc import service_pb2, service_pb2_grpc

from workbook.server import Triton

pytestmark = [pytest.mark.server, needs_compiler]

CONFIG = """
backend: "python" max_batch_size: 8
input [{ name: "numbers" data_type: TYPE_FP32 dims: [ -1, -1 ] optional: true },
       { name: "texts" data_type: TYPE_STRING dims: [ -1, -1 ] optional: true }]
output [{ name: "rows" data_type: TYPE_FP32 dims: [ 1 ] }]
"""
MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            rows = request.inputs()[0].as_numpy().shape[0]
            y = pb_utils.Tensor("rows", np.full((rows, 1), rows, np.float32))
            responses.append(pb_utils.InferenceResponse([y]))
        return responses
"""
HUGE = [
    [1, 1, 2**62],
    [1, 1, 2**63 - 1],
    [1, 2**61, 8],  # the product of bytes is 0 in 64 bits
    [8, 2**60, 2],
    [1, 2**31, 2**31],
    [1, 1, 2**44],  # no overflow, but 64 TiB
    [1, 0, 2**62],  # no data, but numpy refuses the shape
]
OTHERS = [[1, 1, 0], [1, 0, 2**20], [1, -1, 2**62], [-1, -1, 2**62]]
INPUTS = [("numbers", "FP32", 1.5), ("texts", "BYTES", "one")]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Any:
    repository = tmp_path_factory.mktemp("models")
    (repository / "rows" / "1").mkdir(parents=True)
    (repository / "rows" / "config.pbtxt").write_text(CONFIG)
    Path(repository, "rows", "1", "model.py").write_text(MODEL)
    with Triton(repository, models=["rows"]) as server:
        yield server


def by_http(server: Triton, name: str, kind: str, shape: list[int], value: object) -> str:
    """The error of a request in JSON, or `""`."""
    tensor = {"name": name, "datatype": kind, "shape": shape, "data": [value]}
    url = f"{server.url}/v2/models/rows/infer"
    return str(httpx.post(url, json={"inputs": [tensor]}, timeout=60).json().get("error", ""))


def by_grpc(server: Triton, name: str, kind: str, shape: list[int], raw: bytes) -> str:
    """The error of a request by gRPC, or `""`."""
    request = service_pb2.ModelInferRequest(model_name="rows")
    tensor = service_pb2.ModelInferRequest.InferInputTensor(name=name, datatype=kind, shape=shape)
    request.inputs.append(tensor)
    request.raw_input_contents.append(raw)
    with grpc.insecure_channel(server.grpc_url) as channel:
        try:
            service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
        except grpc.RpcError as error:
            return str(error.details())  # type: ignore[attr-defined]
    return ""


@pytest.mark.parametrize(("name", "kind", "value"), INPUTS, ids=["numbers", "texts"])
@pytest.mark.parametrize("shape", HUGE, ids=str)
def test_a_huge_shape_is_refused(
    serving: Triton, name: str, kind: str, value: object, shape: list[int]
) -> None:
    raw = np.float32(1.5).tobytes() if kind == "FP32" else b"\3\0\0\0one"
    for error in (
        by_http(serving, name, kind, shape, value),
        by_grpc(serving, name, kind, shape, raw),
    ):
        words = ",".join(map(str, shape))
        assert error.startswith(f"input '{name}' has the shape [{words}], which is larger"), error
    assert by_http(serving, name, kind, [1, 1, 1], value) == ""
    assert by_grpc(serving, name, kind, [1, 1, 1], raw) == ""


@pytest.mark.parametrize("shape", OTHERS, ids=str)
def test_an_odd_shape_does_not_end_the_server(serving: Triton, shape: list[int]) -> None:
    for name, kind, value in INPUTS:
        raw = np.float32(1.5).tobytes() if kind == "FP32" else b"\3\0\0\0one"
        by_http(serving, name, kind, shape, value)
        by_grpc(serving, name, kind, shape, raw)
        assert by_http(serving, name, kind, [1, 1, 1], value) == ""
