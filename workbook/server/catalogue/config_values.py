"""What the server's core refuses in a well-formed config: names, numbers, versions, GPUs.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import re

from ..pbtxt import Scalar
from . import config_schema
from .evidence import CONFIG, Evidence, at_field, at_parameter, show
from .language_models import is_for_vllm
from .rules import Advice, Catalogue, Said, listed, near

CORE: Catalogue[Evidence] = Catalogue()

#: Triton's platforms, each with the backend that it stands for.
PLATFORMS = {
    "ensemble": "",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorrt_plan": "tensorrt",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}
#: Triton's backends, each with the file that it serves; "" where that varies.
BACKENDS = {
    "python": "model.py",
    "onnxruntime": "model.onnx",
    "pytorch": "model.pt",
    "openvino": "model.xml",
    "tensorflow": "model.savedmodel",
    "fil": "",
    "dali": "model.dali",
    "vllm": "model.json",
    "tensorrt": "model.plan",
    "tensorrtllm": "",
}
#: Names that people know from other tools and write by mistake → the backend that they mean.
_BACKEND_WORDS = {
    "onnx": "onnxruntime",
    "ort": "onnxruntime",
    "torch": "pytorch",
    "libtorch": "pytorch",
    "torchscript": "pytorch",
    "openvino_ir": "openvino",
    "tf": "tensorflow",
    "savedmodel": "tensorflow",
    "xgboost": "fil",
    "lightgbm": "fil",
    "sklearn": "fil",
    "scikit-learn": "fil",
    "trt": "tensorrt",
    "tensorrt_llm": "tensorrtllm",
    "trtllm": "tensorrtllm",
}
#: The ending of a model's file → the backend that serves such files.
_ENDINGS = {
    ".py": "python",
    ".onnx": "onnxruntime",
    ".pt": "pytorch",
    ".xml": "openvino",
    ".plan": "tensorrt",
    ".savedmodel/": "tensorflow",
    ".dali": "dali",
    ".ubj": "fil",
    ".tl": "fil",
}

#: What later releases of Triton serve AOTInductor's model.pt2 as, with the backend pytorch.
_AOTI = "torch_aoti"
_AOTI_LATER = (
    f"This server has no {_AOTI}: later releases of Triton have it, for model.pt2. Its own "
    "PyTorch backend reads TorchScript only."
)
#: What to do about a file of torch.export or AOTInductor, which this server does not read.
AS_TORCHSCRIPT = (
    'Save the module as TorchScript, torch.jit.script(module.eval()).save("model.pt"), and write '
    'platform: "pytorch_libtorch"; or export the module as ONNX (torch.onnx.export), or load the '
    "file in a Python model."
)


def pt2(evidence: Evidence) -> Advice | None:
    """What to do about a model.pt2; None where the version's folder has none, or others as well."""
    files = [f for f in evidence.files() if not f.startswith("__pycache__")]
    if len(files) != 1 or not files[0].endswith(".pt2"):
        return None
    return Advice(
        f"{evidence.version}/{files[0]} is a file of torch.export or AOTInductor, and the PyTorch "
        "backend of this server reads TorchScript only.",
        f"{evidence.version}/{files[0]}",
        AS_TORCHSCRIPT,
    )


def backend_near(name: str) -> str:
    """The backend that was most likely meant; "" where none is similar.

    backend_near("onnx")  # onnxruntime
    """
    lower = name.lower()
    known = _BACKEND_WORDS.get(lower) or PLATFORMS.get(near(lower, PLATFORMS, cutoff=0.9), "")
    return known or near(lower, BACKENDS, cutoff=0.7)


def backend_of(files: list[str]) -> str:
    """The backend for the first of these files whose ending is known; "" where none is."""
    return next((b for f in files for end, b in _ENDINGS.items() if f.endswith(end)), "")


def _lines(backend: str, platform: str = "") -> str:
    """The config's line that names a backend, `backend: …`; and `platform: …` if that exists."""
    platform = platform or next((p for p, b in PLATFORMS.items() if b == backend), "")
    return (
        f'platform: "{platform}" or backend: "{backend}"' if platform else f'backend: "{backend}"'
    )


def _write(evidence: Evidence, backend: str, lines: str, place: str = "") -> str:
    """The instruction to write these lines; for a folder of Python files, those for Python."""
    files = [f for f in evidence.files() if f != "__pycache__/"]
    if backend == "python" or not files or not all(f.endswith(".py") for f in files):
        return f"Write {lines}{place}."
    wanted = BACKENDS[backend]
    return (
        f'Write backend: "python": {evidence.version}/ holds {listed(files)}'
        f"{f', and no {wanted}' if wanted else ''}. "
        f"Write {lines} for {f'a {wanted}' if wanted else 'a model of that backend'}."
    )


@CORE.rule(
    "unknown-platform",
    "unexpected platform type '{platform}'",
    "unexpected platform type {platform:word} for",
)
def unknown_platform(evidence: Evidence, said: Said) -> Advice:
    """Write `backend:` with the backend's name, or one of the platforms."""
    name = said["platform"]
    if name == _AOTI:
        return Advice(_AOTI_LATER, evidence.at("platform"), AS_TORCHSCRIPT)
    platform = near(name, PLATFORMS, cutoff=0.9)
    backend = PLATFORMS.get(platform, "") or backend_near(name)
    if platform and not backend:
        todo = f'Write platform: "{platform}".'
    elif backend:
        todo = _write(
            evidence, backend, _lines(backend, platform), " in place of the platform line"
        )
    else:
        todo = f"Write backend: and one of {', '.join(BACKENDS)}."
    what = f'There is no platform "{name}".'
    if name in BACKENDS:
        what = f'"{name}" is the name of a backend, and stands in the field platform.'
    return Advice(what, evidence.at("platform"), todo)


#: Backends that NVIDIA's newer containers do not have → what to do.
_GONE = {
    "tensorflow": "NVIDIA's containers have it up to release 25.02. Leave the model out, or "
    "convert it, e.g. to ONNX.",
}


@CORE.rule("unknown-backend", "unable to find backend library for backend '{backend}'")
def unknown_backend(evidence: Evidence, said: Said) -> Advice:
    """Write the backend's name as Triton has it, or use a server that has this backend."""
    name = said["backend"]
    if name == _AOTI:
        return Advice(_AOTI_LATER, evidence.at("backend"), AS_TORCHSCRIPT)
    platform = near(name, PLATFORMS, cutoff=0.9)
    meant = backend_near(name)
    what = f'There is no backend "{name}".'
    if not name:
        what, todo = "The config names no backend.", 'Write e.g. backend: "python".'
    elif name in BACKENDS:
        what = f'This server has no backend "{name}".'
        todo = _GONE.get(
            name,
            "Serve the model where it is installed (NVIDIA has several images), or convert it.",
        )
    elif platform:
        what = f'"{platform}" is a platform, and the field backend has "{name}".'
        todo = f'Write platform: "{platform}".'
        if meant:
            todo = _write(evidence, meant, _lines(meant, platform))
    elif meant:
        todo = _write(evidence, meant, f'backend: "{meant}"')
    else:
        todo = f"Write one of {', '.join(BACKENDS)}."
    return Advice(what, evidence.at("backend", "platform"), todo)


@CORE.rule(
    "platform-and-backend",
    "unexpected 'platform' and 'backend' pair, got:{platform:rest}, {backend:id}",
)
def platform_and_backend(evidence: Evidence, said: Said) -> Advice:
    """Keep the line backend or the line platform: one of them says all."""
    platform, backend = said["platform"], said["backend"]
    if platform == _AOTI:
        return Advice(_AOTI_LATER, evidence.at("platform"), AS_TORCHSCRIPT)
    meant = backend_of(evidence.files())
    other = PLATFORMS.get(platform, "")
    wrong = "backend" if other and meant == other != backend else "platform"
    kept = f'platform: "{platform}"' if wrong == "backend" else f'backend: "{backend}"'
    return Advice(
        f'The backend "{backend}" and the platform "{platform}" do not belong together.',
        evidence.at(wrong),
        f"Take the line {wrong} out: {kept} is enough.",
    )


CORE.row(
    "backend-library",
    "unable to find backend library '{library}' for model '{model}'",
    what="The backend has no library {library}.",
    where=at_field("runtime", "backend"),
    todo="Take the line runtime out; the server fills it in.",
)


@CORE.rule(
    "no-backend",
    "Could not determine backend for model '{model}' with no backend in model configuration",
    "must specify 'platform' or 'backend' for '{model}'",
    "must specify 'platform' or 'backend' for {model:word}",
)
def no_backend(evidence: Evidence, said: Said) -> Advice:
    """Write `backend:` into config.pbtxt, or name the model's file as the backend expects."""
    stray = [n for n in evidence.entries() if n.startswith("config") and n != CONFIG]
    files = evidence.files()
    if (newer := pt2(evidence)) is not None:
        return newer
    guess = backend_of(files) or ("vllm" if is_for_vllm(evidence) else "")
    held = f"{evidence.version}/ holds {listed(files)}" if files else "there is no model file"
    has = evidence.config_bytes.strip()
    if stray and not has:
        todo = f"Rename {stray[0]} to {CONFIG}."
    elif guess:
        todo = f'Write backend: "{guess}" into {CONFIG}.'
    else:
        todo = f'Write backend: and its name into {CONFIG}, e.g. backend: "python".'
    return Advice(
        f"The server cannot tell which backend serves this model: {held}"
        f"{'' if has else ', and there is no config.pbtxt'}.",
        CONFIG,
        todo,
    )


CORE.row(
    "name-differs",
    "unexpected directory name '{folder}' for model '{model}', directory name must",
    what='The config calls the model "{model}", its folder is {folder}.',
    where=at_field("name"),
    todo='Write name: "{folder}", or take the line out: the folder names the model.',
)
CORE.row(
    "negative-batch-size",
    "'max_batch_size' must be non-negative value for {model:word}",
    what="max_batch_size is negative.",
    where=at_field("max_batch_size"),
    todo="Write the largest batch, e.g. 8; 0 for a model whose tensors have no batch dimension.",
)


@CORE.rule(
    "preferred-over-max",
    "dynamic batching preferred size must be <= max batch size for {model:word}",
    "sequence batching preferred batch size must be <= max batch size for {model:word}",
)
def preferred_over_max(evidence: Evidence, said: Said) -> Advice:
    """Raise max_batch_size, or lower preferred_batch_size."""
    limit = int(evidence.value("max_batch_size", "0") or 0)
    for field in evidence.config.walk():
        value = field.value.text if isinstance(field.value, Scalar) else ""
        if field.name == "preferred_batch_size" and value.isdigit() and int(value) > limit:
            return Advice(
                f"The preferred batch size {value} is larger than max_batch_size, {limit}.",
                show(field),
                f"Write at most {limit}, or raise max_batch_size to {value}.",
            )
    return Advice(
        "A preferred batch size is larger than max_batch_size.",
        evidence.at("dynamic_batching.preferred_batch_size", "dynamic_batching"),
        f"Write at most {limit}, or raise max_batch_size.",
    )


CORE.row(
    "preferred-not-positive",
    "dynamic batching preferred size must be positive for {model:word}",
    "sequence batching preferred batch size must be positive for {model:word}",
    what="A preferred batch size is 0 or less.",
    where=at_field(
        "dynamic_batching.preferred_batch_size",
        "sequence_batching.oldest.preferred_batch_size",
    ),
    todo="Write sizes from 1 up, or leave preferred_batch_size out.",
)
CORE.row(
    "priority-out-of-range",
    "default priority level must be in range [1, {levels:int}]",
    what="default_priority_level is missing, or not one of the priority levels.",
    where=at_field("dynamic_batching.default_priority_level", "dynamic_batching.priority_levels"),
    todo="Write a level from 1 to {levels} (1 is the most urgent).",
)
CORE.row(
    "priority-out-of-range",
    "priority queue policy must have priority level in range [1, {levels:int}]",
    what="A key of priority_queue_policy is not a priority level.",
    where=at_field("dynamic_batching.priority_queue_policy", "dynamic_batching.priority_levels"),
    todo="Write a level from 1 to {levels} (1 is the most urgent).",
)


def _at_control(evidence: Evidence, said: Said) -> str:
    """The place of the sequence batcher's control of that kind."""
    for field in evidence.config.walk():
        value = field.value.text if isinstance(field.value, Scalar) else ""
        if field.name == "kind" and value == said["kind"]:
            return show(field)
    return evidence.at("sequence_batching.control_input", "sequence_batching")


CORE.row(
    "control-values",
    "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or "
    "'bool_false_true' for {kind:word}",
    "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and "
    "'bool_false_true' for {kind:word}",
    "sequence batching control '{field}' must have exactly 2 entries for {kind:word}",
    what="The control {kind} needs one pair of values, for false and for true.",
    where=_at_control,
    todo="Write one of int32_false_true: [ 0, 1 ], fp32_false_true: [ 0, 1 ] or "
    "bool_false_true: [ false, true ].",
)
CORE.row(
    "control-data-type",
    "unexpected data type for control {kind:word} for {model:word}. Allowed data types are "
    "{types:rest}",
    what="{kind} cannot have this data type.",
    where=_at_control,
    todo="Write data_type: TYPE_UINT64 (or UINT32, INT64, INT32, STRING).",
)
CORE.row(
    "control-values",
    "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or "
    "'bool_false_true' for {kind:word}",
    what="The control {kind} holds an id, and has a pair of values for false and true.",
    where=_at_control,
    todo="Take the pair of values out; write data_type: TYPE_UINT64 in its place.",
)
CORE.row(
    "control-without-name",
    "sequence batching control tensor must have a name",
    what="A control of the sequence batcher has no name.",
    where=at_field("sequence_batching.control_input", "sequence_batching"),
    todo='Write name: "…" into it, the name of the model\'s input that it fills.',
)
CORE.row(
    "control-twice",
    "sequence batching specifies multiple {kind:word} tensors",
    what="The control {kind} is given twice.",
    where=at_field("sequence_batching.control_input[1]", "sequence_batching"),
    todo="Give each kind of control one tensor of its own.",
)
CORE.row(
    "control-twice",
    "sequence batching control tensor '{name}' is specified for multiple control kinds",
    what='The control tensor "{name}" is given twice.',
    where=at_field("sequence_batching.control_input[1]", "sequence_batching"),
    todo="Give each kind of control one tensor of its own.",
)
CORE.row(
    "decoupled-cache",
    "Response Cache does not currently support model {model:word} with 'decoupled' transaction",
    what="A decoupled model cannot use the response cache.",
    where=at_field("response_cache"),
    todo="Take response_cache out, or decoupled: true.",
)
CORE.row(
    "sequence-cache",
    "Response Cache does not currently support model {model:word} with sequence batching",
    what="A model with sequences cannot use the response cache.",
    where=at_field("response_cache"),
    todo="Take response_cache out, with its lines: an answer depends on the sequence, too.",
)
CORE.row(
    "preserve-ordering",
    "Only one priority level is allowed when 'preserve_ordering' is true",
    what="With preserve_ordering there can be one priority level only.",
    where=at_field("dynamic_batching.priority_levels"),
    todo="Take priority_levels and default_priority_level out, or preserve_ordering.",
)
CORE.row(
    "preserve-ordering",
    "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true",
    what="With preserve_ordering a request cannot be put behind others when its time is over.",
    where=lambda evidence, said: evidence.at_value("DELAY"),
    todo="Write timeout_action: REJECT, or take preserve_ordering out.",
)
CORE.row(
    "slot-utilization",
    "sequence batching minimum slot utilization must be in range (0.0, 1.0]",
    what="minimum_slot_utilization is the share of slots that must have a request: from 0 to 1.",
    where=at_field("sequence_batching.direct.minimum_slot_utilization"),
    todo="Write e.g. minimum_slot_utilization: 0.5.",
)


@CORE.rule("sequence-state", "initial_state{words:rest}", "State input name '{words:rest}")
def sequence_state(evidence: Evidence, said: Said) -> Advice | None:
    """Let initial_state have the state's data_type and dims, sizes without -1, and a name."""
    at = evidence.at("sequence_batching.state.initial_state", "sequence_batching.state")
    if at == CONFIG or "failed to open text file" in evidence.message:
        return None
    found = re.search(r"[^\n:;]*(?:initial_state|State input name)[^\n;]*", evidence.message)
    words = found[0].strip(" .") if found else said["words"]
    return Advice(
        f"A state of the sequences is described wrongly: {words}.",
        at,
        "Give initial_state a name, the data_type and the dims of its state (with a size in place "
        "of -1), and zero_data: true or a data_file; each input_name once.",
    )


@CORE.rule(
    "batch-tensors",
    "batch input kind '{kind:id}' expects 1 source input, got {count:int}",
    "batch output kind '{kind:id}' expects 1 source input, got {count:int}",
    "batch input data type must be TYPE_INT32 or TYPE_FP32",
    "unknown source input name '{source}'",
    "unknown target output name '{target}'",
    "target output name '{twice}' can only be specified once",
)
def batch_tensors(evidence: Evidence, said: Said) -> Advice:
    """Name one input of the model as source, and outputs of the model as targets."""
    kind = "batch_output" if "output" in evidence.message else "batch_input"
    if name := said.get("source") or said.get("target") or said.get("twice"):
        known = evidence.tensor_names("input" if said.get("source") else "output")
        meant = near(name, known) or (known[0] if len(known) == 1 else "")
        if said.get("twice"):
            what, todo = f'The target "{name}" is given twice.', "Name each target once."
        else:
            which = "input" if said.get("source") else "output"
            what = f'The config has no {which} "{name}"; it has {listed(known)}.'
            todo = f'Write "{meant}".' if meant else f"Write one of {listed(known, 'or')}."
        return Advice(what, evidence.at_value(name, "source_input", "target_name"), todo)
    if said.get("kind"):
        return Advice(
            f"{said['kind']} is computed from one input, and {said['count']} are named.",
            evidence.at_value(said["kind"]),
            'Write source_input: [ "…" ] with one input of the model.',
        )
    return Advice(
        "The data type of a batch_input is TYPE_INT32 or TYPE_FP32.",
        evidence.at(f"{kind}.data_type", kind),
        "Write data_type: TYPE_INT32 or TYPE_FP32, as the model takes it.",
    )


CORE.row(
    "batch-strategy",
    "Batching library path not found: {path:word}",
    what="The library of the batching strategy is not there: {path}.",
    where=at_parameter("TRITON_BATCH_STRATEGY_PATH"),
    todo="Write the whole path of a file that the server can read, or take the parameter out.",
)
CORE.row(
    "no-repository-agent",
    "unable to find '{library}' for repo agent '{agent}'",
    what='This server has no repository agent "{agent}".',
    where=at_field("model_repository_agents"),
    todo="Take model_repository_agents out, or serve the model in NVIDIA's container.",
)

# -- the override at load --------------------------------------------------------------------------

_OVERRIDE = "the config given at load"


@CORE.rule("override-field", "Invalid config override: {field:word}: Cannot find field")
def override_field(evidence: Evidence, said: Said) -> Advice:
    """Write the field's name in the override as the schema has it."""
    *section, name = said["field"].rstrip(":").split(".")
    known = (
        config_schema.section_names(".".join(section))
        if section
        else config_schema.field_names("ModelConfig")
    )
    meant = config_schema.field_near("ModelConfig", name) if not section else near(name, known)
    return Advice(
        f"The override has a field that Triton does not know: {name}.",
        _OVERRIDE,
        f'Write "{meant}".' if meant else f"Known here: {', '.join(known)}.",
    )


@CORE.rule(
    "override-value",
    'Invalid config override: ({field:rest}): invalid value "{value}" for type {type:rest}',
)
def override_value(evidence: Evidence, said: Said) -> Advice:
    """Write the override's value as the schema has it."""
    meant = config_schema.enum_near(said["field"], said["value"])
    return Advice(
        f'The override\'s {said["field"]} cannot be "{said["value"]}".',
        _OVERRIDE,
        f'Write "{meant}".' if meant else _TYPES,
    )


_TYPES = "Write numbers as numbers, and types by their names (TYPE_FP32)."
CORE.row(
    "override-value",
    "Invalid config override: {words:text}",
    what="The override cannot be read: {words}.",
    where=_OVERRIDE,
    todo=_TYPES,
)
