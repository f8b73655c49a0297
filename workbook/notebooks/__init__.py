"""From py:percent sources to notebooks: reading, building, executing."""

from .source import (
    END,
    KINDS,
    MARKER,
    STUB,
    Cell,
    Source,
    check_calls,
    dotted,
    grade_id,
    notebook,
    read,
    text,
)

__all__ = [
    "END",
    "KINDS",
    "MARKER",
    "STUB",
    "Cell",
    "Source",
    "check_calls",
    "dotted",
    "grade_id",
    "notebook",
    "read",
    "text",
]
