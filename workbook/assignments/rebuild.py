"""Bring what is built from an assignment's source up to date."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from .assignment import Assignment, files
from .build import build


def update(assignment: Assignment, *, dry: bool = False) -> list[Path]:
    """Build an assignment aside, and replace the files that differ.

        update(named("a2"), dry=True)    # [] where everything is up to date

    Args:
        assignment: what to build.
        dry: change nothing.

    Returns:
        The files that were, or would be, changed; when dry, also files in the student's folder
        that the source does not make.

    Raises:
        WorkbookError: the source is wrong, or the result would give something away.
    """
    with tempfile.TemporaryDirectory(prefix="workbook-build-") as folder:
        draft = Path(folder)
        made = {path.relative_to(draft) for path in build(assignment, into=draft)}
        changed = [name for name in sorted(made) if not _same(draft / name, assignment.home / name)]
        for name in [] if dry else changed:
            (assignment.home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(draft / name, assignment.home / name)
    if dry and assignment.handout.is_dir():
        present = {path.relative_to(assignment.home) for path in files(assignment.handout)}
        changed += sorted(name for name in present - made if name.suffix != ".zip")
    return [assignment.home / name for name in changed]


def _same(one: Path, other: Path) -> bool:
    """Whether two files have the same content, and both or neither can be executed."""
    return (
        other.is_file()
        and one.read_bytes() == other.read_bytes()
        and (one.stat().st_mode ^ other.stat().st_mode) & 0o100 == 0
    )
