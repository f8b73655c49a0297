"""The class list, `grader/work/students.csv`: find the student who handed in an entry.

    id,first name,last name,e-mail,Canvas ID
    anna,Anna,Okafor,anna@example.org,4711

`id` is nbgrader's id of a student, and the only column that must be there. A name is one column
(`name`, or `Okafor, Anna`) or two. What nbgrader, Canvas and Moodle write can be used as it is:
`id,first_name,last_name,email,lms_user_id`, or Canvas's gradebook with its column `ID`. Every other
column is kept as it is written. Those that name a system (`Canvas ID`, `SIS Login ID`, `Moodle ID`,
`Identifier`, `username`) are used to find the student who handed in an entry of the inbox.

Excel's files can be read: with semicolons or tabs, with a byte order mark, in UTF-8 or UTF-16.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from workbook.common.errors import WorkbookError

from .classroom import Classroom
from .names import clean, fold, shown

#: The largest list that is read, in bytes.
MOST_BYTES = 10 << 20

_ID = ("id", "studentid", "nbgraderid")
_FIRST = ("firstname", "givenname", "forename")
_LAST = ("lastname", "surname", "familyname")
_NAME = ("name", "fullname", "student", "studentname")
_EMAIL = ("email", "emailaddress", "mail")
#: Columns with a part of this kind in their names hold a system's numbers of its users. `_LOGIN`:
#: columns with login names, or with any of these numbers.
_CANVAS = ("canvas", "lms")
_MOODLE = ("moodle", "identifier", "lms")
_LOGIN = ("login", "username", "sis", "idnumber", *_CANVAS, *_MOODLE)

_SEPARATORS = ",;\t"
_SAVE = "In Excel, save it as `CSV UTF-8 (comma delimited)`."


@dataclasses.dataclass(frozen=True)
class Student:
    """A row of the class list.

    Attributes:
        id: nbgrader's id.
        first_name, last_name, email: "" where the list does not say it.
        columns: all columns as the list has them, by the names in its header.
    """

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The full name, the first name first; the id where the list has no name."""
        return f"{self.first_name} {self.last_name}".strip() or self.id


@dataclasses.dataclass(frozen=True)
class Roster:
    """The students of a class, by their ids, in the order of the list.

    Example::

        roster = read(Classroom.default())
        roster.whose("okaforanna", system="canvas", number="4711")     # [Student(id="anna", …)]
    """

    students: Mapping[str, Student]

    def whose(self, name: str, *, system: str = "", number: str = "") -> list[Student]:
        """The students who may have handed in an entry: one, none, or several if it is not clear.

        Canvas's number is looked at first: nobody can choose it. Then, in this order: the id, a
        login name, the e-mail address, the full name in either order. Upper and lower case, spaces
        and punctuation make no difference in a name. Accents make a difference only where a name
        without them is another student's. Moodle's number decides only if the name does not: a
        student has another number in each of Moodle's assignments.

        Args:
            name: the name in the entry's name.
            system: where the entry was downloaded, as in `intake.Record`; "" if that is not known.
            number: that system's number of the student.
        """
        if system == "canvas" and (found := self._canvas.get(number)):
            return found
        for index, key in (
            (self._ids, fold(name)),
            (self._logins, fold(name)),
            (self._emails, fold(name)),
            (self._names, _letters_of(name)),
            (self._plain_names, letters(name)),
        ):
            if key and (found := index.get(key)):
                if system == "moodle" and len(found) > 1:
                    return [one for one in found if one in self._moodle.get(number, [])] or found
                return found
        return self._moodle.get(number, []) if system == "moodle" else []

    def numbers(self, id: str, system: str) -> set[str]:
        """The numbers that a system gives to a student, as far as the list says them.

        Example: `roster.numbers("anna", "canvas") == {"4711"}`.
        """
        index = {"canvas": self._canvas, "moodle": self._moodle}.get(system, {})
        return {number for number, found in index.items() if any(one.id == id for one in found)}

    def without(self, present: Iterable[str]) -> list[Student]:
        """The students who are not among these ids: those without a submission.

        Example: `roster.without(classroom.submissions("a2__forest"))`.
        """
        known = {*present}
        return [student for id, student in self.students.items() if id not in known]

    @functools.cached_property
    def _ids(self) -> dict[str, list[Student]]:
        return self._index(lambda student: [fold(student.id)])

    @functools.cached_property
    def _emails(self) -> dict[str, list[Student]]:
        return self._index(lambda student: [fold(student.email)])

    @functools.cached_property
    def _logins(self) -> dict[str, list[Student]]:
        return self._index(lambda student: [fold(text) for text in _values_of(student, _LOGIN)])

    @functools.cached_property
    def _names(self) -> dict[str, list[Student]]:
        return self._index(_spellings)

    @functools.cached_property
    def _plain_names(self) -> dict[str, list[Student]]:
        return self._index(lambda student: [_without_accents(text) for text in _spellings(student)])

    @functools.cached_property
    def _canvas(self) -> dict[str, list[Student]]:
        return self._index(
            # In Canvas's own gradebook, which has a column `SIS Login ID`, its number is the id.
            lambda student: (
                [student.id]
                if _values_of(student, ("sislogin",)) and student.id.isdecimal()
                else _numbers(student, _CANVAS)
            )
        )

    @functools.cached_property
    def _moodle(self) -> dict[str, list[Student]]:
        return self._index(lambda student: _numbers(student, _MOODLE))

    def _index(self, keys: Callable[[Student], Iterable[str]]) -> dict[str, list[Student]]:
        """The students by one of their properties."""
        found: dict[str, list[Student]] = {}
        for student in self.students.values():
            for key in {*keys(student)} - {""}:
                found.setdefault(key, []).append(student)
        return found


def path(classroom: Classroom) -> Path:
    """Where the class list lies."""
    return classroom.home / "students.csv"


def read(classroom: Classroom) -> Roster | None:
    """The class list; None if there is none: then each entry of the inbox is a student.

    Example::

        roster = read(Classroom.default())
        missing = roster.without(classroom.submissions("a2__forest")) if roster else []

    Raises:
        WorkbookError: it cannot be read, or not all of it; the error names line and column.
    """
    file = path(classroom)
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MOST_BYTES else b""
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _error(file, f"It cannot be read: {error.strerror}.", "Look at the file.") from None
    if size > MOST_BYTES:
        raise _error(file, f"It is larger than {MOST_BYTES >> 20} MiB.", "Put the list there.")
    return _parse(file, content)


@functools.lru_cache(maxsize=8)  # it is asked for once per student
def _parse(file: Path, content: bytes) -> Roster:
    return Roster({student.id: student for student in _students(file, _text(file, content))})


def _text(file: Path, content: bytes) -> str:
    """The content as text, without a byte order mark."""
    encoding = "utf-8-sig"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        begin = content.rfind(b"\n", 0, error.start) + 1
        near = content[begin : error.start + 20].split(b"\n")[0].decode("ascii", "backslashreplace")
        raise _error(file, f"Line {line} is no text in UTF-8: {near}", _SAVE) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise _error(file, f"Line {line} holds a character that no text has (NUL).", _SAVE)
    return text


def _students(file: Path, text: str) -> list[Student]:
    """The students in the text of a list."""
    rows = _rows(file, text)
    if not rows:
        raise _error(file, "It is empty.", "Write a header, `id,name,email`, and a line for each.")
    _, header = rows[0]
    columns = _columns(file, header)
    found: list[Student] = []
    lines: dict[tuple[str, str], int] = {}
    for line, cells in rows[1:]:
        if len(cells) > len(header) and any(cells[len(header) :]):
            raise _error(
                file,
                f"Line {line} has {len(cells)} cells, and the header {len(header)}.",
                'Put quotation marks around what holds a separator: "Okafor, Anna".',
            )
        row = dict(zip(header, [*cells, *[""] * len(header)], strict=False))
        if _is_canvas_note(row, columns):
            continue
        student = _student(file, line, row, columns)
        unique = [("id", fold(student.id)), ("e-mail", fold(student.email))]
        unique += [(name, fold(row[name])) for name in columns.systems]
        for column, value in unique:
            if value and (before := lines.setdefault((column, value), line)) != line:
                raise _error(
                    file,
                    f"Lines {before} and {line} have the same {column}: {shown(value)[:80]}.",
                    "Each student has one line, and an id of their own, also in lower case.",
                )
        found.append(student)
    return found


def _rows(file: Path, text: str) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its (last) line."""
    lines = text.splitlines(keepends=True)
    skipped = 0
    separator = ""
    if lines and (named := re.fullmatch(r"sep=(.)\r?\n?", lines[0])):  # a line of Excel's
        separator, skipped = named[1], 1
    head = next((line for line in lines[skipped:] if line.strip()), "")
    separator = separator or max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", head).count)
    reader = csv.reader(lines[skipped:], delimiter=separator, strict=True)
    rows = []
    try:
        for cells in reader:
            stripped = [" ".join(shown(cell).split()) for cell in cells]
            if any(stripped):
                rows.append((reader.line_num + skipped, stripped))
    except csv.Error as error:
        raise _error(
            file,
            f"Line {reader.line_num + skipped} is no line of a CSV: {error}.",
            "Look for a quotation mark that has no other.",
        ) from None
    return rows


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Which columns of a list are which; "" for one that it does not have."""

    id: str
    first: str
    last: str
    name: str
    email: str
    systems: tuple[str, ...]


def _columns(file: Path, header: list[str]) -> _Columns:
    known: dict[str, str] = {}
    for number, name in enumerate(header, 1):
        if name and _plain(name) in known:
            raise _error(
                file,
                f"Line 1 names column {number} as another one: {name[:80]}.",
                "Give each column a name of its own.",
            )
        known[_plain(name)] = name

    def first_of(names: tuple[str, ...]) -> str:
        return next((known[name] for name in names if name in known), "")

    if not (id := first_of(_ID)):
        raise _error(
            file,
            f"Line 1 names no column `id`. It has: {', '.join(filter(None, header))[:200]}.",
            "Add a column `id`: nbgrader's ids of the students, such as their login names.",
        )
    return _Columns(
        id=id,
        first=first_of(_FIRST),
        last=first_of(_LAST),
        name=first_of(_NAME),
        email=first_of(_EMAIL),
        systems=tuple(name for name in header if name != id and _is_one_of(name, _LOGIN)),
    )


def _student(file: Path, line: int, row: dict[str, str], columns: _Columns) -> Student:
    id = row[columns.id]
    where = f"Line {line}, column {columns.id}"
    if not id:
        raise _error(file, f"{where}: the id is missing.", "Write it, or delete the line.")
    if clean(id) != unicodedata.normalize("NFC", id):
        raise _error(
            file,
            f"{where}: {id[:80]!r} cannot be the name of a folder.",
            f"Write an id without spaces and special characters, such as {clean(id)}.",
        )
    first, last = row.get(columns.first, ""), row.get(columns.last, "")
    if not first and not last and columns.name:
        first, last = _split(row[columns.name])
    email = row.get(columns.email, "")
    if email and not re.fullmatch(r"[^@\s]+@[^@\s]+", email):
        raise _error(
            file,
            f"Line {line}, column {columns.email}: {email[:80]!r} is no e-mail address.",
            "Correct it, or leave it empty.",
        )
    return Student(unicodedata.normalize("NFC", id), first, last, email, row)


def _is_canvas_note(row: dict[str, str], columns: _Columns) -> bool:
    """Whether it is one of the two lines below the header in which Canvas has no student."""
    if row[columns.id]:
        return False
    others = {text for text in row.values() if text}
    return row.get(columns.name, "") == "Points Possible" or others <= {"Manual Posting"}


def _split(name: str) -> tuple[str, str]:
    """First and last name: of `Okafor, Anna`; of `Anna Okafor` the last word is the last name."""
    if "," in name:
        last, first = name.split(",", 1)
        return first.strip(), last.strip()
    first, _, last = name.rpartition(" ")
    return first, last


def _spellings(student: Student) -> list[str]:
    """The full name in each order in which another system may write it."""
    words = [*student.first_name.split(), *student.last_name.split()]
    return [_letters_of("".join((*words[at:], *words[:at]))) for at in range(len(words))]


def letters(name: str) -> str:
    """What two names are compared by: letters and digits, without case and Latin accents.

    Example: `letters("Ana-María") == letters("ana maria") == "anamaria"`.
    """
    return _without_accents(_letters_of(name))


def _letters_of(name: str) -> str:
    """The letters and digits of a name: Canvas writes `okaforanna`, and Moodle `Anna Okafor`."""
    kept = (c for c in fold(name) if c.isalnum() or unicodedata.category(c) in ("Mn", "Mc"))
    return "".join(kept)


def _without_accents(name: str) -> str:
    """A name without the accents of Latin letters. In many other scripts such marks are vowels."""
    kept = ""
    latin = False
    for character in unicodedata.normalize("NFD", name):
        if unicodedata.category(character) != "Mn":
            latin = unicodedata.name(character, "").startswith("LATIN")
        elif latin:
            continue
        kept += character
    return unicodedata.normalize("NFC", kept)


def _values_of(student: Student, parts: tuple[str, ...]) -> list[str]:
    """The values of the columns that have one of these words in their names."""
    return [text for name, text in student.columns.items() if _is_one_of(name, parts)]


def _numbers(student: Student, parts: tuple[str, ...]) -> list[str]:
    """A system's numbers of a student. Moodle's worksheet writes them as `Participant 12`."""
    values = (re.fullmatch(r"(?:\D+ )?(\d+)", text) for text in _values_of(student, parts))
    return [match[1] for match in values if match]


def _is_one_of(column: str, parts: tuple[str, ...]) -> bool:
    return any(part in _plain(column) for part in parts)


def _plain(column: str) -> str:
    """A column's name without case, spaces and punctuation."""
    return "".join(c for c in fold(column) if c.isalnum())


def _error(file: Path, what: str, todo: str) -> WorkbookError:
    return WorkbookError(f"The class list: {what}", where=str(file), todo=todo)
