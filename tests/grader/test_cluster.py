"""Clusters are encrypted, on one machine and on several; nobody joins without the certificate."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client
from distributed.security import Security

from grader.classroom import cluster
from grader.classroom.classroom import Classroom
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.timeout(300)


@pytest.mark.server
def test_the_cluster_of_this_machine_is_closed_to_others(tmp_path: Path) -> None:
    with cluster.connect(Classroom(tmp_path), workers=1) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert client.submit(len, "four").result(timeout=60) == 4
        with pytest.raises((OSError, TimeoutError)):
            Client(address.replace("tls", "tcp"), timeout=5)
        with pytest.raises((OSError, TimeoutError)):
            Client(address, timeout=5, security=Security.temporary())


@contextlib.contextmanager
def started(command: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    words = shlex.split(command)
    process = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{words[1]}", *words[2:]],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.server
def test_workers_on_other_machines(tmp_path: Path) -> None:
    """The commands that `grader cluster` prints, with the files copied to another folder."""
    classroom = Classroom(tmp_path / "work")
    folder = cluster.make_certificate(classroom)
    key = folder / "key.pem"
    assert key.stat().st_mode & 0o077 == 0
    before = key.read_text()
    assert cluster.make_certificate(classroom) == folder
    assert key.read_text() == before  # machines have copies of it
    elsewhere = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    scheduler, worker = re.findall(r"^ *(dask .*)$", cluster.instructions(folder), re.MULTILINE)
    here = f"tls://127.0.0.1:{port}"
    work = worker.replace("tls://SCHEDULER:8786", here).replace("--nworkers 4", "--nworkers 1")
    with (
        started(f"{scheduler} --host 127.0.0.1 --port {port}", elsewhere),
        started(work, elsewhere),
        cluster.connect(classroom, scheduler=here) as client,
    ):
        assert client.submit(len, "four").result(timeout=60) == 4
        others = Classroom(tmp_path / "other")
        cluster.make_certificate(others)
        with (
            pytest.raises(WorkbookError, match="There is no dask scheduler with a worker"),
            cluster.connect(others, scheduler=here),
        ):
            pass


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:8786", "10.0.0.5:8786", "tcp://[fe80::1]:1"])
def test_no_class_is_sent_unencrypted(tmp_path: Path, address: str) -> None:
    with (
        pytest.raises(WorkbookError, match="not encrypted") as caught,
        cluster.connect(Classroom(tmp_path), scheduler=address),
    ):
        pass
    assert "grader cluster" in caught.value.todo


def test_without_a_certificate(tmp_path: Path) -> None:
    with (
        pytest.raises(WorkbookError, match="no certificate") as caught,
        cluster.connect(Classroom(tmp_path), scheduler="tls://10.0.0.5:8786"),
    ):
        pass
    assert "grader cluster" in caught.value.todo


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1"])
def test_the_end_of_a_tunnel_needs_no_encryption(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_S", 1.0)
    with (
        pytest.raises(WorkbookError, match="There is no dask scheduler"),
        cluster.connect(Classroom(tmp_path), scheduler=address),
    ):
        pass
