"""The judge: runs an assignment's checks outside of the student's kernel, on the student's models.

`python -m grader.judge.judge` reads an `Order` from standard input. It writes JSON lines (`Line`)
to standard output, in this order:

- per check, as soon as it is done: one line `check` with the result, then one line `flag` for each
  flag that the check has caused
- one line `log` with the server's log
- one line `end`. If it is missing, the judge did not finish.

The judge runs in a sandbox that has its own loopback device. The server that loads the student's
models runs in a second sandbox, inside the first one. The two share only the loopback device. So
the judge can send requests to the server, and the code of a model cannot reach the judge.

A model is loaded when a check first sends it a request, so its counts begin at zero. If a model
ends the server, the check that was running fails, and the next check gets a new server.

All public functions run first, as in the notebook, then the hidden variants. A model can keep its
inputs. In this order no model has seen a hidden input when a message for the student is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import psutil
from pydantic import BaseModel, ConfigDict

from workbook.common.errors import WorkbookError
from workbook.server import Server
from workbook.server.connection import DEFAULT_GRPC, DEFAULT_HTTP, DEFAULT_METRICS

from .. import sandbox
from ..sandbox.mounts import course
from ..vocabulary import own, reported
from ..vocabulary.define import (
    Check,
    backends,
    evaluate_hidden,
    evaluate_public,
    load,
    reserved,
)
from ..vocabulary.probe import Probe
from ..vocabulary.results import CheckResult, Flag, Text

#: The most seconds for one check, with the loading of its models.
CHECK_S = 90.0
#: The ports of a sandboxed server: for HTTP, gRPC and metrics.
PORTS = (DEFAULT_HTTP, DEFAULT_GRPC, DEFAULT_METRICS)
#: How often a server without a sandbox is started, each time on other ports.
_ATTEMPTS = 3
#: How many characters of the server's log are kept: the last ones.
LOG = 20_000
#: If a server holds this share of its memory after a check, the next check gets a new server. So a
#: model that takes too much memory costs its own checks only.
HEAVY = 0.5
#: Why the notebook and the judge may find different results.
_DISAGREES = (
    "Perhaps a later cell has changed the model or its folder, or its answers change from call to "
    "call. Code in the notebook that changes what check(…) reports is a cause, too."
)
#: From this share of a check's points on, the judge and the notebook do not disagree: what is
#: measured comes out a little lower at one time than at another.
_ALIKE = 0.9
_PR_SET_DUMPABLE = 4
#: What the server and a student's models may use.
SERVER = sandbox.Limits(wall_s=600, cpu_s=900, memory_bytes=4 << 30, output_bytes=16 << 20)


class Order(BaseModel):
    """What the judge is to do.

    Attributes:
        assignment: its short name, such as `a2`.
        repository: the model repository as it was at the end of the notebook. It is only read.
        reported: the folder with the values that the notebook passed to its checks.
        secret: a text that decides the hidden inputs.
        isolation: whether the models are served in a sandbox of their own.
    """

    model_config = ConfigDict(extra="forbid")

    assignment: str
    repository: Path
    reported: Path
    secret: str
    isolation: sandbox.Isolation = "sandbox"


class Line(BaseModel):
    """One line of the judge's output: a check's result, a flag, the server's log, or the end.

    Attributes:
        kind: which of these it is.
        check, flag, log: the result, the flag, the log.
        me: in the line of a check, the id by which it drew the student's data (own.py).
    """

    kind: Literal["check", "flag", "log", "end"]
    check: CheckResult | None = None
    flag: Flag | None = None
    log: str = ""
    me: Text = ""


class ServerLost(Exception):
    """The judge's server did not start, or has ended, or another program listens on its port."""


class _ServerWithLog(Server):
    """A connection to the sandboxed server, whose log comes through a pipe."""

    def __init__(
        self, running: sandbox.Running, repository: Path, ports: tuple[int, int, int]
    ) -> None:
        http, grpc, metrics = ports
        super().__init__(
            f"http://localhost:{http}",
            grpc=f"localhost:{grpc}",
            metrics=f"http://localhost:{metrics}/metrics",
            repository=repository,
        )
        self._running = running

    def log_text(self, start: int = 0) -> str:
        return self._running.log().encode()[start:].decode(errors="replace")

    def memory(self) -> int:
        """The bytes that the server and its models held a tenth of a second ago."""
        return self._running.memory()

    def log_size(self) -> int:
        return len(self._running.log().encode())


class SandboxedServer:
    """A Triton in a sandbox, on the student's repository.

    A model runs as the same user as its server. So its code could end the server, listen on the
    same port, and answer in its place. `confirm` detects that: it compares the process that listens
    with the process that was started.

    Attributes:
        server: the connection to it.

    Args:
        repository: the student's model repository, served read-only.
        isolation: `unsandboxed` runs the server with the caller's own rights, on free ports.
        fork_server: as for `sandbox.start`.

    Raises:
        ServerLost: it did not start within a minute.
    """

    def __init__(
        self,
        repository: Path,
        isolation: sandbox.Isolation,
        fork_server: sandbox.ForkServer | None = None,
    ) -> None:
        bound, environment = course()
        self._identity: tuple[int, float] | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            self._ports = PORTS if isolation == "sandbox" else _free_ports()
            self._running = sandbox.start(
                [
                    *(sys.executable, "-I", "-m", "grader.judge.serve", isolation, str(repository)),
                    *map(str, self._ports),
                ],
                read_only={**bound, str(repository): repository},
                environment=environment,
                limits=SERVER,
                network="outer",
                nesting=True,  # a sandbox for each instance of a model
                isolation=isolation,
                fork_server=fork_server,
            )
            self.server = _ServerWithLog(self._running, repository, self._ports)
            try:
                self._identity = self._wait()
            except ServerLost:
                # Without a sandbox another program may take a port before the server does.
                if isolation == "sandbox" or attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _wait(self) -> tuple[int, float]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if _accepts(self._ports[0]) and self.server.ready():
                return _listener(self._ports[0])
            if not self._running.alive():
                break
            time.sleep(0.02)
        log = self.log()[-2_000:]
        self.close()
        raise ServerLost(f"The judge's server did not start: {log}")

    def confirm(self) -> int:
        """The server's process id.

        While the process that was started listens, no other can listen on the same port.

        Raises:
            ServerLost: the process that was started has ended, or does not listen.
        """
        if self._identity is None:
            raise ServerLost
        pid, started = self._identity
        try:
            process = psutil.Process(pid)
            is_it = self._running.alive() and process.create_time() == started
            if is_it and any(_listens(c, self._ports[0]) for c in process.net_connections("tcp")):
                return pid
        except psutil.Error:
            pass
        raise ServerLost

    def is_heavy(self) -> bool:
        """Whether its models hold so large a share of the memory that others may get none."""
        return self._running.memory() > HEAVY * SERVER.memory_bytes

    def log(self) -> str:
        """The last `LOG` characters that the server and its models have printed."""
        return self._running.log()[-LOG:]

    def close(self) -> None:
        """End the server and all its processes. `log` still works afterwards."""
        self.server.close()
        with contextlib.suppress(psutil.Error, ServerLost):
            psutil.Process(self.confirm()).kill()
            self._running.wait(5)  # the rest of its log comes through the pipe
        self._running.stop()


def _accepts(port: int) -> bool:
    """Whether a program listens on a port. A request would take longer to find out."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports() -> tuple[int, int, int]:
    """Three ports on which nobody listens. Only a server without a sandbox needs them."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        http, grpc, metrics = (taken.getsockname()[1] for taken in sockets)
        return http, grpc, metrics


def _listener(port: int) -> tuple[int, float]:
    """Process id and start time of the tritonserver that listens on a port.

    The two together identify a process: a later process can get the same id, but not the same start
    time.

    Raises:
        ServerLost: nobody listens there, or another program does.
    """
    for connection in psutil.net_connections(kind="tcp"):
        if _listens(connection, port):
            if connection.pid is None:
                raise ServerLost
            process = psutil.Process(connection.pid)
            if Path(process.exe()).name != "tritonserver":
                raise ServerLost
            return process.pid, process.create_time()
    raise ServerLost


def _listens(connection: Any, port: int) -> bool:
    return bool(connection.status == psutil.CONN_LISTEN and connection.laddr.port == port)


class ServerOnDemand:
    """Starts the sandboxed server on first use, and a new one after a crash."""

    def __init__(self, order: Order, fork_server: sandbox.ForkServer | None = None) -> None:
        self._order = order
        self._fork_server = fork_server
        self._started: SandboxedServer | None = None
        self._probe: Probe | None = None
        self._logs: list[str] = []
        self._copy: Path | None = None

    def probe(self, check: str) -> Probe:
        """The probe for a check, with random numbers that depend on the secret and the check."""
        if self._probe is None or self._started is None:
            own = reserved(self._order.assignment)
            repository = self._own_copy(own) if own else self._order.repository
            self._started = SandboxedServer(repository, self._order.isolation, self._fork_server)
            admitted = backends(self._order.assignment)
            self._probe = Probe(self._started.server, load=True, backends=admitted)
        self._probe.seed(_seed(self._order.secret, check))
        self._probe.is_late = False
        return self._probe

    def _own_copy(self, without: tuple[str, ...]) -> Path:
        """A copy of the repository that the checks may write to; it lacks models of these names."""
        if self._copy is None:
            self._copy = Path(tempfile.mkdtemp(prefix="repository-"))
            for folder in self._order.repository.iterdir():
                if folder.is_dir() and not folder.is_symlink() and folder.name not in without:
                    shutil.copytree(folder, self._copy / folder.name, symlinks=True)
        return self._copy

    def close_if_lost(self) -> bool:
        """Close the server if it is lost (`ServerLost`). Returns True if it was not.

        The result is also True if no server has been started yet. A server that is too heavy is
        closed, too: the next check gets a new one.
        """
        if self._started is None:
            return True
        try:
            self._started.confirm()
        except ServerLost:
            self.close()
            return False
        if self._started.is_heavy():
            self.close()
        return True

    def close(self) -> None:
        """End the server, if there is one, and keep its log."""
        if self._probe is not None:
            self._probe.close()
        if self._started is not None:
            self._started.close()
            self._logs.append(self._started.log())
        self._started = self._probe = None

    def log(self) -> str:
        """The last `LOG` characters that the closed servers have printed."""
        return "\n".join(self._logs)[-LOG:]


def run_checks(order: Order, fork_server: sandbox.ForkServer | None = None) -> Iterator[Line]:
    """Run every check of an order; yields the lines that the module's docstring describes.

    Args:
        order: what to judge.
        fork_server: is copied for the sandbox of the server.
    """
    server = ServerOnDemand(order, fork_server)
    checks = load(order.assignment, variants=True)
    public: dict[str, _Judged] = {}
    earned: dict[str, CheckResult] = {}
    try:
        for check in checks.values():
            judged = _public(check, order, server, _results(public))
            public[check.id] = judged
            if judged.result.credit == 0:  # nothing can change it
                earned[check.id] = judged.result
                yield from judged.lines()
        for id in [id for id in checks if id not in earned]:
            judged = _with_variants(checks[id], server, earned, public[id])
            earned[id] = judged.result
            yield from judged.lines()
    finally:
        server.close()
    yield Line(kind="log", log=server.log())
    yield Line(kind="end")


@dataclasses.dataclass
class _Judged:
    """A check with its result so far.

    Attributes:
        result: the result.
        flags: what a person should look at.
        values: what the notebook handed over; None if the notebook did not reach the check.
    """

    result: CheckResult
    flags: list[Flag]
    values: Mapping[str, Any] | None = None

    def lines(self) -> Iterator[Line]:
        """The lines of the judge's output about the check."""
        yield Line(kind="check", check=self.result, me=own.find_id(self.values or {}))
        yield from (Line(kind="flag", flag=flag) for flag in self.flags)
        if self.result.is_undecided:
            detail = f"{self.result.id} is not decided. The next run grades the submission again."
            yield Line(kind="flag", flag=Flag(kind="machine busy", detail=detail))


def _results(judged: Mapping[str, _Judged]) -> dict[str, CheckResult]:
    return {id: one.result for id, one in judged.items()}


def _public(
    check: Check, order: Order, server: ServerOnDemand, earned: Mapping[str, CheckResult]
) -> _Judged:
    """Run the public function of a check on the values that the notebook reported to it."""
    flags: list[Flag] = []
    try:
        found = reported.read(check.id, order.reported)
    except WorkbookError as error:
        flags.append(Flag(kind="unreadable values", detail=error.what))
        return _Judged(_unreadable(check, error), flags)
    values = found.values if found else None
    try:
        with _deadline(CHECK_S):
            result = evaluate_public(check, lambda: server.probe(check.id), values, earned)
    except _OutOfTime:
        result = _too_slow(check).late()
    claimed = found.result if found else None
    is_judged = result.status != "waits" and not result.is_undecided
    if claimed and claimed.status == "passed" and result.credit < _ALIKE and is_judged:
        flags.append(
            Flag(
                kind="notebook disagrees",
                detail=f"The notebook reported {check.id} as passed. Judged outside of it, the "
                f"check is {result.status}: {result.rationale.splitlines()[0]} {_DISAGREES}"[
                    :4_000
                ],
            )
        )
    judged = _Judged(result, flags, values)
    _confirm(judged, server)
    return judged


def _with_variants(
    check: Check, server: ServerOnDemand, earned: Mapping[str, CheckResult], public: _Judged
) -> _Judged:
    """Run the hidden variants of a check, in the time that its public function has left."""
    # Not the random numbers of the public function: its messages can reveal its inputs.
    probe = functools.partial(server.probe, f"{check.id}, hidden")
    try:
        with _deadline(max(1.0, CHECK_S - public.result.seconds)):
            result = evaluate_hidden(check, probe, public.values, earned, public.result)
    except _OutOfTime:
        result = _too_slow(check)
    judged = _Judged(result, public.flags, public.values)
    _confirm(judged, server)
    return judged


def _confirm(judged: _Judged, server: ServerOnDemand) -> None:
    """Take a check's points if the server ended while it ran."""
    if not server.close_if_lost():
        judged.result = _lost_result(judged.result)
        detail = f"It ended during {judged.result.id}."
        judged.flags = [*judged.flags, Flag(kind="server ended", detail=detail)]


def _unreadable(check: Check, error: WorkbookError) -> CheckResult:
    """The result of a check whose reported values cannot be read."""
    return CheckResult(
        id=check.id,
        sentence=check.sentence,
        status="not attempted",
        credit=0.0,
        rationale=error.what,
        help="Only check(…) writes them. Run the notebook again, from top to bottom.",
    )


def _too_slow(check: Check) -> CheckResult:
    """The result of a check that took too long."""
    return CheckResult(
        id=check.id,
        sentence=check.sentence,
        status="failed",
        credit=0.0,
        rationale=f"It took longer than {CHECK_S:.0f} s.",
        help="Call your model yourself: does it answer, and how fast?",
        seconds=CHECK_S,
    )


def _lost_result(result: CheckResult) -> CheckResult:
    """The result of a check during which the server ended."""
    return result.model_copy(
        update={
            "status": "failed",
            "credit": 0.0,
            "standing": None,
            "rationale": "The server ended while this check was asking your model.",
            "help": "A model must never end its server. Its log may tell what happened.",
        }
    )


def _seed(secret: str, check: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{secret}\0{check}".encode()).digest()[:8], "big")


class _OutOfTime(BaseException):
    """A check's time is over. It is no `Exception`, so that no `except Exception` catches it."""


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Raise `_OutOfTime` in the block when it takes longer than this."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _OutOfTime

    former = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def main() -> None:
    """Carry out the order on standard input."""
    forks = sandbox.ForkOfThisProcess()  # before anything is read
    # A copy of this process reads a student's file (sandbox/limited.py). If the file takes control
    # of the copy, the copy must not write into this process's memory: a process that is not
    # "dumpable" closes its /proc/<pid>/mem to others of the same user (see PR_SET_DUMPABLE in
    # prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    order = Order.model_validate_json(sys.stdin.buffer.read())
    # Standard output of libraries is sent to standard error, so that it is not between the lines.
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)
        for line in run_checks(order, forks):
            print(line.model_dump_json(), file=out)


if __name__ == "__main__":
    main()
