"""Errors at a client with Triton's messages; time limits, priorities and cancelling.

No test requests classes (`class_count`) of a string output: over both protocols, this ends the
server of release 24.10 at once.
"""

from __future__ import annotations

import queue
import time
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as httpclient
from client_waits import wait_until
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

ONE = np.ones((1, 4), np.int32)
Answers = queue.Queue[tuple[Any, Any]]


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve("add_sub", "worker")


# -- wrong requests ------------------------------------------------------------------------------

WRONG: dict[str, tuple[str, list[tuple[str, Any]], str, str]] = {
    "unknown model": (
        "nobody",
        [("a", ONE)],
        "NOT_FOUND",
        "Request for unknown model: 'nobody' is not found",
    ),
    "unknown input": (
        "add_sub",
        [("a", ONE), ("c", ONE)],
        "INVALID_ARGUMENT",
        "unexpected inference input 'c' for model 'add_sub'",
    ),
    "missing input": (
        "add_sub",
        [("a", ONE)],
        "INVALID_ARGUMENT",
        "expected 2 inputs but got 1 inputs for model 'add_sub'. Got input(s) ['a'], but missing "
        "required input(s) ['b']. Please provide all required input(s).",
    ),
    "input given twice": (
        "add_sub",
        [("a", ONE), ("a", ONE), ("b", ONE)],
        "INVALID_ARGUMENT",
        "input 'a' already exists in request",
    ),
    "wrong shape": (
        "add_sub",
        [("a", np.ones((1, 5), np.int32)), ("b", ONE)],
        "INVALID_ARGUMENT",
        "unexpected shape for input 'a' for model 'add_sub'. Expected [-1,4], got [1,5]. NOTE: "
        "Setting a non-zero max_batch_size in the model config requires a batch dimension to be "
        "prepended to each input shape. If you want to specify the full shape including the batch "
        "dim in your input dims config, try setting max_batch_size to zero. See the model "
        "configuration docs for more info on max_batch_size.",
    ),
    "no batch dimension": (
        "add_sub",
        [("a", ONE[0]), ("b", ONE[0])],
        "INVALID_ARGUMENT",
        "for model 'add_sub'. Expected [-1,4], got [4].",
    ),
    "wrong dtype": (
        "add_sub",
        [("a", ONE.astype(np.float32)), ("b", ONE)],
        "INVALID_ARGUMENT",
        "inference input 'a' data-type is 'FP32', but model 'add_sub' expects 'INT32'",
    ),
    "batches of two sizes": (
        "add_sub",
        [("a", np.ones((2, 4), np.int32)), ("b", ONE)],
        "INVALID_ARGUMENT",
        "batch size does not match other inputs for 'add_sub'",
    ),
    "too large a batch": (
        "add_sub",
        [("a", np.ones((9, 4), np.int32)), ("b", np.ones((9, 4), np.int32))],
        "INVALID_ARGUMENT",
        "inference request batch-size must be <= 8 for 'add_sub'",
    ),
    "error of the model": (
        "add_sub",
        [("a", ONE * 333), ("b", ONE * 333)],
        "INTERNAL",
        "666 is not a sum",
    ),
    "exception in the model": (
        "add_sub",
        [("a", ONE * 499), ("b", ONE * 499)],
        "INTERNAL",
        "Failed to process the request(s) for model 'add_sub_0_0', message: ValueError: 998 is too "
        "much",
    ),
}
HTTP = {"NOT_FOUND": "404", "INVALID_ARGUMENT": "400", "INTERNAL": "500"}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests(protocol: Any, case: str) -> None:
    model, tensors, code, words = WRONG[case]
    inputs = [protocol.tensor(name, array) for name, array in tensors]
    with pytest.raises(InferenceServerException) as caught:
        protocol.client.infer(model, inputs)
    assert words in caught.value.message()
    expected = HTTP[code] if protocol.name == "http" else f"StatusCode.{code}"
    assert caught.value.status() == expected


def test_unknown_output(protocol: Any) -> None:
    inputs = [protocol.tensor("a", ONE), protocol.tensor("b", ONE)]
    outputs = [protocol.api.InferRequestedOutput("product")]
    with pytest.raises(InferenceServerException, match="unexpected inference output 'product' for"):
        protocol.client.infer("add_sub", inputs, outputs=outputs)


def test_unknown_version(protocol: Any) -> None:
    inputs = [protocol.tensor("a", ONE), protocol.tensor("b", ONE)]
    with pytest.raises(InferenceServerException, match="'add_sub' version 3 is not found"):
        protocol.client.infer("add_sub", inputs, model_version="3")


def test_the_client_checks_what_it_packs(protocol: Any) -> None:
    tensor = protocol.api.InferInput("a", [1, 4], "INT32")
    with pytest.raises(InferenceServerException, match="got unexpected numpy array shape"):
        tensor.set_data_from_numpy(np.ones((2, 4), np.int32))
    with pytest.raises(InferenceServerException, match=r"got unexpected datatype FP32 .* INT32"):
        tensor.set_data_from_numpy(np.ones((1, 4), np.float32))


def tensors(**changes: Any) -> dict[str, Any]:
    """An inference request in JSON whose first input has these changes."""
    a = {"name": "a", "shape": [1, 4], "datatype": "INT32", "data": [1, 2, 3, 4]}
    return {"inputs": [{**a, **changes}, {**a, "name": "b"}]}


BROKEN: list[tuple[dict[str, Any], int, str]] = [
    ({"content": b'{"inputs": ['}, 500, "failed to parse the request JSON buffer"),
    ({"content": b"{}"}, 500, "attempt to access non-existing object member 'inputs'"),
    ({"content": b""}, 400, "Raw request must only have 1 input"),
    ({"json": tensors(data=[1, 2])}, 500, "Shape does not match true shape of 'data' field"),
    ({"json": tensors(data=["x"] * 4)}, 500, "JSON non-signed-integer as signed-integer"),
    ({"json": tensors(shape=[-1, 4])}, 500, "JSON non-unsigned-integer as unsigned-integer"),
    ({"json": tensors(datatype="INT33")}, 400, "invalid datatype for input a"),
    (
        {"content": b"{}", "headers": {"Inference-Header-Content-Length": "100"}},
        400,
        "inference header size should be in range (0, 2), got: 100",
    ),
    (
        {"content": b"{}", "headers": {"Content-Encoding": "br"}},
        501,
        "Unsupported compression type",
    ),
]


@pytest.mark.parametrize(("request_", "status", "words"), BROKEN)
def test_broken_bodies(server: Triton, request_: dict[str, Any], status: int, words: str) -> None:
    answer = httpx.post(f"{server.url}/v2/models/add_sub/infer", **request_)
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_a_body_that_is_not_compressed_as_it_says(server: Triton) -> None:
    url = f"{server.url}/v2/models/add_sub/infer"
    answer = httpx.post(url, content=b"no gzip", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 400
    assert server.live()


def test_addresses_and_methods_that_do_not_exist(server: Triton) -> None:
    assert httpx.get(f"{server.url}/v2/no/such/path").status_code == 404
    assert httpx.get(f"{server.url}/v2/models/add_sub/infer").status_code == 405


def test_a_server_that_is_not_there(protocol: Any) -> None:
    error = ConnectionRefusedError if protocol.name == "http" else InferenceServerException
    with (
        protocol.api.InferenceServerClient("localhost:1") as client,
        pytest.raises(error, match="Connection refused"),
    ):
        client.get_server_metadata()


# -- time limits, priorities, cancelling ---------------------------------------------------------


def work(protocol: Any, seconds: float) -> list[Any]:
    return [protocol.tensor("seconds", np.array([[seconds]], np.float32))]


def cancelled(grpc: Any) -> int:
    result = grpc.client.infer("worker", work(grpc, 0), client_timeout=30)
    return int(result.as_numpy("cancelled_so_far")[0, 0])


def pending(server: Triton) -> int:
    """How many requests wait for the worker."""
    (line,) = [
        line
        for line in server.metrics().splitlines()
        if line.startswith('nv_inference_pending_request_count{model="worker"')
    ]
    return int(line.split()[-1])


def test_the_clients_time_limit_over_grpc(grpc: Any) -> None:
    before = cancelled(grpc)
    began = time.monotonic()
    with pytest.raises(InferenceServerException) as caught:
        grpc.client.infer("worker", work(grpc, 20), client_timeout=1.0)
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert time.monotonic() - began < 5
    assert cancelled(grpc) == before + 1  # the model was told to stop


def test_the_clients_time_limit_over_http(server: Triton, grpc: Any) -> None:
    """A client that hangs up over HTTP is not a cancellation: the model works to the end."""
    before = cancelled(grpc)
    address = server.url.removeprefix("http://")
    with httpclient.InferenceServerClient(address, network_timeout=0.3) as client:
        tensor = httpclient.InferInput("seconds", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
        with pytest.raises(TimeoutError):
            client.infer("worker", [tensor])
    assert cancelled(grpc) == before


def test_cancelling_a_request_that_runs(grpc: Any) -> None:
    before = cancelled(grpc)
    done: Answers = queue.Queue()
    call = grpc.client.async_infer(
        "worker", work(grpc, 20), lambda result, error: done.put((result, error))
    )
    time.sleep(1.0)
    call.cancel()
    result, error = done.get(timeout=10)
    assert result is None
    assert error.status() == "StatusCode.CANCELLED"
    assert error.message() == "Locally cancelled by application!"
    assert cancelled(grpc) == before + 1


def test_cancelling_a_request_that_waits(grpc: Any, server: Triton) -> None:
    """It never reaches the model, and the requests behind it are served."""
    before = cancelled(grpc)
    done: Answers = queue.Queue()

    def send(seconds: float) -> Any:
        return grpc.client.async_infer(
            "worker", work(grpc, seconds), lambda result, error: done.put((result, error))
        )

    send(1.0)
    time.sleep(0.2)
    waiting = send(20)
    wait_until(lambda: pending(server) == 1)
    send(0)
    wait_until(lambda: pending(server) == 2)
    waiting.cancel()
    outcomes = [done.get(timeout=15) for _ in range(3)]
    assert sum(error is not None for _, error in outcomes) == 1
    assert cancelled(grpc) == before


def test_a_request_that_waits_too_long(protocol: Any, grpc: Any, server: Triton) -> None:
    """`timeout` is in microseconds, and limits the time in the queue."""
    done: Answers = queue.Queue()
    grpc.client.async_infer(
        "worker", work(grpc, 1.0), lambda result, error: done.put((result, error))
    )
    time.sleep(0.2)
    with pytest.raises(InferenceServerException, match="Request timeout expired"):
        protocol.client.infer("worker", work(protocol, 0), timeout=100_000)
    _, error = done.get(timeout=15)
    assert error is None


def test_priority_goes_before_order(grpc: Any, server: Triton) -> None:
    done: Answers = queue.Queue()

    def send(name: str, seconds: float, priority: int) -> None:
        grpc.client.async_infer(
            "worker",
            work(grpc, seconds),
            lambda result, error: done.put((result, error)),
            request_id=name,
            priority=priority,
        )

    send("running", 1.0, 2)
    time.sleep(0.2)
    send("first", 0, 2)
    wait_until(lambda: pending(server) == 1)
    send("second", 0, 2)
    wait_until(lambda: pending(server) == 2)
    send("urgent", 0, 1)
    places = {}
    for _ in range(4):
        result, error = done.get(timeout=15)
        assert error is None
        places[result.get_response().id] = int(result.as_numpy("place")[0, 0])
    assert sorted(places, key=lambda name: places[name]) == ["running", "urgent", "first", "second"]
