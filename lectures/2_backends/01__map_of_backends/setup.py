"""For 01__map_of_backends: a model per backend, and the backend slides' table of purposes.

setup.repository(models)       # one model per backend
setup.which(matrix)            # which backend to take when, and what this server has
setup.try_names(lab)           # the backend slides' names, each in a config of its own
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pandas as pd

from workbook import zoo
from workbook.common.errors import Refusal
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
#: The backend slides' last table, its hardware by upstream's support matrix (x86, release 24.10):
#: purpose → hardware, backend.
WHICH = {
    "preparing images and sound": ("CPU, GPU", "dali"),
    "logic that fits no other form": ("CPU, GPU", "python"),
    "ensembles of trees": ("CPU, GPU", "fil"),
    "PyTorch models as they are": ("CPU, GPU", "pytorch"),
    "TensorFlow models as they are": ("CPU, GPU; until 25.02", "tensorflow"),
    "language models, quickly set up": ("CPU, GPU", "vllm"),
    "models in ONNX": ("CPU, GPU", "onnxruntime"),
    "language models on NVIDIA's GPUs": ("GPU", "tensorrtllm"),
    "models without a GPU": ("CPU (not ARM)", "openvino"),
    "the fastest on NVIDIA's GPUs": ("GPU", "tensorrt"),
}
#: The backend slides' table of names: pairs of backend and platform; "" where it has none.
NAMES = [
    ("dali", ""), ("python", "python"), ("fil", "xgboost"), ("fil", "lightgbm"),
    ("fil", "treelite"), ("pytorch", "pytorch_libtorch"),
    ("tensorflow", "tensorflow_savedmodel"), ("tensorflow", "tensorflow_graphdef"),
    ("onnxruntime", "onnxruntime_onnx"), ("openvino", "openvino_ir"), ("", "tensorrt_llm"),
    ("tensorrt", "tensorrt_plan"), ("ensemble", ""),
]  # fmt: skip
#: Backends that are out of date or examples.
OLD = ("fastertransformer", "stateful", "square", "custom", "identity", "repeat")
#: A refusal with one of these says that the server does not know a name.
_UNKNOWN = ("unexpected platform type", "unable to find backend library", "Could not determine")
_TENSORS = """
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
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
    shutil.rmtree(models / "digits_onnx/2")  # one version, so that a refusal names one


def set_places(lab: Triton) -> None:
    """Set TRITON_BACKENDS, the folder of the server's backends, and TRITON_LOG, its log."""
    os.environ["TRITON_BACKENDS"] = str(assemble.find().backends)
    os.environ["TRITON_LOG"] = str(lab.log)


def loaded_here(table: pd.DataFrame) -> Premise:
    """Premise: the models that a laptop can serve were loaded."""
    lost = [name for name, row in table.iterrows() if row["here"] == "refused"]
    return Premise(not set(lost) - {"tensorrt", "tensorrtllm"}, f"these were refused: {lost}")


def refusal(server: Triton, lines: str) -> str:
    """Load a model with these lines in its config; returns what the client and the log say.

    The model has no files, so it is refused in any case.
    """
    home = server.repository / "tried"
    (home / "1").mkdir(parents=True, exist_ok=True)
    (home / "config.pbtxt").write_text(lines + _TENSORS, "utf-8")
    if '"python"' in lines:  # without a file, the Python backend of 24.10 waits for ever
        (home / "1/model.py").write_text("import this_is_missing", "utf-8")
    begin = server.log_size()
    try:
        server.load("tried")
    except Refusal as error:
        return f"{error.message}\n{server.log_text(begin)}"
    finally:
        shutil.rmtree(home)
    server.unload("tried", report=lambda _: None)
    return ""


def knows(server: Triton, lines: str) -> bool:
    """Whether the refusal of a model with these lines is about something else than a name."""
    reason = refusal(server, lines)
    return not any(words in reason for words in _UNKNOWN)


def try_names(server: Triton) -> pd.DataFrame:
    """Load a model with each name of `NAMES`, as a backend and as a platform alone."""
    rows = []
    for backend, platform in NAMES:
        if platform:
            alone = knows(server, f'platform: "{platform}"')
            known = bool(backend) and knows(server, f'backend: "{backend}"')
            rows.append({
                "backend": backend or "(none)",
                "platform": platform,
                "platform alone": "accepted" if alone else "refused",
                "backend alone": "accepted" if known else "refused",
            })  # fmt: skip
    return pd.DataFrame(rows).set_index("platform")


def mixed(server: Triton) -> bool:
    """Whether a backend is accepted with another backend's platform."""
    return knows(server, 'backend: "fil"\nplatform: "tensorrt_plan"')


def gone(server: Triton) -> bool:
    """Whether the server has none of the backends `OLD`."""
    words = "unable to find backend library"
    return all(words in refusal(server, f'backend: "{name}"') for name in OLD)


def all_tried(names: pd.DataFrame) -> Premise:
    """Premise: the server knew each of its own backends, so each refusal is about a name."""
    here = names[names["backend"].isin(list(MODELS))]
    return Premise(
        bool((here["backend alone"] == "accepted").all()),
        "the server refused backends that it has, so its refusals say nothing about the names",
    )


def which(table: pd.DataFrame) -> pd.DataFrame:
    """Show which backend to take for what, on which hardware, and what this server has.

    Args:
        table: one row per backend; `here` is stand-in, library or refused.
    """
    rows = {
        purpose: {
            "backend": backend,
            "runs on": hardware,
            "this server": table["here"].get(backend, "not tried"),
        }
        for purpose, (hardware, backend) in WHICH.items()
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
