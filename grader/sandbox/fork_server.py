"""`ForkServer`: a process that has imported modules, and whose copies carry out commands.

The imports of a notebook take seconds of processor time, and are the same for every submission. So
one process imports them once, outside of all sandboxes and before anything of a submission is read.
For each submission it forks a copy, which enters a sandbox of its own (join.py). A fork takes
milliseconds.

In /proc/self/exe a process can reach its program's file, also where its sandbox does not show this
file. If that file were the user's own interpreter, a submission could change its mode. So the
program is the system's dynamic loader, which belongs to root, and loads the interpreter (ld.so(8)).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from .fork_server_program import LONGEST, Begun, Ended, Order, serve

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = (
    f"import sys; sys.path.insert(0, {str(_ROOT)!r}); "
    "from grader.sandbox.fork_server_program import main; sys.path.pop(0); main()"
)
#: Seconds without work after which a fork server ends: its packages take memory.
IDLE_S = 600.0
_PT_INTERP = 3
_SECONDS = 120  # for the imports, and a fork


class NotForked(Exception):
    """There is no copy: this machine does not allow it, or the fork server has ended."""


def loader() -> Path:
    """The dynamic loader that the interpreter's file names (PT_INTERP in elf(5)).

    Raises:
        NotForked: there is none, or it does not belong to root.
    """
    with Path(sys.executable).open("rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            raise NotForked("The interpreter is not a program of 64 bits.")
        table, size, count = (
            *struct.unpack_from("Q", head, 32),
            *struct.unpack_from("HH", head, 54),
        )
        file.seek(table)
        for entry in struct.iter_unpack("IIQQQQQQ", file.read(size * count)):
            if entry[0] == _PT_INTERP:
                file.seek(entry[2])
                found = Path(os.fsdecode(file.read(entry[5]).rstrip(b"\0"))).resolve()
                if found.stat().st_uid == 0:
                    return found
    raise NotForked("No dynamic loader of root's loads the interpreter.")


@dataclasses.dataclass(frozen=True)
class Copy:
    """A copy that carries out a command.

    Attributes:
        pid: its process id, outside of the sandbox.
    """

    pid: int
    _answers: socket.socket

    def cpu_seconds(self) -> float:
        """Seconds of processor time. To be called once, when the copy has ended."""
        with self._answers, contextlib.suppress(OSError):
            self._answers.settimeout(1)
            if message := self._answers.recv(LONGEST):
                ended: Ended = pickle.loads(message)
                return ended.cpu_seconds
        return 0.0


class ForkServer:
    """A process that has imported modules. It is started by the first request.

    Several threads may send requests. The process ends with this one, or with `close`.

    Example::

        warmed = ForkServer(["numpy"], environment={})
        sandbox.run([sys.executable, "-I", "-c", "import numpy"], fork_server=warmed)

    Args:
        modules: what it imports, besides what these import.
        environment: the variables with which it imports them. In a sandbox the command's own
            variables replace them. HOME is an empty folder.
        idle_s: the seconds without work after which the process ends. The next request then starts
            another one.
    """

    def __init__(
        self, modules: Sequence[str], environment: Mapping[str, str], *, idle_s: float = IDLE_S
    ) -> None:
        self._modules = tuple(modules)
        self._environment = dict(environment)
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._home = tempfile.TemporaryDirectory(prefix="fork-server-")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, if it is not there. The imports then go on in the background.

        Raises:
            NotForked: the system refused.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with theirs:
                    self._process = subprocess.Popen(
                        [
                            *(str(loader()), "--argv0", sys.executable, sys.executable),
                            *("-I", "-c", _PROGRAM, str(theirs.fileno()), str(self._idle_s)),
                            *self._modules,
                        ],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=[theirs.fileno()],
                        env={**self._environment, "HOME": self._home.name},
                        cwd="/",
                        start_new_session=True,
                    )
            except (OSError, NotForked) as error:
                ours.close()
                raise NotForked(str(error)) from None
            self._requests = ours

    def fork(self, order: Order, descriptors: Sequence[int]) -> Copy:
        """Let a copy carry out a command in a sandbox.

        Args:
            order: the command, and the sandbox.
            descriptors: as `fork_server_program.DESCRIPTORS` says, without the last.

        Raises:
            NotForked: there is no copy.
        """
        self.start()
        assert self._requests is not None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                message = pickle.dumps(order)
                socket.send_fds(self._requests, [message], [*descriptors, theirs.fileno()])
            ours.settimeout(_SECONDS)
            begun: Begun = pickle.loads(ours.recv(LONGEST) or pickle.dumps(Begun()))
        except OSError as error:
            ours.close()
            raise NotForked(str(error)) from None
        if not begun.pid:
            ours.close()
            raise NotForked(begun.error or "The fork server has ended.")
        return Copy(begun.pid, ours)

    def close(self) -> None:
        """End the process, and every copy."""
        with self._lock:
            if self._requests is not None:
                self._requests.close()
                self._requests = None
            if self._process is not None:
                self._process.wait()
                self._process = None


class ForkOfThisProcess(ForkServer):
    """A fork server that is forked from this process, at once, with what it has imported.

    The process must have one thread, and know nothing that the copies must not know.

    Example::

        forks = ForkOfThisProcess()
        secret = sys.stdin.read()       # not known to the copies
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            ours.close()
            os.dup2(2, 1)  # standard output is for this process's results
            os.closerange(3, theirs.fileno())
            os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
            serve(theirs, IDLE_S)
        theirs.close()
        self._requests = ours

    def start(self) -> None:
        """It has been started. One that has ended is not started again."""
