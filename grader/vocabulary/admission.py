"""Which models of a submission are served: only what the assignment's backends read.

A model's folder and its config decide what Triton loads, and some of it is code: a library beside
the model takes a backend's place, a parameter names a script that is run before the model, an agent
of the repository is a library. So `refusal` goes by lists of what is admitted, not of what is
known to be dangerous. The config is read by protobuf's own parser, with which the server reads it.

Names of files, and strings of the config that may become part of a path, a command or a variable,
must be plain (`model_folder.is_plain`). Triton hands some of them to a shell without quotes. The
strings that need not be plain are listed too (`FREE_TEXT`).

The same rules hold in the notebook and in the judge.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from google.protobuf import text_format  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2

from workbook.common.errors import WorkbookError
from workbook.server.catalogue.evidence import CONFIG
from workbook.server.explain import is_metric_tag
from workbook.server.model_folder import check_name, is_plain

from .failure import Failure

__all__ = ["ADMITTED", "FREE_TEXT", "Admitted", "refusal"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclasses.dataclass(frozen=True)
class Admitted:
    """What a model on one backend may consist of.

    Attributes:
        files: patterns (`fnmatch`) for the files in a version's folder.
        parameters: the names of the parameters that the backend reads; None: any, since the model
            itself reads them.
        folders: whether a version's folder may hold folders.
    """

    files: tuple[str, ...]
    parameters: frozenset[str] | None = frozenset()
    folders: bool = False


#: By backend, as `BACKENDS` of an assignment names it. A new assignment may need a new entry.
ADMITTED = {
    "ensemble": Admitted(files=()),
    "fil": Admitted(
        files=("*.model", "*.json", "*.ubj", "*.txt", "*.tl", "*.bin"),
        parameters=_words(
            "model_type predict_proba output_class is_classifier threshold cpu_nthread algo "
            "storage_type layout blocks_per_sm threads_per_tree use_experimental_optimizations "
            "xgboost_allow_unknown_field transfer_threshold chunk_size"
        ),
    ),
    "onnxruntime": Admitted(
        files=("*.onnx", "*.onnx.data", "*.onnx_data", "*.data", "*.bin"),
        parameters=_words(
            "execution_mode intra_op_thread_count inter_op_thread_count enable_mem_arena "
            "enable_mem_pattern memory.enable_memory_arena_shrinkage cudnn_conv_algo_search "
            "session.use_device_allocator_for_initializers share_session_between_instances "
            "arena_extend_strategy gpu_mem_limit do_copy_in_default_stream"
        ),
    ),
    "openvino": Admitted(
        # An ONNX file may name files of weights: OpenVINO reads none outside of its own folder.
        files=("*.xml", "*.bin", "*.onnx"),
        parameters=_words(
            "TARGET_DEVICE NUM_STREAMS INFERENCE_NUM_THREADS HINT_BF16 PERFORMANCE_HINT "
            "SKIP_OV_DYNAMIC_BATCHSIZE ENABLE_BATCH_PADDING RESHAPE_IO_LAYERS "
            "SCHEDULING_CORE_TYPE"
        ),
    ),
    "python": Admitted(files=("*",), parameters=None, folders=True),
    "pytorch": Admitted(
        files=("*.pt", "*.pt2"),
        parameters=_words(
            "INFERENCE_MODE DISABLE_OPTIMIZED_EXECUTION DISABLE_CUDNN ENABLE_CACHE_CLEANING "
            "ENABLE_WEIGHT_SHARING ENABLE_TENSOR_FUSER ENABLE_JIT_EXECUTOR ENABLE_JIT_PROFILING "
            "INTRA_OP_THREAD_COUNT INTER_OP_THREAD_COUNT NUM_THREADS "
            "NUM_INTEROP_THREADS"
        ),
    ),
    "tensorrt": Admitted(files=("*.plan", "*.plan.json")),
    # The folder is the checkpoint: weights and texts. What model.json may say, a6_vllm.py decides.
    "vllm": Admitted(
        files=(
            *("model.json", "config.json", "model.safetensors"),
            *("tokenizer.json", "tokenizer_config.json"),
        ),
        parameters=_words("REPORT_CUSTOM_METRICS ENABLE_VLLM_HEALTH_CHECK"),
        folders=True,
    ),
}

#: Values of `platform` that mean a backend (core, `model_config_utils.cc`).
_PLATFORMS = {
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorrt_plan": "tensorrt",
    "ensemble": "ensemble",
}
#: Fields that only decide how a model is served.
_FIELDS = _words(
    "name platform backend version_policy max_batch_size input output batch_input batch_output "
    "optimization dynamic_batching sequence_batching ensemble_scheduling instance_group "
    "default_model_filename metric_tags parameters model_warmup model_transaction_policy "
    "response_cache model_metrics"
)
#: Strings of a config that may hold any text: the names of tensors, and words that are only shown.
#: No backend makes a path, a command or a variable of them. All other strings must be plain.
FREE_TEXT = _words(
    "input.name output.name "
    "batch_input.target_name batch_input.source_input "
    "batch_output.target_name batch_output.source_input "
    "optimization.cuda.graph_spec.input.key "
    "optimization.cuda.graph_spec.graph_lower_bound.input.key "
    "sequence_batching.control_input.name "
    "sequence_batching.state.input_name sequence_batching.state.output_name "
    "sequence_batching.state.initial_state.name "
    "ensemble_scheduling.step.input_map.key ensemble_scheduling.step.input_map.value "
    "ensemble_scheduling.step.output_map.key ensemble_scheduling.step.output_map.value "
    "model_warmup.name model_warmup.inputs.key "
    "metric_tags.value"
)
#: These may hold any text, too, if the model itself reads its parameters.
_PARAMETERS = _words("parameters.key parameters.value.string_value")
#: Parameters that the server itself reads: the script of an environment runs before the model, and
#: a library that chooses requests for a batch runs in the server.
_OF_THE_SERVER = re.compile("EXECUTION_ENV_PATH|TRITON_.*", re.DOTALL)
#: Libraries, which Triton loads into the server if they have the right name.
_LIBRARIES = ("*.so", "*.so.*")
#: What Jupyter, Python, git, macOS and Windows leave behind. Triton reads none of it.
_LEFT_BEHIND = frozenset(
    {".ipynb_checkpoints", "__pycache__", ".gitkeep", ".DS_Store", "Thumbs.db", "desktop.ini"}
)
_LABELS = "*.txt"
_ALLOWED = "Use letters A-Z a-z, digits, '.', '_' and '-' only."
_MOST_ENTRIES = 2_000
#: A server loads every version, and starts each instance of a Python-based model as a process. Tens
#: of them keep a judge at work for minutes.
_MOST_VERSIONS = 8
_MOST_INSTANCES = 16


def refusal(repository: Path, model: str, backends: Collection[str]) -> Failure | None:
    """Why a model is not admitted; None if it is.

    Example::

        refusal(Path("model_repository"), "forest", ("fil",))     # None, or a Failure to raise

    Args:
        repository: the model repository.
        model: the model's name; for an ensemble, all its steps are looked at too.
        backends: keys of `ADMITTED`.

    Raises:
        KeyError: a backend is not in `ADMITTED`.
    """
    admitted = {name: ADMITTED[name] for name in backends}
    seen: set[str] = set()
    wanted = [model]
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            wanted += _admit(repository, name, admitted)
        except Failure as failure:
            return failure
    return None


def _admit(repository: Path, model: str, admitted: dict[str, Admitted]) -> list[str]:
    """Admit one model or raise `Failure`; returns the models of its steps."""
    try:
        if not is_plain(model):
            raise Failure(f"No model is named {_shown(model)} here.", help=_ALLOWED)
        folder = repository / check_name(model)
        text = (folder / CONFIG).read_text("utf-8", errors="replace")
    except WorkbookError as error:
        raise Failure(error.what, help=error.todo) from None
    except OSError:
        raise Failure(
            f"There is no model {model!r} with a {CONFIG}.",
            help="Deploy its folder: the task says how it is named.",
        ) from None
    config = model_config_pb2.ModelConfig()
    try:
        text_format.Parse(text, config)
    except (text_format.ParseError, RecursionError) as error:
        raise Failure(
            f"The {CONFIG} of {model} cannot be read: {str(error)[:200]}",
            help="The message begins with line and column.",
        ) from None
    backend = _backend(config, model, admitted)
    _admit_fields(config, model, backend, admitted[backend])
    _admit_files(folder, model, backend, admitted[backend])
    return [step.model_name for step in config.ensemble_scheduling.step]


def _backend(config: model_config_pb2.ModelConfig, model: str, admitted: Collection[str]) -> str:
    """The backend that the config names. If it names none, the server would look at the files."""
    platform = _PLATFORMS.get(config.platform, config.platform)
    named = {name for name in (config.backend, platform) if name}
    if config.HasField("ensemble_scheduling"):
        named.add("ensemble")
    if len(named) == 1 and named <= {*admitted}:
        return str(named.pop())
    stated = " and ".join(repr(name) for name in sorted(named)) or "no backend"
    raise Failure(
        f"The {CONFIG} of {model} names {stated}.",
        help=f"The models of this assignment run on {' or '.join(admitted)}.",
    )


def _admit_fields(
    config: model_config_pb2.ModelConfig, model: str, backend: str, admitted: Admitted
) -> None:
    for field, _ in config.ListFields():
        if field.name not in _FIELDS:
            raise Failure(
                f"The {CONFIG} of {model} has the field {field.name!r}, which this course does "
                "not use.",
                help="Leave the field out.",
            )
    for key in config.parameters:
        known = admitted.parameters
        if _OF_THE_SERVER.fullmatch(key) or (known is not None and key not in known):
            raise Failure(
                f"The {CONFIG} of {model} has the parameter {key[:60]!r}.",
                help=f"The {backend} backend does not read it here. Leave it out, or look at how "
                "it is written: capitals count.",
            )
    instances = sum(max(group.count, 1) for group in config.instance_group)
    if instances > _MOST_INSTANCES:
        raise Failure(
            f"The {CONFIG} of {model} asks for {instances} instances.",
            help=f"At most {_MOST_INSTANCES} are served here.",
        )
    name = config.default_model_filename
    if name and (Path(name).name != name or not _fits(name, admitted.files)):
        raise Failure(
            f"The {CONFIG} of {model} has the default_model_filename {name[:60]!r}.",
            help="Leave it out, or name a file in the version's folder, without a path. The "
            f"{backend} backend takes here: {', '.join(admitted.files) or 'no file'}.",
        )
    if any(o.label_filename and not _fits(o.label_filename, [_LABELS]) for o in config.output):
        raise Failure(
            f"The {CONFIG} of {model} has a label_filename that is no {_LABELS}.",
            help="Write the name of a text file in the model's folder.",
        )
    if any(not output.target_name for output in config.batch_output):
        raise Failure(f"The {CONFIG} of {model} has a batch_output without a target_name.")
    for warm_up in config.model_warmup:
        if any(data.input_data_file for data in warm_up.inputs.values()):
            raise Failure(
                f"The model_warmup of {model} reads a file.",
                help="Warm up with zero_data or random_data.",
            )

    free = FREE_TEXT | _PARAMETERS if admitted.parameters is None else FREE_TEXT
    for place, text in _strings(config):
        if place == "metric_tags.key":
            if not is_metric_tag(text):
                raise Failure(
                    f"The {CONFIG} of {model} has the key {_shown(text)} in metric_tags.",
                    help="A key has letters A-Z a-z, digits and '_', and does not begin with '_'. "
                    "Triton 24.10 ends at any other.",
                )
        elif place not in free and not is_plain(text):
            raise Failure(f"The {CONFIG} of {model} has {_shown(text)} in {place}.", help=_ALLOWED)


def _strings(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Every string of a message that is not empty, with the field that it is in."""
    if isinstance(value, str):
        if value:
            yield place, value
    elif isinstance(value, Message):
        for field, inner in value.ListFields():
            yield from _strings(inner, f"{place}.{field.name}".lstrip("."))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _strings(key, f"{place}.key")
            yield from _strings(inner, f"{place}.value")
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _strings(inner, place)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _admit_files(folder: Path, model: str, backend: str, admitted: Admitted) -> None:
    versions = sum(place.name.isdecimal() for place in folder.iterdir())
    if versions > _MOST_VERSIONS:
        raise Failure(
            f"The folder of {model} holds {versions} versions.",
            help=f"At most {_MOST_VERSIONS} are served here.",
        )
    for count, (place, kind) in enumerate(_entries(folder)):
        parts = place.parts
        is_folder = stat.S_ISDIR(kind)
        if count >= _MOST_ENTRIES:
            raise Failure(f"The folder of {model} holds more than {_MOST_ENTRIES} files.")
        if len(parts) == 1:
            fits = parts[0].isdecimal() if is_folder else _fits(parts[0], (CONFIG, _LABELS))
        elif is_folder:
            fits = admitted.folders
        else:
            fits = parts[0].isdecimal() and _fits(parts[-1], admitted.files)
        if not is_plain(parts[-1]):
            kind_of = "folder" if is_folder else "file"
            raise Failure(
                f"The folder of {model} holds {_shown(str(place))}, and the {kind_of}'s name has "
                "another character than those allowed.",
                help=f"Rename it. {_ALLOWED}",
            )
        if _fits(parts[-1], _LIBRARIES) or not fits or not (is_folder or stat.S_ISREG(kind)):
            raise Failure(
                f"The folder of {model} holds {str(place)[:100]!r}.",
                help=f"A model on the {backend} backend does not need it. Take it out of the "
                "folder.",
            )


def _entries(folder: Path) -> Iterator[tuple[Path, int]]:
    """What a model's folder holds: path in it, and file type. Links are not followed."""
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_BEHIND)
        for name in (*folders, *sorted(name for name in files if name not in _LEFT_BEHIND)):
            place = Path(above, name)
            yield place.relative_to(folder), place.lstat().st_mode


def _fits(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
