"""The task of 04__sequences: a model that mixes its sequences up with the strategy oldest."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import setup
from workbook import measure
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_TRIES = 3


@define(
    "sequences.apart",
    hints=(
        "The list in memory.py has one place per slot, and a slot is another sequence's in the "
        "next execution. What stays the same for a sequence?",
        "CONTROL_SEQUENCE_CORRID is the control input with the correlation ID. In config.pbtxt it "
        "has a data type in place of two values: data_type: TYPE_UINT64. In memory.py it is "
        'brought["CORRID"], if you call it so.',
        "Keep the sums in a dictionary by that number, in memory.py.",
    ),
)
def apart(server: Server) -> None:
    """The model apart gives each sequence its own sum, with the strategy oldest."""
    if not server.ready("apart"):
        raise NotYet("The model apart is not ready.")
    if "oldest" not in server.config("apart").get("sequence_batching", {}):
        raise NotYet("Its config has another strategy than oldest.")
    for _ in range(_TRIES):
        answers = measure.send(server, "apart", setup.plan())
        refused = answers[answers["error"] != ""]
        if len(refused):
            raise NotYet(f"{refused['id'].iloc[0]} was refused: {refused['error'].iloc[0]}")
        right = setup.right_sums()
        for name, outputs in zip(answers["id"], answers["outputs"], strict=True):
            total = outputs["SUM"].item()
            if total != right[name]:
                raise NotYet(f"{name} got {total:g}; the sum of its sequence is {right[name]:g}.")
        if _changed_slots(answers):
            return
    raise CannotTell("No sequence found another one's number in its slot.")


def _changed_slots(answers: pd.DataFrame) -> bool:
    """Return whether a sequence went on in a slot that another one had used last.

    Only then does a memory with one sum per slot give a wrong sum.
    """
    last: dict[int, str] = {}  # slot → sequence
    for row in answers.sort_values("answered_ms").itertuples():
        slot, sequence = row.outputs["SLOT"].item(), row.id[0]
        begins = setup.right_sums()[row.id] == setup.WORTH[sequence]
        if not begins and last.get(slot, sequence) != sequence:
            return True
        last[slot] = sequence
    return False


def start(folder: Path) -> Server:
    """Serve the model as the notebook has it: it keeps one sum per slot."""
    setup.apart(folder)
    return laboratory(folder)
