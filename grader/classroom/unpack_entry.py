"""Unpack one entry of the inbox, and look for the notebook in it.

This runs before any sandbox, so it runs in a process with little memory and time. A notebook is
taken only if it can be read there as nbgrader reads it later.
"""

from __future__ import annotations

import functools
import json
import stat
from pathlib import Path
from typing import Any

from workbook.assignments import Assignment, cells
from workbook.common.errors import WorkbookError

from . import limited
from .names import shown
from .unpack_submission import Refused, contents, copy, open_regular, special, unzip

#: The largest zip that is opened, in bytes.
MOST_PACKED = 100 << 20
#: The most processor time and memory that unpacking and reading may take. A submission of the
#: largest size that is taken needs a third of both.
CPU_S = 3
MEMORY_BYTES = 256 << 20


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


def unpack(entry: Path, assignment: Assignment, scratch: Path) -> Path:
    """Copy an entry's files into `scratch`, and return the folder that holds the notebook.

    Args:
        entry: a zip, or a folder with files or with a zip.
        assignment: the assignment that was handed in.
        scratch: an empty folder. If the entry is refused, files may be left in it.

    Raises:
        Refused: the entry cannot be taken; the text says why.
    """
    _load_nbformat()
    try:
        told = limited.call(
            lambda: _unpack(entry, assignment, scratch), cpu_s=CPU_S, memory_bytes=MEMORY_BYTES
        )
    except limited.NoResult as reason:
        raise Refused(
            f"It {reason}: no work for this course needs that. Clear the notebook's outputs, and "
            "make the zip with `workbook submit`."
        ) from None
    if "problem" in told:
        raise Refused(told["problem"])
    return scratch / str(told["folder"])


def _unpack(entry: Path, assignment: Assignment, scratch: Path) -> dict[str, Any]:
    """In the limited process: the folder with the notebook, or the problem."""
    folder = scratch / "new"
    folder.mkdir()
    try:
        if entry.is_dir():
            copy(entry, folder)
            found = list(folder.iterdir())
            if len(found) == 1 and found[0].is_file() and found[0].suffix.lower() == ".zip":
                archive = found[0].rename(scratch / "inner.zip")
                _unzip(archive, found[0].name, folder)
        else:
            _unzip(entry, entry.name, folder)
        top = _top(folder, assignment)
        _accept(top / assignment.release.name)
    except Refused as reason:
        return {"problem": str(reason)}
    except OSError as error:
        return {"problem": f"It cannot be unpacked: {error.strerror or type(error).__name__}."}
    return {"folder": str(top.relative_to(scratch))}


def _unzip(archive: Path, name: str, to: Path) -> None:
    if archive.stat().st_size > MOST_PACKED:
        raise Refused(f"{shown(name)} is larger than {MOST_PACKED >> 20} MiB.")
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


def _accept(notebook: Path) -> None:
    """Raise `Refused` unless there is a notebook that nbgrader can open."""
    if not notebook.is_file():
        others = sorted(path.name for path in notebook.parent.glob("*.ipynb"))
        found = f" It has {', '.join(others[:5])}." if others else ""
        raise Refused(f"There is no {notebook.name} in it.{found}")
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


@functools.cache
def _load_nbformat() -> None:
    """Import nbformat and compile its schema here, once, and not in each limited process."""
    import nbformat

    empty = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    nbformat.reads(json.dumps(empty), as_version=4)  # type: ignore[no-untyped-call]
