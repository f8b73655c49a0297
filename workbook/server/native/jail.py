"""A sandbox for one stub, within the sandbox of the grader's server.

The code of a submitted model runs in a stub. `enter` takes the process that becomes the stub into
namespaces of its own, before any file of the submission is read. Inside, the model's code sees

- only its own processes: it cannot send signals to the server, or read the server's memory
- only its own model's folder, read-only: of the model repository, or of /tmp, where the server puts
  the files that come with a request to load a model
- only the region of shared memory that it shares with the server
- no network, not even the server's ports
- the programs and packages, read-only, and an empty /tmp of its own

A filter for system calls comes last; the grader gives it (`Triton(jail=…)`). forkserver.py calls
`enter` in each copy. See namespaces(7), mount_namespaces(7), pivot_root(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import resource
import signal
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER = 0x00020000, 0x04000000, 0x08000000, 0x10000000
_NEWPID, _NEWNET = 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC = 1, 2, 4, 8, 32, 4096, 16384
_PRIVATE = 1 << 18
_DETACH = 2  # for umount2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 15, 22, 38
_SECCOMP_MODE_FILTER = 2

_STACK = 8 << 20  # bytes: Linux's usual limit
_USER = 1000  # the user id inside
_SCRATCH = {"tmp": "64m", "dev/shm": "16m"}  # folders that the stub may write to, with sizes
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PARENT = 5  # the index of the server's process id in a stub's command line
_NOT_BOUND = ("/", "/proc", "/dev", "/tmp", "/run")  # folders that are made anew, or left out


def enter(words: Sequence[bytes], filter_program: bytes, repository: Path) -> list[bytes]:
    """Enter a sandbox; returns the stub's command line for the inside.

    The function returns in a new process, the first one of its namespace. The calling process waits
    for it and ends in the same way.

    Args:
        words: the stub's command line: program, model file, region, …
        filter_program: a seccomp filter, as an array of `struct sock_filter`; may be empty.
        repository: the model repository.

    Raises:
        OSError: the system refused a step. The caller must not go on to the stub then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _check(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{_USER} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{_USER} {group} 1")
    inside = os.fork()
    if inside != 0:
        libc.prctl(_PR_SET_NAME, b"jail")
        _end_as(inside)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != 0:  # 0: the parent is outside of this namespace, as it must be
        raise OSError("the process is not in a namespace of its own")
    _number_threads_apart()
    _, most = resource.getrlimit(resource.RLIMIT_STACK)  # the server's own is smaller
    usual = _STACK if most == resource.RLIM_INFINITY else min(_STACK, most)
    resource.setrlimit(resource.RLIMIT_STACK, (usual, most))
    os.setsid()  # otherwise kill(0, …) would reach processes of the group outside of the namespace
    model = Path(os.fsdecode(words[1])).parents[1]
    _make_root(libc, model, Path("/dev/shm", os.fsdecode(words[2])), repository)
    _drop_rights(libc, filter_program)
    return [*words[:_PARENT], b"1", *words[_PARENT + 1 :]]


def _number_threads_apart() -> None:
    """Give the threads of this namespace thread ids that the server's threads do not have.

    The stub and the server lock mutexes in their shared memory. A locked mutex holds the id of the
    thread that has locked it. If a thread of the stub and a thread of the server had the same id,
    each could take the other's lock for its own.
    """
    largest = int(Path("/proc/sys/kernel/pid_max").read_text())
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(largest // 2))


def _end_as(child: int) -> None:
    """Wait for a child, and end as it ended."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


class _Mounts:
    """Mounts in a new root, which lies at `/tmp` until it becomes the root."""

    def __init__(self, libc: ctypes.CDLL) -> None:
        self._libc = libc

    def mount(self, source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
        words = [word.encode() if word is not None else None for word in (source, target, kind)]
        given = data.encode() or None
        _check(self._libc.mount(*words, ctypes.c_ulong(flags), given), f"mount {target}")

    def bind(self, source: int, target: Path, *, writable: bool = False) -> None:
        """Show an open file or folder (O_PATH) at a path below the new root."""
        found = os.fstat(source)
        if stat.S_ISDIR(found.st_mode):
            target.mkdir(parents=True, exist_ok=True)
        elif stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
            # Files that bubblewrap makes itself, such as /etc/passwd, have no name. They cannot be
            # bound, so they are copied.
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(Path(f"/proc/self/fd/{source}").read_bytes())
            return
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        self.mount(f"/proc/self/fd/{source}", str(target), None, _BIND | _REC)
        if not writable:
            kept = os.statvfs(target).f_flag & (_NOSUID | _NODEV | _NOEXEC)  # locked for us
            self.mount("none", str(target), None, _REMOUNT | _BIND | _RDONLY | kept)


def _make_root(libc: ctypes.CDLL, model: Path, region: Path, repository: Path) -> None:
    """Make a new root folder with the files that the stub may see, and enter it."""
    mounts, root = _Mounts(libc), Path("/tmp")
    bound = {path: os.open(path, os.O_PATH) for path in _programs(repository)}
    own = os.open(model, os.O_PATH)
    bound |= {p: os.open(p, os.O_PATH) for n in _DEVICES if (p := Path("/dev", n)).exists()}
    shared = os.open(region, os.O_PATH)
    links = {path: path.readlink() for path in Path("/").iterdir() if path.is_symlink()}
    folder = Path.cwd()  # empty; Python models have it first in their search path

    mounts.mount("none", "/", None, _REC | _PRIVATE)
    mounts.mount("tmpfs", str(root), "tmpfs", _NOSUID | _NODEV)
    for path, target in links.items():
        (root / path.name).symlink_to(target)
    for name in ("proc", "old"):
        (root / name).mkdir()
    for name, size in _SCRATCH.items():
        (root / name).mkdir(parents=True)
        mounts.mount("tmpfs", str(root / name), "tmpfs", _NOSUID | _NODEV, f"size={size}")
    for path, source in sorted(bound.items()):  # some are below /tmp
        mounts.bind(source, root / path.relative_to("/"))
    hidden = root / repository.relative_to("/")  # a folder bound above may show all of it
    hidden.mkdir(parents=True, exist_ok=True)
    mounts.mount("tmpfs", str(hidden), "tmpfs", _NOSUID | _NODEV, "size=1m")
    mounts.bind(own, root / model.relative_to("/"))
    mounts.mount("none", str(hidden), None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    for name in ("fd", "stdin", "stdout", "stderr"):
        number = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}[name]
        (root / "dev" / name).symlink_to(f"/proc/self/fd{number}")
    mounts.bind(shared, root / region.relative_to("/"), writable=True)
    (root / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
    mounts.mount("proc", str(root / "proc"), "proc", _NOSUID | _NODEV | _NOEXEC | _RDONLY)

    os.chdir(root)
    _check(libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"old"), "pivot_root")
    _check(libc.umount2(b"/old", _DETACH), "umount")
    Path("/old").rmdir()
    mounts.mount("none", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    for source in (*bound.values(), own, shared):
        os.close(source)
    os.chdir(folder)


def _programs(repository: Path) -> list[Path]:
    """The folders to mount read-only: the programs and packages, but not the models."""
    found: list[Path] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        path = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), words[4]))
        if "ro" not in words[5].split(",") or str(path) in _NOT_BOUND:
            continue
        if path.parts[1] in ("proc", "dev", "run") or path.is_relative_to(repository):
            continue
        if not any(path.is_relative_to(above) for above in found):
            found.append(path)
    return found


def _drop_rights(libc: ctypes.CDLL, filter_program: bytes) -> None:
    """Give up every capability, for good, and set the filter for system calls."""
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header = struct.pack("Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _check(libc.capset(header, bytes(24)), "capset")
    if filter_program:
        code = ctypes.create_string_buffer(filter_program, len(filter_program))
        count = len(filter_program) // 8
        program = struct.pack("HxxxxxxP", count, ctypes.addressof(code))  # struct sock_fprog
        _check(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0), "seccomp")
