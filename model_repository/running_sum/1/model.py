"""A model with a state: it keeps one number per sequence from request to request.

The sequence batcher sends all requests of a sequence to the same instance, in order, and adds four
inputs: START, END, READY, and CORRID, the number of the sequence.
"""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        batching = json.loads(args["model_config"])["sequence_batching"]
        self.idle = int(batching["max_sequence_idle_microseconds"]) / 1e6
        self.sums = {}  # CORRID → the sum so far, and when it was used last

    def execute(self, requests):
        responses = []
        for request in requests:
            value, start, end, ready, sequence = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]
                for name in ("value", "START", "END", "READY", "CORRID")
            )
            total = np.float32(0)
            if ready:  # not ready: a slot of the batch without a request
                total = self.add(int(sequence), value, bool(start), bool(end))
            output = pb_utils.Tensor("sum", np.array([[total]], np.float32))
            responses.append(pb_utils.InferenceResponse([output]))
        return responses

    def add(self, sequence, value, start, end):
        now = time.monotonic()
        if start:
            self.forget(now)
            self.sums[sequence] = (np.float32(0), now)
        total = self.sums[sequence][0] + value
        if end:
            del self.sums[sequence]
        else:
            self.sums[sequence] = (total, now)
        return total

    def forget(self, now):
        """Drop sequences that never ended; the server has given their slots to others by now."""
        self.sums = {s: (x, t) for s, (x, t) in self.sums.items() if now - t < 2 * self.idle}
