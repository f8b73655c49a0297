"""`run` and `start`: a command in a sandbox, to its end or as a server.

    outcome = sandbox.run(["/usr/bin/python3", "-c", "print(6 * 7)"], limits=Limits(wall_s=10))
    outcome.stdout      # b"42\\n"

A command in a sandbox sees the system's programs and what the caller binds, all of it read-only.
It has a loopback device of its own, its own processes, IPC and host name, and two writable folders
of limited size in memory, `/tmp` and `/dev/shm`. Nothing that it writes reaches the disk: results
leave as bytes on standard output. It sees no other files, no other processes, no network and not
the caller's environment, and it has no capabilities. A few system calls that would get around the
limits are refused (seccomp.py).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .command import Command, Isolation, Network
from .launch import Started, launch
from .limits import Limits
from .supervisor import Outcome, Supervisor


class Running:
    """A command that runs beside the caller: a server. A context manager that ends it.

    A thread of this process supervises the command.

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
        """What it has written so far: standard output, at most `output_bytes` of it, and then the
        end of standard error."""
        return self._supervisor.text()

    def wait(self, timeout: float | None = None) -> Outcome | None:
        """Its outcome when it ends within `timeout` seconds, else None."""
        self._thread.join(timeout)
        return self._outcome

    def stop(self) -> Outcome:
        """End it with all that it started, and return its outcome. Stopping twice does no harm."""
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
    stdin: bytes | IO[bytes] = b"",
    environment: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    limits: Limits | None = None,
    network: Network = "own",
    nesting: bool = False,
    isolation: Isolation = "sandbox",
) -> Outcome:
    """Run a command in a sandbox and return when it, and all that it started, has ended.

    Args:
        command: program and arguments; the program's path is its path inside.
        read_only: path inside → file or folder outside. They are bound read-only, in this order.
        stdin: bytes, or an open file that the command reads.
        environment: the environment variables inside. PATH, HOME, LANG and TMPDIR have defaults.
        cwd: the folder inside in which it starts.
        limits: what it may use.
        network: `own`, a loopback device that nothing else reaches; `outer`, the caller's network,
            for a sandbox within a sandbox.
        nesting: allow it to start sandboxes itself. Only for the course's own programs: where the
            caller is root, such a sandbox sees the machine's `/proc`.
        isolation: `unsandboxed` runs the command without a sandbox, within the same limits. Then
            `read_only` and `network` have no effect, and a private folder takes the place of
            `/tmp` in `cwd` and in the environment. Use it only where a person has asked for it.

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
    return Supervisor(launch(wanted, stdin, isolation), wanted.limits).run()


def start(
    command: Sequence[str],
    *,
    read_only: Mapping[str, Path] | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    limits: Limits | None = None,
    network: Network = "own",
    isolation: Isolation = "sandbox",
) -> Running:
    """Start a command in a sandbox and return at once; the arguments are those of `run`.

    The sandbox ends with the thread that calls this, if not before.

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
    )
    return Running(launch(wanted, b"", isolation), wanted.limits)
