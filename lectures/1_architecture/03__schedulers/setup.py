"""For 03__schedulers: record six requests that come together, and classify an answer."""

from __future__ import annotations

import json
from collections.abc import Callable

from workbook.lessons import attempt, record
from workbook.lessons.premises import Premise
from workbook.lessons.runs import Run
from workbook.server import Server


def record_together(lab: Server, model: str, send: Callable[[], object]) -> Run:
    """Record what the server does with requests; send them again if some came too late.

    Args:
        lab: a server that `laboratory` started.
        model: the model that is asked.
        send: a function that sends the requests, and returns when they are answered.

    Example:
        run = record_together(lab, "single", lambda: send_six("single"))
        run.together                    # the premise of what the run shows
    """
    return attempt(lambda: record(lab, model, send), lambda run: run.together)


def what_came(status: int, text: str) -> str:
    """Return the option of the question `schedulers.http` that fits an answer.

    Args:
        status: of the answer to a POST to the infer endpoint of `countdown`.
        text: its body.
    """
    if status >= 400:
        return "an error"
    outputs = json.loads(text).get("outputs", [])
    if len(outputs) == 1 and len(outputs[0]["data"]) == 1:
        return "the first number"
    return "one answer with all numbers"


def found(status: int) -> Premise:
    """Premise: the server has the model that was asked."""
    return Premise(status != 404, "the server had no model countdown")


def numbers(stream: str) -> list[int]:
    """Return the numbers in a stream of events, which is the answer of `generate_stream`."""
    return [json.loads(line[6:])["count"] for line in stream.splitlines() if line]
