"""The values that a notebook passed to `check(...)`: one JSON file and one npz per check.

The student's kernel writes the files, and the judge reads them. The judge does not trust them:
neither format can contain code, and the sizes are checked before the files are read into memory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.server import Deployment

from .results import CheckResult

#: The most bytes that the values of one check may take, on the disk and in memory.
LARGEST = 16 << 20
_ARRAY = "$array"


class Reported(BaseModel):
    """The values that a notebook passed to one check.

    Attributes:
        check: the check's id.
        values: by parameter. In the file, `{"$array": name}` stands for an array of the npz.
        result: the result of the public check in the notebook. A student could write it, so it
            gives no marks. If it differs from the judge's result, the submission gets a flag.
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    check: str
    values: dict[str, Any]
    result: CheckResult | None = None


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
        WorkbookError: a value is of another type, or the values are too large.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    plain = {name: _plain(name, value, arrays) for name, value in values.items()}
    reported = Reported(check=check, values=plain, result=result)
    if sum(array.nbytes for array in arrays.values()) > LARGEST:
        raise WorkbookError(
            f"The values for {check} are too large: a check takes {LARGEST >> 20} MiB at most.",
            todo="Hand over what the task asks for, and no more.",
        )
    np.savez(to / f"{check}.npz", **arrays)
    # The JSON comes last: as long as it is missing, the check counts as not attempted.
    (to / f"{check}.json").write_text(reported.model_dump_json(indent=1))


def read(check: str, home: Path) -> Reported | None:
    """Read the values of a check; None if the notebook did not call the check.

    Args:
        check: the check's id.
        home: the folder. A student's code may have written anything into it.

    Raises:
        WorkbookError: the files do not have this form, or are too large.
    """
    path = home / f"{check}.json"
    if not path.is_file() or path.is_symlink():
        return None
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError("too large")
        reported = Reported.model_validate_json(path.read_bytes())
        if reported.check != check:
            raise ValueError(f"they are those of {reported.check}")
        arrays = _arrays(home / f"{check}.npz")
        reported.values = {name: _filled(value, arrays) for name, value in reported.values.items()}
    except (ValidationError, ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        first = str(error).splitlines()[0][:200]
        raise WorkbookError(f"The values reported to {check} cannot be read: {first}.") from None
    except RecursionError:
        raise WorkbookError(f"The values reported to {check} are nested too deeply.") from None
    return reported


def _plain(name: str, value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """A value as JSON can hold it. Its arrays go into `arrays`."""
    if hasattr(value, "to_numpy"):  # pandas
        kind, value = type(value).__name__, value.to_numpy()
        if value.ndim == 2 and value.dtype.kind == "O":
            raise WorkbookError(
                f"{name} is a {kind} of mixed columns, which a check cannot take.",
                todo="Take out of it what the task asks for, such as one number: "
                'int(table["requests"].iloc[0]).',
            )
    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu().numpy()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "SUO":
            return _plain(name, value.tolist(), arrays)
        if value.dtype.kind in "fiub":
            key = f"{name}_{len(arrays)}"
            arrays[key] = value
            return {_ARRAY: key}
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, list | tuple):
        return [_plain(name, item, arrays) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise WorkbookError(
                f"{name} is a dict whose keys are not all texts, which a check cannot take.",
                todo="Hand over its values as a list: list(table.values()).",
            )
        return {key: _plain(name, item, arrays) for key, item in value.items()}
    if isinstance(value, Deployment):
        raise WorkbookError(
            f"{name} is what deploy(…) returns; a check takes the model's name.",
            todo=f"Hand over its name: deploy(…).name, here {value.name!r}.",
        )
    raise WorkbookError(
        f"{name} is a {type(value).__name__}, which a check cannot take.",
        todo="Hand over a text, a number, an array, or a list of these.",
    )


def _arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    if not path.is_file() or path.is_symlink() or path.stat().st_size > LARGEST + (1 << 20):
        return {}
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > LARGEST + (1 << 20):
            raise ValueError("its arrays are too large")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _filled(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[str(value[_ARRAY])]
        return {key: _filled(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, arrays) for item in value]
    return value
