"""The stand-in for Triton's OpenVINO backend.

File names, parameters, validation and messages follow triton-inference-server/openvino_backend
(src/openvino.cc, src/openvino_utils.cc, README.md). Some behaviour of upstream may be unexpected:

- With max_batch_size > 0 the model is compiled for exactly that batch size. A smaller batch is
  refused unless `ENABLE_BATCH_PADDING` is YES. It is then filled up with zeros, and takes as long
  as a full batch. Without padding, requests are not batched together.
- If the config has no tensors, they are completed. If any dimension of a tensor is variable, all
  its dimensions become -1. The load then refuses that, since a fixed dimension of the model is not
  -1. Outputs, and models that do not batch, must therefore be in the config, or have no variable
  dimension.
- A dimension with bounds, e.g. 0..8, is not -1: the config must give a number between the bounds.
- The config's data types may differ from the model's: OpenVINO converts.
- On a processor that has bfloat16 instructions OpenVINO computes in bfloat16 by default.

One difference is on purpose: upstream's instances share one compiled model and its streams; here
each instance is a process of its own. So without `INFERENCE_NUM_THREADS` an instance takes an equal
share of the cores.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import triton_python_backend_utils as pb_utils

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

# OpenVINO's name of an element type → Triton's. Upstream has no FP64, BF16 or STRING.
TYPES = {
    "f32": "TYPE_FP32",
    "f16": "TYPE_FP16",
    "i8": "TYPE_INT8",
    "i16": "TYPE_INT16",
    "i32": "TYPE_INT32",
    "i64": "TYPE_INT64",
    "u8": "TYPE_UINT8",
    "u16": "TYPE_UINT16",
    "u32": "TYPE_UINT32",
    "u64": "TYPE_UINT64",
    "boolean": "TYPE_BOOL",
}
ELEMENTS = {triton: name for name, triton in TYPES.items()}


@dataclasses.dataclass(frozen=True)
class Described(Signature):
    """The tensors of a model file, and whether the layout of each has a batch dimension."""

    batches: bool = False


class TritonPythonModel(StandIn):
    """A model that OpenVINO can read, compiled for the CPU or for `TARGET_DEVICE`."""

    backend: ClassVar[str] = "openvino"
    completed_batch_size: ClassVar[int] = 4
    completes_always: ClassVar[bool] = True

    @classmethod
    def describe(cls, config: Config) -> Described:
        """The inputs and outputs of the model file."""
        from openvino import layout_helpers

        model = _read(config)
        with _openvino("getting input infos"):
            nodes = [*model.inputs, *model.outputs]
            batches = all(layout_helpers.has_batch(layout_helpers.get_layout(n)) for n in nodes)
            return Described(_tensors(model.inputs), _tensors(model.outputs), batches)

    @classmethod
    def complete(cls, auto: Any, raw: Mapping[str, Any], signature: Signature) -> None:
        """Complete max_batch_size and batching if the layouts allow it, then the tensors."""
        size = int(raw.get("max_batch_size", 0))
        if isinstance(signature, Described) and signature.batches:
            size = cls.complete_batching(auto, raw)
        elif size:
            pb_utils.Logger.log_warn(
                f"model layout for model {raw['name']} does not support batching while non-zero "
                "max_batch_size is specified"
            )
        for tensors, known, add in (
            (signature.inputs, raw.get("input"), auto.add_input),
            (signature.outputs, raw.get("output"), auto.add_output),
        ):
            for t in () if known else tensors:
                dims = list(t.dims or ())[1 if size else 0 :]
                add({"name": t.name, "data_type": t.data_type, "dims": dims})

    @classmethod
    def default_batch_size(cls) -> int:
        """The max_batch_size for a model that can batch, as for any backend, but at least 1."""
        return max(1, super().default_batch_size())

    def load(self) -> None:
        """Read the model, set the config's types and shapes on it, compile it."""
        import openvino as ov

        config = self.config
        if self.kind != "CPU":
            raise BadModel(
                f"unable to load model '{config.name}', Triton openVINO backend supports only CPU "
                "device"
            )
        self._pads = _yes(config, "ENABLE_BATCH_PADDING")
        target = config.parameters.get("TARGET_DEVICE") or "CPU"
        core = ov.Core()
        extension = config.parameters.get("CPU_EXTENSION_PATH")
        if extension:
            with _openvino(" loading custom CPU extensions"):
                core.add_extension(extension)
        model = _outputs(config, _inputs(config, _read(config, core)))
        properties = _properties(config)
        with _openvino("configuring openvino core"):
            core.set_property(target, properties)
        auto_batch = bool(config.max_batch_size) and not _yes(config, "SKIP_OV_DYNAMIC_BATCHSIZE")
        options = {"ALLOW_AUTO_BATCHING": auto_batch}
        self._dynamic = bool(model.is_dynamic())
        self._compile = functools.partial(core.compile_model, model, target, options)
        with _openvino("loading model"):
            compiled = self._open()
        padding = "on" if self._pads else "off"
        self.log(f"target {target}, {_settings(compiled)}, batch padding {padding}")

    def _open(self) -> Any:
        compiled = self._compile()
        self._request = compiled.create_infer_request()
        self._ports = {port.get_any_name(): port for port in compiled.outputs}
        return compiled

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Run one infer request; a batch that is not full is padded or refused."""
        size = self.config.max_batch_size
        rows = next(iter(inputs.values())).shape[0] if size else 0
        if rows != size:
            if not self._pads:
                raise BadRequest(
                    f"expected requests with batch size '{size}', got '{rows}'... this error can "
                    "be avoided by setting 'ENABLE_BATCH_PADDING' parameter in model "
                    "configuration to 'YES' at a performance cost."
                )
            inputs = {name: _padded(array, size) for name, array in inputs.items()}
        try:
            if self._request is None:
                self._open()
            results = self._request.infer(inputs, share_inputs=True)
        except Exception as error:
            if self._dynamic:
                # After a failed inference, every later inference of a compiled model with variable
                # shapes fails (OpenVINO 2026.4). So the model is compiled again before the next.
                self._request = None
            raise BadRequest(f"openvino error in running inference : {error}") from None
        return {name: results[self._ports[name]] for name in outputs}

    def unload(self) -> None:
        """Release the infer request and its compiled model."""
        del self._request, self._ports, self._compile

    def _groups(self, requests: list[Any]) -> Iterable[list[Any]]:
        """Group requests into batches; without padding each request is alone, as upstream."""
        return super()._groups(requests) if self._pads else [[request] for request in requests]


@contextmanager
def _openvino(doing: str) -> Iterator[None]:
    """Turn an exception of OpenVINO into the error that upstream reports."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        raise BrokenModel(f"openvino error in {doing} : {str(error).strip()}") from None


def _read(config: Config, core: Any = None) -> Any:
    import openvino as ov

    path = config.path("model.xml")
    if not path.exists():
        raise MissingModel(f"unable to find '{path}' for model '{config.name}'")
    with _openvino("reading model"):
        return (core or ov.Core()).read_model(path)


def _dims(shape: Any) -> tuple[int, ...]:
    return tuple(d.get_length() if d.is_static else -1 for d in shape)


def _tensors(ports: Sequence[Any]) -> list[Tensor]:
    return [
        Tensor(
            port.get_any_name(),
            TYPES.get(port.get_element_type().get_type_name(), "TYPE_INVALID"),
            _completed(port.get_partial_shape()),
        )
        for port in ports
    ]


def _completed(shape: Any) -> tuple[int, ...]:
    """The dims that upstream writes into a config: all -1 if one of them is variable."""
    return _dims(shape) if shape.is_static else (-1,) * len(shape)


def _inputs(config: Config, model: Any) -> Any:
    """Check the config's inputs; give the model their types and, if asked for, their shapes."""
    import openvino as ov
    from openvino.preprocess import PrePostProcessor

    with _openvino("getting input infos"):
        shapes = {port.get_any_name(): port.get_partial_shape() for port in model.inputs}
    if len(shapes) != len(config.inputs):
        raise BadModel(
            f"unable to load model '{config.name}', configuration expects {len(config.inputs)} "
            f"inputs, model provides {len(shapes)}"
        )
    reshapes = _yes(config, "RESHAPE_IO_LAYERS")
    steps = PrePostProcessor(model)
    for name, tensor in config.inputs.items():
        if tensor.optional:
            raise BadModel(
                f"'optional' is set to true for input '{name}' while the backend model doesn't "
                "support optional input"
            )
        check_allowed("input", name, shapes)
        step = steps.input(name).tensor()
        step.set_element_type(_element("input", config, tensor))
        if reshapes:
            step.set_shape(_reshaped(config, shapes[name], tensor.model_dims))
        else:
            _check_dims(config, name, shapes[name], tensor.model_dims, exact=False)
        if config.max_batch_size:
            step.set_layout(ov.Layout("N..."))
    with _openvino("apply model input preprocessing"):
        model = steps.build()
    if config.max_batch_size:
        with _openvino("setting max batch size"):
            ov.set_batch(model, config.max_batch_size)
    return model


def _outputs(config: Config, model: Any) -> Any:
    """Check the config's outputs and give the model their types."""
    from openvino.preprocess import PrePostProcessor

    with _openvino("getting output infos"):
        shapes = {port.get_any_name(): port.get_partial_shape() for port in model.outputs}
    steps = PrePostProcessor(model)
    for name, tensor in config.outputs.items():
        check_allowed("output", name, shapes)
        steps.output(name).tensor().set_element_type(_element("output", config, tensor))
        _check_dims(config, name, shapes[name], tensor.model_dims, exact=True)
    with _openvino("apply model output preprocessing"):
        return steps.build()


def _element(kind: str, config: Config, tensor: Tensor) -> Any:
    import openvino as ov

    if tensor.data_type not in ELEMENTS:
        raise BrokenModel(
            f"unsupported datatype {tensor.data_type} for {kind} '{tensor.name}' for model "
            f"'{config.name}'"
        )
    return ov.Type(tensor.dtype)


def _reshaped(config: Config, shape: Any, dims: Sequence[int]) -> Any:
    """The model's shape, with the config's dimensions in place of its own."""
    import openvino as ov

    if any(d < 1 and d != -1 for d in dims):
        raise BrokenModel(
            "openvino backend does not support dimensions values other than `-1` or positive "
            "integers"
        )
    first = [shape[0]] if config.max_batch_size else []
    return ov.PartialShape([*first, *(ov.Dimension(d) for d in dims)])


def _check_dims(
    config: Config, name: str, shape: Any, dims: tuple[int, ...], *, exact: bool
) -> None:
    """Check dims: inputs of a batching model may leave a dimension open; all others must fit."""
    batches = config.max_batch_size > 0
    if batches and len(shape) == 0:
        raise BadModel(
            f"model '{config.name}', tensor '{name}': for the model to support batching the shape "
            "should have at least 1 dimension"
        )
    full = (config.max_batch_size, *dims) if batches else dims
    compared = range(len(full)) if exact or not batches else range(1, len(full))
    fits = len(shape) == len(full) and all(
        _matches(shape[i], full[i]) or (full[i] == -1 and batches and not exact) for i in compared
    )
    if not fits:
        refused = other_dims(config, name, _dims(shape), full)
        limits = [
            f"dimension {i} has the bounds {dim.min_length}..{dim.max_length}"
            for i, dim in enumerate(shape)
            if _bounded(dim)
        ]
        raise BadModel("; ".join([str(refused), *limits]))


def _bounded(dim: Any) -> bool:
    return not dim.is_static and dim.max_length != -1


def _matches(theirs: Any, ours: int) -> bool:
    if theirs.is_static:
        return bool(theirs.get_length() == ours)
    return not _bounded(theirs) or theirs.min_length < ours < theirs.max_length


def _yes(config: Config, key: str) -> bool:
    """A switch as upstream reads it: YES (upper or lower case) is on, anything else is off."""
    return config.parameters.get(key, "").lower() == "yes"


def _properties(config: Config) -> dict[str, Any]:
    """The parameters that become OpenVINO's own properties."""
    properties: dict[str, Any] = {"INFERENCE_NUM_THREADS": config.fair_threads}
    for key, accepted, expected in (
        ("INFERENCE_NUM_THREADS", (), "be a non-negative number"),
        ("COMPILATION_NUM_THREADS", (), "be a non-negative number"),
        ("HINT_BF16", ("yes",), "be YES"),
        ("NUM_STREAMS", ("auto", "numa"), "be either AUTO/NUMA/<int_value>"),
        (
            "PERFORMANCE_HINT",
            ("latency", "throughput", "cumulative_throughput"),
            "be LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT",
        ),
    ):
        value = config.parameters.get(key, "").lower()
        if not value:
            continue
        numbers = key.endswith(("THREADS", "STREAMS"))
        if value not in accepted and not (numbers and value.isdecimal()):
            raise BadModel(f"expected the parameter '{key}' to {expected}, got {value}")
        if key == "HINT_BF16":
            properties["INFERENCE_PRECISION_HINT"] = "bf16"
        else:
            properties[key] = int(value) if value.isdecimal() else value.upper()
    return properties


def _settings(compiled: Any) -> str:
    """The settings in use, read from the compiled model; a device may lack some of them."""
    known = set(compiled.get_property("SUPPORTED_PROPERTIES"))
    shown = {
        "INFERENCE_NUM_THREADS": "threads",
        "NUM_STREAMS": "streams",
        "PERFORMANCE_HINT": "performance hint",
        "INFERENCE_PRECISION_HINT": "precision",
    }
    settings = []
    for key, label in shown.items():
        if key in known:
            value = compiled.get_property(key)
            settings.append(
                f"{label} {value.get_type_name() if hasattr(value, 'get_type_name') else value}"
            )
    return ", ".join(settings)


def _padded(array: Array, rows: int) -> Array:
    whole = np.zeros((rows, *array.shape[1:]), array.dtype)
    whole[: len(array)] = array
    return whole
