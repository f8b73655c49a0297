"""One answer: its tokens so far, the text that can be shown, and the client's parameters.

`chat_stream` gets a copy of this file: a model's folder must be complete by itself. Edit the one
of `chat`; the notebook copies it.
"""

import json

import numpy as np

#: Parameters that are numbers: default, smallest and largest value.
NUMBERS = {
    "max_tokens": (16, 1, 256),
    "temperature": (1.0, 0.0, 2.0),
    "top_p": (1.0, 1e-3, 1.0),
    "seed": (None, 0, 2**63 - 1),
}
#: Of these, the whole ones.
WHOLE = ("max_tokens", "seed")


class BadRequest(Exception):
    """A request that cannot be answered; its client gets the message."""


def read_parameters(text):
    """Turn the JSON of `sampling_parameters` into a dict with all five parameters.

    Raises:
        BadRequest: it is no JSON object, has an unknown name, or a value that does not fit.
    """
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise BadRequest(f"sampling_parameters is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise BadRequest("sampling_parameters is JSON, but not an object")
    if unknown := given.keys() - {*NUMBERS, "stop"}:
        raise BadRequest(f"there is no sampling parameter {min(unknown)!r}")
    found = {}
    for name, (default, least, most) in NUMBERS.items():
        value = given.get(name, default)
        if value is not None or name in given:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadRequest(f"{name} is {value!r}, and not a number")
            if not least <= value <= most or (name in WHOLE and value != int(value)):
                raise BadRequest(f"{name} is {value}; it goes from {least} to {most}")
            value = int(value) if name in WHOLE else value
        found[name] = value
    stop = given.get("stop", [])
    found["stop"] = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, str | list) or not all(isinstance(s, str) and s for s in found["stop"]):
        raise BadRequest(f"stop is {stop!r}; it is a text or a list of texts, none of them empty")
    return found


class Answer:
    """One prompt and the answer to it.

    Attributes:
        prompt: ids of the prompt's tokens.
        tokens: ids of the answer's tokens so far, without the end of text.
        logprobs: for each of them, the logarithm of its probability.
        text: the text that can be shown so far.
        reason: "stop" or "length" where it has ended, else "".
    """

    def __init__(self, prompt, parameters, tokenizer, settings):
        """`settings` is the network's config.json.

        Raises:
            BadRequest: the prompt is empty or too long.
        """
        self.tokenizer, self.wanted = tokenizer, read_parameters(parameters)
        self.prompt = tokenizer.encode(prompt).ids
        self.end = settings["eos_token_id"]
        context = settings["max_position_embeddings"]
        if not self.prompt:
            raise BadRequest("the prompt is empty")
        if len(self.prompt) >= context:
            raise BadRequest(
                f"the prompt is too long: {len(self.prompt)} tokens, and {context} are the most, "
                "the answer included"
            )
        self.most = min(self.wanted["max_tokens"], context - len(self.prompt))
        self.random = np.random.default_rng(self.wanted["seed"])
        self.tokens, self.logprobs, self.text, self.reason = [], [], "", ""

    def choose(self, scores):
        """Choose the next token from the scores of all tokens (float32, one per token).

        Temperature 0: the token with the highest score. Otherwise one is drawn from the nucleus:
        the fewest of the likeliest tokens whose probabilities add up to top_p.

        Returns:
            Its id, and the logarithm of its probability at temperature 1 among all tokens.
        """
        scores = scores.astype(np.float64)
        logs = scores - scores.max()
        logs -= np.log(np.exp(logs).sum())  # of each token's probability at temperature 1
        if self.wanted["temperature"] == 0:
            token = int(scores.argmax())
        else:
            chances = np.exp((scores - scores.max()) / self.wanted["temperature"])
            chances /= chances.sum()
            order = np.argsort(-chances, kind="stable")
            reached = np.cumsum(chances[order])
            count = min(int(np.searchsorted(reached, self.wanted["top_p"])) + 1, len(order))
            nucleus = order[:count]
            token = int(self.random.choice(nucleus, p=chances[nucleus] / chances[nucleus].sum()))
        return token, float(logs[token])

    def add(self, token, logprob):
        """Add a token, and find out whether the answer ends with it.

        Returns:
            The text that can be shown now and could not be shown before; it may be "".
        """
        if token == self.end:
            self.reason = "stop"
        else:
            self.tokens.append(token)
            self.logprobs.append(logprob)
            if len(self.tokens) == self.most:
                self.reason = "length"
        whole = self.tokenizer.decode(self.tokens, skip_special_tokens=True)
        places = [whole.find(stop) for stop in self.wanted["stop"] if stop in whole]
        if places:
            whole, self.reason = whole[: min(places)], "stop"
        elif not self.reason:
            whole = self.settled(whole)
        new = whole[len(self.text) :]
        self.text = whole
        return new

    def settled(self, whole):
        """The text without what the next token may still change.

        Left out are a character of which bytes are missing, and what may begin a stop text.
        """
        whole = whole.rstrip("\ufffd")
        begun = max(
            (
                length
                for stop in self.wanted["stop"]
                for length in range(1, len(stop))
                if whole.endswith(stop[:length])
            ),
            default=0,
        )
        return whole[: len(whole) - begun]
