"""Due dates: what the file may contain, what a late day costs, and that all ways give one mark."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest
from a_class import answered, classroom, fake_grade, pack
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom import deadlines, gradebook, intake, late_penalties, lateness, roster
from grader.classroom.classroom import Classroom
from grader.judge import grade_submission
from workbook.assignments import Assignment, programs_on_path
from workbook.common.errors import WorkbookError

ROOT = Path(__file__).parents[2]


def say(where: Classroom, text: str | bytes) -> Classroom:
    where.home.mkdir(parents=True, exist_ok=True)
    deadlines.path(where).write_bytes(text.encode() if isinstance(text, str) else text)
    return where


FILE = """
timezone = "Europe/Berlin"

[a9]
due = 2026-10-24T12:00:00
grace_minutes = 10
percent_per_day = 10
at_most_percent = 50

[a9.extensions]
anna = 2
bob = 2026-10-31T12:00:00
zoe = "2026-10-31 12:00+00:00"
"""


def utc(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def test_without_a_file_nothing_is_due(tmp_path: Path) -> None:
    assert deadlines.of(classroom(tmp_path), "a9__toy") is None
    assert deadlines.timezone(classroom(tmp_path)) is datetime.UTC


def test_due_dates_and_extensions(tmp_path: Path) -> None:
    """The clocks change on 25 October: an extension by days keeps the time of day."""
    deadline = deadlines.of(say(classroom(tmp_path), FILE), "a9__toy")
    assert deadline is not None

    assert deadline.due_for("eve") == utc("2026-10-24 10:00")
    assert deadline.due_for("anna") == utc("2026-10-26 11:00")
    assert deadline.extension("anna") == datetime.timedelta(hours=49)
    assert deadline.due_for("bob") == utc("2026-10-31 11:00")
    assert deadline.due_for("zoe") == utc("2026-10-31 12:00")
    assert deadlines.of(classroom(tmp_path), "a8__other") is None


@pytest.mark.parametrize(
    ("submitted", "days"),
    [
        ("2026-10-24 09:59", 0),
        ("2026-10-24 10:10", 0),
        ("2026-10-24 10:10:01", 1),
        ("2026-10-25 11:00", 1),  # 25 hours later it is noon again: the clocks were set back
        ("2026-10-25 11:00:01", 2),
        ("2026-11-24 11:00", 31),
    ],
)
def test_each_day_begun_counts(tmp_path: Path, submitted: str, days: int) -> None:
    deadline = deadlines.of(say(classroom(tmp_path), FILE), "a9__toy")
    assert deadline is not None
    assert deadline.days_late("eve", utc(submitted)) == days
    assert deadline.penalty(days, 20) == min(2 * days, 10)


#: By time zone: when work is due, when it was handed in, both by the zone's clock, and the days.
BY_CLOCK = {
    "Europe/Berlin": [
        ("2026-10-24 20:00", "2026-10-25 19:30+01:00", 1),  # Saturday, Sunday; a day of 25 hours
        ("2026-10-24 20:00", "2026-10-25 20:00+01:00", 1),
        ("2026-10-24 20:00", "2026-10-25 20:01+01:00", 2),
        ("2026-10-25 02:30", "2026-10-25 02:30+02:00", 0),  # comes twice: the first is meant
        ("2026-10-25 02:30", "2026-10-25 02:15+01:00", 1),
        ("2026-03-28 20:00", "2026-03-29 20:00+02:00", 1),  # a day of 23 hours
        ("2026-03-28 20:00", "2026-03-29 20:01+02:00", 2),
        ("2026-03-29 02:30", "2026-03-29 03:30+02:00", 0),  # does not come at all
        ("2028-02-28 23:59", "2028-02-29 23:59+01:00", 1),
        ("2028-02-28 23:59", "2028-03-01 23:59+01:00", 2),
        ("2027-02-28 23:59", "2027-03-01 23:59+01:00", 1),
    ],
    "America/Sao_Paulo": [
        ("2018-11-03 20:00", "2018-11-04 20:00-02:00", 1),  # at midnight it was one o'clock
        ("2018-11-04 00:00", "2018-11-04 01:00-02:00", 0),
        ("2019-02-16 23:30", "2019-02-16 23:15-03:00", 1),  # 23:30 came twice
        ("2019-02-16 23:30", "2019-02-17 23:30-03:00", 1),
        ("2026-10-24 20:00", "2026-10-25 20:01-03:00", 2),  # since 2019 the clocks stay
        ("2028-02-29 12:00", "2028-03-01 12:00-03:00", 1),
    ],
    "Europe/Moscow": [
        ("2014-10-25 20:00", "2014-10-26 20:00+03:00", 1),  # the last change
        ("2014-10-25 20:00", "2014-10-26 20:01+03:00", 2),
        ("2028-02-28 20:00", "2028-03-01 20:00+03:00", 2),
    ],
    "Asia/Shanghai": [
        ("2026-12-31 23:59", "2027-01-01 00:00+08:00", 1),
        ("2028-02-28 20:00", "2028-02-29 20:01+08:00", 2),
    ],
}


@pytest.mark.parametrize(
    ("zone", "due", "submitted", "days"),
    [(zone, *row) for zone, rows in BY_CLOCK.items() for row in rows],
)
def test_late_days_are_counted_by_the_clock(
    tmp_path: Path, zone: str, due: str, submitted: str, days: int
) -> None:
    """The penalty that nbgrader asks for, by seconds, is that of the same days."""
    text = f'timezone = "{zone}"\n[a9]\ndue = "{due}"\npoints_per_day = 2\n'
    deadline = deadlines.of(say(classroom(tmp_path), text), "a9__toy")
    assert deadline is not None
    moment = datetime.datetime.fromisoformat(submitted)
    assert deadline.days_late("eve", moment) == days
    seconds = (moment - deadlines.utc(deadline.due)).total_seconds()
    assert late_penalties.points(deadline, "eve", 20, 20, seconds) == 2 * days


@pytest.mark.parametrize(
    ("zone", "due", "days", "until"),
    [
        ("Europe/Berlin", "2026-10-24 20:00", 1, "2026-10-25 20:00+01:00"),
        ("Europe/Berlin", "2026-10-24T20:00:00+02:00", 1, "2026-10-25 20:00+01:00"),
        ("America/Sao_Paulo", "2018-11-03 20:00", 1, "2018-11-04 20:00-02:00"),
        ("Europe/Moscow", "2014-10-25 20:00", 1, "2014-10-26 20:00+03:00"),
        ("Asia/Shanghai", "2028-02-28 20:00", 1, "2028-02-29 20:00+08:00"),
        ("Asia/Shanghai", "2028-02-29 20:00", 366, "2029-03-01 20:00+08:00"),
    ],
)
def test_an_extension_by_days_keeps_the_time_of_day(
    tmp_path: Path, zone: str, due: str, days: int, until: str
) -> None:
    text = f'timezone = "{zone}"\n[a9]\ndue = "{due}"\n[a9.extensions]\neve = {days}\n'
    deadline = deadlines.of(say(classroom(tmp_path), text), "a9__toy")
    assert deadline is not None
    assert deadline.due_for("eve") == datetime.datetime.fromisoformat(until)
    assert deadline.days_late("eve", deadline.due_for("eve")) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a9]\ndue = 2026-10-24T12:00:00\n", "No time zone is given"),
        ('timezone = "Europe/Nowhere"\n', "There is no time zone 'Europe/Nowhere'"),
        ("timezone = 3\n", "There is no time zone '3'"),
        ('timezone = "../../etc/passwd"\n', "There is no time zone"),
        ('timezone = "UTC"\n[a9]\ndue = 2026-10-24\n', "[a9] due: write a date with the time"),
        ('timezone = "UTC"\n[a9]\ndue = "24.10.2026 12:00"\n', "[a9] due: "),
        ('timezone = "UTC"\n[a9]\ndue = 5\n', "[a9] due: write a date with the time"),
        ('timezone = "UTC"\n[a9]\ndue = 1226-10-24T12:00:00\n', "not of this century"),
        ("[a9]\n", "[a9] due: Field required"),
        ("[a9]\ndue = 2026-10-24T12:00:00Z\npercent = 1\n", "[a9] percent: there is no such key"),
        ("[a9]\ndue = 2026-10-24T12:00:00Z\npercent_per_day = 101\n", "less than or equal to 100"),
        (
            "[a9]\ndue = 2026-10-24T12:00:00Z\npercent_per_day = 1\npoints_per_day = 1\n",
            "[a9] choose one of",
        ),
        ("[a9]\ndue = 2026-10-24T12:00:00Z\noptions = {a = 1}\n", "options belong to a plugin"),
        (
            "[a9]\ndue = 2026-10-24T12:00:00Z\n[a9.extensions]\nx = -1\n",
            "[a9] extensions: x gets -1 days",
        ),
        ("[a9]\ndue = 2026-10-24T12:00:00Z\n[a9.extensions]\nx = 'soon'\n", "[a9] extensions: "),
        ("[a9]\ndue = 2026-10-24T12:00:00Z\n[a9.handed_in]\nx = 1\n", "[a9] handed_in: "),
        ("[forest]\ndue = 2026-10-24T12:00:00Z\n", "[forest] is no name of an assignment"),
        ("due = 2026-10-24T12:00:00Z\n", "[due] is no name"),
        ("[a9]\n\ndue = = 3\n", "line 3"),
        (b"[a9]\n# M\xfcller\n", "Line 2 is no text in UTF-8"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(
    tmp_path: Path, text: str | bytes, words: str
) -> None:
    with pytest.raises(WorkbookError) as raised:
        deadlines.read(say(classroom(tmp_path), text))
    assert words in raised.value.what
    assert raised.value.where.endswith("deadlines.toml")
    assert raised.value.todo


def test_an_extension_for_nobody_is_refused(tmp_path: Path) -> None:
    where = say(classroom(tmp_path), FILE)
    roster.path(where).write_text("id\nanna\nbob\nzoë\n")
    with pytest.raises(WorkbookError, match="zoe is not in the class list"):
        deadlines.read(where)
    roster.path(where).write_text("id\nanna\nbob\nzoe\n")
    assert set(deadlines.read(where)) == {"a9"}


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["", "timezone = 'UTC'\n", "[a9]\ndue = ", "[a9]\n", FILE]),
    st.text(max_size=80) | st.binary(max_size=40),
)
def test_no_file_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, begin: str, rest: str | bytes
) -> None:
    end = rest.encode("utf-8", "surrogatepass") if isinstance(rest, str) else rest
    where = say(classroom(tmp_path_factory.mktemp("due")), begin.encode() + end)
    with contextlib.suppress(WorkbookError):
        for deadline in deadlines.read(where).values():
            deadline.days_late("anna", utc("2026-10-24 12:00"))


def write(where: Classroom, toy: Assignment, student: str, time: str, code: str) -> None:
    """Hand in at this time, store the fake grader's result, and write it into the gradebook."""
    pack(where.inbox / f"{student}.zip", {"a9.ipynb": answered(toy, code, "Because.")})
    intake.take_inbox(where, toy, where.inbox)
    place = where.submission(student, toy.name)
    if time:
        (place / "timestamp.txt").write_text(time)
    config = grade_submission.Settings(secret=where.secret())
    key = grade_submission.key(place, toy.name, config)
    where.store(fake_grade(place, toy.name, config).model_copy(update={"key": key}))
    where.save_results_index(toy.name, {**where.results_index(toy.name), student: key})
    gradebook.Writer(where, toy).write(student, key)


def penalties(where: Classroom) -> dict[str, float]:
    return {mark.student: mark.penalty for mark in gradebook.marks(where, "a9__toy")}


def nbgrader(where: Classroom, toy: Assignment, *arguments: str) -> None:
    environment = {**os.environ, "WORKBOOK_HOME": str(toy.home), "GRADER_WORK": str(where.home)}
    with programs_on_path():
        environment["PATH"] = os.environ["PATH"]
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=ROOT / "grader",
        env=environment,
        text=True,
        capture_output=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.server
@pytest.mark.timeout(900)
def test_nbgrader_and_the_grader_give_the_same_penalty(tmp_path: Path, toy: Assignment) -> None:
    """Of 20 points, a day costs 2. What has 0 points cannot lose any."""
    from nbgrader.api import Gradebook

    where = say(classroom(tmp_path), FILE)
    write(where, toy, "anna", "2026-10-27 10:30:00 UTC", "number = 1")  # 2 days more, 1 late
    write(where, toy, "eve", "2026-10-27 11:30:00 UTC", "number = 1")  # 4 late
    write(where, toy, "max", "2026-12-24 11:30:00 UTC", "number = 0.5")  # at most 10 of 7.5
    write(where, toy, "nil", "2026-10-27 11:30:00 UTC", "number = 0")
    write(where, toy, "now", "2026-10-24 10:05:00 UTC", "number = 1")
    write(where, toy, "who", "", "number = 1")
    ours = penalties(where)

    assert ours == {"anna": 2, "eve": 8, "max": 7.5, "nil": 0, "now": 0, "who": 0}
    for student, lost in ours.items():
        late = lateness.of(where, toy, student, {"max": 7.5, "nil": 0}.get(student, 15))
        assert late is not None
        assert late.penalty == lost, student
    (mark,) = (mark for mark in gradebook.marks(where, toy.name) if mark.student == "anna")
    assert mark.due == datetime.datetime(2026, 10, 26, 11)
    assert mark.total == 13

    nbgrader(where, toy, "autograde", toy.name, "--force")
    assert penalties(where) == ours

    # A person gives points to a student who had none: then a penalty has an effect.
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        grade = book.find_grade("a9-why", "a9", toy.name, "nil")
        grade.manual_score = 5
        book.db.commit()
    late_penalties.refresh(where, toy)
    assert penalties(where) == {**ours, "nil": 5}

    # Another due date needs no new grading.
    say(where, FILE.replace("10-24", "10-26"))
    late_penalties.refresh(where, toy)
    assert penalties(where) == {**ours, "anna": 0, "eve": 4, "nil": 4}
    before = where.gradebook.stat().st_mtime_ns
    late_penalties.refresh(where, toy)
    assert where.gradebook.stat().st_mtime_ns == before
    nbgrader(where, toy, "autograde", toy.name, "--force")
    assert penalties(where) == {**ours, "anna": 0, "eve": 4, "nil": 4}


@pytest.mark.server
@pytest.mark.parametrize(
    ("rule", "lost"),
    [
        ("points_per_day = 3", 9),
        ("percent_per_day = 0", 0),
        (
            'plugin = "nbgrader.plugins.LateSubmissionPlugin"\n'
            'options = { penalty_method = "zero" }',
            15,
        ),
        ('plugin = "nbgrader.plugins.LateSubmissionPlugin"', 0),
    ],
)
def test_rules(tmp_path: Path, toy: Assignment, rule: str, lost: float) -> None:
    where = say(classroom(tmp_path), f"[a9__toy]\ndue = 2026-10-24T10:00:00Z\n{rule}\n")
    write(where, toy, "eve", "2026-10-26 11:30:00 UTC", "number = 1")
    assert penalties(where) == {"eve": lost}
    late = lateness.of(where, toy, "eve", 15)
    assert late is not None
    assert (late.days, late.penalty) == (3, lost)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('plugin = "nowhere.Plugin"', "ModuleNotFoundError"),
        ('plugin = "datetime.date"', "no plugin of nbgrader's"),
        ('plugin = "nbgrader.plugins.LateSubmissionPlugin"\noptions = {x = 1}', "no option x"),
        (
            'plugin = "nbgrader.plugins.LateSubmissionPlugin"\noptions = {penalty_method = 1}',
            "penalty_method",
        ),
    ],
)
def test_a_plugin_that_does_not_work_is_said(
    tmp_path: Path, toy: Assignment, rule: str, words: str
) -> None:
    where = say(classroom(tmp_path), f"[a9]\ndue = 2026-10-24T10:00:00Z\n{rule}\n")
    with pytest.raises(WorkbookError, match="The late penalty") as raised:
        late_penalties.check(where, toy)
    assert words in raised.value.what


@pytest.mark.server
def test_without_a_due_date_nbgraders_own_stays(tmp_path: Path, toy: Assignment) -> None:
    from nbgrader.api import Gradebook

    where = classroom(tmp_path)
    write(where, toy, "anna", "2026-11-20 12:00:00 UTC", "number = 1")
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.update_or_create_assignment(toy.name, duedate="2026-11-20 10:00:00 UTC")
    write(where, toy, "bob", "2026-11-20 12:00:00 UTC", "number = 1")
    late_penalties.refresh(where, toy)

    assert penalties(where) == {"anna": 0, "bob": 0}
    assert {m.due for m in gradebook.marks(where, toy.name)} == {
        datetime.datetime(2026, 11, 20, 10)
    }
