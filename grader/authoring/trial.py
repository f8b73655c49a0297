"""`grader try a8`: grade an assignment's solution, untouched release and mutants as a class.

They are graded by `autograde`, in the real sandbox, several at a time. The classroom of the trial
is `.workbook/try`. A result is kept there until something changes that it depends on. So after an
edit of one mutant, only this mutant is graded again.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rich.console import Console

from workbook import assignments
from workbook.assignments import Assignment
from workbook.common import paths
from workbook.common.errors import WorkbookError

from ..classroom.autograde import autograde
from ..classroom.classroom import Classroom
from ..judge.grade_submission import Settings
from ..vocabulary.results import CheckResult, Graded
from . import mutants, submissions
from .gaps import Gap, checks, gaps
from .mutants import NOTHING, WAITS, Mutant

#: Why checks lost points, and how the table says so.
_MARKS = {"fails": "fails", "waits": "waits:", "not attempted": "not attempted:"}
#: How many characters of a message are shown.
_SHOWN = 300


@dataclasses.dataclass(frozen=True)
class Difference:
    """One thing that is not as expected.

    Attributes:
        got: what was found.
        todo: what the author can do.
    """

    got: str
    todo: str


@dataclasses.dataclass(frozen=True)
class Row:
    """One submission of a trial.

    Attributes:
        name: `solution`, `release`, or the mutant's name.
        expected: what should come out.
        got: what came out, in short.
        differences: empty if all is as expected.
    """

    name: str
    expected: str
    got: str
    differences: tuple[Difference, ...] = ()


@dataclasses.dataclass(frozen=True)
class Trial:
    """What came out of a trial.

    Attributes:
        built: the files that were out of date, and were built.
        gaps: what can be seen without running anything.
        rows: one per submission.
    """

    built: tuple[Path, ...]
    gaps: tuple[Gap, ...]
    rows: tuple[Row, ...]

    @property
    def is_as_expected(self) -> bool:
        """Whether there is neither a gap nor a difference."""
        return not self.gaps and not any(row.differences for row in self.rows)


@dataclasses.dataclass(frozen=True)
class _Case:
    """A submission of a trial: its name, what makes it, what is expected, and the comparison."""

    name: str
    expected: str
    make: Callable[[Path], Path]
    compare: Callable[[Graded], Iterator[Difference]]


def run(
    assignment: Assignment,
    *,
    only: str = "",
    workers: int | None = None,
    console: Console | None = None,
    settings: Settings | None = None,
) -> Trial:
    """Build an assignment where it is out of date, and grade what its author expects to know.

    Example::

        trial = run(assignments.named("a2"), only="labels")
        [row.name for row in trial.rows if row.differences]      # []

    Args:
        assignment: with its source.
        only: grade only the submissions whose name holds this text.
        workers: submissions at a time; by default one per core.
        console: where progress is shown.
        settings: as for a class.

    Raises:
        WorkbookError: the assignment cannot be built, its checks or mutants cannot be read, an edit
            of a mutant does not fit, no name holds `only`, or there is no sandbox.
    """
    checks(assignment)  # report a mistake in them first: the build would only miss a check
    found = gaps(assignment)
    built = assignments.update(assignment)
    found += _left_over(assignment)
    cases = [case for case in _cases(assignment) if only in case.name]
    if not cases:
        raise WorkbookError(
            f"No submission has {only!r} in its name.",
            where=str(mutants.path(assignment)),
            todo="Leave --only out to see all names.",
        )
    classroom = Classroom(paths.state("try", assignment.short))
    with classroom.lock():
        students = _hand_in(classroom, assignment, cases)
        outcome = autograde(
            classroom, assignment, settings or Settings(), workers=workers, console=console
        )
        results = classroom.results(assignment.name)
    rows = []
    for student, case in students.items():
        graded = results.get(student)
        if graded is None or student in outcome.failed:
            why = outcome.failed.get(student, "There is no result.")
            lost = Difference(why, "Run it again: this may be the machine's fault.")
            rows.append(Row(case.name, case.expected, "not graded", (lost,)))
            continue
        rows.append(
            Row(case.name, case.expected, _got(assignment, graded), tuple(case.compare(graded)))
        )
    return Trial(tuple(built), tuple(found), tuple(rows))


def _left_over(assignment: Assignment) -> Iterator[Gap]:
    """Files that students would get, although the source no longer makes them."""
    left = assignments.update(assignment, dry=True)
    made = {*assignment.handout.rglob("*")} - {*left}
    needed = {assignment.handout, *(folder for path in made if path.is_file()
              for folder in path.parents)}  # fmt: skip
    for path in sorted({_outermost(path, needed) for path in left}):
        name = path.relative_to(assignment.home).as_posix()
        yield Gap(
            f"Students would get a {'folder' if path.is_dir() else 'file'} that is not "
            "the notebook, not in starter/ and no module of its list. An earlier build may have "
            "made it.",
            name,
            f"Delete it (rm -r {name}), or put it into starter/.",
        )


def _outermost(path: Path, needed: set[Path]) -> Path:
    """The file, or the outermost folder that holds it and nothing that is needed."""
    return path if path.parent in needed else _outermost(path.parent, needed)


def _cases(assignment: Assignment) -> Iterator[_Case]:
    yield _Case(
        "solution",
        _all_points(assignment),
        lambda to: submissions.solution(assignment, to),
        lambda graded: _solution(assignment, graded),
    )
    yield _Case(
        "release",
        "0 points, not attempted",
        lambda to: submissions.release(assignment, to),
        lambda graded: _release(assignment, graded),
    )
    for one in mutants.load(assignment):
        yield _mutant_case(assignment, one)


def _mutant_case(assignment: Assignment, one: Mutant) -> _Case:
    return _Case(
        one.name,
        _expected_outcome(assignment, one),
        lambda to: submissions.mutant(assignment, one, to),
        lambda graded: _mutant(assignment, one, graded),
    )


def _hand_in(classroom: Classroom, assignment: Assignment, cases: list[_Case]) -> dict[str, _Case]:
    """Write the submissions; returns each one's student. Results of earlier trials are kept."""
    for old in (classroom.submitted, classroom.autograded):
        shutil.rmtree(old, ignore_errors=True)
    classroom.gradebook.unlink(missing_ok=True)
    students = {f"s{number:03}": case for number, case in enumerate(cases)}
    for student, case in students.items():
        to = classroom.submission(student, assignment.name)
        to.parent.mkdir(parents=True)
        case.make(to)
    return students


def _solution(assignment: Assignment, graded: Graded) -> Iterator[Difference]:
    yield from _right(
        assignment, graded, f"Correct the solution (solutions/{assignment.name}/), or the check"
    )


def _right(assignment: Assignment, graded: Graded, todo: str) -> Iterator[Difference]:
    """What a right answer lacks; `todo` ends with the check, whose file follows."""
    yield from _crashes(assignment, graded)
    yield from _stops(graded, "Correct the cell: all cells of a right answer run.")
    for check in graded.verdict.checks:
        if check.credit < 1 and check.status != "error":
            yield Difference(_summary(check), f"{todo} ({_module(assignment, check)}).")
    yield from _flags(graded)


def _release(assignment: Assignment, graded: Graded) -> Iterator[Difference]:
    yield from _crashes(assignment, graded)
    yield from _stops(graded, "Cells must run while tasks are open: their names are still `...`.")
    for check in graded.verdict.checks:
        if check.credit:
            yield Difference(
                f"{check.id} gives {check.credit:.0%} of its points for nothing.",
                "What the cell hands over must be `...` at first (### STUB name = ...), and the "
                "starter files must not be the solution's.",
            )
        elif check.status not in ("not attempted", "error"):
            yield Difference(
                _summary(check),
                "Untouched work is not wrong. Begin every value that the cell hands over with a "
                "line ### STUB name = ...",
            )
    yield from _flags(graded)


def _mutant(assignment: Assignment, one: Mutant, graded: Graded) -> Iterator[Difference]:
    in_mutants = f"solutions/{assignment.name}/mutants.py"
    if one.right:
        todo = f"Is the edit in {in_mutants} right? Then accept it in the check"
        yield from _right(assignment, graded, todo)
        return
    yield from _crashes(assignment, graded)
    for check in graded.verdict.checks:
        if check.status == "error":
            continue
        words = one.fails.get(check.id)
        if words is None and check.credit < 1:
            yield Difference(
                _summary(check),
                f"Add {check.id!r}: {_constant(check)} to its fails in {in_mutants}, or make the "
                "mutant smaller.",
            )
        elif words is not None and check.credit == 1:
            yield Difference(
                f"{check.id} gives all its points to this wrong answer.",
                "Sharpen the check or its hidden variant, or correct the edit: is it still wrong?",
            )
        elif words is not None and words not in message(check):
            yield Difference(
                _summary(check),
                f"The message does not hold {words!r}. Does it help the student? Correct the "
                f"check's message, or the words in {in_mutants}.",
            )
    raised = "\n".join(error.message for error in graded.errors)
    if one.stops not in raised or bool(one.stops) != bool(graded.errors):
        yield Difference(
            f"The notebook stops: {raised[:_SHOWN]}" if raised else "The notebook does not stop.",
            f"Correct `stops` in {in_mutants}: words of the error, or '' where all cells run.",
        )


def _module(assignment: Assignment, check: CheckResult) -> str:
    """The file of the function that decided a result."""
    return f"solutions/{assignment.name}/{'hidden' if check.hidden else 'checks'}.py"


def _crashes(assignment: Assignment, graded: Graded) -> Iterator[Difference]:
    """Checks that raised something else than `Failure`: their author has to fix them."""
    for check in graded.verdict.checks:
        if check.status == "error":
            where = _module(assignment, check)
            yield Difference(_summary(check), f"The check crashed. Correct it: {where}.")


def _stops(graded: Graded, todo: str) -> Iterator[Difference]:
    for error in graded.errors:
        yield Difference(f"Cell {error.cell} stops: {error.name}: {error.message[:_SHOWN]}", todo)


def _flags(graded: Graded) -> Iterator[Difference]:
    for flag in graded.verdict.flags:
        yield Difference(
            f"Flag {flag.kind}: {flag.detail[:_SHOWN]}",
            "An honest submission must have no flag: see what causes this one.",
        )


def message(check: CheckResult) -> str:
    """The texts of a result: those for the student, then what only instructors read."""
    parts = f"{check.status}: {check.rationale}", check.help, check.found
    return " → ".join(part for part in parts if part)


def _summary(check: CheckResult) -> str:
    text = f"{check.status}: {check.found}" if check.found else message(check)
    return f"{check.id} {text}"[:_SHOWN]


def _constant(check: CheckResult) -> str:
    """What an author writes for a check that did not run; for others, words of the message."""
    if check.status == "waits":
        return "WAITS"
    return "NOTHING" if NOTHING in check.rationale else '"words of the message"'


def _expected_outcome(assignment: Assignment, one: Mutant) -> str:
    if one.right:
        return _all_points(assignment)
    if len(one.fails) == len(assignment.checks) and set(one.fails.values()) == {NOTHING}:
        return "0 points, not attempted"
    kinds = {NOTHING: "not attempted", WAITS: "waits"}
    return _outcome(assignment, {id: kinds.get(words, "fails") for id, words in one.fails.items()})


def _all_points(assignment: Assignment) -> str:
    total = sum(assignment.checks.values())
    return f"{total:g} of {total:g} points"


def _got(assignment: Assignment, graded: Graded) -> str:
    points, checks = assignment.checks, graded.verdict.checks
    earned = sum(check.credit * points.get(check.id, 0) for check in checks)
    if all(check.status == "not attempted" for check in checks):
        return f"{earned:g} points, not attempted"
    lost = {
        check.id: check.status if check.status in _MARKS else "fails"
        for check in checks
        if check.credit < 1
    }
    outcome = f"{_outcome(assignment, lost)}: " if lost else ""
    return f"{outcome}{earned:g} of {sum(points.values()):g} points"


def _outcome(assignment: Assignment, lost: Mapping[str, str]) -> str:
    """The checks that lost points, by the reason: "fails forest; waits: shap"."""
    parts = []
    for kind, mark in _MARKS.items():
        if ids := [id for id, why in lost.items() if why == kind]:
            parts.append(f"{mark} {_names(assignment, ids)}")
    return "; ".join(parts)


def _names(assignment: Assignment, ids: list[str]) -> str:
    """Ids without the assignment's name."""
    found = [id.removeprefix(f"{assignment.short}.") for id in ids]
    return "all" if len(found) == len(assignment.checks) > 1 else ", ".join(found)
