"""`Classroom`: the folder with all files of a class, and the store of its results."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from workbook.common import paths
from workbook.common.errors import WorkbookError

from ..vocabulary import own
from ..vocabulary.results import Flag, Graded

#: The end of a file's name while the file is being written.
_UNFINISHED = ".new"
_INBOX = """\
Put what students handed in here, of all assignments, as it comes:

- Canvas's download of all submissions (submissions.zip), or Moodle's (course-assignment-12.zip);
- for times of handing in, Moodle's grading worksheet (Grades-course-assignment-12.csv);
- or one zip, notebook or folder per student, named after the student: anna.zip.

`grader inbox` says what lies here, and whose it is. Then run `make grade` in the course's folder.
It finds out by itself which assignment each is of.
Nothing here is changed. What comes later is put beside it, and `make grade` is run again.

The folder above can hold two more files:
- students.csv, the class list: id,name,email and, for Canvas, a column `Canvas ID`. With it, what
  belongs to nobody is reported, and who handed in nothing stands in every table.
- deadlines.toml: due dates, extensions, and what a late day costs.
"""


@dataclasses.dataclass(frozen=True)
class Classroom:
    """The folder `grader/work/` and the files in it. git ignores all of them.

    Example::

        classroom = Classroom.default()
        classroom.results("a2__forest")["anna"].verdict

    Attributes:
        home: the folder, absolute. nbgrader's own files (`gradebook.db`, `autograded/`,
            `feedback/<student>/<assignment>/`) lie in it as well.
    """

    home: Path

    @classmethod
    def default(cls) -> Self:
        """The classroom of this checkout: `GRADER_WORK` where it is set, else `grader/work/`."""
        home = os.environ.get("GRADER_WORK")
        return cls(Path(home).expanduser().resolve() if home else paths.root() / "grader" / "work")

    @property
    def inbox(self) -> Path:
        """The folder that instructors put submissions into, of all assignments."""
        return self.home / "inbox"

    @property
    def submitted(self) -> Path:
        """`<student>/<assignment>/`: the submissions, unpacked; nbgrader's submitted_directory."""
        return self.home / "submitted"

    @property
    def autograded(self) -> Path:
        """`<student>/<assignment>/`: the notebooks that formgrader shows."""
        return self.home / "autograded"

    @property
    def feedback(self) -> Path:
        """`<student>/<assignment>.html`: the page that the student reads."""
        return self.home / "feedback"

    @property
    def report(self) -> Path:
        """The class report and the tables for other systems."""
        return self.home / "report"

    @property
    def gradebook(self) -> Path:
        """nbgrader's database."""
        return self.home / "gradebook.db"

    def make_inbox(self) -> bool:
        """Make the inbox with a text in it that says what it is for; False if it is there."""
        if self.inbox.is_dir():
            return False
        write(self.inbox / "README.txt", _INBOX.encode())
        return True

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the classroom. The lock ends with this process.

        Raises:
            WorkbookError: another grader is at work in it.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WorkbookError(
                    "Another grader is at work here.",
                    where=str(self.home),
                    todo="Let it finish, or stop it; then run this again.",
                ) from None
            self._remove_unfinished()
            yield

    def _remove_unfinished(self) -> None:
        """Remove files that a killed run was writing; see `write`. Pages are written without lock.

        So a file that is younger than an hour may still be written by somebody.
        """
        for depth in ("", "*/", "*/*/"):
            for path in self.home.glob(f"{depth}.*{_UNFINISHED}"):
                with contextlib.suppress(OSError):
                    if path.is_file() and time.time() - path.lstat().st_mtime > 3_600:
                        path.unlink()

    def submission(self, student: str, assignment: str) -> Path:
        """The folder with the files that a student handed in."""
        return self.submitted / student / assignment

    def submissions(self, assignment: str) -> dict[str, Path]:
        """The folders of all submissions, by student, in alphabetical order."""
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for entry in sorted(self.submitted.iterdir()):
                folder = entry / assignment
                if not entry.name.startswith(".") and folder.is_dir() and not folder.is_symlink():
                    found[entry.name] = folder
        return found

    def secret(self) -> str:
        """The text that decides the hidden inputs of this class. It is made once, at random.

        Only instructors may know it.
        """
        path = self.home / "secret"
        if not path.exists():
            write(path, secrets.token_hex(16).encode(), mode=0o600)
        return path.read_text().strip()

    def find(self, assignment: str, key: str) -> Graded | None:
        """A stored result; None if there is none, or if this version cannot read it."""
        try:
            return Graded.model_validate_json(self._result(assignment, key).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def has(self, assignment: str, key: str) -> bool:
        """Whether a result is stored, without reading it."""
        return self._result(assignment, key).is_file()

    def forget(self, assignment: str, key: str) -> None:
        """Remove a stored result."""
        self._result(assignment, key).unlink(missing_ok=True)

    def store(self, graded: Graded) -> None:
        """Store a result. If this process is killed meanwhile, nothing of it is stored."""
        text = graded.model_dump_json().encode()
        write(self._result(graded.assignment, graded.key), text)

    def results_index(self, assignment: str) -> dict[str, str]:
        """The key of each student's latest result."""
        return {str(who): str(key) for who, key in _json(self._index(assignment)).items()}

    def save_results_index(self, assignment: str, index: dict[str, str]) -> None:
        """Record the key of each student's result.

        A submission whose key is the same as before is not graded again.
        """
        text = json.dumps(dict(sorted(index.items())), indent=1)
        write(self._index(assignment), text.encode())

    def limits(self, assignment: str) -> dict[str, float]:
        """The limits with which the class was last graded, by their names in `Settings`."""
        return {str(name): float(x) for name, x in _json(self._limits(assignment)).items()}

    def set_limits(self, assignment: str, limits: dict[str, float]) -> None:
        """Record the limits, so that nbgrader's own autograde uses the same ones later."""
        write(self._limits(assignment), json.dumps(limits).encode())

    def results(self, assignment: str) -> dict[str, Graded]:
        """The latest result of each student, by student, in alphabetical order.

        Where the numbers were made with the data of another id, a flag says so. It depends on who
        handed the files in, so it is no part of the stored result.
        """
        found = {
            who: self.find(assignment, key) for who, key in self.results_index(assignment).items()
        }
        alone = len(found) == 1
        return {who: _of(who, graded, alone) for who, graded in found.items() if graded is not None}

    def _result(self, assignment: str, key: str) -> Path:
        return self.home / "results" / assignment / f"{key}.json"

    def _limits(self, assignment: str) -> Path:
        return self.home / "limits" / f"{assignment}.json"

    def _index(self, assignment: str) -> Path:
        return self.home / "results" / assignment / "class.json"


def _of(student: str, graded: Graded, alone: bool) -> Graded:
    """A student's result, with a flag if the data in it were drawn for somebody else.

    A notebook in which nothing was attempted is the release: it has the id that every release has.
    """
    if all(check.status == "not attempted" for check in graded.verdict.checks):
        return graded
    if not (others := own.other_ids(graded.verdict.me, student, alone=alone)):
        return graded
    named = ", ".join(f'"{id}"' for id in others)
    flag = Flag(
        kind="another's data",
        detail=f"The notebook says me = {named}, so its data and numbers are those of that id.",
    )
    flags = (*graded.verdict.flags, flag)
    return graded.model_copy(update={"verdict": graded.verdict.model_copy(update={"flags": flags})})


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is no such file, or it cannot be read."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content


def write(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file. If this process is killed meanwhile, the old file is still complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
