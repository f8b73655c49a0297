"""One source per notebook: py:percent → ipynb, the same bytes each time.

A source starts with a header in YAML, then come its cells:

    # ---
    # title: Forests on FIL
    # minutes: 90
    # ---

    # %% [markdown]
    # Text, as markdown.

    # %% kind="solution" id="a2.train"
    ### BEGIN SOLUTION
    ### STUB model = ...
    model = XGBClassifier().fit(x, y)
    ### END SOLUTION

    # %% kind="check" id="a2.train_ok" points=15
    check("a2.train_ok", model="forest")

Tags of a cell (a cell without `kind` is a plain one):

| kind     | cell     | id  | points | in the student's notebook                                  |
|----------|----------|-----|--------|------------------------------------------------------------|
| check    | code     | yes | yes    | locked; calls `check("<its own id>", …)` exactly once      |
| solution | code     | yes | no     | the lines from BEGIN to END SOLUTION are left out          |
| written  | markdown | yes | yes    | an answer in words, graded by hand; its text, or the lines |
|          |          |     |        | from BEGIN to END SOLUTION, are left out                   |
| given    | either   | yes | no     | locked                                                     |

`tags=["…"]` is allowed on every cell. In place of a solution, students get a comment that says
where to type, and below it the text of the solution's lines `### STUB name = ...` (`name = ...`).
nbgrader allows no dots in its ids, and we allow no hyphens in ours, so each `a2.train` is one
`a2-train` and the other way round.

A cell's id is a hash of its grade id, or of its content. Keys are sorted, and metadata does not
depend on the machine, so that building twice gives the same bytes.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from ..common.errors import WorkbookError

if TYPE_CHECKING:
    from nbformat import NotebookNode

KINDS = ("check", "solution", "written", "given")
BEGIN, END, STUB = "### BEGIN SOLUTION", "### END SOLUTION", "### STUB"
MARKER = re.compile(r"(?i:(BEGIN|END)[ _-]*SOLUTION)|#\s*STUB\b")
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
_CELL = re.compile(r"\s*#\s*%%(%*\s|\s*$)")
_READERS_OWN = {"lines_to_next_cell", "lines_to_end_of_cell_marker", "cell_marker", "region_name"}


@dataclass(frozen=True)
class Cell:
    """One cell of a source.

    Attributes:
        type: "code", "markdown" or "raw".
        source: its text, with the solution markers in it.
        kind: one of `KINDS`, or "" for a plain cell.
        id: the id with dots (`a2.train`), or "" for a plain cell.
        points: the most points for it; 0 if it is not graded, and for the check of a bonus.
        tags: Jupyter's own cell tags.
        line: where it starts in the source file; 0 where that is not known.
        collapsed: whether JupyterLab shows a bar in place of its code.
    """

    type: str
    source: str
    kind: str = ""
    id: str = ""
    points: float = 0
    tags: tuple[str, ...] = ()
    line: int = 0
    collapsed: bool = False


@dataclass(frozen=True)
class Source:
    """A source file that was read and checked.

    Attributes:
        path: the file.
        header: the fields of its YAML header, e.g. `title` and `minutes`.
        cells: its cells, in their order.
    """

    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    cells: tuple[Cell, ...] = ()


def grade_id(id: str) -> str:
    """nbgrader's id of a cell, from ours: `a2.train` → `a2-train`."""
    return id.replace(".", "-")


def dotted(grade_id: str) -> str:
    """Our id of a cell, from nbgrader's: `a2-train` → `a2.train`."""
    return grade_id.replace("-", ".")


def read(path: Path) -> Source:
    """Read a py:percent source, and check its header and its tags.

        source = read(Path("lectures/1_architecture/01__first_model/lesson.py"))
        source.header["minutes"], len(source.cells)

    Raises:
        WorkbookError: the file, line and field that are wrong, and what to write.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkbookError(
            f"The source cannot be read: {error}.",
            where=str(path),
            todo="Sources are UTF-8 text in py:percent, see workbook/notebooks/source.py.",
        ) from None
    header = _header(path, text)
    try:
        import jupytext  # late, as nbformat: they take a second to import

        parsed = list(jupytext.reads(text, fmt="py:percent").cells)
    except Exception as error:  # any error of the parser is a mistake in the source
        raise WorkbookError(
            f"The source is not py:percent: {str(error).splitlines()[0]}",
            where=str(path),
            todo="Start each cell with a line such as `# %%` or `# %% [markdown]`.",
        ) from None
    if header:
        parsed = parsed[1:]  # jupytext makes a raw cell of it
    lines = _cell_lines(text)
    if len(lines) + 1 == len(parsed):  # code above the first marker is a cell too
        lines = [1, *lines]
    if len(lines) != len(parsed):
        lines = [0] * len(parsed)
    cells = tuple(_cell(path, raw, line) for raw, line in zip(parsed, lines, strict=True))
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.id and cell.id in seen:
            raise _wrong(
                path,
                cell.line,
                "id",
                f'The id "{cell.id}" is taken by the cell in line {seen[cell.id].line}.',
                "Give each cell an id of its own.",
            )
        seen[cell.id] = cell
    return Source(path, header, cells)


def notebook(source: Source) -> NotebookNode:
    """The notebook of a source, without outputs, with nbgrader's metadata on tagged cells.

        node = notebook(read(path))

    Args:
        source: what `read` returned.
    """
    repeats: Counter[str] = Counter()
    cells = []
    for cell in source.cells:
        content = cell.id or f"{cell.type}\n{cell.source}"
        name = f"{content}\n{repeats[content]}"
        repeats[content] += 1
        node: dict[str, Any] = {
            "cell_type": cell.type,
            "id": hashlib.sha256(name.encode()).hexdigest()[:16],
            "metadata": _metadata(cell),
            "source": cell.source,
        }
        if cell.type == "code":
            node |= {"execution_count": None, "outputs": []}
        cells.append(node)
    import nbformat

    return nbformat.from_dict(  # type: ignore[no-untyped-call,no-any-return]
        {
            "cells": cells,
            "metadata": {
                "kernelspec": KERNEL,
                "language_info": {"name": "python"},
                "workbook": dict(source.header),
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


def check_calls(source: str) -> list[str]:
    """The ids that code calls `check` with, in order; "" where the id is not a literal text.

    Raises:
        SyntaxError: the code is not Python, apart from magics and shell lines.
    """
    magic = re.match(r"\s*%%(\w+)", source)
    if magic and magic[1] not in ("capture", "time"):
        return []  # another language, or a file's content
    python = re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", source)
    found = []
    for node in ast.walk(ast.parse(python)):
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", "")) == "check":
            first = node.args[0] if node.args else None
            id = first.value if isinstance(first, ast.Constant) else ""
            found.append(id if isinstance(id, str) else "")
    return found


def text(node: NotebookNode) -> str:
    """A notebook as the text of its file: keys sorted, one space of indent, UTF-8.

    Raises:
        WorkbookError: it is not a valid notebook.
    """
    import nbformat

    try:
        nbformat.validate(node)
    except nbformat.ValidationError as error:
        raise WorkbookError(f"The notebook is not valid: {error.message}") from None
    return nbformat.writes(node, version=nbformat.NO_CONVERT) + "\n"  # type: ignore[no-untyped-call,no-any-return]


def _wrong(path: Path, line: int, field: str, what: str, todo: str) -> WorkbookError:
    place = f"{path}, line {line}" if line else str(path)
    return WorkbookError(what, where=f"{place}, {field}", todo=todo)


def _header(path: Path, text: str) -> dict[str, Any]:
    """The content of the YAML between the first two `# ---` lines; {} if there is none."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != "# ---":
        return {}
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() == "# ---"), None)
    stray = next((i for i, line in enumerate(lines[:end]) if not line.startswith("#")), None)
    if end is None or stray is not None:
        raise _wrong(
            path,
            (stray or 0) + 1,
            "header",
            "The header does not end.",
            "Close it with a line `# ---`; each line of it starts with `# `.",
        )
    example = "Write fields such as `# title: Forests on FIL` and `# minutes: 20`."
    import yaml

    try:
        fields = yaml.safe_load("\n".join(line[1:].removeprefix(" ") for line in lines[1:end]))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 2 + (mark.line if mark else 0)
        problem = getattr(error, "problem", None) or "see YAML's rules"
        raise _wrong(path, line, "header", f"The header is not YAML: {problem}.", example) from None
    if not isinstance(fields, dict) or not fields:
        raise _wrong(path, 2, "header", "The header holds no fields.", example)

    def line_of(name: object) -> int:
        found = (
            i for i, line in enumerate(lines[:end], 1) if line[1:].strip().startswith(f"{name}")
        )
        return next(found, 2)

    for name, value in fields.items():
        if not isinstance(name, str) or name == "jupyter":
            raise _wrong(
                path,
                line_of(name),
                f"header, {name}",
                f"`{name}` is not a field of ours; metadata is the builder's.",
                "Take it out.",
            )
        plain = isinstance(value, str | int | float | bool)
        words = isinstance(value, list) and all(isinstance(word, str) for word in value)
        if not (plain or words) or (isinstance(value, float) and not math.isfinite(value)):
            raise _wrong(
                path,
                line_of(name),
                f"header, {name}",
                f"`{name}` has to be a text, a number, yes or no, or a list of texts.",
                "Write a text with a colon in it, or a date, between quotes.",
            )
    if "title" in fields and not isinstance(fields["title"], str):
        raise _wrong(path, line_of("title"), "header, title", "The title is not a text.", example)
    if "minutes" in fields and not (_number(fields["minutes"]) and fields["minutes"] > 0):
        raise _wrong(
            path,
            line_of("minutes"),
            "header, minutes",
            "`minutes` has to be a number above 0.",
            "Write how long a reader needs, e.g. `# minutes: 20`.",
        )
    return fields


def _cell_lines(text: str) -> list[int]:
    """The lines on which cells start, counted from 1; markers inside strings do not count."""
    from jupytext.stringparser import StringParser

    parser = StringParser("python")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not parser.is_quoted() and _CELL.match(line):
            found.append(number)
        parser.read_line(line)
    return found


def _cell(path: Path, raw: NotebookNode, line: int) -> Cell:
    """One cell that jupytext read, its tags checked."""
    tags = {k: v for k, v in raw.metadata.items() if k not in _READERS_OWN}
    form = '`# %% kind="check" id="a2.train" points=15`'
    for name, value in tags.items():
        if name not in ("kind", "id", "points", "tags"):
            raise _wrong(
                path,
                line,
                "cell header",
                f"The cell's header holds something that is no tag: {name} ({value}).",
                f"The tags are kind, id, points and tags; write texts in quotes: {form}.",
            )
    kind, id, points = (tags.get(k) for k in ("kind", "id", "points"))
    cell = Cell(raw.cell_type, raw.source, tags=tuple(tags.get("tags", ())), line=line)
    if kind is None:
        if id is not None or points is not None:
            raise _wrong(
                path,
                line,
                "kind",
                "The cell has an id or points and no kind.",
                f"Add the kind, one of {', '.join(KINDS)}: {form}.",
            )
        _no_markers(path, cell)
        return cell
    if kind not in KINDS:
        raise _wrong(
            path,
            line,
            "kind",
            f'"{kind}" is not a kind of cell.',
            f"Write one of {', '.join(KINDS)}: {form}.",
        )
    wanted = {"check": ("code",), "solution": ("code",), "written": ("markdown",)}
    if raw.cell_type not in wanted.get(kind, ("code", "markdown")):
        raise _wrong(
            path,
            line,
            "kind",
            f"A {kind} cell cannot be a {raw.cell_type} cell.",
            "Checks and solutions are code; written answers are `# %% [markdown]`.",
        )
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise _wrong(
            path,
            line,
            "id",
            f"The {kind} cell has no id." if id is None else f"{id!r} is not an id.",
            'Write `id="a2.train"`: the assignment, a dot, and small letters, digits or _.',
        )
    graded = kind in ("check", "written")
    if not graded and points is not None:
        raise _wrong(
            path,
            line,
            "points",
            f"A {kind} cell has no points.",
            "Give the points to the check cell, or to a written one.",
        )
    if graded and not (_number(points) and (points > 0 or (points == 0 and kind == "check"))):
        raise _wrong(
            path,
            line,
            "points",
            f"The {kind} cell has no points." if points is None else f"{points!r} are no points.",
            f"Write a number above 0, or 0 for the check of a bonus: {form}.",
        )
    cell = Cell(raw.cell_type, raw.source, kind, id, points or 0, cell.tags, line)
    if kind in ("solution", "written"):
        _regions(path, cell)
    else:
        _no_markers(path, cell)
    if kind == "check":
        _calls_itself(path, cell)
    return cell


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _no_markers(path: Path, cell: Cell) -> None:
    for offset, line in enumerate(cell.source.split("\n"), 1):
        if MARKER.search(line):
            raise _wrong(
                path,
                cell.line and cell.line + offset,
                "solution marker",
                "A cell that is not a solution has a solution marker.",
                'Tag the cell with kind="solution" (code) or kind="written" (markdown).',
            )


def _regions(path: Path, cell: Cell) -> None:
    """Refuse markers that are misspelt, nested, not closed or, in a solution cell, not there."""
    inside, regions = False, 0
    todo = f"Put what students shall not see between lines `{BEGIN}` and `{END}`."
    for offset, line in enumerate(cell.source.split("\n"), 1):
        if not MARKER.search(line):
            continue
        word = line.strip()
        place = cell.line and cell.line + offset
        if word not in (BEGIN, END) and not re.fullmatch(rf"{STUB}( .*)?", word):
            what = f"The marker is misspelt: {word[:60]!r}."
            raise _wrong(path, place, "solution marker", what, todo)
        if (word == BEGIN) == inside:
            what = {
                BEGIN: "A solution region begins inside another one.",
                END: "A solution region ends that has not begun.",
            }.get(word, "A stub stands outside a solution region.")
            raise _wrong(path, place, "solution marker", what, todo)
        if word in (BEGIN, END):
            inside = word == BEGIN
            regions += inside
    if inside:
        what = "The solution region does not end."
        raise _wrong(path, cell.line, "solution marker", what, todo)
    if cell.kind == "solution" and not regions:
        what = "The solution cell has no solution region."
        raise _wrong(path, cell.line, "solution marker", what, todo)


def _calls_itself(path: Path, cell: Cell) -> None:
    """Refuse a check cell that does not call `check` once, with its own id as a literal."""
    todo = f'Call it once, with the cell\'s own id: `check("{cell.id}", …)`.'
    try:
        calls = check_calls(cell.source)
    except SyntaxError as error:
        line = cell.line and cell.line + (error.lineno or 1)
        what = f"The check cell is not Python: {error.msg}."
        raise _wrong(path, line, "check", what, todo) from None
    if calls != [cell.id]:
        what = (
            f'The cell "{cell.id}" calls the check {calls[0] or "without an id"}.'
            if len(calls) == 1
            else f"The check cell calls `check` {len(calls)} times."
        )
        raise _wrong(path, cell.line, "check", what, todo)


def _metadata(cell: Cell) -> dict[str, Any]:
    metadata: dict[str, Any] = {"tags": list(cell.tags)} if cell.tags else {}
    if cell.collapsed:
        metadata["jupyter"] = {"source_hidden": True}
    if cell.kind:
        metadata["nbgrader"] = {
            "grade": cell.kind in ("check", "written"),
            "grade_id": grade_id(cell.id),
            "locked": cell.kind in ("check", "given"),
            "schema_version": 3,
            "solution": cell.kind in ("solution", "written"),
            "task": False,
            "cell_type": cell.type,
        } | ({"points": cell.points} if cell.kind in ("check", "written") else {})
    return metadata
