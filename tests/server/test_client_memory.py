"""The official clients keep no memory of the requests that they have sent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from workbook.common import paths
from workbook.server import Triton

pytestmark = pytest.mark.server

PROGRAM = Path(__file__).with_name("asking_long.py")
#: A request sends 16 KiB and receives 16 KiB: if 600 of them were kept, this would be 19 MiB.
REQUESTS = {"http": 1800, "grpc": 1800, "new": 600, "stream": 600}
MOST_MIB = 4.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    repository = tmp_path_factory.mktemp("models")
    for name in ("square", "countdown"):
        (repository / name).symlink_to(paths.repository() / name)
    with Triton(repository, models=["square", "countdown"]) as triton:
        yield triton


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_client_s_memory_does_not_grow(server: Triton, kind: str) -> None:
    """After the first third, in which connections and buffers are made."""
    url = urlsplit(server.url).netloc if kind in ("http", "new") else server.grpc_url
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kind, url, str(REQUESTS[kind])],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    samples = json.loads(done.stdout)
    assert samples[-1] - samples[1] < MOST_MIB, samples
