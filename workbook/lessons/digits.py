"""The finished digit classifier of 01__first_model, and a slow one that is more careful."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...server import Server
from .first_model import save_weights

CONFIG = """\
backend: "python"
max_batch_size: 8
input [ { name: "image" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] } ]
output [ { name: "scores" data_type: TYPE_FP32 dims: [ 10 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.load(__file__.replace("model.py", "weights.npy"))

    def execute(self, requests):
        pictures = [pb.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        scores = [self.scores(x.reshape(-1, 64)) for x in pictures]
        return [pb.InferenceResponse([pb.Tensor("scores", y)]) for y in scores]

    def scores(self, rows):
        return rows @ self.weights[:64] + self.weights[64]
"""
_CAREFUL = '''\
"""The mean score of many noisy copies of each picture. All such models share one core."""

import os

import numpy as np
import triton_python_backend_utils as pb

COPIES = 12_000


class TritonPythonModel:
    def initialize(self, args):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
        self.weights = np.load(__file__.replace("model.py", "weights.npy"))

    def execute(self, requests):
        pictures = [pb.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        scores = [np.array([self.score(row) for row in x.reshape(-1, 64)]) for x in pictures]
        return [pb.InferenceResponse([pb.Tensor("scores", y)]) for y in scores]

    def score(self, row):
        noise = np.random.default_rng(0).normal(0, 0.1, (COPIES, 64)).astype(np.float32)
        return (row + noise.mean(axis=0)) @ self.weights[:64] + self.weights[64]
'''


def add(models: Path, name: str = "digits", *, careful: bool = False) -> str:
    """Write a digit classifier into a repository.

    Args:
        models: the repository's folder.
        name: the model's name.
        careful: whether it takes the mean over noisy copies of each picture. That keeps a core busy
            for some ten milliseconds; all careful models run on the same core.

    Returns:
        The text of its config.pbtxt.

    Example:
        print(digits_model.add(models))
    """
    save_weights(models / name / "1/weights.npy")
    (models / name / "1/model.py").write_text(_CAREFUL if careful else _MODEL, "utf-8")
    (models / name / "config.pbtxt").write_text(CONFIG, "utf-8")
    return CONFIG


def ask(server: Server, model: str, pictures: Any) -> Any:
    """Send pictures in one request over HTTP, and return their scores.

    Args:
        server: where the model is.
        model: its name.
        pictures: an array (n, 1, 8, 8) of values from 0 to 1.

    Returns:
        An array (n, 10).

    Raises:
        ServerError: the server refused the request.

    Example:
        digits_model.ask(lab, "digits", pictures[:8]).argmax(1)
    """
    entry = {"name": "image", "shape": list(pictures.shape), "datatype": "FP32"}
    body = {"inputs": [{**entry, "data": pictures.ravel().tolist()}]}
    answer = server.request("POST", f"/v2/models/{model}/infer", json=body)
    return np.array(answer["outputs"][0]["data"], np.float32).reshape(len(pictures), -1)
