"""A Python model to begin with. Change what follows (1), (2) and (3), and config.pbtxt."""

import json

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):  # (1) once per process: read parameters, load files
        parameters = json.loads(args["model_config"])["parameters"]
        self.smoothing = np.float32(parameters["smoothing"]["string_value"])

    def fault(self, x):  # (2) what is wrong with a request's rows; an empty text: nothing
        return "a count is negative" if (x < 0).any() else ""

    def compute(self, rows):  # (3) once for the rows of all requests; an exception fails them all
        counts = rows + self.smoothing
        return counts / counts.sum(axis=1, keepdims=True)

    def execute(self, requests):  # joins the good rows, computes, and cuts the result up again
        inputs = [pb.get_input_tensor_by_name(r, "counts").as_numpy() for r in requests]
        faults = [self.fault(x) for x in inputs]
        good = [x for x, fault in zip(inputs, faults) if not fault]
        parts = iter(())
        if good:
            ends = np.cumsum([len(x) for x in good])[:-1]
            parts = iter(np.split(self.compute(np.concatenate(good)), ends))
        return [self.refuse(f) if f else self.answer(next(parts)) for f in faults]

    def answer(self, shares):
        return pb.InferenceResponse([pb.Tensor("shares", shares)])

    def refuse(self, fault):
        return pb.InferenceResponse(error=pb.TritonError(fault))
