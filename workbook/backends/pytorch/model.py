"""The stand-in for NVIDIA's PyTorch backend: TorchScript, and torch.compile.

The real backend has two runtimes, and the config chooses one:

- By default libtorch serves a TorchScript `model.pt` (torchscript.py).
- `runtime: "model.py"` (since 24.01; in upstream's guide until 25.09) serves the `torch.nn.Module`
  that the user's own `model.py` defines, through torch.compile (compiled.py).

Here the server sets `runtime` in both cases. They differ in `default_model_filename`: if the user
wrote `runtime: "model.py"`, the core leaves it empty, else the core sets it to `model.pt`.

Threads. The real backend keeps torch's default, every core, for each instance. Here each instance
gets an equal share of the cores unless INTRA_OP_THREAD_COUNT gives a number. The log shows the
number that torch reports.

KIND_GPU puts the model and its inputs on the instance's device (docker/gpu/VERIFIED.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import triton_python_backend_utils as pb_utils

from workbook.backends.base import Array, Config, Signature, StandIn
from workbook.backends.pytorch import checks, options


class Runtime(Protocol):
    """A loaded model.

    Attributes:
        settings: its kind and its threads, for the log.
    """

    settings: str

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Answer one batch, as `StandIn.infer` describes."""


class TritonPythonModel(StandIn):
    """Serves `model.pt` as TorchScript, or `model.py` through torch.compile."""

    backend: ClassVar[str] = "pytorch"
    _runtime: Runtime

    @classmethod
    def describe(cls, config: Config) -> Signature | None:
        """Log that the config cannot be completed: TorchScript stores no names and shapes."""
        pb_utils.Logger.log_warn(
            f"skipping model configuration auto-complete for '{config.name}': "
            "not supported for pytorch backend"
        )
        return None

    def load(self) -> None:
        """Load the model with the runtime that the config asks for."""
        config = self.config
        if _python_runtime(config):
            compile_options = options.read(config, self.device)
            from workbook.backends.pytorch.compiled import Compiled

            self._runtime = Compiled(config, compile_options, self.device)
        else:
            parameters = checks.Parameters.read(config)
            checks.model_file(config)
            checks.tensors(config)
            # The import is here, since torch takes a second to import.
            from workbook.backends.pytorch.torchscript import TorchScript

            self._runtime = TorchScript(config, parameters, self.device)
        self.log(self._runtime.settings)

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Answer one batch."""
        return self._runtime.run(inputs, outputs)


def _python_runtime(config: Config) -> bool:
    name = str(config.raw.get("default_model_filename") or "")
    return not name or name.endswith(".py")
