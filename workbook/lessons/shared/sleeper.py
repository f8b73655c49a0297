"""A model that sleeps: each execution takes the same time, on any machine and for any batch.

So a timeline shows the scheduler's decisions alone.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..premises import Premise

MS = 20  # milliseconds of one execution

_MODEL = """\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep({seconds})
        rows = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", 2 * x)]) for x in rows]
"""
_CONFIG = """\
backend: "python"
max_batch_size: {most}
input [ {{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""


def add(models: Path, name: str, batching: str, *, ms: float = MS, most: int = 8) -> str:
    """Write a sleeping model into a repository.

    Args:
        models: the repository's folder.
        name: the model's name.
        batching: the batching section of its config, e.g. "dynamic_batching { }".
        ms: the sleep of an execution, in milliseconds.
        most: max_batch_size.

    Returns:
        The text of its config.pbtxt.

    Example:
        print(sleeper.add(models, "eager", "dynamic_batching { }"))
    """
    config = _CONFIG.format(most=most) + batching + "\n"
    (models / name / "1").mkdir(parents=True, exist_ok=True)
    (models / name / "config.pbtxt").write_text(config, "utf-8")
    (models / name / "1" / "model.py").write_text(_MODEL.format(seconds=ms / 1000), "utf-8")
    return config


def slept(places: pd.DataFrame) -> Premise:
    """Premise: no execution of a sleeping model took much longer than it sleeps.

    Args:
        places: a run's table of executions; its model was added with `ms=MS`.
    """
    longest = float((places["end_ms"] - places["start_ms"]).max())
    return Premise(longest < MS + 10, f"an execution took {longest:.0f} ms instead of {MS}")
