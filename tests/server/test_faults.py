"""Faults of clients and of the machine: each has a defined result, the next request gets a correct
answer, and nothing is left behind.

Killed and stopped processes of models are in test_revive.py and test_failed_models.py, full places
in test_faults_full.py, bytes that are no request in test_faults_wire.py.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil
import pytest
from fault_models import KINDS, Asking, ask, descriptors, processes, regions, until, write

from workbook.server import Triton

pytestmark = pytest.mark.server

CONNECTIONS = 2000


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A repository with the models m0 and m1."""
    write(tmp_path, "m0", "m1")
    return tmp_path


def connect(address: str, count: int) -> list[socket.socket]:
    """Open `count` connections to an address, e.g. `localhost:8000`, and send nothing."""
    host, _, port = address.rpartition(":")
    return [socket.create_connection((host, int(port)), timeout=60) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_two_thousand_idle_connections(served: Path, kind: str) -> None:
    """Requests are answered beside them; when they close, the server has as few open as before."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = 2 * CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < enough:
        pytest.skip(f"no more than {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))
    try:
        with Triton(served, models=["m0"]) as server:
            assert ask(server, "m0", [1.0], kind)
            before = descriptors(server)
            address = server.grpc_url if kind == "grpc" else urlsplit(server.url).netloc
            idle = connect(address, CONNECTIONS)
            with Asking(server, "m0") as asking:
                until(lambda: descriptors(server) >= before + CONNECTIONS, "all are accepted")
                for connection in idle[: CONNECTIONS // 2]:
                    connection.close()
                until(lambda: descriptors(server) < before + CONNECTIONS * 3 / 4, "half are closed")
            assert asking.answered > 0
            assert asking.failures == []
            for connection in idle[CONNECTIONS // 2 : -10]:
                connection.close()
            until(lambda: descriptors(server) <= before + 20, "they are closed")
            began = time.monotonic()
        assert time.monotonic() - began < 30, "ten idle connections keep the server from ending"
        for connection in idle[-10:]:
            connection.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_of_100_mb_and_what_it_leaves_in_dev_shm(served: Path, kind: str) -> None:
    """The region grows and stays; an unload gives it back, and the model begins small again."""
    values = np.arange(100 * 2**18, dtype=np.float32)
    with Triton(served, models=["m0", "m1"]) as server:
        small = regions(server)
        with Asking(server, "m1") as asking:
            assert ask(server, "m0", values, kind)
        assert asking.failures == []
        assert sum(regions(server).values()) > 200, "100 MiB there and 100 MiB back"
        assert ask(server, "m0", [1.0], kind)
        assert sum(regions(server).values()) > 200
        server.unload("m0")
        until(lambda: len(regions(server)) == 1, "the model's region is gone")
        server.load("m0")
        assert ask(server, "m0", [1.0], kind)
        assert sum(regions(server).values()) == sum(small.values())


def test_a_machine_that_sleeps_and_wakes(served: Path) -> None:
    """Guard, server and models stop for 5 s while requests wait: all get correct answers."""
    with Triton(served, models=["m0", "m1"]) as server, ThreadPoolExecutor(12) as pool:
        for turn in range(2):
            futures = [
                pool.submit(ask, server, f"m{i % 2}", [-0.3, 100 * turn + i], KINDS[i // 2 % 2])
                for i in range(12)
            ]
            time.sleep(0.4)
            sleeping = processes(server)
            for process in sleeping:
                process.suspend()
            time.sleep(5)
            for process in sleeping:
                process.resume()
            assert all(answer.result(timeout=60) for answer in futures)
        assert set(processes(server)) == set(sleeping), "no process had to be started again"
        assert ask(server, "m0", [1.0])
        assert "has ended" not in server.log_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_requests_wait(served: Path, number: signal.Signals) -> None:
    """The request under way is answered or fails, those that wait fail, and nothing is left."""
    with Triton(served, models=["m0"]) as server, ThreadPoolExecutor(6) as pool:
        running, files, run = processes(server), regions(server), server.log
        assert run is not None
        futures = [pool.submit(ask, server, "m0", [-1.0, i], KINDS[i % 2]) for i in range(6)]
        until(lambda: "nv_inference_pending_request_count" in server.metrics(), "they wait")
        time.sleep(0.5)
        os.kill(running[0].pid, number)
        server.wait()
        for answer in futures:
            assert answer.exception(timeout=60) is not None or answer.result()
    assert files
    assert not any(file.exists() for file in files)
    assert not run.parent.exists()
    assert not [p for p in running if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
