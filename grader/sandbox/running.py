"""Run a command in a sandbox: `run` waits until it has ended, `start` returns at once.

    outcome = sandbox.run(["/usr/bin/python3", "-c", "print(6 * 7)"], limits=Limits(wall_s=10))
    outcome.stdout      # b"42\\n"

A command in a sandbox sees the system's programs, and the files and folders that the caller binds;
all of these are read-only. It has its own loopback device, processes, IPC and host name. It has two
writable folders of limited size, `/tmp` and `/dev/shm`. Both are in memory: the command cannot
write to the disk, and returns its results on standard output. It does not see other files, other
processes, the network or the caller's environment, and it has no capabilities. If root starts it,
it runs as another user (own_user.py). Only the system calls of ordinary programs are allowed
(seccomp.py).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .command import Command, Isolation, Network
from .fork_server import ForkServer, NotForked
from .forked import Forked
from .limits import Limits
from .memory_file import memory_file
from .sandboxed import Sandboxed
from .started import Started
from .supervisor import Outcome, Supervisor
from .unsandboxed import Unsandboxed


class Running:
    """A command that was started and runs in the background, such as a server.

    A thread of this process supervises it. At the end of a `with` block it is ended.

    Attributes:
        pid: the id of the sandbox's first process, as the caller sees it.
    """

    def __init__(self, started: Started, limits: Limits) -> None:
        self.pid = started.root
        self._supervisor = Supervisor(started, limits)
        self._outcome: Outcome | None = None
        self._thread = threading.Thread(target=self._supervise, name="sandbox", daemon=True)
        self._thread.start()

    def _supervise(self) -> None:
        self._outcome = self._supervisor.run()

    def alive(self) -> bool:
        """Whether the command still runs."""
        return self._thread.is_alive()

    def log(self) -> str:
        """The command's output so far: standard output, at most `output_bytes`, then the end of
        standard error."""
        return self._supervisor.text()

    def memory(self) -> int:
        """The bytes that the command's processes held a tenth of a second ago."""
        return self._supervisor.held

    def wait(self, timeout: float | None = None) -> Outcome | None:
        """Wait for at most `timeout` seconds. Returns the outcome; None if it has not ended."""
        self._thread.join(timeout)
        return self._outcome

    def stop(self) -> Outcome:
        """End the command and all its processes, and return the outcome. It may be called twice."""
        self._supervisor.end("asked")
        self._thread.join()
        assert self._outcome is not None
        return self._outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def run(
    command: Sequence[str],
    *,
    read_only: Mapping[str, Path] | None = None,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    limits: Limits | None = None,
    network: Network = "own",
    nesting: bool = False,
    isolation: Isolation = "sandbox",
    fork_server: ForkServer | None = None,
) -> Outcome:
    """Run a command in a sandbox. Returns when the command and all its processes have ended.

    Args:
        command: program and arguments; the program's path is its path in the sandbox.
        read_only: path in the sandbox → file or folder of this machine. They are bound read-only,
            in this order.
        stdin: what the command reads from its standard input.
        environment: the environment variables. PATH, HOME, LANG and TMPDIR have defaults.
        cwd: the working folder, a path in the sandbox.
        limits: the limits.
        network: `own`: a loopback device that no other process can use. `outer`: the caller's
            network, for a nested sandbox.
        nesting: allow the command to make sandboxes itself. Only for the course's own programs:
            more system calls are allowed, and the sandbox's first process can be reached.
        isolation: `unsandboxed` runs the command without a sandbox, with the same limits. Then
            `read_only` and `network` have no effect, and a private folder replaces `/tmp` in `cwd`
            and in the environment. Use it only if a person has decided so.
        fork_server: let a copy of it carry out the command, which must be `PYTHON -I -m MODULE …`
            or `PYTHON -I -c CODE …`. Where it cannot be copied, the command is started as without.

    Raises:
        WorkbookError: the machine allows no sandbox, or something to be bound is not there.
    """
    wanted = Command(
        command,
        read_only=read_only or {},
        environment=environment or {},
        cwd=cwd,
        limits=limits or Limits(),
        network=network,
        nesting=nesting,
    )
    return Supervisor(_launch(wanted, stdin, isolation, fork_server), wanted.limits).run()


def start(
    command: Sequence[str],
    *,
    read_only: Mapping[str, Path] | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    limits: Limits | None = None,
    network: Network = "own",
    nesting: bool = False,
    isolation: Isolation = "sandbox",
    fork_server: ForkServer | None = None,
) -> Running:
    """Start a command in a sandbox and return at once; the arguments are those of `run`.

    The sandbox is ended when the thread that called this function ends, if not before.

    Example::

        with sandbox.start(["/usr/bin/python3", "-m", "http.server"]) as server:
            print(server.log())

    Raises:
        WorkbookError: as `run` does.
    """
    wanted = Command(
        command,
        read_only=read_only or {},
        environment=environment or {},
        cwd=cwd,
        limits=limits or Limits(),
        network=network,
        nesting=nesting,
    )
    return Running(_launch(wanted, b"", isolation, fork_server), wanted.limits)


def _launch(
    command: Command, stdin: bytes, isolation: Isolation, fork_server: ForkServer | None = None
) -> Started:
    """Start a command.

    Args:
        command: the command, and the files that it sees.
        stdin: what the command reads from its standard input.
        isolation: as for `sandbox.run`.
        fork_server: as for `sandbox.run`.

    Raises:
        WorkbookError: the machine allows no sandbox, or something to be bound is not there.
    """
    with memory_file(stdin) as source:  # only the child process keeps it open
        if isolation == "unsandboxed":
            return Unsandboxed(command, source)
        if fork_server is not None:
            with contextlib.suppress(NotForked):
                return Forked(command, source, fork_server)
        return Sandboxed(command, source)
