"""Whether a reader is there to answer a notebook's questions.

Lectures run without a reader when their pages are built and when they are tested. Then nothing
waits for an answer, and a statement that does not hold is an error.
"""

from __future__ import annotations

import os

#: The environment variable for runs without a reader; any text but the empty one sets it.
UNATTENDED = "WORKBOOK_UNATTENDED"


def unattended() -> bool:
    """Whether the notebook runs without a reader: a page is built, or a test runs."""
    return bool(os.environ.get(UNATTENDED))
