"""`claim`: a statement about the reader's machine, and whether it holds."""

from __future__ import annotations

from ..common.errors import WorkbookError
from ..common.unattended import unattended
from .cards import AGAIN, FAILS, HOLDS, Card, show
from .premises import Premise


def claim(holds: bool, sentence: str, todo: str, *, premise: Premise | None = None) -> None:
    """State something, and show whether it holds on this machine.

        claim(gain > 1.5, "Batching pays.", "Close other programs and run the two cells again.")

    Args:
        holds: the condition.
        sentence: what it means, as a statement.
        todo: what to try where it does not hold.
        premise: what must be so in this run before the condition means anything.

    Raises:
        WorkbookError: nobody reads along (`WORKBOOK_UNATTENDED`), and the statement or its premise
            does not hold.
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
    """The card for a run whose premise does not hold: what differed, and that it can be run again.

    Raises:
        WorkbookError: nobody reads along (`WORKBOOK_UNATTENDED`).
    """
    todo = "Run the experiment above again, then this cell."
    if unattended():
        raise WorkbookError(str(premise), todo=todo)
    return Card(AGAIN, head, str(premise), [f"→ {todo}"])
