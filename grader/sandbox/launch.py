"""Start a command in a sandbox, or without one if the caller wants that."""

from __future__ import annotations

import contextlib

from .command import Command, Isolation
from .fork_server import ForkServer, NotForked
from .forked import Forked
from .memory_file import memory_file
from .sandboxed import Sandboxed
from .started import Started
from .unsandboxed import Unsandboxed


def launch(
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
