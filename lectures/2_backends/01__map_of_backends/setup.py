"""For 01__map_of_backends: a model per backend, and the names of document 000's tables.

setup.repository(models)                        # one model per backend
setup.unknown(lab, 'platform: "openvino_ir"')   # the server's words; "" if it knows the name
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd

from workbook import measure, zoo
from workbook.common.errors import LoadError
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import copy
from workbook.server import Server, Triton, assemble
from workbook.server.deploy import is_stand_in

#: Document 000's table of relevance, as far as this server has the backend: its name → a model.
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
#: Document 000's table of names: backend and platform; "" where it says that there is none.
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
#: What the table of relevance calls out of date, and two of the examples that Triton has now.
OLD = ("fastertransformer", "stateful", "square", "custom", "identity", "repeat")
#: Document 000's last table, with what upstream's support matrix says: purpose → the document's
#: hardware, upstream's (x86, release 24.10), backend.
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
#: What Triton says of a name that it does not know, of a platform or of a backend.
_UNKNOWN = ("unexpected platform type", "unable to find backend library", "Could not determine")
_NAME = "tried"
#: What the notebook looks at in a config that the server completed.
FIELDS = ("platform", "runtime", "default_model_filename")


def repository(models: Path) -> None:
    """Copy one of the course's models per backend; the two engines are files without a model."""
    built = [name for name in MODELS.values() if not name.startswith("engine")]
    zoo.repository.build(models, only=built, bar=False)
    for name, backend in (("engine", "tensorrt"), ("engine_llm", "tensorrtllm")):
        home = models / name
        (home / "1").mkdir(parents=True, exist_ok=True)
        (home / "1/model.plan").write_bytes(b"an engine is built for one kind of GPU")
        (home / "config.pbtxt").write_text(_ENGINE.format(backend=backend), "utf-8")


def backends() -> pd.DataFrame:
    """The backend directory of this server: one row per backend, and the file that serves it."""
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
    """Whether a completed config is that of a "stand-in", by its `runtime`, or "real"."""
    return "stand-in" if is_stand_in(config) else "real"


def loaded_here(table: pd.DataFrame) -> Premise:
    """Premise: the models that a laptop can serve were loaded."""
    lost = [name for name, row in table.iterrows() if row["here"] == "refused"]
    return Premise(not set(lost) - {"tensorrt", "tensorrtllm"}, f"these were refused: {lost}")


def unknown(server: Triton, names: str) -> str:
    """Load a model without files, with these names in its config.

    Args:
        server: of `laboratory`.
        names: the config's lines that name backend and platform.

    Returns:
        The server's words if it does not know a name; "" if it knew them and missed the files.
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
    """What the server says of backends that it may not have.

    Returns:
        One row per backend: `refused` with the server's words, "" where it has the backend.
    """
    said = {name: unknown(server, f'backend: "{name}"') for name in backends}
    return pd.DataFrame({"refused": {k: v.rpartition("argument: ")[2] for k, v in said.items()}})


def all_tried(names: pd.DataFrame) -> Premise:
    """Premise: the server knew every backend of its own, so that its answers mean the names."""
    here = names[names["backend"].isin(list(MODELS))]
    return Premise(
        bool((here["only backend"] == "yes").all()), "the server refused backends that it has"
    )


def which(table: pd.DataFrame) -> pd.DataFrame:
    """Document 000's table of purposes beside upstream's support matrix and this machine.

    Args:
        table: one row per backend; `here` is stand-in, real or refused.
    """
    rows = {
        purpose: {
            "backend": backend,
            "document": document,
            "upstream, x86": upstream,
            "this server": table["here"].get(backend, "left out"),
        }
        for purpose, (document, upstream, backend) in WHICH.items()
    }
    return pd.DataFrame(rows).T


def borrowed(models: Path) -> None:
    """The task's models: their configs name platforms of document 000's table.

    A folder that is there stays as it is: it has the reader's work.
    """
    if not (models / "ir").exists():
        copy(models, "digits_openvino", "ir", {'backend: "openvino"': IR})
    if not (models / "trees").exists():
        copy(models, "forest_xgboost", "trees", {'backend: "fil"': TREES})


IR = 'platform: "openvino_ir"'
TREES = 'platform: "xgboost"'


def answers(server: Server, model: str, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first output of a model for some rows."""
    name = server.config(model)["input"][0]["name"]
    found = measure.send(server, model, [measure.Request("r", inputs={name: rows})]).iloc[0]
    first: npt.NDArray[Any] = next(iter(found["outputs"].values()))
    return first


def renamed(old: str, new: str) -> Callable[[Path], str]:
    """A mistake: the model's file has another name."""

    def change(home: Path) -> str:
        (home / "1" / old).rename(home / "1" / new)
        return f"The file is called `{new}`"

    return change
