"""Talking to a language model of the running server: one question, an answer that streams.

Every language model of the repository takes `text_input` and `sampling_parameters`; those that are
decoupled stream. What a model expects around a question is its chat template, which comes with its
tokenizer in the model's folder.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx

from ..common.errors import RequestError, WorkbookError
from ..server import Server

#: Tokens of an answer where nobody says how many.
MOST = 256


def languages(server: Server) -> list[str]:
    """The models that are ready and take a text and sampling parameters."""
    ready = [entry["name"] for entry in server.index(ready_only=True)]
    return [name for name in ready if _takes(server.config(name))]


def check(server: Server, model: str) -> dict[str, Any]:
    """The configuration of a language model that is ready.

    Raises:
        WorkbookError: there is no such model, or it is no language model.
    """
    known = languages(server)
    if model not in known:
        raise WorkbookError(
            f"{model!r} is not a language model that is ready.",
            where=server.url,
            todo=f"Take one of: {', '.join(known)}."
            if known
            else "Build the models and load them: `workbook models llama`, then `workbook serve`.",
        )
    return server.config(model)


def prompt(server: Server, model: str, messages: Sequence[Mapping[str, str]]) -> str:
    """A conversation as the text that a model continues.

    Args:
        messages: dicts with `role` ("user", "assistant", "system") and `content`.

    Returns:
        What the chat template of the model's tokenizer makes of it; where there is no template,
        the contents alone, a line each.
    """
    words = tokenizer(server.repository / model)
    if words is None or not words.chat_template:
        return "\n".join(message["content"] for message in messages)
    made = words.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    return cast(str, made)


@functools.cache
def tokenizer(folder: Path) -> Any | None:
    """The tokenizer in a model's folder, of its newest version; None where there is none."""
    for file in sorted(folder.glob("[1-9]*/**/tokenizer_config.json"), reverse=True):
        from transformers import AutoTokenizer  # late: it takes seconds to import

        return AutoTokenizer.from_pretrained(file.parent)
    return None


def stream(
    server: Server, model: str, text: str, parameters: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The answers of a language model as they come: `text_output` and what else it gives.

    A model that does not stream gives one. The prompt is not repeated.

    Raises:
        RequestError: the server refused, or the answer broke off; with its words.
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


def ask() -> str:
    """A question from the terminal; "" where there are no more."""
    try:
        while not (asked := input("> ").strip()):
            pass
    except EOFError:
        return ""
    return asked


def _event(line: str) -> dict[str, Any] | None:
    """What a line of the stream holds; an error may come without the mark of an event."""
    text = line.removeprefix("data: ").strip()
    return cast(dict[str, Any], json.loads(text)) if text else None


def _refused(model: str, words: str) -> RequestError:
    return RequestError(f"{model} did not answer.", model=model, message=words)


def _takes(config: Mapping[str, Any]) -> bool:
    inputs = {entry["name"] for entry in config.get("input", [])}
    return {"text_input", "sampling_parameters"} <= inputs
