"""What a lecture's notebook uses: predictions, claims, tasks, figures, and a server of its own.

A notebook begins with `from workbook.lessons import *`, so that its cells show Triton and not lists
of the course's names. Requests are sent with Triton's own clients and commands.

    from workbook import measure
    from workbook.common import paths
    from workbook.lessons import attempt, claim, compare, laboratory, predict, sent_as_planned

    predict("my.delay", "How long does one request take?", unit="ms")
    server = laboratory(paths.repository(), only=["square"])  # a second server, with one model

    def experiment():
        plan = measure.every(50, 20)                          # every 50 ms, 20 requests
        return measure.send(server, "square", plan)           # a table, one row per request

    def on_time(answers):
        return sent_as_planned(answers, every_ms=50)          # was the machine fast enough?

    answers = attempt(experiment, on_time)                    # if not: run it again
    delay = (answers["answered_ms"] - answers["sent_ms"]).median()
    compare("my.delay", delay, unit="ms", premise=on_time(answers))
    claim(delay < 50, "A request is answered before the next one is sent.", "Run it again.",
          id="my.delay")

A source has the whole question. A choice has an explanation for each wrong option, and None for the
right one. A curve is drawn by the reader. The built notebook has only the keys, and the condition
of each claim with an id, so that its code does not show the answer. It carries the texts encoded
(words.py):

    predict("my.order", "Who is first?", {"A": "A was sent first, and waited longest.", "B": None})
    predict_curve("my.load", "How does it grow?", x=[1, 2, 4], y_range=(0, 90), unit="ms")
    compare_curve("my.load", loads, times, premise=on_time(answers))

In a task the reader makes or repairs something. A `task.py` defines it, and the notebook shows it:

    task("repository.half", server=lab, models=models)

The environment variable `WORKBOOK_UNATTENDED` is set when a program runs the notebook and nobody
reads it: when the built pages are made, and in tests. Then no widgets are shown, and a statement or
a premise that does not hold is an error.
"""

from .. import measure
from ..common.unattended import UNATTENDED, unattended
from . import slots, tables
from .cards import Card
from .claims import claim
from .curves import compare_curve, predict_curve, remembered_curve
from .files import place, show
from .predictions import compare, predict, remembered
from .premises import (
    Premise,
    arrived_together,
    attempt,
    halves_agree,
    reached_rate,
    sent_as_planned,
    steady,
)
from .runs import record
from .task_card import task
from .workspace import course_server, folder, laboratory, write

__all__ = [
    "UNATTENDED",
    "Card",
    "Premise",
    "arrived_together",
    "attempt",
    "claim",
    "compare",
    "compare_curve",
    "course_server",
    "folder",
    "halves_agree",
    "laboratory",
    "measure",
    "place",
    "predict",
    "predict_curve",
    "reached_rate",
    "record",
    "remembered",
    "remembered_curve",
    "sent_as_planned",
    "show",
    "slots",
    "steady",
    "task",
    "unattended",
    "write",
]

tables.align()
