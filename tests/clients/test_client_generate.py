"""The generate endpoints on a decoupled text model: one answer, or server-sent events."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve("words", "greet")


def generate(server: Triton, body: Any, *, stream: bool = False, **options: Any) -> httpx.Response:
    path = "generate_stream" if stream else "generate"
    return httpx.post(f"{server.url}/v2/models/words/{path}", json=body, **options)


def events(server: Triton, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The JSON of every event of a stream, as an SSE client reads them."""
    url = f"{server.url}/v2/models/words/generate_stream"
    with httpx.stream("POST", url, json=body) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_generate(server: Triton) -> None:
    answer = generate(server, {"text_input": "to be or not", "stream": False})
    assert answer.status_code == 200
    assert answer.json() == {
        "model_name": "words",
        "model_version": "1",
        "place": 0,
        "text_output": "to be or not",
    }


def test_generate_of_one_version(server: Triton) -> None:
    url = f"{server.url}/v2/models/words/versions/1/generate"
    assert httpx.post(url, json={"text_input": "yes"}).json()["text_output"] == "yes"


def test_generate_stream(server: Triton) -> None:
    got = events(server, {"text_input": "to be or not", "stream": True})
    assert [e["text_output"] for e in got] == ["to", "be", "or", "not"]
    assert [e["place"] for e in got] == [0, 1, 2, 3]


def test_other_inputs_and_parameters_of_a_request(server: Triton) -> None:
    body = {"text_input": "a b c d", "limit": 3, "parameters": {"join": "-"}}
    assert generate(server, body).json()["text_output"] == "a-b-c"
    # A field that is no input of the model becomes a parameter.
    body = {"text_input": "a b c d", "join": "+"}
    assert generate(server, body).json()["text_output"] == "a+b+c+d"


def test_the_id_comes_back(server: Triton) -> None:
    assert generate(server, {"text_input": "x", "id": "42"}).json()["id"] == "42"


def test_generate_wants_one_answer(server: Triton) -> None:
    """The status is 200, since the first answer was a good one (24.10): look for `error`."""
    answer = generate(server, {"text_input": "two words", "stream": True})
    assert answer.status_code == 200
    assert answer.json()["error"] == (
        "generate expects model to produce exactly 1 response, use generate stream for model "
        "that generates various number of responses"
    )


def test_a_stream_of_no_words_is_empty(server: Triton) -> None:
    assert events(server, {"text_input": "", "stream": True}) == []


def test_errors_of_the_model(server: Triton) -> None:
    answer = generate(server, {"text_input": "fail"})
    assert (answer.status_code, answer.json()) == (400, {"error": "these words are not said"})
    assert events(server, {"text_input": "fail", "stream": True}) == [
        {"error": "these words are not said"}
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "missing required input(s) ['text_input']"),
        ([], 500, "attempt to get members for non-object"),
        ({"text_input": 3}, 500, "attempt to access JSON non-string as string"),
        ({"text_input": "x", "limit": "three"}, 500, "JSON non-signed-integer as signed-integer"),
    ],
)
def test_wrong_requests(server: Triton, stream: bool, body: Any, status: int, words: str) -> None:
    answer = generate(server, body, stream=stream)
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_wrong_addresses(server: Triton) -> None:
    answer = httpx.post(f"{server.url}/v2/models/nobody/generate", json={"text_input": "x"})
    assert answer.status_code == 404
    assert answer.json() == {"error": "Request for unknown model: 'nobody' is not found"}
    assert httpx.get(f"{server.url}/v2/models/words/generate").status_code == 405


@pytest.mark.parametrize("name", ["Ada", ["Ada"]])
def test_a_model_that_is_not_decoupled(server: Triton, name: Any) -> None:
    """Strings and lists do for its [1, 1] tensor, and the optional input may be left out."""
    url = f"{server.url}/v2/models/greet/generate"
    answer = httpx.post(url, json={"name": name})
    assert answer.json() == {"model_name": "greet", "model_version": "1", "text": "Hello, Ada!"}


def test_a_reader_that_goes_away_leaves_the_server_well(server: Triton) -> None:
    url = f"{server.url}/v2/models/words/generate_stream"
    with httpx.stream("POST", url, json={"text_input": "w " * 20_000, "stream": True}) as answer:
        next(answer.iter_lines())
    began = time.monotonic()
    assert generate(server, {"text_input": "still here"}, timeout=30).status_code == 200
    assert time.monotonic() - began < 10
