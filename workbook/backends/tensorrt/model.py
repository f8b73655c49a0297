"""The stand-in for Triton's TensorRT backend.

An engine runs on an NVIDIA GPU only. Without one every load fails, and the error says as much as is
known. If the plan's record lies beside it (record.py), the config is checked against the engine as
upstream does it (checks.py), and what does not fit is told with upstream's message. If all fits,
the error says that, and that a GPU is missing.

With a GPU, plans of TensorRT for RTX are run by the package `tensorrt_rtx`, and all others by
`tensorrt`: with torch tensors on the instance's device, a CUDA stream for each instance, and the
engine's first optimization profile. The runtime of TensorRT for RTX compiles kernels when it meets
a shape for the first time. What it compiled is kept in `.workbook/engines` for the next start.
Running engines is not verified on a GPU. Names of the API are tested against NVIDIA's bindings.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import triton_python_backend_utils as pb_utils

from workbook.backends.base import (
    Array,
    BadModel,
    BadRequest,
    BrokenModel,
    Config,
    Signature,
    StandIn,
    Tensor,
)
from workbook.backends.tensorrt import checks, engine, record
from workbook.backends.tensorrt.engine import Described
from workbook.backends.tensorrt.record import PRODUCTS
from workbook.common import paths


class TritonPythonModel(StandIn):
    """A serialized TensorRT engine."""

    backend: ClassVar[str] = "tensorrt"
    completes_always: ClassVar[bool] = True

    _cache: Any  # of compiled kernels; None where the engine needs none

    @classmethod
    def describe(cls, config: Config) -> Described:
        """The engine's inputs and outputs; without a GPU those of its record."""
        groups = config.raw.get("instance_group", [])
        if any(group.get("kind") == "KIND_GPU" for group in groups):
            return engine.from_engine(engine.deserialize(config, config.name))
        return engine.from_record(engine.known(config))

    @classmethod
    def complete(cls, auto: Any, raw: Mapping[str, Any], signature: Signature) -> None:
        """Complete max_batch_size and batching if the engine has them, then the tensors."""
        assert isinstance(signature, Described)
        size, largest = int(raw.get("max_batch_size", 0)), signature.largest_batch
        if checks.batches(raw, signature) is False:
            pb_utils.Logger.log_warn(
                f"The specified dimensions in model config for {raw['name']} hints that batching "
                "is unavailable"
            )
            largest = 0
        if size > largest:
            raise BrokenModel(
                f"autofill failed for model '{raw['name']}': configuration specified max-batch "
                f"{size} but TensorRT engine only supports max-batch {largest}"
            )
        if not size:
            auto.set_max_batch_size(largest)
        if largest > 1 and not {"sequence_batching", "dynamic_batching"} & raw.keys():
            auto.set_dynamic_batching()
        super().complete(auto, {**raw, "max_batch_size": size or largest}, signature)

    def load(self) -> None:
        """Deserialize the engine on the instance's device and check the config against it."""
        if self.kind != "GPU":
            known = engine.known(self.config)
            checks.check(self.config, self.instance, engine.from_record(known))
            raise engine.no_gpu(self.config, engine.summary(known))
        import torch

        self._device = torch.device(self.device)
        with torch.cuda.device(self._device):
            self._loaded = engine.deserialize(self.config, self.instance)
            described = engine.from_engine(self._loaded)
            checks.check(self.config, self.instance, described)
            self._engine, self._cache = self._loaded.engine, None
            self._context = self._new_context()
            self._stream = torch.cuda.Stream(self._device)
        self._ranges = described.ranges
        self._outputs = {t.name: _torch_type(t) for t in described.outputs}
        product = PRODUCTS[self._loaded.product]
        self.log(f"{product}: {self._engine.num_layers} layers, first profile")

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Copy the batch to the device, run the engine, copy the answers back."""
        import torch

        context = self._context
        for name, array in inputs.items():
            if problem := checks.outside(array.shape, *self._ranges[name]):
                raise BadRequest(
                    f"request specifies invalid shape for input '{name}' for {self.instance}. "
                    f"Error details: {problem}"
                )
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            held = {n: torch.from_numpy(a.copy()).to(self._device) for n, a in inputs.items()}
            for name, tensor in held.items():
                if not context.set_input_shape(name, tuple(tensor.shape)):
                    raise BadRequest(
                        f"trt failed to set binding dimension to {list(tensor.shape)} for input "
                        f"'{name}' for {self.instance}"
                    )
                context.set_tensor_address(name, tensor.data_ptr())
            results = {}
            for name, dtype in self._outputs.items():
                shape = tuple(context.get_tensor_shape(name))
                if min(shape, default=0) < 0:
                    raise BadRequest(f"the shape of output '{name}' depends on the data")
                results[name] = torch.empty(shape, dtype=dtype, device=self._device)
                context.set_tensor_address(name, results[name].data_ptr())
            if not context.execute_async_v3(self._stream.cuda_stream):
                raise BadRequest("TensorRT could not run the engine; the log says why")
            answers = {name: results[name].cpu().numpy() for name in outputs}
        self._stream.synchronize()
        return answers

    def unload(self) -> None:
        """Keep what was compiled, and release the engine's memory on the device."""
        if self._cache is not None:
            try:
                self._kernels.parent.mkdir(exist_ok=True)
                new = self._kernels.with_suffix(f".{self.instance}")  # others may write, too
                new.write_bytes(self._cache.serialize())
                new.replace(self._kernels)
            except OSError as error:
                self.log(f"compiled kernels are not kept for the next start: {error}")
        del self._context, self._cache, self._engine, self._loaded

    def _new_context(self) -> Any:
        """An execution context; that of TensorRT for RTX begins with what was compiled before."""
        if self._loaded.product != "tensorrt_rtx":
            return self._engine.create_execution_context()
        settings = self._engine.create_runtime_config()
        self._cache = settings.create_runtime_cache()
        self._kernels = self._kernels_file()
        with contextlib.suppress(OSError):
            # False where it was compiled for another GPU, or by another version.
            if self._cache.deserialize(self._kernels.read_bytes()):
                self.log("with the kernels that were compiled before")
        settings.set_runtime_cache(self._cache)
        return self._engine.create_execution_context(settings)

    def _kernels_file(self) -> Path:
        """Where the compiled kernels of this plan on this kind of GPU are kept."""
        import torch

        kind = re.sub(r"\W+", "_", torch.cuda.get_device_name(self._device))
        name = f"{record.digest(self.config.path('model.plan'))[:16]}-{kind}.kernels"
        return paths.root() / ".workbook" / "engines" / name


def _torch_type(tensor: Tensor) -> Any:
    import torch

    if tensor.data_type in ("TYPE_BF16", "TYPE_INVALID"):
        raise BadModel(
            f"output '{tensor.name}' has a type that numpy lacks; build the engine with FP32 or "
            "FP16 outputs"
        )
    return torch.from_numpy(np.empty(0, tensor.dtype)).dtype
