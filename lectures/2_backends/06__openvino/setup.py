"""For 06__openvino: a SavedModel, times, and a model that is slow with one picture."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook.lessons import formats, mistakes, place
from workbook.lessons.premises import Premise, attempt, clear
from workbook.lessons.shared import focus_files, quiet, variants
from workbook.lessons.workspace import folder
from workbook.server import Triton

#: The turns of each way in this process, and the calls per turn.
_TURNS, _CALLS = 8, 12
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"


def models() -> Path:
    """Make a fresh repository, with an empty version 1 of each model that the notebook makes.

    The network is there in PyTorch, with its pictures; as an ONNX file; and as TensorFlow's
    SavedModel. Warnings of converters are hidden.
    """
    quiet.hide_warnings()
    home = folder("openvino")
    focus_files.save(home)
    for name in ("focus_openvino", "from_onnx", "focus_onnx"):
        (home / name / "1").mkdir(parents=True)
    _export_onnx(home / "from_onnx/1/model.onnx")
    save_tensorflow(home)
    return home


def same_files(models: Path, source: str, target: str) -> None:
    """Give a model the files of version 1 of another one."""
    shutil.copytree(models / source / "1", models / target / "1", dirs_exist_ok=True)


def _export_onnx(file: Path) -> None:
    """Export the network as ONNX, as notebook 05 does."""
    import torch

    torch.onnx.export(
        formats.network(), (torch.from_numpy(formats.pictures()[:2]),), file,
        input_names=["image"], output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},), external_data=False, verbose=False,
    )  # fmt: skip


def save_tensorflow(home: Path) -> Path:
    """Write the network as a SavedModel: image (n, 3, 64, 64) float32 → logits (n, 2).

    TensorFlow runs in a process of its own, which ends with its memory.

    Args:
        home: the repository; the SavedModel lies in it, and is no version of a model.

    Returns:
        The SavedModel's folder.

    Raises:
        WorkbookError: TensorFlow could not write it.
    """
    import subprocess
    import sys

    from workbook.common.errors import WorkbookError

    target = home / "focus_onnx" / "saved"
    code = f"from {__name__} import _save; _save({str(target.resolve())!r})"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    if done.returncode:
        raise WorkbookError(
            "TensorFlow did not write the SavedModel.",
            where=str(target),
            todo=done.stderr.strip().splitlines()[-1],
        )
    return target


def _save(target: str) -> None:
    """Build the network's twin in Keras, with the same weights, and export it."""
    import tensorflow as tf

    layers = tf.keras.layers
    net = formats.network()
    image = tf.keras.Input((3, 64, 64), name="image")
    x = layers.Permute((2, 3, 1))(image)  # TensorFlow's convolutions need the channels last
    weights = []
    for part in net.features:
        if hasattr(part, "weight"):
            conv = layers.Conv2D(part.out_channels, 3, padding="same", activation="relu")
            x = conv(x)
            kernel = part.weight.detach().numpy().transpose(2, 3, 1, 0)
            weights.append((conv, [kernel, part.bias.detach().numpy()]))
        elif "Pool" in type(part).__name__:
            x = layers.MaxPooling2D()(x)
    head = layers.Dense(2)
    x = head(layers.GlobalAveragePooling2D()(x))
    weights.append((head, [net.head.weight.detach().numpy().T, net.head.bias.detach().numpy()]))
    model = tf.keras.Model(image, {"logits": x})
    for layer, values in weights:
        layer.set_weights(values)
    model.export(target, verbose=False)


def in_process(ir: Path) -> pd.DataFrame:
    """Time eight pictures in this process, with one thread: OpenVINO and ONNX Runtime.

    Processor time is measured, so other programs do not count. The ways take turns.

    Args:
        ir: the network for OpenVINO, `model.xml`; ONNX Runtime takes the file of `from_onnx`.

    Returns:
        One row per way, `OpenVINO, f32`, `OpenVINO, default` and `ONNX Runtime, f32`: `ms`, the
        fastest call of the fastest turn; `spread`, the time of the fastest call in the second
        fastest turn, divided by `ms`. 1 means that two turns agree.
    """
    import onnxruntime as ort
    import openvino as ov

    batch = np.ascontiguousarray(formats.pictures()[:8])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        ir.parents[2] / "from_onnx/1/model.onnx", options, providers=["CPUExecutionProvider"]
    )
    ways: dict[str, Callable[[], object]] = {
        "OpenVINO, f32": _request(ov.Core(), ir, batch, "f32"),
        "OpenVINO, default": _request(ov.Core(), ir, batch, ""),
        "ONNX Runtime, f32": lambda: session.run(None, {"image": batch}),
    }
    turns: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(_TURNS):
        for way, call in ways.items():
            seconds = timeit.repeat(call, number=1, repeat=_CALLS, timer=time.process_time)
            turns[way].append(1000 * min(seconds))
    rows = {
        way: {"ms": min(each), "spread": sorted(each)[1] / min(each)} for way, each in turns.items()
    }
    return pd.DataFrame(rows).T


def _request(core: Any, file: Path, batch: npt.NDArray[Any], precision: str) -> Callable[[], Any]:
    """Make a call of a network on the CPU: one thread and, as in Triton, a fixed batch size."""
    options = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    if precision:
        options["INFERENCE_PRECISION_HINT"] = precision
    model = core.read_model(file)
    model.reshape(batch.shape)
    request = core.compile_model(model, "CPU", options).create_infer_request()
    return lambda: request.infer([batch])


def set_log(lab: Triton) -> None:
    """Set TRITON_LOG, the server's log."""
    os.environ["TRITON_LOG"] = str(lab.log)


def refuses_platform(server: Triton) -> bool:
    """Whether the server refuses `focus_openvino` with the backend slides' platform."""
    home = server.repository / "printed"
    shutil.copytree(server.repository / "focus_openvino", home, dirs_exist_ok=True)
    file = home / "config.pbtxt"
    text = file.read_text("utf-8").replace('backend: "openvino"', 'platform: "openvino_ir"')
    file.write_text(text, "utf-8")
    try:
        return "openvino_ir" in mistakes.refusal(server, "printed")
    finally:
        shutil.rmtree(home)


def read_times(reports: Path, names: Sequence[str], turns: int = 3) -> pd.DataFrame:
    """Read perf_analyzer's reports of models that were measured in several turns.

    Returns:
        One row per model, with `ms` and `spread` of `focus_files.read_turns`.
    """
    return focus_files.read_turns(reports, names, turns)[["ms", "spread"]]


def repeated(times: pd.DataFrame) -> Premise:
    """Premise: the two fastest turns of each model agree."""
    return variants.repeated(times)


def precision_differs(times: pd.DataFrame) -> Premise:
    """Premise: OpenVINO's default and f32 differ by clearly more or clearly less than 1.2.

    Args:
        times: from `in_process`.
    """
    return variants.apart(times, "OpenVINO, f32", "OpenVINO, default", 1.2)


def clear_shares(took: Mapping[tuple[str, int], Sequence[float]]) -> Premise:
    """Premise: a lone picture's share of the time of eight is far from the claim's limits.

    Args:
        took: model and rows per request → the milliseconds of each turn.
    """
    agreed = Premise(True, "")
    for model, limit in (("focus_openvino", 0.7), ("any_batch", 2 / 3)):
        one, eight = (sorted(took[model, rows]) for rows in (1, 8))
        agreed &= clear(one[0] / eight[0], limit, one[1] / one[0] * eight[1] / eight[0])
    return agreed


def measured(server: Triton, ir: Path) -> formats.Row:
    """Measure `focus_openvino` for the lecture's table, again if the loads do not differ clearly.

    Args:
        ir: its `model.xml`.
    """
    import openvino as ov

    core = ov.Core()
    compiled = core.compile_model(core.read_model(ir), "CPU", {"INFERENCE_NUM_THREADS": 1})
    request = compiled.create_infer_request()

    def in_process(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(request.infer({"image": rows})["logits"])

    with contextlib.redirect_stdout(io.StringIO()):  # of an unload that takes long
        return attempt(
            lambda: formats.add(server, "focus_openvino", "OpenVINO", in_process), loads_differ
        )


def compared() -> pd.DataFrame:
    """The lecture's table, with the formats up to this notebook's and the columns of speed."""
    columns = ["per s, 1 under way", "per s, 8 under way", "verdicts changed"]
    rows = ["Python", "TorchScript", "ONNX", "OpenVINO"]
    return formats.table().filter(rows, axis="index")[columns]


def loads_differ(row: formats.Row) -> Premise:
    """Premise: the throughputs with 1 and with 8 requests under way differ by more than noise."""
    return row.repeated & clear(row.at_8 / row.at_1, 1, row.spread)


def lone(models: Path, source: str) -> None:
    """Put the task's model into a repository. It pads: a lone picture takes as long as eight.

    An existing folder stays as it is, because it may hold the reader's work.

    Args:
        source: the model in the repository whose files it gets.
    """
    if (models / "lone").exists():
        return
    place(models, HERE / "lone")
    same_files(models, source, "lone")


def convert(target: Path) -> None:
    """Convert the network from PyTorch into IR, as the notebook does."""
    import openvino as ov
    import torch

    model = ov.convert_model(
        formats.network(), example_input=torch.zeros(1, 3, 64, 64), input=[-1, 3, 64, 64]
    )
    model.inputs[0].get_tensor().set_names({"image"})
    model.outputs[0].get_tensor().set_names({"logits"})
    ov.save_model(model, target, compress_to_fp16=False)
