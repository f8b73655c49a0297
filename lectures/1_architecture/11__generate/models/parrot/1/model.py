"""A decoupled model that sends what speech.py makes, in pieces or, if the client wants, whole."""

import json
import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.append(str(Path(__file__).parent))
import speech


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            text, sampling = value(request, "text_input"), value(request, "sampling_parameters")
            whole = None if value(request, "stream", True) else Whole(sender)
            try:
                speech.speak(text.decode(), json.loads(sampling or "{}"), whole or sender)
                if whole:
                    whole.finish()
            except Exception as error:
                failed = pb_utils.TritonError(f"{type(error).__name__}: {error}")
                sender.send(pb_utils.InferenceResponse([], failed))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class Whole:
    """Takes the place of a sender where the client wants one response: joins the pieces."""

    def __init__(self, sender):
        self.sender, self.found = sender, {"text_output": b"", "finish_reason": b""}

    def send(self, response):
        for tensor in response.output_tensors():
            self.found[tensor.name()] += tensor.as_numpy().ravel()[0]

    def finish(self):
        tensors = [pb_utils.Tensor(n, np.array([v], object)) for n, v in self.found.items()]
        self.sender.send(pb_utils.InferenceResponse(tensors))


def value(request, name, otherwise=b""):
    """The only element of an input tensor, or `otherwise` if the request has no such tensor."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return tensor.as_numpy().ravel()[0] if tensor is not None else otherwise
