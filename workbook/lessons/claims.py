"""`claim`: a statement about the reader's machine, and whether it holds."""

from __future__ import annotations

from ..common.errors import WorkbookError
from ..common.unattended import unattended
from .cards import AGAIN, FAILS, HOLDS, Card, show
from .premises import Premise


def claim(holds: bool, sentence: str, todo: str, *, premise: Premise | None = None) -> None:
    """Show a statement, and whether it is true on this machine.

        claim(gain > 1.5, "Batching pays.", "Close other programs and run the two cells again.")

    Args:
        holds: the condition.
        sentence: the statement.
        todo: what to try if the condition is false.
        premise: a condition that the run must fulfil before `holds` means anything (premises.py).

    Raises:
        WorkbookError: `WORKBOOK_UNATTENDED` is set, and the condition or the premise is false.
    """
    if premise is not None and not premise:
        show(not_shown("Claim", premise))
    elif holds:
        show(Card(HOLDS, "Holds", sentence))
    elif unattended():
        raise WorkbookError(f"This does not hold here: {sentence}", todo=todo)
    else:
        show(Card(FAILS, "Does not hold here", sentence, [f"→ {todo}"]))


def not_shown(head: str, premise: Premise) -> Card:
    """The card for a run whose premise is false. It tells what differed, and to run it again.

    Raises:
        WorkbookError: `WORKBOOK_UNATTENDED` is set.
    """
    todo = "Run the experiment above again, then this cell."
    if unattended():
        raise WorkbookError(str(premise), todo=todo)
    return Card(AGAIN, head, str(premise), [f"→ {todo}"])
