"""What an assignment is, how it is built and released, and how a student hands it in."""

from .assignment import (
    CLUTTER,
    Assignment,
    Leak,
    build,
    files,
    find,
    gate,
    leaks,
    named,
    programs,
    release,
)

__all__ = [
    "CLUTTER",
    "Assignment",
    "Leak",
    "build",
    "files",
    "find",
    "gate",
    "leaks",
    "named",
    "programs",
    "release",
]
