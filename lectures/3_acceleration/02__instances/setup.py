"""For 02__instances: models' files, memory on two servers, a forecast, premises, mistakes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from workbook import measure
from workbook.common.errors import Refusal
from workbook.lessons import formats, laboratory, runs, simulator
from workbook.lessons import mistakes as made
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import set_addresses
from workbook.server import Triton

#: The largest number of cores on which eight instances are clearly too many.
_FEW_CORES = 4
_LIMITER = 'rate_limiter { resources { name: "core" count: 1 } }'


def prepare(models: Path) -> None:
    """Write the network's file beside the programs that read it."""
    formats.save_torchscript(*(models / name / "1/model.pt" for name in ("single", "pair")))


def changed(server: Triton) -> int:
    """How many verdicts of `pair` on the 200 pictures are not those of the network."""
    return formats.changed(formats.served_logits(server, "pair"))


def forecast(compute_ms: float, counts: Sequence[int]) -> list[float]:
    """What the simulator says: requests per second of a model with each number of instances.

    Args:
        compute_ms: how long one instance computes a request while no other one computes.
    """
    found = []
    for count in counts:
        plan = [measure.Request(f"r{number}") for number in range(40 * count)]
        model = simulator.Model(max_batch_size=1, instances=count)
        result = simulator.simulate(model, plan, duration_ms=compute_ms)
        found.append(1000 * len(plan) / float(result.executions["end_ms"].max()))
    return found


def costs(models: Path, lab: Triton) -> pd.DataFrame:
    """Load models on the notebook's server, and on one whose processes share no imports.

    Args:
        models: the repository, with `hiccup` (imports numpy) and `pair` (imports torch, too).
        lab: the notebook's server. Its addresses are in the environment again afterwards.

    Returns:
        One row per model: memory of one instance that no other process shares, in megabytes, on
        both servers, and the shared memory in which it exchanges tensors with the server.
    """
    here = _private_mb(lab)
    try:
        with laboratory(models, only=list(here), plain=True) as plain:
            there = _private_mb(plain)
    finally:
        set_addresses(lab)
    return pd.DataFrame({
        "MB, this course's server": here, "MB, each process imports for itself": there,
    }).rename({"hiccup": "hiccup: numpy", "pair": "pair: numpy and torch"}).round()  # fmt: skip


def _private_mb(server: Triton) -> dict[str, float]:
    """Private memory per instance of both models, after a request each."""
    found = {}
    for name in ("hiccup", "pair"):
        table = measure.processes(server).query("process == 'stub' and model == @name")
        found[name] = float(table["memory_mb"].mean())
    return found


def most_at_once(run: runs.Run) -> int:
    """The largest number of executions that ran at the same time, by the server's trace."""
    places = run.places.drop_duplicates("execution")
    starts, ends = places["start_ms"], places["end_ms"]
    return max(int(((starts <= at) & (ends > at)).sum()) for at in starts)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def several_cores() -> Premise:
    """Premise: two instances can compute at the same time."""
    return Premise(cores() > 1, "this machine has one core, and two instances have to share it")


def few_cores() -> Premise:
    """Premise: eight instances are more than this machine has cores, twice and more."""
    return Premise(
        cores() <= _FEW_CORES,
        f"this machine has {cores()} cores, so eight instances are not too many; try more",
    )


def found(megabytes: float) -> Premise:
    """Premise: both models' processes were there when their memory was read."""
    return Premise(megabytes > 0, "a model's process was not found")


def mistakes(server: Triton, models: Path) -> made.Results:
    """Provoke three mistakes of an instance group, and one that needs more memory than there is.

    Args:
        server: with one resource, "core". It answers as before afterwards.
        models: the repository.
    """
    results = made.provoke(
        server,
        "limited",
        {
            "more of a resource than there is": made.config(
                'name: "core" count: 1', 'name: "core" count: 3'
            ),
            "another name of the resource": made.config('name: "core"', 'name: "cores"'),
            "a GPU for an instance on the CPU": made.config(
                "kind: KIND_CPU", "kind: KIND_CPU gpus: [ 0 ]"
            ),
        },
    )
    name = "a group that needs more shared memory than there is"
    size = 2 * shutil.disk_usage("/dev/shm").total
    option = f"--backend-config=python,shm-default-byte-size={size}"
    try:
        with laboratory(models, only=[], options=(option,)) as other:
            refused = _refusal(other, "pair")
    finally:
        set_addresses(server)
    return results.plus(name, f"`tritonserver {option}`", refused)


def _refusal(server: Triton, model: str) -> Refusal | None:
    """The server's refusal of a model; None if it was loaded."""
    try:
        server.load(model)
    except Refusal as error:
        return error
    return None
