"""What words say beside raising `Failure`: several faults, measured figures, a leaderboard's ones.

`all_of` collects the faults that words report by `fault`. `note` keeps a sentence that is shown
where the check passes. `standing` keeps the figure by which the class's leaderboard ranks.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Any

from . import alias as aliases
from .failure import Failure
from .results import Standing


@dataclasses.dataclass
class _Collected:
    """The faults of a block by heading, the help of the first, the credit that the worst leaves."""

    lines: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    help: str = ""
    credit: float = 1.0


_block: contextvars.ContextVar[_Collected | None] = contextvars.ContextVar("block", default=None)


_notes: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("notes", default=None)


def note(text: str) -> None:
    """Show a sentence, such as a measured figure, beside a check that passes.

    Args:
        text: the sentence. It must contain no expected value.
    """
    notes = _notes.get()
    if notes is not None:
        notes.append(text)


_standings: contextvars.ContextVar[list[Standing] | None] = contextvars.ContextVar(
    "standings", default=None
)


def standing(value: float, text: str, alias: Any = "") -> None:
    """Keep the figure by which the class's leaderboard ranks the submission.

    Example::

        standing(ratio, f"×{ratio:.1f}", alias)

    It counts if the check earns points, also a part of them: call it before a `Failure` is raised.
    Of several figures the last one counts, and that of a hidden variant more than that of the
    public function. Figures with the same text share a place.

    The figure may be measured with hidden inputs, and students read it. So `text` must tell nothing
    but the figure, with few digits: a submitted model could try to say more by it.

    Args:
        value: the figure, as the check has measured it; the highest is the best.
        text: how it is shown; at most 40 characters.
        alias: what the notebook hands over as the student's name on the leaderboard; "" or None for
            none. If it does not follow the rule (alias.py), the student stands there without a
            name, and a note says why.

    Raises:
        ValueError: the figure is no finite number, or the text is empty or too long.
    """
    made = Standing(value=value, text=text, alias=alias)
    is_given = bool(alias.strip()) if isinstance(alias, str) else alias is not None
    if is_given and not made.alias:
        note(f"Your alias is not shown on the leaderboard. {aliases.RULE}")
    standings = _standings.get()
    if standings is not None:
        standings.append(made)


@contextlib.contextmanager
def placed() -> Iterator[list[Standing]]:
    """Collect the figures for the leaderboard of the block in a list."""
    standings: list[Standing] = []
    token = _standings.set(standings)
    try:
        yield standings
    finally:
        _standings.reset(token)


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """Collect the notes of the block in a list."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def fault(what: str, *, heading: str = "", help: str = "", credit: float = 0.0) -> None:
    """Note a fault within a block of `all_of`; elsewhere raise it as a `Failure` at once.

    So a function that calls this must be able to go on afterwards.

    Args:
        what: the fault, a sentence.
        heading: a line above it. Faults with the same heading stand below it together.
        help: what to look at. In a block, the block's own help counts, if it has one.
        credit: the share of the points that the work earns in spite of this fault. In a block, the
            worst fault counts.

    Raises:
        Failure: outside of a block.
    """
    block = _block.get()
    if block is None:
        raise Failure(f"{heading}\n{what}" if heading else what, help=help, credit=credit)
    block.lines.setdefault(heading, []).append(what)
    block.help = block.help or help
    block.credit = min(block.credit, credit)


@contextlib.contextmanager
def all_of(*, partial: float = 0.0, help: str = "") -> Iterator[None]:
    """Run every line of the block, and fail at its end with all faults in one message.

    Requirements on a config (`tensors`, `batch_size`, `setting`) take part. Any other
    `Failure` in the block ends it at once.

    Example::

        with require.all_of(partial=0.5, help="Correct config.pbtxt, and deploy again."):
            require.tensors(config, inputs={"input__0": ("FP32", [30])})
            require.batch_size(config, 114, because="the 114 test rows are one request")

    Args:
        partial: the share of the points that the work earns in spite of the faults, at least.
        help: what to look at; by default what the first fault says.

    Raises:
        Failure: there are faults.
    """
    collected = _Collected()
    token = _block.set(collected)
    try:
        yield
    finally:
        _block.reset(token)
    if collected.lines:
        parts = [
            "\n".join([head, *lines] if head else lines) for head, lines in collected.lines.items()
        ]
        raise Failure(
            "\n".join(parts), help=help or collected.help, credit=max(partial, collected.credit)
        )
