"""What the checks of a6__llm require of stop texts, in whole answers and in streams.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe

from . import answers, facts
from .answers import Answer

#: The most tokens of an answer that is stopped, and the fewest characters.
MOST, LEAST = 40, 24
#: How many whole answers are stopped.
_WHOLE = 3
_WHERE = (
    "The text ends before the first place at which a stop text stands, wherever its tokens begin "
    "and end: look for it in the whole text so far."
)
_REST = (
    "When the answer ends without a stop text, nothing is kept back any more: `add` must return "
    "what was kept back before."
)
_ORDER = (
    "Of all stop texts in the text, the one that begins first counts, wherever it is in `stop`."
)
_BEGUN = (
    "A stream must not send text that may be the beginning of a stop text. `settled` keeps back "
    "such an end of the text: of all stop texts, take the longest such beginning."
)


@dataclasses.dataclass(frozen=True)
class Stop:
    """A stop: what kind it is, in words; the parameter; help where the text is wrong."""

    what: str
    stop: str | list[str]
    help: str = _WHERE

    @property
    def texts(self) -> list[str]:
        """The stop texts."""
        return [self.stop] if isinstance(self.stop, str) else self.stop


def draw_part(random: np.random.Generator, text: str) -> str:
    """Some characters of a text from a random place, which need not be where a token begins."""
    size = int(random.integers(3, 7))
    start = int(random.integers(len(text) // 4, max(len(text) // 4 + 1, 3 * len(text) // 4 - size)))
    return text[start : start + size]


def _draw_overlapping(random: np.random.Generator, text: str) -> list[str]:
    """Two stop texts that are complete at the same place; the one that begins later comes first."""
    places = [
        place
        for place in range(len(text) // 4, len(text) - 5)
        if text.find(text[place : place + 5]) == place
        and text.find(text[place + 1 : place + 5]) == place + 1
    ]
    start = int(random.choice(places)) if places else len(text) // 2
    return [text[start + 1 : start + 5], text[start : start + 5]]


def whole_stops(random: np.random.Generator, text: str) -> list[Stop]:
    """A stop of each kind for an answer with this text."""
    two = [draw_part(random, text), draw_part(random, text)]
    return [
        Stop("a stop text", draw_part(random, text)),
        Stop("a list with one stop text", [draw_part(random, text)]),
        Stop("two stop texts", two),
        Stop("two stop texts that end at the same place", _draw_overlapping(random, text), _ORDER),
        Stop("a stop text that the last token of max_tokens completes", [draw_part(random, text)]),
        Stop("a stop text that only begins at the end of the answer", [text[-3:] + "§"], _REST),
    ]


def stream_stops(random: np.random.Generator, answer: Answer) -> list[Stop]:
    """A stop of each kind for a stream."""
    part, begun = draw_part(random, answer.text), _two_begun(answer)
    only_begins = "a stop text of which only the beginning stands in the answer"
    return [
        Stop("a stop text, in a stream", [part], _BEGUN),
        Stop("two stop texts of which both may have begun, in a stream", begun, _BEGUN),
        Stop(f"{only_begins}, in a stream", [f"{part}§", f"{answer.text[-3:]}§"], _REST),
        Stop("the same two stop texts in the other order, in a stream", begun[::-1], _BEGUN),
    ]


def _two_begun(answer: Answer) -> list[str]:
    """Two stop texts that may both have begun where one token ends.

    There the text ends with the first three characters of the longer stop text, and with the first
    character of the other. Only the longer one is completed. A model that keeps back one character
    sends two characters of the stop text.
    """
    for count in range(3, len(answer.tokens)):
        place = len(facts.tokenizer().decode(answer.tokens[:count])) - 3
        stop = answer.text[place : place + 6]
        is_first = place > 0 and len(stop) == 6 and answer.text.find(stop) == place
        if is_first and stop[:2] != 2 * stop[2]:
            return [f"{stop[2]}§", stop]
    return [f"{answer.text[-1]}§", f"{answer.text[-3:]}§"]


def cut(whole: Answer, stops: Sequence[str]) -> Answer:
    """What an answer becomes with stop texts."""
    for count in range(1, len(whole.tokens) + 1):
        text = facts.tokenizer().decode(whole.tokens[:count])
        if places := [text.find(stop) for stop in stops if stop in text]:
            tokens, logprobs = whole.tokens[:count], whole.logprobs[:count]
            return Answer(text[: min(places)], tokens, logprobs, "stop")
    return whole


def require_stopped(answer: Answer, whole: Answer, stop: Stop) -> None:
    """Fail unless an answer ends where its stop texts end it.

    Args:
        answer: what the model has answered.
        whole: its answer to the same prompt without stop texts.
        stop: what was asked for.
    """
    right = cut(whole, stop.texts)
    if answer.text != right.text:
        fault = "is not right"
        if answer.text.startswith(right.text):
            fault = "goes on too far"
        elif right.text.startswith(answer.text):
            fault = "lacks its end"
        raise Failure(
            f"With {stop.what}, text_output {fault}: it has {len(answer.text)} characters, and "
            f"{len(right.text)} are right. It ends in {answer.text[-20:]!r}; right is an end in "
            f"{right.text[-20:]!r}. `stop` was {stop.stop!r}.",
            help=stop.help,
            safe="With stop texts, text_output is not right.",
        )
    if answer.tokens != right.tokens:
        raise Failure(
            f"With {stop.what}, token_ids has {len(answer.tokens)} tokens, and "
            f"{len(right.tokens)} are right.",
            help="The answer ends with the token that completes the stop text, and without one as "
            "it would otherwise. In a stream each token is sent, also where no text can be shown.",
            safe="With stop texts, token_ids are not right.",
        )
    if answer.reason != right.reason:
        raise Failure(
            f"With {stop.what}, finish_reason is {answer.reason[:20]!r}; {right.reason!r} is "
            "right.",
            help='A stop text ends an answer with "stop", also where its last token is the last '
            "one of max_tokens.",
            safe="With stop texts, finish_reason is wrong.",
        )


def require_stops(server: Probe, model: str, prompts: Sequence[str]) -> None:
    """Fail unless stop texts end the model's answers, each in a row of its own.

    An answer is compared with the model's own answer without stop texts, and all rows of a request
    have one prompt. So neither wrong tokens nor wrong padding changes the result.
    """
    wanted = {"temperature": 0, "max_tokens": MOST}
    long: list[tuple[str, Answer]] = []
    for prompt in prompts:
        (whole,) = answers.ask(server, model, [prompt], wanted)
        answers.require_text(whole, "an answer at temperature 0")
        long += [(prompt, whole)] * (len(whole.text) >= LEAST)
        if len(long) == _WHOLE:
            break
    if not long:
        raise Failure(f"The answers of {model} at temperature 0 are too short to be stopped.")
    answers.require_different(model, [whole for _, whole in long])
    for prompt, whole in long:
        stops = whole_stops(server.rng, whole.text)
        parameters = [{**wanted, "stop": stop.stop} for stop in stops]
        parameters[4]["max_tokens"] = len(cut(whole, stops[4].texts).tokens)
        (alone,) = answers.ask(server, model, [prompt], parameters[:1])
        require_stopped(alone, whole, stops[0])
        together = answers.ask(server, model, [prompt] * len(stops), parameters)
        for answer, stop in zip(together, stops, strict=True):
            among = dataclasses.replace(stop, what=f"{stop.what}, in a row among others")
            require_stopped(answer, whole, among)
