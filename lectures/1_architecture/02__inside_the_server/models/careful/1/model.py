"""The mean score of many noisy copies of each picture. All such models share one CPU core."""

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
