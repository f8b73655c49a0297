"""What a lecture is made of: predictions, comparisons, claims, and a server of its own.

    from workbook.lessons import Premise, attempt, claim, compare, folder, laboratory, predict

    models = folder("my_lecture")                 # a fresh folder for models
    lab = laboratory(models)                      # a server of its own, with those models
    predict("my.gain", "How many times more does batching give?", unit="×")
    rates = attempt(lambda: measured(lab), quiet)  # again, if the machine was busy
    compare("my.gain", rates[1] / rates[0], unit="×", premise=quiet(rates))
    claim(rates[1] > rates[0], "Batching pays.", "Close other programs and run it again.")

With `WORKBOOK_UNATTENDED` in the environment nobody reads along: no widgets are shown, and a
statement or a premise that does not hold is an error. So the built pages are made, and the tests.
"""

from ..common.unattended import UNATTENDED, unattended
from .cards import Card
from .claims import claim
from .predictions import compare, predict, remembered
from .premises import (
    Premise,
    answered_before,
    arrived_together,
    attempt,
    sent_as_planned,
    steady,
)
from .workspace import folder, laboratory, write

__all__ = [
    "UNATTENDED",
    "Card",
    "Premise",
    "answered_before",
    "arrived_together",
    "attempt",
    "claim",
    "compare",
    "folder",
    "laboratory",
    "predict",
    "remembered",
    "sent_as_planned",
    "steady",
    "unattended",
    "write",
]
