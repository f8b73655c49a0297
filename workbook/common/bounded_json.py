"""Read JSON of unknown origin: check size, depth and number of values before parsing.

`json.loads` needs up to 100 times the size of its text: 18 MB of `[],[],…` become 400 MB, and each
step after it needs as much again. So the text is checked first with a regular expression, in one
pass that builds no objects and ends at the limit.

    content = bounded_json.loads(path.read_bytes())
"""

from __future__ import annotations

import json
import re
from typing import Any

MOST_BYTES = 20 << 20
"""The longest text that is parsed."""
MOST_TOKENS = 500_000
"""The most strings, brackets and commas together. There are never more values than these."""
MOST_DEPTH = 100
"""The deepest nesting. Functions that walk through the result need a few calls for each level."""

#: A string (also one without an end, so that no byte is looked at twice), a bracket or a comma.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[][{},]', re.DOTALL)


class TooLarge(ValueError):
    """A text exceeds one of the limits. The message says which."""


def loads(text: bytes) -> Any:
    """Parse a JSON text in UTF-8, if it is within the limits.

    Raises:
        TooLarge: it is longer than `MOST_BYTES`, or holds more or deeper than the other limits.
        ValueError: it is not JSON.
    """
    check(text)
    try:
        return json.loads(text.decode("utf-8"))
    except RecursionError:  # the caller's own stack is deep already
        raise TooLarge("It is nested too deeply.") from None


def check(text: bytes) -> None:
    """Raise `TooLarge` for a text that is beyond one of the limits. It need not be JSON."""
    if len(text) > MOST_BYTES:
        raise TooLarge(f"It is larger than {MOST_BYTES >> 20} MiB.")
    depth = 0
    for count, token in enumerate(_TOKEN.finditer(text), 1):
        if count > MOST_TOKENS:
            raise TooLarge(f"It holds more than {MOST_TOKENS} values, brackets and commas.")
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise TooLarge(f"It is nested more than {MOST_DEPTH} levels deep.")
        elif first in b"]}":
            depth -= 1
