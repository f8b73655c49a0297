"""Start a command in a sandbox, or without one if the caller wants that.

The result is a `Started`. Its methods list and end the command's processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Protocol

from workbook.common.errors import WorkbookError

from . import bubblewrap, cgroup, own_user, process_tree, seccomp
from .arguments import ETC, WRITABLE, arguments, folder
from .command import Command, Isolation
from .limits import SPARE
from .process_tree import Process


class Started(Protocol):
    """A command that was started.

    Attributes:
        process: the child process, whose output is collected.
        root: the process id of the sandbox's first process, as the caller sees it. Without a
            sandbox it is the id of `process`.
        isolated: whether it runs in a sandbox.
    """

    process: subprocess.Popen[bytes]
    root: int
    isolated: bool

    def processes(self) -> list[Process]:
        """The command's first process and all that it started."""

    def counted_memory(self) -> int | None:
        """Bytes of memory in use, if the kernel counts and limits them; else None."""

    def scratch_bytes(self) -> int:
        """Bytes in the writable folders, which are memory."""

    def too_many_processes(self) -> bool:
        """Whether the kernel has refused a process or thread because of the limit."""

    def out_of_memory(self) -> bool:
        """Whether the kernel has ended a process because of the limit on memory."""

    def kill(self) -> None:
        """Kill every process. Calling it again does no harm."""

    def release(self) -> bool:
        """After the command has ended: close its files, and remove its cgroup or private folder.

        Returns:
            True if the command has run, False if bubblewrap ended before it could start it.
        """


def launch(command: Command, stdin: bytes, isolation: Isolation) -> Started:
    """Start a command.

    Args:
        command: the command, and the files that it sees.
        stdin: what the command reads from its standard input.
        isolation: as for `sandbox.run`.

    Raises:
        WorkbookError: the machine allows no sandbox, or something to be bound is not there.
    """
    with _memory_file(stdin) as source:  # only the child process keeps it open
        if isolation == "unsandboxed":
            return _Unsandboxed(command, source)
        return _Sandboxed(command, source)


class _Sandboxed:
    """A command in bubblewrap.

    Bubblewrap makes the sandbox, and then waits until this process writes a byte to a pipe. Before
    that, this process puts the sandbox into its cgroup. So none of the command's processes is ever
    outside of the cgroup. If root starts the sandbox, bubblewrap also waits once before, until this
    process has written which user the command runs as (own_user.py).
    """

    isolated = True

    def __init__(self, command: Command, stdin: IO[bytes]) -> None:
        bwrap = bubblewrap.program()
        self._pidfd = -1
        user = own_user.choose()
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
                ends = [read for read, _ in gates]
                self.process = self._start(command, bwrap, stdin, status_write, ends)
            finally:
                os.close(status_write)
                for read, _ in gates:
                    os.close(read)
            self.root = self._first_process()
            if user is not None:
                self._give_to(user)
            for _, write in gates:
                with contextlib.suppress(BrokenPipeError):  # it has ended; see the supervisor
                    os.write(write, b"x")
        finally:
            for _, write in gates:
                os.close(write)

    def _start(
        self, command: Command, bwrap: Path, stdin: IO[bytes], status: int, gates: list[int]
    ) -> subprocess.Popen[bytes]:
        """Start bubblewrap, with its arguments in a file: /proc/1/cmdline can be read inside."""
        inherited = [status, *gates]
        has_own_user = len(gates) > 1
        with contextlib.ExitStack() as ours:

            def in_file(content: bytes) -> str:
                number = ours.enter_context(_memory_file(content)).fileno()
                inherited.append(number)
                return str(number)

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
                unused = ours.enter_context(Path(os.devnull).open("wb")).fileno()
                inherited.append(unused)
                words += ["--userns-block-fd", str(gates[0]), "--info-fd", str(unused)]
            return subprocess.Popen(
                [
                    str(bwrap),
                    *("--json-status-fd", str(status), "--block-fd", str(gates[-1])),
                    *("--args", in_file("\0".join(words).encode())),
                    "--",
                    *(own_user.command(nesting=command.nesting) if has_own_user else ()),
                    *command.limited,
                ],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=inherited,
                cwd="/",
                env={},  # what bubblewrap is given can be read in /proc/1/environ
            )

    def _first_process(self) -> int:
        """Put the sandbox's first process into the cgroup, and return its id.

        Raises:
            WorkbookError: bubblewrap ended before it had made a sandbox.
        """
        told = self._status.readline()
        if not told:
            raise self._refused()
        root = int(json.loads(told)["child-pid"])
        try:
            self._pidfd = os.pidfd_open(root)
            if self._group is not None:
                self._group.add(root)
        except ProcessLookupError:  # it could not mount something, and has ended already
            raise self._refused() from None
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
            raise self._refused(f"The sandbox got no user of its own: {error}.") from None

    def _refused(self, why: str = "") -> WorkbookError:
        """The error with bubblewrap's own message, and what to do about it."""
        _, said = self.process.communicate()
        self.release()
        return bubblewrap.refused(said.decode(errors="replace").strip() or why)

    def processes(self) -> list[Process]:
        if self._group is not None:  # else the process table has to be searched
            return process_tree.those(self._group.members())
        return process_tree.descendants(self.root)

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


class _Unsandboxed:
    """A command with the caller's own rights, with those limits that need no sandbox."""

    isolated = False

    def __init__(self, command: Command, stdin: IO[bytes]) -> None:
        self._folder = tempfile.mkdtemp(prefix="unsandboxed-")
        (Path(self._folder) / "home").mkdir()
        self.process = subprocess.Popen(
            command.limited,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: self._moved(value) for name, value in command.variables.items()},
            cwd=self._moved(command.cwd),
            start_new_session=True,
        )
        self.root = self.process.pid

    def _moved(self, value: str) -> str:
        """The path with `/tmp` at its beginning replaced by the private folder."""
        return re.sub(r"^/tmp(?=/|$)", lambda _: self._folder, value)

    def processes(self) -> list[Process]:
        return process_tree.descendants(self.root)

    def counted_memory(self) -> int | None:
        return None

    def scratch_bytes(self) -> int:
        return 0  # the private folder is on the disk

    def too_many_processes(self) -> bool:
        return False

    def out_of_memory(self) -> bool:
        return False

    def kill(self) -> None:
        for process in process_tree.descendants(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, signal.SIGKILL)

    def release(self) -> bool:
        shutil.rmtree(self._folder, ignore_errors=True)
        return True


def _memory_file(data: bytes) -> IO[bytes]:
    """An open file in memory, at its beginning. Nobody can write to it any more.

    A command could open its standard input anew for writing, in /proc/self/fd. Without the seal it
    could keep data there that belong to no process.
    """
    file = os.fdopen(os.memfd_create("sandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "w+b")
    file.write(data)
    file.seek(0)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file
