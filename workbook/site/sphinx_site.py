"""Sphinx makes the site from executed lectures and `docs/`, with MyST-NB and a book theme."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nbformat import NotebookNode

from ..assignments import CLUTTER
from ..common import paths
from ..common.errors import WorkbookError
from ..lessons import syllabus
from ..notebooks import text
from ..notebooks.building import FOLDERS, IMAGES, Lecture
from .documents import documents
from .pages import page

_THEME = Path(__file__).parent / "theme"
_INDEX = """\
# Triton Workbook

A course on NVIDIA Triton Inference Server. Each page is a notebook that ran on a real server, with
the numbers of that run. Where a page asks for a prediction, the answer is folded: think first, then
open it. The solutions of tasks are folded too.

To run the notebooks yourself, and to do the tasks, you need a Linux machine without a GPU: the
README of the course tells how.

```{toctree}
:maxdepth: 1

00__start/00__start
```
"""


def build(lectures: Mapping[Path, NotebookNode], target: Path) -> Path:
    """Build the site anew.

        print(build(executed.everything(), Path(".workbook/site")))     # …/index.html

    Args:
        lectures: source in the checkout → executed notebook, in the order of the course.
        target: the folder of the site; what is in it is replaced.

    Returns:
        The first page.

    Raises:
        WorkbookError: Sphinx found a mistake, e.g. a link that leads nowhere.
    """
    home = paths.root() / "lectures"
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        shutil.copytree(_THEME, place, dirs_exist_ok=True)
        there = (p.relative_to(home) for p in home.glob("**/*") if p.is_file())
        files = [path for path in there if _is_shown(path)]
        for file in files:
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(home / file, place / file)
        names = {source: Lecture(source).built.relative_to(home) for source in lectures}
        for source, node in lectures.items():
            file = place / names[source]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text(page(node, names[source], {*names.values(), *files})), "utf-8")
        texts = documents(names.values())
        for file, content in texts.items():
            (place / file).parent.mkdir(exist_ok=True)
            (place / file).write_text(content, "utf-8")
        contents = _contents(list(names.values()), list(texts))
        (place / "index.md").write_text(_INDEX + contents, "utf-8")
        made = place / "_build"
        _sphinx(place, made)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
    return target / "index.html"


def _is_shown(path: Path) -> bool:
    """Whether pages show a file, or link to it: a picture, or a file of a notebook's models.

    Args:
        path: the file, relative to the folder of all lectures.
    """
    beside = path.suffix not in (".md", ".ipynb") and {*FOLDERS}.intersection(path.parts)
    return path.suffix in IMAGES or (bool(beside) and not CLUTTER.intersection(path.parts))


def _contents(pages: list[Path], documents: list[Path]) -> str:
    """The table of contents, one part per lecture, and one for the pages of `docs/`."""
    captions = {folder: syllabus.heading(folder) for folder in syllabus.LECTURES}
    captions["docs"] = "For instructors and developers"
    parts = []
    for folder, caption in captions.items():
        own = [page.with_suffix("") for page in [*pages, *documents] if page.parts[0] == folder]
        if own:
            head = ["", "```{toctree}", ":maxdepth: 1", f":caption: {caption}", ""]
            parts += [*head, *map(str, own), "```"]
    return "\n".join([*parts, ""])


def _sphinx(place: Path, made: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    done = subprocess.run(
        [*command, "-d", str(place / "_doctrees"), str(place), str(made)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise WorkbookError(
            "The site cannot be built: Sphinx found mistakes.",
            where=str(paths.root() / "lectures"),
            todo="Correct these in the lectures' sources, or in docs/:\n"
            + done.stderr.replace(f"{place}/", "lectures/").strip(),
        )
