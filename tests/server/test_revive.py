"""If a model's process ends, the model is loaded again (workbook/server/native/revive.cc).

A plain Triton 24.10 keeps the model READY: every request fails, and a load changes nothing.
"""

from __future__ import annotations

import contextlib
import queue
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as client
from compiled import needs_compiler
from tritonclient.utils import InferenceServerException

from workbook.server import Triton, server_log

pytestmark = [pytest.mark.server, needs_compiler]

IO = (
    'backend: "python" input [{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }] '
    'output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }] '
)
#: Answers x: after x seconds if x > 0. If x is -1, the model ends its process. `helper` is a child
#: process that would outlive the model.
MODEL = """
import os, subprocess, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, arguments):
        self.helper = subprocess.Popen(["sleep", "3517"])

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if x[0] == -1:
                os._exit(3)
            time.sleep(max(0.0, float(x[0])))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
        return responses
"""
#: Sends two answers at once, and a last one after a minute.
STREAM = """
import threading, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x")
            sender = request.get_response_sender()
            threading.Thread(target=self.answer, args=(x.as_numpy(), sender), daemon=True).start()

    def answer(self, x, sender):
        for i in range(2):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", x + i)]))
        time.sleep(0.0 if x[0] == 0 else 60.0)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def write(repository: Path, name: str, code: str = MODEL, config: str = "") -> str:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(code)
    (folder.parent / "config.pbtxt").write_text(IO + config)
    return name


def ask(server: Triton, name: str, value: float = 0.0) -> float:
    x = client.InferInput("x", [1], "FP32").set_data_from_numpy(np.full(1, value, np.float32))
    with client.InferenceServerClient(server.grpc_url) as connection:
        return float(connection.infer(name, [x]).as_numpy("y")[0])


def stubs(server: Triton) -> list[psutil.Process]:
    """The processes of models that still run."""
    assert server.pid is not None
    found = []
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            zombie = process.status() == psutil.STATUS_ZOMBIE
            if process.name().startswith("triton_python_b") and not zombie:
                found.append(process)
    return found


def until(true: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)


def answers_again(server: Triton, name: str) -> None:
    def answers() -> bool:
        try:
            return ask(server, name) == 0.0
        except InferenceServerException as error:
            if "has ended" in str(error) or "is not healthy" in str(error):
                return False
            raise

    until(answers, f"{name} answers")


def helpers() -> list[psutil.Process]:
    """The processes that models have started and that still run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.cmdline() == ["sleep", "3517"]:
                found.append(process)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Triton]:
    write(tmp_path, "m")
    write(tmp_path, "other")
    with Triton(tmp_path, models=["m"]) as started:
        yield started


@pytest.mark.quick
def test_killed_without_a_request(server: Triton) -> None:
    killed = stubs(server)
    assert helpers()
    server.load("other")
    for process in killed:
        process.kill()
    with pytest.raises(InferenceServerException, match=r"'m' has ended, and the|not healthy"):
        ask(server, "m")
    answers_again(server, "m")
    assert ask(server, "other") == 0.0
    assert "The process of model 'm' has ended: signal 9 (SIGKILL). The model is" in (
        server.log_text()
    )
    assert len(helpers()) == 2, "its helper was left"
    until(lambda: len(stubs(server)) == 2, "the old model's process is gone")
    server.unload("m")
    until(lambda: len(stubs(server)) == 1, "and the model can be unloaded")
    assert server.pid is not None
    states = [p.status() for p in psutil.Process(server.pid).children(recursive=True)]
    assert psutil.STATUS_ZOMBIE not in states


def test_killed_by_its_own_request(server: Triton) -> None:
    """Requests that waited behind the killing request are refused; later requests are answered."""
    for turn in range(3):
        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(ask, server, "m", value) for value in (0.3, -1.0, 0.0, 0.0)]
            assert [a for a in futures if isinstance(a.exception(), InferenceServerException)]
        answers_again(server, "m")
        log = server.log_text()
        assert log.count("The process of model 'm' has ended: exit status 3. The") == turn + 1
    server.unload("m")
    until(lambda: not stubs(server), "the models that it has replaced are gone")


def test_one_of_two_instances(tmp_path: Path) -> None:
    """The other instance gives correct answers until the new model is ready."""
    write(tmp_path, "m", config="instance_group [{ count: 2 }]")
    with Triton(tmp_path, models=["m"]) as server, ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(ask, server, "m", 2.0) for _ in range(2)]
        time.sleep(0.5)
        stubs(server)[0].kill()
        got = [a.result() if a.exception() is None else str(a.exception()) for a in slow]
        assert 2.0 in got, got
        answers_again(server, "m")
        until(lambda: len(stubs(server)) == 2, "two processes again")


def test_a_model_that_always_ends_is_unloaded(server: Triton) -> None:
    for turn in range(4):
        with pytest.raises(InferenceServerException):
            ask(server, "m", -1.0)
        if turn < 3:
            answers_again(server, "m")
    until(lambda: not server.ready("m"), "m is not ready any more")
    times, unloaded = server_log.sentences(server.log_text())
    assert re.fullmatch(
        r"The process of m has ended \(exit status 3, 4 times, last at \d\d:\d\d:\d\d\)\.", times
    )
    assert unloaded == "m was unloaded: its process has ended 4 times in a minute."
    server.load("m")
    assert ask(server, "m") == 0.0


def test_a_model_that_no_longer_loads_is_unloaded(server: Triton) -> None:
    (Path(server.repository) / "m" / "1" / "model.py").write_text("import nothing_of_this_name")
    stubs(server)[0].kill()
    until(lambda: "Model 'm' is unloaded: it could not be loaded again: " in server.log_text(), "")
    until(lambda: not server.ready("m"), "m is not ready any more")


def test_a_stream_under_way_ends_with_an_error(tmp_path: Path) -> None:
    decoupled = "model_transaction_policy { decoupled: true }"
    write(tmp_path, "m", STREAM, decoupled)
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with Triton(tmp_path, models=["m"]) as server:
        for value in (5.0, 0.0):
            x = client.InferInput("x", [1], "FP32").set_data_from_numpy(
                np.full(1, value, np.float32)
            )
            with client.InferenceServerClient(server.grpc_url) as connection:
                connection.start_stream(lambda result, error: answers.put((result, error)))
                connection.async_stream_infer("m", [x], enable_empty_final_response=True)
                for i in range(2):
                    result, error = answers.get(timeout=20)
                    assert error is None
                    assert result.as_numpy("y")[0] == value + i
                if value:
                    stubs(server)[0].kill()
                result, error = answers.get(timeout=20)
                connection.stop_stream()
            if value:
                assert "The process of model 'm' has ended: signal 9 (SIGKILL)." in str(error)
                until(lambda: len(stubs(server)) == 1, "loaded again")
                until(lambda: server.log_text().count("successfully loaded 'm'") == 2, "ready")
            else:
                assert error is None
        assert answers.empty()


@pytest.mark.parametrize("control", ["poll", "none"])
def test_without_explicit_control(tmp_path: Path, control: Any) -> None:
    write(tmp_path, "m")
    with Triton(tmp_path, control=control) as server:
        until(lambda: server.ready("m"), "m is loaded")
        stubs(server)[0].kill()
        if control == "poll":
            answers_again(server, "m")
        else:
            until(lambda: "cannot be loaded again: start the" in server.log_text(), "it says so")
            with pytest.raises(InferenceServerException, match=r"of model 'm' has ended$"):
                ask(server, "m")
