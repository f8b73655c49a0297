"""A client for the notebook of a6__llm: it asks the models, whole or piece by piece.

Students get this file. Checks do not use it: they ask through their probe.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from grader.vocabulary import requests as form
from grader.vocabulary.probe import Array
from workbook.common.errors import WorkbookError
from workbook.server import Server, connect
from workbook.server.explain import explain

from . import facts
from .answers import LOOPS

#: The most tokens of the answer to each of the eight clients of `tokens_per_second`.
LENGTHS = (16, 96, 24, 64, 16, 80, 32, 48)
#: The most seconds that an answer, or the next piece of an answer, may take.
_PATIENCE = 60.0


def infer(model: str, inputs: dict[str, Array], outputs: Sequence[str]) -> list[Array]:
    """Send one request to a model that answers once; returns its outputs, in this order.

    Raises:
        WorkbookError: the server refuses the request, with the server's message; the model answers
            with a stream, or does not answer; the arrays of a step do not fit together.
    """
    if model in (facts.STREAM, facts.VLLM):
        raise WorkbookError(
            f"{model} answers with a stream.",
            todo=f"stream({model}, prompt) asks it, for one prompt at a time.",
        )
    if model == facts.STEP:
        _require_width(inputs)
    with connect() as server, server.grpc_client() as client:
        ((_, answer),) = _results(server, client, model, inputs, outputs)
        return [answer.as_numpy(name) for name in outputs]


def _results(
    server: Server,
    client: InferenceServerClient,
    model: str,
    inputs: dict[str, Array],
    outputs: Sequence[str] = (),
) -> Iterator[tuple[float, Any]]:
    """The responses to one request as they come, each with the time: several if it is a stream."""
    late = WorkbookError(
        f"{model} did not answer within {_PATIENCE:.0f} s.", todo=LOOPS.format(model)
    )
    tensors, names = form.tensors(inputs), form.wanted(outputs)
    if model not in (facts.STREAM, facts.VLLM):
        try:
            result = client.infer(model, tensors, outputs=names, client_timeout=_PATIENCE)
        except InferenceServerException as error:
            if error.status() == "StatusCode.DEADLINE_EXCEEDED":
                raise late from None
            raise explain(error, server, model) from None
        yield time.monotonic(), result
        return
    came: queue.Queue[tuple[float, Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: came.put((time.monotonic(), result, error)))
    client.async_stream_infer(model, tensors, outputs=names, enable_empty_final_response=True)
    is_last = False
    while not is_last:
        try:
            when, result, problem = came.get(timeout=_PATIENCE)
        except queue.Empty:
            raise late from None
        if problem is not None:
            raise explain(_as_raised(model, problem), server, model)
        response = result.get_response()
        is_last = response.parameters["triton_final_response"].bool_param
        if response.outputs:
            yield when, result


def _require_width(inputs: dict[str, Array]) -> None:
    """Fail unless the mask of a step has a column for each of the cache and for each new token.

    The network adds the mask to its scores, so a mask of one column would be taken for all.
    """
    names = "input_ids", "attention_mask", "past"
    ids, mask, past = (np.shape(inputs.get(name, ())) for name in names)
    if (len(ids), len(mask), len(past)) == (2, 2, 5) and mask[1] != past[3] + ids[1]:
        raise WorkbookError(
            f"attention_mask has {mask[1]} column(s). past has {past[3]}, and input_ids {ids[1]}, "
            f"so the mask should have {past[3] + ids[1]}.",
            where=f"the request to {facts.STEP}",
            todo="The mask has first a column for each one of past, the empty one too, then one "
            "for each new token.",
        )


def texts(model: str, prompts: Sequence[str], **wanted: Any) -> list[str]:
    """The texts that `chat` answers to prompts, sent as one request.

    Example::

        texts("chat", ["A list", "A class"], temperature=0, max_tokens=8)

    Args:
        model: the model's name.
        prompts: at most 8.
        wanted: sampling parameters, the same for all rows.
    """
    (answers,) = infer(model, facts.request(prompts, **wanted), ["text_output"])
    return [text.decode() for text in answers.ravel()]


def stream(model: str, prompt: str, **wanted: Any) -> Iterator[tuple[float, str]]:
    """The pieces of one answer as they come, each with the seconds since the request was sent.

    Raises:
        WorkbookError: the model refuses the request, with its message; it answers once, or the next
            piece does not come.
    """
    if model == facts.CHAT:
        raise WorkbookError(
            f"{model} answers once, with the whole text.",
            todo=f"texts({model}, [prompt]) asks it. stream is for {facts.STREAM} and "
            f"{facts.VLLM}.",
        )
    inputs = facts.single(prompt, **wanted)
    if model == facts.VLLM:  # unlike ours it sends pieces only where it is asked to
        inputs |= {"stream": np.array([True]), "exclude_input_in_output": np.array([True])}
    with connect() as server, server.grpc_client() as client:
        began = time.monotonic()
        for when, result in _results(server, client, model, inputs):
            yield when - began, result.as_numpy("text_output").ravel()[0].decode()


def _as_raised(model: str, error: Any) -> str:
    """The message of a stream's error, in Triton's form where `attend` has described an exception.

    So it is explained like an exception of a model without a stream.
    """
    message = str(error.message())
    if "\nAt:\n" not in message:
        return message
    return f"Failed to process the request(s) for model '{model}_0', message: {message}"


def tokens_per_second(model: str, prompts: Sequence[str], clients: int = 8) -> float:
    """How many tokens a model makes per second when several clients ask it at once.

    Their answers have at most 16 to 96 tokens, at temperature 1.

    Args:
        model: `chat`, `chat_stream` or `chat_vllm`.
        prompts: one for each client.
        clients: at most 8.
    """
    requests = [
        _long_request(model, prompt, count)
        for prompt, count in zip(prompts[:clients], LENGTHS, strict=False)
    ]
    with (
        connect() as server,
        contextlib.ExitStack() as stack,
        ThreadPoolExecutor(len(requests)) as pool,
    ):
        connections = [stack.enter_context(server.grpc_client()) for _ in requests]

        def count_tokens(client: InferenceServerClient, inputs: dict[str, Array]) -> int:
            return sum(_tokens(result) for _, result in _results(server, client, model, inputs))

        began = time.monotonic()
        made = sum(pool.map(count_tokens, connections, requests))
        return made / (time.monotonic() - began)


def _long_request(model: str, prompt: str, count: int) -> dict[str, Array]:
    """The inputs for an answer of at most `count` tokens, at temperature 1, in the model's form."""
    wanted: dict[str, Any] = {"temperature": 1.0, "seed": count, "max_tokens": count}
    if model == facts.CHAT:
        return facts.request([prompt], **wanted)
    inputs = facts.single(prompt, **wanted)
    if model == facts.VLLM:
        inputs |= {"return_num_output_tokens": np.array([True])}
    return inputs


def _tokens(result: Any) -> int:
    """The number of tokens in a response."""
    counted = result.as_numpy("num_output_tokens")
    if counted is not None:
        return int(counted.ravel()[0])
    return int((result.as_numpy("token_ids") != facts.FILLED).sum())
