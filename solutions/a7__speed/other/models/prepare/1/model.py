"""First step of the service: pictures become what the network takes."""

import numpy as np
import triton_python_backend_utils as pb_utils

GREY = np.array([0.299, 0.587, 0.114], np.float32)


def prepare(pictures):
    grey = pictures.astype(np.float32) @ GREY
    edged = np.pad(grey, ((0, 0), (1, 1), (1, 1)), "edge")
    rows = edged[:, :-2] + edged[:, 1:-1] + edged[:, 2:]
    smooth = (rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]) / 9
    small = smooth.reshape(-1, 16, 4, 16, 4).mean((2, 4))
    mean = small.mean((1, 2), keepdims=True)
    deviation = small.std((1, 2), keepdims=True)
    return ((small - mean) / (deviation + 1))[:, None].astype(np.float32)


class TritonPythonModel:
    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(r, "picture").as_numpy() for r in requests]
        parts = np.split(prepare(np.concatenate(given)), np.cumsum([len(g) for g in given])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("small", p)]) for p in parts]
