"""Serve a torch.nn.Module through torch.compile, as src/model.py of upstream's PyTorch backend.

The model folder has the user's `model.py` and perhaps `model.pt` with the state dict. `model.py`
defines a `torch.nn.Module`; its constructor needs no arguments. The model is compiled at its first
request, or at its warm-up. For a new input shape it may be compiled again. (Source:
triton-inference-server/pytorch_backend.)

Parameters: NUM_THREADS and NUM_INTEROP_THREADS (1 unless given), and
TORCH_COMPILE_OPTIONAL_PARAMETERS, a JSON object of torch.compile's own arguments, e.g.
`{"mode": "max-autotune", "dynamic": true}`.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

from workbook.backends.base import Array, BadModel, BadRequest, BrokenModel, Config
from workbook.backends.pytorch.options import Options
from workbook.backends.pytorch.torch_tensors import to_array, to_tensor


class Compiled:
    """A compiled model; inputs and outputs are passed in the config's order.

    Args:
        config: the model's config.
        options: the file to serve, threads, and torch.compile's arguments.
        device: `cpu` or `cuda:N`.

    Raises:
        BadModel: the model cannot be made, or cannot be compiled here.
    """

    def __init__(self, config: Config, options: Options, device: str) -> None:
        self._config = config
        self._device = device
        torch.set_num_threads(options.threads)
        torch.set_num_interop_threads(options.interop_threads)
        path = options.path
        self.settings = (
            f"torch.compile {path.name}, {torch.get_num_threads()} intra-op and "
            f"{torch.get_num_interop_threads()} inter-op threads, options {options.compile}"
        )
        with torch.inference_mode():
            if path.suffix != ".py":
                self._model = self._torchscript(path)
                return
            model = _make(config.name, path)
            weights = path.with_suffix(".pt")
            if weights.exists():
                _load_weights(model, weights, device)
            else:
                pb_utils.Logger.log_info(f"Model parameter file not found for '{config.name}'")
            model.to(device)
            model.eval()
            try:
                self._model = torch.compile(model, **options.compile)
            except Exception as error:
                raise BadModel(
                    "torch.compile does not take TORCH_COMPILE_OPTIONAL_PARAMETERS "
                    f"{options.compile}: {error}"
                ) from None

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """Answer one batch.

        Raises:
            BadRequest: the model failed, or has fewer outputs than the config.
        """
        arguments = []
        for name in self._config.inputs:
            if name not in inputs:
                raise BadRequest(f"input '{name}' is missing")
            if inputs[name].dtype == np.object_:
                raise BadRequest(f"input '{name}' is text, which torch tensors cannot hold")
            arguments.append(to_tensor(inputs[name], self._device))
        with torch.inference_mode():
            try:
                result = self._model(*arguments)
            except Exception as error:
                raise BadRequest(f"PyTorch execute failure: {error}") from None
            values = list(result) if isinstance(result, (tuple, list)) else [result]
            if len(values) < len(self._config.outputs):
                raise BadRequest(
                    f"the configuration has {len(self._config.outputs)} outputs, "
                    f"the model gives {len(values)}"
                )
            named = dict(zip(self._config.outputs, values, strict=False))
            if any(
                value.layout == torch.strided and not value.is_contiguous()
                for value in named.values()
            ):
                # The message of the Python backend: upstream's model.py passes tensors as DLPack.
                raise BadRequest(
                    "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are "
                    "stored in C-Order are supported."
                )
            return {name: to_array(named[name]) for name in outputs}

    def _torchscript(self, path: Path) -> Any:
        pb_utils.Logger.log_info(f"Loading '{self._config.name}' as TorchScript")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about torch.jit, which is deprecated
            try:
                return torch.jit.load(path, map_location=self._device).eval()
            except Exception as error:
                raise BrokenModel(f"failed to load model '{self._config.name}': {error}") from None


def _make(name: str, path: Path) -> Any:
    """Import the user's file and instantiate its first Module by name, as upstream does."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadModel(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BrokenModel(f"{path} failed: {type(error).__name__}: {error}") from None
    for attribute in dir(module):
        found = getattr(module, attribute)
        if isinstance(found, type) and issubclass(found, torch.nn.Module):
            break
    else:
        raise BadModel(f"Cannot find a subclass of torch.nn.Module in {path}")
    try:
        return found()
    except Exception as error:
        raise BrokenModel(
            f"{path}: {attribute}() failed: {type(error).__name__}: {error}. The first subclass "
            "of torch.nn.Module by name is taken; it must be made without arguments"
        ) from None


def _load_weights(model: Any, path: Path, device: str) -> None:
    try:
        model.load_state_dict(torch.load(path, map_location=device))
    except Exception as error:
        raise BrokenModel(f"{path} is not this model's state dict: {error}") from None
