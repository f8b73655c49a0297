"""Take a process that already runs into a sandbox that bubblewrap has made.

A fork server (fork_server.py) has imported packages, outside of all sandboxes. A copy of it enters
a sandbox here, and only then reads what it is to do. After that the copy has what a command that
bubblewrap starts in this sandbox has, and no more: the same namespaces, so the same files,
processes and network; the same user; no capability; the same limits and filter for system calls;
no open file but standard input, output and error output. The order matters:

1. The cgroup, so that the kernel counts everything from here on.
2. The namespaces of the sandbox's command, in one call. The call fails for a process with threads.
3. A fork: a process enters a PID namespace only with its first child.
4. The limits, the user, the capabilities and the filter. None of these can be taken back.

See setns(2), capabilities(7), seccomp(2) and PR_SET_NO_NEW_PRIVS in prctl(2).
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import resource
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from .limits import number

#: The kinds of namespaces: name in /proc/<pid>/ns → flag of setns.
_NAMESPACES = {
    "user": 0x10000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 4, 22, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_EINVAL = 22


@dataclasses.dataclass(frozen=True)
class Sandbox:
    """What a process needs to know to enter a sandbox.

    Attributes:
        namespaces: what `other_namespaces` returns for a process in the sandbox.
        groups: the files `cgroup.procs` of the sandbox's groups.
        user: the user inside, if the process has to become this user; None if it is that already.
        limits: the kernel's limits per process, as `limits.per_process` returns them.
        filtering: the filter for system calls, an array of `struct sock_filter`; may be empty.
        cwd: the working folder inside.
        variables: the environment variables.
    """

    namespaces: int
    groups: Sequence[str]
    user: int | None
    limits: Mapping[str, int]
    filtering: bytes
    cwd: str
    variables: Mapping[str, str]


def other_namespaces(pid: int) -> int:
    """The flags of setns for the namespaces in which a process is, and the caller is not.

    The others must be left out: an ordinary user may not even enter the one that it is in.

    Args:
        pid: a process in a sandbox, as the caller sees it.

    Raises:
        OSError: there is no such process, or the caller may not look at it.
    """
    flags = 0
    for name, flag in _NAMESPACES.items():
        own, other = (Path(f"/proc/{who}/ns/{name}").stat() for who in ("self", pid))
        if (own.st_dev, own.st_ino) != (other.st_dev, other.st_ino):
            flags |= flag
    return flags


def enter(sandbox: Sandbox, member: int) -> int | None:
    """Enter a sandbox with a new process.

    Args:
        sandbox: what to do there.
        member: a pidfd of a process that bubblewrap has started in the sandbox.

    Returns:
        In the calling process, the id of the new process as the caller sees it. In the new process,
        None.

    Raises:
        OSError: the system refused a step. In the new process nothing may run then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for group in sandbox.groups:
        Path(group).write_text("0")  # the process that writes
    _check(libc.setns(member, sandbox.namespaces), "setns")
    os.close(member)
    inside = os.fork()
    if inside:
        return inside
    os.setsid()
    os.chdir(sandbox.cwd)
    os.environ.clear()
    os.environ.update(sandbox.variables)
    _drop_rights(libc, sandbox)
    return None


def _drop_rights(libc: ctypes.CDLL, sandbox: Sandbox) -> None:
    """Set the limits, and give up every right that the sandbox's command does not have."""
    for name, value in sandbox.limits.items():
        resource.setrlimit(number(name), (value, value))
    _check(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient capabilities")
    for capability in range(64):  # until the first one that the kernel does not know
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if ctypes.get_errno() != _EINVAL:
                _check(-1, "capability bounding set")
            break
    if sandbox.user is not None:
        os.setgroups([0])
        os.setresgid(sandbox.user, sandbox.user, sandbox.user)
        os.setresuid(sandbox.user, sandbox.user, sandbox.user)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check(libc.capset(header, bytes(24)), "capset")
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _check(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")  # a change of the user clears it
    if sandbox.filtering:
        code = ctypes.create_string_buffer(sandbox.filtering, len(sandbox.filtering))
        program = struct.pack("HxxxxxxP", len(sandbox.filtering) // 8, ctypes.addressof(code))
        _check(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0), "seccomp")


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
