"""Sequences: state that stays with a correlation id, under both schedulers and both protocols.

Correlation ids are numbers or strings. A model that has the id as a control input (`total_direct`,
TYPE_UINT64) takes numbers only; a model that calls `request.correlation_id()` (`total_oldest`)
takes both. Limits of the server's release 24.10, which no client can get around:

- If the CORRID control is a number, a string id is written over the number's eight bytes and
  beyond: a long id ends the whole server. No test sends one.
- A CORRID control of TYPE_STRING is handed over in a block of 128 characters, which the Python
  backend refuses unless the id fills it (`test_a_control_of_strings_wants_128_characters`).
"""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

MODELS = ["total_direct", "total_oldest"]
#: Functions that make ids of the kind that the model takes.
IDS = {"total_direct": lambda i: 1000 + i, "total_oldest": lambda i: f"sequence-{i}"}
VALUES = [11, 7, 5, 3, 2, 0, 1]


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve(*MODELS, "total_named")


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return request.param


def send(protocol: Any, model: str, sequence: int | str, value: int, **flags: bool) -> Any:
    x = protocol.tensor("value", np.array([[value]], np.int32))
    return protocol.client.infer(
        model,
        [x],
        sequence_id=sequence,
        sequence_start=flags.get("start", False),
        sequence_end=flags.get("end", False),
    )


def total(result: Any) -> int:
    return int(result.as_numpy("total")[0, 0])


def run(protocol: Any, model: str, sequence: int | str, values: list[int]) -> list[int]:
    """Send a whole sequence, one request after the other, and return the running totals."""
    last = len(values) - 1
    return [
        total(send(protocol, model, sequence, v, start=i == 0, end=i == last))
        for i, v in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("model", "sequence"),
    [
        ("total_direct", 1),
        ("total_direct", 2**63 - 1),
        ("total_oldest", 1),
        ("total_oldest", "the-first-one"),
        ("total_oldest", "x" * 128),
    ],
)
def test_a_sequence_from_start_to_end(protocol: Any, model: str, sequence: int | str) -> None:
    assert run(protocol, model, sequence, VALUES) == np.cumsum(VALUES).tolist()


@pytest.mark.parametrize(
    ("model", "sequence"),
    [("total_direct", 77), ("total_oldest", 77), ("total_oldest", "seventy-seven")],
)
def test_the_correlation_id_reaches_the_model(
    protocol: Any, model: str, sequence: int | str
) -> None:
    result = send(protocol, model, sequence, 1, start=True, end=True)
    assert result.as_numpy("who")[0, 0].decode() == str(sequence)


def test_ids_above_63_bits_go_over_http_only(http: Any, grpc: Any, model: str) -> None:
    """The gRPC message has a signed field for them; HTTP's JSON has room for 64 bits."""
    for sequence in (2**63, 2**64 - 1):
        result = send(http, model, sequence, 1, start=True, end=True)
        assert result.as_numpy("who")[0, 0].decode() == str(sequence)
        with pytest.raises(ValueError, match="out of range"):
            send(grpc, model, sequence, 1, start=True, end=True)


def test_ids_above_128_characters(protocol: Any) -> None:
    with pytest.raises(InferenceServerException, match="cannot be longer than 128 characters"):
        send(protocol, "total_oldest", "x" * 129, 1, start=True, end=True)


def test_a_control_of_strings_wants_128_characters(protocol: Any) -> None:
    """See this module's docstring: a limit of the server's release."""
    long = "y" * 128
    result = send(protocol, "total_named", long, 1, start=True, end=True)
    assert result.as_numpy("who")[0, 0].decode() == long
    with pytest.raises(InferenceServerException, match=r"number of string elements 2 .* 'CORRID'"):
        send(protocol, "total_named", "short", 1, start=True, end=True)


def test_interleaved_sequences_do_not_mix(protocol: Any, model: str) -> None:
    sums = {IDS[model](i): 0 for i in range(3)}
    for i, value in enumerate(VALUES):
        for place, sequence in enumerate(sums, 1):
            sums[sequence] += value * place
            result = send(
                protocol,
                model,
                sequence,
                value * place,
                start=i == 0,
                end=i == len(VALUES) - 1,
            )
            assert total(result) == sums[sequence]


def test_the_same_id_may_start_again(protocol: Any, model: str) -> None:
    same = IDS[model](5)
    send(protocol, model, same, 100, start=True)
    assert total(send(protocol, model, same, 1, start=True)) == 1
    assert total(send(protocol, model, same, 1, end=True)) == 2
    assert run(protocol, model, same, [3, 4]) == [3, 7]


def test_more_sequences_than_slots_wait_their_turn(server: Triton, model: str) -> None:
    """Four slots (one instance, max_batch_size 4) and twelve sequences at a time."""

    def work(number: int) -> list[int]:
        with grpcclient.InferenceServerClient(server.grpc_url) as client:
            sums = []
            for i in range(5):
                x = grpcclient.InferInput("value", [1, 1], "INT32")
                x.set_data_from_numpy(np.array([[number]], np.int32))
                result = client.infer(
                    model,
                    [x],
                    sequence_id=IDS[model](number),
                    sequence_start=i == 0,
                    sequence_end=i == 4,
                    client_timeout=60,
                )
                sums.append(total(result))
        return sums

    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(work, range(1, 13)))
    assert results == [[n * i for i in range(1, 6)] for n in range(1, 13)]


def test_a_sequence_over_a_stream(server: Triton, model: str) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    plus, minus = IDS[model](1), IDS[model](2)
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for i, value in enumerate(VALUES):
            for sequence, sign in ((plus, 1), (minus, -1)):
                x = grpcclient.InferInput("value", [1, 1], "INT32")
                x.set_data_from_numpy(np.array([[sign * value]], np.int32))
                client.async_stream_infer(
                    model,
                    [x],
                    request_id=f"{sequence}_{i}",
                    sequence_id=sequence,
                    sequence_start=i == 0,
                    sequence_end=i == len(VALUES) - 1,
                )
        got: dict[str, list[int]] = {str(plus): [], str(minus): []}
        for _ in range(2 * len(VALUES)):
            result, error = answers.get(timeout=30)
            assert error is None
            sequence, place = result.get_response().id.split("_")
            assert int(place) == len(got[sequence])  # a sequence keeps its order
            got[sequence].append(total(result))
        client.stop_stream()
    sums = np.cumsum(VALUES)
    assert got == {str(plus): sums.tolist(), str(minus): (-sums).tolist()}


def test_a_missing_start(protocol: Any, model: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        send(protocol, model, 4711, 1)
    assert caught.value.message() == (
        f"inference request for sequence 4711 to model '{model}' must specify the START flag on "
        "the first request of the sequence"
    )


def test_a_request_after_the_end(protocol: Any, model: str) -> None:
    over = IDS[model](9)
    run(protocol, model, over, [1, 2])
    with pytest.raises(InferenceServerException, match=f"sequence {over} .* specify the START"):
        send(protocol, model, over, 3)


def test_a_request_without_a_correlation_id(protocol: Any, model: str) -> None:
    with pytest.raises(InferenceServerException, match="must specify a non-zero or non-empty corr"):
        send(protocol, model, 0, 1, start=True)


def test_a_larger_batch_than_one(protocol: Any, model: str) -> None:
    x = protocol.tensor("value", np.zeros((2, 1), np.int32))
    with pytest.raises(InferenceServerException, match="must specify batch-size 1"):
        protocol.client.infer(model, [x], sequence_id=8, sequence_start=True, sequence_end=True)
