"""The stand-in for Triton's ONNX Runtime backend.

File names, parameters, validation and messages follow triton-inference-server/onnxruntime_backend
(src/onnxruntime.cc, src/onnxruntime_utils.cc). These differences are on purpose:

- Without `intra_op_thread_count` an instance takes an equal share of the cores; upstream takes all
  cores for each instance. "0" gives upstream's default.
- Every instance has its own session: `share_session_between_instances` is checked and has no
  effect.
- Every instance is a process of its own. If there is a C++ compiler, that process only checks the
  config and a plain model, which then runs inside the server, as upstream (fastpath.py).

Execution accelerators: accelerators.py reads them, plugins.py opens sessions with them. KIND_GPU
puts the session on the instance's device, through the CUDA provider, or through TensorRT's if the
config asks for it. Verified on a GPU with CUDA (docker/gpu/VERIFIED.md), not with TensorRT.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from workbook.backends.backend_common import check_allowed, sequence_controls
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
    shape_text,
    to_bytes,
    to_text,
)
from workbook.backends.onnxruntime import accelerators, fastpath, plugins

# The element types of ONNX that upstream serves. It does not serve bfloat16 and complex numbers.
TYPES = {
    "tensor(float)": "TYPE_FP32",
    "tensor(float16)": "TYPE_FP16",
    "tensor(double)": "TYPE_FP64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(bool)": "TYPE_BOOL",
    "tensor(string)": "TYPE_STRING",
}


class TritonPythonModel(StandIn):
    """An ONNX model in an ONNX Runtime session."""

    backend: ClassVar[str] = "onnxruntime"
    completed_batch_size: ClassVar[int] = 4
    not_batching: ClassVar[type[BadModel]] = BadModel

    @classmethod
    def describe(cls, config: Config) -> Signature:
        """The inputs and outputs of the ONNX graph."""
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1  # the session is only read, nothing runs
        _register_operations(config, options)
        session = _session(config, options, [("CPUExecutionProvider", {})])
        return Signature(_tensors(session.get_inputs()), _tensors(session.get_outputs()))

    def load(self) -> None:
        """Make the session with the config's options, and check the config against the graph.

        A plain model is then handed to the fast path, and this process gets no requests.
        """
        import onnxruntime as ort

        file = _file(self.config)
        options, providers = self._options(), self._providers()
        self.session = _session(self.config, options, providers, self._warn)
        self._check_providers(providers)
        self._check()
        self._run_options: Any = None
        shrink = self.config.parameters.get("memory.enable_memory_arena_shrinkage")
        if shrink is not None:
            self._run_options = ort.RunOptions()
            self._run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", shrink)
        inputs = _tensors(
            [*self.session.get_inputs(), *self.session.get_overridable_initializers()]
        )
        self._text_inputs = [t.name for t in inputs if t.data_type == "TYPE_STRING"]
        self._scalars = [t.name for t in inputs if t.dims == () and t.data_type != "TYPE_STRING"]
        outputs = _tensors(self.session.get_outputs())
        self._text_outputs = [t.name for t in outputs if t.data_type == "TYPE_STRING"]
        scalar = any(t.dims == () for t in (*inputs, *outputs))
        usual = not scalar and len(providers) == 1
        inside = usual and fastpath.offer(self.config, self.instance, file, options)
        used = self.session.get_session_options()
        self.log(
            f"threads {_count(used.intra_op_num_threads)} within an operator, "
            f"{_count(used.inter_op_num_threads)} across operators, "
            f"execution mode {_option(used.execution_mode)}, "
            f"graph level {_option(used.graph_optimization_level)}, "
            f"memory arena {'on' if used.enable_cpu_mem_arena else 'off'}, "
            f"memory pattern {'on' if used.enable_mem_pattern else 'off'}, "
            f"providers {plugins.describe(self.session)}, "
            f"requests {'inside the server' if inside else 'in a process of their own'}"
        )
        if inside:
            self.session = None  # this process gets no requests

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Run the session on a batch."""
        for name in self._text_inputs:
            if name in inputs:
                inputs = {**inputs, name: to_text(inputs[name])}
        for name in self._scalars:
            if name in inputs:  # as upstream: the first element of a batch counts for all
                inputs = {**inputs, name: _first(name, inputs[name])}
        try:
            results = dict(
                zip(outputs, self.session.run(outputs, inputs, self._run_options), strict=False)
            )
        except Exception as error:
            raise BadRequest(_message(error)) from None
        for name in self._text_outputs:
            if name in results:
                results[name] = to_bytes(results[name])
        return results

    def unload(self) -> None:
        """Release the session."""
        del self.session

    # -- the config's options -------------------------------------------------------------------

    def _options(self) -> Any:
        import onnxruntime as ort

        config = self.config
        options = ort.SessionOptions()
        level = (config.raw.get("optimization", {}).get("graph") or {}).get("level", 0)
        levels = ort.GraphOptimizationLevel
        options.graph_optimization_level = {
            -1: levels.ORT_ENABLE_BASIC,
            1: levels.ORT_ENABLE_EXTENDED,
            2: levels.ORT_DISABLE_ALL,
        }.get(int(level), levels.ORT_ENABLE_ALL)
        mode = config.integer("execution_mode", 0)
        if mode not in (0, 1):
            raise BadModel(
                "Invalid configuration value provided. Expected values for  execution_mode are "
                f"0 or 1 but got {mode} ."
            )
        options.execution_mode = (
            ort.ExecutionMode.ORT_PARALLEL if mode else ort.ExecutionMode.ORT_SEQUENTIAL
        )
        options.intra_op_num_threads = max(
            0, config.integer("intra_op_thread_count", config.fair_threads)
        )
        options.inter_op_num_threads = max(
            0, config.integer("inter_op_thread_count", config.fair_threads)
        )
        options.enable_cpu_mem_arena = config.boolean("enable_mem_arena", True)
        options.enable_mem_pattern = config.boolean("enable_mem_pattern", True)
        entry = "session.use_device_allocator_for_initializers"
        if entry in config.parameters:
            options.add_session_config_entry(entry, config.parameters[entry])
        config.boolean("share_session_between_instances", False)
        _register_operations(config, options)
        return options

    def _providers(self) -> list[accelerators.Provider]:
        config = self.config
        wanted = config.raw.get("optimization", {}).get("execution_accelerators") or {}
        providers: list[accelerators.Provider] = []
        try:
            if self.device != "cpu":
                number = self.device.removeprefix("cuda:")
                providers = accelerators.gpu_providers(wanted, config.parameters, number)
            providers += accelerators.cpu_providers(wanted)
        except accelerators.Refused as error:
            raise BadModel(str(error)) from None
        return [*providers, ("CPUExecutionProvider", {})]

    def _warn(self, what: str, todo: str) -> None:
        """Write a warning into the server's log, as server/model_warnings.py reads it."""
        line = f"Warning about model '{self.config.name}', version {self.config.version}: {what}"
        where = "config.pbtxt, optimization.execution_accelerators"
        with contextlib.suppress(OSError):
            os.write(1, f"{line}\nwhere: {where}\nto do: {todo}\n".encode())

    def _check_providers(self, wanted: list[accelerators.Provider]) -> None:
        """Refuse the CPU for an instance on a GPU: ONNX Runtime only warns when it falls back."""
        used = self.session.get_providers()
        if self.device != "cpu" and accelerators.CUDA not in used:
            raise BadModel(
                f"onnxruntime cannot use {self.device}: the CUDA provider did not start. Install "
                "onnxruntime-gpu with the CUDA and cuDNN libraries that it names in the log"
            )
        tensorrt = any(name == accelerators.TENSORRT for name, _ in wanted)
        if tensorrt and not {accelerators.TENSORRT, plugins.RTX} & set(used):
            self._warn(
                f"It runs on {self.device} without TensorRT, whose provider did not start.",
                "Install TensorRT; the log names the library that is missing.",
            )

    # -- the config against the graph -----------------------------------------------------------

    def _check(self) -> None:
        config = self.config
        inputs = {t.name: t for t in _tensors(self.session.get_inputs())}
        controls = sequence_controls(config.raw)
        for control in controls:
            self._check_control(control.name, control.data_type, inputs)
        required = [t for t in config.inputs.values() if not t.optional]
        expected = len(required) + len(config.batch_inputs) + len(controls) + len(config.states)
        if expected != len(inputs):
            raise self._refused(
                f"configuration expects {expected} inputs, model provides {len(inputs)}"
            )
        for t in _tensors(self.session.get_overridable_initializers()):
            inputs[t.name] = t
        for tensor in config.inputs.values():
            if tensor.optional and config.max_batch_size:
                raise self._refused(
                    f"optional input '{tensor.name}' is not supported for models that support "
                    "batching"
                )
            self._check_tensor("input", tensor, inputs)
        outputs = {t.name: t for t in _tensors(self.session.get_outputs())}
        for tensor in config.outputs.values():
            self._check_tensor("output", tensor, outputs)

    def _check_tensor(self, kind: str, tensor: Tensor, model: Mapping[str, Tensor]) -> None:
        config, name = self.config, tensor.name
        check_allowed(kind, name, model)
        theirs = model[name]
        if tensor.data_type not in TYPES.values():
            raise BrokenModel(
                f"unsupported datatype {tensor.data_type} for {kind} '{name}' for model "
                f"'{config.name}'"
            )
        if tensor.data_type != theirs.data_type:
            raise self._refused(
                f"configuration expects datatype {tensor.data_type} for {kind} '{name}', model "
                f"provides {theirs.data_type.replace('STRING', 'BYTES')}"
            )
        dims = theirs.dims or ()
        if tensor.ragged:
            if dims != (-1,):
                raise self._refused(
                    "configuration expects model provides input with shape [-1]  for ragged input "
                    f"'{name}', model provides {shape_text(dims)}"
                )
        elif not dims:
            if any(d != 1 for d in tensor.model_dims):
                raise self._refused(
                    f"scalar tensor '{name}', should only provide 1 in the model configuration "
                    "when the model doesn't support batching. Model configuration provided: "
                    f"{shape_text(tensor.model_dims)}."
                )
        elif not (kind == "output" and any(name in b.targets for b in config.batch_outputs)):
            self._check_dims(name, dims, tensor.model_dims, exact=kind == "output")

    def _check_dims(
        self, name: str, model: tuple[int, ...], dims: tuple[int, ...], *, exact: bool
    ) -> None:
        """Check dims: an input may fix a variable dimension of the model, an output may not."""
        batches = self.config.max_batch_size > 0
        if batches and model[0] != -1:
            raise BadModel(
                f"model '{self.config.name}', tensor '{name}': for the model to support batching "
                "the shape should have at least 1 dimension and the first dimension must be -1; "
                f"but shape expected by the model is {shape_text(model)}"
            )
        full = (-1, *dims) if batches else dims
        fits = len(full) == len(model) and all(
            theirs == ours or (theirs == -1 and not exact)
            for theirs, ours in zip(model, full, strict=True)
        )
        if not fits:
            raise other_dims(self.config, name, model, full)

    def _check_control(self, name: str, data_type: str, inputs: Mapping[str, Tensor]) -> None:
        if name not in inputs:
            raise BadModel(
                f"configuration specified sequence control '{name}', but model does not provide "
                "that input"
            )
        dims = (inputs[name].dims or ())[1 if self.config.max_batch_size else 0 :]
        if dims != (1,):
            raise self._refused(
                f"sequence control '{name}' in model has dims {shape_text(dims)} but dims [1] is "
                "expected"
            )
        if data_type != inputs[name].data_type:
            raise self._refused(
                f"sequence control '{name}', the model expects data-type "
                f"{_onnx_name(inputs[name].data_type)} but the model configuration "
                f"specifies data-type {data_type}"
            )

    def _refused(self, why: str) -> BadModel:
        return BadModel(f"unable to load model '{self.config.name}', {why}")


def _file(config: Config) -> Path:
    """The model's file; if its path is a folder, the `model.onnx` in it."""
    path = config.file("model.onnx")
    if not path.is_dir():
        return path
    path /= "model.onnx"
    if not path.exists():
        raise MissingModel(f"unable to find '{path}' for model instance '{config.name}'")
    return path


def _session(
    config: Config,
    options: Any,
    providers: list[accelerators.Provider],
    warn: Callable[[str, str], None] = print,
) -> Any:
    import onnxruntime as ort

    if any(name == accelerators.CUDA for name, _ in providers):
        ort.preload_dlls()  # CUDA libraries from pip are not on the search path
    path = _file(config)
    try:
        return plugins.open_session(path, options, providers, config.fair_threads, warn)
    except accelerators.Refused as error:
        raise BadModel(str(error)) from None
    except Exception as error:
        raise BrokenModel(_message(error)) from None


def _register_operations(config: Config, options: Any) -> None:
    operations = config.raw.get("model_operations") or {}
    for library in operations.get("op_library_filename", []):
        try:
            options.register_custom_ops_library(library)
        except Exception as error:
            raise BrokenModel(_message(error)) from None


def _first(name: str, array: Array) -> Array:
    """The first element, as an array without dimensions."""
    if not array.size:
        raise BadRequest(f"onnx runtime error 2: not enough space: input '{name}' has no element")
    return array.reshape(-1)[:1].reshape(())


def _tensors(nodes: Sequence[Any]) -> list[Tensor]:
    return [_tensor(node) for node in nodes]


def _tensor(node: Any) -> Tensor:
    if not node.type.startswith("tensor("):
        kinds = {"seq": "SEQUENCE", "map": "MAP", "sparse_tensor": "SPARSETENSOR"}
        kind = kinds.get(node.type.partition("(")[0], "UNKNOWN")
        raise BadModel(
            f"Unsupported ONNX Type 'ONNX_TYPE_{kind}' for I/O '{node.name}', expected "
            "'ONNX_TYPE_TENSOR'."
        )
    dims = tuple(d if isinstance(d, int) else -1 for d in node.shape)
    return Tensor(node.name, TYPES.get(node.type, "TYPE_INVALID"), dims)


def _onnx_name(data_type: str) -> str:
    name = data_type.removeprefix("TYPE_")
    return {"FP32": "FLOAT", "FP16": "FLOAT16", "FP64": "DOUBLE"}.get(name, name)


def _message(error: Exception) -> str:
    """ONNX Runtime's error as upstream reports it: the code and the message."""
    found = re.match(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", str(error), re.DOTALL)
    if found:
        return f"onnx runtime error {found[1]}: {found[2]}"
    return f"onnx runtime error: {error}"


def _count(threads: int) -> str:
    return str(threads) if threads else "(ONNX Runtime's default)"


def _option(member: Any) -> str:
    """An option's name as its documentation spells it: ORT_ENABLE_ALL → enable_all."""
    return str(member.name).removeprefix("ORT_").lower()
