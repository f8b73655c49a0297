"""Compare a student's notebook with the released one: what was changed, and how to undo it.

The released notebook has a *manifest* in its metadata (`metadata.workbook`): its graded cells,
their points and checksums of their text. The student's copy keeps it, so that it can be compared
even where the release itself is missing.

Notebooks are passed as parsed JSON, and nothing in them is trusted: anything that is not a notebook
raises a WorkbookError.

    notebook, release = cells.read(Path("a2.ipynb")), cells.read(assignment.release)
    for finding in cells.compare(notebook, release):
        print(finding.sentence)
    clean = cells.restore(notebook, release)        # the release, with the student's answers
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..common import bounded_json
from ..common.errors import WorkbookError
from ..notebooks.source import dotted, grade_id

if TYPE_CHECKING:
    from nbformat import NotebookNode

VERSION = 1
"""Version of the manifest."""

Kind = Literal["edited", "deleted", "copied", "moved", "metadata", "foreign", "other version"]
_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FLAGS = ("grade", "locked", "solution", "task")


@dataclass(frozen=True)
class Expected:
    """A graded cell, as the manifest describes it.

    Attributes:
        id: its id with dots, e.g. "a2.forest".
        kind: one of `notebooks.KINDS`.
        points: its points; 0 for a cell without.
        type: "code", "markdown" or "raw".
        checksum: of its type and its source as released.
    """

    id: str
    kind: str
    points: float
    type: str
    checksum: str


@dataclass(frozen=True)
class Manifest:
    """The graded cells of a release, and its starter files relative to its folder."""

    assignment: str
    cells: tuple[Expected, ...]
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The manifest as the JSON of `metadata.workbook`."""
        return {
            "version": VERSION,
            "assignment": self.assignment,
            "cells": [vars(cell) for cell in self.cells],
            "files": list(self.files),
        }


@dataclass(frozen=True)
class Finding:
    """Something in a student's notebook that differs from the release.

    Attributes:
        kind: what happened to the cell: it was edited, deleted, copied or moved, its metadata was
            changed, or it belongs to another assignment. Or the whole notebook is of another
            version of the assignment.
        cell: the cell's id with dots; "" for the whole notebook.
        sentence: what is wrong and what to do, for the student.
    """

    kind: Kind
    cell: str
    sentence: str


@dataclass(frozen=True)
class _Cell:
    """A cell after validation: only values of the right type are kept."""

    type: str
    source: str
    id: str
    nbgrader: Mapping[str, Any]
    attachments: dict[str, dict[str, str]]

    @property
    def grade_id(self) -> str:
        return self.nbgrader["grade_id"] if self.nbgrader else ""


def read(path: Path) -> dict[str, Any]:
    """A notebook's JSON.

    Raises:
        WorkbookError: the file is missing, too large or not a JSON object.
    """
    todo = "Save the notebook in JupyterLab, or begin again with the one that you were given."
    try:
        with path.open("rb") as file:
            # One byte more than the most: the rest of a longer file is not needed to refuse it.
            content = bounded_json.loads(file.read(bounded_json.MOST_BYTES + 1))
    except bounded_json.TooLarge as error:
        raise WorkbookError(
            f"The notebook is too large: {str(error)[0].lower()}{str(error)[1:]}",
            where=str(path),
            todo="Clear its outputs (Edit, Clear Outputs of All Cells) and save it.",
        ) from None
    except (OSError, ValueError) as error:
        what = "The notebook is not there." if isinstance(error, FileNotFoundError) else ""
        raise WorkbookError(
            what or f"The notebook cannot be read: {error}.", where=str(path), todo=todo
        ) from None
    if not isinstance(content, dict):
        raise WorkbookError("The file is not a notebook.", where=str(path), todo=todo)
    return content


def checksum(type: str, source: str) -> str:
    """The SHA-256 of a cell's type and source, in 64 hexadecimal digits."""
    return hashlib.sha256(f"{type}\n{_text(source)}".encode()).hexdigest()


def describe(assignment: str, notebook: object, files: Iterable[str] = ()) -> Manifest:
    """Make the manifest of a release from the cells of its notebook."""
    cells = tuple(
        Expected(
            dotted(cell.grade_id),
            _kind(cell.nbgrader),
            cell.nbgrader.get("points", 0),
            cell.type,
            checksum(cell.type, cell.source),
        )
        for cell in _cells(notebook)
        if cell.grade_id
    )
    return Manifest(assignment, cells, tuple(files))


def manifest(notebook: object) -> Manifest:
    """Read the manifest in a notebook's metadata.

    Raises:
        WorkbookError: there is none, or it is damaged.
    """
    _cells(notebook)
    try:
        found: Any = notebook["metadata"]["workbook"]  # type: ignore[index]
        if found["version"] != VERSION:
            raise ValueError("version")
        cells = tuple(
            Expected(
                _str(c["id"]),
                _str(c["kind"]),
                _points(c["points"]),
                _str(c["type"]),
                _str(c["checksum"]),
            )
            for c in found["cells"]
        )
        files = tuple(_str(name) for name in found["files"])
        return Manifest(_str(found["assignment"]), cells, files)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WorkbookError(
            "The notebook does not say which assignment it is.",
            where="metadata.workbook",
            todo="Use the notebook that you were given: copy your answers into a fresh one.",
        ) from None


def compare(notebook: object, release: object) -> list[Finding]:
    """What differs in a student's notebook from the release, in the order of the release.

    Where the course has changed since the notebook was given out, that is one finding, and not the
    student's doing: the notebook's own manifest says which cells it was given with.

    Args:
        notebook: the student's, as JSON.
        release: the released notebook as JSON, whose manifest is used. Where it is missing, pass
            the student's notebook, which has a copy of the manifest.

    Raises:
        WorkbookError: one of them is not a notebook, or the release has no manifest.
    """
    wanted = manifest(release)
    cells = _cells(notebook)
    findings: list[Finding] = []
    own = _own_assignment(notebook)
    expected = {cell.id: cell for cell in wanted.cells}
    held = _match(cells, list(expected), _release_ids(release))
    if own != wanted.assignment and (own or not held):
        findings.append(
            Finding(
                "foreign",
                "",
                f"This is not the notebook of {wanted.assignment}"
                + (f" but that of {own[:80]}." if own else ".")
                + " Hand in the one that you were given for it.",
            )
        )
    given = _own_cells(notebook, wanted)
    new: list[str] = []
    before = ""
    steady = _rising([held[id][0] for id in expected if held.get(id)])
    for cell in expected.values():
        name = f"The {_KIND_NAMES.get(cell.kind, 'cell')} {cell.id}"
        places = held.get(cell.id, [])
        if not places and cell.id not in given:
            new.append(cell.id)
            continue
        if not places:
            todo = "Copy it back from a fresh copy of the assignment"
            findings.append(Finding("deleted", cell.id, f"{name} is missing. {todo}."))
            continue
        found, place = cells[places[0]], places[0]
        where = f"below {before}" if before else "before all others"
        if len(places) > 1:
            findings.append(
                Finding(
                    "copied",
                    cell.id,
                    f"{name} is there {len(places)} times. Keep the one {where}, and delete the "
                    "copies; for a cell of your own, make a new one with B.",
                )
            )
        text = checksum(found.type, found.source)
        before_change = given.get(cell.id, cell)  # as the student got it
        edited = text not in (cell.checksum, before_change.checksum)
        if found.type != cell.type or (edited and cell.kind in ("check", "given")):
            findings.append(
                Finding(
                    "edited",
                    cell.id,
                    f"{name} was changed. Copy its text back from a fresh copy of the assignment; "
                    "try things out in cells of your own."
                    if found.type == cell.type
                    else f"{name} is a {found.type} cell now; make it a {cell.type} cell again.",
                )
            )
        if not any(_same_metadata(found.nbgrader, one) for one in (cell, before_change)):
            findings.append(
                Finding(
                    "metadata",
                    cell.id,
                    f"The grading information of {cell.id} was changed. Take the cell from a fresh "
                    "copy of the assignment.",
                )
            )
        if place not in steady and len(places) == 1:
            findings.append(Finding("moved", cell.id, f"{name} was moved. Move it back {where}."))
        before = cell.id
    known = {place for places in held.values() for place in places}
    gone = [id for id in given if id not in expected]
    if new or gone:
        findings.insert(0, Finding("other version", "", _other_version(new, gone)))
    findings.extend(
        Finding(
            "foreign",
            dotted(cell.grade_id)[:80],
            f"A graded cell {dotted(cell.grade_id)[:80]} does not belong to this assignment. "
            "Delete it.",
        )
        for place, cell in enumerate(cells)
        if cell.grade_id and place not in known and dotted(cell.grade_id) not in gone
    )
    return findings


def restore(notebook: object, release: object) -> NotebookNode:
    """A clean notebook, ready to run: the released one with the student's answers in it.

    Checks and given cells are taken from the release. Solution and written cells have the student's
    text and the release's metadata; deleted ones are added as released. Graded cells are in the
    release's order, each followed by the student's own cells that came after it. A second copy of a
    graded cell becomes an ordinary cell. Outputs and the student's metadata are removed.

    Raises:
        WorkbookError: one of them is not a notebook.
    """
    originals = _cells(release)
    cells = _cells(notebook)
    ranks = {cell.id: rank for rank, cell in enumerate(originals) if not cell.grade_id}
    tagged = {dotted(c.grade_id): rank for rank, c in enumerate(originals) if c.grade_id}
    chosen = {
        places[0]: id for id, places in _match(cells, list(tagged), _release_ids(release)).items()
    }
    released: list[Mapping[str, Any]] = release["cells"]  # type: ignore[index]

    # Each chunk is a graded cell with the ordinary cells after it, as (rank in the release or None,
    # cell).
    head: list[tuple[int | None, dict[str, Any]]] = []
    chunks: dict[str, list[tuple[int | None, dict[str, Any]]]] = {}
    current = head
    taken = {cell.id for cell in originals if cell.grade_id}
    for place, cell in enumerate(cells):
        if place in chosen:
            id = chosen[place]
            rank = tagged[id]
            current = chunks[id] = [(rank, _released(originals[rank], released[rank], cell))]
        else:
            name = cell.id if _CELL_ID.fullmatch(cell.id) else ""
            while not name or name in taken:
                name = hashlib.sha256(f"{place}\n{name}".encode()).hexdigest()[:16]
            taken.add(name)
            current.append((ranks.get(cell.id), _plain(cell, name)))

    result = head
    begin = 0  # where the chunk that is being filled begins in the result
    for id, rank in tagged.items():
        if id in chunks:
            begin = len(result)
            result.extend(chunks[id])
            continue
        later = (i for i in range(begin, len(result)) if (result[i][0] or -1) > rank)
        place = next(later, len(result))
        result.insert(place, (rank, _released(originals[rank], released[rank], None)))
        begin = place
    import nbformat  # late: it takes a second to import

    return nbformat.from_dict(  # type: ignore[no-untyped-call,no-any-return]
        {
            "cells": [cell for _, cell in result],
            "metadata": release["metadata"],  # type: ignore[index]
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


def _rising(places: list[int]) -> set[int]:
    """A longest increasing subsequence of the places: all other cells were moved."""
    ends: list[int] = []  # the last place of the best subsequence of each length
    before: dict[int, int | None] = {}
    for place in places:
        at = bisect.bisect_left(ends, place)
        before[place] = ends[at - 1] if at else None
        ends[at : at + 1] = [place]
    found: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        found.add(last)
        last = before[last]
    return found


_KIND_NAMES = {
    "check": "check",
    "solution": "task's cell",
    "written": "written answer",
    "given": "cell",
}


def _text(value: str) -> str:
    """The text, with characters that UTF-8 cannot encode replaced."""
    return value.encode("utf-8", "replace").decode("utf-8")


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return _text(value)


def _points(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("not a number")
    return value


def _cells(notebook: object) -> list[_Cell]:
    """The cells of a notebook in format 4.

    Raises:
        WorkbookError: it is not such a notebook; the error says why.
    """
    todo = "Save it in JupyterLab, or begin again with the notebook that you were given."
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        if isinstance(notebook, dict) and "worksheets" in notebook:
            what = "The notebook is in an old format; format 4 is needed."
            raise WorkbookError(what, where="nbformat", todo=todo)
        raise WorkbookError("This is not a notebook.", where="cells", todo=todo)
    version = notebook.get("nbformat")
    if isinstance(version, bool) or version != 4:
        raise WorkbookError("The notebook is not in format 4.", where="nbformat", todo=todo)
    if not isinstance(notebook.get("metadata"), dict):
        raise WorkbookError("The notebook has no metadata.", where="metadata", todo=todo)
    return [_one(cell, place, todo) for place, cell in enumerate(notebook["cells"])]


def _one(cell: object, place: int, todo: str) -> _Cell:
    def wrong(what: str, field: str) -> WorkbookError:
        return WorkbookError(what, where=f"cells[{place}]{field}", todo=todo)

    if not isinstance(cell, dict):
        raise wrong("A cell is not an object.", "")
    if cell.get("cell_type") not in ("code", "markdown", "raw"):
        raise wrong("A cell is neither code nor text.", ".cell_type")
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise wrong("A cell has no source.", ".source")
    metadata = cell.get("metadata", {})
    if not isinstance(metadata, dict):
        raise wrong("A cell's metadata is not an object.", ".metadata")
    tag = metadata.get("nbgrader")
    nbgrader = {}
    if isinstance(tag, dict) and isinstance(tag.get("grade_id"), str) and tag["grade_id"]:
        nbgrader = tag | {"grade_id": _text(tag["grade_id"])}
    id = cell.get("id")
    attachments = cell.get("attachments")
    return _Cell(
        cell["cell_type"],
        _text(source),
        _text(id) if isinstance(id, str) else "",
        nbgrader,
        {
            _text(name): {_text(k): _text(v) for k, v in bundle.items() if isinstance(v, str)}
            for name, bundle in (attachments if isinstance(attachments, dict) else {}).items()
            if isinstance(bundle, dict)
        },
    )


def _kind(nbgrader: Mapping[str, Any]) -> str:
    if nbgrader.get("grade"):
        return "written" if nbgrader.get("solution") else "check"
    return "solution" if nbgrader.get("solution") else "given"


def _same_metadata(nbgrader: Mapping[str, Any], cell: Expected) -> bool:
    wanted = {
        "grade": cell.kind in ("check", "written"),
        "locked": cell.kind in ("check", "given"),
        "solution": cell.kind in ("solution", "written"),
        "task": False,
    }
    points = nbgrader.get("points", 0)
    return (
        bool(nbgrader)
        and nbgrader["grade_id"] == grade_id(cell.id)
        and all(nbgrader.get(flag, False) is wanted[flag] for flag in _FLAGS)
        and not isinstance(points, bool)
        and (points == cell.points or not wanted["grade"])
    )


def _own_assignment(notebook: Any) -> str:
    """The name of the assignment in a notebook's metadata; "" where there is none."""
    held = notebook["metadata"].get("workbook")
    name = held.get("assignment") if isinstance(held, dict) else None
    return _text(name) if isinstance(name, str) else ""


def _own_cells(notebook: object, wanted: Manifest) -> dict[str, Expected]:
    """The cells that a notebook was given with, by id.

    They are those of the release if it does not say that, or is another assignment's.
    """
    own = wanted
    with contextlib.suppress(WorkbookError):
        found = manifest(notebook)
        own = found if found.assignment == wanted.assignment else wanted
    return {cell.id: cell for cell in own.cells}


def _other_version(new: list[str], gone: list[str]) -> str:
    """The sentence about cells that were added to an assignment, or taken out of it."""

    def some(ids: list[str]) -> str:
        return ", ".join(id[:80] for id in ids[:5]) + f" and {len(ids) - 5} more" * (len(ids) > 5)

    lacks = f" New since then: {some(new)}." * bool(new)
    has = f" No longer part of it: {some(gone)}." * bool(gone)
    return f"The notebook is of an earlier version of the assignment.{lacks}{has}"


def _release_ids(release: object) -> dict[str, str]:
    """Jupyter's cell id → our id, for the graded cells of a release."""
    return {c.id: dotted(c.grade_id) for c in _cells(release) if c.id and c.grade_id}


def _match(cells: list[_Cell], wanted: list[str], ids: Mapping[str, str]) -> dict[str, list[int]]:
    """The places of each wanted cell in a notebook, the original before its copies.

    A cell is recognized by its grade id, or else by Jupyter's cell id. Of several with one grade
    id, the original is the one with the release's cell id: JupyterLab gives copies new ones.
    """
    names = set(wanted)
    found: dict[str, list[int]] = {}
    for place, cell in enumerate(cells):
        id = dotted(cell.grade_id)
        if id not in names:
            id = ids.get(cell.id, "")
        if id in names:
            found.setdefault(id, []).append(place)
    for id, places in found.items():
        places.sort(key=lambda place: (ids.get(cells[place].id) != id, place))
    return found


def _released(original: _Cell, release: Mapping[str, Any], student: _Cell | None) -> dict[str, Any]:
    """A cell of the release; solutions and written answers have the student's text."""
    answered = student is not None and original.nbgrader.get("solution")
    source = student.source if student and answered else original.source
    cell: dict[str, Any] = {
        "cell_type": original.type,
        "id": original.id,
        "metadata": release["metadata"],
        "source": source,
    }
    if original.type == "code":
        return cell | {"execution_count": None, "outputs": []}
    attachments = student.attachments if student and answered else original.attachments
    return cell | ({"attachments": attachments} if attachments else {})


def _plain(cell: _Cell, id: str) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "cell_type": cell.type,
        "id": id,
        "metadata": {},
        "source": cell.source,
    }
    if cell.type == "code":
        return plain | {"execution_count": None, "outputs": []}
    return plain | ({"attachments": cell.attachments} if cell.attachments else {})
