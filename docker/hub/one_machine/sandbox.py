"""The sandbox of a student's server: the grader's (grader/sandbox/), with a folder that is kept.

The student sees the system's programs, Python with the course's packages, the class's files without
solutions, hidden checks and submissions, and the student's own folder as /home/student. Network,
processes and shared memory are the student's own, and nothing else of the machine can be reached.

If root starts it, the server runs as another user: the owner of the folder. A new folder gets an
owner with a random high number (grader/sandbox/own_user.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from inside import CLASS, HUB

from grader.sandbox import Limits, bubblewrap, cgroup, mounts, own_user, seccomp
from grader.sandbox.command import Command
from grader.sandbox.memory_file import memory_file
from grader.sandbox.namespaces import ETC, arguments
from workbook.common import paths
from workbook.server import assemble

HOME = "/home/student"
#: A folder of the instructor's that all students may read, such as git repositories for links.
SHARED = "/shared"
_HERE = Path(__file__).resolve().parent
_PROCESSES = 4096  # processes and threads of one student
_SCRATCH = 2 << 30  # bytes in /tmp, and as many in /dev/shm
#: What a student's checkout is made from; the state folders are made by `make setup`.
_COURSE, _STATE = ("lectures", "assignments", "model_repository"), ("server", "zoo", "tools")
_BUILT = {CLASS / "model_repository", *(CLASS / ".workbook" / name for name in _STATE)}
#: The variables of JupyterHub begin with these. Nothing else of the hub's environment is passed on.
_OF_HUB = ("JUPYTERHUB_", "JPY_", "MEM_", "CPU_")
_ETC: Mapping[str, str] = {
    **ETC,
    "/etc/passwd": f"student:x:{own_user.INSIDE}:{own_user.INSIDE}::{HOME}:/bin/bash\n",
    # The instructor's repositories in /shared belong to another user. Git reads this setting from
    # no variable when it clones from a folder.
    "/etc/gitconfig": "[safe]\n\tdirectory = *\n",
}


def claim(folder: Path) -> int | None:
    """Make a student's folder, where it is missing, for the student alone.

    Args:
        folder: the student's folder.

    Returns:
        The number of the user that owns it and runs the server; None where that is this account.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = own_user.choose()
    if new is None:
        return None
    owner = folder.stat().st_uid
    if owner == 0:
        owner = new
        os.chown(folder, owner, owner)
    return owner


@contextlib.contextmanager
def start(
    folder: Path, *, offered: socket.socket, hub: Path, memory: int | None, shared: Path | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `inside.py` in a sandbox; at the end of the block everything in it is ended.

    Args:
        folder: the student's folder.
        offered: the listening Unix socket that goes into the sandbox.
        hub: the Unix socket to the hub, which the student may connect to.
        memory: bytes for all processes together, where this account may make a cgroup.
        shared: a folder that the student may read as /shared; None for none.

    Raises:
        WorkbookError: this machine allows no sandbox; the message says what to do.
    """
    user, bwrap = claim(folder), bubblewrap.program()
    command = _command(offered.fileno(), shared)
    if user is not None:
        # Some libraries write weights that only their owner may read.
        built = [str(file) for place, file in command.read_only.items() if Path(place) in _BUILT]
        subprocess.run(["chmod", "-R", "go+rX", *built], check=True)
        own_user.check_readable(command.read_only.values())
        hub.chmod(0o666)
    group = cgroup.make(_PROCESSES, memory) if memory else None
    status, status_end = os.pipe()
    gates = [os.pipe() for _ in range(1 if user is None else 2)]
    with contextlib.ExitStack() as held:
        if group is not None:
            held.callback(group.close)
        passed: list[IO[bytes]] = []
        words = _words(command, bwrap, folder, hub, passed, has_own_user=user is not None)
        if user is not None:
            unused = Path(os.devnull).open("wb")  # noqa: SIM115 - closed with the others
            passed.append(unused)
            words += ["--userns-block-fd", str(gates[0][0]), "--info-fd", str(unused.fileno())]
        arguments_file = memory_file("\0".join(words).encode())
        passed.append(arguments_file)
        process = subprocess.Popen(
            [
                str(bwrap),
                *("--json-status-fd", str(status_end), "--block-fd", str(gates[-1][0])),
                *("--args", str(arguments_file.fileno()), "--"),
                *(() if user is None else own_user.command(nesting=False)),
                *command.words,
            ],
            pass_fds=[
                status_end,
                offered.fileno(),
                *(r for r, _ in gates),
                *(f.fileno() for f in passed),
            ],
            env={},  # the variables are among the arguments, which other users cannot read
        )
        held.callback(_end, process)
        os.close(status_end)
        for file in passed:
            file.close()
        with os.fdopen(status, "rb") as reports:
            line = reports.readline()
        if not line:
            raise bubblewrap.refused("bubblewrap's message is in the hub's log, above this one")
        first = int(json.loads(line)["child-pid"])
        if group is not None:
            group.add(first)
        if user is not None:
            own_user.map_users(first, user)
        for _, write in gates:
            os.write(write, b"x")
        for gate in gates:
            for descriptor in gate:
                os.close(descriptor)
        yield process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End bubblewrap, and with it everything in the sandbox."""
    process.kill()
    process.wait()


def _command(descriptor: int, shared: Path | None) -> Command:
    """`inside.py`, what it sees, and its environment."""
    root, state = paths.root(), paths.state()
    bound, environment = mounts.course()
    backends = assemble.find().backends.parent
    seen: dict[str, Path] = {
        place: file for place, file in bound.items() if not place.startswith(mounts.CHECKOUT)
    }
    seen |= {str(CLASS / name): root / name for name in _COURSE}
    seen |= {
        str(CLASS / ".workbook" / name): state / name for name in _STATE if (state / name).is_dir()
    }
    seen[str(CLASS / ".workbook/server")] = backends
    seen[str(_HERE)] = _HERE
    if shared is not None:
        seen[SHARED] = shared
    variables = {
        **{name: text for name, text in os.environ.items() if name.startswith(_OF_HUB)},
        "PATH": environment["PATH"],
        "HOME": HOME,
        "SHELL": "/bin/bash",
        "USER": "student",
        "WORKBOOK_HOME": f"{HOME}/course",
    }
    return Command(
        words=(sys.executable, str(_HERE / "inside.py"), str(descriptor)),
        read_only=seen,
        environment=variables,
        limits=Limits(scratch_bytes=_SCRATCH),
    )


def _words(
    command: Command,
    bwrap: Path,
    folder: Path,
    hub: Path,
    passed: list[IO[bytes]],
    *,
    has_own_user: bool,
) -> list[str]:
    """Bubblewrap's arguments. Files that the arguments name are added to `passed`."""

    def in_file(content: bytes) -> str:
        passed.append(memory_file(content))
        return str(passed[-1].fileno())

    words = arguments(command, bwrap, has_own_user=has_own_user)
    words += ["--perms", "0755", "--dir", "/home", "--bind", str(folder), HOME]
    words += ["--perms", "0755", "--dir", "/run", "--bind", str(hub), str(HUB)]
    for path, text in _ETC.items():
        words += ["--perms", "0444", "--ro-bind-data", in_file(text.encode()), path]
    if (filtering := seccomp.filter_bytes()) is not None:
        words += ["--seccomp", in_file(filtering)]
    return [*words, "--remount-ro", "/"]
