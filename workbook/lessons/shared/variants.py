"""Copy one model with several settings, and time the same batch with each setting.

names = variants.add(models, "focus_onnx", {"level 2": "optimization { graph { level: 2 } }"})
table = variants.measure(lab, names, formats.pictures()[:8])
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd

from ...server import Server, Triton
from ..formats import memory_mb
from ..premises import Premise, clear, steady

#: The turns of each setting, and the requests per turn.
ROUNDS, REQUESTS = 4, 6


def add(models: Path, base: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Copy a model once per setting, with more lines in its config.

    Args:
        models: the repository.
        base: the model that is copied, with its files.
        settings: a setting's name in the notebook → its lines; "" for none.

    Returns:
        Setting → the name of its model, `BASE_0`, `BASE_1`, …
    """
    text = (models / base / "config.pbtxt").read_text("utf-8")
    names = {}
    for number, (setting, lines) in enumerate(settings.items()):
        names[setting] = f"{base}_{number}"
        home = models / names[setting]
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(models / base, home)
        (home / "config.pbtxt").write_text(f"{text}\n{lines}\n", "utf-8")
    return names


def measure(server: Triton, names: Mapping[str, str], batch: npt.NDArray[Any]) -> pd.DataFrame:
    """Time one request per setting. All models are loaded, and the settings take turns.

    Args:
        server: from `laboratory`.
        names: from `add`.
        batch: the rows of one request, for the model's first input.

    Returns:
        One row per setting: `ms`, the fastest request of all turns; `first_ms`, the first request;
        `memory_mb`, the memory of the model's own processes, and the growth of the server's
        process; `spread`: the two fastest of the four turns are compared, because other
        programs may have disturbed the others. It is the time of the fastest request in the second
        fastest turn, divided by that in the fastest turn. 1 means that both agree.
    """
    turns: dict[str, list[float]] = {setting: [] for setting in names}
    first: dict[str, float] = {}
    memory: dict[str, float] = {}
    for setting, name in names.items():
        _, before = memory_mb(server, name)
        server.load(name)
        first[setting] = _times(server, name, batch, 1)[0]
        _times(server, name, batch, 2)  # some frameworks optimize at the second call
        own, rest = memory_mb(server, name)
        memory[setting] = own + max(rest - before, 0.0)  # the server may give memory back meanwhile
    for _ in range(ROUNDS):
        for setting, name in names.items():
            turns[setting].append(min(_times(server, name, batch, REQUESTS)))
    for name in names.values():
        server.unload(name, report=lambda _: None)
    return pd.DataFrame(
        {
            "ms": {setting: min(each) for setting, each in turns.items()},
            "first_ms": first,
            "memory_mb": memory,
            "spread": {setting: sorted(each)[1] / min(each) for setting, each in turns.items()},
        }
    )


def repeated(table: pd.DataFrame, factor: float = 1.5) -> Premise:
    """Premise: the two fastest turns of each setting agree.

    Args:
        table: from `measure`.
        factor: the slower turn must take less than this many times the faster.
    """
    return steady([1.0, table["spread"].max()], factor)


def apart(table: pd.DataFrame, slower: str, faster: str, limit: float = 1.0) -> Premise:
    """Premise: the ratio of two settings' times is clearly above a limit, or clearly below it.

    Args:
        table: from `measure`.
        slower: the setting whose time is divided, in the table's index.
        faster: the setting by whose time it is divided.
        limit: what the claim compares the ratio with.
    """
    two = table.loc[[slower, faster]]
    return clear(two["ms"].iloc[0] / two["ms"].iloc[1], limit, two["spread"].max())


def _times(server: Server, model: str, batch: npt.NDArray[Any], count: int) -> list[float]:
    """Send `count` requests one after the other, and return the milliseconds of each."""
    from tritonclient import grpc
    from tritonclient.utils import np_to_triton_dtype

    name = server.config(model)["input"][0]["name"]
    tensor = grpc.InferInput(name, batch.shape, np_to_triton_dtype(batch.dtype))
    tensor.set_data_from_numpy(batch)
    times = []
    with server.grpc_client() as client:
        client.is_server_live()
        for _ in range(count):
            began = time.perf_counter()
            client.infer(model, [tensor])
            times.append((time.perf_counter() - began) * 1000)
    return times
