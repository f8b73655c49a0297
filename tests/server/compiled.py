"""The compiled helpers: what their tests need, and how to copy them to another checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from workbook.server.assemble import find

_OURS = find()

needs_compiler = pytest.mark.skipif(
    _OURS.preload is None, reason="there is no C++ compiler: install g++, as `make doctor` says"
)


def share(home: Path) -> Path:
    """Copy this checkout's backend directory to another one, which then need not compile it: 4 s.

    Returns:
        The other checkout's folder.
    """
    target = home / ".workbook" / "server" / _OURS.backends.name
    shutil.copytree(_OURS.backends, target)
    return home
