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
