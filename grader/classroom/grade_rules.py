"""Who is excused, and how the assignments count together: `grader/work/grades.toml`.

    best = 5                            # or: drop_lowest = 1

    [weights]                           # without them, each assignment counts by its points
    a1 = 10
    a2 = 20

    [excused]
    a2 = ["anna", "bob"]

Who is excused from an assignment gets no points for it and loses none: it is left out of the
student's total, of the statistics of the class, and of the tables for other systems. Canvas gets
`EX`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from workbook import assignments
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from . import roster, toml_file
from .classroom import Classroom
from .names import shown

_TODO = "grader/classroom/grade_rules.py shows what can stand there."


class Rules(BaseModel):
    """What `grades.toml` says. Assignments have their short or their full names.

    Attributes:
        weights: by assignment. One that is missing here does not count, if any is there.
        drop_lowest: how many assignments of each student are dropped.
        best: how many assignments of each student count; None: all but the dropped ones.
        excused: by assignment, the ids of the students who are excused from it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: dict[str, float] = {}
    drop_lowest: int = Field(default=0, ge=0)
    best: int | None = Field(default=None, ge=1)
    excused: dict[str, frozenset[str]] = {}

    @model_validator(mode="after")
    def _check(self) -> Rules:
        if self.drop_lowest and self.best is not None:
            raise ValueError("choose one of drop_lowest and best")
        if wrong := [name for name, weight in self.weights.items() if not 0 <= weight < 1e9]:
            raise ValueError(f"the weight of {wrong[0]} is no number from 0 on")
        return self

    def is_excused(self, assignment: Assignment, student: str) -> bool:
        """Whether a student is excused from an assignment."""
        names = (assignment.name, assignment.short)
        return any(student in self.excused.get(name, ()) for name in names)

    def weight(self, assignment: Assignment) -> float:
        """How much an assignment counts: its weight or, where no weights are given, its points."""
        if self.weights:
            return self.weights.get(assignment.name, self.weights.get(assignment.short, 0.0))
        return sum(assignment.checks.values()) + sum(assignment.written.values())

    def count(self, there: int) -> int:
        """How many of a student's assignments count; at least one, if there is any."""
        kept = there - self.drop_lowest if self.best is None else min(self.best, there)
        return max(kept, min(1, there))


def path(classroom: Classroom) -> Path:
    """Where the rules are written."""
    return classroom.home / "grades.toml"


def read(classroom: Classroom) -> Rules:
    """The rules of a class; where there is no file, nobody is excused and all assignments count.

    Example: `read(Classroom.default()).is_excused(assignments.named("a2"), "anna")`.

    Raises:
        WorkbookError: the file is wrong; the error says where. It also is where the file names an
            assignment that does not exist, or a student who is not in the class list.
    """
    file = path(classroom)
    try:
        rules = Rules.model_validate(toml_file.read(file))
    except toml_file.TooLargeError as error:
        raise _error(file, str(error)) from None
    except OSError as error:
        raise _error(file, f"It cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        raise _error(file, "; ".join(_faults(error))) from None
    except (ValueError, RecursionError) as error:  # tomllib's, and text that is no UTF-8
        raise _error(file, f"{shown(str(error))[:300]}.") from None
    _check_names(classroom, file, rules)
    return rules


def _check_names(classroom: Classroom, file: Path, rules: Rules) -> None:
    """Raise an error where a name in the file is nobody's: it would have no effect in silence."""
    known = {name for one in assignments.find() for name in (one.name, one.short)}
    for section, names in (("weights", rules.weights), ("excused", rules.excused)):
        for name in names:
            if name not in known:
                raise _error(file, f"[{section}] There is no assignment {shown(name)[:80]}.")
    listed = roster.read(classroom) if rules.excused else None
    for name, students in rules.excused.items():
        for student in sorted(students):
            if listed is not None and student not in listed.students:
                raise _error(
                    file,
                    f"[excused] {name}: {shown(student)[:80]} is not in the class list.",
                    "Write the student's id as in students.csv.",
                )


def _faults(error: ValidationError) -> list[str]:
    """What pydantic found, in words of the file."""
    found = []
    for fault in error.errors()[:3]:
        key = ".".join(shown(str(part))[:80] for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"there is no such key; there are {', '.join(Rules.model_fields)}"
        found.append(f"{key}: {message}" if key else message)
    return found


def _error(file: Path, what: str, todo: str = _TODO) -> WorkbookError:
    return WorkbookError(f"The rules for grades: {what}", where=str(file), todo=todo)
