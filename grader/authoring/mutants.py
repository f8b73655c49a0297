"""Wrong answers to an assignment: each is an edit of the solution, with the messages it must get.

Some may be right answers in another form, which must earn all points like the solution.

`mutants.py` in the assignment's folder holds them, as `MUTANTS`::

    from grader.authoring.mutants import NOTHING, WAITS, Edit, Mutant

    CONFIG = "models/double/config.pbtxt"
    MUTANTS = (
        Mutant(
            "double: one number too few",
            (Edit(CONFIG, "dims: [ 4 ]", "dims: [ 3 ]"),),
            {"a8.double": "x has dims [3]"},
        ),
        Mutant(
            "double: added to itself",
            (Edit("models/double/1/model.py", "2 * x", "x + x"),),
            right=True,
        ),
    )

`grader try a8` grades them all in the sandbox; tests/grader/test_assignments.py does so faster.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import traceback
from collections.abc import Mapping
from pathlib import Path

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

#: The message where a cell before the check raised, so that nothing was handed over.
NOTHING = "did not get to this check"
#: The message of a check that fails as one that it needs.
WAITS = "waits for"
#: The message of a check whose task an edit leaves out on purpose, for instance to save time.
LEFT_OUT = "not attempted"
#: A mistake that more than one check finds costs at most this many points, or the assignment's text
#: says why.
MOST_LOST = 40


@dataclasses.dataclass(frozen=True)
class Edit:
    """One change of the solution.

    Attributes:
        where: a file (`models/double/config.pbtxt`), or the id of a cell (`a8.serve`).
        old: text that occurs there; "" stands for all of it, also where there is no such file.
        new: what takes its place.
    """

    where: str
    old: str
    new: str

    @property
    def of_file(self) -> bool:
        """Whether a file is edited, and not a cell."""
        return "/" in self.where

    def apply(self, text: str) -> str:
        """The text after the edit.

        Raises:
            WorkbookError: the text does not hold `old`.
        """
        if not self.old:
            return self.new
        if self.old not in text:
            raise WorkbookError(
                f"A mutant cannot be made: the solution does not hold {self.old!r}.",
                where=self.where,
                todo="Bring the mutant's edit up to date with the solution.",
            )
        return text.replace(self.old, self.new)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A wrong answer; or a right one that is not written as the solution is.

    Example::

        Mutant(
            "answers: invented",
            (Edit("a8.serve", "answers = ask(double, ROWS)", "answers = ROWS"),),
            {"a8.double": "The values in `answers` differ"},
        )

    Attributes:
        name: what is wrong, in words.
        edits: what makes it wrong.
        fails: every check that must not earn all its points, and words of the message that the
            student must get for it.
        stops: words of an error with which a cell of the notebook must end; "" if all cells run.
        right: it is another right answer: it must earn all points, and get no flag.
        why: where it costs more than `MOST_LOST` points, words of the assignment's text that say
            why.
    """

    name: str
    edits: tuple[Edit, ...]
    fails: dict[str, str] = dataclasses.field(default_factory=dict)
    stops: str = ""
    right: bool = False
    why: str = ""

    def cost(self, points: Mapping[str, float]) -> float:
        """The points that it loses at most: those of the checks that it fails.

        Args:
            points: of each check, by id.
        """
        return sum(points.get(id, 0) for id, words in self.fails.items() if words != LEFT_OUT)

    def edit_files(self, folder: Path) -> None:
        """Edit the files of a student's folder that holds the solution's.

        Raises:
            WorkbookError: an edit does not fit.
        """
        for edit in self.edits:
            if not edit.of_file:
                continue
            path = folder / edit.where
            if edit.old and not path.is_file():
                raise WorkbookError(
                    f"The mutant {self.name!r} cannot be made: the solution has no such file.",
                    where=edit.where,
                    todo="Correct the name, or give all of a new file: Edit(name, '', …).",
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(edit.apply(path.read_text("utf-8") if edit.old else ""), "utf-8")

    def edit_cell(self, id: str, source: str) -> str:
        """A cell's source after the edits that concern it.

        Raises:
            WorkbookError: an edit does not fit.
        """
        for edit in self.edits:
            if edit.where == id:
                source = edit.apply(source)
        return source


def path(assignment: Assignment) -> Path:
    """The file with an assignment's mutants."""
    return assignment.folder / "mutants.py"


def load(assignment: Assignment) -> tuple[Mutant, ...]:
    """The mutants of an assignment.

    Args:
        assignment: its file is run.

    Returns:
        `MUTANTS` of the file, in its order.

    Raises:
        WorkbookError: there is no file, it cannot be run, or it has no `MUTANTS`; or two mutants
            have one name.
    """
    file = path(assignment)
    where = str(file.relative_to(assignment.home))
    if not file.is_file():
        raise WorkbookError(
            f"{assignment.name} has no mutants.",
            where=where,
            todo="Write wrong answers that each check must find; AUTHORING.md says how.",
        )
    spec = importlib.util.spec_from_file_location(f"mutants_of_{assignment.short}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise WorkbookError(
            f"The mutants cannot be read: {type(error).__name__}: {error}",
            where=f"{where}, line {_line(error, file)}",
            todo="Correct this file.",
        ) from None
    found = getattr(module, "MUTANTS", None)
    if not isinstance(found, tuple) or not all(isinstance(one, Mutant) for one in found):
        raise WorkbookError(
            "The file has no MUTANTS.", where=where, todo="Write MUTANTS = (Mutant(…), …)."
        )
    names = [mutant.name for mutant in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise WorkbookError(
            f"Two mutants are named {twice!r}.", where=where, todo="Give each its own name."
        )
    return found


def _line(error: Exception, file: Path) -> int:
    """The line of a file on which an error came up; 0 where that is not known."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    lines = [step.lineno for step in traceback.extract_tb(error.__traceback__)
             if step.filename == str(file)]  # fmt: skip
    return (lines or [0])[-1] or 0
