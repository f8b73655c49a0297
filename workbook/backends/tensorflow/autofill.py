"""Complete a config from a SavedModel, as the real backend's `AutoCompleteHelper` does.

The real backend does so for every SavedModel, even if the config is complete. If a config has no
max_batch_size, and its dims leave the batch dimension out, it gets max_batch_size 4. If the
signature cannot serve the config's max_batch_size, the config is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from workbook.backends.backend_common import sequence_controls
from workbook.backends.base import BadModel, BrokenModel, Signature, Tensor


def complete(raw: dict[str, Any], signature: Signature, default_size: int) -> None:
    """Complete `max_batch_size`, `dynamic_batching`, `input` and `output` of a config in place.

    Args:
        raw: the config.
        signature: the model's tensors; `dims` are empty for a scalar or an unknown rank.
        default_size: the max_batch_size of a model that can batch.

    Raises:
        BadModel: the config contradicts the signature or itself.
    """
    batches = _batching(raw, signature, default_size)
    inputs = raw.setdefault("input", [])
    unknown = {tensor.name: tensor for tensor in signature.inputs}
    for entry in inputs:
        _fill(raw, entry, unknown.pop(entry["name"], None), batches)
    for control in sequence_controls(raw):
        unknown.pop(control.name, None)
    for computed in raw.get("batch_input", []):
        for target in computed["target_name"]:
            unknown.pop(target, None)
    inputs += [_fill(raw, {}, tensor, batches) for tensor in unknown.values()]
    if raw.get("output"):
        known = {tensor.name: tensor for tensor in signature.outputs}
        for entry in raw["output"]:
            with contextlib.suppress(BadModel):  # upstream ignores it, and the core refuses it
                _fill(raw, entry, known.get(entry["name"]), batches)
    else:
        for tensor in signature.outputs:
            if not tensor.dims:
                raise BadModel(
                    f"Unable to autofill for '{raw['name']}': the rank of model tensor "
                    f"'{tensor.name}' is 0 which is not supported"
                )
        raw["output"] = [_fill(raw, {}, tensor, batches) for tensor in signature.outputs]


def _batching(raw: dict[str, Any], signature: Signature, default_size: int) -> bool:
    """Decide on batching and set max_batch_size; True if the dims leave the batch dimension out."""
    name, given = raw["name"], int(raw.get("max_batch_size", 0))
    able = all(
        not tensor.dims or tensor.dims[0] == -1
        for tensor in (*signature.inputs, *signature.outputs)
    )
    if given > 0 and not able:
        raise BrokenModel(
            f"unable to autofill for '{name}', configuration specified max-batch {given} "
            "but model signature does not support batching"
        )
    batches = able and _hint(raw, signature) and default_size > 0
    size = given or (default_size if batches else 0)
    raw["max_batch_size"] = size
    scheduled = "sequence_batching" in raw or "dynamic_batching" in raw
    if size > 1 and not scheduled:
        raw["dynamic_batching"] = {}
    return batches


def _hint(raw: Mapping[str, Any], signature: Signature) -> bool:
    """Whether the config's own dims imply batching: the model has one dimension more."""
    hint = False
    explicit: bool | None = None
    given = [
        (Tensor.from_config(entry), {tensor.name: tensor for tensor in tensors})
        for key, tensors in (("input", signature.inputs), ("output", signature.outputs))
        for entry in raw.get(key, [])
    ]
    if not given:
        return True
    for config, known in given:
        if config.ragged:
            return True
        model = known.get(config.name)
        if model is None or not model.dims:
            continue
        if not config.model_dims:
            hint = hint or explicit is None
            continue
        batched = len(config.model_dims) == len(model.dims) - 1
        if explicit is not None and batched != explicit:
            raise BrokenModel(
                f"unable to autofill for '{raw['name']}', model tensor configurations are "
                "contradicting each other in terms of whether batching is supported"
            )
        explicit = hint = batched
    return hint


def _fill(
    raw: Mapping[str, Any], entry: dict[str, Any], model: Tensor | None, batches: bool
) -> dict[str, Any]:
    """Complete one input or output of the config; if the model lacks it, leave it as it is."""
    if model is None:
        return entry
    entry.setdefault("name", model.name)
    if entry.get("data_type", "TYPE_INVALID") == "TYPE_INVALID":
        entry["data_type"] = model.data_type
    if not entry.get("dims"):
        if not model.dims:
            raise BadModel(
                f"Unable to autofill for '{raw['name']}': the rank of model tensor "
                f"'{model.name}' is 0 and dimensions are not defined"
            )
        dims = list(model.dims[1 if batches else 0 :])
        if not dims:  # the dims in a config must not be empty
            entry["reshape"] = {"shape": []}
        entry["dims"] = dims or [1]
    return entry
