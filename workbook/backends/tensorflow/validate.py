"""Check a config against a model, with the real backend's messages.

The rules are those of triton-inference-server/tensorflow_backend: `ValidateTRITONTFModel` for a
SavedModel and for a graph, `CompareDims`, `ParseParameters`, `CreateModel`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import triton_python_backend_utils as pb_utils

from workbook.backends.backend_common import check_allowed, sequence_controls
from workbook.backends.base import BadModel, BrokenModel, Config, Tensor, other_dims, shape_text
from workbook.backends.tensorflow.signature import TYPES, Endpoint, ServingSignature

_KNOWN_TYPES = frozenset(TYPES.values())
_TENSORRT_PARAMETERS = (
    "precision_mode",
    "minimum_segment_size",
    "max_workspace_size_bytes",
    "max_cached_engines",
)


@dataclasses.dataclass(frozen=True)
class Threads:
    """Thread settings of a session; 0 where the config leaves them open."""

    intra: int
    inter: int
    per_session: bool


def threads(config: Config) -> Threads:
    """Read the parameters about threads and sessions.

    Raises:
        BadModel: one of them is not a number, or negative.
    """

    def count(key: str, least: int, what: str) -> int:
        value = config.integer(key, least)
        if value < least:
            raise BadModel(
                f"parameter '{key}' must be {what} number for TensorFlow model '{config.name}'"
            )
        return value

    count("MAX_SESSION_SHARE_COUNT", 1, "positive")
    return Threads(
        intra=count("TF_NUM_INTRA_THREADS", 0, "non-negative"),
        inter=count("TF_NUM_INTER_THREADS", 0, "non-negative"),
        per_session=config.boolean("TF_USE_PER_SESSION_THREADS", False),
    )


def types(config: Config) -> None:
    """Refuse data types that the TensorFlow backend does not support."""
    for tensor in (*config.inputs.values(), *config.outputs.values()):
        if tensor.data_type not in _KNOWN_TYPES:
            raise BrokenModel(
                f"unsupported datatype '{tensor.data_type}' for tensor '{tensor.name}' "
                f"for model '{config.name}'"
            )


def saved_model(config: Config, signature: ServingSignature) -> None:
    """Check names, dims and types of a config against a signature."""
    controls = sequence_controls(config.raw)
    for control in controls:
        endpoint = signature.inputs.get(control.name)
        if endpoint is None:
            raise _no_control(control.name)
        where = f"unable to load model '{config.name}', sequence control '{control.name}': "
        try:
            _compare(config, endpoint, (1,), exact=True)
        except BadModel as error:
            raise BadModel(f"{where}{error}") from None
        if endpoint.data_type != control.data_type:
            raise BadModel(
                f"{where}the model expects {endpoint.data_type} but the model configuration "
                f"specifies data-type {control.data_type}"
            )
    for name in config.inputs:
        _check_allowed("input", name, signature.inputs, signature)
    given = _listed_inputs(config) + len(config.batch_inputs) + len(controls)
    if given != len(signature.inputs):
        raise BadModel(
            f"unable to load model '{config.name}', configuration expects {given} inputs, "
            f"model provides {len(signature.inputs)}"
        )
    for name, tensor in config.inputs.items():
        _tensor(config, "input", tensor, signature.inputs[name])
    for name, tensor in config.outputs.items():
        _check_allowed("output", name, signature.outputs, signature)
        _tensor(config, "output", tensor, signature.outputs[name])


def _check_allowed(
    kind: str, name: str, allowed: Collection[str], signature: ServingSignature
) -> None:
    """As `check_allowed`; the error also names another signature that has such a tensor."""
    try:
        check_allowed(kind, name, allowed)
    except BadModel as error:
        owners = [other for other, names in signature.others.items() if name in names]
        hint = f" ('{name}' is in the signature '{owners[0]}')" if owners else ""
        raise BadModel(f"{error}{hint}") from None


def graph(config: Config, placeholders: Collection[str], others: Collection[str]) -> None:
    """Check a config's names against a graph's nodes; a graph declares nothing else.

    Args:
        placeholders: the nodes that can be inputs.
        others: the nodes that can be outputs.
    """
    if len(placeholders) < _listed_inputs(config):
        raise BadModel(
            f"unable to load model '{config.name}', configuration expects {_listed_inputs(config)} "
            f"inputs, model provides at most {len(placeholders)}"
        )
    for control in sequence_controls(config.raw):
        if control.name not in placeholders:
            raise _no_control(control.name)
    for name in config.inputs:
        check_allowed("input", name, placeholders)
    for name in config.outputs:
        check_allowed("output", name, others)


def accelerators(config: Config, on_gpu: bool) -> frozenset[str]:
    """The names of the GPU accelerators to use; none on a CPU, which ignores them.

    Raises:
        BadModel: a CPU accelerator, an unknown one, or an unknown parameter of TensorRT's.
    """
    section = (config.raw.get("optimization") or {}).get("execution_accelerators")
    if section is None:
        return frozenset()
    if section.get("cpu_execution_accelerator"):
        raise BadModel("CPU Execution Accelerator is not supported in TensorFlow backend")
    if not on_gpu:
        pb_utils.Logger.log_warn(
            "GPU Execution Accelerator will be ignored for model instance on CPU"
        )
        return frozenset()
    names = set()
    for accelerator in section.get("gpu_execution_accelerator", []):
        name = accelerator["name"]
        if name not in ("tensorrt", "gpu_io", "auto_mixed_precision"):
            raise BadModel(f"unknown Execution Accelerator '{name}' is requested")
        if name == "tensorrt":
            _tensorrt(accelerator.get("parameters") or {})
        names.add(name)
    if {"tensorrt", "auto_mixed_precision"} <= names:
        raise BadModel("Auto mixed precision can not be set with TFTRT optimization")
    return frozenset(names)


def _tensorrt(parameters: Mapping[str, str]) -> None:
    for key, value in parameters.items():
        if key not in _TENSORRT_PARAMETERS:
            raise BadModel(
                f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator"
            )
        if key == "precision_mode" and value not in ("FP32", "FP16"):
            raise BadModel(f"unsupported precision mode '{value}' is requested")
    raise BadModel(
        "TensorFlow has had no TensorRT since 2.18; take the tensorrt accelerator out, or serve "
        "this model in a container of 24.10 or before"
    )


def _listed_inputs(config: Config) -> int:
    """How many inputs the config lists; an input that is listed twice counts twice."""
    return len(config.raw.get("input", []))


def _no_control(name: str) -> BadModel:
    return BadModel(
        f"configuration specified sequence control '{name}', but model does not provide that input"
    )


def _tensor(config: Config, kind: str, tensor: Tensor, endpoint: Endpoint) -> None:
    scattered = {target for entry in config.batch_outputs for target in entry.targets}
    if endpoint.dims and tensor.ragged:
        if endpoint.dims != (-1,):
            raise BadModel(
                f"unable to load model '{config.name}', configuration expects model provides "
                f"input with shape [-1]  for ragged input '{endpoint.name}', model provides "
                f"{shape_text(endpoint.dims)}"
            )
    elif endpoint.dims and tensor.name not in scattered:
        _compare(config, endpoint, tensor.model_dims, exact=kind == "output")
    if tensor.data_type != endpoint.data_type:
        raise BadModel(
            f"unable to load model '{config.name}', configuration expects datatype "
            f"{tensor.data_type} for {kind} '{endpoint.name}', model provides "
            f"{_provided(endpoint.data_type)}"
        )


def _compare(config: Config, endpoint: Endpoint, dims: Sequence[int], *, exact: bool) -> None:
    """Upstream's CompareDims: an input may fix a variable dimension, an output may not."""
    batched = config.max_batch_size > 0
    if batched and (not endpoint.dims or endpoint.dims[0] != -1):
        raise BadModel(
            f"model '{config.name}', tensor '{endpoint.name}': for the model to support batching "
            "the shape should have at least 1 dimension and the first dimension must be -1; but "
            f"shape expected by the model is {shape_text(endpoint.dims)}"
        )
    full = (-1, *dims) if batched else tuple(dims)
    agree = len(full) == len(endpoint.dims) and all(
        model == given or (model == -1 and not exact)
        for model, given in zip(endpoint.dims, full, strict=True)
    )
    if not agree:
        raise other_dims(config, endpoint.name, endpoint.dims, full)


def _provided(data_type: str) -> str:
    """A model's type as upstream's messages write it: BYTES for the config's STRING."""
    return "TYPE_BYTES" if data_type == "TYPE_STRING" else data_type
