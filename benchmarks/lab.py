"""How long `make lab` takes in a fresh clone, and how long it takes later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.server import Server
from workbook.zoo.repository import MODELS

from . import services
from .settings import Settings
from .tables import Goal, Section

#: Seconds after which a start has failed: there are slow networks and slow machines.
_PATIENCE = 1800.0
_TO_SQUARE = json.dumps(
    {"inputs": [{"name": "INPUT", "shape": [1, 2], "datatype": "FP32", "data": [3, 4]}]}
)


def measure(settings: Settings) -> Section:
    """`make lab` in a fresh clone, with nothing in uv's cache, and once more when all is built."""
    with tempfile.TemporaryDirectory(prefix="bench-lab-") as scratch:
        clone = Path(scratch) / "course"
        _clone(clone)
        settings.say("make lab in a fresh clone: some minutes")
        first = _seconds(clone)
        settings.say("make lab three times more")
        os.sync()  # what was installed is being written to the disk
        seconds = sorted((_seconds(clone) for _ in range(3)), key=lambda pair: pair[1])
        second = seconds[1]
    return Section(
        "lab",
        "make lab",
        f"Until the model `square` answers a request, and until all {len(MODELS)} demonstration "
        "models are ready. The first time, in a fresh clone, everything is installed over the "
        "network (uv's cache is empty) and built; later it is there, and the figures are those of "
        "the middle one of three starts. JupyterLab starts beside it.",
        ("seconds", "square answers", "all models are ready"),
        [
            ("first make lab", *(f"{seconds:.1f}" for seconds in first)),
            ("a later make lab", *(f"{seconds:.1f}" for seconds in second)),
        ],
        [
            Goal("first make lab: the first answer", first[0], 90.0, "s", at_most=True),
            Goal("a later make lab: every model is ready", second[1], 6.0, "s", at_most=True),
        ],
    )


def _clone(target: Path) -> None:
    """Clone what is committed; nothing that is built comes along."""
    command = ["git", "clone", "--quiet", str(paths.root()), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WorkbookError(
            "The checkout could not be cloned, so a first start cannot be timed.",
            where=done.stderr.strip(),
            todo="Measure in a git checkout of the course.",
        )


def _seconds(clone: Path) -> tuple[float, float]:
    """Run `make lab` in a clone: seconds to the first answer, and until all models are ready."""
    port = services.free_port()
    ports = f"--port {services.free_port()} --http-port {port} --grpc-port 0 --metrics-port 0"
    here = str(Path(sys.executable).parent)  # this environment's Python must not be found there
    search = [p for p in os.environ["PATH"].split(os.pathsep) if p != here]
    url = f"http://localhost:{port}"
    began = time.perf_counter()
    with (
        services.running(
            "make-lab",
            ["make", "lab", "BROWSER=no", f"OPTIONS={ports}"],
            port=port,
            env={
                "PATH": os.pathsep.join(search),
                "UV_CACHE_DIR": str(clone.parent / "cache"),
                # With it every start would compile all of Python's packages anew.
                "PYTHONDONTWRITEBYTECODE": "",
                "WORKBOOK_HOME": "",
                "TRITON_URL": "",
                "TRITON_REPOSITORY": "",
            },
            cwd=clone,
            timeout=_PATIENCE,
        ),
        Server(url) as server,
    ):
        services.wait_for_answer(f"{url}/v2/models/square/infer", _TO_SQUARE, timeout=_PATIENCE)
        answered = time.perf_counter() - began
        while waiting := [model for model in MODELS if not server.ready(model)]:
            if time.perf_counter() - began > _PATIENCE:
                raise WorkbookError(
                    f"After {_PATIENCE:.0f} s models were not ready: {', '.join(waiting)}.",
                    where=" ".join(("make", "lab")),
                    todo="Run make lab by hand; it says why.",
                )
            time.sleep(0.1)
        return answered, time.perf_counter() - began
