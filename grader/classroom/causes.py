"""Why checks could not run: the error of a cell, or the end of the notebook, beside each of them.

The judge sees only what a notebook handed over. Where a cell raised an error before a check, the
judge can only say that the notebook did not get to it. The executed notebook says more: which cell
raised, and whether the student wrote anything. This module puts the two together, for pages and
for formgrader. It changes no points.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import warnings
from collections.abc import Mapping
from typing import Any

from workbook.assignments import Assignment
from workbook.common import bounded_json
from workbook.notebooks import dotted

from ..sandbox import limited
from ..vocabulary.results import CheckResult, Flag, Graded, Status, Stopped

#: What a NameError says, and what a run's note says about the cell in which it ended.
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")
_ENDED = re.compile(r"(?:died in|was up before|^)\s*cell (\d+)", re.IGNORECASE)
#: The most characters of an exception's message.
_MOST_MESSAGE = 300
#: The most characters of a cell that are looked at. People write a hundredth of it.
MOST_SOURCE = 50_000
#: The statuses of checks that no code judged.
_UNJUDGED = ("not attempted", "waits")


@dataclasses.dataclass(frozen=True)
class Explained:
    """The results of one submission, with what is known about their causes.

    Attributes:
        results: each check's result, by id. In place of "not attempted", the status is `stopped`
            where an error or a limit kept the check from running, `unfinished` where the student
            wrote something above it, and `unreadable` where the submission could not be read.
        notes: by check, a sentence about a cell above it that raised, though the check has run.
        reported: the numbers of the cells, counted from 1, whose errors `results` or `notes` tell.
        flags: the details of flags that `results` tell.
    """

    results: dict[str, CheckResult]
    notes: dict[str, str]
    reported: frozenset[int]
    flags: frozenset[str]


def explain(graded: Graded, assignment: Assignment) -> Explained:
    """Say why checks could not run.

    Example::

        explain(classroom.results("a2__forest")["anna"], assignments.named("a2")).results

    Args:
        graded: a stored result.
        assignment: the assignment. Its released notebook tells what the student has written.
    """
    unread = next((flag for flag in graded.verdict.flags if flag.kind == "unreadable"), None)
    if unread is not None:
        return _unreadable(graded, unread)
    notebook = _Notebook(graded, assignment)
    results: dict[str, CheckResult] = {}
    notes: dict[str, str] = {}
    reported: set[int] = set()
    flags: set[str] = set()
    for result in graded.verdict.checks:
        place = notebook.places.get(result.id)
        results[result.id] = result
        if place is None:
            continue
        if result.status in _UNJUDGED:
            if (cause := notebook.cause(place)) is not None:
                text, cells, flag = cause
                reported |= {place + 1, *cells}
                flags |= {flag}
                results[result.id] = _with_status(result, "stopped", text)
            elif result.status == "not attempted" and notebook.is_begun(place):
                results[result.id] = _with_status(result, "unfinished", result.rationale)
        elif result.credit < 1 and (above := notebook.raised_above(place)) is not None:
            notes[result.id] = f"Cell {above.cell}, above this check, stopped: {_error(above)}"
            reported |= {above.cell}
    # An error that follows from a reported error need not be reported again.
    reported |= {error.cell for error in graded.errors if notebook.root(error).cell in reported}
    return Explained(results, notes, frozenset(reported), frozenset(flags))


def _unreadable(graded: Graded, flag: Flag) -> Explained:
    results = {
        result.id: _with_status(result, "unreadable", flag.detail)
        if result.status == "not attempted"
        else result
        for result in graded.verdict.checks
    }
    return Explained(results, {}, frozenset(), frozenset({flag.detail}))


class _Notebook:
    """An executed notebook with its errors.

    Attributes:
        places: the index of each graded cell, by its id.
    """

    def __init__(self, graded: Graded, assignment: Assignment) -> None:
        self._cells = _read(graded.notebook)
        self.places = {id: place for place, cell in enumerate(self._cells) if (id := _id(cell))}
        self._checks = sorted(self.places[id] for id in assignment.checks if id in self.places)
        self._errors = {error.cell: error for error in reversed(graded.errors)}  # each cell's first
        self._released_texts = _released_texts(assignment)
        self._flags = graded.verdict.flags

    def cause(self, place: int) -> tuple[str, set[int], str] | None:
        """Why the check at a place could not run: what happened, in which cells, by which flag."""
        own = self._errors.get(place + 1) or self.raised_above(place)
        if own is not None:
            error = self.root(own)
            text, cells = f"Cell {error.cell} stopped: {_error(error)}", {error.cell}
            # What went wrong before it in the same task may be the reason.
            if (first := self.raised_above(error.cell - 1)) and first.cell < error.cell:
                text += f"\nBefore it, cell {first.cell} had stopped: {_error(first)}"
                cells.add(first.cell)
            return text, cells, ""
        for flag in self._flags:
            if flag.kind == "stopped":
                return flag.detail, set(), flag.detail
            ended = _ENDED.search(flag.detail) if flag.kind == "execution" else None
            if ended is not None and place + 1 >= int(ended[1]):
                return flag.detail, set(), flag.detail
        return None

    def root(self, error: Stopped) -> Stopped:
        """The first error of a chain: a NameError leads to the error that left the name unset.

        If an earlier cell raised the very same error, this is the error of that cell.
        """
        seen = set()
        while error.cell not in seen:
            seen.add(error.cell)
            name = _UNDEFINED.search(error.message) if error.name == "NameError" else None
            if name is None:
                break
            error = next(
                (
                    earlier
                    for number, earlier in sorted(self._errors.items(), reverse=True)
                    if number < error.cell and name[1] in self._names(number - 1)
                ),
                error,
            )
        for _, same in sorted(self._errors.items()):
            if (same.name, same.message) == (error.name, error.message):
                return same
        return error

    def raised_above(self, place: int) -> Stopped | None:
        """The first error of a cell between a check and the check before it."""
        return next(
            (
                self._errors[number]
                for number in range(self._begin(place) + 1, place + 1)
                if number in self._errors
            ),
            None,
        )

    def is_begun(self, place: int) -> bool:
        """Whether the student wrote something between a check and the check before it."""
        return any(
            _id(cell) in self._released_texts and _source(cell) != self._released_texts[_id(cell)]
            for cell in self._cells[self._begin(place) : place]
        )

    def _begin(self, place: int) -> int:
        """The index of the cell after the check before this one."""
        return max((check + 1 for check in self._checks if check < place), default=0)

    def _names(self, place: int) -> set[str]:
        return _names_of(_source(self._cells[place])) if place < len(self._cells) else set()


def solution_cells(notebook: str, *, all: bool = False) -> dict[str, str]:
    """The text of each solution cell of a notebook, by id.

    Args:
        notebook: the notebook's JSON, which need not be one.
        all: other code cells too.
    """
    found = {}
    for number, cell in enumerate(_read(notebook)):
        tag = cell.get("metadata", {}).get("nbgrader", {})
        if cell.get("cell_type") == "code" and (all or _is_solution(tag)):
            found[_id(cell) or str(number)] = _source(cell)
    return found


def _read(notebook: str) -> list[Mapping[str, Any]]:
    try:
        return list(bounded_json.loads(notebook.encode())["cells"])
    except (ValueError, KeyError, TypeError):
        return []


def _released_texts(assignment: Assignment) -> dict[str, str]:
    """The text of each solution cell of the release, by id."""
    return dict(_solutions(assignment.release.read_bytes()))


@functools.lru_cache(maxsize=8)
def _solutions(release: bytes) -> tuple[tuple[str, str], ...]:
    return tuple(solution_cells(release.decode()).items())


def _is_solution(tag: object) -> bool:
    return isinstance(tag, dict) and bool(tag.get("solution")) and not tag.get("grade")


def _id(cell: Mapping[str, Any]) -> str:
    """The id of a graded cell with dots; "" for any other cell."""
    tag = cell.get("metadata", {}).get("nbgrader", {})
    return dotted(str(tag.get("grade_id", ""))) if isinstance(tag, dict) else ""


def _source(cell: Mapping[str, Any]) -> str:
    source = cell.get("source", "")
    return ("".join(source) if isinstance(source, list) else str(source)).strip()


@functools.lru_cache(maxsize=1024)
def _names_of(source: str) -> set[str]:
    """`assigned_names`, in a process of its own: the parser may crash on what a student wrote."""
    try:
        answer = limited.call(
            lambda: {"names": sorted(assigned_names(source))}, cpu_s=3, memory_bytes=256 << 20
        )
    except limited.NoResult:
        return _before_equals(source[:MOST_SOURCE])
    return set(map(str, answer["names"]))


def _before_equals(source: str) -> set[str]:
    """All names that stand before =."""
    return set(re.findall(r"(?<!\w)(\w++)[ \t]*+=(?!=)", source))


def assigned_names(source: str) -> set[str]:
    """The names that a cell assigns, defines or imports, and the names of parameters.

    If the cell is not Python, these are all names that stand before =. Call this in a limited
    process.
    """
    source = source[:MOST_SOURCE]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as one about a backslash in a text
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _before_equals(source)
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names


def _error(error: Stopped) -> str:
    """An exception in one line. The lines after the first are often a library's traceback."""
    message = error.message.partition("\n")[0][:_MOST_MESSAGE].replace("`", "'")
    return f"`{error.name.replace('`', '')}: {message}`" if message else f"`{error.name}`"


def _with_status(result: CheckResult, status: Status, rationale: str) -> CheckResult:
    changes = {"status": status, "rationale": rationale[:4_000]}
    return result.model_copy(update=changes)
