"""The program of a fork server: it imports modules, and then forks a copy for each request.

fork_server.py starts it, with a socket for requests. A request is an `Order`, written by pickle
(both ends are the same code of the same user), with open files (`DESCRIPTORS`). For each request
the program

1. forks a process, which enters the sandbox and forks the copy there (join.py);
2. answers with the copy's process id, or with what went wrong (`Begun`);
3. lets the copy carry out the command, and answers with its processor time (`Ended`).

The copy's exit status goes to the first command in the sandbox, through a pipe. If this program
ends, the pipe is closed, that command ends, and with it the sandbox. This program ends with its
caller. It has one thread, because a process with several cannot enter a user namespace. It knows
nothing of any submission.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import importlib
import io
import os
import pickle
import select
import socket
import sys
import traceback
import types
from collections.abc import Sequence
from typing import NoReturn

from .join import Sandbox, enter

#: The open files of a request, in this order: the copy's standard input, output and error output; a
#: pipe for its exit status; a pidfd of a process in the sandbox; a socket for the answers.
DESCRIPTORS = 6
#: The most bytes of a request.
LONGEST = 1 << 18
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36


@dataclasses.dataclass(frozen=True)
class Order:
    """A request.

    Attributes:
        words: the command, `PYTHON -I -m MODULE …` or `PYTHON -I -c CODE …`. The module must have a
            function `main` without parameters, which may return an exit status.
        sandbox: where the command is carried out.
    """

    words: Sequence[str]
    sandbox: Sandbox


@dataclasses.dataclass(frozen=True)
class Begun:
    """The first answer: the copy's process id outside of the sandbox, or what went wrong."""

    pid: int = 0
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Ended:
    """The second answer: seconds of processor time of the copy, and of its children that it has
    waited for."""

    cpu_seconds: float


class _ForkServer:
    """Answers requests.

    Args:
        requests: the socket from which they come.
        idle_s: the seconds without a copy and a request after which it ends.
    """

    def __init__(self, requests: socket.socket, idle_s: float) -> None:
        self._requests = requests
        self._idle_ms = int(idle_s * 1000)
        self._copies: dict[int, tuple[int, int, socket.socket]] = {}  # by pidfd: pid, status, reply
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)

    def run(self) -> Sequence[str]:
        """Answer requests while there are any; in each copy, return its command."""
        while True:
            ready = self._poll.poll(self._idle_ms)
            if not ready and not self._copies:
                os._exit(0)
            for descriptor, _ in ready:
                if descriptor in self._copies:
                    self._tell_end(descriptor)
                elif (words := self._take()) is not None:
                    return words

    def _take(self) -> Sequence[str] | None:
        """Take one request; in the copy that it asked for, return the copy's command."""
        message, descriptors, _, _ = socket.recv_fds(self._requests, LONGEST, DESCRIPTORS)
        if not message:
            os._exit(0)
        order: Order = pickle.loads(message)
        *standard, status, member, answers = descriptors
        read, write = os.pipe()
        first = os.fork()
        if first == 0:
            return self._become(order, standard, member, write)
        os.close(write)
        begun = _last(read)
        os.waitpid(first, 0)  # now the copy is this process's child
        for descriptor in (*standard, member):
            os.close(descriptor)
        reply = socket.socket(fileno=answers)
        with contextlib.suppress(OSError):  # the caller has ended
            reply.send(pickle.dumps(begun))
        if begun.pid:
            end = os.pidfd_open(begun.pid)
            self._copies[end] = begun.pid, status, reply
            self._poll.register(end, select.POLLIN)
        else:
            os.close(status)
            reply.close()
        return None

    def _become(self, order: Order, standard: list[int], member: int, pipe: int) -> Sequence[str]:
        """In a new process: fork the copy in the sandbox; in the copy, return its command."""
        try:
            inside = enter(order.sandbox, member)
            if inside is not None:
                os.write(pipe, pickle.dumps(Begun(pid=inside)))
                os._exit(0)
        except BaseException as error:  # nothing may run outside, or with more rights
            where = traceback.extract_tb(error.__traceback__)[-1]
            os.write(pipe, pickle.dumps(Begun(error=f"{error} (join.py, line {where.lineno})")))
            os._exit(1)
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
        self._requests.detach()  # else Python would close these numbers once more, later
        for _, _, reply in self._copies.values():
            reply.detach()
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        return order.words

    def _tell_end(self, end: int) -> None:
        """A copy has ended: tell the sandbox's first command, and the caller."""
        pid, status, reply = self._copies.pop(end)
        self._poll.unregister(end)
        os.close(end)
        _, ended, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(ended)
        with contextlib.suppress(OSError):  # the sandbox has ended
            os.write(status, b"%d\n" % (code if code >= 0 else 128 - code))
        with contextlib.suppress(OSError):
            reply.send(pickle.dumps(Ended(usage.ru_utime + usage.ru_stime)))
        os.close(status)
        reply.close()


def _last(pipe: int) -> Begun:
    """The last message of the new processes, once all have closed the pipe: an error, if any."""
    begun = Begun(error="The process ended before it had entered the sandbox.")
    with os.fdopen(pipe, "rb") as file:
        messages = io.BytesIO(file.read())
    while messages.tell() < len(messages.getbuffer()):
        begun = pickle.load(messages)
    return begun


def main() -> None:
    """`… REQUESTS IDLE MODULE …`: the socket's number, seconds, and the modules to import."""
    requests, idle_s = socket.socket(fileno=int(sys.argv[1])), float(sys.argv[2])
    ctypes.CDLL(None).prctl(_PR_SET_NAME, b"python", 0, 0, 0)
    for name in sys.argv[3:]:
        with contextlib.suppress(Exception):  # it fails in the command, too, and is reported there
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # memory that the garbage collector does not touch stays shared with the copies
    serve(requests, idle_s)


def serve(requests: socket.socket, idle_s: float) -> NoReturn:
    """Be a fork server until the caller ends; be a copy of it until its command ends.

    Args:
        requests: the socket from which requests come.
        idle_s: the seconds without work after which it ends.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _carry_out(_ForkServer(requests, idle_s).run())
    sys.exit()


def _carry_out(words: Sequence[str]) -> None:
    """Carry out a command, as Python does with this command line."""
    _, _, option, what, *rest = words
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else the random numbers of all copies would be the same
    if option == "-m":
        module = importlib.import_module(what)
        sys.argv = [str(module.__file__), *rest]
        try:
            status = module.main() or 0
        except Exception:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # Python would take apart thousands of modules, for 0.2 s
    sys.argv = ["-c", *rest]
    sys.modules["__main__"] = program = types.ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), vars(program))
