"""A Python model to begin with: one computation for all requests, one error for a bad one."""

import json

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.smoothing = float(parameters["smoothing"]["string_value"])

    def execute(self, requests):
        rows = [pb.get_input_tensor_by_name(r, "counts").as_numpy() for r in requests]
        joined = np.concatenate(rows) + np.float32(self.smoothing)
        shares = joined / joined.sum(axis=1, keepdims=True)
        parts = np.split(shares, np.cumsum([len(x) for x in rows])[:-1])
        return [self.response(x, part) for x, part in zip(rows, parts)]

    def response(self, counts, shares):
        if (counts < 0).any():
            return pb.InferenceResponse(error=pb.TritonError("a count is negative"))
        return pb.InferenceResponse([pb.Tensor("shares", shares)])
