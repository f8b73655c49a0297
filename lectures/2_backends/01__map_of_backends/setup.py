"""For 01__map_of_backends: a model per backend, and the backend slides' table of purposes.

setup.repository(models)       # one model per backend
setup.which(matrix)            # which backend to take when, and what this server has
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from workbook import zoo
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import copy
from workbook.server import Triton, assemble

#: From the backend slides' table of relevance, the backends that this server has → a model.
MODELS = {
    "python": "square",
    "onnxruntime": "digits_onnx",
    "pytorch": "digits_torch",
    "openvino": "digits_openvino",
    "tensorflow": "digits_tf",
    "fil": "forest_xgboost",
    "dali": "jpeg_dali",
    "tensorrt": "engine",
    "tensorrtllm": "engine_llm",
}
#: The backend slides' last table, beside upstream's support matrix: purpose → the slides'
#: hardware, upstream's hardware (x86, release 24.10), backend.
WHICH = {
    "preparing images and sound": ("CPU/GPU", "CPU, GPU", "dali"),
    "logic that fits no other form": ("CPU/GPU", "CPU, GPU", "python"),
    "ensembles of trees": ("CPU/GPU", "CPU, GPU", "fil"),
    "PyTorch models as they are": ("CPU/GPU", "CPU, GPU", "pytorch"),
    "TensorFlow models as they are": ("CPU/GPU", "CPU, GPU until 25.02", "tensorflow"),
    "language models, quickly set up": ("CPU/GPU", "CPU, GPU", "vllm"),
    "models in ONNX": ("CPU/GPU", "CPU, GPU", "onnxruntime"),
    "language models on NVIDIA's GPUs": ("GPU", "GPU", "tensorrtllm"),
    "models without a GPU": ("CPU", "CPU, not on ARM", "openvino"),
    "the fastest on NVIDIA's GPUs": ("GPU", "GPU", "tensorrt"),
}
_ENGINE = """\
backend: "{backend}"
max_batch_size: 8
input [ {{ name: "image" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] }} ]
output [ {{ name: "logits" data_type: TYPE_FP32 dims: [ 10 ] }} ]
"""


def repository(models: Path) -> None:
    """Copy one of the course's models per backend. The files of the two engines hold no model."""
    built = [name for name in MODELS.values() if not name.startswith("engine")]
    zoo.repository.build(models, only=built, bar=False)
    for name, backend in (("engine", "tensorrt"), ("engine_llm", "tensorrtllm")):
        home = models / name
        (home / "1").mkdir(parents=True, exist_ok=True)
        (home / "1/model.plan").write_bytes(b"an engine is built for one kind of GPU")
        (home / "config.pbtxt").write_text(_ENGINE.format(backend=backend), "utf-8")


def set_places(lab: Triton) -> None:
    """Set TRITON_BACKENDS, the folder of the server's backends, and TRITON_LOG, its log."""
    os.environ["TRITON_BACKENDS"] = str(assemble.find().backends)
    os.environ["TRITON_LOG"] = str(lab.log)


def loaded_here(table: pd.DataFrame) -> Premise:
    """Premise: the models that a laptop can serve were loaded."""
    lost = [name for name, row in table.iterrows() if row["here"] == "refused"]
    return Premise(not set(lost) - {"tensorrt", "tensorrtllm"}, f"these were refused: {lost}")


def all_tried(names: pd.DataFrame) -> Premise:
    """Premise: the server knew each of its own backends, so each refusal is about a name."""
    here = names[names["backend"].isin(list(MODELS))]
    return Premise(
        bool((here["only backend"] == "yes").all()),
        "the server refused backends that it has, so its refusals say nothing about the names",
    )


def which(table: pd.DataFrame) -> pd.DataFrame:
    """Show the slides' table of purposes beside upstream's support matrix and this machine.

    Args:
        table: one row per backend; `here` is stand-in, real or refused.
    """
    rows = {
        purpose: {
            "backend": backend,
            "slides": slides,
            "upstream, x86": upstream,
            "this server": table["here"].get(backend, "left out"),
        }
        for purpose, (slides, upstream, backend) in WHICH.items()
    }
    return pd.DataFrame(rows).T


def borrowed(models: Path) -> None:
    """Make the task's models: their configs name platforms of the backend slides' table.

    An existing folder stays as it is, because it may hold the reader's work.
    """
    if not (models / "ir").exists():
        copy(models, "digits_openvino", "ir", {'backend: "openvino"': IR})
    if not (models / "trees").exists():
        copy(models, "forest_xgboost", "trees", {'backend: "fil"': TREES})


IR = 'platform: "openvino_ir"'
TREES = 'platform: "xgboost"'
