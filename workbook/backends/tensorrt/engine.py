"""What an engine takes and gives: from the engine itself on a GPU, without one from its record.

    described = from_record(known(config))              # without a GPU
    described = from_engine(deserialize(config, "m_0"))     # on a GPU

A plan of TensorRT for RTX is shown to its runtime in any case. Without a GPU the runtime cannot
read it. But before it looks for a GPU it refuses plans that are not whole, and those of another
version.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbook.backends.base import BadModel, BrokenModel, Config, MissingModel, Signature, Tensor
from workbook.backends.tensorrt import record
from workbook.backends.tensorrt.record import (
    PRODUCTS,
    STARTS,
    TYPES,
    BadRecord,
    Port,
    Record,
    Shape,
)

NEEDED = (
    "An engine runs on an NVIDIA GPU only. Without one, serve the same model with the onnxruntime "
    "or openvino backend"
)
_OTHER_VERSION = "The engine has been created with TensorRT-RTX version"


@dataclasses.dataclass(frozen=True)
class Described(Signature):
    """An engine's tensors, and the shapes that its first profile takes.

    Attributes:
        ranges: input → its smallest and its largest shape.
    """

    ranges: Mapping[str, tuple[Shape, Shape]] = dataclasses.field(default_factory=dict)

    @property
    def largest_batch(self) -> int:
        """The most rows of a batch: the least of the inputs' largest first dimensions."""
        return min((largest[0] for _, largest in self.ranges.values() if largest), default=0)


@dataclasses.dataclass(frozen=True)
class Loaded:
    """An engine on the GPU, the package that runs it, and what must live as long as it does."""

    product: str
    engine: Any
    runtime: Any
    log: Any


def known(config: Config) -> Record:
    """What is known of the plan without a GPU.

    Raises:
        BadModel: nothing is, or the plan is no good; the message says why.
    """
    file = plan(config, config.name)
    if problem := _refusal(file):
        raise BrokenModel(f"unable to create TensorRT engine: {problem}")
    try:
        found = Record.beside(file)
    except BadRecord as error:
        raise BadModel(
            f"unable to load model '{config.name}', {error}. Take the JSON file away, or build the "
            "engine again"
        ) from None
    if found is not None:
        return found
    start = _start(file)
    if start not in STARTS:
        raise no_gpu(config, f"And {file.name} is no engine: it begins with {start!r}")
    raise no_gpu(
        config,
        f"{file.name} is an engine of {PRODUCTS[STARTS[start]]}. Nothing more is known of it here, "
        f"since {record.path(file).name} is not beside it",
    )


def no_gpu(config: Config, detail: str) -> BadModel:
    """The error of an instance that has no GPU, with upstream's message.

    Args:
        detail: what is known of the engine, as sentences; the last one without its full stop.
    """
    return BadModel(
        f"unable to load model '{config.name}', TensorRT backend supports only GPU device. "
        f"{detail}. {NEEDED}"
    )


def summary(found: Record) -> str:
    """What an engine is that fits its config, as sentences."""
    sizes = {"activations": found.activation_bytes, "weights": found.weights_bytes}
    memory = [f"{size / 1e6:.2f} MB of {name}" for name, size in sizes.items() if size is not None]
    parts = [
        f"{len(found.layers)} layers",
        f"batches of up to {found.largest_batch}",
        *([f"{' and '.join(memory)} on the GPU"] if memory else []),
    ]
    return (
        f"The engine fits this config. {PRODUCTS[found.product]} {found.version} built it for GPUs "
        f"of compute capability {', '.join(found.compute_capabilities)}: {', '.join(parts)}"
    )


def from_record(found: Record) -> Described:
    """The tensors and shapes that a record names."""

    def tensors(ports: Sequence[Port]) -> list[Tensor]:
        return [Tensor(port.name, port.data_type, port.dims) for port in ports]

    ranges = {p.name: (p.smallest or p.dims, p.largest or p.dims) for p in found.inputs}
    return Described(tensors(found.inputs), tensors(found.outputs), ranges)


def from_engine(loaded: Loaded) -> Described:
    """The tensors of an engine, and the shapes that its first profile takes."""
    trt, engine = importlib.import_module(loaded.product), loaded.engine
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    ranges = {}
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        data_type = TYPES.get(engine.get_tensor_dtype(name).name, "TYPE_INVALID")
        tensor = Tensor(name, data_type, tuple(engine.get_tensor_shape(name)))
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            inputs.append(tensor)
            smallest, _, largest = engine.get_tensor_profile_shape(name, 0)
            ranges[name] = (tuple(smallest), tuple(largest))
        else:
            outputs.append(tensor)
    return Described(inputs, outputs, ranges)


def deserialize(config: Config, instance: str) -> Loaded:
    """Read the plan on the current GPU, with the package that runs it.

    Raises:
        BadModel: the plan or its package is not there, or the plan is not for this machine.
    """
    file = plan(config, instance)
    product = STARTS.get(_start(file), "tensorrt")
    try:
        trt = importlib.import_module(product)
    except ImportError as error:
        raise BrokenModel(
            f"{file.name} needs {PRODUCTS[product]}, and the package {product} cannot be imported: "
            f"{error}"
        ) from None
    log = _log(trt)
    trt.init_libnvinfer_plugins(log, "")
    runtime = trt.Runtime(log)
    engine = runtime.deserialize_cuda_engine(file.read_bytes())
    if engine is None:
        raise BrokenModel(f"unable to create TensorRT engine: {log.first('ERROR')}")
    return Loaded(product, engine, runtime, log)


def plan(config: Config, instance: str) -> Path:
    """The file of the plan.

    Raises:
        MissingModel: it is not there.
    """
    file = config.path("model.plan")
    if not file.is_file():
        raise MissingModel(f"unable to find '{file}' for model instance '{instance}'")
    return file


def _refusal(file: Path) -> str:
    """Why the runtime of TensorRT for RTX does not take a plan of its own; "" where it is unknown.

    Of what the runtime says, the lines about the driver that is missing do not count.
    """
    installed = importlib.util.find_spec("tensorrt_rtx") is not None
    if not installed or STARTS.get(_start(file)) != "tensorrt_rtx":
        return ""
    trt = importlib.import_module("tensorrt_rtx")
    log = _log(trt)
    runtime = trt.Runtime(log)
    content = file.read_bytes()
    problem = ""
    if runtime.deserialize_cuda_engine(content) is None:
        problem = log.first("ERROR", without="cudaError")
    if not problem:
        log.lines.clear()
        validity, _ = runtime.get_engine_validity(content)
        problem = log.first("INFO") if validity == trt.EngineValidity.INVALID else ""
    if problem.startswith(_OTHER_VERSION):
        # The runtime writes the numbers as characters with these codes, and ends at the first 0.
        theirs, ours = content[24:27], trt.__version__.split(".")[:3]
        problem = (
            f"{_OTHER_VERSION} {'.'.join(map(str, theirs))}, but the current runtime is "
            f"TensorRT-RTX version {'.'.join(ours)}. Rebuild the engine with the same version of "
            "TensorRT-RTX as the current runtime"
        )
    return str(problem)


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(4)


def _log(trt: Any) -> Any:
    """A logger that keeps what TensorRT says."""

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[tuple[str, str]] = []

        def log(self, severity: Any, text: str) -> None:
            self.lines.append((severity.name.removeprefix("INTERNAL_"), text))

        def first(self, severity: str, without: str = "\0") -> str:
            """The first line of a severity; "" if there is none."""
            lines = (text for kind, text in self.lines if kind == severity and without not in text)
            return next(lines, "")

    return Log()
