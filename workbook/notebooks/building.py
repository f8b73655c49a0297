"""Bring a lecture's built notebook up to date with its source.

    for lecture in lectures():
        build(lecture)      # …/01__first_model/lesson.py → …/01__first_model/01__first_model.ipynb

The source is `lectures/**/NN__topic/lesson.py`, and the notebook lies beside it, with what belongs
to it alone: `setup.py`, `task.py`, pictures, and the folders `FOLDERS`. It has no outputs, and the
texts of predictions and claims are encoded: readers predict before they see what comes out.
Assignments are built by `workbook.assignments`; `workbook build` calls both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..common import paths
from .hide_words import hide_texts
from .source import notebook, read, text

if TYPE_CHECKING:
    from nbformat import NotebookNode

#: The name of each lecture's source.
SOURCE = "lesson.py"
#: The name of the file with the solution of a lecture's task. Readers do not get it.
SOLUTION = "solution.py"
#: Pictures of notebooks: what is copied for readers, and for the site.
IMAGES = {".gif", ".jpg", ".jpeg", ".png", ".svg", ".webp"}
#: Folders beside a notebook, with files that readers open, edit and take home.
FOLDERS = ("models", "clients", "at_work", "recorded")


@dataclass(frozen=True)
class Lecture:
    """A lecture's source, e.g. `lectures/1_architecture/01__first_model/lesson.py`."""

    source: Path

    @property
    def name(self) -> str:
        """E.g. `01__first_model`."""
        return self.source.parent.name

    @property
    def built(self) -> Path:
        """The notebook beside the source."""
        return self.source.with_name(f"{self.name}.ipynb")


def lectures(home: Path | None = None) -> list[Lecture]:
    """The lectures of a checkout, in their order.

    Args:
        home: the checkout; by default this one.
    """
    return [
        Lecture(path)
        for path in sorted((home or paths.root()).glob(f"lectures/**/{SOURCE}"))
        if re.fullmatch(r"[0-9]{2}__[a-z0-9_]+", path.parent.name)
    ]


def page(source: Path) -> NotebookNode:
    """The notebook of a lecture's source, as readers get it.

        node = page(Path("lectures/1_architecture/01__first_model/lesson.py"))

    Args:
        source: the lecture's source.

    Raises:
        WorkbookError: the source is wrong.
    """
    return notebook(hide_texts(read(source)))


def build(lecture: Lecture, *, dry: bool = False) -> list[Path]:
    """Build one lecture's notebook.

    Args:
        lecture: what to build.
        dry: change nothing.

    Returns:
        The file that was, or would be, changed; empty where the notebook is up to date.

    Raises:
        WorkbookError: the source is wrong.
    """
    content = text(page(lecture.source))
    if lecture.built.is_file() and lecture.built.read_bytes() == content.encode():
        return []
    if not dry:
        lecture.built.write_text(content, "utf-8")
    return [lecture.built]
