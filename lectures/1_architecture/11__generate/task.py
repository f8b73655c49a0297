"""The task of `11__generate`: an answer that ends where the client says, and tells why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

import setup
from workbook.lessons.files import place
from workbook.lessons.tasks import NotYet, define
from workbook.server import Server, Triton

PROMPT = "one two three four five"
#: Sampling parameters, the text that they allow, and the reason why it ends there.
CASES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({}, "one two three four five", "stop"),
    ({"max_tokens": 2}, "one two", "length"),
    ({"max_tokens": 4, "stop": "three"}, "one two", "stop"),
    ({"max_tokens": 1, "stop": "three"}, "one", "length"),
    ({"stop": ["five", "four"]}, "one two three", "stop"),
)


def start(folder: Path) -> Server:
    """Start a server with the parrot as the notebook has it."""
    place(folder, setup.PARROT)
    return Triton(folder, models=["parrot"]).start()


@define(
    "generate.stop",
    hints=(
        "`sampling` is a dictionary, e.g. {'max_tokens': 2, 'stop': 'three'}. Both may be "
        "missing, and `stop` may be one text or a list.",
        "Cut before you send: first at the earliest stop word, then after max_tokens words. If the "
        "second cut removed words, the reason is `length`, else `stop`. Then send the words in a "
        "loop; finish_reason is empty except with the last one.",
        "Reload the model after each change: `lab.load('parrot')` starts it with the new file.",
    ),
)
def stop(server: Server) -> None:
    """Make the parrot obey `max_tokens` and `stop`, and say with its last word why it ends there:
    finish_reason is `length` or `stop`, and empty before."""
    for sampling, text, reason in CASES:
        pieces = _pieces(server, sampling)
        answer = "".join(str(piece.get("text_output", "")) for piece in pieces).strip()
        if answer != text:
            raise NotYet(f"With {json.dumps(sampling)} it says {answer!r}, and not {text!r}.")
        reasons = [str(piece.get("finish_reason", "")) for piece in pieces]
        if reasons != [""] * (len(pieces) - 1) + [reason]:
            raise NotYet(
                f"With {json.dumps(sampling)} the finish_reason of the responses is "
                f"{', '.join(map(repr, reasons))}; it has to be {reason!r} in the last one only."
            )
        if len(pieces) != len(text.split()):
            raise NotYet(f"With {json.dumps(sampling)} it sends {len(pieces)} responses.")


def _pieces(server: Server, sampling: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parrot's responses to the prompt.

    Raises:
        NotYet: the model is not ready, or answered with an error.
    """
    if not server.ready("parrot"):
        raise NotYet("The model parrot is not ready: the server's message tells why.")
    url = f"{server.url}/v2/models/parrot/generate_stream"
    body = {"text_input": PROMPT, "sampling_parameters": json.dumps(sampling)}
    pieces = []
    with httpx.stream("POST", url, json=body, timeout=30, trust_env=False) as answer:
        for line in filter(None, answer.iter_lines()):
            pieces.append(json.loads(line.removeprefix("data: ")))
    errors = [piece["error"] for piece in pieces if "error" in piece]
    if errors:
        raise NotYet(f"With {json.dumps(sampling)} the model answers: {errors[0]}")
    return pieces
