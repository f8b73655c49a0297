"""Read the execution accelerators of a config: which providers a session asks for, and with what.

The names, keys and error messages are those of triton-inference-server/onnxruntime_backend
(src/onnxruntime.cc, ModelState::LoadModel). Two of its habits surprise. The stand-in has them too,
because a config must mean the same here and in NVIDIA's container; server/model_warnings.py warns:

- It reads no parameter of `openvino` (its issue 260).
- Four options of `cuda` have no effect there: the model's own parameter of the same name, or the
  default of that parameter, replaces them (issue 8808 of triton-inference-server/server).

GPU accelerators are read for GPU instances only. Not verified on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

OPENVINO, TENSORRT, CUDA = (
    "OpenVINOExecutionProvider",
    "TensorrtExecutionProvider",
    "CUDAExecutionProvider",
)

#: The name of a provider, and its options.
Provider = tuple[str, dict[str, str]]

_PRECISIONS = {
    "FP32": {},
    "FP16": {"trt_fp16_enable": "1"},
    "BF16": {"trt_bf16_enable": "1"},
    "INT8": {"trt_int8_enable": "1"},
}
#: Parameters of `tensorrt` that ONNX Runtime knows by another name.
_RENAMED = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
#: A kind of value: what upstream calls it in an error, and what it accepts.
_INTEGER = ("integral number", r"\s*[+-]?\d+")
_BOOLEAN = ("boolean", r"(?i:true|on|1|false|off|0)\Z")
#: For each kind of value its parameters.
_TENSORRT_KEYS = {
    ("unsigned long long integral number", r"\s*[+-]?\d+"): ("max_workspace_size_bytes",),
    _INTEGER: (
        "trt_max_partition_iterations",
        "trt_min_subgraph_size",
        "trt_dla_core",
        "trt_builder_optimization_level",
        "trt_auxiliary_streams",
        "trt_ep_context_embed_mode",
    ),
    _BOOLEAN: (
        "int8_use_native_calibration_table",
        "trt_dla_enable",
        "trt_engine_cache_enable",
        "trt_dump_subgraphs",
        "trt_force_sequential_engine_build",
        "trt_context_memory_sharing_enable",
        "trt_layer_norm_fp32_fallback",
        "trt_timing_cache_enable",
        "trt_force_timing_cache",
        "trt_detailed_build_log",
        "trt_build_heuristics_enable",
        "trt_sparsity_enable",
        "trt_cuda_graph_enable",
        "trt_dump_ep_context_model",
    ),
    ("text", ""): (
        "int8_calibration_table_name",
        "trt_engine_cache_path",
        "trt_engine_cache_prefix",
        "trt_timing_cache_path",
        "trt_tactic_sources",
        "trt_extra_plugin_lib_paths",
        "trt_profile_min_shapes",
        "trt_profile_max_shapes",
        "trt_profile_opt_shapes",
        "trt_ep_context_file_path",
    ),
}
TENSORRT_KEYS = {key: kind for kind, keys in _TENSORRT_KEYS.items() for key in keys}

#: The model's parameters that replace options of `cuda`, and the values of those that are numbers.
CUDA_PARAMETERS: dict[str, tuple[str, ...]] = {
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
    "gpu_mem_limit": (),
    "do_copy_in_default_stream": (),
}


class Refused(Exception):
    """A wrong accelerator; the load fails with this message, which is upstream's."""


def cpu_providers(accelerators: Mapping[str, Any]) -> list[Provider]:
    """The providers that `cpu_execution_accelerator` asks for.

    Args:
        accelerators: the config's `execution_accelerators`.

    Raises:
        Refused: the accelerator is not `openvino`.
    """
    entries = accelerators.get("cpu_execution_accelerator", [])
    for entry in entries:
        if entry["name"] != "openvino":
            raise _unknown(entry["name"])
    return [(OPENVINO, {})] if entries else []


def gpu_providers(
    accelerators: Mapping[str, Any],
    parameters: Mapping[str, str],
    device: str,
) -> list[Provider]:
    """The providers of an instance on a GPU: what its accelerators ask for, and CUDA's at the end.

    Args:
        accelerators: the config's `execution_accelerators`.
        parameters: the model's parameters; some are options of CUDA's provider.
        device: the number of the GPU.

    Raises:
        Refused: an unknown accelerator or parameter, or a wrong value.
    """
    providers: list[Provider] = []
    cuda: dict[str, str] = {}
    for entry in accelerators.get("gpu_execution_accelerator", []):
        given = entry.get("parameters") or {}
        if entry["name"] == "tensorrt":
            providers.append((TENSORRT, {**tensorrt_options(given), "device_id": device}))
        elif entry["name"] == "cuda":
            cuda.update(_cuda_options(given))
        else:
            raise _unknown(entry["name"])
    cuda.update(_cuda_parameters(parameters))
    return [*providers, (CUDA, {**cuda, "device_id": device})]


def tensorrt_options(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of `tensorrt` as options of ONNX Runtime's TensorRT provider.

    Raises:
        Refused: an unknown parameter, or a wrong value.
    """
    options: dict[str, str] = {}
    for key, value in parameters.items():
        if key == "precision_mode":
            if value not in _PRECISIONS:
                raise Refused(f"unsupported precision mode '{value}' is requested")
            options.update(_PRECISIONS[value])
        elif key not in TENSORRT_KEYS:
            raise Refused(
                f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator"
            )
        else:
            _check_value(key, value, TENSORRT_KEYS[key])
            if value:  # as upstream: an empty value is left out
                options[_RENAMED.get(key, key)] = value
    return options


def _cuda_options(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of `cuda`; ONNX Runtime refuses those that it does not know."""
    for key in ("do_copy_in_default_stream", "use_ep_level_unified_stream"):
        if key in parameters:
            _check_value(key, parameters[key], _BOOLEAN)
    return {k: v for k, v in parameters.items() if v and k not in CUDA_PARAMETERS}


def _cuda_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Options of CUDA's provider among the model's parameters (upstream calls them deprecated)."""
    options: dict[str, str] = {}
    for key, names in CUDA_PARAMETERS.items():
        if key not in parameters:
            continue
        value = parameters[key]
        if names:
            number = _check_value(key, value, _INTEGER)
            if not 0 <= int(number) < len(names):
                raise Refused(f"unsupported {key} value '{int(number)}' is requested")
            value = names[int(number)]
        options[key] = value
    return options


def _check_value(key: str, value: str, kind: tuple[str, str]) -> str:
    """What upstream reads of a value: numbers end at the first character that is no digit."""
    name, pattern = kind
    found = re.match(pattern, value, re.ASCII)
    if found is None:
        raise Refused(f"failed to convert '{value}' to {name}: parameter {key}")
    return found[0]


def _unknown(name: str) -> Refused:
    return Refused(f"unknown Execution Accelerator '{name}' is requested")
