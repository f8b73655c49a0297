"""The namespaces of a sandbox: no network, no other processes, only the files that it is given.

They are made by bubblewrap; these are its arguments. `Command.network` says which network a sandbox
has. seccomp.py refuses the system calls that could make more.

Three problems are not solved by bubblewrap's own options:

- The first process in a sandbox is bubblewrap's, and runs as the same user as the command. In
  /proc/1 the command could read and change its memory, and write to the pipe of the results. So
  another folder, which is empty, covers /proc/1. Where other sandboxes are made inside, it cannot
  be covered; only the course's own programs run there. sandboxed.py gives bubblewrap no
  environment, and passes the arguments through a file descriptor, so that nothing can be read
  there either.
- /proc/locks shows the locks of the whole machine, which another sandbox could set as a signal.
- Bubblewrap makes the folders above what it binds for its own user only, and the command may run as
  another one (own_user.py). So each of these folders is made explicitly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import own_user
from .bubblewrap import can_disable_userns
from .command import Command

#: The writable folders of a sandbox. Both are in memory (tmpfs).
WRITABLE = ("/tmp", "/dev/shm")

_USER = own_user.INSIDE
#: Files of /etc that a sandbox gets in place of the machine's: path, content.
ETC: Mapping[str, str] = {
    "/etc/passwd": f"student:x:{_USER}:{_USER}::/tmp/home:/bin/sh\n",
    "/etc/group": f"student:x:{_USER}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_ETC_OF_MACHINE = ("ld.so.cache", "alternatives", "localtime", "mime.types", "fonts")
_SYSTEM = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")


def arguments(command: Command, bwrap: Path, *, has_own_user: bool = False) -> list[str]:
    """The arguments for bubblewrap, without those of the command itself.

    Args:
        command: the command that will run.
        bwrap: the program. One option depends on its version.
        has_own_user: whether the command line begins with `own_user.command`, and the caller tells
            the kernel which users the sandbox has.
    """
    return [
        *_namespaces(command, bwrap, has_own_user),
        *_system(),
        *_devices_and_processes(command),
        *_writable(command),
        *_bound_paths(command),
        *(word for pair in command.variables.items() for word in ("--setenv", *pair)),
        *("--chdir", command.cwd),
    ]


def _namespaces(command: Command, bwrap: Path, has_own_user: bool) -> list[str]:
    words = [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--hostname", "sandbox"),
    ]
    if command.network == "own":
        words.append("--unshare-net")
    if not command.nesting:
        # A process that makes groups in its own group must see that group in the machine's tree.
        words.append("--unshare-cgroup-try")
    if has_own_user:
        kept = (*own_user.CAPABILITIES, *((own_user.MOUNTING,) if command.nesting else ()))
        return words + [word for name in kept for word in ("--cap-add", name)]
    words += ["--uid", str(_USER), "--gid", str(_USER)]
    if not command.nesting and can_disable_userns(bwrap):
        words.append("--disable-userns")  # the seccomp filter refuses them, too
    return words


def _system() -> list[str]:
    """The machine's programs and libraries, read-only."""
    words = ["--ro-bind", "/usr", "/usr", *folder("/etc")]
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
    words = ["--dev", "/dev", *_tmpfs("/dev/shm", command)]
    words += ["--remount-ro", "/dev", "--proc", "/proc"]
    if not command.nesting:
        words += ["--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
        words += ["--ro-bind", "/dev/null", "/proc/locks", "--remount-ro", "/proc"]
    return words


def _writable(command: Command) -> list[str]:
    return [*_tmpfs("/tmp", command), *folder("/tmp/home", writable=True)]


def _tmpfs(place: str, command: Command) -> list[str]:
    size = str(command.limits.scratch_bytes)
    return ["--perms", "1777", "--size", size, "--tmpfs", place]


def folder(place: str, *, writable: bool = False) -> list[str]:
    """Make a folder that the command may read, whoever it runs as. If it exists, nothing changes.

    Args:
        place: its path in the sandbox.
        writable: whether the command may write to it.
    """
    return ["--perms", "0777" if writable else "0755", "--dir", place]


def _bound_paths(command: Command) -> list[str]:
    """The files and folders that the caller binds, read-only, and their parent folders in /tmp."""
    home = command.variables.get("WORKBOOK_HOME", "")
    kept = _below_tmp(command.read_only, home)
    words = [word for place in kept for word in ("--perms", "0755", "--tmpfs", place)]
    above = {str(parent) for inside in command.read_only for parent in Path(inside).parents}
    for place in sorted(above | {home} - {""}):
        words += folder(place, writable=bool(home) and Path(place).is_relative_to(home))
    for inside, outside in command.read_only.items():
        words += ["--ro-bind", str(outside.absolute()), inside]
    return words + [word for place in kept for word in ("--remount-ro", place)]


def _below_tmp(read_only: Mapping[str, Path], home: str) -> list[str]:
    """The folders in /tmp that contain a file or folder which is bound at its own path.

    An example is a checkout in /tmp. These folders are made read-only: a command cannot write
    beside a checkout elsewhere, and so must not write beside this one. `home` stays writable: it is
    the folder that a program in the sandbox uses as its checkout.
    """
    places = [Path(p) for p, outside in read_only.items() if p == str(outside.absolute())]
    tops = {Path("/tmp", p.parts[2]) for p in places if Path("/tmp") in p.parents[1:]}
    return sorted(str(top) for top in tops if not Path(home).is_relative_to(top))
