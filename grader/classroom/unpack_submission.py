"""Copy what a student handed in, a zip or a folder, or refuse it with a reason.

Sizes, numbers and kinds are looked at first. Only regular files are opened.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from workbook.assignments import MOST_ENTRIES, is_clutter

#: The most bytes that a submission may hold, and how many times larger than its packed size a file
#: of a zip may be.
MOST_BYTES = 200 << 20
MOST_RATIO = 200
#: Smaller files may have any ratio: an array of zeros, for example, is packed very well.
SMALL = 4 << 20
#: The longest list of files in a zip, in bytes. `zipfile` reads all of it when it opens a zip.
MOST_LISTING = 2 << 20
#: The same for the download of a whole class.
MOST_LISTING_OF_CLASS = 8 << 20

_CHUNK = 1 << 20
_DRIVE = re.compile(r"[A-Za-z]:")


class Refused(Exception):
    """A submission that cannot be taken. The text says why, for student and instructor."""


def unzip(archive: Path, to: Path, *, part: str = "", budget: Budget | None = None) -> None:
    """Unpack a zip into an empty folder.

    Args:
        archive: the zip.
        to: the folder.
        part: only this file or folder of it, which is a student's: then the zip may be a download
            of a whole class, and only what this part holds is counted.
        budget: counts what was unpacked of this submission before.

    Raises:
        Refused: it is not a zip; it is encrypted or too large; or it holds a path that leads out of
            the folder, a link or a special file. Files that were written before may be left.
    """
    with open_zip(archive, MOST_LISTING_OF_CLASS if part else MOST_LISTING) as packed:
        _unzip(packed, to, part, budget or Budget())


@contextlib.contextmanager
def open_zip(archive: Path, most_listing: int) -> Iterator[zipfile.ZipFile]:
    """A zip, opened; whatever is wrong with it becomes `Refused`.

    Args:
        archive: the zip.
        most_listing: the longest list of files that is read, in bytes.
    """
    try:
        with _Archive(archive, most_listing) as file, zipfile.ZipFile(file) as packed:
            yield packed
    except (zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise Refused(f"It is not a zip file, or it is damaged: {error}.") from None
    except (zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise Refused(f"It cannot be unpacked: {error}.") from None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise Refused("It is damaged: it names a place before its beginning.") from None


def copy(folder: Path, to: Path, budget: Budget | None = None) -> None:
    """Copy a folder into an empty folder, under the same rules.

    Raises:
        Refused: as for `unzip`.
    """
    budget = budget or Budget()
    for path, source, status in contents(folder):
        if stat.S_ISDIR(status.st_mode):
            (to / path).mkdir(parents=True, exist_ok=True)
        else:
            run = bool(status.st_mode & stat.S_IXUSR)
            with open_regular(source) as stream:
                budget.write(stream, to / path, packed=None, run=run)


def contents(folder: Path) -> Iterator[tuple[PurePosixPath, Path, os.stat_result]]:
    """The files and folders below a folder that are taken, in a fixed order. None is opened.

    Yields:
        The path inside the folder, the file itself, and its status.

    Raises:
        Refused: as for `unzip`, at the first entry that breaks a rule.
    """
    budget = Budget()
    size = 0
    for path, entry in _walk(folder):
        status = entry.stat(follow_symlinks=False)
        if (kind := special(status.st_mode)) is not None:
            raise Refused(f"{path} is a {kind}; a submission holds files and folders only.")
        is_file = stat.S_ISREG(status.st_mode)
        budget.count(path, file=is_file)
        size += status.st_size if is_file else 0
        if size > MOST_BYTES:
            raise Refused(f"It is larger than {MOST_BYTES >> 20} MiB.")
        yield path, Path(entry.path), status


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file to read it, unless it is a link, a pipe or a device. This never waits.

    Raises:
        Refused: it is not a regular file.
        OSError: it cannot be opened.
    """
    return io.BufferedReader(io.FileIO(_open_regular(path)))


def _open_regular(path: Path) -> int:
    # O_NONBLOCK: without it, opening a named pipe waits for somebody who writes.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
        os.close(handle)
        raise Refused(f"{_shown(path.name)} is a {special(mode) or 'folder'}.")
    return handle


def special(mode: int) -> str | None:
    """What a file is, where it is neither a regular file nor a folder; else None."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    named = {stat.S_IFLNK: "link", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}
    return named.get(stat.S_IFMT(mode), "device")


class _Archive(io.BufferedReader):
    """A zip file that refuses a single read of more than `most` bytes.

    `zipfile` reads the list of files at once, and makes an object for each. The zip itself states
    where this list lies and how long it is, and may state anything.
    """

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(io.FileIO(_open_regular(path)))
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._most + 1
        content = super().read(most if size is None or size < 0 else min(size, most))
        if len(content) == most:
            raise Refused(f"Its list of files is longer than {self._most >> 20} MiB.")
        return content


def _unzip(opened: zipfile.ZipFile, to: Path, part: str, budget: Budget) -> None:
    for info in opened.infolist():
        if part and info.filename.rstrip("/") != part and not info.filename.startswith(f"{part}/"):
            continue
        # A part is unpacked under its own name, without the folders around it.
        path = _path(info.filename[part.rfind("/") + 1 :])
        if path is None:
            continue
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) and (kind := special(mode)) is not None:
            raise Refused(f"{path} is a {kind}; a submission holds files and folders only.")
        folder = info.filename.endswith(("/", "\\"))
        budget.count(path, file=not folder)
        if folder:
            (to / path).mkdir(parents=True, exist_ok=True)
            continue
        if info.flag_bits & 0x1:
            raise Refused(f"{path} is encrypted. Make the zip without a password.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refused(f"{path} is packed in an unusual way. Use `workbook submit`.")
        with opened.open(info) as stream:
            budget.write(
                stream, to / path, packed=info.compress_size, run=bool(mode & stat.S_IXUSR)
            )


class Budget:
    """Counts what was copied so far, and refuses an entry that is too much or has a bad name.

    A submission has one, also where zips lie in its zip.
    """

    def __init__(self) -> None:
        #: The folder that a zip of the submission is unpacked to, inside the submission's own.
        self.below = PurePosixPath()
        self._seen: dict[str, tuple[str, bool]] = {}
        self._bytes = 0

    def count(self, path: PurePosixPath, *, file: bool) -> None:
        """Count an entry and the folders that lead to it.

        Raises:
            Refused: there are too many; or another entry has the same path, or one that differs
                in upper and lower case only.
        """
        path = self.below / path
        if file and self._seen.get(_fold(path)) == (str(path), True):
            raise Refused(f"{path} is there twice.")
        for part in (path, *list(path.parents)[:-1]):
            entry = (str(part), file and part == path)
            other = self._seen.setdefault(_fold(part), entry)
            if other[0] != entry[0]:
                raise Refused(f"{part} and {other[0]} are the same name on some machines.")
            if other != entry:
                raise Refused(f"{part} is both a file and a folder.")
        if len(self._seen) > MOST_ENTRIES:
            raise Refused(f"It holds more than {MOST_ENTRIES} files and folders.")

    def write(self, stream: IO[bytes], target: Path, *, packed: int | None, run: bool) -> None:
        """Write one file. The bytes that come are counted; the size that a zip states may be false.

        Args:
            stream: the content.
            target: the file to be written.
            packed: the size in the zip; None for a file that does not come from one.
            run: whether it may be executed.

        Raises:
            Refused: the submission is too large, or the file grows too much when it is unpacked.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        size = 0
        with target.open("xb") as out:
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                self._bytes += len(chunk)
                if self._bytes > MOST_BYTES:
                    raise Refused(f"Unpacked, it is larger than {MOST_BYTES >> 20} MiB.")
                if packed is not None and size > SMALL and size > MOST_RATIO * max(packed, 1):
                    raise Refused(f"{target.name} grows over {MOST_RATIO} times when unpacked.")
                out.write(chunk)
        target.chmod(0o755 if run else 0o644)


def _fold(path: PurePosixPath) -> str:
    return unicodedata.normalize("NFC", str(path)).casefold()


def _path(name: str) -> PurePosixPath | None:
    """An entry's path inside the submission; None for an entry that is left out.

    Raises:
        Refused: the path leads out of the submission, or is not one on every system.
    """
    spelled = name.replace("\\", "/")
    parts = [part for part in spelled.split("/") if part not in ("", ".")]
    if spelled.startswith("/") or ".." in parts or (parts and _DRIVE.match(parts[0])):
        raise Refused(f"{_shown(name)} leads out of the submission's own folder.")
    if not parts or any(map(is_clutter, parts)):
        return None
    for part in parts:
        if len(part.encode("utf-8", "surrogatepass")) > 200 or not part.isprintable():
            raise Refused(f"{_shown(part)} is not a name that every machine can write.")
    if len(parts) > 20:
        raise Refused(f"{_shown(name)} is nested too deeply.")
    return PurePosixPath(*parts)


def _walk(folder: Path) -> Iterator[tuple[PurePosixPath, os.DirEntry[str]]]:
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            found = list(itertools.islice(entries, MOST_ENTRIES + 1))
            if len(found) > MOST_ENTRIES:
                raise Refused(f"It holds more than {MOST_ENTRIES} files and folders.")
            for entry in sorted(found, key=lambda entry: entry.name):
                path = _path(str(Path(entry.path).relative_to(folder)))
                if path is None:
                    continue
                yield path, entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))


def _shown(text: str) -> str:
    safe = "".join(c if c.isprintable() else "?" for c in text)
    return repr(safe if len(safe) <= 80 else f"{safe[:77]}…")
