"""Models that fail to load, and stubs that die or stand still, do not end the server or keep it
waiting.

Each of these ends a plain Triton 24.10, or makes it wait for ever
(workbook/server/native/README.md).
"""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as client
from compiled import needs_compiler
from tritonclient.utils import InferenceServerException

from workbook.common.errors import LoadError
from workbook.server import Triton
from workbook.server.assemble import find

pytestmark = [pytest.mark.server, needs_compiler]

IO = (
    'input [{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }] '
    'output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }] '
)
WARM_UP = (
    'model_warmup [{ name: "w" batch_size: 1 inputs { key: "x" '
    "value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }]"
)
MODEL = """
import ctypes, os, signal

class TritonPythonModel:
    def initialize(self, arguments):
        {initialize}
    def execute(self, requests):
        {execute}
"""


def write(repository: Path, name: str, code: str, config: str = "") -> str:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(code)
    (folder.parent / "config.pbtxt").write_text(f'backend: "python" {IO} {config}')
    return name


def test_failed_loads_side_by_side(tmp_path: Path) -> None:
    """Of 72 failed loads about one and a half would have ended the server."""
    fails = "raise ValueError(1)"
    names = []
    for i in range(6):
        code = MODEL.format(initialize=fails, execute="return []")
        names.append(write(tmp_path, f"initialize_{i}", code))
        code = MODEL.format(initialize="pass", execute=fails)
        names.append(write(tmp_path, f"warm_up_{i}", code, WARM_UP))

    def load(name: str) -> None:
        for _ in range(6):
            with pytest.raises(LoadError):
                server.load(name, timeout=60)

    with Triton(tmp_path) as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(load, names))  # an error of another kind would say that no server answers


@pytest.mark.parametrize(
    "dies", ["os._exit(0)", "os._exit(3)", "ctypes.string_at(0)", "os.kill(os.getpid(), 9)"]
)
def test_a_stub_that_dies_while_it_reads_the_model(tmp_path: Path, dies: str) -> None:
    name = write(tmp_path, "m", f"import ctypes, os\n{dies}\n")
    good = write(tmp_path, "good", MODEL.format(initialize="pass", execute="return []"))
    with Triton(tmp_path) as server:
        for _ in range(2):
            with pytest.raises(LoadError, match="The model's process ended while it was starting"):
                server.load(name, timeout=60)
        server.load(good)
        began = time.monotonic()
    assert time.monotonic() - began < 20, "the server's end waits for the load"


ECHO = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            time.sleep(0.2)
            response = pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
            {answer}
        return {returned}
"""
ANSWERS = {
    "at once": ECHO.format(answer="responses.append(response)", returned="responses"),
    "decoupled": ECHO.format(
        answer="request.get_response_sender().send(response, flags=1)", returned="None"
    ),
}
DECOUPLED = "model_transaction_policy { decoupled: true }"


def infer(server: Triton, model: str, number: float, timeout: float = 60.0) -> float:
    """The first answer of a model to a request, over a stream, as decoupled models need."""
    x = client.InferInput("x", [1], "FP32").set_data_from_numpy(np.full(1, number, np.float32))
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with client.InferenceServerClient(server.grpc_url) as connection:
        connection.start_stream(lambda result, error: answers.put((result, error)))
        connection.async_stream_infer(model, [x])
        result, error = answers.get(timeout=timeout)
        connection.stop_stream()
    if error is not None:
        raise error
    return float(result.as_numpy("y")[0])


def stubs(server: Triton) -> list[psutil.Process]:
    """The processes in which models run."""
    assert server.pid is not None
    processes = psutil.Process(server.pid).children(recursive=True)
    return [p for p in processes if "stub" in p.name() and not p.name().startswith("stub ")]


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_stub_that_stands_still_answers_afterwards(tmp_path: Path, kind: str) -> None:
    """A plain server answers with errors, mixes the answers up, or ends."""
    config = "instance_group [{ count: 2 }]" + (DECOUPLED if kind == "decoupled" else "")
    name = write(tmp_path, "echo", ANSWERS[kind], config)
    with Triton(tmp_path, models=[name]) as server, ThreadPoolExecutor(4) as pool:
        still = stubs(server)
        assert len(still) == 2
        for turn in range(3):
            numbers = [10.0 * turn + i for i in range(4)]
            answers = [pool.submit(infer, server, name, number) for number in numbers]
            time.sleep(0.1)
            for process in still:
                process.suspend()
            time.sleep(2.5)
            for process in still:
                process.resume()
            assert [answer.result() for answer in answers] == numbers
        assert infer(server, name, -1.0) == -1.0


def test_a_stub_that_is_killed_has_its_requests_end(tmp_path: Path) -> None:
    name = write(tmp_path, "echo", ANSWERS["at once"])
    other = write(tmp_path, "other", ANSWERS["at once"])
    with Triton(tmp_path, models=[name]) as server, ThreadPoolExecutor(4) as pool:
        killed = stubs(server)
        server.load(other)
        answers = [pool.submit(infer, server, name, number) for number in (1.0, 2.0)]
        time.sleep(0.1)
        for process in killed:
            process.kill()
        for answer in answers:
            with pytest.raises(
                InferenceServerException, match=r"is not healthy|has ended, and the server"
            ):
                answer.result(timeout=20)
        assert infer(server, other, 3.0) == 3.0


OWNER_DIED = """
import ctypes, mmap, os

libc = ctypes.CDLL(None)
memory = mmap.mmap(-1, 4096)
mutex = ctypes.addressof(ctypes.c_char.from_buffer(memory))
kind = ctypes.create_string_buffer(64)
libc.pthread_mutexattr_init(kind)
libc.pthread_mutexattr_setpshared(kind, 1)
libc.pthread_mutexattr_setrobust(kind, 1)
libc.pthread_mutex_init(ctypes.c_void_p(mutex), kind)
lock = ctypes.CDLL(None).pthread_mutex_lock
if os.fork() == 0:
    lock(ctypes.c_void_p(mutex))
    os._exit(0)
os.wait()
print(lock(ctypes.c_void_p(mutex)))
"""


@pytest.mark.parametrize(("preloaded", "status"), [(True, "0"), (False, "130")])
def test_a_lock_whose_owner_died_can_be_had(preloaded: bool, status: str) -> None:
    """130 is EOWNERDEAD, which ends a server without the helper."""
    environment = {"LD_PRELOAD": str(find().preload)} if preloaded else {}
    command = [sys.executable, "-c", OWNER_DIED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == status, done.stderr


LOOP = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        x = pb_utils.Tensor("x", np.zeros(1, np.float32))
        for _ in range(20):
            asked = pb_utils.InferenceRequest(
                model_name="step", requested_output_names=["y"], inputs=[x]
            ).exec()
            assert not asked.has_error()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x.as_numpy())])]
"""
STEP = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.005)
        x = pb_utils.get_input_tensor_by_name(requests[0], "x").as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])]
"""


def test_requests_by_bls_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """The wait for a failed load's thread (1.8 s) is none of theirs: they wait by a future, too."""
    loops = [write(tmp_path, name, LOOP) for name in ("one", "two", "three")]
    write(tmp_path, "step", STEP)
    x = client.InferInput("x", [1], "FP32")
    x.set_data_from_numpy(np.zeros(1, np.float32))
    with Triton(tmp_path) as server, server.grpc_client() as asks, ThreadPoolExecutor(3) as pool:
        for name in ("step", *loops):
            server.load(name)

        def seconds(models: list[str]) -> float:
            began = time.monotonic()
            list(pool.map(lambda name: asks.infer(name, [x]), models))
            return time.monotonic() - began

        alone = seconds(loops[:1])
        assert min(seconds(loops) for _ in range(3)) < 6 * alone  # they share one `step`: 3
