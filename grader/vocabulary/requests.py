"""Requests and answers in tritonclient's form. `Probe` sends them.

An answer comes from a student's model, so it can lack an output, be unreadable or be of a wrong
type. Each of these becomes a `Failure` with a sentence.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from workbook.common.errors import RequestError
from workbook.server.explain import explain

from .failure import Failure

Array = npt.NDArray[Any]
Inputs = Mapping[str, Any]

#: The beginning of a place in a client's request, as the catalogue of messages names it. A check's
#: own requests are right, so the catalogue's advice to their sender helps no student.
_OF_REQUEST = re.compile(r'Infer|infer\(|inputs$|model_version|set_data|sequence_id|"')


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
        """What to raise where the request should have been answered.

        The server's message stands in the rationale, above the help. So the help does not say "See
        below." for a message that the catalogue does not know.
        """
        failed = f"A request to {model} failed."
        parts = [failed]
        known = explain(self.message, model=model)
        if not (isinstance(known, RequestError) and known.rule):
            help = f"Correct the files of {model}, and deploy the folder again."
            first = "Read the server's message: it says what does not fit."
            if not self.message.strip():
                first = "Look at the end of the server's log: `workbook status` says where it is."
            help = f"{first} {help}"
        elif _OF_REQUEST.match(known.where):
            parts.append(known.what)
            help = (
                "The check sends such requests as the task describes. Compare the inputs, outputs "
                f"and versions in the config of {model} with the task, and deploy the folder again."
            )
        else:
            place = f" ({known.where})." if known.where else "."
            parts.append(known.what.removesuffix(".") + place)
            help = known.todo
        parts.append(
            f"The server's message: {self.message[:500]}"
            if self.message.strip()
            else "The server gives no message."
        )
        return Failure(" ".join(parts), help=help, safe="A request to the model failed.")


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
                help="Make the array of the type that the config states, with "
                f"array.astype({_numpy_name(stated)}). `workbook status` names the line.",
            )
        try:
            value = result.as_numpy(name)
        except (InferenceServerException, ValueError, TypeError, UnicodeError) as problem:
            raise Failure(
                f"The answer of {model} could not be read: {problem}",
                help=f"Look at what model.py puts into {name}: a BYTES output is an object array "
                "of bytes.",
            ) from None
        if value is None:
            raise Failure(
                f"The answer of {model} holds no data for {name!r}.",
                help=f"The model must give {name} a tensor in each answer.",
            )
        found[name] = value
    return found


def _numpy_name(kind: str) -> str:
    """How code names numpy's type for a tensor's: `np.float32`."""
    from tritonclient.utils import triton_to_np_dtype

    return f"np.{np.dtype(triton_to_np_dtype(kind)).type.__name__}"
