"""Lecture 2's classifier in every format: its 200 pictures, its answers, and a table that grows.

Each notebook serves the same network, "is this piece of a photo sharp?", in one more format:

    net, pictures = formats.network(), formats.pictures()           # torch module; (200, 3, 64, 64)
    …                                                               # export it, write config.pbtxt
    lab.load("focus_onnx")
    formats.add(lab, "focus_onnx", "ONNX", in_process)              # measure it; a row of the table
    formats.table()                                                 # all formats measured so far
    formats.explained()                                             # where slow ones lose time

The rows are kept in `.workbook/lectures/formats.json`, so that a later notebook shows them, too.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .. import measure, zoo
from ..common import paths
from ..common.errors import WorkbookError
from ..server import Server, Triton
from ..server.explain import explain
from .mistakes import ABOVE, not_written
from .premises import Premise, steady

Array = npt.NDArray[Any]

#: Pictures under way at the two loads. The in-process call gets as many as the second load.
LOADS = (1, 8)
_INTERVAL_MS = 400
_IN_PROCESS_SECONDS = 0.5
_ROUNDS = 2


@dataclasses.dataclass(frozen=True)
class Row:
    """One format's line of the table; each figure was measured on this machine.

    Attributes:
        format: e.g. "ONNX".
        backend: Triton's backend that served it.
        size_mb: the files of its version folder, in megabytes.
        load_s: from the load command until the model was ready, in seconds; the faster of two.
        memory_mb: what the model's processes have after the 200 answers, and what the server's own
            process has more than before the load; in megabytes that no other process shares.
        at_1, at_8: pictures per second, with 1 and with 8 requests of one picture under way.
        in_process: pictures per second of the framework in the notebook's own process, in batches
            of 8, one thread.
        infer_ms: how long the framework computed per picture in the server, with 8 requests under
            way, in milliseconds: `compute_infer` of the statistics.
        difference: the largest difference of a logit from the PyTorch network in fp32.
        changed: how many of the 200 verdicts are not those of the PyTorch network.
        spread: the better measurement of the same throughput over the other one, of the throughput
            whose two measurements differed most.
    """

    format: str
    backend: str
    size_mb: float
    load_s: float
    memory_mb: float
    at_1: float
    at_8: float
    in_process: float
    infer_ms: float
    difference: float
    changed: int
    spread: float

    @property
    def ratio(self) -> float:
        """Throughput of the server with 8 requests under way, divided by throughput in-process."""
        return self.at_8 / self.in_process

    @property
    def busy(self) -> float:
        """The share of time in which the framework computed, with 8 requests under way.

        It is computed from two measurements, so the product may be above 1. The true share cannot,
        so it is limited to 1.
        """
        return min(1.0, self.at_8 * self.infer_ms / 1000)

    @property
    def factors(self) -> str:
        """`ratio` as a product: `busy`, times ms per picture in-process over ms in the server."""
        inside = 1000 / self.in_process
        return f"{self.ratio:.0%} ≈ {self.busy:.0%} × {inside:.2f} / {self.infer_ms:.2f}"

    @property
    def served(self) -> str:
        """A sentence that compares the server's speed with the framework in-process."""
        if self.ratio > 1:
            return (
                "The in-process run was slower than the server, because other programs disturbed "
                "it. Do not compare the two."
            )
        return (
            f"The server reaches {self.ratio:.0%} of the in-process speed. In the server, the "
            f"framework computed in {self.busy:.0%} of the time; the rest is copying and waiting. "
            f"It took {self.infer_ms:.2f} ms per picture, and in-process "
            f"{1000 / self.in_process:.2f} ms."
        )

    @property
    def repeated(self) -> Premise:
        """Premise: repeated measurements of the same throughput agreed."""
        return steady([1.0, self.spread], 1.5)


def network() -> Any:
    """The trained network, a torch module in evaluation mode: (n, 3, 64, 64) → logits (n, 2)."""
    from ..zoo import classifiers

    return classifiers.load("focus_cnn")


def save_torchscript(*files: Path) -> None:
    """Compile the network by `torch.jit.script`, and write it into each of these files."""
    import torch

    script = torch.jit.script(network())
    for file in files:
        script.save(str(file))


def save_onnx(*files: Path) -> None:
    """Export the network as ONNX by the older exporter, and write it into each of these files.

    Its input is `image` (rows, 3, 64, 64), its output `logits` (rows, 2), both float32.
    """
    import torch

    rows = {0: "rows"}
    for file in files:
        torch.onnx.export(
            network(), (torch.zeros(1, 3, 64, 64),), file, dynamo=False,
            input_names=["image"], output_names=["logits"],
            dynamic_axes={"image": rows, "logits": rows},
        )  # fmt: skip


@functools.cache
def files() -> list[bytes]:
    """The 200 pictures as JPEG files, 96 to 192 pixels wide."""
    return zoo.data.focus_files("test")[0]


@functools.cache
def pictures() -> Array:
    """The 200 pictures as the network takes them: float32 (200, 3, 64, 64) in -1..1."""
    found: Array = zoo.data.pixels(files())
    return found


@functools.cache
def reference() -> Array:
    """What the PyTorch network answers in this process: logits (200, 2), float32."""
    from ..zoo import nets

    logits: Array = nets.predict(network(), pictures())
    return logits


def score(logits: Array) -> Array:
    """The logit of "sharp" minus the logit of "blurred"; above 0 the verdict is "sharp"."""
    scores: Array = logits[:, 1] - logits[:, 0]
    return scores


def changed(logits: Array, threshold: float = 0.0) -> int:
    """How many of the 200 verdicts differ from the PyTorch network's verdicts at threshold 0."""
    return int(((score(logits) > threshold) != (score(reference()) > 0)).sum())


def served_logits(server: Triton, model: str, inputs: Array | None = None) -> Array:
    """The model's logits for the 200 pictures, sent in batches that its config allows.

    Args:
        inputs: other inputs, their first dimension the example.

    Returns:
        float32 (n, 2).

    Raises:
        RequestError: the server answered with an error.
        WorkbookError: the model is not loaded, or it answered with another shape.
    """
    from tritonclient import grpc
    from tritonclient.utils import InferenceServerException, np_to_triton_dtype

    config = loaded(server, model)
    name, output = config["input"][0]["name"], config["output"][0]["name"]
    given = pictures() if inputs is None else inputs
    step = int(config.get("max_batch_size", 0)) or 1
    found = []
    with server.grpc_client() as client:
        for batch in (given[start : start + step] for start in range(0, len(given), step)):
            tensor = grpc.InferInput(name, batch.shape, np_to_triton_dtype(batch.dtype))
            tensor.set_data_from_numpy(batch)
            try:
                found.append(client.infer(model, [tensor]).as_numpy(output))
            except InferenceServerException as error:
                raise explain(error, server, model) from None
    logits = np.concatenate(found)
    if logits.shape != (len(given), 2):
        raise WorkbookError(
            f"The answers have the shape {list(logits.shape)}, not [{len(given)}, 2].", where=model
        )
    answers: Array = logits.astype(np.float32)
    return answers


def loaded(server: Server, model: str) -> dict[str, Any]:
    """The config of a model.

    Raises:
        WorkbookError: it is not loaded, so the cells that load it were not run.
    """
    if not server.ready(model):
        raise WorkbookError(f"The model {model} is not loaded.", todo=ABOVE)
    return server.config(model)


def add(
    server: Triton,
    model: str,
    format: str,
    in_process: Callable[[Array], Array],
    *,
    rounds: int = _ROUNDS,
) -> Row:
    """Measure one format, and add it to the table; a row of the same format is replaced, unless
    only the older one's measurements agreed.

    The server and the process take turns, so that other programs disturb both alike.

    Args:
        server: of `laboratory`; the model is loaded anew.
        model: its name. One input of 3 × 64 × 64 numbers, one output of two logits.
        format: how the table calls it.
        in_process: the framework, called in this process with one thread: pictures (8, 3, 64, 64)
            → logits (8, 2).
        rounds: how many turns each has, at least two: one measurement has no spread.

    Returns:
        The row.

    Raises:
        WorkbookError: the server refused the model or a request, or the logits in-process differ
            from those of the served model.
        ValueError: `rounds` is less than 2.
    """
    if rounds < 2:
        raise ValueError(
            "Measure at least twice: the spread is the difference between two measurements."
        )
    loads, memory = [], []
    for _ in range(2):
        server.unload(model)
        memory.append(memory_mb(server, model)[1])
        began = time.perf_counter()
        server.load(model)
        loads.append(time.perf_counter() - began)
    logits = served_logits(server, model)
    own, rest = memory_mb(server, model)
    used = own + max(rest - min(memory), 0.0)
    batch = np.ascontiguousarray(pictures()[: LOADS[-1]])
    apart = float(np.abs(in_process(batch) - logits[: LOADS[-1]]).max())
    if apart > 0.1:
        raise WorkbookError(
            f"The served logits differ by {apart:.2g} from those of the same format in-process.",
            where=model,
            todo="Check that both are made from the same file.",
        )
    served: dict[int, list[float]] = {load: [] for load in LOADS}
    inside, infer_ms = [], []
    for _ in range(rounds):
        for load in LOADS:
            before = computed(server, model)
            served[load].append(throughput(server, model, load))
        after = computed(server, model)
        infer_ms.append((after[0] - before[0]) / 1e6 / (after[1] - before[1]))
        inside.append(_repeat(in_process, batch))
    spread = max(max(figures) / min(figures) for figures in (*served.values(), inside))
    version = max((server.repository / model).glob("[0-9]*"), key=lambda path: int(path.name))
    row = Row(
        format=format,
        backend=server.config(model)["backend"],
        size_mb=size_mb(version),
        load_s=min(loads),
        memory_mb=used,
        at_1=max(served[LOADS[0]]),
        at_8=max(served[LOADS[1]]),
        in_process=max(inside),
        infer_ms=min(infer_ms),
        difference=float(np.abs(logits - reference()).max()),
        changed=changed(logits),
        spread=spread,
    )
    _keep(row)
    return row


def rows() -> list[Row]:
    """The formats measured on this machine so far, in the order in which they were first added."""
    if not _file().exists():
        return []
    fields = {field.name for field in dataclasses.fields(Row)}
    kept = json.loads(_file().read_text("utf-8"))
    return [Row(**row) for row in kept if set(row) == fields]


def table() -> pd.DataFrame:
    """The table of lecture 2: one row per format, with units in the column heads.

    The column `repeated` says "no" where two measurements of the same throughput did not agree.
    """
    found = [
        {
            "format": row.format,
            "backend": row.backend,
            "size, MB": round(row.size_mb, 2),
            "load, s": round(row.load_s, 2),
            "memory, MB": round(row.memory_mb),
            "per s, 1 under way": round(row.at_1),
            "per s, 8 under way": round(row.at_8),
            "in-process, batch 8": round(row.in_process),
            "largest difference of a logit": f"{row.difference:.1e}",
            "verdicts changed": row.changed,
            "repeated": "yes" if row.repeated else "no",
        }
        for row in rows()
    ]
    return pd.DataFrame(found).set_index("format") if found else pd.DataFrame()


def explained() -> str:
    """Why some formats reach less than 80 % of the in-process speed, one line per format.

    The share of the in-process speed is a product of two factors: the share of time in which the
    framework computes, and its milliseconds per picture in-process, divided by those in the server.
    Two kinds of formats are named, but not compared: formats whose two measurements differ much
    (with their spread), and formats that seem faster served than in-process. There other programs
    disturbed both rounds in-process.
    """
    clear = [row for row in rows() if row.repeated and row.ratio <= 1]
    slow = [f"  {row.format}: {row.factors}" for row in clear if row.ratio < 0.8]
    lines = [
        "The server reaches less than 80% of the in-process speed with these formats. There are "
        "two possible reasons. The framework computes in a part of the time only, because the rest "
        "is copying and waiting. And a picture may take longer in the server. The speed that "
        "remains is the product: part of the time × ms per picture in-process / in the server.",
        *slow,
    ]
    if not slow:
        names = ", ".join(row.format for row in clear)
        lines = [f"The server reaches at least 80% of the in-process speed with: {names}."]
    apart = [f"{row.format} ({row.spread:.1f})" for row in rows() if not row.repeated]
    if not clear:
        lines = []
    disturbed = [row.format for row in rows() if row.repeated and row.ratio > 1]
    if disturbed:
        lines.append(
            "Do not compare these, because their in-process run was slower than the server, so "
            f"other programs must have disturbed it: {', '.join(disturbed)}."
        )
    if apart:
        lines.append(
            "This run does not show it for these, because two measurements of the same throughput "
            "differ too much. The number says how many times larger the better one is: "
            f"{', '.join(apart)}. Close other programs, and measure again."
        )
    return "\n".join(lines)


def memory_mb(server: Triton, model: str) -> tuple[float, float]:
    """Memory of a model's own processes, and of the server's process, in megabytes.

    Only what they share with no other process counts.
    """
    found = measure.processes(server)
    own, rest = found["model"] == model, found["process"] == "tritonserver"
    return float(found.loc[own, "memory_mb"].sum()), float(found.loc[rest, "memory_mb"].sum())


def size_mb(path: Path) -> float:
    """The size of a file, or of all files in a folder, in megabytes."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def throughput(server: Triton, model: str, load: int) -> float:
    """Pictures per second that the server answers, one per request, while `load` requests are under
    way."""
    return float(under_load(server, model, load)["throughput"])


def under_load(server: Triton, model: str, load: int) -> pd.Series:
    """perf_analyzer's figures while `load` requests of one picture each are under way.

    The pictures are the lecture's, as in-process. perf_analyzer's own input is random bits, with
    NaN and numbers so small that a processor computes with them slowly.

    Returns:
        A row of `measure.perf`.
    """
    config = loaded(server, model)
    batched = int(config.get("max_batch_size", 0)) > 0
    name = config["input"][0]["name"]
    sent = [{name: one if batched else one[None]} for one in pictures()[: LOADS[-1]]]
    found = measure.perf(
        server,
        model,
        concurrency=load,
        input_data=sent,
        interval_ms=_INTERVAL_MS,
        stability=1e6,
        trials=3,
    )
    return found.iloc[0]


def computed(server: Triton, model: str) -> tuple[int, int]:
    """Nanoseconds in which the framework has computed for a model, and for how many pictures.

    Both since the model was loaded; an execution counts once, however many pictures it has.
    """
    found = server.statistics(model)
    sizes = [size for version in found for size in version.get("batch_stats", ())]
    pictures = sum(int(version["inference_count"]) for version in found)
    return sum(int(size["compute_infer"]["ns"]) for size in sizes), pictures


def _repeat(in_process: Callable[[Array], Array], batch: Array) -> float:
    """Pictures per second of a function, called without a pause."""
    done, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < _IN_PROCESS_SECONDS:
        in_process(batch)
        done += len(batch)
    return done / passed


def _file() -> Path:
    return paths.state("lectures") / "formats.json"


def _keep(row: Row) -> None:
    """Save a row. It replaces a row whose measurements agreed only if its own agreed too."""
    kept = {each.format: each for each in rows()}
    if row.format in kept and kept[row.format].repeated and not row.repeated:
        return
    kept[row.format] = row
    _file().write_text(json.dumps([dataclasses.asdict(each) for each in kept.values()], indent=1))


def in_process(file: Path, level: int | None = None) -> Callable[[Array], Array]:
    """A function that runs an ONNX file in this process, with one thread.

    Args:
        file: the model; one input, one output.
        level: of graph optimisation, e.g. 0 for none and 99 for all, ONNX Runtime's default.

    Raises:
        WorkbookError: the file is not there, so the cells that write it were not run.

    Example:
        formats.in_process(models / "focus_fp16/1/model.onnx")(pictures[:8])
    """
    import onnxruntime as ort

    if not file.is_file():
        raise not_written(file.name)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if level is not None:
        options.graph_optimization_level = ort.GraphOptimizationLevel(level)
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: session.run(None, {name: batch})[0]
