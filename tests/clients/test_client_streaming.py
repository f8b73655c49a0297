"""Streams over gRPC with a model that answers a request as often as it likes."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from client_waits import wait_until
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

Answers = queue.Queue[tuple[Any, Any]]


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve("countdown", "square")


@pytest.fixture
def answers() -> Answers:
    return queue.Queue()


@pytest.fixture
def client(server: Triton) -> Iterator[Any]:
    """A client of its own for each test: a client has one stream."""
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        yield client


def count(number: int, pause: float = 0.0, **more: int) -> list[Any]:
    values = {
        "from": np.array([number], np.int32),
        "pause": np.array([pause], np.float32),
        **{name: np.array([value], np.int32) for name, value in more.items()},
    }
    kinds = {"pause": "FP32"}
    return [
        grpcclient.InferInput(name, [1], kinds.get(name, "INT32")).set_data_from_numpy(value)
        for name, value in values.items()
    ]


def start(client: Any, answers: Answers, **options: Any) -> None:
    client.start_stream(lambda result, error: answers.put((result, error)), **options)


def take(answers: Answers, number: int) -> list[int]:
    """The numbers in the next answers, none of which is an error."""
    got = []
    for _ in range(number):
        result, error = answers.get(timeout=30)
        assert error is None
        got.append(int(result.as_numpy("number")[0]))
    return got


def is_final(result: Any) -> bool:
    return bool(result.get_response().parameters["triton_final_response"].bool_param)


def test_answers_come_in_order(client: Any, answers: Answers) -> None:
    start(client, answers)
    client.async_stream_infer("countdown", count(50), request_id="a")
    assert take(answers, 50) == list(range(50, 0, -1))
    client.stop_stream()
    assert answers.empty()


def test_the_final_flag_and_the_empty_final_answer(client: Any, answers: Answers) -> None:
    start(client, answers)
    client.async_stream_infer("countdown", count(2), enable_empty_final_response=True)
    flags = []
    for _ in range(3):
        result, error = answers.get(timeout=30)
        assert error is None
        flags.append((len(result.get_response().outputs), is_final(result)))
    assert flags == [(2, False), (2, False), (0, True)]
    client.stop_stream()


def test_no_answer_at_all_but_the_final_one(client: Any, answers: Answers) -> None:
    start(client, answers)
    client.async_stream_infer(
        "countdown", count(0), request_id="none", enable_empty_final_response=True
    )
    result, error = answers.get(timeout=30)
    assert error is None
    assert result.get_response().id == "none"
    assert is_final(result)
    client.stop_stream()
    assert answers.empty()


def test_several_requests_share_a_stream(client: Any, answers: Answers) -> None:
    start(client, answers)
    for i in range(1, 11):
        client.async_stream_infer("countdown", count(i), request_id=str(i))
    got: dict[int, list[int]] = {}
    for _ in range(55):
        result, error = answers.get(timeout=30)
        assert error is None
        number = int(result.as_numpy("number")[0])
        got.setdefault(int(result.get_response().id), []).append(number)
    assert got == {i: list(range(i, 0, -1)) for i in range(1, 11)}
    client.stop_stream()


def test_a_model_with_one_answer_streams_as_well(client: Any, answers: Answers) -> None:
    start(client, answers)
    x = np.full((1, 4), 3, np.int32)
    tensor = grpcclient.InferInput("x", [1, 4], "INT32").set_data_from_numpy(x)
    client.async_stream_infer("square", [tensor])
    result, error = answers.get(timeout=30)
    assert error is None
    assert is_final(result)
    np.testing.assert_array_equal(result.as_numpy("y"), x**2)
    client.stop_stream()


def test_answers_come_as_they_are_made(client: Any, answers: Answers) -> None:
    start(client, answers)
    client.async_stream_infer("countdown", count(5, pause=0.2))
    began = time.monotonic()
    take(answers, 1)
    first = time.monotonic() - began
    take(answers, 4)
    assert time.monotonic() - began - first > 0.5
    client.stop_stream()


def test_an_error_in_the_middle_leaves_the_stream_open(client: Any, answers: Answers) -> None:
    start(client, answers)
    client.async_stream_infer("countdown", count(3, fail_at=2), request_id="broken")
    assert take(answers, 1) == [3]
    result, error = answers.get(timeout=30)
    assert result is None
    assert "the count broke at 2" in str(error)
    assert take(answers, 1) == [1]
    client.async_stream_infer("countdown", count(1))
    assert take(answers, 1) == [1]
    client.stop_stream()


def test_a_wrong_request_leaves_the_stream_open(client: Any, answers: Answers) -> None:
    start(client, answers)
    client.async_stream_infer("no_such_model", count(1))
    _, error = answers.get(timeout=30)
    assert "Request for unknown model: 'no_such_model' is not found" in str(error)
    client.async_stream_infer("countdown", count(1))
    assert take(answers, 1) == [1]
    client.stop_stream()


def test_the_stream_timeout_ends_the_stream(client: Any, answers: Answers) -> None:
    start(client, answers, stream_timeout=0.5)
    client.async_stream_infer("countdown", count(1000, pause=0.05))
    took = time.monotonic()
    while True:
        result, error = answers.get(timeout=30)
        if error is not None:
            break
    assert result is None
    assert error.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert time.monotonic() - took < 5
    client.stop_stream()


def test_a_stream_cancelled_in_the_middle(client: Any, server: Triton, answers: Answers) -> None:
    before = cancellations(server)
    start(client, answers)
    client.async_stream_infer("countdown", count(1000, pause=0.02))
    assert take(answers, 3) == [1000, 999, 998]
    client.stop_stream(cancel_requests=True)
    while not answers.empty():
        _, error = answers.get()
    assert "Locally cancelled by application" in str(error)
    # The model sees the cancellation, stops counting, and answers other requests.
    wait_for_a_cancellation(server, before)


def cancellations(server: Triton) -> int:
    """How many cancelled streams the model has seen; a stream with one answer tells it."""
    answers: Answers = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        start(client, answers)
        client.async_stream_infer("countdown", count(1))
        result, error = answers.get(timeout=30)
        assert error is None
        client.stop_stream()
    return int(result.as_numpy("cancelled_so_far")[0])


def wait_for_a_cancellation(server: Triton, before: int) -> None:
    wait_until(lambda: cancellations(server) > before)


PROGRAM = """
import sys, time
import numpy as np
import tritonclient.grpc as grpcclient

client = grpcclient.InferenceServerClient(sys.argv[1])
client.start_stream(lambda result, error: print(result.as_numpy("number")[0], flush=True))
inputs = []
for name, array in [("from", np.array([1000], np.int32)), ("pause", np.array([0.02], np.float32))]:
    kind = "INT32" if name == "from" else "FP32"
    inputs.append(grpcclient.InferInput(name, [1], kind).set_data_from_numpy(array))
client.async_stream_infer("countdown", inputs)
time.sleep(600)
"""


def test_a_client_killed_in_the_middle(server: Triton) -> None:
    before = cancellations(server)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.grpc_url], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "1000\n"
        program.kill()
    wait_for_a_cancellation(server, before)
    assert server.ready("countdown")


def test_a_client_has_one_stream(client: Any, answers: Answers) -> None:
    with pytest.raises(InferenceServerException, match="stream not available"):
        client.async_stream_infer("countdown", count(1))
    start(client, answers)
    with pytest.raises(InferenceServerException, match="cannot start another stream"):
        start(client, answers)
    client.stop_stream()
    start(client, answers)  # after one has ended there may be another
    client.async_stream_infer("countdown", count(1))
    assert take(answers, 1) == [1]
    client.stop_stream()


def test_a_decoupled_model_is_for_streams_only(http: Any, grpc: Any) -> None:
    number = np.array([1], np.int32)
    with pytest.raises(InferenceServerException) as caught:
        grpc.client.infer("countdown", [grpc.tensor("from", number)])
    assert caught.value.message() == (
        "ModelInfer RPC doesn't support models with decoupled transaction policy"
    )
    with pytest.raises(InferenceServerException) as caught:
        http.client.infer("countdown", [http.tensor("from", number)])
    assert caught.value.message() == (
        "HTTP end point doesn't support models with decoupled transaction policy"
    )
