"""Send requests to a language model, over each protocol, with the official clients."""

from __future__ import annotations

import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

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


def as_text(given: Any) -> str:
    """Sampling parameters as they are sent: JSON, or text as it is."""
    return given if isinstance(given, str) else json.dumps(given)


def inputs(api: Any, prompt: str | bytes, rows: bool, stream: bool | None, given: Any) -> list[Any]:
    """The input tensors; `given` are sampling parameters, or text that is sent as it is."""
    shape = [1, 1] if rows else [1]
    text = as_text(given)
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
    body = {"text_input": prompt, "sampling_parameters": as_text(given)}
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
    body = {"text_input": prompt, "sampling_parameters": as_text(given), "stream": True}
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


def cancel_many(server: Triton, model: str, number: int, given: Any) -> None:
    """Send `number` requests at once, and cancel them all while the model computes them."""
    with server.grpc_client() as client:
        if server.config(model).get("model_transaction_policy", {}).get("decoupled"):
            first = threading.Event()
            client.start_stream(lambda result, error: first.set())
            tensors = inputs(grpcclient, PROMPT, False, True, given)
            for name in range(number):
                client.async_stream_infer(model, tensors, request_id=str(name))
            assert first.wait(60)
            client.stop_stream(cancel_requests=True)
        else:
            tensors = inputs(grpcclient, PROMPT, True, None, given)
            calls = [
                client.async_infer(model, tensors, lambda result, error: None)
                for _ in range(number)
            ]
            time.sleep(0.1)  # some are computed by then, some wait: both kinds may be cancelled
            for call in calls:
                call.cancel()


def hang_up(server: Triton, model: str, body: dict[str, Any], road: str, seconds: float) -> None:
    """Send a whole request over HTTP, and break the connection off after some seconds."""
    content = json.dumps(body).encode()
    address = urlsplit(server.url)
    head = f"POST /v2/models/{model}/{road} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}"
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode() + content)
        time.sleep(seconds)
        # Reset the connection when it is closed, as the kernel does for a killed client.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _answer(result: Any) -> Answer:
    text, tokens, reason = (
        result.as_numpy(name) for name in ("text_output", "token_ids", "finish_reason")
    )
    return Answer(
        text.ravel()[0].decode(),
        [] if tokens is None else tokens.ravel().tolist(),
        "" if reason is None else reason.ravel()[0].decode(),
    )
