"""What is known of a TensorRT plan: a small JSON file beside it.

    record = Record.beside(Path("1/model.plan"))    # reads 1/model.plan.json
    record.inputs[0].largest                        # (64, 1, 8, 8)

A plan can be read on a GPU only. Whoever builds it knows what is in it, and `workbook.zoo.engines`
writes that down. The file holds the plan's hash, so the file of another plan is never believed.

The file is one JSON object:

- `format`: 1
- `sha256`, `bytes`: of the plan
- `product`, `version`: the Python package that built it (`tensorrt_rtx`, `tensorrt`), its version
- `compute_capabilities`: of the GPUs that it is built for, e.g. `["8.6", "8.9"]`
- `inputs`: each with `name`, `data_type` as in a config, `dims` with the batch (-1 is variable),
  and the shapes of the profile: `smallest`, `optimum`, `largest` (empty where nothing is variable)
- `outputs`: each with `name`, `data_type`, `dims`
- `layers`: each with `name`, `kind`, and `onnx`, the names of the ONNX nodes that it computes
- `activation_bytes`, `weights_bytes`: memory on the GPU; null where the builder did not say
- `seconds`: how long the build took

Of the course, only `workbook.common` is imported.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from workbook.common import bounded_json

FORMAT = 1
#: A plan of TensorRT for RTX begins with these bytes, one of TensorRT with one of the others.
STARTS = {b"vtrt": "tensorrt_rtx", b"ftrt": "tensorrt", b"ptrt": "tensorrt"}
#: The products' names in sentences.
PRODUCTS = {"tensorrt_rtx": "TensorRT for RTX", "tensorrt": "TensorRT"}
#: TensorRT's name of an element type → Triton's, as in upstream's src/tensorrt_utils.cc.
TYPES = {
    "FLOAT": "TYPE_FP32",
    "HALF": "TYPE_FP16",
    "BF16": "TYPE_BF16",
    "INT8": "TYPE_INT8",
    "INT32": "TYPE_INT32",
    "INT64": "TYPE_INT64",
    "UINT8": "TYPE_UINT8",
    "BOOL": "TYPE_BOOL",
}

Shape = tuple[int, ...]


class BadRecord(ValueError):
    """The file beside a plan is not a record, or is that of another plan; the text says which."""


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output of an engine. Outputs, and fixed inputs, have no shapes of a profile."""

    name: str
    data_type: str
    dims: Shape
    smallest: Shape = ()
    optimum: Shape = ()
    largest: Shape = ()


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer of an engine, and the nodes of the ONNX file that it computes."""

    name: str
    kind: str
    onnx: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Record:
    """What the builder of a plan knew of it; the module's docstring says what each field is."""

    sha256: str
    bytes: int
    product: str
    version: str
    compute_capabilities: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    layers: tuple[Layer, ...]
    activation_bytes: int | None
    weights_bytes: int | None
    seconds: float

    @classmethod
    def beside(cls, plan: Path) -> Record | None:
        """Read the record of a plan; None if there is none.

        Raises:
            BadRecord: it cannot be read, or belongs to another plan.
        """
        file = path(plan)
        if not file.is_file():
            return None
        try:
            record = cls._from(bounded_json.loads(file.read_bytes()))
        except KeyError as error:
            raise BadRecord(
                f"{file.name} is not the record of an engine: it lacks {error}"
            ) from None
        except (ValueError, TypeError, OverflowError) as error:
            raise BadRecord(f"{file.name} is not the record of an engine: {error}") from None
        if (record.sha256, record.bytes) != (digest(plan), plan.stat().st_size):
            raise BadRecord(
                f"{file.name} belongs to another plan: it describes one of {record.bytes} bytes "
                f"with the hash {record.sha256[:12]}, and {plan.name} has "
                f"{plan.stat().st_size} bytes and the hash {digest(plan)[:12]}"
            )
        return record

    @classmethod
    def of(cls, plan: Path, **known: Any) -> Record:
        """A record for a plan that was just built; `known` is everything but hash and size."""
        return cls(sha256=digest(plan), bytes=plan.stat().st_size, **known)

    def save(self, plan: Path) -> None:
        """Write it beside its plan."""
        fields = {"format": FORMAT, **dataclasses.asdict(self)}
        lines = (f' "{name}": {_text(value)}' for name, value in fields.items())
        path(plan).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

    @property
    def largest_batch(self) -> int:
        """The most rows that the profile takes, as upstream's backend counts them."""
        return min(((port.largest or port.dims)[0] for port in self.inputs if port.dims), default=0)

    @classmethod
    def _from(cls, given: Any) -> Record:
        if not isinstance(given, dict):
            raise TypeError("it holds no object")
        if given["format"] != FORMAT:
            raise ValueError(f"its format is {given['format']!r}, and this course reads {FORMAT}")
        if given["product"] not in PRODUCTS:
            raise ValueError(f"it names an unknown product, {given['product']!r}")
        return cls(
            sha256=str(given["sha256"]),
            bytes=int(given["bytes"]),
            product=given["product"],
            version=str(given["version"]),
            compute_capabilities=tuple(map(str, given["compute_capabilities"])),
            inputs=tuple(map(_port, given["inputs"])),
            outputs=tuple(map(_port, given["outputs"])),
            layers=tuple(
                Layer(str(layer["name"]), str(layer["kind"]), tuple(map(str, layer["onnx"])))
                for layer in given["layers"]
            ),
            activation_bytes=_size(given["activation_bytes"]),
            weights_bytes=_size(given["weights_bytes"]),
            seconds=float(given["seconds"]),
        )


def path(plan: Path) -> Path:
    """Where the record of a plan lies: `model.plan.json` for `model.plan`."""
    return plan.with_name(f"{plan.name}.json")


def _port(entry: Any) -> Port:
    dims, *profile = (
        tuple(map(int, entry[key])) for key in ("dims", "smallest", "optimum", "largest")
    )
    if {len(shape) for shape in profile} not in ({0}, {len(dims)}):
        raise ValueError(f"the shapes of {entry['name']!r} have different numbers of dimensions")
    return Port(str(entry["name"]), str(entry["data_type"]), dims, *profile)


def _size(given: Any) -> int | None:
    return None if given is None else int(given)


def _text(value: Any) -> str:
    """A value as JSON; a list of objects with one of them per line."""
    if not isinstance(value, tuple) or not all(isinstance(entry, dict) for entry in value):
        return json.dumps(value)
    return "[" + ",".join(f"\n  {json.dumps(entry)}" for entry in value) + "\n ]"


def digest(plan: Path) -> str:
    """The SHA-256 of a plan, in hexadecimal."""
    with plan.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
