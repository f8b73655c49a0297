"""The counts of task 8 of a1__classifier: what a threshold on the score keeps and catches."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from grader.vocabulary import values
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array

from . import facts
from .answers import tolerance


@dataclasses.dataclass(frozen=True)
class Counts:
    """What a student counted: per threshold the own texts kept, and the foreign texts caught."""

    thresholds: Array
    kept: Array
    caught: Array


def read_counts(thresholds: Any, kept: Any, caught: Any, chosen: Any) -> Counts:
    """The values that a student hands over; fails unless they can be counts of this kind."""
    tried = values.array("thresholds", thresholds, help="A list of numbers between 0 and 1.")
    if tried.ndim != 1 or len(np.unique(tried)) < facts.THRESHOLDS:
        raise Failure(
            f"`thresholds` has {len(np.unique(tried))} different values; the task asks for "
            f"{facts.THRESHOLDS} or more, in a list."
        )
    if tried.min() < 0 or tried.max() > 1 or (np.diff(tried) <= 0).any():
        raise Failure("`thresholds` are to lie between 0 and 1, and to grow from one to the next.")
    size, each = (len(tried),), "one count per threshold"
    stay = values.array("kept", kept, size, because=each, whole=True)
    found = values.array("caught", caught, size, because=each, whole=True)
    if (np.diff(stay) > 0).any() or (np.diff(found) < 0).any():
        raise Failure(
            "`kept` should never grow with the threshold, nor `caught` shrink; yours do.",
            help="kept: own texts with a score at or above it. caught: foreign texts below it. Are "
            "the two exchanged?",
        )
    if (pairs := len({*zip(stay.tolist(), found.tolist(), strict=True)})) < facts.DIFFERENT:
        raise Failure(
            f"Your {len(tried)} thresholds give {pairs} different pair{'s' * (pairs != 1)} of "
            f"counts; the task asks for {facts.DIFFERENT} or more.",
            help="Most scores lie between two of them, or on one side of all. Where does the "
            "histogram of your scores rise and fall? Put the thresholds there.",
        )
    values.choice("chosen", chosen, tried.tolist(), of="your thresholds")
    return Counts(tried, stay, found)


def compare_counts(counts: Counts, known: Array, foreign: Array, whose: str) -> None:
    """Fail unless the counts are those of these scores.

    A score as near to a threshold as the tolerance may count on either side.

    Args:
        counts: the student's.
        known: the scores of the own texts.
        foreign: the scores of the foreign texts.
        whose: which scores they are, for the message.
    """
    near = tolerance().allowed
    for name, given, scores, above in (
        ("kept", counts.kept, known, True),
        ("caught", counts.caught, foreign, False),
    ):
        wrong = 0
        for limit, count in zip(counts.thresholds, given, strict=True):
            sign = 1 if above else -1
            least = int((sign * (scores - limit) > near).sum())
            most = int((sign * (scores - limit) >= -near).sum())
            wrong += not least <= count <= most
        if wrong:
            raise Failure(
                f"{wrong} of the {len(given)} counts in `{name}` are not those of {whose}.",
                help="kept counts own texts with a score at or above the threshold, caught counts "
                "foreign texts below it. Were both asked after the last deploy, all 32 of each?",
            )
