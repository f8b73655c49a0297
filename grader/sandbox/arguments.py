"""The arguments of bubblewrap: namespaces, and what is mounted in a sandbox.

Two problems are not solved by bubblewrap's own options:

- If root starts a sandbox, the files under /proc/sys are the machine's own, and writable. So /proc
  is mounted read-only.
- A command in the sandbox can read bubblewrap's arguments and environment in /proc/1. So launch.py
  gives bubblewrap no environment, and passes the arguments through a file descriptor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .bubblewrap import can_disable_userns
from .command import Command

#: The writable folders of a sandbox. Both are in memory (tmpfs).
WRITABLE = ("/tmp", "/dev/shm")

_USER = 1000  # the user id of every command in a sandbox
#: Files of /etc that a sandbox gets in place of the machine's: path, content.
ETC: Mapping[str, str] = {
    "/etc/passwd": f"student:x:{_USER}:{_USER}::/tmp/home:/bin/sh\n",
    "/etc/group": f"student:x:{_USER}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_ETC_OF_MACHINE = ("ld.so.cache", "alternatives", "localtime", "mime.types", "fonts")
_SYSTEM = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")


def arguments(command: Command, bwrap: Path) -> list[str]:
    """The arguments for bubblewrap, without those of the command itself.

    Args:
        command: the command that will run.
        bwrap: the program. One option depends on its version.
    """
    return [
        *_namespaces(command, bwrap),
        *_system(),
        *_devices_and_processes(command),
        *_writable(command),
        *_given(command),
        *(word for pair in command.variables.items() for word in ("--setenv", *pair)),
        *("--chdir", command.cwd),
    ]


def _namespaces(command: Command, bwrap: Path) -> list[str]:
    words = [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        "--unshare-cgroup-try",
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--uid", str(_USER), "--gid", str(_USER), "--hostname", "sandbox"),
    ]
    if command.network == "own":
        words.append("--unshare-net")
    if not command.nesting and can_disable_userns(bwrap):
        words.append("--disable-userns")
    return words


def _system() -> list[str]:
    """The machine's programs and libraries, read-only."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        place = Path("/", name)
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            words += ["--ro-bind", str(place), str(place)]
    for name in _ETC_OF_MACHINE:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def _devices_and_processes(command: Command) -> list[str]:
    words = ["--dev", "/dev", *_tmpfs("/dev/shm", command), "--remount-ro", "/dev"]
    words += ["--proc", "/proc"]
    if not command.nesting:
        # The files under /proc/sys belong to the machine's root. If root starts the sandbox, the
        # kernel's file permissions treat its processes as this root, despite the namespace.
        words += ["--remount-ro", "/proc"]
    elif os.getuid() == 0:
        # For root, bubblewrap covers parts of /proc. Then the kernel allows a second /proc, in a
        # nested sandbox, only if an uncovered one is mounted, too (mount_too_revealing in Linux).
        words += ["--bind", "/proc", "/run/proc"]
    return words


def _writable(command: Command) -> list[str]:
    return [*_tmpfs("/tmp", command), "--dir", "/tmp/home"]


def _tmpfs(folder: str, command: Command) -> list[str]:
    size = str(command.limits.scratch_bytes)
    return ["--perms", "1777", "--size", size, "--tmpfs", folder]


def _given(command: Command) -> list[str]:
    """The files and folders that the caller binds, read-only, and their parent folders in /tmp."""
    folders = _below_tmp(command.read_only, command.variables.get("WORKBOOK_HOME", ""))
    words = [word for folder in folders for word in ("--tmpfs", folder)]
    for inside, outside in command.read_only.items():
        words += ["--ro-bind", str(outside.absolute()), inside]
    return words + [word for folder in folders for word in ("--remount-ro", folder)]


def _below_tmp(read_only: Mapping[str, Path], home: str) -> list[str]:
    """The folders in /tmp that contain a file or folder which is bound at its own path.

    An example is a checkout in /tmp. These folders are made read-only: a command cannot write
    beside a checkout elsewhere, and so must not write beside this one. `home` stays writable: it is
    the folder that a program in the sandbox uses as its checkout.
    """
    places = [Path(p) for p, outside in read_only.items() if p == str(outside.absolute())]
    tops = {Path("/tmp", p.parts[2]) for p in places if Path("/tmp") in p.parents[1:]}
    return sorted(str(top) for top in tops if not Path(home).is_relative_to(top))
