"""For 02__inside_the_server: this machine, more instances of a model, and a busy neighbour."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from workbook import measure
from workbook.lessons.files import place
from workbook.lessons.premises import Premise
from workbook.lessons.shared import digits_model
from workbook.server import Server, Triton

HERE = Path(__file__).parent / "models"


def this_machine() -> pd.DataFrame:
    """List what the models on this machine share: cores, memory, disk, GPU."""
    ram, disk = psutil.virtual_memory(), psutil.disk_usage(".")
    rows = {
        "cores": len(os.sched_getaffinity(0)),
        "RAM, GB": round(ram.total / 1e9, 1),
        "RAM free, GB": round(ram.available / 1e9, 1),
        "disk free, GB": round(disk.free / 1e9),
        "NVIDIA GPU": "yes" if Path("/dev/nvidia0").exists() else "no",
    }
    return pd.Series(rows, name="this machine").to_frame()


def grow(server: Triton, model: str, counts: Iterable[int]) -> pd.DataFrame:
    """Load a model with one instance count after the other, and look at its processes.

    Args:
        server: one that `laboratory` started.
        model: a Python model whose config says `count: 1`.
        counts: the instance counts.

    Returns:
        One row per count: `instances`, `processes`, `memory_mb` (of the model's processes).

    Example:
        grow(lab, "digits", (1, 2, 4))
    """
    file = server.repository / model / "config.pbtxt"
    text = file.read_text("utf-8")
    rows = []
    for count in counts:
        file.write_text(re.sub(r"count: \d+", f"count: {count}", text), "utf-8")
        server.load(model)
        stubs = measure.processes(server).query("process == 'stub' and model == @model")
        rows.append((count, len(stubs), stubs["memory_mb"].sum()))
    file.write_text(text, "utf-8")
    server.load(model)
    return pd.DataFrame(rows, columns=["instances", "processes", "memory_mb"])


def settled(grown: pd.DataFrame) -> Premise:
    """Premise: no process of an earlier load was still about to end.

    Args:
        grown: what `grow` returned.
    """
    seen = list(grown["processes"])
    expected = ([1] * len(seen), list(grown["instances"]))
    return Premise(
        seen in expected,
        f"the numbers of processes were {seen}, because one of an earlier load had not ended yet",
    )


def log_lines(log: str, words: str) -> list[str]:
    """Return the log's messages that contain `words`, without time, file and quotation marks.

    Args:
        log: from `Triton.log_text`.
        words: the text to look for.

    Example:
        log_lines(lab.log_text(), "memory pool")
    """
    return [line.split("] ")[-1].strip('"') for line in log.splitlines() if words in line]


@contextmanager
def busy(server: Server, model: str, pictures: Any) -> Iterator[None]:
    """Within the block, one client sends a request to a model as soon as the last is answered.

    Args:
        server: where the model is.
        model: its name.
        pictures: what each request carries.

    Example:
        with busy(lab, "neighbour", pictures[:1]):
            ...
    """
    over = threading.Event()

    def client() -> None:
        while not over.is_set():
            digits_model.scores(server, model, pictures)

    thread = threading.Thread(target=client)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def add(models: Path, name: str, source: str = "") -> None:
    """Copy a digit classifier of this notebook into a repository, and save its weights there.

    Args:
        models: the repository's folder.
        name: the model's name there.
        source: the model's name beside the notebook; by default, the same.
    """
    place(models, HERE / (source or name), name=name)
    digits_model.save_weights(models / name / "1/weights.npy")


def send_three_ways(server: Server, model: str, pictures: Any) -> None:
    """Send the same pictures over HTTP in JSON, over HTTP in binary, and over gRPC.

    Args:
        server: where the model is.
        model: its name; its input is called `image`.
        pictures: an array (n, 1, 8, 8).

    Raises:
        ServerError: the server refused the request.
    """
    import tritonclient.grpc
    import tritonclient.http

    digits_model.scores(server, model, pictures)
    for api, connect in (
        (tritonclient.http, server.http_client),
        (tritonclient.grpc, server.grpc_client),
    ):
        with connect() as client:
            tensor = api.InferInput("image", list(pictures.shape), "FP32")
            client.infer(model, [tensor.set_data_from_numpy(pictures)])
