"""Bring what is built from an assignment's source up to date."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from ..common import paths
from ..common.errors import WorkbookError
from ..notebooks import building
from .assignment import Assignment, files, find
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


def update_all(
    names: Collection[str] | None, *, dry: bool = False, report: Callable[[str], None]
) -> tuple[int, list[Path]]:
    """Bring what is built from the sources of lectures and assignments up to date.

    Args:
        names: of assignments (a2) and lectures (01__first_model); by default all.
        dry: as for `update`.
        report: called with the name of each assignment before it is built.

    Returns:
        The number of sources, and the files that were, or would be, changed.

    Raises:
        WorkbookError: there is no source of a name, or one is wrong.
    """
    lectures, own = building.lectures(), [a for a in find() if a.source.is_file()]
    known = {lecture.name for lecture in lectures}.union(*({a.name, a.short} for a in own))
    for name in names or ():
        if name not in known:
            raise WorkbookError(
                f"There is no source called {name!r}.",
                where=str(paths.root()),
                todo="Name an assignment (a2) or a lecture (01__first_model).",
            )
    if names:
        lectures = [lecture for lecture in lectures if lecture.name in names]
        own = [a for a in own if not {a.name, a.short}.isdisjoint(names)]
    changed: list[Path] = []
    for lecture in lectures:
        changed += building.build(lecture, dry=dry)
    for assignment in own:
        report(assignment.name)
        changed += update(assignment, dry=dry)
    return len(lectures) + len(own), changed


def _same(one: Path, other: Path) -> bool:
    """Whether two files have the same content, and both or neither can be executed."""
    return (
        other.is_file()
        and one.read_bytes() == other.read_bytes()
        and (one.stat().st_mode ^ other.stat().st_mode) & 0o100 == 0
    )
