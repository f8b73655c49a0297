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

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx

from .. import zoo
from ..common.errors import RequestError, WorkbookError
from ..server import Server

#: The longest answer in tokens, where a request gives no length.
MAX_TOKENS = 256


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
        else "Build one: `workbook models llama` takes about 4 minutes, `make vllm` builds it too "
        f"and adds vLLM. Then load it: {load}.",
    )


def check(server: Server, model: str) -> dict[str, Any]:
    """The configuration of a language model that is ready.

    Raises:
        WorkbookError: the server has no such model, it is not ready, or it is no language model.
    """
    check_any(server)
    known = language_models(server)
    if model not in known:
        raise WorkbookError(
            f"{model!r} is not a language model that is ready.",
            where=server.url,
            todo=f"Take one of: {', '.join(known)}.",
        )
    return server.config(model)


def prompt(server: Server, model: str, messages: Sequence[Mapping[str, str]]) -> str:
    """A conversation as the text that a model continues.

    Args:
        messages: dicts with `role` ("user", "assistant", "system") and `content`.

    Returns:
        The text that the chat template of the model's tokenizer makes; without a template, the
        contents alone, one per line.
    """
    found = tokenizer(server.repository / model)
    if found is None or not found.chat_template:
        return "\n".join(message["content"] for message in messages)
    text = found.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    return cast(str, text)


@functools.cache
def tokenizer(folder: Path) -> Any | None:
    """The Hugging Face tokenizer in a model's folder, of the newest version; None without one."""
    for file in sorted(folder.glob("[1-9]*/**/tokenizer_config.json"), reverse=True):
        from transformers import AutoTokenizer  # late: it takes seconds to import

        return AutoTokenizer.from_pretrained(file.parent)
    return None


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
        RequestError: the server refused the request, or an error ended the answer.
    """
    body = {"text_input": text, "sampling_parameters": json.dumps(dict(parameters))}
    config = check(server, model)
    inputs = {entry["name"] for entry in config["input"]}
    extras = ("stream", "return_finish_reason", "return_num_output_tokens")
    asked = {**body, **{name: True for name in extras if name in inputs}}
    url = f"{server.url}/v2/models/{quote(model, safe='')}/generate_stream"
    try:
        with httpx.stream("POST", url, json=asked, timeout=None, trust_env=False) as answer:
            for line in answer.iter_lines():
                found = _event(line)
                if found is None:
                    continue
                if "error" in found:
                    raise _refused(model, str(found["error"]))
                yield found
    except httpx.HTTPError as error:
        raise _refused(model, str(error) or type(error).__name__) from None


def read_question() -> str:
    """A question that the user types in the terminal; "" at the end of the input (Ctrl-D)."""
    try:
        while not (question := input("> ").strip()):
            pass
    except EOFError:
        return ""
    return question


def _event(line: str) -> dict[str, Any] | None:
    """The JSON in a line of the stream; an error may come without the prefix of an event."""
    text = line.removeprefix("data: ").strip()
    return cast(dict[str, Any], json.loads(text)) if text else None


def _refused(model: str, message: str) -> RequestError:
    return RequestError(f"{model} did not answer.", model=model, message=message)


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
