"""The judge: runs an assignment's checks outside the student's kernel, on the student's models.

`python -m grader.judge.judge` reads an `Order` from its standard input and writes one JSON line for
each check as it is done, then the flags and the server's log. It runs in a sandbox that has a
loopback of its own; the server on which the student's models are loaded runs in a sandbox within,
which shares that loopback and nothing else. So the judge reaches the server, and nothing that a
model does reaches the judge.

Models are loaded when a check first asks for them, so counts begin at zero. A model that takes its
server with it costs the check that asked, and no other: the next one gets a new server.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict

from workbook.common.errors import WorkbookError
from workbook.server import Server
from workbook.server.connection import DEFAULT_GRPC, DEFAULT_HTTP, DEFAULT_METRICS

from .. import sandbox
from ..checks import reported
from ..checks.define import Check, backends, evaluate, load
from ..checks.failure import Failure
from ..checks.probe import Probe
from ..checks.results import CheckResult, Flag
from ..sandbox.execute import course

#: Seconds that one check may take, with the loading of its models.
CHECK_S = 90.0
#: Where a sandboxed server listens: for HTTP, gRPC and metrics.
PORTS = (DEFAULT_HTTP, DEFAULT_GRPC, DEFAULT_METRICS)
#: How much of the server's log is kept, from its end.
LOG = 20_000
#: What the server and a student's models may use.
SERVER = sandbox.Limits(wall_s=600, cpu_s=900, memory_bytes=4 << 30, output_bytes=16 << 20)


class Order(BaseModel):
    """What the judge is to do.

    Attributes:
        assignment: its short name, e.g. `a2`.
        repository: the model repository as the student's notebook left it; only read.
        reports: the folder of the reports that the notebook wrote.
        secret: what the hidden inputs are drawn from.
        isolation: whether the models are served in a sandbox of their own.
    """

    model_config = ConfigDict(extra="forbid")

    assignment: str
    repository: Path
    reports: Path
    secret: str
    isolation: sandbox.Isolation = "sandbox"


class Line(BaseModel):
    """One line of what the judge says."""

    kind: Literal["check", "flag", "log", "end"]
    check: CheckResult | None = None
    flag: Flag | None = None
    log: str = ""


class ServerLost(Exception):
    """The server that answers is not, or no longer, the one that the judge started."""


class _Served(Server):
    """The judge's handle on its server, whose log comes through a pipe."""

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

    def log_size(self) -> int:
        return len(self._running.log().encode())


class Courtroom:
    """A sandboxed server on the student's repository, and the proof that it is the one asked.

    Args:
        repository: served read-only.
    """

    def __init__(self, repository: Path, isolation: sandbox.Isolation) -> None:
        bound, environment = course()
        self._ports = PORTS if isolation == "sandbox" else _free_ports()
        self._running = sandbox.start(
            [sys.executable, "-m", "grader.judge.serve", str(repository), *map(str, self._ports)],
            read_only={**bound, str(repository): repository},
            environment=environment,
            limits=SERVER,
            network="outer",
            isolation=isolation,
        )
        self.server = _Served(self._running, repository, self._ports)
        self._identity: tuple[int, float] | None = None
        self._identity = self._wait()

    def _wait(self) -> tuple[int, float]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.server.ready():
                return _listener(self._ports[0])
            if not self._running.alive():
                break
            time.sleep(0.02)
        words = self.log()[-2_000:]
        self.close()
        raise ServerLost(f"The judge's server did not start: {words}")

    def confirm(self) -> int:
        """The server's process id; `ServerLost` unless the listener is the one that was started."""
        try:
            listener = _listener(self._ports[0])
            if self._running.alive() and listener == self._identity:
                return listener[0]
        except psutil.Error:
            pass
        raise ServerLost

    def log(self) -> str:
        """What the server and its models have printed so far, the end of it."""
        return self._running.log()[-LOG:]

    def close(self) -> None:
        """End the server and everything that it started; what it printed last is kept."""
        self.server.close()
        with contextlib.suppress(psutil.Error, ServerLost):
            psutil.Process(self.confirm()).kill()
            self._running.wait(5)  # the rest of its log comes through the pipe
        self._running.stop()


def _free_ports() -> tuple[int, int, int]:
    """Three ports that nobody listens on; a sandbox needs none, since its loopback is its own."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        http, grpc, metrics = (taken.getsockname()[1] for taken in sockets)
        return http, grpc, metrics


def _listener(port: int) -> tuple[int, float]:
    """Process id and start time of the tritonserver that listens on a port.

    A model runs as the same user as its server, so it could end the server and listen in its
    place. It cannot become a process with the same id and start time.
    """
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
            if connection.pid is None:
                raise ServerLost
            process = psutil.Process(connection.pid)
            if Path(process.exe()).name != "tritonserver":
                raise ServerLost
            return process.pid, process.create_time()
    raise ServerLost


class Hearing:
    """The courtroom of the moment: opened when a check first asks, closed when its server ends."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._room: Courtroom | None = None
        self._bench: Probe | None = None
        self._logs: list[str] = []

    def probe(self, check: str) -> Probe:
        """The probe for a check, with random numbers of its own."""
        if self._bench is None or self._room is None:
            self._room = Courtroom(self._order.repository, self._order.isolation)
            allowed = backends(self._order.assignment)
            self._bench = Probe(self._room.server, load=True, backends=allowed)
        self._bench.seed(_seed(self._order.secret, check))
        return self._bench

    def holds(self) -> bool:
        """Whether the server is still the one that was started; else the courtroom is closed."""
        if self._room is None:
            return True
        try:
            self._room.confirm()
        except ServerLost:
            self.close()
            return False
        return True

    def close(self) -> None:
        """End the server, if there is one, and keep its log."""
        if self._bench is not None:
            self._bench.close()
        if self._room is not None:
            self._room.close()
            self._logs.append(self._room.log())
        self._room = self._bench = None

    def log(self) -> str:
        """The end of what the servers printed that were closed."""
        return "\n".join(self._logs)[-LOG:]


def hear(order: Order) -> Iterator[Line]:
    """Run every check of an order; yields its result as soon as it is known."""
    hearing = Hearing(order)
    earned: dict[str, CheckResult] = {}
    try:
        for check in load(order.assignment, variants=True).values():
            result, flags = _one(check, order, hearing, earned)
            if not hearing.holds():
                result = _lost(result)
                flags.append(Flag(kind="server ended", detail=f"It ended during {check.id}."))
            earned[check.id] = result
            yield Line(kind="check", check=result)
            yield from (Line(kind="flag", flag=flag) for flag in flags)
    finally:
        hearing.close()
    yield Line(kind="log", log=hearing.log())
    yield Line(kind="end")


def _one(
    check: Check, order: Order, hearing: Hearing, earned: dict[str, CheckResult]
) -> tuple[CheckResult, list[Flag]]:
    """One check on one report."""
    flags: list[Flag] = []
    values = None
    report = None
    try:
        report = reported.read(check.id, order.reports)
        values = report.values if report else None
    except WorkbookError as error:
        flags.append(Flag(kind="unreadable report", detail=error.what))
    with _deadline(CHECK_S):
        result = evaluate(check, lambda: hearing.probe(check.id), values, earned)
    said = report.result if report else None
    if said and said.status == "passed" and result.credit < 1 and not result.hidden:
        flags.append(
            Flag(
                kind="report disagrees",
                detail=f"The notebook reported {check.id} as passed; judged outside it, it is "
                f"{result.status}.",
            )
        )
    return result, flags


def _lost(result: CheckResult) -> CheckResult:
    return result.model_copy(
        update={
            "status": "failed",
            "credit": 0.0,
            "rationale": "The server ended while this check was asking your model.",
            "help": "A model must never end its server. Its log may tell what happened.",
        }
    )


def _seed(secret: str, check: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{secret}\0{check}".encode()).digest()[:8], "big")


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Turn a check that takes too long into a failed one."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Failure(
            f"It took longer than {seconds:.0f} s.",
            help="Call your model yourself: does it answer, and how fast?",
        )

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def main() -> None:
    """Carry out the order on standard input."""
    order = Order.model_validate_json(sys.stdin.buffer.read())
    # What a library prints must not come between the lines.
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)
        for line in hear(order):
            print(line.model_dump_json(), file=out)


if __name__ == "__main__":
    main()
