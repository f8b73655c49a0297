"""Unpack what a student handed in, and look for notebooks of assignments in it.

This runs before any sandbox, so it runs in a process with little memory and time. A notebook is
taken only if it can be read there as nbgrader reads it later.

Which assignment a notebook belongs to is decided by what it holds, then by its name. It is found
wherever it lies, also in a zip in the zip, or in the whole course.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from workbook.assignments import Assignment, cells, is_clutter
from workbook.common.errors import WorkbookError

from ..judge.run_notebook import load_nbformat
from ..sandbox import limited
from .names import shown
from .unpack_submission import (
    MOST_LISTING_OF_CLASS,
    Budget,
    Refused,
    contents,
    copy,
    open_regular,
    open_zip,
    special,
    unzip,
)

#: The largest zip that is opened, in bytes, and the largest download of a whole class.
MOST_PACKED = 100 << 20
MOST_DOWNLOAD = 16 << 30
#: The most submissions in a download.
MOST_PARTS = 5_000
#: How many zips may lie in a submission, and how many levels deep.
MOST_ZIPS = 20
MOST_LEVELS = 3
#: How many notebooks of a submission are read to find out what they are.
MOST_NOTEBOOKS = 80
#: The most processor time and memory that unpacking and reading may take. A submission of the
#: largest size that is taken needs a third of both.
CPU_S = 3
MEMORY_BYTES = 256 << 20

_ZIP = b"PK\3\4"
#: What browsers and Jupyter add to the name of a copy.
_COPY = re.compile(r"( ?\(\d{1,3}\)|[-_ ]?[Cc]opy\d{0,3}|-\d{1,3})$")
_GRADE_ID = re.compile(r"(a[0-9]+)[-.]")


@dataclasses.dataclass(frozen=True)
class Found:
    """What a submission holds.

    Attributes:
        folders: the folder with the notebook, by the name of its assignment.
        problems: why the notebook of an assignment cannot be taken, by the assignment's name.
    """

    folders: dict[str, Path]
    problems: dict[str, str]


def parts(entry: Path) -> list[tuple[Path, bool]]:
    """The files and folders of an entry, each with whether it is a file. None is opened.

    Raises:
        Refused: the entry is too large, or it holds something that no submission holds.
        OSError: it cannot be looked at.
    """
    status = entry.lstat()
    if (kind := special(status.st_mode)) is not None:
        raise Refused(f"{shown(entry.name)} is a {kind}; put the file itself into the inbox.")
    if stat.S_ISDIR(status.st_mode):
        return [(path, stat.S_ISREG(inner.st_mode)) for _, path, inner in contents(entry)]
    if status.st_size > MOST_PACKED:
        raise Refused(f"{shown(entry.name)} is larger than {MOST_PACKED >> 20} MiB.")
    return [(entry, True)]


def listing(archive: Path, is_submission: Callable[[str], bool]) -> dict[str, tuple[bool, float]]:
    """The submissions in the download of a whole class; empty if the zip is something else.

    Args:
        archive: the zip.
        is_submission: whether a name is one that a system gives to a student's submission.

    Returns:
        By the path in the zip: whether it is a folder, and when it was downloaded, in seconds.

    Raises:
        Refused: it is no zip, or its list of files cannot be read within the limits.
        OSError: it cannot be opened.
    """
    if special(archive.lstat().st_mode) or archive.stat().st_size > MOST_DOWNLOAD:
        return {}
    answer = _call_limited(lambda: _read_listing(archive, is_submission))
    return {name: (folder, came) for name, (folder, came) in answer["parts"].items()}


def unpack(
    entry: Path, assignments: Sequence[Assignment], scratch: Path, *, part: str = ""
) -> Found:
    """Copy what was handed in into `scratch`, and look for notebooks of assignments.

    Args:
        entry: a zip, a notebook, or a folder with files or with a zip.
        assignments: those that may have been handed in.
        scratch: an empty folder. If the entry is refused, files may be left in it.
        part: where `entry` is the download of a whole class, the path of the submission in it.

    Raises:
        Refused: nothing in it can be taken; the text says why.
    """
    load_nbformat()
    answer = _call_limited(lambda: _unpack(entry, assignments, scratch, part))
    return Found(
        folders={name: scratch / str(place) for name, place in answer["folders"].items()},
        problems=answer["problems"],
    )


def _call_limited(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call a function in a limited process; it may raise `Refused` there.

    Raises:
        Refused: it raised that; or it took too much, or could not read a file.
    """

    def call() -> dict[str, Any]:
        try:
            return function()
        except Refused as reason:
            return {"refused": str(reason)[:10_000]}
        except OSError as error:
            why = error.strerror or type(error).__name__
            return {"refused": f"It cannot be unpacked: {why}."}

    try:
        answer = limited.call(call, cpu_s=CPU_S, memory_bytes=MEMORY_BYTES)
    except limited.NoResult as reason:
        raise Refused(
            f"It {reason}: no work for this course needs that. Clear the notebook's outputs, and "
            "make the zip with `workbook submit`."
        ) from None
    if "refused" in answer:
        raise Refused(answer["refused"])
    return answer


def _read_listing(archive: Path, is_submission: Callable[[str], bool]) -> dict[str, Any]:
    """In the limited process: the submissions in a download."""
    entries: list[tuple[list[str], bool, float]] = []
    with open_zip(archive, MOST_LISTING_OF_CLASS) as packed:
        for info in packed.infolist():
            names = info.filename.split("/")
            folder = not names[-1]
            names = names[:-1] if folder else names
            if names and not any(map(is_clutter, names)):
                entries.append((names, folder, _seconds(info.date_time)))
    around = 0
    for _ in range(2):  # a program may have put a folder around all
        tops = {names[around] for names, _, _ in entries if len(names) > around}
        if len(tops) != 1 or any(map(is_submission, tops)):
            break
        around += 1
    found: dict[str, tuple[bool, float]] = {}
    for names, folder, came in entries:
        if len(names) <= around:
            if not folder:
                return {"parts": {}}
            continue
        if not is_submission(names[around]):
            return {"parts": {}}
        part = "/".join(names[: around + 1])
        inside = folder or len(names) > around + 1
        before = found.get(part, (inside, came))
        found[part] = (before[0] or inside, max(before[1], came))
        if len(found) > MOST_PARTS:
            raise Refused(f"It holds more than {MOST_PARTS} submissions.")
    return {"parts": found}


def _seconds(date: tuple[int, int, int, int, int, int]) -> float:
    try:
        return datetime.datetime(*date).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _unpack(
    entry: Path, assignments: Sequence[Assignment], scratch: Path, part: str
) -> dict[str, Any]:
    """In the limited process: the folders with the notebooks, and the problems."""
    folder = scratch / "new"
    folder.mkdir()
    budget = Budget()
    if part:
        (scratch / "part").mkdir()
        unzip(entry, scratch / "part", part=part, budget=budget)
        (entry,) = (scratch / "part").iterdir()
        if not entry.is_dir():
            budget = Budget()
    _fill(entry, folder, budget, own=bool(part))
    notebooks = _notebooks(folder)
    for level in range(MOST_LEVELS):
        zips = [] if notebooks else [path for path in sorted(folder.rglob("*")) if _is_zip(path)]
        if not zips:
            break
        if len(zips) > MOST_ZIPS:
            raise Refused(f"It holds {len(zips)} zips. Hand in one, with the notebook in it.")
        for number, path in enumerate(zips):
            archive = path.rename(scratch / f"inner-{level}-{number}.zip")
            path.mkdir()
            budget.below = PurePosixPath(f"{level}-{number}")
            _unzip(archive, path.name, path, budget)
        notebooks = _notebooks(folder)
    return _sort(folder, notebooks, assignments, scratch)


def _fill(entry: Path, folder: Path, budget: Budget, *, own: bool) -> None:
    """Put what was handed in into a folder: the content of a zip or a folder, or the notebook.

    Args:
        entry: the zip, folder or notebook.
        folder: an empty folder.
        budget: what is counted.
        own: whether the entry is a copy already, and counted.
    """
    if entry.is_dir():
        if own:
            folder.rmdir()
            entry.rename(folder)
        else:
            copy(entry, folder, budget)
    elif entry.suffix.lower() == ".ipynb":
        with open_regular(entry) as stream:
            if not own:
                budget.write(stream, folder / shown(entry.name), packed=None, run=False)
        if own:
            entry.rename(folder / entry.name)
    elif entry.suffix.lower() != ".zip" and not _is_zip(entry):
        raise Refused(f"{shown(entry.name)} is no zip, folder or notebook.")
    else:
        _unzip(entry, entry.name, folder, budget)


def _unzip(archive: Path, name: str, to: Path, budget: Budget) -> None:
    if archive.stat().st_size > MOST_PACKED:
        raise Refused(f"{shown(name)} is larger than {MOST_PACKED >> 20} MiB.")
    unzip(archive, to, budget=budget)


def _is_zip(path: Path) -> bool:
    """Whether a file is a zip, by its name or by its first bytes."""
    if path.is_symlink() or not path.is_file():
        return False
    if path.suffix.lower() == ".zip":
        return True
    with open_regular(path) as stream:
        return not path.suffix and stream.read(len(_ZIP)) == _ZIP


def _notebooks(folder: Path) -> list[Path]:
    """The notebooks in a submission, those that lie higher first."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() == ".ipynb"]
    if len(found) > MOST_NOTEBOOKS:
        raise Refused(f"It holds more than {MOST_NOTEBOOKS} notebooks. Hand in one.")
    return sorted(found, key=lambda path: (len(path.parts), str(path)))


def _sort(
    folder: Path, notebooks: list[Path], assignments: Sequence[Assignment], scratch: Path
) -> dict[str, Any]:
    """Which assignments the notebooks belong to; each that is taken gets its released name."""
    candidates: dict[str, list[Path]] = {}
    for path in notebooks:
        if (name := _assignment(path, assignments)) is not None:
            candidates.setdefault(name, []).append(path)
    touched = {
        a.name
        for a in assignments
        if any(not _is_released(path, a) for path in candidates.get(a.name, []))
    }
    folders: dict[str, str] = {}
    problems: dict[str, str] = {}
    for assignment in assignments:
        if not (paths := candidates.get(assignment.name)):
            continue
        if touched and assignment.name not in touched:
            continue  # in a copy of the course, a notebook that was not begun is not handed in
        try:
            chosen = _chosen(paths, assignment, folder)
            wanted = chosen.with_name(assignment.release.name)
            if wanted != chosen:
                chosen.rename(wanted)
            _accept(wanted)
            folders[assignment.name] = str(wanted.parent.relative_to(scratch))
        except Refused as reason:
            problems[assignment.name] = str(reason)
    if not candidates:
        raise Refused(_explain_refusal(folder, notebooks, assignments))
    return {"folders": folders, "problems": problems}


def _chosen(paths: list[Path], assignment: Assignment, folder: Path) -> Path:
    """The notebook that counts, of several of one assignment.

    Raises:
        Refused: that is not clear.
    """
    exact = [path for path in paths if path.name == assignment.release.name]
    left = exact or paths
    if all(path.is_relative_to(left[0].parent) for path in paths) and (
        len(left) == 1 or left[0].parent != left[1].parent
    ):
        return left[0]  # the others lie below it
    left = [path for path in left if not _is_released(path, assignment)] or left
    if len({path.read_bytes() for path in left}) == 1:
        return left[0]
    named = ", ".join(shown(str(path.relative_to(folder))) for path in left[:4])
    raise Refused(f"It holds {assignment.release.name} {len(left)} times: {named}. Hand in one.")


def _assignment(notebook: Path, assignments: Sequence[Assignment]) -> str | None:
    """The assignment of a notebook: by its metadata, its graded cells, its name; None if none."""
    try:
        content = cells.read(notebook)
    except WorkbookError:
        content = {}
    names: set[str] = set()
    metadata = content.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("workbook"), dict):
        names.add(str(metadata["workbook"].get("assignment")))
    else:
        names.update(_assignment_of_cells(content))
    stem = notebook.stem
    while (short := _COPY.sub("", stem)) != stem and short:
        stem = short
    for assignment in assignments:
        if names & {assignment.name, assignment.short}:
            return assignment.name
    for assignment in assignments:
        # Canvas and Moodle put the student's name before that of a file: `okafor_4711_90210_a2`.
        if re.search(rf"(^|_)({assignment.name}|{assignment.short})$", stem):
            return assignment.name
    return None


def _assignment_of_cells(content: dict[str, Any]) -> list[str]:
    """The assignment that most of the graded cells belong to, as its short name; or nothing."""
    counts: Counter[str] = Counter()
    inside = content.get("cells")
    for cell in inside if isinstance(inside, list) else []:
        metadata = cell.get("metadata") if isinstance(cell, dict) else None
        graded = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        id = graded.get("grade_id") if isinstance(graded, dict) else None
        if isinstance(id, str) and (match := _GRADE_ID.match(id)):
            counts[match[1]] += 1
    return [name for name, _ in counts.most_common(1)]


def _is_released(notebook: Path, assignment: Assignment) -> bool:
    """Whether it is the notebook as it was given out."""
    try:
        return notebook.read_bytes() == assignment.release.read_bytes()
    except OSError:
        return False


def _explain_refusal(folder: Path, notebooks: list[Path], assignments: Sequence[Assignment]) -> str:
    """Why a submission without a notebook of an assignment is refused."""
    wanted = ", ".join(assignment.release.name for assignment in assignments[:8])
    if len(assignments) != 1:
        wanted = f"notebook of an assignment ({wanted})"
    others = notebooks or [path for path in sorted(folder.rglob("*")) if path.is_file()]
    has = ", ".join(shown(path.name) for path in others[:5])
    return f"There is no {wanted} in it." + (f" It has {has}." if has else "")


def _accept(notebook: Path) -> None:
    """Raise `Refused` unless there is a notebook that nbgrader can open."""
    if not notebook.is_file():
        raise Refused(f"{notebook.name} is a folder.")
    import nbformat  # late: it takes a second to import

    try:
        cells.read(notebook)
        with open_regular(notebook) as stream:
            nbformat.reads(stream.read().decode(), as_version=4)  # type: ignore[no-untyped-call]
    except WorkbookError as error:
        raise Refused(f"{notebook.name}: {error.what} {error.todo}") from None
    except MemoryError:
        raise
    except Exception as error:  # nbformat raises many kinds of errors for JSON that is no notebook
        raise Refused(f"{notebook.name} is not a notebook ({type(error).__name__}).") from None
