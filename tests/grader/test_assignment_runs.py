"""The tests of assignments rely on this: a wrong answer does not end their server for others."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
from tritonclient import grpc

from tests import assignment_runs
from tests.assignment_runs import Models
from workbook.server import Triton

pytestmark = pytest.mark.server

#: Answers each request once, but never sends the final flag.
ENDLESS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        self.senders = [request.get_response_sender() for request in requests]
        for request, sender in zip(requests, self.senders):
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
"""
CONFIG = """
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
"""


def endless(folder: Path) -> Path:
    """Write the model."""
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(ENDLESS)
    (folder / "config.pbtxt").write_text(CONFIG)
    return folder


def test_a_model_that_never_unloads(
    server: Triton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is started again without the model, on the same ports, and a message says so."""
    monkeypatch.setattr(assignment_runs, "_UNLOADED", 1.0)
    folder = endless(tmp_path / "endless")
    models, pid = Models(server), server.pid
    models.deploy(folder, again=False)
    answered = threading.Event()
    client = grpc.InferenceServerClient(server.grpc_url)
    try:
        x = grpc.InferInput("x", [1], "FP32").set_data_from_numpy(np.zeros(1, np.float32))
        client.start_stream(lambda result, error: answered.set())
        client.async_stream_infer("endless", [x])
        assert answered.wait(30)
        with pytest.warns(UserWarning, match="started anew. endless did not unload within 1 s"):
            models.clear()
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()
    assert server.pid != pid
    assert server.live()
    assert server.index() == []
    assert models.deploy(folder, again=False).versions == (1,)


def test_a_server_that_has_ended(server: Triton, tmp_path: Path) -> None:
    """It is started again, and the deployed models are deployed again."""
    folder = endless(tmp_path / "ended")
    models = Models(server)
    models.deploy(folder, again=False)
    process = psutil.Process(server.pid)
    process.kill()
    process.wait(10)
    with pytest.warns(UserWarning, match="started anew. It had ended"):
        models.revive()
    assert server.index() == []
    assert models.deploy(folder, again=False).versions == (1,)
    assert server.ready("ended")
