"""For 01__map_of_backends: a model per backend, and the names in the backend slides' tables.

setup.repository(models)                        # one model per backend
setup.unknown(lab, 'platform: "openvino_ir"')   # the server's message; "" if it knows the name
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbook import zoo
from workbook.common.errors import LoadError
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import copy
from workbook.server import Triton, assemble
from workbook.server.deploy import is_stand_in

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
#: The backend slides' table of names: backend and platform; "" where the table has none.
NAMES = (
    ("dali", ""),
    ("python", "python"),
    ("fil", "xgboost"),
    ("fil", "lightgbm"),
    ("fil", "treelite"),
    ("pytorch", "pytorch_libtorch"),
    ("tensorflow", "tensorflow_savedmodel"),
    ("tensorflow", "tensorflow_graphdef"),
    ("onnxruntime", "onnxruntime_onnx"),
    ("openvino", "openvino_ir"),
    ("", "tensorrt_llm"),
    ("tensorrt", "tensorrt_plan"),
    ("ensemble", ""),
)
#: Backends that the table of relevance calls out of date, and two of Triton's example backends.
OLD = ("fastertransformer", "stateful", "square", "custom", "identity", "repeat")
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
_TINY = """\
{names}
max_batch_size: 4
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }} ]
"""
_ENGINE = """\
backend: "{backend}"
max_batch_size: 8
input [ {{ name: "image" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] }} ]
output [ {{ name: "logits" data_type: TYPE_FP32 dims: [ 10 ] }} ]
"""
#: Parts of Triton's messages about an unknown platform or backend.
_UNKNOWN = ("unexpected platform type", "unable to find backend library", "Could not determine")
_NAME = "tried"
#: The fields that the notebook shows of a config that the server completed.
FIELDS = ("platform", "runtime", "default_model_filename")


def repository(models: Path) -> None:
    """Copy one of the course's models per backend. The files of the two engines hold no model."""
    built = [name for name in MODELS.values() if not name.startswith("engine")]
    zoo.repository.build(models, only=built, bar=False)
    for name, backend in (("engine", "tensorrt"), ("engine_llm", "tensorrtllm")):
        home = models / name
        (home / "1").mkdir(parents=True, exist_ok=True)
        (home / "1/model.plan").write_bytes(b"an engine is built for one kind of GPU")
        (home / "config.pbtxt").write_text(_ENGINE.format(backend=backend), "utf-8")


def backends() -> pd.DataFrame:
    """List this server's backend directory: one row per backend, with the file that serves it."""
    folder = assemble.find().backends
    rows = {}
    for home in sorted(path for path in folder.iterdir() if path.is_dir()):
        library = [file.name for file in home.glob(f"libtriton_{home.name}.so")]
        rows[home.name] = {
            "served by": (library or ["model.py"])[0],
            "is": "NVIDIA's library" if library else "a program in Python",
        }
    return pd.DataFrame(rows).T


def computed_by(config: dict[str, Any]) -> str:
    """Return "stand-in" or "real": which of the two serves a model, by its completed config."""
    return "stand-in" if is_stand_in(config) else "real"


def loaded_here(table: pd.DataFrame) -> Premise:
    """Premise: the models that a laptop can serve were loaded."""
    lost = [name for name, row in table.iterrows() if row["here"] == "refused"]
    return Premise(not set(lost) - {"tensorrt", "tensorrtllm"}, f"these were refused: {lost}")


def unknown(server: Triton, names: str) -> str:
    """Load a model without files, with these names in its config.

    Args:
        server: from `laboratory`.
        names: the config's lines that name backend and platform.

    Returns:
        The server's message if it does not know a name; "" if it knows them and lacks the files.
    """
    home = server.repository / _NAME
    (home / "1").mkdir(parents=True, exist_ok=True)
    if '"python"' in names:  # a Python model without its file would wait for ever
        (home / "1/model.py").write_text("import this_is_missing\n", "utf-8")
    (home / "config.pbtxt").write_text(_TINY.format(names=names), "utf-8")
    try:
        server.load(_NAME)
        server.unload(_NAME)
    except LoadError as error:
        found = [line for line in error.message.splitlines() if any(w in line for w in _UNKNOWN)]
        return found[0] if found else ""
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return ""


def words_on(server: Triton, backends: Sequence[str]) -> pd.DataFrame:
    """Ask the server about backends that it may not have.

    Returns:
        One row per backend: `refused` with the server's message, "" where it has the backend.
    """
    messages = {name: unknown(server, f'backend: "{name}"') for name in backends}
    refused = {name: text.rpartition("argument: ")[2] for name, text in messages.items()}
    return pd.DataFrame({"refused": refused})


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
