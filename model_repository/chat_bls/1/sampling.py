"""How an answer is asked for and when it ends; the same file lies in every model that needs it."""

import json

import numpy as np

#: Name → default, least, most. The names and defaults are vLLM's.
NUMBERS = {
    "max_tokens": (16, 1, 100_000),
    "temperature": (1.0, 0.0, 100.0),  # 0: always the likeliest token
    "top_p": (1.0, 1e-6, 1.0),
    "top_k": (0, 0, 1_000_000),  # 0: all of them
    "seed": (None, 0, 2**63 - 1),
}


class BadRequest(Exception):
    """A request that cannot be answered; the message goes to its sender."""


class Sampling:
    """The sampling parameters of a request.

    Attributes: the NUMBERS, and `stop` (texts before which the answer ends) and `ignore_eos`.
    """

    def __init__(self, text=""):
        """Read them from JSON; numbers may come as strings.

        Raises:
            BadRequest: it is no JSON object, a name is unknown, or a value is out of its range.
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

    def choose(self, logits):
        """The next token: the likeliest one, or one drawn from the top_p likeliest.

        Returns its number, and how likely it was among those that it was drawn from.
        """
        if self.temperature == 0:
            return int(logits.argmax()), 1.0
        scaled = (logits - logits.max()).astype(np.float64) / self.temperature
        order = np.argsort(-scaled, kind="stable")
        if self.top_k:
            order = order[: self.top_k]
        chances = np.exp(scaled[order])
        chances /= chances.sum()
        # As many of the likeliest as it takes to reach top_p, at least one.
        some = int(np.searchsorted(np.cumsum(chances), self.top_p)) + 1
        kept = chances[:some] / chances[:some].sum()
        drawn = int(self.random.choice(len(kept), p=kept))
        return int(order[drawn]), float(kept[drawn])


class Answer:
    """An answer as it grows, token by token.

    Attributes:
        tokens: the numbers of its tokens. text: what has been given out of it so far.
        reason: why it ended, "stop" or "length"; "" while it goes on.
    """

    def __init__(self, sampling, decode, eos, room):
        """`decode` turns a list of token numbers into text; `room` is the context that is left."""
        self.sampling, self.decode, self.eos = sampling, decode, eos
        self.most = min(sampling.max_tokens, room)
        self.tokens, self.text, self.reason = [], "", ""

    def add(self, token):
        """Take the next token; returns the text that it brings, which may be empty.

        A letter of several bytes waits for its last one, and text that may be the beginning of a
        stop text waits until it is clear whether it is.
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

    def settled(self, whole):
        whole = whole.rstrip("\ufffd")
        for stop in self.sampling.stop:
            for length in range(min(len(stop) - 1, len(whole)), 0, -1):
                if whole.endswith(stop[:length]):
                    return whole[:-length]
        return whole


def number(name, value, least, most):
    """A parameter's value as a number of its kind."""
    kind = float if name in ("temperature", "top_p") else int
    try:
        if isinstance(value, bool) or (kind is int and float(value) != int(value)):
            raise ValueError
        found = kind(value)
    except (TypeError, ValueError):
        raise BadRequest(f"{name} is {value!r}; it must be a number") from None
    if not least <= found <= most:
        raise BadRequest(f"{name} is {value}; it must lie between {least:g} and {most:g}")
    return found


def text_of(request, name, pb_utils):
    """An input's first element as text; "" where it is left out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return ""
    try:
        return tensor.as_numpy().ravel()[0].decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{name} is not UTF-8: {error}") from None


def check_prompt(tokens, context):
    """Refuse a prompt that leaves nothing to answer to, or no room for an answer."""
    if not tokens:
        raise BadRequest("the prompt is empty: send at least one word in text_input")
    if len(tokens) >= context:
        raise BadRequest(
            f"the prompt has {len(tokens)} tokens; the model's context length is {context}, the "
            "answer included: send a shorter one"
        )
