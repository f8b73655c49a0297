"""`Forked`: a copy of a fork server, in a sandbox that bubblewrap has made.

Bubblewrap starts a command of its own in the sandbox, which waits. Then the copy joins it there.
When the copy ends, the waiting command ends with the same status, and with it the sandbox. So the
supervisor works as it does without a fork server. The waiting command has the copy's error output,
but not its standard output: in the sandbox, only the copy can write there.
"""

from __future__ import annotations

import dataclasses
import os
from typing import IO

from . import own_user, process_tree, seccomp
from .command import Command
from .fork_server import Copy, ForkServer, NotForked
from .fork_server_program import Order
from .join import Sandbox, other_namespaces
from .limits import per_process
from .process_tree import Process
from .sandboxed import Sandboxed

#: Say that the sandbox is ready, wait for the copy's exit status, and end with it. If there is no
#: status, the fork server has ended.
_WAIT = 'echo; read -r code || code=1; exit "$code"'


class Forked(Sandboxed):
    """A copy of a fork server that carries out a command in a sandbox.

    Args:
        command: `PYTHON -I -m MODULE …`, or `PYTHON -I -c CODE …`.
        stdin: what the copy reads from its standard input.
        fork_server: what is copied.

    Raises:
        NotForked: there is no copy. The sandbox has been ended then.
        WorkbookError: as for `Sandboxed`.
    """

    is_copy = True

    def __init__(self, command: Command, stdin: IO[bytes], fork_server: ForkServer) -> None:
        fork_server.start()  # its imports go on while the sandbox is made
        self._copy: Copy | None = None
        status_read, status_write = os.pipe()
        ready_read, ready_write = os.pipe()
        waiting = dataclasses.replace(command, words=["/bin/sh", "-c", _WAIT])
        with (
            os.fdopen(ready_read, "rb") as ready,
            os.fdopen(status_write, "wb"),
            self._pipes() as (output, errors),
        ):
            try:
                self._make(waiting, stdin=status_read, stdout=ready_write, stderr=errors)
            finally:
                os.close(status_read)
                os.close(ready_write)
            if not ready.read(1):
                raise self._refusal()
            self._fork(command, fork_server, [stdin.fileno(), output, errors, status_write])

    def _fork(self, command: Command, fork_server: ForkServer, descriptors: list[int]) -> None:
        waiting = process_tree.descendants(self.root)[1].pid
        member = os.pidfd_open(waiting)
        try:
            sandbox = Sandbox(
                namespaces=other_namespaces(waiting),
                groups=[] if self._group is None else self._group.lists_of_processes,
                user=None if self._user is None else own_user.INSIDE,
                limits=per_process(command.limits),
                filtering=seccomp.filter_bytes(nesting=command.nesting) or b"",
                cwd=command.cwd,
                variables=command.variables,
            )
            self._copy = fork_server.fork(Order(command.words, sandbox), [*descriptors, member])
        except (OSError, NotForked) as error:
            self._close_held()
            self.kill()
            self.process.communicate()
            self.release()
            raise NotForked(str(error)) from None
        finally:
            os.close(member)

    def processes(self) -> list[Process]:
        found = super().processes()
        if self._group is None and self._copy is not None:  # it is no descendant of the first one
            found += process_tree.descendants(self._copy.pid)
        return found

    def cpu_seconds_of_copy(self) -> float:
        return 0.0 if self._copy is None else self._copy.cpu_seconds()
