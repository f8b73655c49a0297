"""Repeats the words of a text: one response per word when streaming, otherwise one for all.

The request parameter `join` goes between the words; the text "fail" is refused.
"""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.say(request)

    def say(self, request):
        def read(name, default):
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            return default if tensor is None else tensor.as_numpy().ravel()[0]

        sender = request.get_response_sender()
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        words = read("text_input", b"").decode().split()[: int(read("limit", 1000))]
        if words == ["fail"]:
            error = pb_utils.TritonError("these words are not said")
            sender.send(pb_utils.InferenceResponse(error=error), flags=final)
            return
        if not read("stream", False):
            words = [json.loads(request.parameters()).get("join", " ").join(words)]
        for place, word in enumerate(words):
            text = np.array([word.encode()], dtype=object)
            sender.send(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("text_output", text),
                        pb_utils.Tensor("place", np.array([place], np.int32)),
                    ]
                )
            )
        sender.send(flags=final)
