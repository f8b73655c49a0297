"""Passes what a request brings to memory.py, and returns the sum. An execution takes 20 ms."""

import time

import memory
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.02)
        return [self.answer(slot, request) for slot, request in enumerate(requests)]

    def answer(self, slot, request):
        brought = {t.name(): t.as_numpy().ravel()[0] for t in request.inputs()}
        total = memory.add(slot, brought) if brought["READY"] else 0  # else: an empty slot
        outputs = [
            pb.Tensor("SLOT", np.array([[slot]], np.int32)),
            pb.Tensor("SUM", np.array([[total]], np.float32)),
        ]
        return pb.InferenceResponse(outputs)
