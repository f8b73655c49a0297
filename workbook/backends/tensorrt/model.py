"""The stand-in for Triton's TensorRT backend.

Without a GPU every load fails with upstream's message, and the error says what is needed. With a
GPU and the `tensorrt` package it deserializes `model.plan` and runs it with torch tensors on the
instance's device, with the engine's first optimization profile. This is not verified on a GPU.
Names, types and shapes are checked as in triton-inference-server/tensorrt_backend
(src/instance_state.cc, src/tensorrt_utils.cc).
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from workbook.backends.backend_common import check_allowed
from workbook.backends.base import (
    Array,
    BadModel,
    BadRequest,
    BrokenModel,
    Config,
    MissingModel,
    Signature,
    StandIn,
    Tensor,
    other_dims,
)

# TensorRT's name of an element type → Triton's.
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
NEEDED = (
    "An engine runs on an NVIDIA GPU only, on the GPU model and with the TensorRT version that "
    "built it. On a machine with a GPU, build model.plan there with trtexec and serve it in "
    "NVIDIA's container; without one, serve the same model with the onnxruntime or openvino "
    "backend"
)


@dataclasses.dataclass(frozen=True)
class Described(Signature):
    """An engine's tensors, and the largest batch it takes (0: its first dimension is fixed)."""

    largest: int = 0


class TritonPythonModel(StandIn):
    """A serialized TensorRT engine."""

    backend: ClassVar[str] = "tensorrt"

    @classmethod
    def describe(cls, config: Config) -> Described:
        """The engine's inputs and outputs, and the largest batch of its first profile."""
        groups = config.raw.get("instance_group", [])
        if not any(group.get("kind") == "KIND_GPU" for group in groups):
            raise _no_gpu(config)
        engine, inputs, outputs = _engine(config)
        largest = 0
        if all(t.dims and t.dims[0] == -1 for t in (*inputs, *outputs)):
            largest = min(engine.get_tensor_profile_shape(t.name, 0)[2][0] for t in inputs)
        return Described(inputs, outputs, largest)

    @classmethod
    def complete(cls, auto: Any, raw: Mapping[str, Any], signature: Signature) -> None:
        """Complete max_batch_size and batching if the engine has them, then the tensors."""
        if not raw.get("max_batch_size") and isinstance(signature, Described):
            auto.set_max_batch_size(signature.largest)
            if signature.largest > 1 and "sequence_batching" not in raw:
                auto.set_dynamic_batching()
        super().complete(auto, raw, signature)

    def load(self) -> None:
        """Deserialize the engine on the instance's device and check the config against it."""
        if self.kind != "GPU":
            raise _no_gpu(self.config)
        import torch

        self._device = torch.device(self.device)
        with torch.cuda.device(self._device):
            self._engine, inputs, outputs = _engine(self.config)
            self._context = self._engine.create_execution_context()
            self._stream = torch.cuda.Stream(self._device)
        for kind, ours, theirs in (
            ("input", self.config.inputs, {t.name: t for t in inputs}),
            ("output", self.config.outputs, {t.name: t for t in outputs}),
        ):
            for tensor in ours.values():
                check_allowed(kind, tensor.name, theirs)
                self._check(kind, tensor, theirs[tensor.name])
        self._outputs = {t.name: _torch_type(t) for t in outputs}
        self.log(f"TensorRT engine with {self._engine.num_layers} layers, first profile")

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Copy the batch to the device, run the engine, copy the answers back."""
        import torch

        context = self._context
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            held = {n: torch.from_numpy(a.copy()).to(self._device) for n, a in inputs.items()}
            for name, tensor in held.items():
                if not context.set_input_shape(name, tuple(tensor.shape)):
                    raise BadRequest(
                        f"request specifies invalid shape for input '{name}': "
                        f"{list(tensor.shape)} is outside the engine's first profile"
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
        """Release the engine's memory on the device."""
        del self._context, self._engine

    def _check(self, kind: str, ours: Tensor, theirs: Tensor) -> None:
        if ours.data_type != theirs.data_type:
            raise BadModel(
                f"unable to load model '{self.config.name}', configuration expects datatype "
                f"{ours.data_type} for {kind} '{ours.name}', model provides {theirs.data_type}"
            )
        model = theirs.dims or ()
        full = (-1, *ours.model_dims) if self.config.max_batch_size else ours.model_dims
        fits = len(model) == len(full) and all(
            a in (b, -1) for a, b in zip(model, full, strict=True)
        )
        if not fits:
            raise other_dims(self.config, ours.name, model, full)


def _no_gpu(config: Config) -> BadModel:
    return BadModel(
        f"unable to load model '{config.name}', TensorRT backend supports only GPU device. {NEEDED}"
    )


def _engine(config: Config) -> tuple[Any, list[Tensor], list[Tensor]]:
    """Deserialize the engine; return it with its inputs and outputs."""
    path = config.path("model.plan")
    if not path.exists():
        raise MissingModel(f"unable to find '{path}' for model instance '{config.name}'")
    try:
        tensorrt = importlib.import_module("tensorrt")  # on machines with a GPU only
    except ImportError as error:
        raise BrokenModel(f"the tensorrt package cannot be imported: {error}. {NEEDED}") from None
    logger = tensorrt.Logger(tensorrt.Logger.WARNING)
    tensorrt.init_libnvinfer_plugins(logger, "")
    engine = tensorrt.Runtime(logger).deserialize_cuda_engine(path.read_bytes())
    if engine is None:
        raise BrokenModel(f"unable to create TensorRT engine: {path} was built elsewhere. {NEEDED}")
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        data_type = TYPES.get(engine.get_tensor_dtype(name).name, "TYPE_INVALID")
        tensor = Tensor(name, data_type, tuple(engine.get_tensor_shape(name)))
        is_input = engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT
        (inputs if is_input else outputs).append(tensor)
    return engine, inputs, outputs


def _torch_type(tensor: Tensor) -> Any:
    import torch

    if tensor.data_type in ("TYPE_BF16", "TYPE_INVALID"):
        raise BadModel(
            f"output '{tensor.name}' has a type that numpy lacks; build the engine with FP32 or "
            "FP16 outputs"
        )
    return torch.from_numpy(np.empty(0, tensor.dtype)).dtype
