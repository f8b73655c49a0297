"""TorchScript, as libtorch.cc of triton-inference-server/pytorch_backend serves it.

Rules and the words of errors follow that source (containers 24.10 and later).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

from workbook.backends.base import Array, BadModel, BadRequest, Config, to_text
from workbook.backends.pytorch import names
from workbook.backends.pytorch.tensors import KNOWN_TYPES, to_array, to_tensor, type_name
from workbook.backends.rules import sequence_controls


class TorchScript:
    """A TorchScript model, checked against its config.

    Args:
        config: the model's config.
        device: `cpu` or `cuda:N`.

    Raises:
        BadModel: what the real backend refuses, in its words.
    """

    def __init__(self, config: Config, device: str) -> None:
        self._config = config
        self._device = device
        self._inference_mode = config.boolean("INFERENCE_MODE", True)
        self._cache_cleaning = config.boolean("ENABLE_CACHE_CLEANING", False)
        _apply_parameters(config)
        self.settings = (
            f"TorchScript {config.path('model.pt').name}, {torch.get_num_threads()} intra-op and "
            f"{torch.get_num_interop_threads()} inter-op threads"
        )
        self._model = self._load()
        self._takes_dict, positions = self._check_inputs()
        self._inputs = sorted(positions, key=positions.__getitem__)
        self._outputs = self._check_outputs()
        self._expected = {n: t for kind in ("state", "output") for n, t, _ in self._tensors(kind)}

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """Answer one batch; every output of the config is checked, as upstream does.

        Raises:
            BadRequest: the model failed, or gave what the config does not promise.
        """
        arguments = {name: self._argument(array) for name, array in inputs.items()}
        if missing := [name for name in self._inputs if name not in arguments]:
            raise BadRequest(f"input '{missing[0]}' is missing; TorchScript has no optional inputs")
        with torch.inference_mode(self._inference_mode), torch.no_grad():
            try:
                ordered = {name: arguments[name] for name in self._inputs}
                result = self._model(ordered) if self._takes_dict else self._model(*ordered.values())
                values = _flat(result)
            except Exception as error:
                raise BadRequest(f"PyTorch execute failure: {error}") from None
            results = {name: self._output(name, values) for name in self._outputs}
        if self._cache_cleaning and self._device != "cpu":
            torch.cuda.empty_cache()
        return {name: results[name] for name in outputs}

    # -- loading --------------------------------------------------------------------------------

    def _load(self) -> Any:
        config = self._config
        path = config.path("model.pt")
        if not path.exists():
            raise BadModel(f"unable to find '{path}' for model instance '{config.name}'")
        groups = config.raw.get("instance_group", [])
        # KIND_MODEL leaves every part of the model on the device it was saved on.
        leave = any(group.get("kind") == "KIND_MODEL" for group in groups)
        with torch.inference_mode(self._inference_mode), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit is deprecated, which the user knows
            try:
                return torch.jit.load(path, map_location=None if leave else self._device)
            except Exception as error:
                raise BadModel(f"failed to load model '{config.name}': {error}") from None

    def _check_inputs(self) -> tuple[bool, dict[str, int]]:
        """Whether forward() takes one dict, and the argument that each input is."""
        config = self._config
        controls = sequence_controls(config.raw)
        positions = {control.name: names.control_position(control.name) for control in controls}
        for control in controls:
            if control.data_type not in KNOWN_TYPES:
                raise BadModel(
                    f"input '{control.name}' type '{control.data_type}' "
                    "is not supported by PyTorch."
                )
        arguments = _arguments(self._model)
        kinds = [argument.type.kind() for argument in arguments]
        takes_dict = kinds == ["DictType"]
        if not takes_dict:
            added = len(config.batch_inputs) + len(controls) + len(config.states)
            self._check_arguments(arguments, kinds, len(config.inputs) + added)
        own = list(config.inputs)
        if not own:
            raise BadModel(
                "model configuration must contain at least one input, none were specified."
            )
        positions |= {n: names.state_position(config.name, n, own) for n in config.states}
        self._check_types("input")
        computed = [target for entry in config.batch_inputs for target in entry.targets]
        if takes_dict:
            return True, {name: i for i, name in enumerate([*own, *computed, *positions])}
        positions |= names.input_positions(own, computed, [a.name for a in arguments])
        names.check_positions(positions, len(arguments))
        return False, positions

    def _check_arguments(self, arguments: Sequence[Any], kinds: Sequence[str], given: int) -> None:
        if "DictType" in kinds[1:]:
            raise BadModel(
                "Multiple inputs of kind DictType were detected. Only a single input of type "
                "Dict(str, Tensor) is supported."
            )
        for argument, kind in zip(arguments, kinds, strict=True):
            if kind not in ("TensorType", "ListType"):
                raise BadModel(
                    f"An input of type '{argument.type}' was detected in the model. Only a single "
                    "input of type Dict(str, Tensor) or input(s) of type Tensor are supported."
                )
        if arguments and len(arguments) != given:
            raise BadModel(
                f"unable to load model '{self._config.name}', configuration expects {given} "
                f"inputs, model provides {len(arguments)}"
            )

    def _check_outputs(self) -> dict[str, int]:
        """Which element of forward()'s result each output is."""
        config = self._config
        if not config.outputs:
            raise BadModel(
                "model configuration must contain at least one output, none were specified."
            )
        own = list(config.outputs)
        positions = names.output_positions(own)
        states = config.states.values()
        positions |= {n: names.state_position(config.name, n, own) for n in states}
        self._check_types("output")
        self._check_types("state")
        return positions

    def _check_types(self, kind: str) -> None:
        """Refuse types that torch lacks, and text in more than one dimension."""
        config = self._config
        batched = 1 if config.max_batch_size > 0 else 0
        for name, data_type, rank in self._tensors(kind):
            if data_type != "TYPE_STRING" and data_type not in KNOWN_TYPES:
                raise BadModel(
                    f"unsupported datatype {data_type} for {kind} '{name}' "
                    f"for model '{config.name}'"
                )
            if data_type == "TYPE_STRING" and rank + batched > 1:
                raise BadModel(
                    "Triton only supports 1 dimensional List of String as "
                    f"{'input' if kind == 'input' else 'output'} "
                    f"for '{name}' for model '{config.name}'"
                )

    def _tensors(self, kind: str) -> list[tuple[str, str, int]]:
        """Name, type and rank of the config's tensors of a kind: `input`, `output`, `state`."""
        if kind == "state":
            states = (self._config.raw.get("sequence_batching") or {}).get("state", [])
            return [(s["output_name"], s["data_type"], len(s["dims"])) for s in states]
        tensors = self._config.inputs if kind == "input" else self._config.outputs
        return [(t.name, t.data_type, len(t.model_dims)) for t in tensors.values()]

    # -- running --------------------------------------------------------------------------------

    def _argument(self, array: Array) -> Any:
        if array.dtype == np.object_:
            return to_text(array).ravel().tolist()
        return to_tensor(array, self._device)

    def _output(self, name: str, values: Sequence[Any]) -> Array:
        position = self._outputs[name]
        if position >= len(values):
            raise BadRequest(
                f"The output {name} in the model configuration refers to an output index which "
                f"doesn't exist. This model has {len(values)} outputs"
            )
        value = values[position]
        if isinstance(value, list):
            return np.array([text.encode("utf-8") for text in value], dtype=np.object_)
        expected, provided = self._expected[name], type_name(value.dtype)
        if expected != provided:
            raise BadRequest(
                f"configuration expects datatype {expected} for output '{name}', "
                f"model provides {provided}"
            )
        if value.dim() == 0:
            raise BadRequest(f"output '{name}' is a scalar which is not supported.")
        return to_array(value)


def _arguments(model: Any) -> list[Any]:
    """forward()'s arguments without `self`."""
    try:
        arguments = list(model.forward.schema.arguments)
    except AttributeError:
        raise BadModel("Method 'forward' is not defined.") from None
    if arguments and arguments[0].type.kind() == "ClassType":
        return arguments[1:]
    return arguments


def _flat(result: Any) -> list[Any]:
    """forward()'s result as a list of tensors and lists of strings.

    Raises:
        ValueError: it is, or holds, anything else.
    """
    if isinstance(result, tuple):
        for i, value in enumerate(result):
            if isinstance(value, list) and not _is_text(value):
                raise ValueError(
                    f"output at index {i} must be of type Tensor or List[str], "
                    f"received List[{_element(value)}]"
                )
            if not isinstance(value, (list, torch.Tensor)):
                raise ValueError(f"Expected Tensor but got {type(value).__name__}")
        return list(result)
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, list):
        if not _is_text(result):
            raise ValueError(
                f"output must be of type Tensor or List[str], received List[{_element(result)}]"
            )
        return [result]
    raise ValueError(
        "output must be of type Tensor, List[str] or Tuple containing one of these two types. "
        "It should not be a List / Dictionary of Tensors or a Scalar"
    )


def _is_text(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _element(values: list[Any]) -> str:
    return type(values[0]).__name__


def _apply_parameters(config: Config) -> None:
    """Set torch up as the config's parameters say, and log it as the real backend does.

    The settings are torch's own, global ones; each instance is a process, so no other model is
    touched. torch keeps some of them for each thread, and Triton's stub loads and runs a model
    in one and the same thread.
    """

    def tell(what: str, on: bool) -> None:
        pb_utils.Logger.log_info(
            f"{what} is {'enabled' if on else 'disabled'} for model instance '{config.name}'"
        )

    optimized = not config.boolean("DISABLE_OPTIMIZED_EXECUTION", False)
    torch._C._set_graph_executor_optimize(optimized)
    tell("Optimized execution", optimized)
    tell("Cache Cleaning", config.boolean("ENABLE_CACHE_CLEANING", False))
    tell("Inference Mode", config.boolean("INFERENCE_MODE", True))
    torch.backends.cudnn.enabled = not config.boolean("DISABLE_CUDNN", False)
    for key, what, switch in (
        ("ENABLE_TENSOR_FUSER", "Tensor fuser", torch._C._jit_set_texpr_fuser_enabled),
        ("ENABLE_JIT_PROFILING", "Jit profiling", torch._C._jit_set_profiling_mode),
        ("ENABLE_JIT_EXECUTOR", "Jit executor", torch._C._jit_set_profiling_executor),
    ):
        if key in config.parameters:
            on = config.boolean(key, True)
            switch(on)
            tell(what, on)
    if "ENABLE_WEIGHT_SHARING" in config.parameters:
        tell("Weight sharing", config.boolean("ENABLE_WEIGHT_SHARING", False))
        pb_utils.Logger.log_info("each instance is a process here, so no weights are shared")
    if "ENABLE_NVFUSER" in config.parameters:
        pb_utils.Logger.log_info(
            f"ENABLE_NVFUSER has no effect: torch {torch.__version__} has no NvFuser"
        )
    _set_threads(config)


def _set_threads(config: Config) -> None:
    # Values below 1 change nothing upstream either.
    intra = config.integer("INTRA_OP_THREAD_COUNT", 0)
    torch.set_num_threads(intra if intra > 0 else config.fair_threads)
    inter = config.integer("INTER_OP_THREAD_COUNT", 0)
    if inter > 0:
        with contextlib.suppress(RuntimeError):  # torch takes it once in a process
            torch.set_num_interop_threads(inter)
