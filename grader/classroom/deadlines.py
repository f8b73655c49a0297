"""Due dates, extensions and what a late day costs: `grader/work/deadlines.toml`.

    timezone = "Europe/Berlin"          # of every time below that states no other

    [a2]
    due = 2026-11-20T23:59:00           # or "2026-11-20 23:59"
    grace_minutes = 10                  # later than that, it is late
    percent_per_day = 10                # of all points of the assignment, for each day begun
    at_most_percent = 50

    [a2.extensions]
    anna = 2                            # days
    bob = 2026-11-27T12:00:00           # or another due date

    [a2.handed_in]                      # where no system says it: Canvas's download does not
    eve = 2026-11-21T09:30:00

In place of `percent_per_day` there can be `points_per_day`, or a plugin of nbgrader's, with its
options:

    plugin = "nbgrader.plugins.LateSubmissionPlugin"
    options = { penalty_method = "zero" }

What the file does not name stays as nbgrader has it. Days are counted from the due date, with a
student's extension, by the clock of the time zone: the first late day ends at the due time on the
next day, also where a day has 23 or 25 hours because the clocks change. A submission that states no
time is never late.

`late_penalties.py` gives all of this to nbgrader. So `grader autograde` and `nbgrader autograde`
give the same marks.
"""

from __future__ import annotations

import datetime
import math
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from workbook.common.errors import WorkbookError

from . import roster, toml_file
from .classroom import Classroom
from .names import shown

_DAY = datetime.timedelta(days=1)
_MOST_DAYS = 366
_NAME = r"a[0-9]+(__[a-z0-9_]+)?"


class Deadline(BaseModel):
    """What `deadlines.toml` says about one assignment.

    Attributes:
        due: when it is due, with a time zone.
        grace_minutes: how much later it is still not late.
        percent_per_day: of the assignment's points, what each late day costs.
        points_per_day: the same in points.
        at_most_percent: of the assignment's points, the most that all late days cost.
        plugin: a plugin of nbgrader's that decides the penalty, by module and name.
        options: the plugin's traits.
        extensions: by student, days, or another due date.
        handed_in: by student, when the work came. It counts more than what any system says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    due: datetime.datetime
    grace_minutes: float = Field(default=0, ge=0, le=1440 * _MOST_DAYS)
    percent_per_day: float = Field(default=0, ge=0, le=100)
    points_per_day: float = Field(default=0, ge=0, allow_inf_nan=False)
    at_most_percent: float = Field(default=100, ge=0, le=100)
    plugin: str = Field(default="", pattern=r"^([A-Za-z_]\w*(\.[A-Za-z_]\w*)+)?$")
    options: dict[str, Any] = {}
    extensions: dict[str, float | datetime.datetime] = {}
    handed_in: dict[str, datetime.datetime] = {}

    @field_validator("due", mode="before")
    @classmethod
    def _no_number(cls, value: object) -> object:
        return _with_time(value)

    @field_validator("handed_in", mode="before")
    @classmethod
    def _only_times(cls, value: Any) -> Any:
        return (
            {who: _with_time(t) for who, t in value.items()} if isinstance(value, dict) else value
        )

    @field_validator("extensions", mode="before")
    @classmethod
    def _no_text(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for who, what in value.items():
            days = isinstance(what, int | float)
            if days and not 0 <= what <= _MOST_DAYS:
                raise ValueError(f"{who} gets {what} days; it can be 0 to {_MOST_DAYS}")
            if not days:
                _with_time(what)
        return value

    @model_validator(mode="after")
    def _one_rule(self) -> Deadline:
        if sum(map(bool, (self.percent_per_day, self.points_per_day, self.plugin))) > 1:
            raise ValueError("choose one of percent_per_day, points_per_day and plugin")
        if self.options and not self.plugin:
            raise ValueError("options belong to a plugin")
        return self

    def due_for(self, student: str) -> datetime.datetime:
        """When a student's work is due, with their extension.

        An extension of days keeps the time of the day, also where the clocks change meanwhile.
        """
        extension = self.extensions.get(student)
        if isinstance(extension, datetime.datetime):
            return extension
        return self.due + datetime.timedelta(days=extension or 0)

    def extension(self, student: str) -> datetime.timedelta:
        """A student's extension, as nbgrader has it: what is added to the due date."""
        return utc(self.due_for(student)) - utc(self.due)

    def days_late(self, student: str, submitted: datetime.datetime) -> int:
        """How many days after the due date it was handed in; each day begun counts.

        The grace is real time. Days are counted by the clock of the due date's time zone.
        """
        due = self.due_for(student)
        if utc(submitted) - utc(due) <= datetime.timedelta(minutes=self.grace_minutes):
            return 0
        by_clock = submitted.astimezone(due.tzinfo).replace(tzinfo=None) - due.replace(tzinfo=None)
        return max(
            1, math.ceil(by_clock / _DAY)
        )  # an hour that comes twice is late the second time

    def penalty(self, days: int, most: float) -> float:
        """The points that late days cost by this file's own rules, before the score limits them.

        Args:
            days: the late days.
            most: all points of the assignment.
        """
        a_day = self.points_per_day or most * self.percent_per_day / 100
        return round(min(days * a_day, most * self.at_most_percent / 100), 4)


def path(classroom: Classroom) -> Path:
    """Where the due dates are written."""
    return classroom.home / "deadlines.toml"


def of(classroom: Classroom, assignment: str) -> Deadline | None:
    """What the file says about an assignment; None if it says nothing, or if there is no file.

    Example::

        deadline = of(Classroom.default(), "a2__forest")
        deadline and deadline.due_for("anna")

    Raises:
        WorkbookError: the file is wrong; the error says where.
    """
    found = read(classroom)
    return found.get(assignment, found.get(assignment.split("__", maxsplit=1)[0]))


def timezone(classroom: Classroom) -> datetime.tzinfo:
    """The zone of the file; UTC where it names none.

    Raises:
        WorkbookError: the file is wrong.
    """
    return _zone(path(classroom), _table(classroom).get("timezone")) or datetime.UTC


def has_timezone(classroom: Classroom) -> bool:
    """Whether the file names a time zone.

    Raises:
        WorkbookError: the file cannot be read.
    """
    return "timezone" in _table(classroom)


def read(classroom: Classroom) -> dict[str, Deadline]:
    """The whole file, by the names that it gives to assignments; empty if there is none.

    Raises:
        WorkbookError: it cannot be read, holds something unknown, or gives an extension to somebody
            who is not in the class list.
    """
    file, table = path(classroom), _table(classroom)
    zone = _zone(file, table.pop("timezone", None))
    known = roster.read(classroom) if table else None
    found = {}
    for name, section in table.items():
        try:
            checked = _Section.model_validate({"name": name, "deadline": section})
            deadline = _in_zone(checked.deadline, zone)
        except ValidationError as error:
            raise _error(file, "; ".join(_faults(name, error)), _TODO) from None
        except (ValueError, OverflowError) as error:
            raise _error(file, f"[{shown(name)}] {error}", _TODO) from None
        for student in (*deadline.extensions, *deadline.handed_in) if known else ():
            if known and student not in known.students:
                raise _error(
                    file,
                    f"[{name}] {shown(student)} is not in the class list.",
                    "Write the student's id as in students.csv.",
                )
        found[name] = deadline
    return found


_TODO = "grader/classroom/deadlines.py shows what can stand there."


class _Section(BaseModel):
    """A section with its name."""

    name: str = Field(pattern=f"^{_NAME}$")
    deadline: Deadline


def _table(classroom: Classroom) -> dict[str, Any]:
    """The file as TOML; empty if there is none."""
    file = path(classroom)
    try:
        return toml_file.read(file)
    except OSError as error:
        raise _error(file, f"It cannot be read: {error.strerror}.", "Look at the file.") from None
    except toml_file.TooLargeError as error:
        raise _error(file, str(error), _TODO) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _error(file, f"Line {line} is no text in UTF-8.", "Save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:  # tomllib's
        reason = shown(str(error))[:300] or type(error).__name__
        todo = 'A time is written 2026-11-20T23:59:00, and a text "in quotation marks".'
        raise _error(file, f"{reason}.", todo) from None


def _zone(file: Path, name: object) -> datetime.tzinfo | None:
    if name is None:
        return None
    try:
        if not isinstance(name, str) or not name:
            raise ValueError
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise _error(
            file,
            f"There is no time zone {shown(str(name))[:80]!r}.",
            'Name one as in `timezone = "Europe/Berlin"`, before the first section.',
        ) from None


def _with_time(value: object) -> object:
    """The value; raise ValueError unless it is a day with a time."""
    if isinstance(value, str):
        value = value.strip().replace("T", " ")
        if ":" not in value:
            raise ValueError("a date needs the time of the day, such as 2026-11-20T23:59:00")
    elif not isinstance(value, datetime.datetime):
        raise ValueError("write a date with the time of the day, such as 2026-11-20T23:59:00")
    return value


def _in_zone(deadline: Deadline, zone: datetime.tzinfo | None) -> Deadline:
    """The same with a zone at every time.

    Raises:
        ValueError: a time states no zone, and the file none either; or it is beyond reason.
    """

    def placed(time: datetime.datetime) -> datetime.datetime:
        if not 2000 <= time.year < 2100:
            raise ValueError(f"{time} is not of this century.")
        if time.tzinfo is None and zone is None:
            raise ValueError(
                'No time zone is given: write `timezone = "Europe/Berlin"` as the first line.'
            )
        if time.tzinfo is None:
            return time.replace(tzinfo=zone)
        return time.astimezone(zone) if zone else time

    moved = {
        who: placed(what) if isinstance(what, datetime.datetime) else what
        for who, what in deadline.extensions.items()
    }
    came = {who: placed(time) for who, time in deadline.handed_in.items()}
    return deadline.model_copy(
        update={"due": placed(deadline.due), "extensions": moved, "handed_in": came}
    )


def _faults(name: str, error: ValidationError) -> Iterator[str]:
    """What pydantic found, in words of the file."""
    for fault in error.errors()[:3]:
        where = [str(part) for part in fault["loc"]]
        if where[0] == "name":
            yield f"[{shown(name)[:80]}] is no name of an assignment, such as a2"
            continue
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"there is no such key; there are {', '.join(Deadline.model_fields)}"
        # If a value may be of several kinds, pydantic adds the kind at the end.
        named = [part for part in where[1:] if part not in ("float", "datetime")]
        key = ".".join(named)
        yield f"[{name}] {shown(key)[:80]}{': ' if key else ''}{message}"


def utc(time: datetime.datetime) -> datetime.datetime:
    """The same moment in UTC."""
    return time.astimezone(datetime.UTC)


def _error(file: Path, what: str, todo: str) -> WorkbookError:
    return WorkbookError(f"The due dates: {what}", where=str(file), todo=todo)
