"""`grader new a8`: the files of a new assignment, with one small task that works.

The templates in templates/ are the files of an assignment `a0__draft`.
"""

from __future__ import annotations

import re
from pathlib import Path

from workbook import assignments
from workbook.assignments import Assignment
from workbook.common import paths
from workbook.common.errors import WorkbookError

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"(a[1-9][0-9]?)(?:__([a-z0-9]+(?:_[a-z0-9]+)*))?")
#: Each template, and the file that is made of it.
_FILES = {
    "notebook.py.in": "solutions/{name}/{short}.py",
    "starter/config.pbtxt.in": "solutions/{name}/starter/models/double/config.pbtxt",
    "starter/model.py.in": "solutions/{name}/starter/models/double/1/model.py",
    "solution/config.pbtxt.in": "solutions/{name}/solution/models/double/config.pbtxt",
    "solution/model.py.in": "solutions/{name}/solution/models/double/1/model.py",
    "checks.py.in": "solutions/{name}/checks.py",
    "facts.py.in": "solutions/{name}/facts.py",
    "hidden.py.in": "solutions/{name}/hidden.py",
    "mutants.py.in": "solutions/{name}/mutants.py",
}


def new(name: str, home: Path | None = None) -> list[Path]:
    """Write the skeleton of an assignment. `grader try` can grade it at once.

    Example::

        new("a8__double")      # solutions/a8__double/a8.py, solutions/a8__double/checks.py, …

    Args:
        name: `a8__double`; `a8` alone becomes `a8__draft`.
        home: the checkout; by default this one.

    Returns:
        The files.

    Raises:
        WorkbookError: the name is no assignment's, or is taken. Then nothing is written.
    """
    home = home or paths.root()
    match = _NAME.fullmatch(name)
    if match is None:
        raise WorkbookError(
            f"{name[:80]!r} cannot be an assignment's name.",
            todo="Write a, a number from 1 to 99, two underscores, and a word in small letters: "
            "a8__double. Or only a8.",
        )
    short, topic = match[1], match[2] or "draft"
    full = f"{short}__{topic}"
    if taken := [one.name for one in assignments.find(home) if one.short == short]:
        raise WorkbookError(
            f"There is an assignment {taken[0]} already.",
            where=f"solutions/{taken[0]}",
            todo="Take another number.",
        )
    made = {
        home / target.format(name=full, short=short): _TEMPLATES / template
        for template, target in _FILES.items()
    }
    for path in made:
        if path.exists():
            raise WorkbookError(
                f"A file of another {short} is there already.",
                where=str(path.relative_to(home)),
                todo="Delete it, or take another number.",
            )
    number, title = short.removeprefix("a"), topic.replace("_", " ")
    for path, template in made.items():
        text = template.read_text("utf-8")
        for old, fill in (
            ("a0__draft", full),
            ("Assignment 0: draft", f"Assignment {number}: {title}"),
        ):
            text = text.replace(old, fill)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub(r"\ba0(?=[._\s`\"])", short, text), "utf-8")
    return [*made, *assignments.update(Assignment(full, home))]
