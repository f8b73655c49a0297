"""The example requests that a student hands over in a1__classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.vocabulary import values
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array

from . import facts
from .answers import tolerance

_KEYS = ("texts", "labels", "scores")
_MOST = 50


@dataclasses.dataclass(frozen=True)
class Example:
    """One request and its answer: its texts, and the label and score that each got."""

    texts: list[str]
    labels: list[str]
    scores: Array


def read_examples(given: Any) -> list[Example]:
    """The examples that a student hands over; fails unless they are five different requests.

    Args:
        given: a list of dicts with the keys texts, labels and scores.
    """
    least, longest = facts.EXAMPLES
    how = "Each is a dict with the keys texts, labels and scores: one request and its answer."
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Failure("`examples` is no list of dicts.", help=how)
    found = []
    for number, one in enumerate(given[:_MOST]):
        name = f"examples[{number}]"
        if missing := [key for key in _KEYS if key not in one]:
            raise Failure(f"{name} has no {missing[0]!r}.", help=how)
        if isinstance(one["texts"], str):
            raise Failure(
                f'{name}["texts"] is a str, and each of its letters would be a text.',
                help='Hand over a list, also for one text: ["…"], and ask the model for this list.',
            )
        texts = values.texts(f'{name}["texts"]', one["texts"], help=how)
        labels = values.texts(f'{name}["labels"]', one["labels"], help=how)
        scores = values.array(f'{name}["scores"]', one["scores"], help=how).reshape(-1)
        if not 0 < len(texts) <= longest or any(len(text) > facts.LONGEST for text in texts):
            raise Failure(
                f"{name} has {len(texts)} texts; 1 to {longest} are wanted, none of them above "
                f"{facts.LONGEST} characters.",
                help=how,
            )
        if not len(texts) == len(labels) == len(scores):
            raise Failure(
                f"{name} has {len(texts)} texts, {len(labels)} labels and {len(scores)} scores.",
                help="Each text has one label and one score.",
            )
        found.append(Example(texts, labels, scores))
    different = {tuple(sorted(_plain(text) for text in one.texts)) for one in found}
    if len(different) < least:
        raise Failure(
            f"{len(different)} of your examples are different requests; {least} are wanted.",
            help="Capitals, spaces and the order of the texts make no other request.",
        )
    if not any(len({_plain(text) for text in one.texts}) > 1 for one in found):
        raise Failure(
            "Each of your examples holds one text.",
            help="At least one is to be a batch: a request with two or more different texts.",
        )
    return found


def compare_examples(
    given: Sequence[Example], served: Sequence[tuple[list[str], Array]], who: str
) -> None:
    """Fail unless the examples hold what is answered to their texts.

    Args:
        given: the examples.
        served: the labels and scores of each.
        who: whose answers they are, for the message.
    """
    allowed = tolerance()
    wrong = [
        number
        for number, (one, (labels, scores)) in enumerate(zip(given, served, strict=True))
        if one.labels != labels or not (np.abs(one.scores - scores) <= allowed.allowed).all()
    ]
    if wrong:
        raise Failure(
            f"{len(wrong)} of your {len(given)} examples do not hold what {who} answers; the first "
            f"is examples[{wrong[0]}].",
            help="Ask again after the last deploy, and hand over what comes back, unrounded.",
        )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
