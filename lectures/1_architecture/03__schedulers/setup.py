"""For 03__schedulers: classify the answer to a POST to a decoupled model."""

from __future__ import annotations

import httpx

from workbook.lessons.premises import Premise


def what_came(response: httpx.Response) -> str:
    """Return the option of the question `schedulers.http` that fits an answer.

    Args:
        response: the answer to a POST to the infer endpoint of `countdown`.
    """
    if response.is_error:
        return "an error"
    outputs = response.json().get("outputs", [])
    if len(outputs) == 1 and len(outputs[0]["data"]) == 1:
        return "the first number"
    return "one answer with all numbers"


def found(response: httpx.Response) -> Premise:
    """Premise: the server has the model that was asked."""
    return Premise(response.status_code != 404, "the server had no model countdown")
