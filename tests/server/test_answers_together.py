"""`native/answers_together.c`: one command for the answers of a batch, and nobody's answer is lost
or somebody else's."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import graph

from workbook.server import Triton
from workbook.server.native import build

MOST, THREADS = 16, 16
SIZE = 17
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
CONNECTIONS, REQUESTS = 100, 15


class Library:
    """The compiled source, beside sockets that stand for the HTTP endpoint's threads."""

    def __init__(self, file: Path) -> None:
        self.functions = ctypes.CDLL(str(file))
        self.functions.send.restype = ctypes.c_ssize_t
        self.called: list[tuple[int, int, int]] = []
        self.callback = FUNCTION(lambda *words: self.called.append(words))
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value or 0

    def keep(self) -> None:
        self.functions.workbook_keep_answers()

    def let_go(self) -> None:
        self.functions.workbook_send_answers()

    def send(self, to: socket.socket, argument: int, *, stop: int = 0) -> int:
        """Send a command as libevhtp does: a byte, an argument, a function."""
        command = (
            bytes([stop]) + argument.to_bytes(8, "little") + self.address.to_bytes(8, "little")
        )
        return int(self.functions.send(to.fileno(), command, len(command), 0))

    def receive(self, at: socket.socket) -> int:
        """Do as the endpoint's thread does with all that has arrived; returns how many commands."""
        at.setblocking(False)
        count = 0
        while True:
            try:
                command = at.recv(SIZE)
            except BlockingIOError:
                return count
            assert len(command) == SIZE
            argument, function = (int.from_bytes(command[i : i + 8], "little") for i in (1, 9))
            FUNCTION(function)(1, argument, 2)
            count += 1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("compiled") / "answers_together.so"
    source = Path(build.__file__).with_name("answers_together.c")
    assert build._compile([source], target)
    return target


@pytest.fixture
def library(file: Path) -> Library:
    return Library(file)


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(THREADS + 4)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


Pairs = list[tuple[socket.socket, socket.socket]]


@pytest.mark.parametrize("count", [1, 2, MOST - 1, MOST, MOST + 1, 3 * MOST + 2])
def test_commands_for_one_thread(count: int, library: Library, pairs: Pairs) -> None:
    to, at = pairs[0]
    library.keep()
    assert {library.send(to, number) for number in range(1, count + 1)} == {SIZE}
    library.let_go()
    assert library.receive(at) == -(-count // MOST)
    assert library.called == [(1, number, 2) for number in range(1, count + 1)]


def test_commands_for_more_threads_than_are_kept(library: Library, pairs: Pairs) -> None:
    library.keep()
    for number in range(1, 4):
        for to, _ in pairs:
            library.send(to, number)
    early = sum(library.receive(at) for _, at in pairs)
    assert early == 3 * (len(pairs) - THREADS)
    library.let_go()
    assert [library.receive(at) for _, at in pairs] == [1] * THREADS + [0] * 4
    assert len(library.called) == 3 * len(pairs)


def test_a_full_group_makes_room_for_another_thread(library: Library, pairs: Pairs) -> None:
    library.keep()
    for to, _ in pairs[:THREADS]:
        library.send(to, 1)
    for _ in range(MOST - 1):
        library.send(pairs[3][0], 1)  # its group is full, and goes
    library.send(pairs[THREADS][0], 1)  # takes its place
    assert library.receive(pairs[3][1]) == 1
    assert library.receive(pairs[THREADS][1]) == 0
    library.let_go()
    assert [library.receive(at) for _, at in pairs[: THREADS + 1]] == [1, 1, 1, 0] + 13 * [1]
    assert len(library.called) == 2 * MOST


def test_what_is_not_an_answer_is_sent_at_once(library: Library, pairs: Pairs) -> None:
    to, at = pairs[0]
    library.send(to, 1)  # outside of a batch
    assert library.receive(at) == 1
    library.keep()
    library.send(to, 2, stop=1)
    library.functions.send(to.fileno(), b"0123456789", 10, 0)
    assert at.recv(100)[SIZE:] == b"0123456789"
    library.let_go()


def test_other_threads_keep_nothing(library: Library, pairs: Pairs) -> None:
    library.keep()
    other = threading.Thread(target=library.send, args=(pairs[0][0], 5))
    other.start()
    other.join()
    assert library.receive(pairs[0][1]) == 1
    library.let_go()


def test_a_full_socket_loses_nothing(library: Library, pairs: Pairs) -> None:
    """Upstream gives an answer up where its thread has not read for long."""
    to, at = pairs[0]
    to.setblocking(False)
    filled = 0
    while True:
        try:
            filled += to.send(bytes(SIZE))
        except BlockingIOError:
            break
    library.keep()
    for number in (1, 2):
        library.send(to, number)

    def read() -> None:
        time.sleep(0.2)
        left = filled
        while left:
            left -= len(at.recv(left))

    reading = threading.Thread(target=read)
    reading.start()
    library.let_go()
    reading.join()
    assert library.receive(at) == 1
    assert [argument for _, argument, _ in library.called] == [1, 2]


def twice() -> bytes:
    x, y = (("x", TensorProto.FLOAT, ["n", 1]), ("y", TensorProto.FLOAT, ["n", 1]))
    return graph([helper.make_node("Add", ["x", "x"], ["y"])], [x], [y])


@pytest.mark.server
@pytest.mark.parametrize("threads", [1, 3, 40])
def test_each_client_gets_its_own_answer(threads: int, tmp_path: Path) -> None:
    """With few threads of the endpoint, and with more than answers are kept for."""
    folder = tmp_path / "models" / "twice"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(twice())
    (folder / "config.pbtxt").write_text(
        'platform: "onnxruntime_onnx"\nmax_batch_size: 128\n'
        "dynamic_batching { max_queue_delay_microseconds: 30000 }\n"
        "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
    )
    options = (f"--http-thread-count={threads}",)
    with Triton(tmp_path / "models", models=["twice"], options=options) as server:
        assert "requests inside the server" in server.log_text()
        asyncio.run(_clients(f"{server.url}/v2/models/twice/infer"))
        (counts,) = server.request("GET", "/v2/models/twice/stats")["model_stats"]
    assert int(counts["inference_count"]) == CONNECTIONS * REQUESTS
    assert max(int(batch["batch_size"]) for batch in counts["batch_stats"]) > MOST


async def _clients(url: str) -> None:
    limits = httpx.Limits(max_connections=CONNECTIONS)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def ask(number: int) -> None:
            for turn in range(REQUESTS):
                value = float(number * REQUESTS + turn)
                entry: dict[str, Any] = {"name": "x", "shape": [1, 1], "datatype": "FP32"}
                answer = await client.post(url, json={"inputs": [{**entry, "data": [value]}]})
                assert answer.json()["outputs"][0]["data"] == [2 * value]

        await asyncio.gather(*(ask(number) for number in range(CONNECTIONS)))
