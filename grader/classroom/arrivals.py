"""What lies in the inbox: who handed it in, as far as its name says so, and what is no submission.

Canvas and Moodle let an instructor download the submissions of a whole class as one zip. Such a zip
is put into the inbox as it is. Its entries have these names, which are also understood where an
instructor has unpacked the zip:

    okaforanna_LATE_4711_90210_a2.zip       Canvas: name, LATE, its number of the student, and of
    okaforanna_4711_text.html               the file; of a submission without a file
    anon_x7Fq2_90210_a2.zip                 where Canvas keeps the names secret
    Anna Okafor_12_assignsubmission_file/   Moodle: name, its number of the participant, and what
    Anna Okafor_12_assignsubmission_file_a2.zip         was handed in; with or without folders
    Participant_12_assignsubmission_onlinetext/onlinetext.html

They were read in Canvas's `lib/content_zipper.rb` (`get_filename`, `add_upload_submission`,
`add_text_or_url`: the name is in lower case, the last name first, without spaces and punctuation)
and in Moodle's `mod/assign/classes/downloader.php` (`get_student_prefix`,
`load_submissionplugin_filelist`). Neither writes into the zip when a student handed in: both give
each file the time of the download (rubyzip's `get_output_stream`, and `addFileFromStream` in
Moodle's `zip_writer.php`). Moodle's grading worksheet has the times: see worksheet.py. Canvas only
says LATE.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from workbook.assignments import is_clutter

from . import times, unpack_entry
from .names import digest, shown
from .unpack_submission import Refused

System = Literal["", "canvas", "moodle", "nbgrader"]

_CANVAS = re.compile(
    r"(?:(?P<late_anon>LATE_)?anon_(?P<anon>[0-9A-Za-z]{5})"
    r"|(?P<name>.+?)(?P<late>_LATE)?_(?P<id>[0-9]{1,18}))"
    r"_(?:(?P<file>[0-9]{1,18})_.+|(?P<kind>text|link)\.html)"
)
_MOODLE = re.compile(
    r"(?P<name>[^_]+)_(?P<id>[0-9]{1,18})_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<rest>.*))?"
)
#: nbgrader's exchange; the last part, which is random, may be missing.
_EXCHANGE = re.compile(r"(?P<name>.+)\+[^+]+\+(?P<time>\d{4}-[^+]+)(?:\+[^+]*)?")
#: How Canvas and Moodle name the download of a whole class: `…submissions`, and `course-name-12`.
_DOWNLOAD = re.compile(r"(.+[ _-])?submissions|.+-.+-\d+", re.IGNORECASE)
#: What a browser adds to the name of a file that it downloads again.
_AGAIN = re.compile(r" ?\(\d{1,3}\)$")
_ENDS = re.compile(r"\.(zip|ipynb|rar|7z|tar|tgz|gz|bz2|xz|pdf|html?|docx?|txt|py)$", re.IGNORECASE)
_ARCHIVES = (".rar", ".7z", ".tar", ".tgz", ".gz", ".bz2", ".xz")
_UNFINISHED = (".crdownload", ".part", ".download")


@dataclasses.dataclass(frozen=True)
class Arrival:
    """One thing in the inbox that may be a submission.

    Attributes:
        path: the entry of the inbox, or a file or folder in a download that was unpacked there.
        source: its name, as people read it.
        part: its name inside the zip `path`; "" where it lies in no zip of a whole class.
        download: the entry of the inbox that holds the submissions of a whole class; "" if none.
        system: the system that it was downloaded from; "" if its name does not show it.
        number: that system's number of the student; "" if its name does not hold it.
        file: Canvas's number of the file. Of two, the higher one was handed in later.
        name: the student's name in its name.
        time: when it was handed in; None if its name does not say that.
        late: whether Canvas calls it late.
        came: when it was downloaded or put there, in seconds.
        problem: why nothing can be read from its name, or it cannot be a submission; "" if it can.
    """

    path: Path
    source: str
    name: str
    part: str = ""
    download: str = ""
    system: System = ""
    number: str = ""
    file: int = 0
    time: datetime.datetime | None = None
    late: bool = False
    came: float = 0.0
    problem: str = ""

    @property
    def key(self) -> str:
        """A text that identifies the student. Arrivals with the same key are one student's."""
        return f"{self.name}_{self.number}" if self.number else self.name


@dataclasses.dataclass(frozen=True)
class Download:
    """The submissions of a whole class in one entry of the inbox.

    Attributes:
        source: the entry's name.
        system: whose names its parts have.
        count: how many parts it has.
    """

    source: str
    system: System
    count: int


def look(inbox: Path, is_student: Callable[[str], bool]) -> Iterator[Arrival | Download]:
    """What lies in an inbox, in the order of the names. Nothing in it is changed.

    What systems leave behind, tables and the inbox's own README are passed over. An entry counts as
    a download only if its name has the form of Canvas's or Moodle's downloads, and is not a
    student's name: otherwise a student could hand in for others.

    Args:
        inbox: the folder.
        is_student: whether a name is a student's in the class list.

    Yields:
        A download of a whole class, followed by its parts; or a single arrival.
    """
    for path in sorted(inbox.iterdir()):
        if passed_over(path.name):
            continue
        arrival = read_entry_name(path)
        if arrival.problem or arrival.system:
            yield arrival
            continue
        could_be = _DOWNLOAD.fullmatch(arrival.name) is not None and not is_student(arrival.name)
        parts = list(parts_of(path)) if could_be else []
        if parts:
            yield Download(shown(path.name), parts[0].system, len(parts))
            yield from parts
        else:
            yield arrival


def passed_over(name: str) -> bool:
    """Whether an entry's name shows that it is no submission. Such an entry is not reported."""
    return (
        name.startswith((".", "~$"))
        or is_clutter(name)
        or name.lower() in ("readme.txt", "readme.md")
        or name.lower().endswith(".csv")
    )


def read_entry_name(path: Path, *, within: str = "") -> Arrival:
    """What the name of a file or folder says.

    Args:
        path: the file or folder.
        within: the download in which it lies.
    """
    with contextlib.suppress(OSError):  # it is gone since the folder was listed
        return _named(path, path.name, folder=path.is_dir(), came=path.lstat().st_mtime, of=within)
    return _named(path, path.name, folder=False, came=0.0, of=within)


def _named(path: Path, raw: str, *, folder: bool, came: float, of: str, part: str = "") -> Arrival:
    """The arrival of this name."""
    name = unicodedata.normalize("NFC", raw)  # zips of macOS have letters and accents apart
    spelled = os.fsencode(raw).decode("utf-8", "backslashreplace")
    spelled = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in spelled)
    found = Arrival(
        path=path,
        source=f"{of}: {spelled}" if of else spelled,
        name="",
        part=part,
        download=of,
        came=came,
    )
    if shown(name) != name or "\n" in name or "\t" in name:
        problem = f"Its name holds what is no text in UTF-8: {spelled}. Rename it."
        return dataclasses.replace(found, name=f"{spelled} {digest(raw)[:6]}", problem=problem)
    found = dataclasses.replace(found, source=f"{of}: {name}" if of else name)
    # Inside a download the name is chosen by the student, who could write a false time into it.
    in_exchange = _EXCHANGE.fullmatch(name) if folder and not of else None
    if (match := in_exchange) and (time := times.parse(match["time"])):
        return dataclasses.replace(found, system="nbgrader", name=match["name"], time=time)
    problem = "" if folder else _no_submission(name)
    bare = name if folder else _ENDS.sub("", name)
    bare = _AGAIN.sub("", bare) or bare
    for text in (name, bare):
        if match := _MOODLE.fullmatch(text):
            return dataclasses.replace(
                found,
                system="moodle",
                name=match["name"],
                number=match["id"],
                problem=_not_a_file(match["kind"]) or problem,
            )
        if match := _CANVAS.fullmatch(text):
            return dataclasses.replace(
                found,
                system="canvas",
                name=match["name"] or "anon",
                number=match["id"] or match["anon"],
                file=int(match["file"] or 0),
                late=bool(match["late"] or match["late_anon"]),
                problem=_not_a_file(match["kind"] or "file") or problem,
            )
    return dataclasses.replace(found, name=bare or name, problem=problem)


def parts_of(path: Path) -> Iterator[Arrival]:
    """The submissions of a class in a zip or folder; nothing if it holds anything else.

    A program may have put a folder around them.
    """
    try:
        if path.is_symlink():
            return
        if path.is_dir():
            yield from _parts_of_folder(path)
            return
        listed = unpack_entry.listing(path, is_named)
    except (Refused, OSError):
        return  # whoever unpacks it says why
    for part, (folder, came) in sorted(listed.items()):
        name = part.rpartition("/")[2]
        yield _named(path, name, folder=folder, came=came, of=shown(path.name), part=part)


def _parts_of_folder(download: Path) -> Iterator[Arrival]:
    folder = download
    for _ in range(3):
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, unpack_entry.MOST_PARTS + 1)]
        inside = sorted(name for name in names if not passed_over(name))
        if len(names) > unpack_entry.MOST_PARTS or not inside:
            return
        if all(map(is_named, inside)):
            yield from (
                read_entry_name(folder / name, within=shown(download.name)) for name in inside
            )
            return
        folder = folder / inside[0]
        if len(inside) > 1 or folder.is_symlink() or not folder.is_dir():
            return


def is_named(name: str) -> bool:
    """Whether a name is one that Canvas or Moodle gives to a submission."""
    bare = _ENDS.sub("", unicodedata.normalize("NFC", name))
    return any(p.fullmatch(text) for p in (_MOODLE, _CANVAS) for text in (name, bare))


def _no_submission(name: str) -> str:
    """Why a file of this name is no submission; "" if it can be one."""
    end = Path(name).suffix.lower()
    if end in _ARCHIVES:
        return f"It is an archive of another kind ({end}). Hand in a zip: `workbook submit`."
    if end in _UNFINISHED:
        return "Its download has not ended. Download it again."
    if end in (".pdf", ".html", ".htm", ".doc", ".docx", ".txt", ".py"):
        return f"It is a {end} file, and no zip, folder or notebook. Hand in: `workbook submit`."
    return ""


def _not_a_file(kind: str) -> str:
    """Why a submission of this kind cannot be graded; "" for a file."""
    if kind == "file":
        return ""
    what = {
        "onlinetext": "a text that was typed",
        "text": "a text that was typed",
        "link": "a link",
    }
    return (
        f"It is {what.get(kind, f'of the kind {kind}')}, and no file. Hand in: `workbook submit`."
    )
