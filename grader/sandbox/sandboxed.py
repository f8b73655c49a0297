"""`Sandboxed`: a command that bubblewrap has started in a sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from workbook.common.errors import WorkbookError

from . import bubblewrap, cgroup, own_user, process_tree, seccomp
from .command import Command
from .limits import SPARE
from .memory_file import memory_file
from .namespaces import ETC, WRITABLE, arguments, folder
from .process_tree import Process


class Sandboxed:
    """A command in bubblewrap.

    Bubblewrap makes the sandbox, and then waits until this process writes a byte to a pipe. Before
    that, this process puts the sandbox into its cgroup. So none of the command's processes is ever
    outside of the cgroup. If root starts the sandbox, bubblewrap also waits once before, until this
    process has written which user the command runs as (own_user.py).
    """

    isolated = True
    is_copy = False

    def __init__(self, command: Command, stdin: IO[bytes]) -> None:
        with self._pipes() as (output, errors):
            self._make(command, stdin=stdin.fileno(), stdout=output, stderr=errors)

    @contextlib.contextmanager
    def _pipes(self) -> Iterator[tuple[int, int]]:
        """Make the pipes for output and error output; yields where the command writes to."""
        self._read_ends: list[IO[bytes]] = []
        self._held: list[int] = []  # closed when the command has them
        for _ in range(2):
            read, write = os.pipe()
            self._read_ends.append(os.fdopen(read, "rb", buffering=0))
            self._held.append(write)
        output, errors = self._held
        try:
            yield output, errors
        finally:
            self._close_held()

    def _make(self, command: Command, *, stdin: int, stdout: int, stderr: int) -> None:
        """Make the sandbox, and start the command in it.

        Args:
            command: the command.
            stdin, stdout, stderr: descriptors of its standard input, output and error output.
        """
        bwrap = bubblewrap.program()
        self._pidfd = -1
        self._files: list[IO[bytes]] = []
        self._user = user = own_user.choose()
        if user is not None:
            own_user.check_readable(command.read_only.values())
        limits = command.limits
        self._group = cgroup.make(
            limits.processes + SPARE, limits.memory_bytes, nesting=command.nesting
        )
        status_read, status_write = os.pipe()  # bubblewrap's reports, lines of JSON
        self._status = os.fdopen(status_read, "rb")
        # Bubblewrap goes on when something is written to these: first with the user, then with all.
        gates = [os.pipe() for _ in range(1 if user is None else 2)]
        try:
            try:
                self.process = subprocess.Popen(
                    self._command_line(command, bwrap, status_write, [read for read, _ in gates]),
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=self._passed,
                    cwd="/",
                    env={},  # what bubblewrap is given can be read in /proc/1/environ
                )
            finally:
                os.close(status_write)
                for read, _ in gates:
                    os.close(read)
                for file in self._files:
                    file.close()
            self.process.stdout, self.process.stderr = self._read_ends
            self.root = self._first_process()
            if user is not None:
                self._give_to(user)
            for _, write in gates:
                with contextlib.suppress(BrokenPipeError):  # it has ended; see the supervisor
                    os.write(write, b"x")
        finally:
            for _, write in gates:
                os.close(write)

    def _command_line(
        self, command: Command, bwrap: Path, status: int, gates: list[int]
    ) -> list[str]:
        """Bubblewrap's command line. Its arguments are in a file: inside, /proc/1/cmdline can be
        read."""
        self._passed = [status, *gates]
        has_own_user = len(gates) > 1

        def in_file(content: bytes) -> str:
            return passed(memory_file(content))

        def passed(file: IO[bytes]) -> str:
            self._files.append(file)
            self._passed.append(file.fileno())
            return str(file.fileno())

        words = arguments(command, bwrap, has_own_user=has_own_user)
        if self._group is not None and command.nesting:
            for inside, outside in self._group.bound.items():
                words += [*folder(str(Path(inside).parent)), "--bind", str(outside), inside]
        for path, text in ETC.items():
            words += ["--perms", "0444", "--ro-bind-data", in_file(text.encode()), path]
        if (filtering := seccomp.filter_bytes(nesting=command.nesting)) is not None:
            words += ["--seccomp", in_file(filtering)]
        words += ["--remount-ro", "/"]
        if has_own_user:
            unused = passed(Path(os.devnull).open("wb"))  # noqa: SIM115 - closed with the others
            words += ["--userns-block-fd", str(gates[0]), "--info-fd", unused]
        return [
            str(bwrap),
            *("--json-status-fd", str(status), "--block-fd", str(gates[-1])),
            *("--args", in_file("\0".join(words).encode())),
            "--",
            *(own_user.command(nesting=command.nesting) if has_own_user else ()),
            *command.limited,
        ]

    def _close_held(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _first_process(self) -> int:
        """Put the sandbox's first process into the cgroup, and return its id.

        Raises:
            WorkbookError: bubblewrap ended before it had made a sandbox.
        """
        line = self._status.readline()
        if not line:
            raise self._refusal()
        root = int(json.loads(line)["child-pid"])
        try:
            self._pidfd = os.pidfd_open(root)
            if self._group is not None:
                self._group.add(root)
        except ProcessLookupError:  # it could not mount something, and has ended already
            raise self._refusal() from None
        return root

    def _give_to(self, user: int) -> None:
        """Let the sandbox run as this user."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        for pipe in (self.process.stdout, self.process.stderr):
            os.fchown(pipe.fileno(), user, user)  # else it could not open /dev/stdout
        if self._group is not None:
            self._group.give(user)
        try:
            own_user.map_users(self.root, user)
        except OSError as error:  # root of a container may lack the right, or bubblewrap has ended
            self.kill()
            raise self._refusal(f"The sandbox got no user of its own: {error}.") from None

    def _refusal(self, why: str = "") -> WorkbookError:
        """The error with bubblewrap's own message, and what to do about it."""
        self._close_held()
        _, stderr = self.process.communicate()
        self.release()
        return bubblewrap.refused(stderr.decode(errors="replace").strip() or why)

    def processes(self) -> list[Process]:
        if self._group is not None:  # else the process table has to be searched
            return process_tree.processes(self._group.members())
        return process_tree.descendants(self.root)

    def cpu_seconds_of_copy(self) -> float:
        return 0.0

    def counted_memory(self) -> int | None:
        return None if self._group is None else self._group.memory()

    def scratch_bytes(self) -> int:
        return process_tree.tmpfs(self.root, WRITABLE)

    def too_many_processes(self) -> bool:
        return self._group is not None and self._group.too_many_processes()

    def out_of_memory(self) -> bool:
        return self._group is not None and self._group.out_of_memory()

    def kill(self) -> None:
        """Kill the first process of the PID namespace. The kernel then kills all the others."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def release(self) -> bool:
        with self._status:
            has_run = b"exit-code" in self._status.read()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._group is not None:
            self._group.close()
        return has_run
