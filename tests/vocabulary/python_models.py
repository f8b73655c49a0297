"""Small Python models for the tests of words: right ones, and ones with one mistake."""

from __future__ import annotations

from textwrap import dedent, indent

#: `{body}` runs for each request. `x` is its input, and `answer(y=…)` appends its response.
_MODEL = """\
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.state = {{}}
        self.version = int(args["model_version"])

    def execute(self, requests):
        responses = []

        def answer(**outputs):
            tensors = [pb_utils.Tensor(name, np.asarray(value)) for name, value in outputs.items()]
            responses.append(pb_utils.InferenceResponse(tensors))

        {before}
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
{body}
        return responses
"""


def model(body: str, *, before: str = "pass") -> dict[str, str]:
    """The files of a model: `body` handles one request, `before` runs once per execution."""
    text = _MODEL.format(before=before, body=indent(dedent(body).strip(), " " * 12))
    return {"1/model.py": text}


def config(inputs: str = "x FP32 2", outputs: str = "y FP32 2", *more: str, batch: int = 8) -> str:
    """The text of a config.pbtxt. Tensors are `name TYPE dim dim`, with commas between."""
    lines = ['backend: "python"', f"max_batch_size: {batch}"]
    for side, tensors in (("input", inputs), ("output", outputs)):
        for tensor in filter(None, tensors.split(",")):
            name, kind, *dims = tensor.split()
            stated = f"name: {name!r} data_type: TYPE_{kind} dims: [ {', '.join(dims)} ]"
            lines.append(f"{side} {{ {stated} }}".replace("'", '"'))
    return "\n".join([*lines, "instance_group { count: 1 kind: KIND_CPU }", *more]) + "\n"


#: `{body}` runs for each request. `n` is its input, `send(value)` sends a response, and `cancelled`
#: says whether the client has left. `end()` ends the stream; it is called if the body does not call
#: it.
_STREAMING = """\
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            n = int(pb_utils.get_input_tensor_by_name(request, "n").as_numpy().ravel()[0])
            sender = self.sender = request.get_response_sender()  # kept: a lost one is an error
            cancelled = request.is_cancelled

            def response(value):
                return pb_utils.InferenceResponse([pb_utils.Tensor("k", {array})])

            def send(value):
                sender.send(response(value))

            def end():
                sender.send(flags=FINAL)

{body}
            {end}
        return None
"""


def streaming(body: str, *, texts: bool = False, end: bool = True) -> dict[str, str]:
    """The files of a model that answers `n` with a stream of `k`."""
    array = "np.array([value], object)" if texts else "np.array([value], np.int32)"
    text = _STREAMING.format(
        body=indent(dedent(body).strip(), " " * 12), array=array, end="end()" if end else "pass"
    )
    return {"1/model.py": text}


#: The config of such a model.
STREAMING = config(
    "n INT32 1", "k INT32 1", "model_transaction_policy { decoupled: true }", batch=0
)
STREAMING_TEXTS = STREAMING.replace('"k" data_type: TYPE_INT32', '"k" data_type: TYPE_STRING')
