"""Take submissions from the inbox to `submitted/<student>/<assignment>/`.

An instructor puts everything into one inbox, as it comes, of all assignments:

    anna.zip                         what `workbook submit` wrote
    anna.ipynb                       the notebook alone
    anna/                            the files themselves, or a zip in a folder
    anna/a2__forest/                 as `nbgrader collect` makes it, with its timestamp.txt
    anna+a2__forest+2026-11-20 10:00:00 UTC+x1/   as it lies in nbgrader's exchange
    submissions.zip                  Canvas's download of a whole class
    course-forest-71.zip             Moodle's
    Grades-course-forest-71.csv      Moodle's grading worksheet, which has the times

arrivals.py reads from each name who handed it in, and roster.py finds this student in the class
list. unpack_entry.py finds the assignment by what is in it. An entry that belongs to no student, or
to no assignment, is reported and not graded. If a submission cannot be read, the student gets a
result without points, with the reason. The others are not affected.

If a student has handed in several times, the last submission that can be read counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from . import arrivals, deadlines, owners, records, times, unpack_entry, worksheet
from .arrivals import Arrival, Download
from .classroom import Classroom, write
from .names import digest
from .records import Clock, Record, Reported, read_reports, record, refused_result
from .times import parse as parse_time
from .unpack_submission import Refused, open_regular

__all__ = [
    "Record",
    "Reported",
    "Taken",
    "parse_time",
    "read_reports",
    "record",
    "refused_result",
    "take",
    "take_inbox",
]

_TAKING = ".taking-"


@dataclasses.dataclass(frozen=True)
class Taken:
    """What one look into the inbox found.

    Attributes:
        records: the submissions, by assignment, in the order in which they lie in the inbox.
        reported: what is not graded.
        downloads: the downloads of a whole class.
    """

    records: dict[str, list[Record]]
    reported: list[Reported]
    downloads: list[Download]


def take_inbox(classroom: Classroom, assignment: Assignment, inbox: Path) -> list[Record]:
    """Take the submissions of one assignment, where there is no other.

    Example::

        take_inbox(Classroom.default(), assignments.named("a2"), Path("~/Downloads").expanduser())

    Args, Raises: as for `take`.

    Returns:
        One record per student.
    """
    return take(classroom, [assignment], inbox).records[assignment.name]


def take(
    classroom: Classroom,
    assignments: Sequence[Assignment],
    inbox: Path,
    *,
    assumed: Assignment | None = None,
) -> Taken:
    """Copy every submission in an inbox to `classroom.submitted`.

    Submissions that have not changed since the last time are not copied again.

    Args:
        classroom: where the submissions are copied to, and whose class list counts.
        assignments: those that may have been handed in, built.
        inbox: the folder. Nothing in it is changed.
        assumed: the assignment of a submission that cannot be read, if nothing else names one.

    Raises:
        WorkbookError: there is no such folder; or the class list or the due dates are wrong.
    """
    if not inbox.is_dir():
        raise WorkbookError(
            "There is no inbox.",
            where=str(inbox),
            todo="Make the folder and put one zip or folder per student into it.",
        )
    whose = owners.Owners(classroom, assignments)
    run = _Run(classroom, assignments, assumed, whose)
    for path in classroom.submitted.glob(f"{_TAKING}*"):  # of a run that was killed
        shutil.rmtree(path, ignore_errors=True)
    stated, faults = worksheet.handed_in(inbox, deadlines.timezone(classroom))
    if stated and not deadlines.has_timezone(classroom):
        faults[deadlines.path(classroom).name] = (
            "It names no time zone. The times of Moodle's worksheet are taken for UTC: write "
            '`timezone = "Europe/Berlin"` as its first line.'
        )
    reports = [Reported(source=name, reason=why, waits=False) for name, why in faults.items()]
    downloads: list[Download] = []
    submissions: list[Arrival] = []
    for found in arrivals.look(inbox, whose.is_student):
        if isinstance(found, Download):
            downloads.append(found)
        elif found.system == "moodle" and found.number in stated:
            submissions.append(dataclasses.replace(found, time=stated[found.number]))
        else:
            submissions.append(found)
    students, nobodys = whose.students(submissions)
    for student, theirs in students.items():
        run.take(student, theirs)
    run.refuse()
    run.end()
    taken = run.in_order(submissions)
    reports += nobodys + run.reports + list(_without_time(classroom, taken))
    records.keep_reported(classroom, reports)
    return Taken(taken, reports, downloads)


def _without_time(classroom: Classroom, found: dict[str, list[Record]]) -> Iterator[Reported]:
    """A report for each assignment with a due date and submissions of which no time is known."""
    for name, submissions in found.items():
        taken = [record for record in submissions if not record.problem]
        lost = [record.student for record in taken if not record.time]
        if not lost or deadlines.of(classroom, name) is None:
            continue
        late = [record.student for record in taken if record.late and not record.time]
        who = "all" if len(lost) == len(taken) else f"{len(lost)} of {len(taken)}"
        which = f" ({_some(lost)})" * (len(lost) < len(taken))
        says = f" Canvas calls late: {_some(late)}." * bool(late)
        short = name.split("__")[0]
        reason = (
            f"{name} has a due date, and nothing says when {who} submissions{which} were handed "
            f"in: they count as on time.{says} Put Moodle's grading worksheet into the inbox, or "
            f"write the times into [{short}.handed_in]."
        )
        yield Reported(
            source=deadlines.path(classroom).name, reason=records.short(reason), waits=False
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + f" and {len(names) - 8} more" * (len(names) > 8)


@dataclasses.dataclass
class _Look:
    """What an arrival holds.

    Attributes:
        digest: the hash of its content; "" if it could not be looked at.
        folders: by assignment, the folder with the notebook; None where it was found in a former
            run, and is not unpacked now.
        problems: why it cannot be taken, by assignment; "" for the whole.
        stamps: the files timestamp.txt that are believed, by assignment.
    """

    digest: str = ""
    folders: dict[str, Path | None] = dataclasses.field(default_factory=dict)
    problems: dict[str, str] = dataclasses.field(default_factory=dict)
    stamps: dict[str, datetime.datetime] = dataclasses.field(default_factory=dict)


class _Run:
    """One look into the inbox.

    Args:
        classroom: where submissions are copied to.
        assignments: those that may have been handed in.
        assumed: the assignment of a submission that cannot be read, if nothing else names one.
        whose: finds the students.
    """

    def __init__(
        self,
        classroom: Classroom,
        assignments: Sequence[Assignment],
        assumed: Assignment | None,
        whose: owners.Owners,
    ) -> None:
        self._whose = whose
        self.reports: list[Reported] = []
        self._classroom = classroom
        self._assignments = assignments
        self._assumed = assignments[0] if len(assignments) == 1 else assumed
        self._deadlines = {one.name: deadlines.of(classroom, one.name) for one in assignments}
        self._records: dict[tuple[str, str], tuple[Record, Arrival]] = {}
        self._broken: list[tuple[str, Arrival, str, str]] = []
        self._siblings: dict[str, Counter[str]] = {}
        self._whole: dict[Path, str] = {}  # hashes of downloads
        self._state = _state(assignments)
        self._known = _read_seen(classroom, self._state)
        self._read_seen: dict[str, list[str]] = {}

    def take(self, student: str, theirs: list[Arrival]) -> None:
        """Look at everything that a student handed in, and copy what counts."""
        self._classroom.submitted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._classroom.submitted, prefix=_TAKING) as scratch:
            looks = []
            for number, arrival in enumerate(theirs):
                place = Path(scratch) / str(number)
                place.mkdir()
                look = self._look(arrival, place)
                looks.append((arrival, look))
                self._broken += [
                    (student, arrival, which, why) for which, why in look.problems.items()
                ]
            for assignment in self._assignments:
                name = assignment.name
                good = [
                    (_with_timestamp(arrival, look.stamps.get(name)), look)
                    for arrival, look in looks
                    if name in look.folders
                ]
                if good := self._of_one(student, good):
                    for arrival, _ in good:
                        self._siblings.setdefault(arrival.download, Counter())[name] += 1
                    self._choose(student, assignment, good, Path(scratch))

    def _of_one(
        self, student: str, good: list[tuple[Arrival, _Look]]
    ) -> list[tuple[Arrival, _Look]]:
        """Leave out arrivals that may be of another person with this student's name.

        In many systems everybody chooses the name that is shown. Two numbers in one download are
        two people. If the class list does not say which number is the student's, no work of the
        two is taken: otherwise the later submission would replace the other person's.
        """
        numbers: dict[tuple[str, str], set[str]] = {}
        for arrival, _ in good:
            if arrival.system in ("canvas", "moodle"):
                numbers.setdefault((arrival.system, arrival.download), set()).add(arrival.number)
        kept = []
        for arrival, look in good:
            several = numbers.get((arrival.system, arrival.download), set())
            known = several & self._whose.numbers(student, arrival.system)
            if len(several) < 2 or known == {arrival.number}:
                kept.append((arrival, look))
                continue
            listed = ", ".join(sorted(several)[:5])
            self.reports.append(
                owners.not_graded(
                    arrival,
                    f"{len(several)} people there have the name of {student}: {listed} in "
                    f"{arrival.system}. Find out who each is. Name {student}'s by the id, such as "
                    f"{student}.zip, or write the number into the class list.",
                )
            )
        return kept

    def refuse(self) -> None:
        """Record the arrivals that cannot be read, after all others have been looked at."""
        for student, arrival, which, why in self._broken:
            assignment = self._of(arrival, which)
            if assignment is None:
                names = ", ".join(assignment.short for assignment in self._assignments)
                reason = f"{student}: {why} It can be of {names or 'no assignment'}."
                self.reports.append(owners.not_graded(arrival, reason))
                continue
            kept, other = self._find_former(assignment.name, student)
            if other is not None and not _is_later(arrival, other):
                continue
            if kept is None or kept.problem:
                kept = self._record(student, arrival, digest="", problem=why)
                self._install(assignment, kept, None)
            elif other is None or other.download != arrival.download or not other.download:
                note = f"A later one, {arrival.source}, cannot be read: {why}"
                kept = kept.model_copy(update={"note": records.short(note)})
                records.keep(self._classroom, assignment.name, kept)
            self._records[assignment.name, student] = (kept, other or arrival)

    def end(self) -> None:
        """Record what was found in each arrival, so that it is not unpacked again."""
        text = json.dumps({"state": self._state, "seen": self._read_seen})
        write(self._classroom.home / "intake" / "seen.json", text.encode())

    def in_order(self, submissions: list[Arrival]) -> dict[str, list[Record]]:
        """The records by assignment, in the order of the arrivals."""
        place = {arrival.source: number for number, arrival in enumerate(submissions)}
        found: dict[str, list[Record]] = {assignment.name: [] for assignment in self._assignments}
        for (name, _), (kept, _) in sorted(
            self._records.items(), key=lambda item: place[item[1][1].source]
        ):
            found[name].append(kept)
        return found

    def _look(self, arrival: Arrival, scratch: Path) -> _Look:
        """What an arrival holds. It is unpacked unless a former run has done that."""
        look = _Look()
        try:
            if arrival.problem:
                raise Refused(arrival.problem)
            parts = [] if arrival.part else unpack_entry.parts(arrival.path)
            if not arrival.system:
                look.stamps = _stamps(arrival.path, parts, self._assignments)
            look.digest = self._digest(arrival, parts)
            if look.digest in self._known:
                look.folders = dict.fromkeys(self._known[look.digest])
            else:
                self._unpack(arrival, look, scratch)
            if look.folders and not look.problems:
                self._read_seen[look.digest] = list(look.folders)
        except (Refused, OSError) as error:
            look.problems = {"": self._reason(arrival, error)}
        return look

    def _reason(self, arrival: Arrival, error: Refused | OSError) -> str:
        """The reason why nothing of an arrival can be taken."""
        if not isinstance(error, Refused):
            return f"It cannot be read: {error.strerror}."
        return owners.hint(arrival) or str(error)

    def _unpack(self, arrival: Arrival, look: _Look, scratch: Path) -> None:
        """Unpack an arrival, and add to `look` what it holds.

        Raises:
            Refused: nothing in it can be taken.
        """
        found = unpack_entry.unpack(arrival.path, self._assignments, scratch, part=arrival.part)
        look.folders = dict(found.folders)
        look.problems = {name: records.short(why) for name, why in found.problems.items()}

    def _digest(self, arrival: Arrival, parts: list[tuple[Path, bool]]) -> str:
        if not arrival.part:
            return _digest(arrival.path, parts)
        if arrival.path not in self._whole:
            self._whole[arrival.path] = _digest(arrival.path, [(arrival.path, True)])
        return digest(f"{self._whole[arrival.path]} {arrival.part}")

    def _choose(
        self, student: str, assignment: Assignment, good: list[tuple[Arrival, _Look]], scratch: Path
    ) -> None:
        """Copy the last of a student's submissions of an assignment."""
        last, look = good[0]
        for arrival, other in good[1:]:
            if not _is_later(last, arrival):
                last, look = arrival, other
        note = ""
        if len(good) > 1:
            when = f", of {last.time:%Y-%m-%d %H:%M} UTC" if last.time else ""
            note = f"Of {len(good)} that were handed in, the last counts: {last.source}{when}."
        new = self._record(student, last, look.digest, note=records.short(note))
        deadline = self._deadlines[assignment.name]
        if deadline is not None and (given := deadline.handed_in.get(student)):
            new = new.model_copy(update={"time": times.format_utc(given), "clock": "given"})
        known = record(self._classroom, assignment.name, student)
        if known and not known.problem and self._is_there(student, assignment.name):
            if known.digest == new.digest:
                self._restate(assignment, known, new)
                self._records[assignment.name, student] = (new, last)
                return
            before, now = parse_time(known.time), last.time
            if before and now and now < before and known.clock not in ("file", "given"):
                self._records[assignment.name, student] = (known, last)
                return  # it is older than what was taken from the inbox before
        folder = look.folders[assignment.name]
        if folder is None:  # a former run has unpacked it, and something has removed the files
            again = Path(tempfile.mkdtemp(dir=scratch))
            try:
                self._unpack(last, look, again)
                folder = look.folders[assignment.name]
            except (Refused, OSError, KeyError) as error:
                reason = str(error) if isinstance(error, Refused) else "It cannot be read again."
                new = new.model_copy(update={"problem": records.short(reason)})
        if folder is not None and len(look.folders) > 1:
            folder = self._alone(folder, assignment, scratch)
        self._install(assignment, new, folder)
        self._records[assignment.name, student] = (new, last)

    def _alone(self, folder: Path, assignment: Assignment, scratch: Path) -> Path:
        """A copy of a submission that holds several assignments, without the others' notebooks."""
        alone = Path(tempfile.mkdtemp(dir=scratch)) / "copy"
        shutil.copytree(folder, alone)
        for other in self._assignments:
            if other != assignment:
                (alone / other.release.name).unlink(missing_ok=True)
        return alone

    def _record(
        self, student: str, arrival: Arrival, digest: str, *, problem: str = "", note: str = ""
    ) -> Record:
        clock: Clock = ""
        if arrival.time is not None:
            clock = "file" if not arrival.system else "worksheet"
            clock = "name" if arrival.system == "nbgrader" else clock
        return Record(
            student=student,
            source=arrival.source,
            digest=digest,
            problem=records.short(problem),
            system=arrival.system,
            number=arrival.number,
            name=arrival.name,
            time=times.format_utc(arrival.time) if arrival.time else "",
            clock=clock,
            late=arrival.late,
            note=note,
        )

    def _restate(self, assignment: Assignment, known: Record, new: Record) -> None:
        """Write the record and the time of a submission anew. Its files stay as they are."""
        if known != new:
            place = self._classroom.submission(new.student, assignment.name)
            _state_time(place / "timestamp.txt", new.time)
            records.keep(self._classroom, assignment.name, new)

    def _install(self, assignment: Assignment, new: Record, folder: Path | None) -> None:
        """Put a submission's files in their place; without a folder, a notebook with the reason."""
        place = self._classroom.submission(new.student, assignment.name)
        known = record(self._classroom, assignment.name, new.student)
        if new.problem and known == new and place.is_dir():
            return
        with tempfile.TemporaryDirectory(dir=self._classroom.submitted, prefix=_TAKING) as scratch:
            if folder is None:
                folder = Path(scratch) / "refused"
                folder.mkdir()
                (folder / assignment.release.name).write_text(_stand_in(new.problem), "utf-8")
            _state_time(folder / "timestamp.txt", new.time)
            place.parent.mkdir(exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                place.rename(Path(scratch) / "old")
            folder.rename(place)
        records.keep(self._classroom, assignment.name, new)

    def _find_former(self, assignment: str, student: str) -> tuple[Record | None, Arrival | None]:
        """The submission that counts so far: from this run, with its arrival; or from a former."""
        if (assignment, student) in self._records:
            return self._records[assignment, student]
        known = record(self._classroom, assignment, student)
        if known is not None and not known.problem and self._is_there(student, assignment):
            return known, None
        return None, None

    def _is_there(self, student: str, assignment: str) -> bool:
        return self._classroom.submission(student, assignment).is_dir()

    def _of(self, arrival: Arrival, which: str) -> Assignment | None:
        """The assignment of an arrival that cannot be read; None if nothing names it.

        The first of these decides: `which`, an assignment in the arrival's name, the most frequent
        assignment in the same download, `assumed`.
        """
        known = {assignment.name: assignment for assignment in self._assignments}
        if which:
            return known[which]
        words = set(re.split(r"[^a-z0-9]+", arrival.source.rpartition(": ")[2].lower()))
        named = [one for one in self._assignments if {one.short, one.name} & words]
        if len(named) == 1:
            return named[0]
        if arrival.download and (siblings := self._siblings.get(arrival.download)):
            return known[siblings.most_common(1)[0][0]]
        return self._assumed


def _with_timestamp(arrival: Arrival, stamp: datetime.datetime | None) -> Arrival:
    """The arrival with the time of a file timestamp.txt, where nothing else states one."""
    if arrival.time is None and stamp is not None:
        return dataclasses.replace(arrival, time=stamp)
    return arrival


def _is_later(one: Arrival, other: Arrival) -> bool:
    """Whether one of a student's submissions was handed in after another."""
    if one.time and other.time:
        return one.time > other.time
    if one.file and other.file:
        return one.file > other.file
    return one.came > other.came


def _stamps(
    path: Path, parts: list[tuple[Path, bool]], assignments: Sequence[Assignment]
) -> dict[str, datetime.datetime]:
    """The times in the files that `nbgrader collect` writes, by assignment.

    Raises:
        Refused: such a file is no regular file.
    """
    found = {}
    for assignment in assignments:
        stamp = path / assignment.name / "timestamp.txt"
        if (stamp, True) in parts:
            with open_regular(stamp) as stream:
                time = parse_time(stream.read(100).decode("ascii", "replace"))
            if time is not None:
                found[assignment.name] = time
    return found


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


def _state(assignments: Sequence[Assignment]) -> str:
    """What decides to which assignments a submission belongs: their names and releases."""
    state = hashlib.sha256()
    for assignment in assignments:
        state.update(assignment.name.encode())
        with contextlib.suppress(OSError):
            state.update(hashlib.sha256(assignment.release.read_bytes()).digest())
    return state.hexdigest()


def _read_seen(classroom: Classroom, state: str) -> dict[str, list[str]]:
    """The assignments in what former runs have unpacked, by its hash."""
    try:
        found = json.loads((classroom.home / "intake" / "seen.json").read_bytes())
        seen = found["seen"] if found["state"] == state else {}
        return {str(digest): [str(name) for name in names] for digest, names in seen.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
