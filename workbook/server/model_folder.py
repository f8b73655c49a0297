"""Model folders: which ones a repository accepts, and how a copy replaces a folder in one step.

A server in poll mode watches the repository. It must never see a half-copied model. So a model is
first copied to a staging folder, and the finished copy then takes the place of the old folder:

    with locked(repository, "forest") as staging:
        copy = stage(source, staging, "forest", check_folder(source))
        former = put(copy, repository / "forest")
"""

from __future__ import annotations

import compileall
import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from ..common import locks
from ..common.errors import RepositoryError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_SKIP = ("__pycache__", ".ipynb_checkpoints", ".git", ".DS_Store")
_SPARE = 32 << 20  # bytes of disk left free after a copy


def is_plain(name: str) -> bool:
    """Whether a name has only ASCII letters, digits, '.', '_' and '-', and is not '.' or '..'.

    Such a name has no special meaning in a path, a pattern or a shell.

        is_plain("model-00001-of-00002.safetensors")    # True
        is_plain("my data.csv")                         # False
    """
    return _PLAIN.fullmatch(name) is not None and name not in (".", "..")


def check_name(name: str) -> str:
    """Return `name` if a model may have this name.

    Raises:
        RepositoryError: it may not. A name with a slash could lead out of the repository; one with
            a space cannot be started (24.10's Python backend passes the path to a shell unquoted).
            Any other character, `+` among them, is written as `%2B` in an address by clients, and
            Triton's HTTP endpoint looks for a model of that name.
    """
    if not _NAME.fullmatch(name):
        raise RepositoryError(
            f"{name!r} cannot be a model's name.",
            todo="Use letters, digits, '_', '-' and '.'; begin with a letter, a digit or '_'.",
        )
    return name


def check_folder(folder: Path) -> int:
    """Check that a model folder can be copied, and return its size in bytes.

    Raises:
        RepositoryError: it is not a folder, it holds no version, a link leads out of it, or it
            holds something that is neither a file nor a folder (e.g. a pipe).
    """
    if not folder.is_dir():
        raise RepositoryError(
            "There is no such model folder." if not folder.exists() else "A model is a folder.",
            where=str(folder),
            todo=_suggest_folder(folder)
            or "Give the model's folder: the one in which config.pbtxt and the folder 1 are.",
        )
    home = folder.resolve()
    size = 0
    for path in _walk(folder):
        target = path.resolve()
        if path.is_symlink() and not target.is_relative_to(home):
            raise RepositoryError(
                "A link leads out of the model folder.",
                where=f"{path} → {target}",
                todo="Put a copy of the file into the model folder.",
            )
        try:
            status = path.stat()
        except OSError as error:
            raise RepositoryError(
                f"A file cannot be read: {error.strerror}.",
                where=str(path),
                todo="Correct or remove it.",
            ) from None
        if stat.S_ISREG(status.st_mode):
            size += status.st_size
        elif not stat.S_ISDIR(status.st_mode):
            raise RepositoryError(
                "A model folder holds files and folders only.", where=str(path), todo="Remove it."
            )
    if not versions(folder):
        raise RepositoryError(
            "The model folder has no version folder.",
            where=str(folder),
            todo=_suggest_folder(folder)
            or "Put the model's file into a folder named by a number, e.g. "
            f"{folder.name}/1/model.py. An ensemble has an empty one.",
        )
    return size


def _suggest_folder(folder: Path) -> str:
    """Advice that names the model folder that was probably meant; "" if none is near.

    It may be the parent of this folder, a folder inside it, or a folder of its name in models/.
    """
    near = [folder.parent, Path("models") / folder.name]
    if folder.is_dir():
        near += sorted(path for path in folder.iterdir() if path.is_dir())
    found = [str(path) for path in near if (path / "config.pbtxt").is_file()]
    return f"Did you mean {' or '.join(found[:3])}?" if found else ""


def check_inside(home: Path, name: str) -> None:
    """Check that a model folder in the repository has no link that leads out of the repository.

    Raises:
        RepositoryError: the folder, or something in it, is a link to a path outside.
    """
    folder = home / check_name(name)
    for path in (folder, *_walk(folder)):
        if path.is_symlink() and not path.resolve().is_relative_to(home.resolve()):
            raise RepositoryError(
                "A link leads out of the model repository.",
                where=f"{path} → {path.resolve()}",
                todo="Put a copy in its place: `workbook deploy FOLDER` makes one.",
            )


def versions(folder: Path) -> list[int]:
    """The version numbers that a model folder holds, in order. Triton skips version 0."""
    if not folder.is_dir():
        return []
    names = [p.name for p in folder.iterdir() if p.is_dir()]
    return sorted(int(n) for n in names if n.isascii() and n.isdecimal() and n[0] != "0")


@contextlib.contextmanager
def locked(repository: Path, name: str) -> Iterator[Path]:
    """Lock a model, so that one process at a time changes it; yields the staging folder.

    The staging folder is beside the repository, on the same file system, so that a rename is
    atomic and a server in poll mode never sees half a model. If the repository is a mount of
    its own, the staging folder is inside it, under a name that begins with a dot.

    Raises:
        RepositoryError: the folder cannot be written.
    """
    staging = repository.parent / f".{repository.name}.staging"
    try:
        staging.mkdir(exist_ok=True)
        inside = staging.stat().st_dev != repository.stat().st_dev
    except OSError:
        inside = True
    if inside:
        staging = repository / ".staging"
    try:
        staging.mkdir(exist_ok=True)
        lock = (staging / f"{name}.lock").open("w")
    except OSError as error:
        raise RepositoryError(
            f"The repository cannot be written: {error.strerror}.",
            where=str(staging),
            todo="Free disk space, or check who owns the folder.",
        ) from None
    with lock:
        locks.lock(lock)
        for left in staging.glob(f"{name}@*"):  # left by a deploy that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield staging


def stage(source: Path, staging: Path, name: str, size: int) -> Path:
    """Copy a checked folder into the staging folder; if that fails, no part of it is left.

    The copy gets new modification times, since the server reloads a model only if its newest file
    is newer than before. Python files are compiled here. If their first import compiled them, the
    folder would change, and the server would reload the model.

    Args:
        size: bytes, as `check_folder` returned.

    Returns:
        The copy.

    Raises:
        RepositoryError: the disk is full, or a file vanished or cannot be read.
    """
    free = shutil.disk_usage(staging).free
    if free < size + _SPARE:
        raise RepositoryError(
            f"The disk has {free >> 20} MiB free; the model needs {size >> 20} MiB and "
            f"{_SPARE >> 20} MiB to spare.",
            where=str(staging),
            todo="Free some space. The model that was there is unchanged.",
        )
    copy = staging / f"{name}@{secrets.token_hex(4)}"
    try:
        shutil.copytree(
            source, copy, ignore=shutil.ignore_patterns(*_SKIP), copy_function=shutil.copy
        )
    except (OSError, shutil.Error) as error:
        shutil.rmtree(copy, ignore_errors=True)
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        raise RepositoryError(
            "The disk is full." if full else f"The model folder could not be copied: {error}",
            where=str(staging if full else source),
            todo="Free some space. The model that was there is unchanged."
            if full
            else "Try again.",
        ) from None
    precompile(copy)
    return copy


def precompile(folder: Path) -> None:
    """Compile a folder's Python files, as an import would; files with errors are skipped.

    Files that are compiled already are not written again: the server would see the folder as
    changed.
    """
    compileall.compile_dir(folder, quiet=2)


def put(copy: Path, target: Path) -> Path | None:
    """Put a staged copy in its place.

    Returns:
        The path of the former folder now; None if there was none.

    Raises:
        RepositoryError: a link is in this place.
    """
    if target.is_symlink():
        raise RepositoryError(
            "The repository has a link in this model's place.",
            where=f"{target} → {target.resolve()}",
            todo="Remove the link first; the course does not write through links.",
        )
    if not target.exists():
        copy.rename(target)
        return None
    _exchange(copy, target)
    return copy


def take_back(target: Path, former: Path | None, staging: Path) -> None:
    """Undo `put`: the former folder comes back; if there was none, the copy is removed."""
    if former is not None:
        _exchange(former, target)
        shutil.rmtree(former, ignore_errors=True)
    else:
        remove(target, staging)


def remove(folder: Path, staging: Path) -> None:
    """Remove a model folder in one step: it is moved out of the repository, then deleted."""
    trash = staging / f"{folder.name}@{secrets.token_hex(4)}"
    _move(folder, trash)
    shutil.rmtree(trash, ignore_errors=True)


def _walk(folder: Path) -> Iterator[Path]:
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIP]
        for name in [*folders, *files]:
            if name not in _SKIP:
                yield Path(base, name)


def _exchange(one: Path, other: Path) -> None:
    """Swap two folders atomically (renameat2(2) with RENAME_EXCHANGE)."""
    at_fdcwd, exchange = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(at_fdcwd, os.fsencode(one), at_fdcwd, os.fsencode(other), exchange)
    if done != 0:  # a file system without it (NFS, some overlays): two renames, a gap between them
        aside = one.with_name(one.name + ".aside")
        _move(other, aside)
        one.rename(other)
        aside.rename(one)


def _move(folder: Path, to: Path) -> None:
    """Rename a folder. In a container, a folder of the image cannot be renamed: it is copied."""
    try:
        folder.rename(to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(folder, to, symlinks=True)
        shutil.rmtree(folder)
