"""`Started`: what the supervisor needs to know of a command that was started."""

from __future__ import annotations

import subprocess
from typing import Protocol

from .process_tree import Process


class Started(Protocol):
    """A command that was started.

    Attributes:
        process: the child process, whose output is collected.
        root: the process id of the sandbox's first process, as the caller sees it. Without a
            sandbox it is the id of `process`.
        isolated: whether it runs in a sandbox.
        is_copy: whether a copy of a fork server carries it out.
    """

    process: subprocess.Popen[bytes]
    root: int
    isolated: bool
    is_copy: bool

    def processes(self) -> list[Process]:
        """The command's first process and all that it started."""

    def cpu_seconds_of_copy(self) -> float:
        """After the command has ended: the copy's processor time; 0 where there is no copy."""

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
