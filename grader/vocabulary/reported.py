"""The values that a notebook passed to `check(...)`: two files for each check.

The student's kernel writes the files, and the judge reads them. The judge does not trust them, so
the format leaves little to read. `a2.forest.json` holds texts and numbers, and of each array its
type and shape. `a2.forest.bin` holds the arrays' bytes, one array after the other. Nothing in them
is code, nothing is compressed, and no array can take more memory than the file has bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.server import Deployment

from .results import CheckResult

#: The most bytes of all arrays that are passed to one check.
LARGEST = 16 << 20
#: The most bytes of the JSON. Two bytes of it (`[]`) can take 60 in memory.
LARGEST_JSON = 4 << 20
_ARRAY = "$array"


class Reported(BaseModel):
    """The values that a notebook passed to one check.

    Attributes:
        check: the check's id.
        values: by parameter. In the file, `{"$array": {"dtype": …, "shape": …}}` stands for an
            array. Its bytes are in the other file.
        result: the result of the public check in the notebook. A student could write it, so it
            gives no marks. If it differs from the judge's result, the submission gets a flag.
    """

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    version: Literal[2] = 2
    check: str
    values: dict[str, Any]
    result: CheckResult | None = None


class _Stated(BaseModel):
    """What the JSON states about an array."""

    model_config = ConfigDict(extra="forbid", strict=True)

    dtype: Literal[
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ]
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=32)]


def folder(assignment: str) -> Path:
    """The folder of an assignment's reported values, by its short name, such as `a2`."""
    return paths.state("reported", assignment)


def write(check: str, values: Mapping[str, Any], result: CheckResult, to: Path) -> None:
    """Write the values that a notebook passed to a check.

    Example::

        write("a2.forest", {"model": "forest"}, result, folder("a2"))

    Args:
        check: the check's id; it names the files.
        values: by parameter. Texts, numbers, bools, None, arrays, pandas columns, torch tensors,
            and lists and dicts of these.
        result: the result of the public check.
        to: the folder.

    Raises:
        WorkbookError: a value is of another type, or cannot be written, or the values are too
            large.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        plain = {name: _plain(name, value, arrays) for name, value in values.items()}
        reported = Reported(check=check, values=plain, result=result)
        text = reported.model_dump_json(indent=1).encode()
    except (RecursionError, ValueError) as error:  # such as a text with half a character
        raise WorkbookError(
            f"The values for {check} cannot be written: {_first_line(error)}",
            todo="Hand over a text, a number, an array, or a list of these.",
        ) from None
    if sum(array.nbytes for array in arrays) > LARGEST or len(text) > LARGEST_JSON:
        raise WorkbookError(
            f"The values for {check} are too large: a check takes arrays of {LARGEST >> 20} MiB "
            f"together, and {LARGEST_JSON >> 20} MiB of texts and lists.",
            todo="Hand over what the task asks for, and no more.",
        )
    (to / f"{check}.bin").write_bytes(b"".join(array.tobytes() for array in arrays))
    # The JSON comes last: as long as it is missing, the check counts as not attempted.
    (to / f"{check}.json").write_bytes(text)


def read(check: str, home: Path) -> Reported | None:
    """Read the values of a check; None if the notebook did not call the check.

    Args:
        check: the check's id.
        home: the folder. A student's code may have written anything into it.

    Raises:
        WorkbookError: the files do not have this form, or are too large. No file makes this
            function raise anything else.
    """
    path = home / f"{check}.json"
    if not path.is_file() or path.is_symlink():
        return None
    try:
        reported = Reported.model_validate_json(_bytes(path, LARGEST_JSON))
        if reported.check != check:
            raise ValueError(f"they are those of {reported.check[:100]}")
        arrays = _Arrays(home / f"{check}.bin")
        reported.values = {name: arrays.filled(value) for name, value in reported.values.items()}
        arrays.check_end()
    except Exception as error:  # a student's file must not end the judge, whatever it makes raise
        why = _first_line(error)
        raise WorkbookError(f"The values reported to {check} cannot be read: {why}.") from None
    return reported


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor. (A file that is open for reading has `detach`, too.)"""
    return hasattr(value, "detach") and hasattr(value, "cpu")


def array_of(name: str, tensor: Any) -> np.ndarray[Any, Any]:
    """The numbers of a torch tensor, without its gradient.

    Args:
        name: the parameter's name, for the message.
        tensor: such as `torch.ones(2, requires_grad=True)`.

    Raises:
        WorkbookError: numpy has no such array: the tensor is sparse, or of a type like bfloat16.
    """
    try:
        array: np.ndarray[Any, Any] = tensor.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:
        raise WorkbookError(
            f"{name} holds a torch tensor that cannot become an array: {_first_line(error)}",
            todo="Hand over plain numbers: tensor.float() changes the type, tensor.to_dense() a "
            "sparse one.",
        ) from None
    return array


def _plain(name: str, value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """A value as JSON can hold it. Its arrays are appended to `arrays`."""
    if hasattr(value, "to_numpy"):  # pandas
        kind, value = type(value).__name__, value.to_numpy()
        if value.ndim == 2 and value.dtype.kind == "O":
            raise WorkbookError(
                f"{name} is a {kind} of mixed columns, which a check cannot take.",
                todo="Take out of it what the task asks for, such as one number: "
                'int(table["requests"].iloc[0]).',
            )
    if is_tensor(value):
        value = array_of(name, value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "SUO":
            return _plain(name, value.tolist(), arrays)
        if value.dtype.kind in "fiub":
            array = _little_endian(value)
            arrays.append(array)
            return {_ARRAY: {"dtype": array.dtype.name, "shape": list(array.shape)}}
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, list | tuple):
        return [_plain(f"{name}[{i}]", item, arrays) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise WorkbookError(
                f"{name} is a dict whose keys are not all texts, which a check cannot take.",
                todo="Hand over its values as a list: list(table.values()).",
            )
        return {key: _plain(f"{name}[{key!r}]", item, arrays) for key, item in value.items()}
    if isinstance(value, Deployment):
        raise WorkbookError(
            f"{name} is what deploy(…) returns; a check takes the model's name.",
            todo=f"Hand over its name: deploy(…).name, here {value.name!r}.",
        )
    raise WorkbookError(
        f"{name} is a {type(value).__name__}, which a check cannot take.",
        todo="Hand over a text, a number, an array, or a list of these.",
    )


def _little_endian(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in the byte order of the file. A type wider than float64 becomes float64."""
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
    return array.astype((np.dtype("float64") if wide else array.dtype).newbyteorder("<"))


class _Arrays:
    """The arrays of a file of bytes, taken from it in the order in which the JSON names them."""

    def __init__(self, path: Path) -> None:
        is_there = path.is_file() and not path.is_symlink()
        self._data = _bytes(path, LARGEST) if is_there else b""
        self._place = 0

    def filled(self, value: Any) -> Any:
        """A value of the JSON, with the arrays that it names in their places."""
        if isinstance(value, dict):
            if value.keys() == {_ARRAY}:
                return self._take(_Stated.model_validate(value[_ARRAY]))
            return {key: self.filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.filled(item) for item in value]
        return value

    def check_end(self) -> None:
        """Raise ValueError if bytes are left over."""
        if self._place != len(self._data):
            raise ValueError("there are more bytes than its arrays have")

    def _take(self, stated: _Stated) -> np.ndarray[Any, Any]:
        kind = np.dtype(stated.dtype).newbyteorder("<")
        end = self._place + math.prod(stated.shape) * kind.itemsize
        data, self._place = self._data[self._place : end], end
        if end > len(self._data):
            raise ValueError("its arrays have more values than there are bytes")
        array: np.ndarray[Any, Any]
        if stated.dtype == "bool":  # numpy expects 0 or 1 in each byte
            array = np.frombuffer(data, np.uint8) != 0
        else:
            array = np.frombuffer(data, kind).astype(stated.dtype)
        return array.reshape(stated.shape)


def _bytes(path: Path, most: int) -> bytes:
    """The content of a file; raises ValueError if it is longer than `most` bytes."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path.suffix} is larger than {most >> 20} MiB")
    return data


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return error.errors(include_url=False, include_input=False)[0]["msg"][:200]
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
