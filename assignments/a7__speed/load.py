"""Many clients in one thread: they send pictures to a model over HTTP, and time each answer.

It takes about 0.1 ms of processor time per request, so that most of the machine is left to the
server. A picture is one request, as the clients of this assignment send it.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import selectors
import socket
import time
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import numpy as np

from grader.vocabulary.probe import Array

from . import facts

#: The most bytes of an answer: one has about 300.
_LARGEST = 1 << 16
#: The bytes that a connection holds until the server reads them: more than a request has.
_HELD = 1 << 18
#: The most requests that are sent before answers are read.
_AT_ONCE = 16
#: How long to wait for an answer before looking whether one is late, in seconds.
_LOOK_S = 0.05
#: What follows the word `Inference-Header-Content-Length` counts the JSON before the numbers.
_LENGTH, _JSON_LENGTH = b"content-length:", b"inference-header-content-length:"


@dataclasses.dataclass(frozen=True)
class Answer:
    """What became of one request.

    Attributes:
        number: which of the requests it was.
        due: when it was to be sent, in seconds since the load began.
        took: seconds from then to the answer; infinite where none came.
        scores: float32, (rows, 10); None if there are none.
        message: what the server says in place of scores.
    """

    number: int
    due: float
    took: float
    scores: Array | None = None
    message: str = ""

    @property
    def end(self) -> float:
        """When the answer came, in seconds since the load began."""
        return self.due + self.took


class Clients:
    """Connections to a server, which send pictures to one of its models.

    Example::

        with Clients("http://localhost:8000", "service", 16) as clients:
            answers = clients.one_after_the_other(pictures, seconds=1.0)
            rate(answers, 1.0)      # pictures per second

    Args:
        url: of the server's HTTP port.
        model: the model's name.
        count: how many connections; each has one request under way at most.
        rows: how many pictures are in a request.

    Raises:
        OSError: nobody listens there.
    """

    def __init__(self, url: str, model: str, count: int, rows: int = 1) -> None:
        self._rows, size = rows, rows * facts.SIDE**2 * 3
        place = urlsplit(url)
        port = {
            "name": facts.INPUT,
            "shape": [rows, facts.SIDE, facts.SIDE, 3],
            "datatype": "UINT8",
            "parameters": {"binary_data_size": size},
        }
        wanted = {"name": facts.OUTPUT, "parameters": {"binary_data": True}}
        text = json.dumps({"inputs": [port], "outputs": [wanted]}).encode()
        self._head = (
            f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {place.netloc}\r\n"
            f"Inference-Header-Content-Length: {len(text)}\r\n"
            f"Content-Length: {len(text) + size}\r\n\r\n"
        ).encode() + text
        self._address = (place.hostname or "localhost", place.port or 80)
        self._selector = selectors.DefaultSelector()
        self._free: collections.deque[_Connection] = collections.deque()
        for _ in range(count):
            self._free.append(self._connect())

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            key.data.socket.close()
        self._selector.close()

    def _connect(self) -> _Connection:
        made = socket.create_connection(self._address, timeout=5)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _HELD)
        made.setblocking(False)
        connection = _Connection(made, self._rows)
        self._selector.register(made, selectors.EVENT_READ, connection)
        return connection

    def one_after_the_other(
        self,
        pictures: Array,
        seconds: float,
        *,
        pause: float = 0.0,
        arrive: float = 0.0,
        patience: float = 10.0,
        again: bool = False,
    ) -> list[Answer]:
        """Each client sends a picture, waits for the answer, and sends the next one.

        Args:
            pictures: uint8 (n, 64, 64, 3), for n / rows requests. The load ends where none is left,
                unless `again`.
            seconds: how long pictures are sent.
            pause: how long a client waits after a refusal, in seconds.
            arrive: the clients begin one by one, over this many seconds; no longer than `pause`.
            patience: how long it waits for an answer, in seconds.
            again: begin with the first picture again where none is left.

        Returns:
            The answers, in the order in which they came; then the requests without one.
        """
        count = 10**6 if again else len(pictures) // self._rows
        return self._run(pictures, [-math.inf] * count, seconds, pause, patience, arrive)

    def at_times(
        self, pictures: Array, times: Sequence[float], *, patience: float = 10.0
    ) -> list[Answer]:
        """Send picture k at the k-th time, whether or not earlier ones are answered.

        Where no connection is free, a picture waits. This time counts: `took` is measured from the
        time at which it was to be sent.

        Args:
            pictures: uint8 (n, 64, 64, 3).
            times: seconds since the beginning, in ascending order.
            patience: how long to wait for an answer, in seconds.
        """
        return self._run(pictures, times, math.inf, 0.0, patience)

    def _run(
        self,
        pictures: Array,
        times: Sequence[float],
        seconds: float,
        pause: float,
        patience: float,
        arrive: float = 0.0,
    ) -> list[Answer]:
        answers: list[Answer] = []
        busy: set[_Connection] = set()
        resting: collections.deque[tuple[float, _Connection]] = collections.deque()
        if arrive:
            resting.extend(zip(np.linspace(0, arrive, len(self._free)), self._free, strict=True))
            self._free.clear()
        following, count = 0, len(times)
        whole = len(pictures) // self._rows
        began = time.perf_counter()
        now = 0.0
        while True:
            while resting and resting[0][0] <= now:
                self._free.append(resting.popleft()[1])
            sends = following < count and now < seconds
            for _ in range(_AT_ONCE):
                if not (sends and self._free and times[following] <= now):
                    break
                connection = self._free.popleft()
                due = max(times[following], now if math.isinf(times[following]) else 0.0)
                first = following % whole * self._rows
                some = pictures[first : first + self._rows]
                connection.begin(following, due, self._head, some)
                busy.add(connection)
                following += 1
                sends = following < count
            if not sends and not busy:
                return answers  # nobody comes back any more
            wait = _LOOK_S
            if sends and self._free:
                wait = min(wait, times[following] - now)
            if resting:
                wait = min(wait, resting[0][0] - now)
            for key, _ in self._selector.select(max(wait, 0.0)):
                connection = key.data
                is_complete = connection.read()
                now = time.perf_counter() - began
                if connection.is_lost:
                    self._replace(connection)
                    if connection in busy:
                        busy.discard(connection)
                        message = "The connection was closed."
                        answers.append(
                            Answer(connection.number, connection.due, math.inf, message=message)
                        )
                elif is_complete and connection in busy:
                    busy.discard(connection)
                    answers.append(connection.answer(now))
                    if answers[-1].scores is None and pause:
                        resting.append((now + pause, connection))
                    else:
                        self._free.append(connection)
            now = time.perf_counter() - began
            late = [one for one in busy if now - one.due > patience]
            for connection in late:
                busy.discard(connection)
                self._replace(connection)
                answers.append(Answer(connection.number, connection.due, math.inf))

    def _replace(self, connection: _Connection) -> None:
        """Close a connection on which nothing can be awaited any more; open one in its place."""
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._free.append(self._connect())


class _Connection:
    """One connection and the request that is under way on it."""

    def __init__(self, made: socket.socket, rows: int) -> None:
        self.socket, self._rows = made, rows
        self.is_lost = False
        self.number, self.due = -1, 0.0
        self._came = bytearray()
        self._end = self._start = -1  # of the body

    def begin(self, number: int, due: float, head: bytes, pictures: Array) -> None:
        self.number, self.due = number, due
        self._came.clear()
        self._end = self._start = -1
        message = head + pictures.tobytes()
        try:
            sent = self.socket.send(message)
            if sent < len(message):  # the socket's buffer is full, which is rare
                self.socket.settimeout(5)
                self.socket.sendall(message[sent:])
                self.socket.setblocking(False)
        except OSError:
            self.is_lost = True  # `read` finds the connection closed

    def read(self) -> bool:
        """Read what has come; True if the answer is complete."""
        try:
            part = self.socket.recv(_LARGEST)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        self._came += part
        if not part or len(self._came) > _LARGEST:
            self.is_lost = True
            return False
        if self._end < 0 and (head := self._came.find(b"\r\n\r\n")) >= 0:
            self._start = head + 4
            self._end = self._start + _number(bytes(self._came[:head]), _LENGTH)
        return 0 <= self._end <= len(self._came)

    def answer(self, now: float) -> Answer:
        head, body = bytes(self._came[: self._start]), bytes(self._came[self._start : self._end])
        took = now - self.due
        if head.startswith(b"HTTP/1.1 200"):
            numbers = body[_number(head, _JSON_LENGTH) :]
            if len(numbers) == 4 * facts.CLASSES * self._rows:
                scores = np.frombuffer(numbers, np.float32).reshape(self._rows, -1)
                return Answer(self.number, self.due, took, scores)
        return Answer(self.number, self.due, took, message=body[:300].decode(errors="replace"))


def _number(head: bytes, name: bytes) -> int:
    """A number in an answer's header; 0 where it is not there."""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(name):
            value = line[len(name) :].strip()
            return int(value[:9]) if value[:9].isdigit() else 0
    return 0


def rate(answers: Iterable[Answer], seconds: float) -> float:
    """Answers per second: those with scores that came in the first `seconds` of a load."""
    return sum(one.scores is not None and one.end <= seconds for one in answers) / seconds


def percentile(answers: Sequence[Answer], share: float) -> float:
    """The time within which a share of the requests was answered, in seconds; infinite if none."""
    times = sorted(one.took if one.scores is not None else math.inf for one in answers)
    return times[min(len(times) - 1, math.ceil(share * len(times)) - 1)] if times else math.inf
