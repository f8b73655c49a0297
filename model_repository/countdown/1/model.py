"""A decoupled model: many responses to one request, the last one with the final flag."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

MOST = 10_000  # answers to one request
LONGEST = 10_000  # ms between two answers


class TritonPythonModel:
    def initialize(self, args):
        self.threads = set()

    def execute(self, requests):
        """Each request is answered in its own thread, so that a slow one delays no other."""
        for request in requests:
            thread = threading.Thread(target=self.count, args=(request,))
            self.threads.add(thread)
            thread.start()

    def finalize(self):
        for thread in list(self.threads):
            thread.join()

    def count(self, request):
        sender = request.get_response_sender()
        try:
            start, delay = (number(request, name) for name in ("start", "delay_ms"))
            for left in range(start, 0, -1):
                if sender.is_cancelled():
                    break
                output = pb_utils.Tensor("count", np.array([left], np.int32))
                sender.send(pb_utils.InferenceResponse([output]))
                time.sleep(delay / 1000)
        except ValueError as error:
            failure = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
            sender.send(pb_utils.InferenceResponse([], failure))
        finally:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            self.threads.discard(threading.current_thread())


def number(request, name):
    """An input's value; 0 where it is left out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    value = int(tensor.as_numpy()[0]) if tensor is not None else 0
    most = MOST if name == "start" else LONGEST
    if not 0 <= value <= most:
        raise ValueError(f"{name} is {value}; it must lie between 0 and {most}")
    return value
