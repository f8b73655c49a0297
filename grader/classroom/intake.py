"""Take submissions from the inbox to `submitted/<student>/<assignment>/`.

An instructor puts one zip or folder per student into the inbox:

    anna.zip                         what `workbook submit` wrote
    anna/                            the files themselves, or a zip in a folder
    anna/a2__forest/                 as `nbgrader collect` makes it, with its timestamp.txt
    anna+a2__forest+2026-11-20 10:00:00 UTC+x1/   as it lies in nbgrader's exchange
    okafor_LATE_4711_90210_a2.zip    as Canvas names it (4711 is Canvas's id of the student)
    Anna Okafor_4711_assignsubmission_file_a2.zip (or a folder)   as Moodle names it

If an entry cannot be read, the student gets a result without points, with the reason. The other
entries are not affected.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import tempfile
import unicodedata
import zoneinfo
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from ..checks.results import CheckResult, Flag, Graded, Verdict
from . import unpack_entry
from .classroom import Classroom, write
from .names import clean, digest, folded, shown
from .unpack_submission import Refused, open_regular

_CANVAS = re.compile(r"(?P<name>[^_]+)(?:_LATE)?_(?P<id>\d+)_\d+_(?P<rest>.+)")
_MOODLE = re.compile(r"(?P<name>[^_]+)_(?P<id>\d+)_assignsubmission_file(?:_(?P<rest>.*))?")
#: nbgrader's exchange; the last part, which is random, may be missing.
_EXCHANGE = re.compile(r"(?P<name>.+)\+[^+]+\+(?P<time>\d{4}-[^+]+)(?:\+[^+]*)?")
_TIME = re.compile(
    r"(?P<moment>\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
    r"(?: ?(?P<offset>[+-]\d\d:?\d\d)| ?(?P<zone>[A-Za-z][\w+/-]{0,40}))?",
    re.ASCII,
)
#: Years in which a submission may have been handed in. Others are taken for a mistake.
_YEARS = range(2000, 2100)
#: The longest reason for which an entry is refused: some quote what a student wrote.
_MOST_REASON = 1_000


class Record(BaseModel):
    """Where a submission came from.

    Attributes:
        student: nbgrader's id of the student.
        source: the entry's name in the inbox.
        digest: the hash of the entry's content.
        problem: why it could not be read; empty if it could.
        system: the system that the entry was downloaded from; empty if its name does not show it.
        number: that system's id of the student; empty if its name does not hold it.
        name: the student's name in the entry's name.
        time: when it was handed in, in UTC, as nbgrader writes it; empty if that is not known.
        clock: what states the time: the name that nbgrader's exchange gave the entry; or the
            submission's file timestamp.txt. Such a file is nbgrader's, but a student can write one,
            too. It is not believed in an entry from another system, which knows the time itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    student: str
    source: str
    digest: str
    problem: str = ""
    system: Literal["", "canvas", "moodle", "nbgrader"] = ""
    number: str = ""
    name: str
    time: str = ""
    clock: Literal["", "name", "file"] = ""

    @property
    def key(self) -> str:
        """What tells this student from others. Entries with the same key are one student's."""
        return f"{self.name}_{self.number}" if self.number else self.name


def take_inbox(classroom: Classroom, assignment: Assignment, inbox: Path) -> list[Record]:
    """Copy every entry of an inbox to `classroom.submitted`.

    Entries that have not changed since the last time are not copied again.

    Example::

        take_inbox(Classroom.default(), assignments.named("a2"), Path("~/Downloads").expanduser())

    Args:
        classroom: where the submissions are copied to.
        assignment: the assignment that was handed in.
        inbox: the folder with one entry per student. Nothing in it is changed.

    Returns:
        One record per student.

    Raises:
        WorkbookError: there is no such folder.
    """
    if not inbox.is_dir():
        raise WorkbookError(
            "There is no inbox.",
            where=str(inbox),
            todo="Make the folder and put one zip or folder per student into it.",
        )
    entries = [path for path in sorted(inbox.iterdir()) if not path.name.startswith(".")]
    newest = _newest(entries)
    ids = _ids(classroom, assignment, [whose.key for _, whose in newest])
    return [
        _take(classroom, assignment, path, whose.model_copy(update={"student": ids[whose.key]}))
        for path, whose in newest
    ]


def record(classroom: Classroom, assignment: str, student: str) -> Record | None:
    """Where a submission came from; None for one that was not taken from an inbox."""
    return _read(_record(classroom, assignment, student))


def refused(assignment: Assignment, problem: str) -> Graded:
    """The result of a submission that could not be read: no check was attempted.

    Raises:
        WorkbookError: the assignment is not built.
    """
    text = f"Your submission could not be read. {problem}"
    release = assignment.release.read_text("utf-8")
    digest = hashlib.sha256(f"refused\n{problem}\n{release}".encode()).hexdigest()
    verdict = Verdict(
        assignment=assignment.name,
        checks=tuple(
            CheckResult(id=id, sentence="", status="not attempted", credit=0, rationale=text)
            for id in assignment.checks
        ),
        flags=(Flag(kind="unreadable", detail=problem),),
    )
    return Graded(
        key=digest, assignment=assignment.name, verdict=verdict, notebook=release, sandbox="none"
    )


def parse_time(text: str) -> datetime.datetime | None:
    """The time in a text as nbgrader writes it; None if there is none, or not one of this century.

    A zone that this machine does not know is taken for UTC, as nbgrader does.

    Example: `parse_time("2026-11-20 10:00:00.000000 UTC")`.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or int(match["moment"][:4]) not in _YEARS:
        return None
    try:
        moment = datetime.datetime.fromisoformat(match["moment"])
        zone: datetime.tzinfo = datetime.UTC
        if match["offset"]:
            zone = datetime.datetime.strptime(match["offset"], "%z").tzinfo or zone
        elif match["zone"]:
            with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError, OSError):
                zone = zoneinfo.ZoneInfo(match["zone"])
        return moment.replace(tzinfo=zone).astimezone(datetime.UTC)
    except ValueError:  # such as a 13th month
        return None


def _newest(entries: list[Path]) -> list[tuple[Path, Record]]:
    """Each entry with its record. If a student has several entries, only the newest counts."""
    newest: dict[str, tuple[float, Path, Record]] = {}
    for path in entries:
        whose = _whose(path)
        when = 0.0
        if (stated := parse_time(whose.time)) is not None:
            when = stated.timestamp()
        else:
            with contextlib.suppress(OSError):  # it is gone since the inbox was listed
                when = path.lstat().st_mtime
        if whose.key not in newest or when >= newest[whose.key][0]:
            newest[whose.key] = (when, path, whose)
    return [(path, whose) for _, path, whose in newest.values()]


def _ids(classroom: Classroom, assignment: Assignment, keys: list[str]) -> dict[str, str]:
    """The id of each key. A student keeps it in every later run, and in other assignments.

    The records of former runs say which ids are given. So no id changes when another student comes
    whose name differs in upper and lower case only, or in characters that ids do not have. That
    student's id gets a hash: two students must not share a folder, also where a disk ignores case.
    """
    ids: dict[str, str] = {}
    given: dict[str, str] = {}
    records = (classroom.home / "intake").glob("*/*.json")
    # This assignment's records come last: where others say something else, they count.
    for path in sorted(records, key=lambda path: (path.parent.name == assignment.name, path)):
        if (known := _read(path)) is not None:
            ids[known.key] = known.student
            given[folded(known.student)] = known.student
    folders: dict[str, set[str]] = {}
    with contextlib.suppress(FileNotFoundError):
        for path in classroom.submitted.iterdir():
            folders.setdefault(folded(path.name), set()).add(path.name)
    # Names that are ids as they are come first.
    for key in sorted({*keys} - ids.keys(), key=lambda key: (clean(key) != key, key)):
        plain = clean(key)
        for id in (plain, f"{plain}-{digest(key)[:6]}", f"{plain}-{digest(key)}"):
            # A folder of this name without a record is this student's: it is from nbgrader, or from
            # a run that was killed.
            if folded(id) not in given and id in folders.get(folded(id), {id}):
                break
        ids[key] = given[folded(id)] = id
    return ids


def _whose(path: Path) -> Record:
    """The record from an entry's name, as yet without an id."""
    name = path.name if path.is_dir() else re.sub(r"\.zip$", "", path.name, flags=re.IGNORECASE)
    name = unicodedata.normalize("NFC", name)  # zips of macOS have letters and accents apart
    if shown(name) != name or "\n" in name or "\t" in name:
        source = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        source = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in source)
        return Record(
            student="",
            source=source,
            digest="",
            problem=f"Its name holds what is no text in UTF-8: {source}. Rename it.",
            name=f"{source} {digest(path.name)[:6]}",
        )
    entry = Record(student="", source=path.name, digest="", name=name)
    if path.is_dir() and (match := _EXCHANGE.fullmatch(name)) and parse_time(match["time"]):
        found = {"system": "nbgrader", "name": match["name"], "time": match["time"]}
        return entry.model_copy(update={**found, "clock": "name"})
    for system, pattern in (("moodle", _MOODLE), ("canvas", _CANVAS)):
        if match := pattern.fullmatch(name):
            found = {"system": system, "number": match["id"], "name": match["name"]}
            return entry.model_copy(update=found)
    return entry


def _take(classroom: Classroom, assignment: Assignment, path: Path, whose: Record) -> Record:
    if not whose.problem:
        try:
            whose = _looked_at(path, assignment, whose)
        except (Refused, OSError) as error:
            whose = _refuse(whose, error)
    known = record(classroom, assignment.name, whose.student)
    place = classroom.submission(whose.student, assignment.name)
    if known is not None and place.is_dir():
        unread = known if whose.problem else known.model_copy(update={"problem": ""})
        if unread == whose:
            return known
    classroom.submitted.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=classroom.submitted, prefix=".taking-") as scratch:
        folder = Path(scratch) / "refused"
        if not whose.problem:
            try:
                folder = unpack_entry.unpack(path, assignment, Path(scratch))
            except (Refused, OSError) as error:
                whose = _refuse(whose, error)
        if whose.problem:
            folder.mkdir()
            (folder / assignment.release.name).write_text(_stand_in(whose.problem), "utf-8")
        _state_time(folder / "timestamp.txt", whose.time)
        place.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            place.rename(Path(scratch) / "old")
        folder.rename(place)
    write(
        _record(classroom, assignment.name, whose.student), whose.model_dump_json(indent=1).encode()
    )
    return whose


def _looked_at(path: Path, assignment: Assignment, whose: Record) -> Record:
    """The record with the entry's hash, and with the time of handing in where that is known.

    Raises:
        Refused: the entry is too large, or no submission.
        OSError: it cannot be read.
    """
    parts = unpack_entry.parts(path)
    found = {"digest": _digest(path, parts), "time": "", "clock": whose.clock}
    time = parse_time(whose.time)
    stamp = path / assignment.name / "timestamp.txt"
    if not whose.system and (stamp, True) in parts:
        with open_regular(stamp) as stream:
            time = parse_time(stream.read(100).decode("ascii", "replace"))
        found["clock"] = "file" if time else ""
    if time is not None:
        found["time"] = f"{time:%Y-%m-%d %H:%M:%S.%f} UTC"
    return whose.model_copy(update=found)


def _refuse(whose: Record, why: Refused | OSError) -> Record:
    """The record with the reason why the entry is not taken."""
    reason = str(why) if isinstance(why, Refused) else f"It cannot be read: {why.strerror}."
    return whose.model_copy(update={"problem": shown(reason)[:_MOST_REASON]})


def _stand_in(problem: str) -> str:
    """A notebook for an entry that was refused: nbgrader grades a folder only if it has one."""
    cell = {"cell_type": "markdown", "id": "refused", "metadata": {}, "source": problem}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _state_time(file: Path, time: str) -> None:
    """Write the time for nbgrader, in place of what the student may have put there."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    if time:
        file.write_text(time, "ascii")


def _digest(entry: Path, parts: list[tuple[Path, bool]]) -> str:
    """The hash of an entry: of the names of its files and folders, and of the files' bytes."""
    digest = hashlib.sha256()
    for path, is_file in parts:
        digest.update(f"{path.relative_to(entry.parent)}\0".encode("utf-8", "surrogateescape"))
        if is_file:
            with open_regular(path) as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _read(path: Path) -> Record | None:
    try:
        return Record.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _record(classroom: Classroom, assignment: str, student: str) -> Path:
    return classroom.home / "intake" / assignment / f"{student}.json"
