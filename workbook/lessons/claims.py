"""`claim`: a statement about the reader's machine, and whether it holds."""

from __future__ import annotations

from ..common.errors import WorkbookError
from ..common.unattended import unattended
from . import cards, words
from .cards import AGAIN, FAILS, HOLDS, Card
from .premises import Premise
from .workspace import checked_name


@words.answering
def claim(
    holds: bool, sentence: str, todo: str, *, premise: Premise | None = None, id: str = ""
) -> None:
    """Show a statement, and whether it is true on this machine.

        claim(gain > 1.5, "Batching pays.", "Close other programs and run the two cells again.",
              id="batcher.gain")

    A built notebook has `claim("batcher.gain", gain=gain)` in its place (words.py).

    Args:
        holds: the condition.
        sentence: the statement.
        todo: what to try if the condition is false.
        premise: a condition that the run must fulfil before `holds` means anything (premises.py).
        id: the claim's name, by which the coverage table of a lecture cites it as a proof: small
            letters, digits, dots and underscores.

    Raises:
        WorkbookError: the id has other characters; or `WORKBOOK_UNATTENDED` is set, and the
            condition or the premise is false.
    """
    about = {"claim": checked_name(id)} if id else {}
    if premise is not None and not premise:
        cards.show(not_shown("Claim", premise))
    elif holds:
        cards.show(Card(HOLDS, "Holds", sentence), **about)
    elif unattended():
        raise WorkbookError(f"This does not hold here: {sentence}", todo=todo)
    else:
        cards.show(Card(FAILS, "Does not hold here", sentence, [f"→ {todo}"]))


def not_shown(head: str, premise: Premise) -> Card:
    """The card for a run with a false premise: it says what differed, and to run the cell again.

    Raises:
        WorkbookError: `WORKBOOK_UNATTENDED` is set.
    """
    todo = "Run this experiment again, when the machine is quieter."
    if unattended():
        raise WorkbookError(str(premise), todo=todo)
    return Card(AGAIN, head, str(premise), [f"→ {todo}"])
