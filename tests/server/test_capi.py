"""The core in this process: a server made, asked and ended through its C API."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbook.common.errors import ServerError
from workbook.server.capi import Core

ECHO = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        if x.size == 3:
            return pb_utils.InferenceResponse([], pb_utils.TritonError("three is too many"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
"""
CONFIG = """
backend: "python"
input { name: "x" data_type: TYPE_INT64 dims: [ -1, -1 ] }
output { name: "y" data_type: TYPE_INT64 dims: [ -1, -1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""


#: Starts and stops a server in this process, while another thread calls gRPC.
BESIDE_GRPC = """
import os, sys, threading

from workbook.server.capi import Core
from workbook.server import Server
import tritonclient.grpc as grpc

def talk():
    while True:
        with grpc.InferenceServerClient("localhost:9") as client:
            try:
                client.is_server_live(client_timeout=0.01)
            except grpc.InferenceServerException:
                pass

for _ in range(2):
    threading.Thread(target=talk, daemon=True).start()
core = Core()
for _ in range(3):
    options = core.new("ServerOptionsNew")
    core("ServerOptionsSetModelRepositoryPath", options, os.fsencode(sys.argv[1]))
    core("ServerOptionsSetBackendDirectory", options, os.fsencode(core.place.backends))
    core("ServerOptionsSetGpuMetrics", options, False)
    with core.environment():
        core.new("ServerNew", options)
print("ended", flush=True)
os._exit(0)  # To stop servers is another matter: see below.
"""


@pytest.fixture(scope="module")
def core() -> Core:
    return Core()


def put(models: Path, name: str) -> None:
    """A model that answers with its input."""
    (models / name / "1").mkdir(parents=True)
    (models / name / "config.pbtxt").write_text(CONFIG)
    (models / name / "1/model.py").write_text(ECHO)


@pytest.fixture(scope="module")
def server(core: Core, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.c_void_p]:
    models: Path = tmp_path_factory.mktemp("models")
    put(models, "echo")
    options = core.new("ServerOptionsNew")
    core("ServerOptionsSetModelRepositoryPath", options, os.fsencode(models))
    core("ServerOptionsSetBackendDirectory", options, os.fsencode(core.place.backends))
    core("ServerOptionsSetGpuMetrics", options, False)
    with core.environment():
        made = core.new("ServerNew", options)
    yield made
    core("ServerStop", made)  # waits for every request that is not deleted
    core("ServerDelete", made)
    core("ServerOptionsDelete", options)


def test_the_api_has_a_version_that_we_know(core: Core) -> None:
    assert core.version()[0] == 1


@pytest.mark.server
@pytest.mark.quick
def test_it_is_ready_and_says_who_it_is(core: Core, server: ctypes.c_void_p) -> None:
    assert core.yes("ServerIsReady", server)
    about = core.json("ServerModelMetadata", server, b"echo", ctypes.c_int64(-1))
    assert about["name"] == "echo"
    assert about["inputs"][0]["shape"] == [-1, -1]


@pytest.mark.server
@pytest.mark.quick
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=5), max_size=6)
)
def test_what_goes_in_comes_out(core: Core, server: ctypes.c_void_p, rows: list[list[int]]) -> None:
    x = np.array(rows, np.int64).reshape(len(rows), 5)
    answer = core.infer(server, "echo", {"x": x})
    assert list(answer) == ["y"]
    np.testing.assert_array_equal(answer["y"], x)


@pytest.mark.server
@pytest.mark.parametrize(
    ("model", "inputs", "words"),
    [
        ("nobody", {"x": np.zeros((1, 1), np.int64)}, "Not found: .*'nobody'"),
        ("echo", {"z": np.zeros((1, 1), np.int64)}, "unexpected inference input 'z'"),
        ("echo", {"x": np.zeros((1, 1), np.float32)}, "data-type is 'FP32', but .* 'INT64'"),
        ("echo", {"x": np.zeros((1, 3), np.int64)}, "three is too many"),
    ],
)
def test_an_error_is_raised_in_the_servers_words(
    core: Core, server: ctypes.c_void_p, model: str, inputs: dict[str, np.ndarray], words: str
) -> None:
    with pytest.raises(ServerError, match=words):
        core.infer(server, model, inputs)
    assert core.infer(server, "echo", {"x": np.ones((1, 1), np.int64)})["y"] == 1


@pytest.mark.server
def test_a_dtype_without_a_plain_array_is_refused(core: Core, server: ctypes.c_void_p) -> None:
    with pytest.raises(ServerError, match="object"):
        core.infer(server, "echo", {"x": np.array([["text"]], object)})


def test_the_environment_is_as_before(core: Core) -> None:
    before = dict(os.environ)
    with core.environment():
        assert os.environ["LD_LIBRARY_PATH"] != before.get("LD_LIBRARY_PATH")
    assert dict(os.environ) == before


@pytest.mark.server
def test_it_starts_models_side_by_side_while_grpc_is_in_use(tmp_path: Path) -> None:
    """gRPC's own preparation for forks, which this package turns off, ends such a process.

    It does not stop its servers. Triton 24.10 unloads all models of a server at once, and now and
    then that ends in a segmentation fault (`TritonBackendThread::StopBackendThread`, without gRPC
    too: in 3 of 24 processes that stopped six servers with four Python models each, on a busy
    machine).
    """
    for number in range(4):
        put(tmp_path, f"echo_{number}")
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GRPC_ENABLE")}
    output = tmp_path / "output.log"  # no pipe: the models' processes would hold it open
    with output.open("w") as file:
        subprocess.run(
            [sys.executable, "-c", BESIDE_GRPC, str(tmp_path)],
            env=variables,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
    assert "\nended\n" in output.read_text(), output.read_text()[-2000:]
