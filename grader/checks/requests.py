"""Requests and answers in tritonclient's form. `Probe` sends them.

An answer comes from a student's model, so it can lack an output, be unreadable or be of a wrong
type. Each of these becomes a `Failure` with a sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from workbook.server.explain import explain

from .failure import Failure

Array = npt.NDArray[Any]
Inputs = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A request that the server, or the model, answered with an error.

    Attributes:
        message: the error's text.
        status: gRPC's name of its status, such as `INVALID_ARGUMENT`.
    """

    message: str
    status: str

    def failure(self, model: str) -> Failure:
        """What to raise where the request should have been answered."""
        known = explain(self.message, model=model)
        what = f"A request to {model} failed. {known.what} The server's message: "
        return Failure(
            what + self.message[:500], help=known.todo, unquoted=f"A request to {model} failed."
        )


def tensors(inputs: Inputs) -> list[Any]:
    """The inputs of a request; the arrays' dtypes decide the tensors' data types."""
    import tritonclient.grpc as client
    from tritonclient.utils import np_to_triton_dtype

    made = []
    for name, value in inputs.items():
        array = np.ascontiguousarray(value)
        tensor = client.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def wanted(names: Iterable[str], classes: int = 0) -> list[Any] | None:
    """The outputs that a request asks for; None: all."""
    import tritonclient.grpc as client

    return [client.InferRequestedOutput(name, class_count=classes) for name in names] or None


def refusal(error: Any) -> Refusal:
    """An error of tritonclient as data."""
    message = str(error.message() if hasattr(error, "message") else error)
    status = str(error.status() or "") if hasattr(error, "status") else ""
    return Refusal(message, status.removeprefix("StatusCode."))


def read(
    model: str, result: Any, names: Iterable[str], declared: Mapping[str, str]
) -> dict[str, Array]:
    """The outputs of an answer by name.

    Args:
        model: the model's name, for messages.
        result: tritonclient's `InferResult`.
        names: the outputs that must be there; none: all that the answer has.
        declared: the data type that the config states for an output, such as `TYPE_FP32`.

    Raises:
        Failure: an output is missing, cannot be read, or has another type.
    """
    from tritonclient.utils import InferenceServerException

    kinds = {output.name: output.datatype for output in result.get_response().outputs}
    found: dict[str, Array] = {}
    for name in list(names) or kinds:
        if name not in kinds:
            raise Failure(
                f"The answer of {model} has no output {name!r}.",
                help="Compare the names in your config.pbtxt with those in the task.",
            )
        stated = declared.get(name, "").removeprefix("TYPE_").replace("STRING", "BYTES")
        if stated and stated != kinds[name]:
            raise Failure(
                f"{model} answers {name} as {kinds[name]}; its config says TYPE_{stated}.",
                help="Make the array of the type that the config states.",
            )
        try:
            value = result.as_numpy(name)
        except (InferenceServerException, ValueError, TypeError, UnicodeError) as problem:
            raise Failure(f"The answer of {model} could not be read: {problem}") from None
        if value is None:
            raise Failure(f"The answer of {model} holds no data for {name!r}.")
        found[name] = value
    return found
