"""Unpack the tar that came out of a student's sandbox. The tar is not trusted.

The student's code may have written it. Only regular files and folders with expected names are
written, up to a maximum number and size. All other entries are left out and reported. Modes, owners
and times of the entries are ignored. See tar(5).
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from workbook.common.errors import RepositoryError
from workbook.server import model_folder

FILES = ("run.json", "executed.ipynb", "server.log")
FOLDERS = ("reported", "repository")

_ENTRIES = 10_000
_DEPTH = 12
_MOST_COMPLAINTS = 10  # of the others only the number is reported
#: The errors that reading a broken or hostile archive may raise.
_BROKEN = (
    tarfile.TarError,
    OSError,
    EOFError,
    ValueError,  # UnicodeError too
    OverflowError,
    RecursionError,
    MemoryError,
)


def unpack(data: bytes, to: Path, *, most_bytes: int) -> list[str]:
    """Write an archive's files below the empty folder `to`.

    Args:
        data: the archive.
        to: an empty folder. Afterwards it always has the folders of `FOLDERS`.
        most_bytes: the maximum size of all files together.

    Returns:
        One sentence per problem; empty if there was none.
    """
    wrong: list[str] = []
    for name in FOLDERS:
        (to / name).mkdir()
    left = most_bytes
    count = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as tar:
            for member in tar:
                # An entry may claim any size, and tarfile would read on towards its end for ever.
                if tar.offset > len(data):
                    raise tarfile.ReadError("an entry is longer than the archive")
                count += 1
                if count > _ENTRIES:
                    wrong.append(f"More than {_ENTRIES} entries; the rest was left out.")
                    break
                reason = refusal(member)
                if not reason and member.size > left:
                    reason = "the files are too large together"
                if not reason:
                    left -= member.size
                    reason = _write(tar, member, to)
                if reason:
                    wrong.append(f"{member.name[:200]!r} was left out: {reason}.")
    except _BROKEN as error:
        wrong.append(f"The archive breaks off or is not one: {error}"[:300])
    if len(wrong) > _MOST_COMPLAINTS:
        wrong[_MOST_COMPLAINTS:] = [f"{len(wrong) - _MOST_COMPLAINTS} more were left out."]
    return wrong


def refusal(member: tarfile.TarInfo) -> str:
    """The reason why an entry is not unpacked; "" if it is."""
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
        return "neither a file nor a folder"
    if member.sparse is not None or member.size < 0:
        return "its size is not that of its content"
    parts = member.name.split("/")
    if any(
        part in ("", ".", "..") or not part.isprintable() or len(part.encode()) > 255
        for part in parts
    ):
        return "that is no name for a file here"
    if len(parts) > _DEPTH:
        return "too deep"
    if len(parts) == 1:
        return "" if parts[0] in FILES and member.isreg() else "not expected"
    if parts[0] not in FOLDERS:
        return "not expected"
    if parts[0] == "repository" and not parts[1].startswith("."):
        try:
            model_folder.check_name(parts[1])
        except RepositoryError as error:
            return error.what.rstrip(".")
    return ""


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> str:
    """Write one entry; returns why it was not written, or "".

    Everything below `to` was made by this module and is no link. So a path cannot lead out of `to`.
    """
    target = to / member.name
    try:
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            return ""
        target.parent.mkdir(parents=True, exist_ok=True)
        source = tar.extractfile(member)
        assert source is not None
        content = source.read()
        with target.open("xb") as file:
            file.write(content)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        return "there is another of this name"
    return ""
