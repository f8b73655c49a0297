"""For 06__openvino: the network as a SavedModel, and a model that is slow with one picture."""

from __future__ import annotations

import re
import shutil
import time
import timeit
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook.lessons import formats, place
from workbook.lessons.premises import Premise, clear
from workbook.lessons.shared import variants
from workbook.lessons.workspace import folder
from workbook.server import Server, Triton

#: The turns of each way in this process, and the calls per turn.
_TURNS, _CALLS = 8, 12
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"


def models() -> Path:
    """Make a fresh repository with an empty version 1 of each model that the notebook makes."""
    home = folder("openvino")
    for name in ("focus_openvino", "from_onnx", "focus_onnx"):
        (home / name / "1").mkdir(parents=True)
    return home


def same_files(models: Path, source: str, target: str) -> None:
    """Give a model the files of version 1 of another one."""
    shutil.copytree(models / source / "1", models / target / "1", dirs_exist_ok=True)


def export_onnx(home: Path) -> Path:
    """Export the network as ONNX, as notebook 05 does, into version 1 of `from_onnx`.

    Args:
        home: the repository.

    Returns:
        The file.
    """
    import torch

    file = home / "from_onnx/1/model.onnx"
    torch.onnx.export(
        formats.network(), (torch.from_numpy(formats.pictures()[:2]),), input_names=["image"],
        output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
    ).save(file, external_data=False)  # fmt: skip
    return file


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


def logits(model: Any, precision: str = "") -> npt.NDArray[np.float32]:
    """Compute an OpenVINO model's logits for the 200 pictures, in this process.

    Args:
        model: an openvino.Model with one input and one output.
        precision: "f32" or "bf16"; by default OpenVINO chooses for this processor.

    Returns:
        float32 (200, 2).
    """
    import openvino as ov

    options = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    if precision:
        options["INFERENCE_PRECISION_HINT"] = precision
    compiled = ov.Core().compile_model(model, "CPU", options)
    return np.asarray(compiled(formats.pictures())[0], np.float32)


def in_process(ir: Path, onnx_file: Path) -> pd.DataFrame:
    """Time eight pictures in this process, with one thread: OpenVINO and ONNX Runtime.

    Processor time is measured, so other programs do not count. The ways take turns.

    Args:
        ir: the network for OpenVINO, `model.xml`.
        onnx_file: the network for ONNX Runtime.

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
    session = ort.InferenceSession(onnx_file, options, providers=["CPUExecutionProvider"])
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


def chosen_settings(server: Server, names: Mapping[str, str]) -> list[str]:
    """Return the log's lines about each setting's model: the settings that OpenVINO uses.

    Args:
        server: the one that loaded the models.
        names: setting → model.
    """
    log = server.log_text()
    lines = []
    for setting, name in names.items():
        found = re.findall(rf"\b{name}\b[^\n]*?(target [^\n]*)", log)
        lines.append(f"{setting}: {found[-1].rstrip(chr(34)) if found else 'not in the log'}")
    return lines


def lone_costs(server: Triton, names: Mapping[str, str]) -> tuple[dict[str, float], Premise]:
    """Measure the time of one picture as a share of the time of eight in one request.

    Args:
        server: from `laboratory`; it loads the models and unloads them.
        names: the notebook's name of a way → its model.

    Returns:
        The share of each way, and the premise that repeated measurements agreed.
    """
    one, eight = (variants.measure(server, names, formats.pictures()[:rows]) for rows in (1, 8))
    shares = {way: float(one["ms"][way] / eight["ms"][way]) for way in names}
    agreed = variants.repeated(one) & variants.repeated(eight)
    for (way, share), limit in zip(shares.items(), (0.7, 2 / 3), strict=True):  # the claim's limits
        agreed &= clear(share, limit, one["spread"][way] * eight["spread"][way])
    return shares, agreed


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
