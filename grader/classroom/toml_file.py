"""Read a file that an instructor writes in TOML: deadlines.toml, grades.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_MOST_BYTES = 1 << 20


class TooLargeError(Exception):
    """A file has more than 1 MiB: nobody has written it by hand."""

    def __init__(self) -> None:
        super().__init__("It is larger than 1 MiB.")


def read(file: Path) -> dict[str, Any]:
    """The content of a file; empty if there is none.

    Raises:
        OSError: it cannot be read.
        TooLargeError: it is too large to be read.
        ValueError, RecursionError: it is no text in UTF-8 (UnicodeDecodeError), or no TOML.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    if len(content) > _MOST_BYTES:
        raise TooLargeError
    return tomllib.loads(content.decode("utf-8-sig"))
