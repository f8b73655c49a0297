"""Look into the ONNX file that a model is served from: which numbers it holds, and in which type.

    for held in onnx_file.numbers(server, "eights_fp16"):
        held.type, held.values.size         # "FLOAT16", 144

The file is read as data, in a process of its own; nothing in it runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import require, untrusted
from .failure import Failure
from .probe import Array, Probe

#: The most bytes of a file that is read.
LARGEST = 64 << 20
_NAME = "model.onnx"


@dataclasses.dataclass(frozen=True)
class Numbers:
    """A tensor that a file holds: a weight, or any other constant.

    Attributes:
        type: the type in which it is stored, as ONNX calls it: "FLOAT", "FLOAT16", "INT64".
        values: its numbers: float64, in the tensor's own shape.
        name: its own, or that of the first output of the node that holds it; "" for neither.
    """

    type: str
    values: Array
    name: str = ""

    @property
    def is_floating(self) -> bool:
        """Whether its type has fractions."""
        return "FLOAT" in self.type or self.type == "DOUBLE"


def numbers(server: Probe, model: str, *, help: str = "") -> list[Numbers]:
    """Every tensor in the file that a model is served from, wherever in the graph it stands.

    Args:
        server: the check's probe.
        model: the model's name; one version of it is served, from `1/model.onnx`.
        help: what to look at.

    Raises:
        Failure: another backend, version or file is served; or the file cannot be read, or keeps
            its weights in a second file.
    """
    return numbers_in(content(server, model, help=help), f"{model}/1/{_NAME}", help=help)


def numbers_in(data: bytes, where: str, *, help: str = "") -> list[Numbers]:
    """Every tensor in a file's content, as `numbers` finds them.

    Args:
        data: the content.
        where: the file's name, for messages.
        help: what to look at.

    Raises:
        Failure: it cannot be read, or keeps its weights in a second file.
    """
    import onnx  # noqa: F401  # before the fork

    found = untrusted.read(where, lambda: _read_tensors(data, where, help), help=help)
    return [
        Numbers(kind, found[str(place)].astype(np.float64), name)
        for place, (kind, name) in enumerate(found["tensors"])
    ]


def content(server: Probe, model: str, *, help: str = "") -> bytes:
    """The file that a model is served from; the arguments are those of `numbers`.

    Raises:
        Failure: another backend, version or file is served; or it is no file that can be read.
    """
    config = require.backend(server, model, "onnxruntime")
    require.versions(server, model, (1,), help="One version is looked at: the folder 1.")
    where = f"{model}/1/{_NAME}"
    if config.get("default_model_filename", _NAME) != _NAME:
        raise Failure(
            f"{model} is served from {str(config['default_model_filename'])[:80]!r}.",
            help=f"This task is about 1/{_NAME}: take default_model_filename out of the config.",
        )
    path = server.server.repository / model / "1" / _NAME
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            raise OSError
        return path.read_bytes()
    except OSError:
        raise Failure(f"{where} is no file that can be read.", help=help) from None


def graph(data: bytes, where: str, help: str = "") -> Any:
    """What a file holds, as an `onnx.ModelProto`. To be called within `untrusted.read`.

    Args:
        data: the file's content.
        where: its name, for the message.
        help: what to look at.
    """
    import onnx

    try:
        return onnx.load_from_string(data)
    except Exception:  # whatever a file of a student's makes protobuf raise
        raise Failure(f"{where} is no ONNX file.", help=help) from None


def count(held: Sequence[Numbers], *types: str) -> int:
    """How many numbers there are, in these types or in all."""
    return sum(one.values.size for one in held if not types or one.type in types)


def holds(held: Sequence[Numbers], type: str, tensor: Array, *, apart: float) -> bool:
    """Whether one of the tensors has the numbers of an array, in whatever order.

    An exporter may turn a matrix around, so only the sorted numbers are compared.

    Args:
        held: the tensors.
        type: the type in which it must be stored.
        tensor: the array.
        apart: how far two numbers may be apart, as a share of the larger one; and at most a
            ten-millionth, since converters replace smaller numbers.
    """
    wanted = np.sort(tensor, axis=None).astype(np.float64)
    return any(
        one.type == type
        and one.values.size == wanted.size
        and np.allclose(np.sort(one.values, axis=None), wanted, rtol=apart, atol=1.2e-7)
        for one in held
    )


def _tensors(message: Any, holder: str = "") -> Iterator[tuple[str, Any]]:
    """Name and `TensorProto` of all tensors in a message of protobuf, and of all lists of floats.

    Args:
        message: any part of a model.
        holder: the first output of the node that the message is a part of.
    """
    import onnx

    if isinstance(message, onnx.TensorProto):
        yield holder or message.name, message
        return
    if isinstance(message, onnx.NodeProto):
        holder = next(iter(message.output), "")
    if isinstance(message, onnx.GraphProto):
        holder = ""
    for field, value in message.ListFields():
        if field.name == "floats":
            single = onnx.TensorProto.FLOAT
            yield holder, onnx.helper.make_tensor("", single, [len(value)], value)
        elif field.message_type is not None:
            for part in value if isinstance(value, Sequence) else [value]:
                yield from _tensors(part, holder)


def _read_tensors(data: bytes, where: str, help: str) -> dict[str, Any]:
    """Type and name of each tensor in a file, and by its place its numbers."""
    held = [_read(name, tensor, where) for name, tensor in _tensors(graph(data, where, help))]
    return {
        "tensors": [(kind, name) for kind, name, _ in held],
        **{str(place): values for place, (_, _, values) in enumerate(held)},
    }


def _read(name: str, tensor: Any, where: str) -> tuple[str, str, Array]:
    """A tensor's type, name and numbers, in the type in which they are stored."""
    import onnx

    kind = onnx.TensorProto.DataType.Name(tensor.data_type)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise Failure(
            f"{where} keeps weights in a second file.",
            help="Save it with external_data=False: so small a network needs one file.",
        )
    try:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind not in "fiub":
            values = np.zeros(values.size, np.uint8)
    except MemoryError:
        raise
    except Exception:
        raise Failure(f"{where} holds a tensor that cannot be read.") from None
    return kind, name, values
