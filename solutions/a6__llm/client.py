"""A client for the notebook of a6__llm: it asks the models, whole or piece by piece.

Students get this file. Checks do not use it: they ask through their probe.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from grader.vocabulary import requests as form
from grader.vocabulary.probe import Array
from workbook.common.errors import WorkbookError
from workbook.server import connect
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
        try:
            answer = client.infer(
                model,
                form.tensors(inputs),
                outputs=form.wanted(outputs),
                client_timeout=_PATIENCE,
            )
        except InferenceServerException as error:
            if error.status() == "StatusCode.DEADLINE_EXCEEDED":
                raise _late(model) from None
            raise explain(error, server, model) from None
        return [answer.as_numpy(name) for name in outputs]


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


def _late(model: str) -> WorkbookError:
    return WorkbookError(
        f"{model} did not answer within {_PATIENCE:.0f} s.",
        todo=LOOPS.format(model),
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
    came: queue.Queue[tuple[float, Any, Any]] = queue.Queue()
    with connect() as server, server.grpc_client() as client:
        client.start_stream(lambda result, error: came.put((time.monotonic(), result, error)))
        began = time.monotonic()
        client.async_stream_infer(model, form.tensors(inputs), enable_empty_final_response=True)
        is_last = False
        while not is_last:
            try:
                when, result, error = came.get(timeout=_PATIENCE)
            except queue.Empty:
                raise _late(model) from None
            if error is not None:
                raise explain(_as_raised(model, error), server, model)
            response = result.get_response()
            is_last = response.parameters["triton_final_response"].bool_param
            if response.outputs:
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
    requests = list(zip(prompts, LENGTHS, strict=False))[:clients]
    done: queue.Queue[tuple[int, Any]] = queue.Queue()
    with connect() as server:
        connections = [server.grpc_client() for _ in requests]
        try:
            began = time.monotonic()
            for connection, (prompt, count) in zip(connections, requests, strict=True):
                _send(connection, model, prompt, count, done)
            made = 0
            for _ in requests:
                try:
                    count, error = done.get(timeout=2 * _PATIENCE)
                except queue.Empty:
                    raise _late(model) from None
                if error is not None:
                    raise explain(error, server, model)
                made += count
            return made / (time.monotonic() - began)
        finally:
            for connection in connections:
                connection.close()


def _send(
    client: grpc.InferenceServerClient,
    model: str,
    prompt: str,
    count: int,
    done: queue.Queue[tuple[int, Any]],
) -> None:
    """Send one request; puts the number of its tokens into `done` when the answer has ended."""
    inputs = long_request(model, prompt, count)
    if model == facts.CHAT:
        client.async_infer(
            model,
            form.tensors(inputs),
            lambda result, error: done.put(_count_tokens(result, error)),
        )
        return
    made = [0]

    def hear(result: Any, error: Any) -> None:
        if error is not None:
            done.put((0, error))
            return
        response = result.get_response()
        made[0] += _count_tokens(result, None)[0] if response.outputs else 0
        if response.parameters["triton_final_response"].bool_param:
            done.put((made[0], None))

    client.start_stream(hear)
    client.async_stream_infer(model, form.tensors(inputs), enable_empty_final_response=True)


def long_request(model: str, prompt: str, count: int) -> dict[str, Array]:
    """The inputs for an answer of at most `count` tokens, at temperature 1, in the model's form."""
    wanted: dict[str, Any] = {"temperature": 1.0, "seed": count, "max_tokens": count}
    if model == facts.CHAT:
        return facts.request([prompt], **wanted)
    inputs = facts.single(prompt, **wanted)
    if model == facts.VLLM:
        inputs |= {"return_num_output_tokens": np.array([True])}
    return inputs


def _count_tokens(result: Any, error: Any) -> tuple[int, Any]:
    """The number of tokens in a response."""
    if error is not None:
        return 0, error
    counted = result.as_numpy("num_output_tokens")
    if counted is not None:
        return int(counted.ravel()[0]), None
    return int((result.as_numpy("token_ids") != facts.FILLED).sum()), None
