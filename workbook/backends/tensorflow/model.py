"""The stand-in for NVIDIA's TensorFlow backend: SavedModels and frozen graphs.

`platform: "tensorflow_savedmodel"` serves `model.savedmodel/`, its `serving_default` signature
(TF_SIGNATURE_DEF, TF_GRAPH_TAG choose others). `platform: "tensorflow_graphdef"` serves
`model.graphdef`. Both run in a TF1-style session, one call per batch, as in the real backend.
Containers up to 25.02 have the real backend.

Threads. The real backend keeps TensorFlow's default, every core. Here each instance gets an equal
share of the cores unless TF_NUM_INTRA_THREADS and TF_NUM_INTER_THREADS give numbers.
MAX_SESSION_SHARE_COUNT is checked and has no effect: each instance is a process.

KIND_GPU makes the instance's GPU visible to TensorFlow. Not verified on a GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from workbook.backends.base import (
    Array,
    BadModel,
    BadRequest,
    BrokenModel,
    Config,
    MissingModel,
    Signature,
    StandIn,
    warn_autofilled,
)
from workbook.backends.tensorflow import autofill, session, signature, validate
from workbook.backends.tensorflow.runtime import module

_DEFAULT_FILES = {
    "tensorflow_savedmodel": "model.savedmodel",
    "tensorflow_graphdef": "model.graphdef",
}


class TritonPythonModel(StandIn):
    """Serves `model.savedmodel` or `model.graphdef` through a session."""

    backend: ClassVar[str] = "tensorflow"
    completed_batch_size: ClassVar[int] = 4
    completes_always: ClassVar[bool] = True
    _session: session.Session
    _input_nodes: dict[str, str]
    _output_nodes: dict[str, str]

    @classmethod
    def describe(cls, config: Config) -> Signature | None:
        """Read a SavedModel's signature; a frozen graph does not name its inputs and outputs."""
        path = _path(config)
        if _platform(config) == "tensorflow_graphdef" or not path.exists():
            return None
        served = _signature(config, path)
        return Signature(list(served.inputs.values()), list(served.outputs.values()))

    @classmethod
    def complete(cls, auto: Any, raw: Mapping[str, Any], signature: Signature) -> None:
        """Complete the config by the real backend's own rules.

        Raises:
            BadModel: the config contradicts the signature or itself.
        """
        config = auto.as_dict()  # the dict that the server gets back
        given = int(config.get("max_batch_size", 0))
        autofill.complete(config, signature, cls.default_batch_size())
        if config["max_batch_size"] != given:
            warn_autofilled(config, config["max_batch_size"])

    def load(self) -> None:
        """Check the config, open a session, load the model into it."""
        config = self.config
        platform = _platform(config)
        threads = validate.threads(config)
        validate.types(config)
        path = _path(config)
        if not path.exists():
            raise MissingModel(f"unable to find '{path}' for model instance '{config.name}'")
        accelerators = validate.accelerators(config, self.device != "cpu")
        operations = session.initial_operations(config)
        share = config.fair_threads
        threads = dataclasses.replace(
            threads, intra=threads.intra or share, inter=threads.inter or share
        )
        # Check all that needs no session first: importing TensorFlow takes time.
        tag, graph = signature.tag(config), None
        if platform == "tensorflow_savedmodel":
            served = _signature(config, path)
            validate.saved_model(config, served)
            self._input_nodes = {name: e.node for name, e in served.inputs.items()}
            self._output_nodes = {name: e.node for name, e in served.outputs.items()}
        else:
            graph = _graph(config, path)
            self._input_nodes, self._output_nodes = {}, {}
        session.register_operations(config)
        self._session = session.Session(session.options(config, self.device, threads, accelerators))
        if platform == "tensorflow_savedmodel":
            self._fill(_unloadable, lambda: self._session.load_saved_model(path, tag))
        else:
            self._fill(_refused, lambda: self._session.load_graph(graph))
        if operations:
            self._fill(_refused, lambda: self._session.initialize(operations))
        self.log(
            f"{platform} {path.name}, {threads.intra} intra-op and {threads.inter} inter-op "
            f"threads, {'its own' if threads.per_session else 'shared'} thread pools"
        )

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Answer one batch with one call of the session."""
        nodes = self._input_nodes
        feeds = {nodes.get(name, f"{name}:0"): array for name, array in inputs.items()}
        fetches = [self._output_nodes.get(name, f"{name}:0") for name in outputs]
        try:
            results = self._session.run(feeds, fetches)
        except Exception as error:
            raise BadRequest(_sentence(error)) from None
        return {name: np.asarray(array) for name, array in zip(outputs, results, strict=True)}

    def unload(self) -> None:
        """Close the session."""
        self._session.close()

    def _fill(self, refusal: Callable[[Config, str], BadModel], step: Callable[[], object]) -> None:
        """Run one step of loading; an exception of TensorFlow becomes a BadModel."""
        try:
            step()
        except Exception as error:
            raise refusal(self.config, _sentence(error)) from None


def _platform(config: Config) -> str:
    platform = str(config.raw.get("platform", ""))
    if platform not in _DEFAULT_FILES:
        raise BadModel(f"platform {platform} not supported for TensorFlow model '{config.name}'")
    return platform


def _path(config: Config) -> Path:
    name = config.raw.get("default_model_filename") or _DEFAULT_FILES[_platform(config)]
    return config.version_directory / str(name)


def _signature(config: Config, path: Path) -> signature.ServingSignature:
    try:
        return signature.read(config, path)
    except signature.Unreadable as error:
        raise _unloadable(config, str(error)) from None


def _graph(config: Config, path: Path) -> Any:
    """Read the frozen graph, and check that it has nodes with the config's names."""
    try:
        graph = session.read_graph(path)
    except Exception as error:
        raise BrokenModel(f"Can't parse {path} as binary proto: {error}") from None
    if not graph.node:
        raise BadModel(f"model {config.name} has an empty network")
    placeholders = {node.name for node in graph.node if node.op == "Placeholder"}
    validate.graph(config, placeholders, {node.name for node in graph.node} - placeholders)
    return graph


def _unloadable(config: Config, message: str) -> BadModel:
    """The error for a SavedModel that cannot be loaded.

    The real backend loads it for the first time while it completes the config.
    """
    return BrokenModel(
        f"unable to auto-complete model configuration for '{config.name}', "
        f"failed to load model: {message}"
    )


def _refused(config: Config, message: str) -> BadModel:
    return BrokenModel(message)


def _sentence(error: Exception) -> str:
    """TensorFlow's status as the real backend reports it: `INVALID_ARGUMENT: indices[0] = 99 …`.

    It leaves out the text that TensorFlow's Python layer adds: "Graph execution error:", sometimes
    the place where the node was defined, and the nodes that the error passed through.
    """
    text = str(getattr(error, "message", None) or error).split("\n\t [[", 1)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = lines[-1] if lines else type(error).__name__
    code = getattr(error, "error_code", None)
    if code is None:
        return words
    return f"{module('core.protobuf.error_codes_pb2').Code.Name(code)}: {words}"
