"""Check a config's parameters and types, before torch is imported.

The rules and messages are those of triton-inference-server/pytorch_backend: `ParseParameters`,
`ValidateInputs`, `ValidateOutputs`.
"""

from __future__ import annotations

import dataclasses

from workbook.backends.backend_common import sequence_controls
from workbook.backends.base import BadModel, BrokenModel, Config, MissingModel
from workbook.backends.pytorch import tensor_names

#: The types that torch supports (libtorch_utils.cc). Text is passed as a list of strings.
KNOWN_TYPES = frozenset(
    f"TYPE_{name}"
    for name in "BOOL UINT8 INT8 INT16 INT32 INT64 FP16 FP32 FP64".split()  # noqa: SIM905
)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """The parameters of a TorchScript model; None for torch's default.

    Attributes:
        intra, inter: threads; below 1 for the default.
        ignored: the names of given parameters that have no effect here.
    """

    optimized: bool
    inference_mode: bool
    cache_cleaning: bool
    cudnn: bool
    fuser: bool | None
    profiling: bool | None
    executor: bool | None
    intra: int
    inter: int
    ignored: tuple[str, ...]

    @classmethod
    def read(cls, config: Config) -> Parameters:
        """Read the parameters of a config.

        Raises:
            BadModel: one is neither true nor false, or not a number.
        """

        def maybe(key: str) -> bool | None:
            return config.boolean(key, True) if key in config.parameters else None

        maybe("ENABLE_WEIGHT_SHARING")  # it has no effect here, but must be true or false
        return cls(
            optimized=not config.boolean("DISABLE_OPTIMIZED_EXECUTION", False),
            inference_mode=config.boolean("INFERENCE_MODE", True),
            cache_cleaning=config.boolean("ENABLE_CACHE_CLEANING", False),
            cudnn=not config.boolean("DISABLE_CUDNN", False),
            fuser=maybe("ENABLE_TENSOR_FUSER"),
            profiling=maybe("ENABLE_JIT_PROFILING"),
            executor=maybe("ENABLE_JIT_EXECUTOR"),
            intra=config.integer("INTRA_OP_THREAD_COUNT", 0),
            inter=config.integer("INTER_OP_THREAD_COUNT", 0),
            ignored=tuple(
                key
                for key in ("ENABLE_NVFUSER", "ENABLE_WEIGHT_SHARING")
                if key in config.parameters
            ),
        )


def model_file(config: Config) -> None:
    """Refuse a model whose file is missing.

    Raises:
        BadModel: the file is missing.
    """
    path = config.path("model.pt")
    if not path.exists():
        raise MissingModel(f"unable to find '{path}' for model instance '{config.name}'")


def tensors(config: Config) -> None:
    """Refuse a config without outputs, with types that torch lacks, or with text of several dims.

    Raises:
        BadModel: the config is one of these.
    """
    if config.inputs and not config.outputs:
        raise BadModel("model configuration must contain at least one output, none were specified.")
    for control in sequence_controls(config.raw):
        tensor_names.control_position(control.name)
        if control.data_type not in KNOWN_TYPES:
            raise BadModel(
                f"input '{control.name}' type '{control.data_type}' is not supported by PyTorch."
            )
    batched = 1 if config.max_batch_size > 0 else 0
    for kind, name, data_type, rank in _tensors(config):
        if data_type != "TYPE_STRING" and data_type not in KNOWN_TYPES:
            raise BrokenModel(
                f"unsupported datatype {data_type} for {kind} '{name}' for model '{config.name}'"
            )
        if data_type == "TYPE_STRING" and rank + batched > 1:
            raise BadModel(
                "Triton only supports 1 dimensional List of String as "
                f"{'input' if kind == 'input' else 'output'} "
                f"for '{name}' for model '{config.name}'"
            )


def expected_types(config: Config) -> dict[str, str]:
    """The types of the outputs by name; the outputs of implicit state are included."""
    return {name: data_type for kind, name, data_type, _ in _tensors(config) if kind != "input"}


def _tensors(config: Config) -> list[tuple[str, str, str, int]]:
    """Kind (`input`, `output`, `state`), name, type and rank of the config's tensors."""
    states = (config.raw.get("sequence_batching") or {}).get("state", [])
    return [
        *(("input", t.name, t.data_type, len(t.model_dims)) for t in config.inputs.values()),
        *(("output", t.name, t.data_type, len(t.model_dims)) for t in config.outputs.values()),
        *(("state", s["output_name"], s["data_type"], len(s["dims"])) for s in states),
    ]
