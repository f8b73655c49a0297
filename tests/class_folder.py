"""A class's folder for tests, in `grader/work` of the checkout, where an instructor's class lies.

Code that walks through the course's packages meets the submissions there, and must not read them. A
folder elsewhere would not test this.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grader

#: An instructor's own data lies in it. Tests only make and remove folders of their own there.
WORK = Path(grader.__file__).parent / "work"
_PREFIX = "test-"


@contextmanager
def class_folder() -> Iterator[Path]:
    """Yield a new, empty folder inside `grader/work`; remove it afterwards."""
    WORK.mkdir(exist_ok=True)
    for left in WORK.glob(f"{_PREFIX}*"):  # left by a test run that was killed
        if time.time() - left.stat().st_mtime > 6 * 3600:
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=WORK))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
