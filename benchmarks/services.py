"""Start a service in an environment of its own, wait until it answers, end all its processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import psutil

from workbook.common.errors import WorkbookError


@contextlib.contextmanager
def environment(name: str, pins: Sequence[str], closure: Path) -> Iterator[Path]:
    """Make a virtual environment with these packages, yield its Python, and delete it at the end.

    Args:
        closure: pip's constraints: the version of everything that the packages need in turn.
            Without them pip tries hundreds of versions, for minutes.

    Raises:
        WorkbookError: it could not be built, for example without a network.
    """
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as home:
        python = Path(home) / "bin" / "python"
        steps = (
            [sys.executable, "-m", "venv", home],
            [
                *(str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:"),
                *("--constraint", str(closure), *pins),
            ],
        )
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                raise WorkbookError(
                    f"The environment for {name} could not be built.",
                    where=(errors or [done.stderr.strip() or done.stdout.strip()])[-1],
                    todo="This benchmark installs its peers from the network each time. "
                    "Without one: `workbook bench cnn batching start memory`.",
                )
        yield python


@contextlib.contextmanager
def running(
    name: str,
    argv: Sequence[str],
    *,
    port: int,
    env: Mapping[str, str],
    cwd: Path,
    timeout: float = 60.0,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a service, wait until it listens on `port`, and end it at the end of the block.

    It runs in a session of its own, as the laptop server does: Linux shares the cores out among
    sessions first, so all servers stand to the client in the same way.

    Raises:
        WorkbookError: it ended, or did not listen in time; the last lines it printed are in the
            error.
    """
    log = cwd / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + timeout
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
                state = "ended" if process.poll() is not None else "did not start in time"
                raise WorkbookError(f"{name} {state}. Its last line: {words[-1]}", where=str(argv))
            time.sleep(0.1)
        yield process
    finally:
        _end(process)


def wait_for_answer(url: str, body: str, timeout: float = 60.0) -> httpx.Response:
    """POST until the service answers with a success: some services listen before they can answer.

    Raises:
        WorkbookError: it did not within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    last = "no answer"
    while time.monotonic() < deadline:
        try:
            answer = httpx.post(
                url,
                content=body,
                headers={"Content-Type": "application/json"},
                timeout=10.0,
                trust_env=False,
            )
        except httpx.HTTPError as error:
            last = str(error)
        else:
            if answer.is_success:
                return answer
            last = f"{answer.status_code} {answer.text[:200]}"
        time.sleep(0.1)
    raise WorkbookError(f"The service did not answer: {last}", where=url)


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def apps(folder: Path) -> Path:
    """Copy the peers' programs into a folder, so that nothing is written beside the originals."""
    return shutil.copytree(Path(__file__).parent / "apps", folder / "apps")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a service and all that it started: terminate, wait, then kill what is left."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        # BentoML's workers are in sessions of their own.
        family = psutil.Process(process.pid).children(recursive=True)
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
    process.wait()
    for child in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
