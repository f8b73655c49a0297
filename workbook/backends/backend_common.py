"""Rules that NVIDIA's PyTorch and TensorFlow backends have in common.

The rules were found in triton-inference-server/backend, src/backend_common.cc, and in the sources
of both backends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from workbook.backends.base import BadModel

_BOOLEAN_CONTROLS = ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_READY")
_TYPED_CONTROL = "CONTROL_SEQUENCE_CORRID"


@dataclasses.dataclass(frozen=True)
class Control:
    """An input that the sequence batcher adds to each request.

    Attributes:
        name: the tensor's name.
        data_type: Triton's name of its type, e.g. `TYPE_INT32`.
    """

    name: str
    data_type: str


def sequence_controls(raw: Mapping[str, Any]) -> list[Control]:
    """The control inputs of a config's `sequence_batching`, in the order of the backends' checks.

    The core has already refused contradictory entries (a kind given twice, no values).
    """
    found: dict[str, Control] = {}
    for entry in (raw.get("sequence_batching") or {}).get("control_input", []):
        for control in entry.get("control", []):
            kind = control["kind"]
            if kind == _TYPED_CONTROL:
                found[kind] = Control(entry["name"], control["data_type"])
            elif kind in _BOOLEAN_CONTROLS:
                value = next(t for t in ("int32", "fp32", "bool") if control.get(f"{t}_false_true"))
                found[kind] = Control(entry["name"], f"TYPE_{value.upper()}")
    return [found[kind] for kind in (*_BOOLEAN_CONTROLS, _TYPED_CONTROL) if kind in found]


def check_allowed(kind: str, name: str, allowed: Collection[str]) -> None:
    """Refuse an input or output that the model does not have.

    Args:
        kind: `input` or `output`.

    Raises:
        BadModel: `name` is not among `allowed`.
    """
    if name not in allowed:
        raise BadModel(
            f"unexpected inference {kind} '{name}', allowed {kind}s are: "
            f"{', '.join(sorted(allowed))}"
        )
