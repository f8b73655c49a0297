"""Read the tensors of a request, and make the tensors of a response; names are upstream's."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from workbook.backends.base import BadRequest

#: Inputs that ask for further outputs beside the text.
EXTRAS = (
    "return_finish_reason",
    "return_cumulative_logprob",
    "return_logprobs",
    "return_num_input_tokens",
    "return_num_output_tokens",
)
INPUTS: tuple[dict[str, Any], ...] = (
    {"name": "text_input", "data_type": "TYPE_STRING", "dims": [1]},
    {"name": "stream", "data_type": "TYPE_BOOL", "dims": [1], "optional": True},
    {"name": "sampling_parameters", "data_type": "TYPE_STRING", "dims": [1], "optional": True},
    {"name": "exclude_input_in_output", "data_type": "TYPE_BOOL", "dims": [1], "optional": True},
    *({"name": n, "data_type": "TYPE_BOOL", "dims": [1], "optional": True} for n in EXTRAS),
)
OUTPUTS: tuple[dict[str, Any], ...] = (
    {"name": "text_output", "data_type": "TYPE_STRING", "dims": [-1]},
    {"name": "finish_reason", "data_type": "TYPE_STRING", "dims": [-1]},
    {"name": "cumulative_logprob", "data_type": "TYPE_FP32", "dims": [-1]},
    {"name": "logprobs", "data_type": "TYPE_STRING", "dims": [-1]},
    {"name": "num_input_tokens", "data_type": "TYPE_UINT32", "dims": [1]},
    {"name": "num_output_tokens", "data_type": "TYPE_UINT32", "dims": [-1]},
)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """A request, read from its tensors.

    Attributes:
        prompt: its text.
        stream: whether each piece of the answer is sent as soon as it is made.
        prepend: whether the answer begins with the prompt.
        parameters: the sampling parameters as JSON, or as the request's own parameters.
        extras: the inputs of EXTRAS that are true.
    """

    prompt: str
    stream: bool
    prepend: bool
    parameters: str
    extras: frozenset[str]

    @classmethod
    def read(cls, request: Any) -> Inputs:
        """Read a request's inputs.

        Raises:
            BadRequest: the prompt is not UTF-8, or two of the inputs contradict each other.
        """
        stream = bool(_first(request, "stream"))
        exclude = _first(request, "exclude_input_in_output")
        prepend = not stream if exclude is None else not exclude
        if stream and prepend:
            raise BadRequest("When streaming, `exclude_input_in_output` = False is not allowed.")
        parameters = _first(request, "sampling_parameters")
        return cls(
            prompt=_text(_first(request, "text_input"), "text_input"),
            stream=stream,
            prepend=prepend,
            parameters=request.parameters()
            if parameters is None
            else _text(parameters, "sampling_parameters"),
            extras=frozenset(name for name in EXTRAS if _first(request, name)),
        )


class Sent:
    """How much of an answer has been sent: characters, tokens, logprobs."""

    def __init__(self) -> None:
        self.first = True
        self.text: dict[int, int] = {}
        self.tokens: dict[int, int] = {}


def response(output: Any, inputs: Inputs, sent: Sent) -> Any:
    """A response with the part of vLLM's `RequestOutput` that is new since the last response."""
    before = output.prompt if inputs.prepend and sent.first else ""
    sent.first = False
    # vLLM may hold back the text of tokens that it has already given: count both separately.
    texts = [before + one.text[sent.text.get(i, 0) :] for i, one in enumerate(output.outputs)]
    starts = [sent.tokens.get(i, 0) for i in range(len(output.outputs))]
    sent.text = {i: len(one.text) for i, one in enumerate(output.outputs)}
    sent.tokens = {i: len(one.token_ids) for i, one in enumerate(output.outputs)}
    tensors = [pb_utils.Tensor("text_output", _strings(texts))]
    if "return_finish_reason" in inputs.extras:
        reasons = [str(one.finish_reason) for one in output.outputs]
        tensors.append(pb_utils.Tensor("finish_reason", _strings(reasons)))
    if "return_cumulative_logprob" in inputs.extras:
        sums = [one.cumulative_logprob for one in output.outputs]
        tensors.append(pb_utils.Tensor("cumulative_logprob", np.array(sums, np.float32)))
    if "return_logprobs" in inputs.extras:
        found = [_logprobs(one, start) for one, start in zip(output.outputs, starts, strict=True)]
        tensors.append(pb_utils.Tensor("logprobs", _strings(found)))
    if "return_num_input_tokens" in inputs.extras:
        count = np.array([len(output.prompt_token_ids)], np.uint32)
        tensors.append(pb_utils.Tensor("num_input_tokens", count))
    if "return_num_output_tokens" in inputs.extras:
        news = [
            len(one.token_ids) - start for one, start in zip(output.outputs, starts, strict=True)
        ]
        tensors.append(pb_utils.Tensor("num_output_tokens", np.array(news, np.uint32)))
    return pb_utils.InferenceResponse(tensors)


def _logprobs(one: Any, start: int) -> str:
    """The log probabilities as JSON: a list, per token {token id: logprob, rank, decoded_token}."""
    if one.logprobs is None:
        return "null"
    return json.dumps(
        [
            {
                token: {"logprob": p.logprob, "rank": p.rank, "decoded_token": p.decoded_token}
                for token, p in entry.items()
            }
            for entry in one.logprobs[start:]
        ]
    )


def _first(request: Any, name: str) -> Any:
    """An input's first element; None if the request leaves the input out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy().ravel()[0]


def _text(value: Any, name: str) -> str:
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise BadRequest(f"{name} is not UTF-8: {error}") from None


def _strings(texts: list[str]) -> Any:
    return np.array([text.encode("utf-8") for text in texts], dtype=np.object_)
