"""Asking a language model, over each protocol, with the official clients."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from workbook.server import Triton

PROMPT = 'The "with" statement is used to wrap'


class Answer(NamedTuple):
    text: str
    tokens: list[int]
    reason: str


def inputs(api: Any, prompt: str | bytes, rows: bool, stream: bool | None, given: Any) -> list[Any]:
    """The input tensors; `given` are sampling parameters, or text that is sent as it is."""
    shape = [1, 1] if rows else [1]
    text = given if isinstance(given, str) else json.dumps(given)
    made = []
    for name, value in (("text_input", prompt), ("sampling_parameters", text)):
        data = value if isinstance(value, bytes) else value.encode()
        tensor = api.InferInput(name, shape, "BYTES")
        made.append(tensor.set_data_from_numpy(np.array([data], object).reshape(shape)))
    if stream is not None:
        tensor = api.InferInput("stream", [1], "BOOL")
        made.append(tensor.set_data_from_numpy(np.array([stream])))
    return made


def over_grpc(server: Triton, model: str, prompt: str | bytes, given: Any) -> Answer:
    with server.grpc_client() as client:
        return _answer(client.infer(model, inputs(grpcclient, prompt, True, None, given)))


def over_http(server: Triton, model: str, prompt: str | bytes, given: Any) -> Answer:
    with server.http_client() as client:
        return _answer(client.infer(model, inputs(httpclient, prompt, True, None, given)))


def over_generate(server: Triton, model: str, prompt: str, given: Any) -> Answer:
    text = given if isinstance(given, str) else json.dumps(given)
    body = {"text_input": prompt, "sampling_parameters": text}
    answer = httpx.post(f"{server.url}/v2/models/{model}/generate", json=body, timeout=60).json()
    if "error" in answer:
        raise RuntimeError(answer["error"])
    tokens = answer["token_ids"]
    tokens = tokens if isinstance(tokens, list) else [tokens]
    return Answer(answer["text_output"], tokens, answer["finish_reason"])


def over_grpc_stream(server: Triton, model: str, prompt: str | bytes, given: Any) -> Answer:
    """All pieces of a stream put together."""
    pieces = list(grpc_pieces(server, model, prompt, given))
    tokens = [token for piece in pieces for token in piece.tokens]
    return Answer("".join(piece.text for piece in pieces), tokens, pieces[-1].reason)


def over_events(server: Triton, model: str, prompt: str, given: Any) -> Answer:
    """All server-sent events of generate_stream put together."""
    text, tokens, reason = "", [], ""
    for event in events(server, model, prompt, given):
        text += event["text_output"]
        here = event.get("token_ids", [])
        tokens += here if isinstance(here, list) else [here]
        reason = event.get("finish_reason", "")
    return Answer(text, tokens, reason)


def events(server: Triton, model: str, prompt: str, given: Any) -> Iterator[dict[str, Any]]:
    text = given if isinstance(given, str) else json.dumps(given)
    body = {"text_input": prompt, "sampling_parameters": text, "stream": True}
    url = f"{server.url}/v2/models/{model}/generate_stream"
    with httpx.stream("POST", url, json=body, timeout=60) as answer:
        for line in answer.iter_lines():
            if line:
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise RuntimeError(event["error"])
                yield event


def grpc_pieces(
    server: Triton, model: str, prompt: str | bytes, given: Any, *, stream: bool = True
) -> Iterator[Answer]:
    """The answers of a decoupled model in the order in which they come."""
    got: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with server.grpc_client() as client:
        client.start_stream(lambda result, error: got.put((result, error)))
        client.async_stream_infer(
            model,
            inputs(grpcclient, prompt, False, stream, given),
            enable_empty_final_response=True,
        )
        while True:
            result, error = got.get(timeout=60)
            if error is not None:
                raise error
            response = result.get_response()
            if response.outputs:
                yield _answer(result)
            if response.parameters["triton_final_response"].bool_param:
                break
        client.stop_stream()


def _answer(result: Any) -> Answer:
    text, tokens, reason = (
        result.as_numpy(name) for name in ("text_output", "token_ids", "finish_reason")
    )
    return Answer(
        text.ravel()[0].decode(),
        [] if tokens is None else tokens.ravel().tolist(),
        "" if reason is None else reason.ravel()[0].decode(),
    )
