"""The sources of notebooks, each parsed once: jupytext takes a tenth of a second for one."""

from __future__ import annotations

import functools
from pathlib import Path

from workbook import notebooks
from workbook.notebooks import Source


@functools.cache
def read(path: Path) -> Source:
    """A source in this checkout. No test changes it."""
    return notebooks.read(path)
