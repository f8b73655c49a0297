"""Read the weights in a `.pth` file without torch, and without running anything in it.

`torch.save(network.state_dict(), path)` writes an archive: the bytes of each tensor, and a pickle
that describes the tensors. A pickle is a program, and loading it runs it. So the instructions of
this one are looked at first, and it may name nothing but tensors: what
`torch.load(path, weights_only=True)` would refuse is refused here, too::

    weights = state_dict.read("pth", pth, {"head.weight": (2, 288), "head.bias": (2,)})
    weights["head.bias"]        # float32, shape (2,)

A notebook hands a file over as its bytes: `np.fromfile("eights.pth", np.uint8)`.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import untrusted, values
from .failure import Failure
from .probe import Array

#: The most bytes of a file, and the most numbers of a tensor.
LARGEST, LONGEST = 8 << 20, 1 << 21

#: The instructions that torch writes. Any other one could make something that is not data.
_WRITTEN = (
    "PROTO FRAME MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE "
    "SHORT_BINUNICODE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS "
    "SETITEM SETITEMS BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL REDUCE BUILD BINPERSID"
)
_INSTRUCTIONS = frozenset(_WRITTEN.split())
#: The highest place at which a pickle may keep an object; the reader makes a list of that length.
_MOST_KEPT = 100_000
_TYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "BoolStorage": "?",
}
_NAMES = frozenset(
    {
        "collections OrderedDict",
        "torch._utils _rebuild_tensor_v2",
        "torch._utils _rebuild_parameter",
        *(f"torch {kind}" for kind in _TYPES),
    }
)


class _Refused(Exception):
    """The file holds something that is no tensor; the text names it."""


def read(
    name: str, value: Any, shapes: Mapping[str, tuple[int, ...]], *, help: str = ""
) -> dict[str, Array]:
    """The weights of a network, from the bytes of a `.pth` file that a student handed over.

    Args:
        name: the parameter's name, for the message.
        value: the file's bytes, a uint8 array.
        shapes: the shape of each of the network's tensors, by its name in the state dict.
        help: what to look at.

    Returns:
        The tensors in the order of `shapes`, each float32.

    Raises:
        Failure: it is no such file; or it holds something else than tensors, other tensors than
            the network has, or values that are not finite numbers.
    """
    data = values.content(name, value, LARGEST, help=help)
    return untrusted.read(f"`{name}`", lambda: _read(name, data, shapes, help), help=help)


def _read(
    name: str, data: bytes, shapes: Mapping[str, tuple[int, ...]], help: str
) -> dict[str, Array]:
    """The weights, in the limited process; the arguments are those of `read`."""
    try:
        found = _tensors(data)
    except _Refused as refused:
        raise Failure(
            f"`{name}` is no state dict: it holds {refused}. torch.load(…, weights_only=True) "
            "refuses such a file, because loading it could run a program.",
            help=help,
        ) from None
    except MemoryError:
        raise
    except Exception:  # whatever a file of a student's makes zipfile or pickle raise
        raise Failure(f"`{name}` is not a file that torch.save writes.", help=help) from None
    if other := [key for key in found if key not in shapes]:
        raise Failure(
            f"`{name}` holds {_short(other[0])}, which is none of the network's tensors: "
            f"{', '.join(shapes)}.",
            help=help,
        )
    for key, shape in shapes.items():
        if key not in found:
            raise Failure(f"`{name}` lacks the tensor {key}.", help=help)
        tensor = found[key]
        if not isinstance(tensor, np.ndarray):
            raise Failure(f"{key} in `{name}` is no tensor.", help=help)
        if tensor.shape != shape or tensor.dtype != np.float32:
            raise Failure(
                f"{key} in `{name}` is {tensor.dtype} of shape {list(tensor.shape)}; the network's "
                f"is float32 of shape {list(shape)}.",
                help=help,
            )
        if not np.isfinite(tensor).all():
            raise Failure(f"{key} in `{name}` holds values that are not finite numbers.", help=help)
    return {key: found[key] for key in shapes}


def _tensors(data: bytes) -> dict[Any, Any]:
    """What the file's pickle describes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("torch compresses nothing")
        (program,) = (e.filename for e in entries if e.filename.endswith("/data.pkl"))
        above = program.removesuffix("data.pkl")
        described = archive.read(program)
        _look_at(described)
        found = _Reader(archive, above, described).load()
    if not isinstance(found, dict):
        raise _Refused(f"a {type(found).__name__}")
    return found


def _look_at(program: bytes) -> None:
    """Refuse a pickle with names or instructions that are not those of tensors."""
    for instruction, argument, _ in pickletools.genops(program):
        if instruction.name == "GLOBAL" and argument not in _NAMES:
            raise _Refused(_short(str(argument).replace(" ", ".")))
        if instruction.name not in _INSTRUCTIONS:
            raise _Refused(f"the instruction {instruction.name}")
        if "PUT" in instruction.name and int(argument or 0) > _MOST_KEPT:
            raise ValueError("torch counts from 0")


class _Reader(pickle.Unpickler):
    """Reads a pickle that may name tensors, and nothing else."""

    def __init__(self, archive: zipfile.ZipFile, above: str, program: bytes) -> None:
        super().__init__(io.BytesIO(program))
        self._archive = archive
        self._above = above
        self._numbers = 0

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name in the pickle; `_look_at` has let no other name pass."""
        if module == "torch" and name in _TYPES:
            return np.dtype(_TYPES[name])
        return {
            "OrderedDict": OrderedDict,
            "_rebuild_tensor_v2": self._tensor,
            "_rebuild_parameter": lambda tensor, *_: tensor,
        }[name]

    def persistent_load(self, pid: Any) -> Array:
        """The numbers of a tensor, as one row."""
        kind, dtype, key, _, count = pid
        if kind != "storage" or not isinstance(dtype, np.dtype) or not str(key).isdecimal():
            raise ValueError("no storage")
        return np.frombuffer(self._archive.read(f"{self._above}data/{key}"), dtype, int(count))

    def _tensor(self, row: Array, offset: int, size: Any, stride: Any, *_: Any) -> Array:
        size, stride = [int(n) for n in size], [int(n) for n in stride]
        self._numbers += math.prod(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        is_inside = 0 <= offset <= last < len(row) and min([*size, *stride, 1]) >= 0
        if not is_inside or self._numbers > LONGEST:
            raise ValueError("no tensor")
        steps = [step * row.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(row[offset:], size, steps).copy()


def _short(name: object) -> str:
    return str(name)[:80]
