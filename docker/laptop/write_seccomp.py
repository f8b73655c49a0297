"""Write `seccomp.json`: the system calls of a container in which the grader can make sandboxes.

    python docker/laptop/write_seccomp.py

Docker's own profile forbids every container without CAP_SYS_ADMIN to make namespaces and mounts,
which bubblewrap needs. This profile allows them, and the system calls of ordinary programs that the
grader's sandbox allows (`grader/sandbox/system_calls.py`). Everything else is refused, even calls
that Docker's own profile allows. A new namespace gives no rights outside of it. But it lets a
program reach more code of the kernel, and a bug there may let it out; so use this profile for
containers that grade, and not for others.

Students' code does not run under this profile alone: the sandbox has its own filter, which forbids
namespaces.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from grader.sandbox import system_calls

PROFILE = Path(__file__).with_name("seccomp.json")

#: The further calls of programs around a sandbox: JupyterLab and pytest watch files, the C library
#: asks for a personality, shells lock files, Docker's runtime changes the root folder, a debugger
#: looks at its own children.
AROUND = (
    *("chroot", "flock", "personality", "ptrace", "sync", "syncfs"),
    *("inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch"),
    *("shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop"),
)


def profile() -> dict[str, Any]:
    """The profile in the form that `docker run --security-opt seccomp=FILE` reads."""
    allowed = {
        *system_calls.ALWAYS,
        *system_calls.BY_ARGUMENTS,
        *system_calls.IGNORED,
        *system_calls.NESTING,
        *AROUND,
    }
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.ENOSYS,
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [{"names": sorted(allowed), "action": "SCMP_ACT_ALLOW"}],
    }


def text() -> str:
    """What `seccomp.json` holds."""
    return json.dumps(profile(), indent=2) + "\n"


if __name__ == "__main__":
    PROFILE.write_text(text(), encoding="utf-8")
