"""The fork server's loop: for each request, fork a process that becomes a stub.

forkserver.c runs this file in the fork server and calls `serve`. In the fork server `serve` never
returns. In each copy it returns the command line of the stub that the copy becomes. start_stub.c
sends the requests.

The first fork server imports the packages that every stub imports. Stubs that need torch,
transformers or the modules of stand-ins are copies of other fork servers, which have imported these
packages, too. Such a fork server is forked from the first one when the first such stub starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import os
import re
import select
import signal
import socket
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

Jail = Callable[[list[bytes]], list[bytes]]

#: The server sets this variable if each stub gets a sandbox: the path of the system-call filter,
#: and after a colon the model repository.
JAIL_VARIABLE = "WORKBOOK_JAIL"
#: The server sets this variable to names of fork servers after "stub" that will be needed, in their
#: order. They are started at once, and import their packages.
AHEAD_VARIABLE = "WORKBOOK_FORKSERVER_AHEAD"
#: The packages that each fork server imports. It was forked from another one, and so also has the
#: packages of that one.
IMPORTS = {
    # Not triton_python_backend_utils: it checks the model that imports it (answer_checks.py).
    "stub": ("numpy", "numpy.random", "ast", "asyncio", "inspect", "json", "pathlib"),
    "stand_in": ("triton_python_backend_utils", "workbook.backends.backend_common"),
    "fil": ("treelite",),
    "torch": ("torch",),
    "transformers": (
        "transformers.generation",
        "transformers.models.auto.modeling_auto",
        "transformers.models.auto.tokenization_auto",
        "transformers.models.auto.image_processing_auto",
    ),
}
#: The fork servers after "stub": PACKAGES by a module that a model's file imports, STAND_INS by the
#: stand-in's name.
PACKAGES = {"torch": ("torch",), "transformers": ("torch", "transformers")}
STAND_INS = {"pytorch": ("torch",), "fil": ("stand_in", "fil")}
#: Stand-ins that import everything anew: they set variables before they import anything, and start
#: programs.
PLAIN = ("vllm", "tensorrtllm")
#: Packages that a fork server must not import. Its own packages would import them if they are
#: installed, which costs a second and 100 MB, and few models need them. A model that needs them
#: imports them itself.
LEFT_OUT = {"transformers": ("sklearn", "scipy")}

_IMPORT = re.compile(rb"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)
#: Signs that a model sets environment variables, perhaps for packages that it imports afterwards.
_SETS_VARIABLES = re.compile(rb"\b(?:environ|putenv)\b")
#: Variables that the shell sets or drops when it starts start_stub. (A virtual environment's
#: `activate` exports PS1, the prompt; a shell without a terminal drops it.)
_OF_THE_SHELL = (b"_", b"SHLVL", b"PWD", b"OLDPWD", b"PS1", b"PS2", b"SHELLOPTS", b"BASHOPTS")
_PR_SET_PDEATHSIG = 1
_NO_SANDBOX = 125  # start_stub.c knows this exit status
_LONGEST = 1 << 18  # bytes of a request


def serve(folder: str, requests: int) -> list[bytes]:
    """Answer requests until the server ends; in each copy, return the copy's command line.

    Args:
        folder: the Python backend's, with triton_python_backend_utils.py.
        requests: the descriptor of the socket that receives the requests.
    """
    ahead = os.environ.pop(AHEAD_VARIABLE, "").split()
    server = _ForkServer("stub", folder, socket.socket(fileno=requests), _jail(folder))
    return server.run(ahead)


def _jail(folder: str) -> Jail | None:
    """The function that puts a copy into its own sandbox (jail.py); None if none is asked for."""
    given = os.environ.pop(JAIL_VARIABLE, None)
    if given is None:
        return None
    file, _, repository = given.partition(os.pathsep)
    spec = importlib.util.spec_from_file_location("jail", Path(folder, "jail.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    filter_program = Path(file).read_bytes()
    return lambda words: module.enter(words, filter_program, Path(repository))


def route(words: list[bytes]) -> tuple[str, ...]:
    """The fork servers that lead to a stub, in order; empty if the stub is a new process.

    Args:
        words: the stub's command line. The second word is the model's file; the last is the
            stand-in's folder, or DEFAULT for a model of the Python backend.
    """
    if len(words) < 3:
        return ()
    if words[-1] != b"DEFAULT":
        name = Path(os.fsdecode(words[-1])).name
        return () if name in PLAIN else ("stub", *STAND_INS.get(name, ("stand_in",)))
    try:
        source = Path(os.fsdecode(words[1])).read_bytes()
    except OSError:
        return ()
    if _SETS_VARIABLES.search(source):
        return ()
    names = {match.decode() for match in _IMPORT.findall(source)}
    longest = max((PACKAGES[name] for name in names & PACKAGES.keys()), key=len, default=())
    return ("stub", *longest)


class _ForkServer:
    """One fork server.

    Args:
        name: its key in IMPORTS.
        folder: the Python backend's.
        requests: from start_stub, or from the fork server that this one was forked from.
        jail: puts a copy into a sandbox of its own; None without sandboxes.
    """

    def __init__(self, name: str, folder: str, requests: socket.socket, jail: Jail | None) -> None:
        self._name = name
        self._folder = folder
        self._jail = jail
        self._requests = requests
        self._prepared = False
        self._next: dict[str, socket.socket] = {}  # to the fork servers forked from this one
        self._ends: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process, answer
        self._answers: dict[int, int] = {}  # process, by the answer's descriptor
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)

    def run(self, ahead: Sequence[str] = ()) -> list[bytes]:
        """Answer requests; return only in the copies, each with its command line.

        Args:
            ahead: the fork servers to start at once.
        """
        if ahead:
            words = self._open(ahead[0], ahead=ahead[1:])
            if words is not None:
                return words
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._ends:
                    self._tell_end(descriptor)
                elif descriptor in self._answers:
                    self._kill(descriptor)
                elif descriptor == self._requests.fileno():
                    words = self._take()
                    if words is not None:
                        return words

    def _take(self) -> list[bytes] | None:
        """Take one request; in the copy that this makes, return the copy's command line."""
        message, descriptors, _, _ = socket.recv_fds(self._requests, _LONGEST, 4)
        if not message:
            os._exit(0)  # no process that could send requests is left
        count, *rest = message.split(b"\0")[:-1]
        words, folder, variables = rest[: int(count)], rest[int(count)], rest[int(count) + 1 :]
        answer, *extra = descriptors
        ours = self._name != "stub" or _are_ours(variables)
        stations = route(words) if ours else ()
        after = stations[stations.index(self._name) + 1 :] if self._name in stations else ()
        words_of_copy = None
        if self._jail is not None and not ours:
            os.close(answer)  # start_stub then refuses to go on
        elif not stations and self._jail is None:
            with contextlib.suppress(OSError):  # start_stub was killed
                os.write(answer, b"p")
            os.close(answer)
        elif after:
            words_of_copy = self._pass_on(after[0], message, descriptors)
        else:
            reply = socket.socket(fileno=answer)
            words_of_copy = self._copy(reply, words, folder, plain=not stations)
        if words_of_copy is None:
            for descriptor in extra:
                os.close(descriptor)
        return words_of_copy

    def _pass_on(self, name: str, message: bytes, descriptors: list[int]) -> list[bytes] | None:
        """Send a request to another fork server; fork that fork server if it does not exist yet.

        If that fails, nobody answers the request, and start_stub starts the stub without a copy.
        """
        if name not in self._next:
            words = self._open(name, held=descriptors)
            if words is not None:
                return words
        if name in self._next:
            try:
                socket.send_fds(self._next[name], [message], descriptors)
            except OSError:  # it has ended
                self._next.pop(name).close()
        os.close(descriptors[0])
        return None

    def _open(
        self, name: str, *, ahead: Sequence[str] = (), held: Sequence[int] = ()
    ) -> list[bytes] | None:
        """Fork another fork server; return in its copies only, with their command lines.

        Args:
            name: its key in IMPORTS.
            ahead: the fork servers that it starts at once.
            held: descriptors of the current request; the new fork server closes them.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = self._fork()
        if pid == 0:
            ours.close()
            for descriptor in held:
                os.close(descriptor)
            server = _ForkServer(name, self._folder, theirs, self._jail)
            server._prepare()
            return server.run(ahead)
        theirs.close()
        if pid is None:
            ours.close()
        else:
            self._next[name] = ours
        return None

    def _copy(
        self, reply: socket.socket, words: list[bytes], folder: bytes, *, plain: bool
    ) -> list[bytes] | None:
        """Fork a stub; return its command line in the copy, None in the fork server.

        Args:
            plain: the copy executes the stub's program anew, with nothing imported.
        """
        pid = self._fork()
        if pid is None:
            reply.close()
            return None
        if pid == 0:
            reply.close()
            os.setpgid(0, 0)  # revive.cc ends by this group what the stub has started
            os.chdir(folder)
            if self._jail is not None:
                words = self._enter_jail(words)
            if plain:
                os.execv(words[0], words)
            # Python's own random numbers differ after a fork; numpy's would be equal in all copies.
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed()
            return words
        with contextlib.suppress(OSError):  # start_stub was killed: see _kill
            reply.send(b"f" + struct.pack("i", pid))
        end = os.pidfd_open(pid)
        self._ends[end] = pid, reply
        self._answers[reply.fileno()] = pid
        self._poll.register(end, select.POLLIN)
        self._poll.register(reply, select.POLLIN)
        return None

    def _enter_jail(self, words: list[bytes]) -> list[bytes]:
        assert self._jail is not None
        try:
            return self._jail(words)
        except BaseException as error:  # no code of the model may run outside of the sandbox
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{error} ({Path(where.filename).name}, line {where.lineno})"
            print(
                f"The sandbox of a stub could not be made: {message}", file=sys.stderr, flush=True
            )
            os._exit(_NO_SANDBOX)

    def _tell_end(self, end: int) -> None:
        """Tell start_stub how its copy has ended."""
        pid, reply = self._ends.pop(end)
        _, status = os.waitpid(pid, 0)
        self._poll.unregister(end)
        os.close(end)
        if self._answers.pop(reply.fileno(), None) is not None:
            self._poll.unregister(reply)
        with contextlib.suppress(OSError):
            reply.send(struct.pack("i", status))
        reply.close()

    def _kill(self, answer: int) -> None:
        """Kill a copy, since its start_stub was killed (Triton kills a stub in this way)."""
        self._poll.unregister(answer)
        os.kill(self._answers.pop(answer), signal.SIGKILL)

    def _fork(self) -> int | None:
        """Fork. The copy has none of this fork server's descriptors, and ends with it.

        Returns:
            As `os.fork`; None if the system refuses: too many processes, or too little memory.
        """
        self._prepare()
        sys.stdout.flush()
        sys.stderr.flush()
        server = os.getpid()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads. numpy's end before the fork and start again on use.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                pid = os.fork()
            except OSError as error:
                print(f"The fork server cannot fork: {error}", file=sys.stderr, flush=True)
                return None
        if pid == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server:
                os._exit(1)
            for end, (_, reply) in self._ends.items():
                os.close(end)
                reply.close()
            for other in (self._requests, *self._next.values()):
                other.close()
        return pid

    def _prepare(self) -> None:
        """Import this fork server's packages, once. A failed import fails in the model again."""
        if self._prepared:
            return
        self._prepared = True
        sys.path.append(self._folder)
        absent = [name for name in LEFT_OUT.get(self._name, ()) if name not in sys.modules]
        for name in absent:
            sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
        for name in IMPORTS[self._name]:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        for name in absent:
            del sys.modules[name]
        sys.path.remove(self._folder)
        gc.collect()
        gc.freeze()  # the garbage collector leaves these objects alone: copies share their memory


def _are_ours(variables: list[bytes]) -> bool:
    """Whether a stub's environment is the same as the fork server's."""
    theirs = dict(variable.split(b"=", 1) for variable in variables if b"=" in variable)
    ours = dict(os.environb)
    for name in (*_OF_THE_SHELL, JAIL_VARIABLE.encode(), AHEAD_VARIABLE.encode()):
        theirs.pop(name, None)
        ours.pop(name, None)
    return theirs == ours
