"""The two ways in which a check says no."""

from __future__ import annotations


class Failure(Exception):
    """The work is not right yet.

    Args:
        rationale: what was found, in the student's words, with the figures that show it.
        help: what to look at; never the answer.
        credit: the share of the points that the work still earns, from 0 to below 1.
    """

    def __init__(self, rationale: str, *, help: str = "", credit: float = 0.0) -> None:
        if not 0 <= credit < 1:
            raise ValueError(f"a failure earns from 0 to below 1, not {credit}")
        self.rationale = rationale
        self.help = help
        self.credit = credit
        super().__init__(rationale)


class NotAttempted(Exception):
    """There is nothing to judge yet. It earns nothing, and is never called wrong."""
