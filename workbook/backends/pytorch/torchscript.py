"""TorchScript, as libtorch.cc of triton-inference-server/pytorch_backend serves it.

Rules and messages follow that source (containers 24.10 and later).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

from workbook.backends.backend_common import sequence_controls
from workbook.backends.base import Array, BadModel, BadRequest, BrokenModel, Config, to_text
from workbook.backends.pytorch import checks, tensor_names
from workbook.backends.pytorch.torch_tensors import to_array, to_tensor, type_name


class TorchScript:
    """A TorchScript model, checked against its config.

    Args:
        config: the model's config, after the tests in checks.py.
        parameters: its parameters.
        device: `cpu` or `cuda:N`.

    Raises:
        BadModel: the real backend refuses this model too, with the same message.
    """

    def __init__(self, config: Config, parameters: checks.Parameters, device: str) -> None:
        self._config = config
        self._device = device
        self._parameters = parameters
        _apply(config, parameters)
        self.settings = (
            f"TorchScript {config.path('model.pt').name}, {torch.get_num_threads()} intra-op and "
            f"{torch.get_num_interop_threads()} inter-op threads"
        )
        self._model = self._load()
        self._takes_dict, positions = self._check_inputs()
        self._inputs = sorted(positions, key=positions.__getitem__)
        self._outputs = self._check_outputs()
        self._expected = checks.expected_types(config)

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """Answer one batch; every output of the config is checked, as upstream does.

        Raises:
            BadRequest: the model failed, or its result does not match the config.
        """
        arguments = {name: self._argument(array) for name, array in inputs.items()}
        if missing := [name for name in self._inputs if name not in arguments]:
            raise BadRequest(f"input '{missing[0]}' is missing; TorchScript has no optional inputs")
        with torch.inference_mode(self._parameters.inference_mode), torch.no_grad():
            try:
                ordered = {name: arguments[name] for name in self._inputs}
                result = (
                    self._model(ordered) if self._takes_dict else self._model(*ordered.values())
                )
                values = _flat(result)
            except Exception as error:
                raise BadRequest(f"PyTorch execute failure: {error}") from None
            results = {name: self._output(name, values) for name in self._outputs}
        if self._parameters.cache_cleaning and self._device != "cpu":
            torch.cuda.empty_cache()
        return {name: results[name] for name in outputs}

    # -- loading --------------------------------------------------------------------------------

    def _load(self) -> Any:
        config = self._config
        groups = config.raw.get("instance_group", [])
        # KIND_MODEL leaves every part of the model on the device it was saved on.
        leave = any(group.get("kind") == "KIND_MODEL" for group in groups)
        with torch.inference_mode(self._parameters.inference_mode), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about torch.jit, which is deprecated
            try:
                return torch.jit.load(
                    config.path("model.pt"), map_location=None if leave else self._device
                )
            except Exception as error:
                raise BrokenModel(f"failed to load model '{config.name}': {error}") from None

    def _check_inputs(self) -> tuple[bool, dict[str, int]]:
        """Whether forward() takes one dict, and each input's position among its arguments."""
        config = self._config
        controls = sequence_controls(config.raw)
        positions = {c.name: tensor_names.control_position(c.name) for c in controls}
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
        positions |= {n: tensor_names.state_position(config.name, n, own) for n in config.states}
        computed = [target for entry in config.batch_inputs for target in entry.targets]
        if takes_dict:
            return True, {name: i for i, name in enumerate([*own, *computed, *positions])}
        positions |= tensor_names.input_positions(own, computed, [a.name for a in arguments])
        tensor_names.check_positions(positions, len(arguments))
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
        """The position of each output in forward()'s result."""
        config = self._config
        own = list(config.outputs)
        positions = tensor_names.output_positions(own)
        states = config.states.values()
        positions |= {n: tensor_names.state_position(config.name, n, own) for n in states}
        return positions

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
        try:
            value = value.contiguous()
        except Exception:  # a sparse tensor cannot be made contiguous
            raise BadRequest(f"output tensor '{name}' is not found") from None
        expected, provided = self._expected[name], type_name(value.dtype)
        if expected != provided:
            raise BadRequest(
                f"configuration expects datatype {expected.replace('STRING', 'BYTES')} for output "
                f"'{name}', "
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
        ValueError: it is anything else, or contains anything else.
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


def _apply(config: Config, parameters: checks.Parameters) -> None:
    """Set torch's options from the parameters, and log them with the real backend's messages.

    The options are global in torch. Each instance is a process, so no other model is affected.
    torch keeps some options per thread; Triton's stub loads and runs a model in one thread.
    """

    def tell(what: str, on: bool) -> None:
        pb_utils.Logger.log_info(
            f"{what} is {'enabled' if on else 'disabled'} for model instance '{config.name}'"
        )

    torch._C._set_graph_executor_optimize(parameters.optimized)
    torch.backends.cudnn.enabled = parameters.cudnn
    for what, on, switch in (
        ("Tensor fuser", parameters.fuser, torch._C._jit_set_texpr_fuser_enabled),
        ("Jit profiling", parameters.profiling, torch._C._jit_set_profiling_mode),
        ("Jit executor", parameters.executor, torch._C._jit_set_profiling_executor),
    ):
        if on is not None:
            switch(on)
            tell(what, on)
    if config.parameters:
        tell("Optimized execution", parameters.optimized)
        tell("Cache Cleaning", parameters.cache_cleaning)
        tell("Inference Mode", parameters.inference_mode)
        tell("cuDNN", parameters.cudnn)
    for key in parameters.ignored:
        pb_utils.Logger.log_info(f"{key} has no effect on model '{config.name}' {_WHY[key]}")
    # As upstream, a count below 1 changes nothing.
    torch.set_num_threads(parameters.intra if parameters.intra > 0 else config.fair_threads)
    if parameters.inter > 0:
        with contextlib.suppress(RuntimeError):  # torch allows it once per process
            torch.set_num_interop_threads(parameters.inter)


_WHY = {
    "ENABLE_NVFUSER": "(torch no longer has NvFuser)",
    "ENABLE_WEIGHT_SHARING": "(each instance is a process here, with weights of its own)",
}
