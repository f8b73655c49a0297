"""Open nbgrader's database. If that fails, the error says what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from workbook.common.errors import WorkbookError

from .classroom import Classroom


@contextlib.contextmanager
def open_gradebook(classroom: Classroom) -> Iterator[Any]:
    """The gradebook of a class, as nbgrader's class Gradebook.

    Example::

        with database.open_gradebook(classroom) as gradebook:
            gradebook.remove_submission("a2__forest", "anna")

    Raises:
        WorkbookError: another program has it open and writes, or it is no gradebook.
    """
    from nbgrader.api import Gradebook  # late: nbgrader takes seconds to import
    from sqlalchemy.exc import DatabaseError

    try:
        with Gradebook(f"sqlite:///{classroom.gradebook}") as gradebook:
            yield gradebook
    except DatabaseError as error:
        busy = "locked" in str(error)
        raise WorkbookError(
            "The gradebook is in use." if busy else f"The gradebook cannot be used: {error.orig}.",
            where=str(classroom.gradebook),
            todo="Close what else has it open, and run this again."
            if busy
            else "Put a copy in its place, or remove it: `make grade` writes the scores anew.",
        ) from None
