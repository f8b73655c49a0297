"""Works for the requested time, one request at a time, and stops when it is cancelled.

It answers with its place in the order of execution, and with when it began and ended
(seconds of the monotonic clock, which all processes of the machine share).
"""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.done = self.cancelled = 0

    def execute(self, requests):
        return [self.work(request) for request in requests]

    def work(self, request):
        began = time.monotonic()
        seconds = float(pb_utils.get_input_tensor_by_name(request, "seconds").as_numpy()[0, 0])
        while time.monotonic() - began < seconds:
            time.sleep(0.005)
            if request.is_cancelled():
                self.cancelled += 1
                error = pb_utils.TritonError("stopped", pb_utils.TritonError.CANCELLED)
                return pb_utils.InferenceResponse(error=error)
        self.done += 1
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("place", np.array([[self.done]], np.int32)),
                pb_utils.Tensor("cancelled_so_far", np.array([[self.cancelled]], np.int32)),
                pb_utils.Tensor("began_ended", np.array([[began, time.monotonic()]])),
            ]
        )
