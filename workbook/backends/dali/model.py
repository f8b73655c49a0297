"""The stand-in for `backend: "dali"`: a DALI pipeline on the CPU.

Rules and messages follow the sources of Triton's DALI backend
(triton-inference-server/dali_backend, `src/dali_model.h`, `src/dali_model_instance.cc`,
`src/config_tools/config_tools.cc`).

- The pipeline is the serialized file `model.dali` (or `default_model_filename`). If that name ends
  in `.py`, the file may be Python code with `@autoserialize`. Otherwise `dali.py` is such code.
- An input has the name of its `fn.external_source`. Outputs are matched by their order, and the
  config names them. The pipeline can declare types and dimensions (`dtype`, `ndim` of the source;
  `output_dtype`, `output_ndim` of the pipeline). They must agree with the config, and complete it.
  If neither the pipeline nor the config has them, the load fails.
- The config's max_batch_size replaces the pipeline's. If it is 0 or missing, the pipeline's counts.
- Parameters: `num_threads` replaces the pipeline's number. `split_along_outer_axis` names outputs
  (with `:` between them); each sample of such an output is itself a batch. `release_after_unload`
  is a parameter of the server (`--backend-config=dali,…`), not of a model, and concerns GPU memory.
- A request must ask for all outputs; any other request fails.
- Encoded images are `TYPE_UINT8`, dims `[ -1 ]`, one image per row. If the source declares no
  dtype, a model with `TYPE_STRING` loads, as upstream, but no request succeeds: the backend takes
  as many bytes as there are strings. Here the error says what to write instead.
- Images of different length share a batch if the input has `allow_ragged_batch: true`, which
  auto-complete sets. Within one request all rows have one length, as Triton's protocol demands.

For one broken image, the real backend fails the whole batch. Here only the request with it fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
    _Request,
)
from workbook.backends.dali import serialized
from workbook.backends.dali.serialized import Port

SERIALIZED, PYTHON = "model.dali", "dali.py"


@dataclasses.dataclass(frozen=True)
class Pipeline(Signature):
    """The inputs and outputs of a pipeline, and the serialized pipeline itself."""

    content: bytes = b""
    description: serialized.Description = dataclasses.field(
        default_factory=lambda: serialized.Description((), (), 0, ())
    )


class TritonPythonModel(StandIn):
    """Serves one pipeline; each instance builds its own."""

    backend = "dali"
    completes_always = True

    @classmethod
    def describe(cls, config: Config) -> Pipeline:
        """Find the pipeline, serialize a Python file, and read the inputs and outputs."""
        content = _find(config)
        found = serialized.describe(content)
        return Pipeline(
            inputs=[_tensor(port) for port in found.inputs],
            outputs=[_tensor(port) for port in found.outputs],
            content=content,
            description=found,
        )

    @classmethod
    def complete(cls, auto: Any, raw: Mapping[str, Any], signature: Signature) -> None:
        """Complete names, types, dims and max_batch_size, as `AutofillConfig` does upstream."""
        assert isinstance(signature, Pipeline)
        split = _split_names(Config(raw, Path(), ""))
        _refuse_unknown(raw["input"], signature)
        for port in signature.description.inputs:
            entry = next((e for e in raw["input"] if e["name"] == port.name), None)
            if entry is None:
                entry = {"name": port.name, "allow_ragged_batch": True}
                raw["input"].append(entry)
            _fill(entry, port, "dtype and ndim of fn.external_source")
        outputs = signature.description.outputs
        if len(raw["output"]) > len(outputs):
            raise _count_mismatch(len(raw["output"]), len(outputs))
        for index, port in enumerate(outputs):
            if index == len(raw["output"]):
                raw["output"].append({"name": port.name})
            entry = raw["output"][index]
            answered = _as_answered(port, entry["name"] in split)
            _fill(entry, answered, "output_dtype and output_ndim of pipeline_def")
        if int(raw.get("max_batch_size", 0)) <= 0:
            auto.set_max_batch_size(signature.description.batch_size)

    def load(self) -> None:
        """Check the config against the pipeline and build it."""
        pipeline = self.describe(self.config)
        self._check(pipeline)
        if self.device == "cpu" and pipeline.description.gpu_operators:
            operators = ", ".join(dict.fromkeys(pipeline.description.gpu_operators))
            raise BrokenModel(
                "Error while instantiating DALI pipeline: it has operators for a GPU and this "
                f"instance has none: {operators}. For the CPU write device_id=None in "
                'pipeline_def and device="cpu" in each operator ("cpu", not "mixed", for '
                "decoders), then serialize it again."
            )
        threads = self.config.integer("num_threads", -1)
        self._settings: dict[str, Any] = {
            "batch_size": self.config.max_batch_size,
            "num_threads": None if threads == -1 else threads,
            # One batch at a time, in this thread: a prefetch queue would only delay the answer.
            "prefetch_queue_depth": 1,
            "exec_pipelined": False,
            "exec_async": False,
        }
        if self.device == "cpu":
            self._content = serialized.without_device(pipeline.content)
        else:
            self._content = pipeline.content
            self._settings["device_id"] = int(self.device.partition(":")[2])
        self._build()
        self._failed = False

    def _check(self, pipeline: Pipeline) -> None:
        """Check the config against the pipeline, as upstream's `ValidateConfig` does."""
        raw = self.config.raw
        if self.config.max_batch_size < 1:
            raise BadModel("Missing max_batch_size field in model configuration.")
        _refuse_unknown(raw["input"], pipeline)
        for port in pipeline.description.inputs:
            if port.name not in self.config.inputs:
                raise BadModel(f'Missing config for "{port.name}" input.')
            _agree(self.config.inputs[port.name], port)
        outputs = pipeline.description.outputs
        if len(self.config.outputs) != len(outputs):
            raise _count_mismatch(len(self.config.outputs), len(outputs))
        self._split = _split_names(self.config)
        for tensor, port in zip(self.config.outputs.values(), outputs, strict=True):
            _agree(tensor, _as_answered(port, tensor.name in self._split))

    def _build(self) -> None:
        from nvidia import dali

        try:
            self._pipeline = dali.Pipeline.deserialize(
                serialized_pipeline=self._content, **self._settings
            )
        except RuntimeError as error:
            raise BrokenModel(f"Error while instantiating DALI pipeline: {error}") from None

    # -- one batch ------------------------------------------------------------------------------

    def _groups(self, requests: list[_Request]) -> Iterable[list[_Request]]:
        """All requests together: DALI takes samples of any shape."""
        self._failed = False
        return [requests] if requests else []

    def _run(self, batch: list[_Request]) -> list[Any]:
        """Feed every row of every request as one sample, and split the results by request."""
        for one in batch:
            if len(one.outputs) != len(self.config.outputs):
                raise BadRequest(
                    f"Number of outputs expected by the requests ({len(one.outputs)}) does not "
                    "match the number of outputs from DALI pipeline "
                    f"({len(self.config.outputs)}). Ask for all of them."
                )
        try:
            for name in self.config.inputs:
                self._pipeline.feed_input(name, _samples([one.inputs[name] for one in batch], name))
            results = self._pipeline.run()
        except BadRequest:
            raise
        except Exception as error:
            self._failed = True  # a pipeline that failed once cannot run again
            self._build()
            raise BadRequest(f"Runtime error: {_reason(str(error))}") from None
        rows = [one.rows for one in batch]
        answers: list[list[Any]] = [[] for _ in batch]
        for name, result in zip(self.config.outputs, results, strict=True):
            shares = _shares(result, rows, name, split=name in self._split)
            for answer, share in zip(answers, shares, strict=True):
                # The pipeline's next run overwrites this memory. Within one `execute` there is
                # another run only if a batch has failed and its requests are tried one by one.
                answer.append(pb_utils.Tensor(name, share.copy() if self._failed else share))
        return [pb_utils.InferenceResponse(tensors) for tensors in answers]

    def unload(self) -> None:
        """Release the pipeline's memory and threads."""
        with contextlib.suppress(AttributeError):
            del self._pipeline


# -- the pipeline's file ---------------------------------------------------------------------------


def _find(config: Config) -> bytes:
    """The serialized pipeline, from the first file that has one (`DaliModel::LoadModel`)."""
    given = config.version_directory / (config.raw.get("default_model_filename") or SERIALIZED)
    fallback = config.version_directory / PYTHON
    reasons = []
    if given.is_file():
        content = given.read_bytes()
        try:
            serialized.describe(content)
            return content
        except serialized.NotAPipeline as error:
            if given.suffix != ".py":
                reasons.append(f"{given.name} is not a serialized pipeline: {error}")
    for path in dict.fromkeys((given, fallback)):
        if path.suffix == ".py" and path.is_file():
            try:
                return _autoserialize(path)
            except Exception as error:
                reasons.append(f"{path.name} did not serialize: {type(error).__name__}: {error}")
    why = "; ".join(reasons) or "Neither file exists."
    if "CUDA is not available" in why:
        why += ". For the CPU write device_id=None in pipeline_def."
    raise BrokenModel(
        "DALI Backend error: Failed to load model file. The program looked in the following "
        f"locations: {given}, {fallback}. Please make sure that the model exists in any of the "
        f"locations and is properly serialized or can be properly serialized. {why}"
    )


def _autoserialize(path: Path) -> bytes:
    """Run a Python file and serialize its pipeline with the decorator `@autoserialize`.

    Raises:
        Exception: any exception of the file; RuntimeError if not exactly one pipeline has the
            decorator.
    """
    from nvidia.dali._utils.autoserialize import invoke_autoserialize

    name = "autoserialize_mod"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / SERIALIZED
            invoke_autoserialize(module, str(target))
            return target.read_bytes()
    finally:
        del sys.modules[name]


# -- the pipeline against the config ---------------------------------------------------------------


def _tensor(port: Port) -> Tensor:
    dims = None if port.dimensions is None else (-1,) * (port.dimensions + 1)
    return Tensor(port.name, port.data_type or "TYPE_INVALID", dims)


def _as_answered(port: Port, split: bool) -> Port:
    """An output as a request sees it: if it is split, its outer dimension becomes the batch's."""
    if split and port.dimensions is not None:
        return dataclasses.replace(port, dimensions=port.dimensions - 1)
    return port


def _split_names(config: Config) -> frozenset[str]:
    return frozenset(filter(None, config.parameters.get("split_along_outer_axis", "").split(":")))


def _refuse_unknown(entries: Sequence[Mapping[str, Any]], pipeline: Pipeline) -> None:
    known = [port.name for port in pipeline.description.inputs]
    for entry in entries:
        if entry["name"] not in known:
            raise BadModel(
                f"Configuration file contains config for {entry['name']} but such input is not "
                "present in the pipeline. An input has the name of its fn.external_source: "
                f"{', '.join(known) or 'this pipeline has none'}."
            )


def _count_mismatch(given: int, there: int) -> BadModel:
    return BadModel(
        "The number of outputs specified in the DALI pipeline and the configuration file do not "
        f"match.\nModel config outputs: {given}\nPipeline outputs: {there}"
    )


def _fill(entry: dict[str, Any], port: Port, declared: str) -> None:
    """Complete one entry of the config, and check that it agrees with the pipeline.

    Args:
        entry: the input or output, as the config has it.
        port: the same, as the pipeline has it.
        declared: the places where a pipeline declares the type and dims of such a tensor; the error
            names them.

    Raises:
        BadModel: neither has the type or the dims, or they do not agree.
    """
    known = entry.get("data_type", "TYPE_INVALID")
    if known == "TYPE_INVALID":
        if port.data_type is None:
            raise BadModel(
                f'Missing data_type config for "{entry["name"]}": write it in config.pbtxt, or '
                f"declare it in the pipeline ({declared})"
            )
        entry["data_type"] = port.data_type
    if not entry.get("dims"):
        if port.dimensions is None:
            raise BadModel(
                f'Missing dims config for "{entry["name"]}": write them in config.pbtxt, or '
                f"declare their number in the pipeline ({declared})"
            )
        entry["dims"] = [-1] * port.dimensions
    _agree(Tensor.from_config(entry), port)


def _agree(tensor: Tensor, port: Port) -> None:
    """Check the config's type and dims against those that the pipeline declares."""
    if port.data_type is not None and tensor.data_type != port.data_type:
        raise BadModel(
            f'Mismatch of data_type config for "{tensor.name}".\n'
            f"Data type defined in config: {tensor.data_type}\n"
            f"Data type defined in pipeline: {port.data_type}"
        )
    dims = tensor.dims or ()
    if port.dimensions is not None and len(dims) != port.dimensions:
        raise BadModel(
            f'Mismatch in number of dimensions for "{tensor.name}"\n'
            f"Number of dimensions defined in config: {len(dims)}\n"
            f"Number of dimensions defined in pipeline: {port.dimensions}"
        )


# -- samples ---------------------------------------------------------------------------------------


def _samples(parts: Sequence[Array], name: str) -> Array | list[Array]:
    """The rows of all requests: one array if they have one shape, else one array for each row."""
    if parts[0].dtype == np.object_:
        raise BadRequest(
            f"{name} is TYPE_STRING, of which DALI reads one byte per string only: write "
            "data_type: TYPE_UINT8 and dims: [ -1 ], and send the bytes of the file as UINT8"
        )
    if len(parts) == 1:
        return parts[0]
    if len({part.shape[1:] for part in parts}) == 1:
        return np.concatenate(parts)
    return [row for part in parts for row in part]


def _shares(result: Any, rows: Sequence[int], name: str, *, split: bool) -> list[Array]:
    """Split one output into one array per request.

    Raises:
        BadRequest: samples of one request have different shapes.
    """
    if hasattr(result, "as_cpu"):
        result = result.as_cpu()
    shares: list[Array] = []
    start = 0
    whole = np.asarray(result.as_tensor()) if result.is_dense_tensor() else None
    for count in rows:
        if whole is not None:
            share = whole[start : start + count]
        else:
            samples = [np.asarray(result.at(i)) for i in range(start, start + count)]
            shapes = {sample.shape[1 if split else 0 :] for sample in samples}
            if len(shapes) > 1:
                raise BadRequest(
                    f"output {name} has samples of different shapes in one request: "
                    f"{', '.join(str(list(s)) for s in sorted(shapes))}; resize or pad them in "
                    "the pipeline, or send one sample per request"
                )
            share = np.concatenate(samples) if split else np.stack(samples)
        if split and whole is not None:
            share = share.reshape(-1, *share.shape[2:])
        shares.append(share)
        start += count
    return shares


def _reason(message: str) -> str:
    """DALI's error message without the traceback of the pipeline's definition."""
    operator = re.search(r"Error in \w+ operator `([^`]+)`", message)
    encountered = re.search(r"encountered:\s*(.*?)\s*(?:Current pipeline object|$)", message, re.S)
    if operator is None or encountered is None:
        return message
    reason = f"{operator[1]}: {encountered[1]}"
    if "decoders" in operator[1] or "imgcodec" in operator[1].lower():
        reason += " (is the input a whole, undamaged image file?)"
    return reason
