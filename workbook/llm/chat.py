"""Ask a language model of a running server, and receive its answer piece by piece.

A language model takes the inputs `text_input` and `sampling_parameters`. A decoupled one sends each
token as soon as it is made. A chat is turned into a prompt by the chat template of the model's
tokenizer, which is in the model's folder.

    messages = [{"role": "user", "content": "What is a coroutine?"}]
    text = chat.prompt(server, "llama_stream", messages)
    for piece in chat.stream(server, "llama_stream", text, {"max_tokens": 64}):
        print(piece["text_output"], end="")
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx

from .. import zoo
from ..common.errors import RequestError, ServerError, WorkbookError
from ..server import Server, restart_progress
from . import tokenizer
from .tokenizer import Turn

#: The longest answer in tokens, where a request gives no length.
MAX_TOKENS = 256
#: The input of vLLM's backend that asks for the tokens' log probabilities.
LOGPROBS = "return_logprobs"
#: Errors that the request did not cause: the model is not there or busy for now, or it failed.
_FAULTS = (
    (
        HTTPStatus.SERVICE_UNAVAILABLE,
        re.compile(
            r"Exceeds maximum queue size|timeout expired|is not healthy|the process of model|"
            r"The process of model|unhealthy|is not ready"
        ),
    ),
    (
        HTTPStatus.INTERNAL_SERVER_ERROR,
        re.compile(r"Failed to process the request\(s\)|ended with an error|Traceback"),
    ),
)


def language_models(server: Server) -> list[str]:
    """The names of the models that are ready and take a text and sampling parameters."""
    ready = [entry["name"] for entry in server.index(ready_only=True)]
    return [name for name in ready if _is_language_model(server.config(name))]


def check_any(server: Server) -> None:
    """Make sure that the server has a language model that is ready.

    Raises:
        WorkbookError: it has none; the error says whether to build one or to load one.
    """
    if language_models(server):
        return
    folders = [server.repository / name for name in zoo.repository.LLAMAS]
    built = [folder.name for folder in folders if _is_built(folder)]
    load = "`workbook serve --detach` (a server that runs already loads what is missing)"
    raise WorkbookError(
        "The server has no language model that is ready.",
        where=server.url,
        todo=f"Load those that are built ({', '.join(built)}): {load}."
        if built
        else "Make one: `workbook models llama`; `make vllm` does so, too, and adds vLLM. "
        f"Then load it: {load}.",
    )


def check(server: Server, model: str) -> dict[str, Any]:
    """The configuration of a language model that is ready.

    Raises:
        ServerError: the model is being loaded.
        WorkbookError: the server has no such model, it is not ready, or it is no language model.
    """
    known = language_models(server)
    if model not in known and _is_coming(server, model):
        raise ServerError(
            f"{model} is still loading.",
            where=server.url,
            todo="Ask again when `workbook status` shows that it is READY.",
        )
    if not known:
        check_any(server)
    if model not in known:
        raise WorkbookError(
            f"{model!r} is not a language model that is ready.",
            where=server.url,
            todo=f"Take one of: {', '.join(known)}.",
        )
    return server.config(model)


def prompt(server: Server, model: str, turns: Sequence[Turn]) -> str:
    """Turn a conversation into the text that a model continues.

    Args:
        turns: dicts with `role` ("user", "assistant", "system") and `content`.

    Returns:
        The text that the chat template of the model's tokenizer makes; without a template, the
        contents alone, one per line.

    Raises:
        RequestError: the template refuses the conversation.
    """
    found = tokenizer.read(server.repository / model)
    if found is None:
        return tokenizer.plain(turns)
    try:
        return found.prompt(turns)
    except ValueError as error:
        raise RequestError(
            "The model's chat template refuses this conversation.", model=model, message=str(error)
        ) from None


def newest_that_fit(server: Server, model: str, turns: Sequence[Turn], most: int) -> Sequence[Turn]:
    """The newest turns of a conversation, as many as the model's context has room for.

    Args:
        turns: the whole conversation; the last turn is a question.
        most: the longest answer in tokens. A quarter of the context is left for it, or less if it
            is shorter.

    Returns:
        All turns, or those without the oldest questions and their answers. The last one stays,
        whether it fits or not.
    """
    found = tokenizer.read(server.repository / model)
    if found is None or found.context is None:
        return turns
    room = found.context - min(most, found.context // 4)
    while len(turns) > 2 and found.count(found.prompt(turns)) > room:
        turns = turns[2:]
    return turns


def stream(
    server: Server, model: str, text: str, parameters: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Send a prompt, and give each piece of the answer as soon as it comes.

    Args:
        text: the prompt; it is not repeated in the answer.
        parameters: sampling parameters with vLLM's names, e.g. {"max_tokens": 64}.

    Yields:
        Dicts with `text_output` and the model's other outputs; one where it does not stream.

    Raises:
        RequestError: the model refused the request, or an error ended the answer.
        ServerError: the server cannot be reached, or ended.
    """
    url, body = _request(server, model, text, parameters)
    try:
        with httpx.stream("POST", url, json=body, timeout=None, trust_env=False) as answer:
            for line in answer.iter_lines():
                yield from _pieces(model, line, answer.status_code)
    except httpx.HTTPError as error:
        raise _unreachable(server, error) from None


async def astream(
    server: Server, model: str, text: str, parameters: Mapping[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """The same as `stream`, for a program with an event loop.

    Where the task that reads the pieces is cancelled, the request to Triton is cancelled as well.
    """
    url, body = await asyncio.to_thread(_request, server, model, text, parameters)
    try:
        async with (
            httpx.AsyncClient(timeout=None, trust_env=False) as client,
            client.stream("POST", url, json=body) as answer,
        ):
            async for line in answer.aiter_lines():
                for piece in _pieces(model, line, answer.status_code):
                    yield piece
    except httpx.HTTPError as error:
        raise _unreachable(server, error) from None


def ask(
    server: Server,
    model: str,
    question: str,
    parameters: Mapping[str, Any],
    show: Callable[[str], None],
) -> None:
    """Show the answer to one question as it is made; see `Conversation`.

    Raises:
        WorkbookError: the question is empty.
    """
    if not question.strip():
        raise WorkbookError("The question is empty.", todo="Write it, or leave it out.")
    Conversation(server, model, parameters).ask(question.strip(), show)


class Conversation:
    """Questions to a model and its answers, each with those before it.

    Args:
        server: where the model is.
        model: its name.
        parameters: as for `stream`; `max_tokens` is among them.
    """

    def __init__(self, server: Server, model: str, parameters: Mapping[str, Any]) -> None:
        self._server, self._model, self._parameters = server, model, parameters
        self._turns: Sequence[Turn] = []

    def ask(self, question: str, show: Callable[[str], None]) -> bool:
        """Ask, and show each piece of the answer as it comes; a newline is the last piece.

        A question that was refused is not part of the conversation.

        Returns:
            Whether the model's context had room for all turns: else the oldest are left out.

        Raises:
            RequestError: the model refused the question.
        """
        whole = [*self._turns, {"role": "user", "content": question}]
        kept = newest_that_fit(self._server, self._model, whole, self._parameters["max_tokens"])
        text, answer = prompt(self._server, self._model, kept), ""
        for piece in stream(self._server, self._model, text, self._parameters):
            new = str(piece.get("text_output", ""))
            answer += new
            show(new)
        show("\n")
        self._turns = [*kept, {"role": "assistant", "content": answer}]
        return len(kept) == len(whole)


def read_question() -> str:
    """A question that the user types in the terminal; "" at the end of the input (Ctrl-D)."""
    try:
        while not (question := input("> ").strip()):
            pass
    except EOFError:
        return ""
    return question


def _request(
    server: Server, model: str, text: str, parameters: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The address and the body of a request that is answered piece by piece."""
    inputs = {entry["name"] for entry in check(server, model)["input"]}
    counts = ("return_num_input_tokens", "return_num_output_tokens")
    extras = ["stream", "return_finish_reason", *counts]
    extras += [LOGPROBS] if "logprobs" in parameters else []
    return f"{server.url}/v2/models/{quote(model, safe='')}/generate_stream", {
        "text_input": text,
        "sampling_parameters": json.dumps(dict(parameters)),
        **{name: True for name in extras if name in inputs},
    }


def _pieces(model: str, line: str, status: int) -> Iterator[dict[str, Any]]:
    """Yield the JSON in a line of the stream, if there is one.

    Raises:
        RequestError: it is an error, which may come without the prefix of an event.
    """
    text = line.removeprefix("data: ").strip()
    if not text:
        return
    found = cast(dict[str, Any], json.loads(text))
    if "error" in found:
        message = str(found["error"])
        refusal = RequestError(f"{model} did not answer.", model=model, message=message)
        refusal.status = _status(status, message)
        raise refusal
    yield found


def _status(status: int, message: str) -> int:
    """The HTTP status of an error: the server's fault or the client's.

    Triton 24.10's generate endpoints answer 400 for every error of a response: they read its code
    when they have deleted it (`InferResponseComplete` and `AddErrorJson`,
    https://github.com/triton-inference-server/server/blob/r24.10/src/http_server.cc#L4186-L4194).
    So the server's own errors are recognized by their message.
    """
    if status != HTTPStatus.BAD_REQUEST:
        return status
    return next((code for code, words in _FAULTS if words.search(message)), status)


def _unreachable(server: Server, error: httpx.HTTPError) -> ServerError:
    return ServerError(
        f"The connection to the server failed: {error or type(error).__name__}.",
        where=server.url,
        todo="`workbook status` says whether it runs; its log says why it ended.",
    )


def _is_coming(server: Server, model: str) -> bool:
    """Whether a model is being loaded, or will be, since the server was started again."""
    if any(m.get("state") == "LOADING" for m in server.index() if m["name"] == model):
        return True
    progress = restart_progress.progress(server)
    return progress is not None and model in progress.waiting


def _is_built(folder: Path) -> bool:
    """Whether a folder holds a language model of the course that can be asked, and its weights."""
    config = folder / "config.pbtxt"
    if not config.is_file() or zoo.repository.lacking(folder):
        return False
    text = config.read_text("utf-8")
    return "sampling_parameters" in text or 'backend: "vllm"' in text


def _is_language_model(config: Mapping[str, Any]) -> bool:
    inputs = {entry["name"] for entry in config.get("input", [])}
    return {"text_input", "sampling_parameters"} <= inputs
