"""Take submissions from the inbox to `submitted/<student>/<assignment>/`.

An instructor puts one zip or folder per student into the inbox:

    anna.zip                         what `workbook submit` wrote
    anna/                            the files themselves, or a zip in a folder
    anna/a2__forest/                 as `nbgrader collect` makes it, with its timestamp.txt
    okafor_LATE_4711_90210_a2.zip    as Canvas names it (4711 is Canvas's id of the student)
    Anna Okafor_4711_assignsubmission_file_a2.zip (or a folder)   as Moodle names it

If an entry cannot be read, the student gets a result without points, with the reason. The other
entries are not affected.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from workbook.assignments import Assignment, cells
from workbook.common.errors import WorkbookError

from ..checks.results import CheckResult, Flag, Graded, Verdict
from .classroom import Classroom, write
from .unpack_submission import Refused, copy, unzip

#: The largest zip that is opened, in bytes.
MOST_PACKED = 100 << 20

_CANVAS = re.compile(r"(?P<name>[^_]+)(?:_LATE)?_(?P<id>\d+)_\d+_(?P<rest>.+)")
_MOODLE = re.compile(r"(?P<name>[^_]+)_(?P<id>\d+)_assignsubmission_file(?:_(?P<rest>.*))?")


class Record(BaseModel):
    """Where a submission came from.

    Attributes:
        student: nbgrader's id of the student.
        source: the entry's name in the inbox.
        digest: the hash of the entry's content.
        problem: why it could not be read; empty if it could.
        system: the system that the entry was downloaded from; empty if its name does not show it.
        number: that system's id of the student.
        name: the student's name in the entry's name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    student: str
    source: str
    digest: str
    problem: str = ""
    system: Literal["", "canvas", "moodle"] = ""
    number: str = ""
    name: str


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
    return [_take(classroom, assignment, path, who) for path, who in _students(entries)]


def record(classroom: Classroom, assignment: str, student: str) -> Record | None:
    """Where a submission came from; None for one that was not taken from an inbox."""
    try:
        return Record.model_validate_json(_record(classroom, assignment, student).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


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


def clean(name: str) -> str:
    """A student's name as a text that can be a folder's name, a part of a URL and nbgrader's id.

    Letters and digits of any script, and `. _ - @`, are kept. Other characters become `_`. The
    result is never empty. Example: `clean("Ana Ruiz") == "Ana_Ruiz"`.
    """
    text = unicodedata.normalize("NFC", name)
    text = re.sub(r"[^\w.@-]+", "_", text).strip("._-")
    text = text[:60].rstrip("._-")
    return text or f"student-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _students(entries: list[Path]) -> Iterator[tuple[Path, Record]]:
    """Each entry with its record. If a student has several entries, only the newest counts."""
    newest: dict[str, tuple[float, Path, Record]] = {}
    for path in entries:
        whose = _whose(path)
        changed = path.lstat().st_mtime
        if whose.student not in newest or changed >= newest[whose.student][0]:
            newest[whose.student] = (changed, path, whose)
    ids = {raw: clean(raw) for raw in newest}
    taken = Counter(id.casefold() for id in ids.values())
    for raw, (_, path, whose) in newest.items():
        id = ids[raw]
        if taken[id.casefold()] > 1 or (id != raw and raw[60:]):
            # Two students must not share a folder, also where a disk ignores upper and lower case.
            id = f"{id}-{hashlib.sha256(raw.encode()).hexdigest()[:6]}"
        yield path, whose.model_copy(update={"student": id})


def _whose(path: Path) -> Record:
    """The record from an entry's name. `clean` has not been applied to its `student` yet."""
    name = path.name if path.is_dir() else re.sub(r"\.zip$", "", path.name, flags=re.IGNORECASE)
    entry = Record(student=name, source=path.name, digest="", name=name)
    for system, pattern in (("moodle", _MOODLE), ("canvas", _CANVAS)):
        if match := pattern.fullmatch(name):
            found = {"system": system, "number": match["id"], "name": match["name"]}
            student = f"{match['name']}_{match['id']}"
            return entry.model_copy(update={"student": student, **found})
    return entry


def _take(classroom: Classroom, assignment: Assignment, path: Path, whose: Record) -> Record:
    known = record(classroom, assignment.name, whose.student)
    place = classroom.submission(whose.student, assignment.name)
    try:
        whose = whose.model_copy(update={"digest": _digest(path)})
    except OSError as error:
        whose = whose.model_copy(update={"problem": f"It cannot be read: {error.strerror}."})
    if known and place.is_dir() and known.model_copy(update={"problem": ""}) == whose:
        return known
    classroom.submitted.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=classroom.submitted, prefix=".taking-") as scratch:
        folder = Path(scratch) / "new"
        stamp = None
        if not whose.problem:
            try:
                folder, stamp = _unpacked(path, assignment, Path(scratch))
            except Refused as reason:
                whose = whose.model_copy(update={"problem": str(reason)})
            except (OSError, RecursionError) as error:
                whose = whose.model_copy(update={"problem": f"It cannot be unpacked: {error}."})
        if whose.problem:
            # nbgrader takes a folder for a submission only where it holds a valid notebook.
            folder = Path(scratch) / "refused"
            folder.mkdir()
            import nbformat

            empty = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
                cells=[nbformat.v4.new_markdown_cell(whose.problem, id="refused")]  # type: ignore[no-untyped-call]
            )
            nbformat.write(empty, folder / assignment.release.name)  # type: ignore[no-untyped-call]
        (folder / "timestamp.txt").unlink(
            missing_ok=True
        )  # only an instructor's system states the time
        if stamp:
            (folder / "timestamp.txt").write_text(stamp)
        place.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            place.rename(Path(scratch) / "old")
        folder.rename(place)
    write(
        _record(classroom, assignment.name, whose.student), whose.model_dump_json(indent=1).encode()
    )
    return whose


def _unpacked(path: Path, assignment: Assignment, scratch: Path) -> tuple[Path, str | None]:
    """Copy an entry's files into `scratch`; returns their folder, and nbgrader's time stamp.

    Raises:
        Refused: the entry cannot be read.
    """
    folder = scratch / "new"
    stamp = None
    if path.is_symlink():
        raise Refused(f"{path.name} is a link; put the file itself into the inbox.")
    if path.is_dir():
        collected = path / assignment.name
        if collected.is_dir() and not collected.is_symlink():
            stamp = _stamp(collected / "timestamp.txt")
        folder.mkdir()
        copy(path, folder)
        files = list(folder.iterdir())
        if len(files) == 1 and files[0].suffix.lower() == ".zip":
            archive = files[0].rename(scratch / "inner.zip")
            _unzip(archive, files[0].name, folder)
    else:
        folder.mkdir()
        _unzip(path, path.name, folder)
    top = _top(folder, assignment)
    _accept(top, assignment)
    return top, stamp


def _unzip(archive: Path, name: str, to: Path) -> None:
    if not archive.is_file():
        raise Refused(f"{name} is neither a zip nor a folder.")
    if archive.stat().st_size > MOST_PACKED:
        raise Refused(f"{name} is larger than {MOST_PACKED >> 20} MiB.")
    unzip(archive, to)


def _top(folder: Path, assignment: Assignment) -> Path:
    """The folder that holds the notebook.

    Many programs put a folder around the files of a zip. So this function also looks in a folder
    that is the only entry, and in one with the assignment's name, up to four levels deep.
    """
    for _ in range(4):
        if (folder / assignment.release.name).exists():
            break
        inside = list(folder.iterdir())
        if (folder / assignment.name).is_dir():
            folder = folder / assignment.name
        elif len(inside) == 1 and inside[0].is_dir():
            folder = inside[0]
        else:
            break
    return folder


def _accept(folder: Path, assignment: Assignment) -> None:
    """Raise `Refused` unless the folder has the assignment's notebook and nbgrader can open it."""
    notebook = folder / assignment.release.name
    if not notebook.is_file():
        others = sorted(path.name for path in folder.glob("*.ipynb"))
        found = f" It has {', '.join(others[:5])}." if others else ""
        raise Refused(f"There is no {notebook.name} in it.{found}")
    import nbformat  # late: it takes a second to import

    try:
        content = cells.read(notebook)
        nbformat.reads(json.dumps(content), as_version=4)  # type: ignore[no-untyped-call]
    except WorkbookError as error:
        raise Refused(f"{notebook.name}: {error.what} {error.todo}") from None
    except Exception as error:  # nbformat raises many kinds of errors for JSON that is no notebook
        raise Refused(f"{notebook.name} is not a notebook ({type(error).__name__}).") from None


def _stamp(path: Path) -> str | None:
    """nbgrader's time stamp; None if the file has none."""
    from dateutil.parser import parse  # type: ignore[import-untyped]  # nbgrader's own

    try:
        text = path.read_text("ascii")[:64].strip() if not path.is_symlink() else ""
        parse(text)
    except (OSError, ValueError, OverflowError):
        return None
    return text


def _digest(path: Path) -> str:
    """The hash of an entry: of a file's bytes, or of all names and bytes below a folder."""
    digest = hashlib.sha256()
    files = [path] if not path.is_dir() or path.is_symlink() else sorted(path.rglob("*"))
    for file in files:
        digest.update(f"{file.relative_to(path.parent)}\0".encode("utf-8", "surrogateescape"))
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _record(classroom: Classroom, assignment: str, student: str) -> Path:
    return classroom.home / "intake" / assignment / f"{student}.json"
