"""Models that never return from `execute`: old copies are shown, and processes can be ended."""

from __future__ import annotations

import queue
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as client
from compiled import needs_compiler
from fault_models import until

from tests.server.test_triton import CONFIG, SQUARE, make_square, square
from workbook.common.errors import RepositoryError, ServerError, StillLoading
from workbook.server import Triton, deploy, model_processes, undeploy

pytestmark = [pytest.mark.server, needs_compiler]

LOOP = SQUARE.replace(
    "time.sleep(float(x.ravel()[0] < 0) * 30)", "\n            while x.ravel()[0] < 0: pass"
)
#: Never sends the last answer, nor any other.
KEEPS = """
class TritonPythonModel:
    def execute(self, requests):
        self.kept = [r.get_response_sender() for r in requests]
"""


def test_a_loop_in_execute(tmp_path: Path) -> None:
    folder = make_square(tmp_path, "loop")
    (folder / "config.pbtxt").write_text(CONFIG.replace("count: 1", "count: 2"))
    (folder / "1" / "model.py").write_text(LOOP)
    repository = tmp_path / "models"
    repository.mkdir()
    with Triton(repository) as server, ThreadPoolExecutor(3) as clients:
        deploy(folder, server=server)
        first = {p.pid for p in model_processes.find(server)}
        assert len(first) == 2
        assert model_processes.sentences(server) == []
        futures = [clients.submit(square, server, "loop", -1.0) for _ in range(2)]
        until(lambda: all(psutil.Process(p).status() == "running" for p in first), "both loop")
        (folder / "1" / "model.py").write_text(LOOP + "# changed\n")
        deploy(folder, server=server)
        assert square(server, "loop") == 9.0
        older = model_processes.older(server, server.index())
        assert {p.pid for p in older} == first
        assert {(p.model, p.version) for p in older} == {("loop", "1")}
        (sentence,) = model_processes.sentences(server)
        assert sentence.startswith("An older copy of loop is still there: process ")
        undeploy("loop", server=server)
        assert not (repository / "loop").exists()
        (sentence,) = model_processes.sentences(server)
        assert sentence.startswith("loop is unloading: process ")
        report: list[str] = []
        began = time.monotonic()
        undeploy("loop", now=True, server=server, report=report.append)
        assert time.monotonic() - began < 20
        until(lambda: not any(map(psutil.pid_exists, first)), "the server has reaped both")
        assert all(str(pid) in report[0] for pid in first)
        assert all(isinstance(each.exception(timeout=20), ServerError) for each in futures)
        with pytest.raises(RepositoryError, match="--now ends all versions"):
            undeploy("loop", version=1, now=True, server=server)


def test_a_stream_without_an_end(tmp_path: Path) -> None:
    folder = make_square(tmp_path, "keeps")
    (folder / "config.pbtxt").write_text(CONFIG + "model_transaction_policy { decoupled: true }")
    (folder / "1" / "model.py").write_text(KEEPS)
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with Triton(tmp_path, models=["keeps"]) as server:
        x = client.InferInput("x", [1, 2], "FP32").set_data_from_numpy(np.ones((1, 2), np.float32))
        with client.InferenceServerClient(server.grpc_url) as connection:
            connection.start_stream(lambda result, error: answers.put((result, error)))
            connection.async_stream_infer("keeps", [x])
            success = 'nv_inference_exec_count{model="keeps",version="1"} 1'
            until(lambda: success in server.metrics(), "it has the request")
            undeploy("keeps", now=True, server=server, timeout=20, report=lambda text: None)
            _, error = answers.get(timeout=20)
            connection.stop_stream()
        assert "The process of model 'keeps' has ended: signal 9 (SIGKILL)." in str(error)
        assert not folder.exists()


def test_a_load_that_takes_longer_goes_on(tmp_path: Path) -> None:
    folder = make_square(tmp_path, "slow")
    wait = "    def initialize(self, args):\n        time.sleep(4)\n\n    def execute"
    (folder / "1" / "model.py").write_text(SQUARE.replace("    def execute", wait))
    repository = tmp_path / "models"
    repository.mkdir()
    with Triton(repository) as server:
        with pytest.raises(StillLoading, match="slow is still loading after 1 s"):
            deploy(folder, server=server, timeout=1)
        assert server.live()
        until(lambda: server.ready("slow"), "it is loaded behind")
        assert square(server, "slow") == 9.0
        assert (repository / "slow").is_dir()
