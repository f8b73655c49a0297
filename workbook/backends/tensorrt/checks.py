"""What upstream's TensorRT backend refuses in a config that does not fit the engine.

The rules, their order and the messages are those of triton-inference-server/tensorrt_backend:
`ValidateIO` and the bindings of src/instance_state.cc, `AutoCompleteConfigHelper` of
src/model_state.cc, and src/tensorrt_utils.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbook.backends.backend_common import check_allowed
from workbook.backends.base import BadModel, BrokenModel, Config, Tensor, other_dims
from workbook.backends.tensorrt.engine import Described
from workbook.backends.tensorrt.record import TYPES, Shape


def check(config: Config, instance: str, engine: Described) -> None:
    """Refuse a config that does not fit the engine.

    Raises:
        BadModel: the first thing that does not fit.
    """
    inputs = {t.name: t for t in engine.inputs}
    outputs = {t.name: t for t in engine.outputs}
    if len(inputs) < len(config.inputs):
        raise BadModel(
            f"unable to load model '{config.name}', configuration expects {len(config.inputs)} "
            f"inputs, model provides at most {len(inputs)}"
        )
    sides = (("input", config.inputs, inputs), ("output", config.outputs, outputs))
    for kind, ours, theirs in sides:
        for name in ours:
            check_allowed(kind, name, theirs)
    for kind, ours, _ in sides:
        for tensor in ours.values():
            if tensor.data_type not in TYPES.values():
                raise BrokenModel(
                    f"unsupported datatype {tensor.data_type} for {kind} '{tensor.name}' for model "
                    f"'{config.name}'"
                )
    for kind, ours, theirs in sides:
        for tensor in ours.values():
            _check_tensor(config, instance, kind, tensor, theirs[tensor.name], engine.ranges)
    given = _named(config)
    for kind, _, theirs in sides:
        for name in theirs:
            if name not in given:
                raise BadModel(f"expected configuration for {kind} '{name}' for {instance}")


def outside(shape: Iterable[int], smallest: Shape, largest: Shape) -> str:
    """The message for a shape that a profile does not take; "" if it takes it.

    outside((65, 1, 8, 8), (1, 1, 8, 8), (64, 1, 8, 8))
    """
    shape = tuple(shape)
    if len(shape) != len(largest):
        return f"model expected {len(largest)} dimensions but received {len(shape)} dimensions"
    for i, (least, found, most) in enumerate(zip(smallest, shape, largest, strict=True)):
        if found != -1 and not least <= found <= most:
            return (
                f"model expected the shape of dimension {i} to be between {least} and {most} but "
                f"received {found}"
            )
    return ""


def batches(raw: Mapping[str, Any], engine: Described) -> bool | None:
    """Whether the dims of a config leave the batch dimension out; None if it has no dims.

    Raises:
        BadModel: the engine has no such tensor.
        BrokenModel: some dims leave it out, and some do not.
    """
    found = None
    for kind, tensors in (("input", engine.inputs), ("output", engine.outputs)):
        theirs = {t.name: t for t in tensors}
        for entry in raw.get(kind) or []:
            ours = Tensor.from_config(entry)
            if ours.ragged:
                return True
            check_allowed(kind, ours.name, theirs)
            if not ours.model_dims:
                continue
            here = len(theirs[ours.name].dims or ()) == len(ours.model_dims) + 1
            if found and not here:
                raise BrokenModel(
                    f"unable to autofill for '{raw['name']}', model tensor configurations are "
                    "contradicting each other in terms of whether batching is supported"
                )
            found = found or here
    return found


def _check_tensor(
    config: Config,
    instance: str,
    kind: str,
    ours: Tensor,
    theirs: Tensor,
    ranges: Mapping[str, tuple[Shape, Shape]],
) -> None:
    model = theirs.dims or ()
    if ours.data_type != theirs.data_type:
        raise BadModel(
            f"unexpected datatype {theirs.data_type} for inference {kind} '{ours.name}', expecting "
            f"{ours.data_type} for {instance}"
        )
    if ours.ragged:
        return
    full = (-1, *ours.model_dims) if config.max_batch_size else ours.model_dims
    fits = len(model) == len(full) and all(
        -1 in (a, b) or a == b for a, b in zip(model, full, strict=True)
    )
    if not fits:
        raise other_dims(config, ours.name, model, full)
    if ours.name in ranges and (problem := outside(full, *ranges[ours.name])):
        raise BadModel(
            f"model configuration specified invalid shape for input '{ours.name}' for model "
            f"{config.name}. Error details: {problem}"
        )


def _named(config: Config) -> set[str]:
    """All tensors that a config names: inputs, outputs, states, controls, batch inputs."""
    controls = (config.raw.get("sequence_batching") or {}).get("control_input") or []
    return {
        *config.inputs,
        *config.outputs,
        *config.states,
        *config.states.values(),
        *(control["name"] for control in controls),
        *(name for entry in config.batch_inputs for name in entry.targets),
    }
