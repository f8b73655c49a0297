"""Sampling parameters of a request, and its answer as it grows token by token.

`workbook models` puts a copy beside the model.py of each model that needs it: in a container, a
model's folder must be complete by itself. So it imports nothing of the course.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Name → default, minimum, maximum. Names and defaults are vLLM's.
NUMBERS = {
    "max_tokens": (16, 1, 100_000),
    "temperature": (1.0, 0.0, 100.0),  # 0: always the likeliest token
    "top_p": (1.0, 1e-6, 1.0),
    "top_k": (0, 0, 1_000_000),  # 0: all of them
    "seed": (None, 0, 2**63 - 1),
}


class BadRequest(Exception):
    """A request that cannot be answered; its sender gets the message."""


class Sampling:
    """The sampling parameters of a request.

    Attributes: those of NUMBERS; `stop`, texts before which the answer ends; `ignore_eos`.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int | None

    def __init__(self, text: str = "") -> None:
        """Read them from JSON; numbers may come as strings.

        Raises:
            BadRequest: not a JSON object, an unknown name, or a value outside its range.
        """
        try:
            given = json.loads(text) if text else {}
        except ValueError as error:
            raise BadRequest(f"sampling_parameters is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise BadRequest('sampling_parameters must be a JSON object, as {"max_tokens": 64}')
        for name, (default, least, most) in NUMBERS.items():
            value = given.pop(name, default)
            setattr(self, name, None if value is None else number(name, value, least, most))
        stop = given.pop("stop", None) or []
        self.stop = [stop] if isinstance(stop, str) else stop
        if not isinstance(self.stop, list) or not all(isinstance(s, str) and s for s in self.stop):
            raise BadRequest(f"stop is {stop!r}; it must be a text or a list of texts")
        self.ignore_eos = str(given.pop("ignore_eos", False)).lower() == "true"
        if given:
            known = ", ".join([*NUMBERS, "stop", "ignore_eos"])
            raise BadRequest(f"there is no sampling parameter {min(given)!r}; there are {known}")
        self.random = np.random.default_rng(self.seed)

    def choose(self, logits: Any) -> tuple[int, float]:
        """Choose the next token: the likeliest (temperature 0), or one drawn at random.

        It is drawn from the top_k likeliest, and of these from the likeliest whose probabilities
        reach top_p. Returns its id, and its probability among the tokens it was drawn from.
        """
        if self.temperature == 0:
            return int(logits.argmax()), 1.0
        scaled = (logits - logits.max()).astype(np.float64) / self.temperature
        order = np.argsort(-scaled, kind="stable")
        if self.top_k:
            order = order[: self.top_k]
        chances = np.exp(scaled[order])
        chances /= chances.sum()
        # As many of the likeliest as reach top_p together, at least one.
        some = int(np.searchsorted(np.cumsum(chances), self.top_p)) + 1
        kept = chances[:some] / chances[:some].sum()
        drawn = int(self.random.choice(len(kept), p=kept))
        return int(order[drawn]), float(kept[drawn])


class Answer:
    """An answer as it grows, token by token.

    Attributes:
        tokens: the ids of its tokens. text: the part of its text that `add` has returned so far.
        reason: why it ended, "stop" or "length"; "" while it goes on.
    """

    def __init__(
        self, sampling: Sampling, decode: Callable[[list[int]], str], eos: int | None, room: int
    ) -> None:
        """`decode` turns a list of token ids into text; `room`: tokens left in the context."""
        self.sampling, self.decode, self.eos = sampling, decode, eos
        self.most = min(sampling.max_tokens, room)
        self.tokens: list[int] = []
        self.text = self.reason = ""

    def add(self, token: int) -> str:
        """Add the next token; returns the new text, which may be empty.

        Two kinds of text are held back: a character of several bytes until its last byte is there,
        and what may be the beginning of a stop text until that is clear.
        """
        if token == self.eos and not self.sampling.ignore_eos:
            self.reason = "stop"
        else:
            self.tokens.append(token)
            if len(self.tokens) >= self.most:
                self.reason = "length"
        whole = self.decode(self.tokens)
        ends = [whole.find(stop) for stop in self.sampling.stop if stop in whole]
        if ends:
            whole, self.reason = whole[: min(ends)], "stop"
        elif not self.reason:
            whole = self.settled(whole)
        new, self.text = whole[len(self.text) :], whole
        return new

    def settled(self, whole: str) -> str:
        """The text without what must be held back: of all beginnings of stop texts, the longest."""
        whole = whole.rstrip("\ufffd")
        held = 0
        for stop in self.sampling.stop:
            for length in range(held + 1, len(stop)):
                if whole.endswith(stop[:length]):
                    held = length
        return whole[: len(whole) - held]


def number(name: str, value: Any, least: float, most: float) -> int | float:
    """The value of a parameter as an int or a float, within its range."""
    kind: type[int] | type[float] = float if name in ("temperature", "top_p") else int
    try:
        if isinstance(value, bool) or (kind is int and float(value) != int(value)):
            raise ValueError
        found = kind(value)
    except (TypeError, ValueError):
        raise BadRequest(f"{name} is {value!r}; it must be a number") from None
    if not least <= found <= most:
        raise BadRequest(f"{name} is {value}; it must lie between {least:g} and {most:g}")
    return found


def text_of(request: Any, name: str, pb_utils: Any) -> str:
    """The first element of an input as text; "" where the request leaves it out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return ""
    try:
        return str(tensor.as_numpy().ravel()[0], "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{name} is not UTF-8: {error}") from None


def check_prompt(tokens: Sequence[int], context: int) -> None:
    """Refuse an empty prompt, and one that leaves no room for an answer."""
    if not tokens:
        raise BadRequest("the prompt is empty: send at least one word in text_input")
    if len(tokens) >= context:
        raise BadRequest(
            f"the prompt has {len(tokens)} tokens; the model's context length is {context}, the "
            "answer included: send a shorter one"
        )
