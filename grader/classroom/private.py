"""Keep the paths of the instructor's machine out of what students get.

Tracebacks, warnings and the server's messages name files: those of the course's packages lie in the
instructor's checkout, often below a home folder with the instructor's name.
"""

from __future__ import annotations

import functools
import re
import sys
from html import escape
from pathlib import Path

import workbook
from workbook.common import paths

from .classroom import Classroom


def without_paths(text: str, home: Path | None = None) -> str:
    """A text, or HTML, with `…` in place of the folders of this machine.

    Example: `without_paths("/home/ann/course/workbook/x.py") == "…/workbook/x.py"`.

    Args:
        text: the text.
        home: the classroom's folder; by default that of this checkout.
    """
    return _pattern(home or Classroom.default().home, paths.root(), Path.home()).sub("…", text)


@functools.lru_cache(maxsize=16)
def _pattern(*known: Path) -> re.Pattern[str]:
    """The folders to hide. Each is also hidden as its links resolve, and as HTML escapes it."""
    package = Path(workbook.__file__).parents[1]
    folders = {*known, package, Path(sys.prefix), Path(sys.base_prefix)}
    folders |= {folder.resolve() for folder in folders}
    # /usr and / tell nothing about the machine, and stand in texts for other reasons.
    texts = {str(f) for f in folders if len(f.parts) > 1 and not f.is_relative_to("/usr")}
    texts |= {escape(text) for text in texts}
    longest = sorted(texts, key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(map(re.escape, longest))})(?![\w.-])")
