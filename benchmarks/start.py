"""How long a reader waits: for the server, for a changed model, for a whole command."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from workbook.common.errors import WorkbookError
from workbook.server import Server, Triton, deploy

from . import models
from .settings import Settings
from .tables import Goal, Section


def measure(settings: Settings) -> Section:
    """A server without models, and a deployed Python model that changes."""
    starts, deploys = [], []
    with tempfile.TemporaryDirectory(prefix="bench-start-") as scratch:
        repository, folder = Path(scratch) / "models", Path(scratch) / "folder" / "scale"
        repository.mkdir()
        for number in range(settings.rounds):
            settings.say(f"server start {number + 1}")
            began = time.perf_counter()
            with Triton(repository) as server:
                starts.append(time.perf_counter() - began)
                for change in range(2):  # the first deploy is not one of a changed model
                    models.scale(folder, factor=number + 2 + change)
                    began = time.perf_counter()
                    deploy(folder, server=server)
                    took = time.perf_counter() - began
                    _check(server, number + 2 + change)
                deploys.append(took)
    ready, changed = statistics.median(starts), statistics.median(deploys)
    return Section(
        "start",
        "Start and deploy",
        f"Medians of {settings.rounds}; the slowest in brackets. Deploy: from the call until the "
        "changed model answers, checked by its answer.",
        ("", "seconds"),
        [
            ("server ready, no models", f"{ready:.2f} ({max(starts):.2f})"),
            (
                "deploy of a changed Python model (numpy only)",
                f"{changed:.2f} ({max(deploys):.2f})",
            ),
        ],
        [
            Goal("server ready after start", ready, 3.0, "s", at_most=True),
            Goal("deploy of a changed Python model", changed, 2.0, "s", at_most=True),
        ],
    )


def seconds_until_ready(
    command: Sequence[str],
    url: str,
    *,
    models: Sequence[str] = (),
    cwd: Path | None = None,
    timeout: float = 120.0,
) -> float:
    """Run a command and count the seconds until a server that it starts is ready; then end it.

    Args:
        command: for example `make lab BROWSER=no`. It is ended when the server is ready.
        url: the HTTP endpoint at which the server will appear; nobody may listen there before.
        models: models that are to be ready, too.

    Raises:
        WorkbookError: a server was there already, the command ended first, or time ran out.
    """
    with Server(url) as server:
        if server.live():
            raise WorkbookError(
                "A server runs already, so its start cannot be timed.",
                where=url,
                todo="`workbook stop`, then measure again.",
            )
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while not (server.ready() and all(server.ready(model) for model in models)):
                if process.poll() not in (None, 0):  # 0: it started the server and left it running
                    raise WorkbookError(
                        f"The command ended with status {process.returncode} before the server was "
                        "ready.",
                        where=" ".join(command),
                        todo="Run it by hand to see what it says.",
                    )
                if time.perf_counter() - began > timeout:
                    raise WorkbookError(
                        f"No server was ready within {timeout:.0f} s.", where=" ".join(command)
                    )
                time.sleep(0.05)
            return time.perf_counter() - began
        finally:
            _end(process)


def _check(server: Triton, factor: int) -> None:
    body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]}]}
    answer = server.request("POST", "/v2/models/scale/infer", json=body)
    if answer["outputs"][0]["data"] != [factor] * 4:
        raise WorkbookError("The changed model was deployed but the former one answered.")


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, 30.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue
