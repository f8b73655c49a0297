"""The exceptions that a check may raise: `Failure`, `NotAttempted` and `Undecided`."""

from __future__ import annotations

from workbook.common.errors import WorkbookError

#: What a student reads of a check that is undecided.
UNDECIDED = "The machine was too busy to decide this check: other programs took the processor."


class Failure(Exception):
    """The work is not right yet.

    Example::

        raise Failure(
            "max_batch_size is 1, and the 114 test rows are one request.",
            help="Look at config.pbtxt, and deploy the folder again.",
            credit=0.5,
        )

    Args:
        rationale: what was found, in plain words, with the numbers that show it.
        help: what to look at; never the answer.
        credit: the share of the points that the work still earns: 0 or more, and below 1.
        safe: what a student reads of it if a hidden variant raises it, in place of the sentence of
            that variant. It must be a literal text, without any value of the run: a submitted model
            decides what it answers, and could repeat the hidden inputs there.

    Raises:
        ValueError: the credit is below 0, or 1 or more.
    """

    def __init__(
        self, rationale: str, *, help: str = "", credit: float = 0.0, safe: str = ""
    ) -> None:
        if not 0 <= credit < 1:
            raise ValueError(f"a failure earns from 0 to below 1, not {credit}")
        self.rationale = rationale
        self.help = help
        self.credit = credit
        self.safe = safe
        super().__init__(rationale)

    def _render_traceback_(self) -> list[str]:
        """IPython calls this: a cell that raises it shows what to do, without a traceback."""
        return [f"{type(self).__name__}: {WorkbookError(self.rationale, todo=self.help)}"]


class NotAttempted(Exception):
    """There is no work to judge yet. It earns no points, and is not reported as wrong.

    Example::

        if not answers:
            raise NotAttempted("`answers` is still an empty list.")

    For a value that is still `...` or None no such line is needed: the check is then not called.
    """


class Undecided(Exception):
    """The machine was too busy for a check that compares times. That is not the student's fault.

    In a notebook the student runs the check again. In grading, the submission gets the flag
    "machine busy", and the next run grades it again.

    Args:
        found: what was measured so far, a sentence. Of a hidden variant, students do not read it.
    """

    def __init__(self, found: str = "") -> None:
        self.found = found
        super().__init__(UNDECIDED)
