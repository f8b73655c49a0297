"""The services that the server is measured against: what they need and how they are started.

The programs are in apps/. Each is set up as its own documentation recommends for throughput. If the
faster of two ways depends on the machine, both are measured, and the faster one counts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from . import services

Array = npt.NDArray[Any]
_RUNTIME = ("onnxruntime==1.31.1", "numpy==1.26.4")


@dataclasses.dataclass(frozen=True)
class Peer:
    """One service.

    Attributes:
        pins: what pip installs for it. What those need in turn is in apps/<program>.txt.
        program: its program in apps/, without "_app.py".
        start: (python, folder of programs, ONNX file, port, workers) → the command line.
        paths: its endpoints.
        body: the request for rows, before it becomes JSON. read: the scores in its answer.
        env: further variables; every peer gets MODEL, WORKERS and PORT.
    """

    name: str
    program: str
    pins: tuple[str, ...]
    start: Callable[[Path, Path, Path, int, int], list[str]]
    paths: tuple[str, ...]
    body: Callable[[Array], dict[str, Any]]
    read: Callable[[Any], Any]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)


def read_kserve(answer: Any) -> Any:
    """The scores in an answer of the KServe protocol (Triton, MLServer)."""
    return answer["outputs"][0]["data"]


def _start_fastapi(python: Path, apps: Path, onnx: Path, port: int, workers: int) -> list[str]:
    return [
        *(str(python), "-m", "uvicorn", "fastapi_app:app", "--host", "127.0.0.1"),
        *("--port", str(port), "--workers", str(workers), "--loop", "uvloop"),
        *("--http", "httptools", "--no-access-log", "--log-level", "warning"),
    ]


def _mlserver(parallel: bool) -> Callable[[Path, Path, Path, int, int], list[str]]:
    """Return the function that starts MLServer, with worker processes or with one process."""

    def start(python: Path, apps: Path, onnx: Path, port: int, workers: int) -> list[str]:
        settings = {
            "host": "127.0.0.1",
            "http_port": port,
            "grpc_port": services.free_port(),
            "metrics_endpoint": None,
            "debug": False,
            "parallel_workers": workers if parallel else 0,
        }
        model = {
            "name": "one_layer",
            "implementation": "mlserver_app.OneLayer",
            "max_batch_size": 64,
            "max_batch_time": 0.001,
            "parameters": {"uri": str(onnx)},
        }
        (apps / "settings.json").write_text(json.dumps(settings))
        (apps / "model-settings.json").write_text(json.dumps(model))
        return [str(python.with_name("mlserver")), "start", str(apps)]

    return start


def _start_bentoml(python: Path, apps: Path, onnx: Path, port: int, workers: int) -> list[str]:
    return [
        *(str(python), "-m", "bentoml", "serve", "bentoml_app:OneLayer"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]


def _start_litserve(python: Path, apps: Path, onnx: Path, port: int, workers: int) -> list[str]:
    return [str(python), "litserve_app.py"]


def _plain(x: Array) -> dict[str, Any]:
    return {"x": x.tolist()}


def _kserve(x: Array) -> dict[str, Any]:
    return {
        "inputs": [{"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.tolist()}]
    }


FASTAPI = Peer(
    name="FastAPI",
    program="fastapi",
    pins=(
        "fastapi==0.165.0",
        "uvicorn==0.54.0",
        "uvloop==0.23.0",
        "httptools==0.9.0",
        "orjson==3.13.0",
        *_RUNTIME,
    ),
    start=_start_fastapi,
    paths=("/sync", "/async", "/orjson"),
    body=_plain,
    read=lambda answer: answer["y"],
)
MLSERVER = Peer(
    name="MLServer, worker processes",
    program="mlserver",
    # Its workers do not start with a newer uvloop ("no current event loop").
    # httptools: uvicorn reads HTTP in C where it finds it.
    pins=("mlserver==1.7.1", "uvloop==0.21.0", "httptools==0.6.4", *_RUNTIME),
    start=_mlserver(parallel=True),
    paths=("/v2/models/one_layer/infer",),
    body=_kserve,
    read=read_kserve,
    env={"PYTHONPATH": "."},  # where it finds mlserver_app
)
#: For a small model, the way to a worker process and back can cost more time than it saves.
MLSERVER_ALONE = dataclasses.replace(
    MLSERVER, name="MLServer, main process", start=_mlserver(parallel=False)
)
BENTOML = Peer(
    name="BentoML",
    program="bentoml",
    pins=("bentoml==1.4.38", "uvloop==0.21.0", "httptools==0.6.4", *_RUNTIME),
    start=_start_bentoml,
    paths=("/infer",),
    body=_plain,
    read=lambda answer: answer,
    env={"BENTOML_DO_NOT_TRACK": "True"},
)
LITSERVE = Peer(
    name="LitServe",
    program="litserve",
    pins=("litserve==0.2.19", "uvloop==0.21.0", "httptools==0.6.4", *_RUNTIME),
    start=_start_litserve,
    paths=("/predict",),
    body=_plain,
    read=lambda answer: answer["y"],
)
