"""Counts down: one response per number, one thread per request; stops when it is cancelled."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.cancelled = 0
        self.threads = []

    def execute(self, requests):
        for request in requests:
            thread = threading.Thread(target=self.count, args=(request,))
            thread.start()
            self.threads.append(thread)

    def count(self, request):
        def read(name, default):
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            return default if tensor is None else tensor.as_numpy()[0]

        sender = request.get_response_sender()
        pause, fail_at = float(read("pause", 0)), int(read("fail_at", -1))
        for number in range(int(read("from", 0)), 0, -1):
            time.sleep(pause)
            if sender.is_cancelled():
                self.cancelled += 1
                break
            if number == fail_at:
                error = pb_utils.TritonError(f"the count broke at {number}")
                sender.send(pb_utils.InferenceResponse(error=error))
                continue
            values = {"number": number, "cancelled_so_far": self.cancelled}
            sender.send(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor(k, np.array([v], np.int32)) for k, v in values.items()]
                )
            )
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        for thread in self.threads:
            thread.join()
