"""Copy what a student handed in, a zip or a folder, or refuse it with a reason."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

#: The most that a submission may hold: files and folders, bytes in all, and how many times larger
#: than its packed size a file of a zip may be.
MOST_ENTRIES = 2_000
MOST_BYTES = 200 << 20
MOST_RATIO = 200
#: Smaller files may have any ratio: an array of zeros, for example, is packed very well.
SMALL = 4 << 20

_CHUNK = 1 << 20
#: Files that operating systems and Jupyter make, which are left out.
_LITTER = {"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints", "__pycache__"}
_DRIVE = re.compile(r"[A-Za-z]:")


class Refused(Exception):
    """A submission that cannot be taken. The text says why, for student and instructor."""


def unzip(archive: Path, to: Path) -> None:
    """Unpack a zip into an empty folder.

    Raises:
        Refused: it is not a zip; it is encrypted or too large; or it holds a path that leads out of
            the folder, a link or a special file. Files that were written before may be left.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            _unzip(opened, to)
    except (zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise Refused(f"It is not a zip file, or it is damaged: {error}.") from None
    except (zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise Refused(f"It cannot be unpacked: {error}.") from None


def copy(folder: Path, to: Path) -> None:
    """Copy a folder into an empty folder, under the same rules.

    Raises:
        Refused: as for `unzip`.
    """
    budget = _Budget()
    for path, entry in _walk(folder):
        mode = entry.stat(follow_symlinks=False).st_mode
        budget.count(path, file=not stat.S_ISDIR(mode))
        if stat.S_ISDIR(mode):
            (to / path).mkdir(parents=True, exist_ok=True)
        elif stat.S_ISREG(mode):
            # O_NOFOLLOW: since it was listed, the file may have been replaced by a link.
            source = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(source, "rb") as stream:
                budget.write(stream, to / path, packed=None, run=bool(mode & stat.S_IXUSR))
        else:
            raise Refused(f"{path} is a {_kind(mode)}; a submission holds files and folders only.")


def _unzip(opened: zipfile.ZipFile, to: Path) -> None:
    budget = _Budget()
    for info in opened.infolist():
        path = _path(info.filename)
        if path is None:
            continue
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(f"{path} is a {_kind(mode)}; a submission holds files and folders only.")
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


class _Budget:
    """Counts what was copied so far, and refuses an entry that is too much or has a bad name."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, bool]] = {}
        self._bytes = 0

    def count(self, path: PurePosixPath, *, file: bool) -> None:
        """Count an entry and the folders that lead to it.

        Raises:
            Refused: there are too many; or another entry has the same path, or one that differs
                in upper and lower case only.
        """
        if file and self._seen.get(_folded(path)) == (str(path), True):
            raise Refused(f"{path} is there twice.")
        for part in (path, *list(path.parents)[:-1]):
            entry = (str(part), file and part == path)
            other = self._seen.setdefault(_folded(part), entry)
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


def _folded(path: PurePosixPath) -> str:
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
    if not parts or _LITTER.intersection(parts):
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
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = _path(str(Path(entry.path).relative_to(folder)))
                if path is None:
                    continue
                yield path, entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))


def _kind(mode: int) -> str:
    return "link" if stat.S_ISLNK(mode) else "device or pipe"


def _shown(text: str) -> str:
    safe = "".join(c if c.isprintable() else "?" for c in text)
    return repr(safe if len(safe) <= 80 else f"{safe[:77]}…")
