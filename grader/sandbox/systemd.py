"""Ask systemd for a cgroup of this process's own, below which it may make others (version 2).

systemd owns the tree of groups. It gives a part of it to a program that asks for a scope with
`Delegate`; so container programs do, too. An ordinary user asks the user's own systemd. The scope
is in the same slice as before, so limits for this user still apply. It ends with its last process.

See the section "Delegation" in systemd.resource-control(5), and
https://systemd.io/CGROUP_DELEGATION.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path, PurePosixPath

_MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)
_WAIT = 5.0  # seconds, at most


def group() -> str:
    """The path of this process's group in the tree of version 2; empty where there is no tree."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return line.removeprefix("0::")
    return ""


def move_into_scope() -> bool:
    """Move this process into a scope of its own. Returns False where systemd does not do that.

    Only a process of a login or of a user's own services is moved. Any other process, such as a
    cluster's job, must stay under the control of its service.
    """
    former = group()
    busctl = shutil.which("busctl")
    if busctl is None or not former.startswith("/user.slice/"):
        return False
    is_root = os.getuid() == 0
    properties = [["PIDs", "au", "1", str(os.getpid())], ["Delegate", "b", "true"]]
    if is_root:
        slices = [name for name in PurePosixPath(former).parts if name.endswith(".slice")]
        properties.append(["Slice", "s", slices[-1]])
    call = [
        *(busctl, "--system" if is_root else "--user", "--quiet", f"--timeout={_WAIT:.0f}"),
        *("call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))"),
        *(f"workbook-grader-{os.getpid()}.scope", "fail"),
        *(str(len(properties)), *(word for each in properties for word in each)),
        "0",  # no other units
    ]
    try:
        subprocess.run(call, check=True, capture_output=True, timeout=2 * _WAIT)
    except (OSError, subprocess.SubprocessError):
        return False
    deadline = time.monotonic() + _WAIT
    while group() == former:  # systemd answers before it has moved the process
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
