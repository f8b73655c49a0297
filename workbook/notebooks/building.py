"""`workbook build`: bring every built notebook up to date with its source.

Sources are assignments (`workbook.assignments`) and lectures, `lectures/**/NN__topic.py` with the
notebook beside them. A lecture may be committed executed: cells whose source is the same keep their
outputs, so that building it again changes nothing.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import assignments, notebooks
from ..assignments import Assignment
from ..common import paths
from ..common.errors import WorkbookError


@dataclass(frozen=True)
class Lecture:
    """A lecture's source, e.g. `lectures/1_architecture/01__first_model.py`."""

    source: Path

    @property
    def name(self) -> str:
        return self.source.stem


def sources(names: Sequence[str] = (), home: Path | None = None) -> list[Assignment | Lecture]:
    """The lectures and assignments of a checkout, all of them or those that are named.

    Raises:
        WorkbookError: a name is that of none.
    """
    home = home or paths.root()
    found: list[Assignment | Lecture] = [
        Lecture(path)
        for path in sorted(home.glob("lectures/**/*.py"))
        if re.fullmatch(r"[0-9]{2}__[a-z0-9_]+", path.stem)
    ]
    found += [a for a in assignments.find(home) if a.source.is_file()]
    chosen = [s for s in found if not names or not {s.name, _short(s)}.isdisjoint(names)]
    known = {name for s in chosen for name in (s.name, _short(s))}
    for name in names:
        if name not in known:
            raise WorkbookError(
                f"There is no source called {name!r}.",
                where=str(home),
                todo="Name an assignment (a2) or a lecture (01__first_model).",
            )
    return chosen


def build(source: Assignment | Lecture, *, dry: bool = False) -> list[Path]:
    """Build one source.

    Args:
        source: one of `sources`.
        dry: change nothing.

    Returns:
        The files that were, or would be, changed; when dry, also files in the student's folder
        that the source does not make.
    """
    if isinstance(source, Lecture):
        target = source.source.with_suffix(".ipynb")
        node = notebooks.notebook(notebooks.read(source.source), outputs_from=target)
        text = notebooks.text(node)
        if target.is_file() and target.read_bytes() == text.encode():
            return []
        if not dry:
            target.write_text(text, "utf-8")
        return [target]
    with tempfile.TemporaryDirectory(prefix="workbook-build-") as folder:
        draft = Path(folder)
        made = {path.relative_to(draft) for path in assignments.build(source, into=draft)}
        changed = [name for name in sorted(made) if not _same(draft / name, source.home / name)]
        for name in [] if dry else changed:
            (source.home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(draft / name, source.home / name)
    if dry and source.handout.is_dir():
        present = {path.relative_to(source.home) for path in assignments.files(source.handout)}
        changed += sorted(name for name in present - made if name.suffix != ".zip")
    return [source.home / name for name in changed]


def _short(source: Assignment | Lecture) -> str:
    return source.short if isinstance(source, Assignment) else source.name


def _same(one: Path, other: Path) -> bool:
    """Whether two files hold the same, and both or none may be run."""
    return (
        other.is_file()
        and one.read_bytes() == other.read_bytes()
        and (one.stat().st_mode ^ other.stat().st_mode) & 0o100 == 0
    )
