"""The base class of every stand-in: it reads the config, batches requests and splits the answers.

A stand-in is a Python-based backend that takes the place of a C++ backend on the CPU. For each
instance of a model with `backend: "<name>"` the server starts `<backends>/<name>/model.py` in a
process of its own. That file defines a class `TritonPythonModel(StandIn)` with three steps of its
framework: describe a model file, load it, run a batch. Everything else is here. This module runs in
Triton's stub (the process of a Python model), never in a notebook.

How to write a stand-in. This is a complete `workbook/backends/numpy_table/model.py`, for models
that multiply by the matrix in the file `model.npy`:

    import numpy as np
    from workbook.backends.base import BadModel, BadRequest, Signature, StandIn, Tensor

    class TritonPythonModel(StandIn):
        backend = "numpy_table"
        completed_batch_size = 4                # auto-complete may set max_batch_size 4

        @classmethod
        def describe(cls, config):              # from the file: shapes with the batch dimension
            rows, columns = np.load(config.file("model.npy")).shape
            return Signature(
                [Tensor("x", "TYPE_FP32", (-1, rows))], [Tensor("y", "TYPE_FP32", (-1, columns))]
            )

        def load(self):                         # once per instance
            self.table = np.load(self.config.file("model.npy"))
            if self.table.ndim != 2:
                raise BadModel("model.npy must hold a matrix")
            self.log(f"a table of {self.table.shape}")

        def infer(self, inputs, outputs):       # one batch: (rows, features) → (rows, columns)
            if not np.isfinite(inputs["x"]).all():
                raise BadRequest("x must be finite")
            return {"y": inputs["x"] @ self.table}

It is served with `backend: "numpy_table"` in `config.pbtxt` and `1/model.npy` beside it.

The rules and the error messages are the same as in the code that Triton's own backends share
(triton-inference-server/backend, src/backend_common.cc, backend_model.cc,
backend_input_collector.cc, backend_output_responder.cc).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import locale
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils
from c_python_backend_utils import TritonModelException

from workbook.backends import batching

Array = npt.NDArray[Any]


class BadModel(TritonModelException):  # type: ignore[misc]
    """The model cannot be served as configured; the load fails with this message.

    Triton's real backends report it as an invalid argument. Two other kinds of errors have classes
    of their own; `native/fastpath.cc` knows the three class names.
    """


class MissingModel(BadModel):
    """A file of the model is not there. The real backends answer with `Unavailable`."""


class BrokenModel(BadModel):
    """The framework cannot load the file or complete the config. The real error is `Internal`."""


class BadRequest(Exception):
    """One request cannot be answered; only its sender gets this message, not the whole batch."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One input or output, as a config or a model file describes it.

    Attributes:
        name: the tensor's name.
        data_type: Triton's name of the type, e.g. `TYPE_FP32`.
        dims: its dimensions, -1 for a variable one. From a config: without the batch dimension
            where max_batch_size > 0. From a model file: all of them. None where unknown.
        optional: whether a request may leave it out (inputs only).
        ragged: whether requests of different shapes may share a batch (inputs only).
        reshape: the dimensions that the model sees in place of `dims`; None where not given.
    """

    name: str
    data_type: str
    dims: tuple[int, ...] | None
    optional: bool = False
    ragged: bool = False
    reshape: tuple[int, ...] | None = None

    @classmethod
    def from_config(cls, entry: Mapping[str, Any]) -> Tensor:
        """Read one entry of a config's `input` or `output`, as `/v2/models/M/config` shows it."""
        reshape = entry.get("reshape")
        return cls(
            name=entry["name"],
            data_type=entry["data_type"],
            dims=tuple(int(d) for d in entry["dims"]),
            optional=bool(entry.get("optional")),
            ragged=bool(entry.get("allow_ragged_batch")),
            reshape=None if reshape is None else tuple(int(d) for d in reshape.get("shape", ())),
        )

    @property
    def dtype(self) -> type[Any]:
        """The numpy type of its elements."""
        return pb_utils.triton_string_to_numpy(self.data_type)  # type: ignore[no-any-return]

    @property
    def model_dims(self) -> tuple[int, ...]:
        """The dimensions that the model sees: `reshape` where given, else `dims`."""
        return self.reshape if self.reshape is not None else self.dims or ()


@dataclasses.dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a model file; their dims include the batch dimension."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]


@dataclasses.dataclass(frozen=True)
class BatchTensor:
    """One entry of a config's `batch_input` or `batch_output` (ragged batching)."""

    kind: str
    targets: tuple[str, ...]
    data_type: str
    source: str

    @classmethod
    def from_config(cls, entry: Mapping[str, Any]) -> BatchTensor:
        """Read one entry, as `/v2/models/M/config` shows it."""
        return cls(
            kind=entry["kind"],
            targets=tuple(entry["target_name"]),
            data_type=entry.get("data_type", ""),
            source=entry["source_input"][0],
        )


class Config:
    """A model's configuration, and the folder of its files.

    Attributes:
        raw: the configuration as a dict (ModelConfig in JSON).
        name, max_batch_size: as in the config.
        inputs, outputs: its tensors by name, in the config's order.
        batch_inputs, batch_outputs: the tensors that ragged batching adds, in the config's order.
        states: implicit state: the name of each state's input → the name of its output.
        parameters: the `parameters` section as plain strings.
        instances: how many instances of the model the config asks for.
        directory: the model's folder; `version_directory`: the folder of the version to serve.
    """

    def __init__(self, raw: Mapping[str, Any], directory: Path, version: str) -> None:
        self.raw = raw
        self.name = str(raw["name"])
        self.max_batch_size = int(raw.get("max_batch_size", 0))
        self.inputs = {e["name"]: Tensor.from_config(e) for e in raw.get("input", [])}
        self.outputs = {e["name"]: Tensor.from_config(e) for e in raw.get("output", [])}
        self.batch_inputs = [BatchTensor.from_config(e) for e in raw.get("batch_input", [])]
        self.batch_outputs = [BatchTensor.from_config(e) for e in raw.get("batch_output", [])]
        sequences = raw.get("sequence_batching") or {}
        self.states = {s["input_name"]: s["output_name"] for s in sequences.get("state", [])}
        self.parameters = {
            key: str(value.get("string_value", ""))
            for key, value in (raw.get("parameters") or {}).items()
        }
        groups = raw.get("instance_group") or []
        self.instances = max(1, sum(int(group.get("count", 1)) for group in groups))
        self.directory = directory
        self.version = version
        self.version_directory = directory / version

    def path(self, default: str) -> Path:
        """The path of the model's file: `default_model_filename` of the config, else `default`."""
        return self.version_directory / (self.raw.get("default_model_filename") or default)

    def file(self, default: str) -> Path:
        """The path of the model's file, as `path`; the file must exist.

        Raises:
            BadModel: the file is missing.
        """
        path = self.path(default)
        if not path.exists():
            raise BrokenModel(f"failed to stat file {path}: the model's file is missing")
        return path

    @property
    def fair_threads(self) -> int:
        """Threads for one instance if the config gives no number: an equal share of the cores.

        By default frameworks take every core for each instance, and so do the real backends. On a
        laptop two instances would then compete for the same cores.
        """
        return max(1, len(os.sched_getaffinity(0)) // self.instances)

    def boolean(self, key: str, default: bool) -> bool:
        """A parameter that is true or false, read as Triton's backends read it.

        Raises:
            BadModel: it is neither.
        """
        text = self.parameters.get(key)
        if text is None:
            return default
        if text.lower() in ("true", "on", "1"):
            return True
        if text.lower() in ("false", "off", "0"):
            return False
        raise BadModel(
            f'failed to convert \'{text}\' to boolean: parameter {key} must be "true" or "false"'
        )

    def integer(self, key: str, default: int, *, least: int | None = None) -> int:
        """A parameter that is a whole number, not below `least`; read up to the first non-digit.

        Raises:
            BadModel: it does not begin with a number, or is below `least`.
        """
        text = self.parameters.get(key)
        if text is None:
            return default
        number = re.match(r"\s*[+-]?\d+", text, re.ASCII)  # C++'s std::stoi, as upstream
        if number is None:
            raise BrokenModel(
                f"failed to convert '{text}' to integral number: parameter {key} must be one"
            )
        value = int(number[0])
        if least is not None and value < least:
            raise BadModel(f"parameter {key} is {value}; it must be at least {least}")
        return value


class StandIn:
    """The base class of every stand-in; the module's docstring shows a complete stand-in.

    A stand-in defines:

    - `describe(config)`: the tensors of the model file. They complete an incomplete config. None if
      the framework cannot read them from the file.
    - `load()`: load the model that `self.config` names, on `self.device`, and refuse
      (`BadModel`) the models that the real backend refuses.
    - `infer(inputs, outputs)`: answer one batch.

    This class keeps implicit state (`sequence_batching { state [...] }`). The core gives its
    initial value and sends all requests of a sequence to one instance. The state output of a
    request is kept under its correlation ID. It replaces the state input of the sequence's next
    request.
    """

    backend: ClassVar[str]
    #: The max_batch_size that auto-complete sets for a model that can batch; 0 to set none.
    completed_batch_size: ClassVar[int] = 0
    #: The error if the config asks for batches, and the model cannot batch.
    not_batching: ClassVar[type[BadModel]] = BrokenModel
    #: Whether auto-complete also runs for configs that name all tensors (to set max_batch_size).
    completes_always: ClassVar[bool] = False

    config: Config
    instance: str  # the instance's name
    device: str  # "cpu" or "cuda:N"
    kind: str  # the instance's kind: "CPU", "GPU", "MODEL"

    # -- what a stand-in defines ----------------------------------------------------------------

    @classmethod
    def describe(cls, config: Config) -> Signature | None:
        """Read the tensors of the model file; it runs before `load`, in another process."""
        return None

    def load(self) -> None:
        """Load the model and check the config against it."""
        raise NotImplementedError

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Answer one batch.

        Args:
            inputs: arrays by name, shaped (rows, *dims), or (*dims) where max_batch_size is 0;
                BYTES as object arrays of bytes; a ragged input in one dimension, all requests'
                elements one after the other. An optional input left out is absent. The arrays
                are in shared memory: read them, do not write to them or keep them.
            outputs: names of the outputs that at least one request asks for, in the config's
                order; may be empty.

        Returns:
            Arrays by name, with the same number of rows as the inputs where max_batch_size > 0.
            They may be sent after the next call has begun. So do not return a buffer that the
            framework writes to again.

        Raises:
            BadRequest: or any other exception. The requests of the batch are then tried one by
                one, so that only the bad request fails.
        """
        raise NotImplementedError

    def unload(self) -> None:
        """Release what `load` acquired; by default there is nothing to do."""

    def log(self, text: str) -> None:
        """Write a line to the server's log: what was loaded, where, with which settings."""
        pb_utils.Logger.log_info(
            f"{self.backend} stand-in: '{self.config.name}' version {self.config.version} "
            f"on {self.device}: {text}"
        )

    # -- what Triton calls ----------------------------------------------------------------------

    @classmethod
    def auto_complete_config(cls, auto: Any) -> Any:
        """Add the tensors that `describe` finds to a config that leaves tensors out."""
        _utf8()
        raw = auto.as_dict()
        whole = (raw.get("input") or raw.get("batch_input")) and raw.get("output")
        if whole and not cls.completes_always:
            return auto
        directory, version = _model_place(raw)
        with _RaisedHere():
            signature = cls.describe(Config(raw, directory, version))
            if signature is not None:
                cls.complete(auto, raw, signature)
        return auto

    @classmethod
    def complete(cls, auto: Any, raw: Mapping[str, Any], signature: Signature) -> None:
        """Add to the config what is missing: batching, then the tensors.

        It sets max_batch_size and dynamic batching if the first dimension of every tensor is
        variable.

        Raises:
            BadModel: the config asks for batches of a model that cannot batch.
        """
        size = int(raw.get("max_batch_size", 0))
        if cls.completed_batch_size:
            tensors = [*signature.inputs, *signature.outputs]
            if all(t.dims and t.dims[0] == -1 for t in tensors):
                size = cls.complete_batching(auto, raw)
            elif size:
                raise cls.not_batching(
                    f"autofill failed for model '{raw['name']}': model does not support batching "
                    "while non-zero max_batch_size is specified"
                )
        if not (raw.get("input") or raw.get("batch_input")):
            _complete_tensors(raw["input"], auto.add_input, signature.inputs, size)
        if not raw.get("output"):
            _complete_tensors(raw["output"], auto.add_output, signature.outputs, size)

    @classmethod
    def complete_batching(cls, auto: Any, raw: Mapping[str, Any]) -> int:
        """Set max_batch_size and dynamic batching if the config has none; return the size."""
        size = int(raw.get("max_batch_size", 0))
        if size == 0:
            size = cls.default_batch_size()
            auto.set_max_batch_size(size)
            warn_autofilled(raw, size)
        if size > 1 and "sequence_batching" not in raw and "dynamic_batching" not in raw:
            auto.set_dynamic_batching()
        return size

    @classmethod
    def default_batch_size(cls) -> int:
        """The max_batch_size for a model that can batch: from `--backend-config`, else the default.

        Raises:
            BadModel: `default-max-batch-size` is not a number.
        """
        given = _backend_option(cls.backend, "default-max-batch-size")
        if given is None:
            return cls.completed_batch_size
        try:
            return max(0, int(given))
        except ValueError:
            raise BrokenModel(f"failed to convert '{given}' to integral number") from None

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the config, choose the device, load the model."""
        _utf8()
        self.config = Config(
            json.loads(args["model_config"]), Path(args["model_repository"]), args["model_version"]
        )
        self.instance = args["model_instance_name"]
        self.kind = args["model_instance_kind"]
        on_gpu = self.kind == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        self._output_names = list(self.config.outputs)
        self._ragged = frozenset(t.name for t in self.config.inputs.values() if t.ragged)
        self._scattered = {
            target: entry.source for entry in self.config.batch_outputs for target in entry.targets
        }
        self._states = _States(self.config) if self.config.states else None
        usual = type(self)._groups is StandIn._groups and type(self)._run is StandIn._run
        self._plain = _plain_names(self.config) if usual else None
        _type_tables()
        with _RaisedHere():
            self.load()

    def finalize(self) -> None:
        """Called when the model is unloaded."""
        self.unload()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests in as few batches as their shapes allow; one response per request."""
        if self._plain is not None:
            # If anything fails, the code below tries again and finds out which request is bad.
            with contextlib.suppress(Exception):
                return self._one_plain_batch(requests, *self._plain)
        responses: list[Any] = [None] * len(requests)
        readable: list[_Request] = []
        for position, request in enumerate(requests):
            try:
                readable.append(self._take(position, request))
            except Exception as error:
                responses[position] = _failure(error)
        for batch in self._groups(readable):
            self._answer(batch, responses)
        return responses

    def _one_plain_batch(self, requests: Sequence[Any], name: str, output: str) -> list[Any]:
        """A short cut for `execute`: all requests as one batch, for the models of `_plain_names`.

        It saves about 4 us per request, which matters for a small model. It does not look at the
        requested outputs: the model has only one.

        Raises:
            Exception: the requests differ in shape, or one of them is wrong.
        """
        tensor, response = pb_utils.Tensor, pb_utils.InferenceResponse
        parts = [request.inputs()[0].as_numpy() for request in requests]
        whole = batching.join(parts)
        result = self.infer({name: whole}, self._output_names)[output]
        if len(result) < len(whole):
            raise BadRequest("the output has too few rows")
        responses = []
        end = 0
        for part in parts:
            start, end = end, end + len(part)
            responses.append(response([tensor(output, result[start:end])]))
        return responses

    # -- how a batch is made --------------------------------------------------------------------

    def _take(self, position: int, request: Any) -> _Request:
        inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        wanted = request.requested_output_names()  # a set
        names = self._output_names
        outputs = names if len(wanted) == len(names) else [n for n in names if n in wanted]
        sequence = self._states.recall(request, inputs) if self._states else None
        return _Request(position, inputs, outputs, sequence)

    def _groups(self, requests: list[_Request]) -> Iterable[list[_Request]]:
        """Group requests that can share a batch: their inputs agree in all dims but the rows."""
        if len(requests) < 2 or self.config.max_batch_size == 0:
            return [[request] for request in requests]
        ragged = self._ragged
        groups: dict[Any, list[_Request]] = {}
        for request in requests:
            shapes = [(n, a.shape[1:]) for n, a in request.inputs.items() if n not in ragged]
            if len(shapes) > 1:
                shapes.sort()
            groups.setdefault(tuple(shapes), []).append(request)
        return groups.values()

    def _answer(self, batch: list[_Request], responses: list[Any]) -> None:
        """Run one batch. If it fails, run its requests one by one: only the bad one then fails."""
        try:
            results = self._run(batch)
        except Exception as error:
            if len(batch) == 1:
                responses[batch[0].position] = _failure(error)
                return
            for request in batch:
                self._answer([request], responses)
            return
        for request, result in zip(batch, results, strict=True):
            responses[request.position] = result

    def _run(self, batch: list[_Request]) -> list[Any]:
        """Infer one batch and return its responses."""
        first = batch[0]
        outputs = first.outputs
        if any(request.outputs is not outputs for request in batch):
            wanted = {name for request in batch for name in request.outputs}
            outputs = [name for name in self._output_names if name in wanted]
        if self._states:
            outputs = list(dict.fromkeys([*outputs, *self.config.states.values()]))
        results = self.infer(self._gather(batch), outputs)
        if len(batch) > 1 or self.config.max_batch_size:
            rows = [request.rows for request in batch]
            parts = {n: self._parts(n, results[n], batch, rows) for n in outputs}
        else:
            parts = {n: [self._shaped(n, results[n])] for n in outputs}
        answers = []
        for i, request in enumerate(batch):
            missing = [n for n in request.outputs if parts[n][i] is None]
            if missing:
                need = sum(other.rows for other in batch[: i + 1])
                got = len(results[missing[0]]) if results[missing[0]].ndim else 1
                answers.append(
                    _failure(
                        BadRequest(
                            f"failed to split the output tensor '{missing[0]}' in responses: "
                            f"expected batch size of at least {need} in model output, got {got}"
                        )
                    )
                )
                continue
            if self._states and request.sequence is not None:
                self._states.remember(request.sequence, {n: p[i] for n, p in parts.items()})
            tensors = [pb_utils.Tensor(n, parts[n][i]) for n in request.outputs]
            answers.append(pb_utils.InferenceResponse(tensors))
        return answers

    def _gather(self, batch: list[_Request]) -> dict[str, Array]:
        """Join the inputs of all requests of a batch: one array per input."""
        ragged = self._ragged
        first = batch[0].inputs
        if len(batch) == 1 and not ragged:
            gathered = dict(first) if self.config.batch_inputs else first
        else:
            gathered = {}
            for name in first:
                parts = [request.inputs[name] for request in batch]
                gathered[name] = batching.flatten(parts) if name in ragged else batching.join(parts)
        for entry in self.config.batch_inputs:
            shapes = [request.inputs[entry.source].shape for request in batch]
            dtype = pb_utils.triton_string_to_numpy(entry.data_type)
            made = batching.batch_input(entry.kind, dtype, shapes)
            for target in entry.targets:
                gathered[target] = made
        return gathered

    def _parts(
        self, name: str, whole: Array, batch: list[_Request], rows: list[int]
    ) -> list[Array | None]:
        """Split one output of a batch into one array per request."""
        source = self._scattered.get(name)
        if source is None:
            return batching.split(self._shaped(name, whole), rows)
        dims = self.config.outputs[name].model_dims
        if self.config.max_batch_size:
            dims = (-1, *dims)
        shapes = []
        for request in batch:
            given = request.inputs[source].shape  # it replaces the output's variable dimensions
            shapes.append(tuple(given[i] if d == -1 else d for i, d in enumerate(dims)))
        return batching.scatter(whole, shapes)

    def _shaped(self, name: str, array: Array) -> Array:
        """Reshape a scalar to the config's dims, which are then all 1; leave any other array."""
        if array.ndim == 0 and name in self.config.outputs:
            return array.reshape(self.config.outputs[name].model_dims)
        return array


class _Request:
    """One request's inputs by name, the outputs it asks for, and its index among the requests."""

    __slots__ = ("inputs", "outputs", "position", "rows", "sequence")

    def __init__(
        self,
        position: int,
        inputs: dict[str, Array],
        outputs: Sequence[str],
        sequence: _Step | None,
    ) -> None:
        self.position = position
        self.inputs = inputs
        self.outputs = outputs
        self.sequence = sequence
        #: The first dimension of the first input, as upstream; used only for models that batch.
        self.rows = next((a.shape[0] for a in inputs.values() if a.ndim), 1)


@dataclasses.dataclass(frozen=True)
class _Step:
    """The sequence of a request, and whether the request is its last."""

    correlation: int | str
    last: bool


class _States:
    """The implicit state of the sequences that run in this instance."""

    def __init__(self, config: Config) -> None:
        self._outputs = config.states
        self._kept: dict[int | str, tuple[float, dict[str, Array]]] = {}
        idle = int(config.raw["sequence_batching"].get("max_sequence_idle_microseconds", 0))
        # When the core ends an idle sequence, the model is not informed. Requests may also wait in
        # the core's queue, so a state is dropped only long after the core's own limit.
        self._drop_after = max(60.0, 10 * idle / 1e6)

    def recall(self, request: Any, inputs: dict[str, Array]) -> _Step | None:
        """Replace the initial state in a request's inputs by the state of its sequence.

        Returns:
            The request's sequence; None for the empty request with which the direct scheduler
            fills a slot whose sequence has no request at the moment.
        """
        correlation = request.correlation_id()
        if not correlation:
            return None
        flags = request.flags()
        if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self._kept.pop(correlation, None)
            deadline = time.monotonic() - self._drop_after
            for stale in [c for c, (used, _) in self._kept.items() if used < deadline]:
                del self._kept[stale]
        elif correlation in self._kept:
            inputs.update(self._kept[correlation][1])
        return _Step(correlation, bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END))

    def remember(self, step: _Step, results: Mapping[str, Array | None]) -> None:
        """Keep the new state for the next request of the sequence; drop it after the last."""
        if step.last:
            self._kept.pop(step.correlation, None)
            return
        state = {i: results[o] for i, o in self._outputs.items()}
        kept = {name: array.copy() for name, array in state.items() if array is not None}
        self._kept[step.correlation] = (time.monotonic(), kept)


def _plain_names(config: Config) -> tuple[str, str] | None:
    """The names of input and output of a model that `_one_plain_batch` can serve; None for others.

    It has one input and one output, max_batch_size > 0, and no sequences, ragged or optional input.
    """
    inputs, outputs = list(config.inputs.values()), list(config.outputs)
    special = (
        config.batch_inputs
        or config.batch_outputs
        or config.raw.get("sequence_batching") is not None
    )
    if special or len(inputs) != 1 or len(outputs) != 1 or not config.max_batch_size:
        return None
    if inputs[0].ragged or inputs[0].optional:
        return None
    return inputs[0].name, outputs[0]


class _RaisedHere:
    """Raise a BadModel from the `with` block again, from this file.

    The stub adds the places of an exception's traceback to its message. `native/fastpath.cc`
    recognizes the error of a stand-in by a place in this file. (This is a class, since the places
    in a generator are gone when the generator has ended.)
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BadModel):
            raise type(error)(str(error)) from None


def warn_autofilled(raw: Mapping[str, Any], size: int) -> None:
    """Log that auto-complete has set max_batch_size, as the real backends do."""
    pb_utils.Logger.log_warn(
        f"autofilled max_batch_size to {size} for model '{raw['name']}' since batching is "
        "supported but no max_batch_size is specified in model configuration. Must specify "
        "max_batch_size to utilize autofill with a larger max batch size"
    )


def _failure(error: Exception) -> Any:
    """The response that reports an error to the sender of one request."""
    known = isinstance(error, BadRequest)
    message = str(error) if known else f"{type(error).__name__}: {error}"
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message))


def _complete_tensors(known: list[Any], add: Any, tensors: Sequence[Tensor], size: int) -> None:
    for t in tensors:
        dims = list(t.dims or ())[1 if size else 0 :]
        add({"name": t.name, "data_type": t.data_type, "dims": dims or [1]})
        if (
            size and not dims
        ):  # one value per row: the config must have dims [1], the model has no such dimension
            known[-1]["reshape"] = {"shape": []}


def _type_tables() -> None:
    """Replace two functions of Triton's stub library by tables with the same answers.

    The stub calls them for every tensor of every request. Triton's own functions compare with one
    type after the other, which takes about 0.7 us for float32.
    """
    types = {number: pb_utils.triton_to_numpy_type(number) for number in range(1, 14)}
    numbers = {np.dtype(kind): number for number, kind in types.items()}
    pb_utils.triton_to_numpy_type = types.get
    pb_utils.numpy_to_triton_type = {**numbers, np.dtype(np.bytes_): 13}.get


def _utf8() -> None:
    """Set a UTF-8 locale: without it Triton's stub decodes files as ASCII in any environment."""
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C.UTF-8")


def _model_place(raw: Mapping[str, Any]) -> tuple[Path, str]:
    """The model's folder and the version to describe."""
    directory = Path(pb_utils.get_model_dir())
    if directory.name.isdecimal() and not (directory / "config.pbtxt").exists():
        return directory.parent, directory.name  # Triton 24.10 gives the version's folder
    versions = [p.name for p in directory.iterdir() if p.name.isdecimal() and p.is_dir()]
    return directory, max(versions, key=int, default="1")


def _backend_option(backend: str, key: str) -> str | None:
    """A setting of the server's `--backend-config` for this backend, else for all backends.

    The core passes these options to a backend's shared library. A Python-based backend has none,
    so this function reads them from the command line of the server. The sixth word of this
    process's own command line is the server's process id. (In a copy of the fork server there are
    spaces between the words.)
    """
    try:
        own = Path("/proc/self/cmdline").read_text(encoding="utf-8").replace("\0", " ").split()
        arguments = Path(f"/proc/{own[5]}/cmdline").read_text(encoding="utf-8").split("\0")
    except (OSError, IndexError):
        return None
    found: dict[str, str] = {}
    for i, argument in enumerate(arguments):
        if argument == "--backend-config":
            setting = arguments[i + 1]
        elif argument.startswith("--backend-config="):
            setting = argument.partition("=")[2]
        else:
            continue
        name, _, value = setting.partition("=")
        found[name] = value
    return found.get(f"{backend},{key}", found.get(key))


def shape_text(dims: Iterable[int]) -> str:
    """Dimensions as Triton writes them in its errors: `[-1,3,64]`."""
    return f"[{','.join(map(str, dims))}]"


def other_dims(config: Config, name: str, model: Sequence[int], full: Sequence[int]) -> BadModel:
    """The error for dims that do not fit the model, with the message of Triton's own backends.

    Args:
        name: the tensor.
        model: the model's shape, -1 for a variable dimension.
        full: the config's shape, the batch dimension included where max_batch_size > 0.
    """
    how = (
        "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor "
        "shape, making complete shape"
        if config.max_batch_size
        else "shape"
    )
    return BadModel(
        f"model '{config.name}', tensor '{name}': the model expects {len(model)} dimensions "
        f"(shape {shape_text(model)}) but the model configuration specifies {len(full)} "
        f"dimensions ({how} {shape_text(full)})"
    )


def to_text(array: Array) -> Array:
    """Convert BYTES as Triton delivers them (objects of bytes) to str, as frameworks want them.

    Raises:
        BadRequest: an element is not UTF-8.
    """
    try:
        flat = [x.decode("utf-8") if isinstance(x, bytes) else str(x) for x in array.ravel()]
    except UnicodeDecodeError as error:
        raise BadRequest(f"a BYTES element is not UTF-8 text: {error}") from None
    return np.array(flat, dtype=np.object_).reshape(array.shape)


def to_bytes(array: Array) -> Array:
    """Convert text of any kind to objects of bytes, as Triton sends them."""
    flat = [x if isinstance(x, bytes) else str(x).encode("utf-8") for x in array.ravel()]
    return np.array(flat, dtype=np.object_).reshape(array.shape)
