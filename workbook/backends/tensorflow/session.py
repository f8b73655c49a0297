"""A loaded model: a TensorFlow session, called in the same way as in the real backend."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbook.backends.base import Array, BrokenModel, Config
from workbook.backends.tensorflow.runtime import module
from workbook.backends.tensorflow.validate import Threads


class Session:
    """A graph with its weights.

    Args:
        options: a tensorflow.ConfigProto.
    """

    def __init__(self, options: Any) -> None:
        self.graph = module("python.framework.ops").Graph()
        self._session = module("python.client.session").Session(graph=self.graph, config=options)
        self._wrapper = module("python.client.pywrap_tf_session")
        self._nodes: dict[str, Any] = {}  # tensors of the graph, for the C interface, by name

    def load_saved_model(self, path: Path, tag: str) -> None:
        """Load the graph, the weights and the tables of a SavedModel, and initialize them.

        A SavedModel without a file of weights also loads (tensorflow/cc/saved_model/loader.cc,
        `RunRestore`). If its graph has variables, each request then fails.
        """
        loader = module("python.saved_model.loader_impl").SavedModelLoader(str(path))
        saver, _ = loader.load_graph(self.graph, [tag])
        if (path / "variables" / "variables.index").exists():
            loader.restore_variables(self._session, saver)
        loader.run_init_ops(self._session, [tag])

    def load_graph(self, definition: Any) -> None:
        """Load a graph, a tensorflow.GraphDef."""
        with self.graph.as_default():
            module("python.framework.importer").import_graph_def(definition, name="")

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        """Compute the tensors `fetches` from the tensors `feeds`, both by their graph names.

        This is the call that the real backend makes. Python's `Session.run` would first compare
        each array with the shape of its placeholder, and refuse what the C++ session computes.

        Raises:
            KeyError: the graph has no such tensor.
            tensorflow.errors.OpError: TensorFlow cannot compute them.
        """
        results: list[Array] = self._wrapper.TF_SessionRun_wrapper(
            self._session._session,
            None,
            {self._node(name): array for name, array in feeds.items()},
            [self._node(name) for name in fetches],
            [],
            None,
        )
        return results

    def initialize(self, operations: Sequence[str]) -> None:
        """Run the operations that initialize the graph."""
        self._session.run(list(operations))

    def close(self) -> None:
        """Release the session's memory and threads."""
        self._nodes.clear()
        self._session.close()

    def _node(self, name: str) -> Any:
        if name not in self._nodes:
            self._session._extend_graph()  # add the nodes that were loaded since the last call
            self._nodes[name] = self.graph.get_tensor_by_name(name)._as_tf_output()
        return self._nodes[name]


def read_graph(path: Path) -> Any:
    """Read a tensorflow.GraphDef.

    Raises:
        Exception: the file is not a GraphDef.
    """
    definition = module("core.framework.graph_pb2").GraphDef()
    definition.ParseFromString(path.read_bytes())
    return definition


def options(config: Config, device: str, threads: Threads, accelerators: frozenset[str]) -> Any:
    """The session's ConfigProto, as the real backend's `NewSessionOptions` sets it."""
    proto = module("core.protobuf.config_pb2").ConfigProto(
        intra_op_parallelism_threads=threads.intra,
        inter_op_parallelism_threads=threads.inter,
        use_per_session_threads=threads.per_session,
        allow_soft_placement=True,
    )
    if device == "cpu":
        proto.device_count["GPU"] = 0
    else:
        proto.gpu_options.allow_growth = True
        proto.gpu_options.visible_device_list = device.removeprefix("cuda:")
    level = ((config.raw.get("optimization") or {}).get("graph") or {}).get("level")
    if level is not None:  # XLA: -1 off, 1 and 2 on
        proto.graph_options.optimizer_options.global_jit_level = max(-1, min(2, int(level)))
    if "auto_mixed_precision" in accelerators:
        rewriter = module("core.protobuf.rewriter_config_pb2").RewriterConfig
        proto.graph_options.rewrite_options.meta_optimizer_iterations = rewriter.ONE
        proto.graph_options.rewrite_options.auto_mixed_precision = rewriter.ON
    return proto


def register_operations(config: Config) -> None:
    """Load the libraries of custom operations that the config names.

    Raises:
        BadModel: a library cannot be loaded.
    """
    names = (config.raw.get("model_operations") or {}).get("op_library_filename", [])
    for name in names:
        try:
            module("python.framework.load_library").load_op_library(name)
        except Exception as error:
            raise BrokenModel(str(error)) from None


def initial_operations(config: Config) -> list[str]:
    """The operations in the file TF_INIT_OPS_FILE, in the version's folder or else the model's.

    Raises:
        BadModel: the file is missing, or not of the form `{"init_ops": ["name", …]}`.
    """
    name = config.parameters.get("TF_INIT_OPS_FILE")
    if not name:
        return []
    path = config.version_directory / name
    if not path.exists():
        path = config.directory / name
    try:
        operations = json.loads(path.read_text(encoding="utf-8"))["init_ops"]
    except OSError as error:
        raise BrokenModel(f"failed to open/read file '{path}': {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise BrokenModel(f'{path} is not of the form {{"init_ops": ["name"]}}') from None
    return [str(operation) for operation in operations]
