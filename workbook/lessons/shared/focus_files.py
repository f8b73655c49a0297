"""Lecture 2's network and its pictures as files, for cells that run without the course.

focus_files.save(models)

net = torch.load(models / "network.pt", weights_only=False)      # in the notebook
pictures = np.load(models / "pictures.npy")
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ... import measure
from .. import formats


def save(models: Path) -> None:
    """Write the network, its pictures, and eight of them for perf_analyzer, into a repository.

    Triton looks for models in folders only, so it ignores these files:

    - `network.pt`: the network of `formats.network` as a `torch.nn.Sequential`, whose classes are
      all PyTorch's own.
    - `pictures.npy`: float32 (200, 3, 64, 64).
    - `eight.json`: eight pictures for `perf_analyzer --input-data`, for an input `image`.
    """
    import torch

    torch.save(sequential(), models / "network.pt")
    np.save(models / "pictures.npy", formats.pictures())
    write_input(models / "eight.json", "image")


def sequential() -> object:
    """The network of `formats.network` as a chain of PyTorch's own layers, in evaluation mode."""
    from torch import nn

    own = formats.network()
    return nn.Sequential(*own.features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), own.head).eval()


def write_input(file: Path, name: str) -> None:
    """Write eight pictures in perf_analyzer's JSON format.

    Args:
        file: the file to write.
        name: the model's input.
    """
    rows = [
        {name: {"content": picture.ravel().tolist(), "shape": list(picture.shape)}}
        for picture in formats.pictures()[:8]
    ]
    file.write_text(json.dumps({"data": rows}), "utf-8")


def read_turns(models: Path, names: Sequence[str], turns: int = 3) -> pd.DataFrame:
    """Read perf_analyzer's reports of several models, each measured in several turns.

    Args:
        models: the folder with the reports, `MODEL.1.csv`, `MODEL.2.csv` and so on.
        names: the models.
        turns: how often each was measured, at least twice.

    Returns:
        One row per model: `ms`, the median time of a request in the fastest turn; `spread`, the
        median of the second fastest turn, divided by `ms`, because other programs may have
        disturbed the others; `per s`, the throughput of the best turn, in rows per second.

    Raises:
        WorkbookError: a report is missing.
    """
    found = {}
    for name in names:
        each = measure.read_reports(*(models / f"{name}.{n}.csv" for n in range(1, turns + 1)))
        fastest, second = sorted(each["p50_ms"])[:2]
        found[name] = {
            "ms": fastest,
            "spread": second / fastest,
            "per s": each["throughput"].max(),
        }
    return pd.DataFrame.from_dict(found, orient="index")
