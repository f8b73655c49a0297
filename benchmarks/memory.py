"""Measure the memory of the server and of each instance."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import psutil

from workbook.server import Triton

from . import models
from .machine import CORES, memory_mib
from .settings import Settings
from .tables import Section


def measure(settings: Settings) -> Section:
    """Measure a server with a Python model, the one-layer model and the CNN after some requests."""
    settings.say("memory of the server and of each instance")
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as scratch:
        folder = Path(scratch)
        repository = folder / "models"
        models.place(
            repository,
            "one_layer",
            models.one_layer(folder),
            (models.FEATURES,),
            batch=64,
            classes=models.CLASSES,
            instances=CORES,
        )
        models.place(
            repository, "cnn", models.cnn(folder), models.IMAGE, batch=8, classes=2, instances=CORES
        )
        models.scale(repository / "scale", factor=2)
        with Triton(repository) as server:
            empty = _row("tritonserver, no models", _server(server))
            for name, shape in (
                ("scale", (4,)),
                ("one_layer", (models.FEATURES,)),
                ("cnn", models.IMAGE),
            ):
                server.load(name)
                _use(server, name, shape)
            rows = [empty, _row("tritonserver, three models", _server(server))]
            stubs = _server(server).children(recursive=True)
            rows += [_row(f"instance {_instance(stub)}", stub) for stub in stubs]
    return Section(
        "memory",
        "Memory",
        "RSS counts shared pages whole in every process, PSS in parts (- where the system does not "
        "tell). An instance is a process of its own; `scale` is a Python model with numpy only. "
        "The others are ONNX Runtime's: their processes check the model, the server runs it.",
        ("process", "RSS (MiB)", "PSS (MiB)"),
        rows,
    )


def _server(server: Triton) -> psutil.Process:
    return psutil.Process(server.pid)


def _instance(stub: psutil.Process) -> str:
    """The instance's name, e.g. `cnn_0_1`: the last argument but one of Triton's stub."""
    words = stub.cmdline()
    return str(words[-2] if len(words) > 2 else stub.name())


def _row(name: str, process: psutil.Process) -> tuple[str, str, str]:
    rss, pss = memory_mib(process)
    return name, f"{rss:.0f}", "-" if pss is None else f"{pss:.0f}"


def _use(server: Triton, model: str, shape: tuple[int, ...]) -> None:
    """Send some requests, so that every instance has answered and allocated what it needs."""
    from tritonclient import grpc

    client = server.grpc_client()
    x = np.zeros((1, *shape), dtype=np.float32)
    given = grpc.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    for _ in range(20):
        client.infer(model, [given])
    client.close()
