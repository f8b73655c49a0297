"""The running total of each sequence, with the sequence that it belongs to."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.totals = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        def read(name):
            return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]

        if not read("READY"):  # an empty slot of the direct scheduler
            return pb_utils.InferenceResponse([])
        control = pb_utils.get_input_tensor_by_name(request, "CORRID")
        who = request.correlation_id() if control is None else read("CORRID")
        if read("START"):
            self.totals[who] = 0
        self.totals[who] += int(read("value"))
        total = np.array([[self.totals[who]]], dtype=np.int32)
        if read("END"):
            del self.totals[who]
        shown = who if isinstance(who, bytes) else str(who).encode()
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("total", total),
                pb_utils.Tensor("who", np.array([[shown]], dtype=object)),
            ]
        )
