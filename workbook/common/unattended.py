"""Whether somebody sits in front of a notebook.

Lectures run without a reader when their pages are built and when they are tested. Then nothing
waits for an answer, and a statement that does not hold is an error.
"""

from __future__ import annotations

import os

#: The environment variable that says that nobody reads along: any text but the empty one.
UNATTENDED = "WORKBOOK_UNATTENDED"


def unattended() -> bool:
    """Whether the notebook runs without a reader: a page is built, or a test runs."""
    return bool(os.environ.get(UNATTENDED))
