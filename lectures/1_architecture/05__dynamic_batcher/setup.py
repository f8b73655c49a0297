"""For 05__dynamic_batcher: the digits models with and without a batcher, and their throughput."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ... import measure, zoo
from ...common import paths
from ...common.errors import WorkbookError
from ...measure import style
from ...server import Server
from ..premises import Premise, steady
from ..runs import Run

Array = npt.NDArray[np.float32]

#: The framework → the zoo's model of the digits that it runs.
FRAMEWORKS = {
    "ONNX Runtime": "digits_onnx",
    "PyTorch": "digits_torch",
    "OpenVINO": "digits_openvino",
}
_BATCHING = "dynamic_batching { }"
#: What somebody wrote into the config that the reader mends.
_PATIENT = """\
dynamic_batching {
  preferred_batch_size: [ 8 ]
  max_queue_delay_microseconds: 400000
}"""


def digits(models: Path) -> dict[str, tuple[str, str]]:
    """Put each digits model into a repository twice: without a batcher and with one.

    Returns:
        By framework, the names of both models: without and with.

    Example:
        pairs = digits(models)          # {"PyTorch": ("digits_torch_alone", "digits_torch"), …}
    """
    pairs = {}
    for framework, name in FRAMEWORKS.items():
        pairs[framework] = f"{name}_alone", name
        copy(models, name, f"{name}_alone", {_BATCHING: ""})
        copy(models, name, name, {})
    return pairs


def crowded(models: Path) -> None:
    """The model of the task: OpenVINO's digits, whose batcher waits for eight requests."""
    copy(models, "digits_openvino", "crowded", {_BATCHING: _PATIENT})


def copy(models: Path, name: str, target: str, changes: Mapping[str, str]) -> None:
    """Copy version 1 of one of the course's models into a repository, and change its config.

    Args:
        models: the repository.
        name: the model in the shared repository. It is built if it is not there yet.
        target: its name in the other repository.
        changes: text of its config → what takes its place.
    """
    zoo.repository.build(only=[name], bar=False)
    home = paths.root() / "model_repository" / name
    shutil.rmtree(models / target, ignore_errors=True)
    shutil.copytree(home / "1", models / target / "1")
    for file in home.glob("*.txt"):
        shutil.copy(file, models / target)
    text = (home / "config.pbtxt").read_text("utf-8")
    for old, new in {**changes, "version_policy { all { } }\n": ""}.items():
        text = text.replace(old, new)
    (models / target / "config.pbtxt").write_text(text, "utf-8")


def answers(server: Server, model: str, pictures: Array) -> Array:
    """The scores of a digits model for pictures that are sent one by one, all at once.

    Args:
        pictures: an array (n, 1, 8, 8).

    Raises:
        WorkbookError: the server answered one of them with an error.
    """
    tensor = server.config(model)["input"][0]["name"]
    plan = [
        measure.Request(f"r{i}", inputs={tensor: picture[None]})
        for i, picture in enumerate(pictures)
    ]
    found = measure.send(server, model, plan)
    if any(found["error"]):
        raise WorkbookError(max(found["error"]), where=model)
    return np.concatenate([next(iter(outputs.values())) for outputs in found["outputs"]])


def in_turn(rate: Callable[[str], float], pairs: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Measure all models twice, in turn, so that other programs disturb all of them alike.

    Args:
        rate: from a model's name to its throughput.
        pairs: of `digits`.

    Returns:
        One row per framework; columns `one by one` and `batched`, each the better of two, and
        `spread`, by what factor two measurements of the same differed at most.
    """
    rounds = [[[rate(name) for name in pair] for pair in pairs.values()] for _ in range(2)]
    best = np.max(rounds, axis=0)
    spread = np.max(np.max(rounds, axis=0) / np.min(rounds, axis=0), axis=1)
    return pd.DataFrame(
        {"one by one": best[:, 0], "batched": best[:, 1], "spread": spread}, index=list(pairs)
    )


def repeated(rates: pd.DataFrame) -> Premise:
    """Premise: both measurements of each model agreed."""
    return steady([1.0, rates["spread"].max()], 2)


def told_apart(rates: pd.DataFrame) -> Premise:
    """Premise: `repeated`, and the largest gain is clearly larger than the second."""
    second, first = sorted(rates["batched"] / rates["one by one"])[-2:]
    apart = Premise(
        first > 1.1 * second, f"the largest gains, ×{second:.1f} and ×{first:.1f}, are too close"
    )
    return repeated(rates) & apart


def plot_gains(rates: pd.DataFrame) -> style.Picture:
    """Both throughputs of each framework, all on one axis."""
    gains = rates["batched"] / rates["one by one"]
    said = ", ".join(f"{name} ×{gain:.1f}" for name, gain in gains.items())
    figure = style.Picture(8.4, 2.6, f"Throughput with a batcher: {said}.")
    axes = figure.subplots()
    style.panel(axes, "Pictures per second, 32 requests under way", grid="x")
    places = np.arange(len(rates))
    axes.barh(places - 0.19, rates["one by one"], 0.36, color=style.COLOURS[1], label="one by one",
              hatch="///", edgecolor=style.INK, linewidth=0)  # fmt: skip
    axes.barh(places + 0.19, rates["batched"], 0.36, color=style.COLOURS[0], label="batched")
    for place, (rate, gain) in enumerate(zip(rates["batched"], gains, strict=True)):
        axes.text(rate, place + 0.19, f" ×{gain:.1f}", va="center", color=style.GREY)
    axes.set_yticks(places, list(rates.index))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def plot_waits(ways: Mapping[str, Run]) -> style.Picture:
    """What a request's time consists of, one bar per run, all on one axis."""
    parts = {"queue": "queue_ms", "compute_infer": "compute_infer_ms"}
    table = pd.DataFrame(
        {part: [run.count(name) for run in ways.values()] for part, name in parts.items()},
        index=[f"{way}: {run.count('batch_size'):.1f} per batch" for way, run in ways.items()],
    )
    return measure.plot_bars(table, title="Where a request's time goes", below="ms per request")
