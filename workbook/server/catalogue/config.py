"""What the server's core refuses in a well-formed config: names, numbers, versions, GPUs."""

from __future__ import annotations

from ..pbtxt import Scalar
from .evidence import CONFIG, Evidence, show
from .rules import Advice, Catalogue, Said, listed, near

CORE: Catalogue[Evidence] = Catalogue()

PLATFORMS = (
    "ensemble",
    "onnxruntime_onnx",
    "pytorch_libtorch",
    "tensorrt_plan",
    "tensorflow_graphdef",
    "tensorflow_savedmodel",
)
BACKENDS = (
    "python",
    "onnxruntime",
    "pytorch",
    "openvino",
    "tensorflow",
    "fil",
    "dali",
    "vllm",
    "tensorrt",
    "tensorrtllm",
)
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


def backend_near(name: str) -> str:
    """The backend that was most likely meant; "" where none is near."""
    lower = name.lower()
    return _BACKEND_WORDS.get(lower, "") or near(lower, BACKENDS, cutoff=0.7)


@CORE.rule(
    "unknown-platform",
    "unexpected platform type '{platform}'",
    "unexpected platform type {platform:word} for",
)
def unknown_platform(evidence: Evidence, said: Said) -> Advice:
    """Write `backend:` with the backend's name."""
    platform = said["platform"]
    meant = near(platform, PLATFORMS, cutoff=0.8)
    backend = backend_near(platform)
    if meant:
        todo = f'Write platform: "{meant}".'
    elif backend:
        todo = f'Write backend: "{backend}" in place of the platform line.'
    else:
        todo = f"Write backend: and one of {', '.join(BACKENDS)}."
    return Advice(f'There is no platform "{platform}".', evidence.at("platform"), todo)


@CORE.rule("unknown-backend", "unable to find backend library for backend '{backend}'")
def unknown_backend(evidence: Evidence, said: Said) -> Advice:
    """Write the backend's name as Triton has it, or use a server that has this backend."""
    name = said["backend"]
    meant = backend_near(name)
    if not name:
        what, todo = "The config names no backend.", 'Write e.g. backend: "python".'
    elif name in BACKENDS:
        what = f'This server has no backend "{name}".'
        todo = "Serve the model where it is installed (NVIDIA has several images), or convert it."
    else:
        what = f'There is no backend "{name}".'
        todo = f'Write backend: "{meant}".' if meant else f"Write one of {', '.join(BACKENDS)}."
    return Advice(what, evidence.at("backend", "platform"), todo)


@CORE.rule("backend-library", "unable to find backend library '{library}' for model '{model}'")
def backend_library(evidence: Evidence, said: Said) -> Advice:
    """Leave `runtime` out: the server knows it."""
    return Advice(
        f"The backend has no library {said['library']}.",
        evidence.at("runtime", "backend"),
        "Take the line runtime out; the server fills it in.",
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
    guess = _backend_of(files)
    held = f"{evidence.version()}/ holds {listed(files)}" if files else "there is no model file"
    has = evidence.config_bytes.strip()
    return Advice(
        f"The server cannot tell which backend serves this model: {held}"
        f"{'' if has else ', and there is no config.pbtxt'}.",
        CONFIG,
        f"Rename {stray[0]} to {CONFIG}."
        if stray and not has
        else f'Write backend: "{guess or "python"}" into {CONFIG}.',
    )


def _backend_of(files: list[str]) -> str:
    ends = {
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
    return next((b for f in files for end, b in ends.items() if f.endswith(end)), "")


@CORE.rule(
    "name-differs", "unexpected directory name '{folder}' for model '{model}', directory name must"
)
def name_differs(evidence: Evidence, said: Said) -> Advice:
    """Leave `name` out, or make it the folder's."""
    return Advice(
        f'The config calls the model "{said["model"]}", its folder is {said["folder"]}.',
        evidence.at("name"),
        f'Write name: "{said["folder"]}", or take the line out: the folder names the model.',
    )


@CORE.rule("negative-batch-size", "'max_batch_size' must be non-negative value for {model:word}")
def negative_batch_size(evidence: Evidence, said: Said) -> Advice:
    """Write the largest batch, or 0 for a model that does not batch."""
    return Advice(
        "max_batch_size is negative.",
        evidence.at("max_batch_size"),
        "Write the largest batch, e.g. 8; 0 for a model whose tensors have no batch dimension.",
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


@CORE.rule(
    "preferred-not-positive",
    "dynamic batching preferred size must be positive for {model:word}",
    "sequence batching preferred batch size must be positive for {model:word}",
)
def preferred_not_positive(evidence: Evidence, said: Said) -> Advice:
    """Write sizes from 1 up, or leave preferred_batch_size out."""
    return Advice(
        "A preferred batch size is 0 or less.",
        evidence.at(
            "dynamic_batching.preferred_batch_size",
            "sequence_batching.oldest.preferred_batch_size",
        ),
        "Write sizes from 1 up, or leave preferred_batch_size out.",
    )


@CORE.rule(
    "priority-out-of-range",
    "default priority level must be in range [1, {levels:int}]",
    "priority queue policy must have priority level in range [1, {levels:int}]",
)
def priority_out_of_range(evidence: Evidence, said: Said) -> Advice:
    """Name priorities from 1 to priority_levels; default_priority_level is required."""
    in_queue = "priority queue policy must" in evidence.message
    return Advice(
        "A key of priority_queue_policy is not a priority level."
        if in_queue
        else "default_priority_level is missing, or not one of the priority levels.",
        evidence.at(
            "dynamic_batching.priority_queue_policy"
            if in_queue
            else "dynamic_batching.default_priority_level",
            "dynamic_batching.priority_levels",
        ),
        f"Write a level from 1 to {said['levels']} (1 is the most urgent).",
    )


@CORE.rule(
    "control-values",
    "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or "
    "'bool_false_true' for {kind:word}",
    "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and "
    "'bool_false_true' for {kind:word}",
    "sequence batching control '{field}' must have exactly 2 entries for {kind:word}",
)
def control_values(evidence: Evidence, said: Said) -> Advice:
    """Give a control exactly one pair of values, e.g. `int32_false_true: [ 0, 1 ]`."""
    return Advice(
        f"The control {said['kind']} needs one pair of values, for false and for true.",
        _at_control(evidence, said["kind"]),
        "Write one of int32_false_true: [ 0, 1 ], fp32_false_true: [ 0, 1 ] or "
        "bool_false_true: [ false, true ].",
    )


@CORE.rule(
    "control-data-type",
    "unexpected data type for control {kind:word} for {model:word}. Allowed data types are "
    "{types:rest}",
)
def control_data_type(evidence: Evidence, said: Said) -> Advice:
    """Give the correlation id one of the allowed types."""
    return Advice(
        f"{said['kind']} cannot have this data type.",
        _at_control(evidence, said["kind"]),
        "Write data_type: TYPE_UINT64 (or UINT32, INT64, INT32, STRING).",
    )


@CORE.rule(
    "control-twice",
    "sequence batching specifies multiple {kind:word} tensors",
    "sequence batching control tensor '{name}' is specified for multiple control kinds",
)
def control_twice(evidence: Evidence, said: Said) -> Advice:
    """Give each control one tensor, and each tensor one control."""
    which = said.get("kind") or f'tensor "{said.get("name")}"'
    return Advice(
        f"The control {which} is given twice.",
        evidence.at("sequence_batching.control_input[1]", "sequence_batching"),
        "Give each kind of control one tensor of its own.",
    )


def _at_control(evidence: Evidence, kind: str) -> str:
    for field in evidence.config.walk():
        if field.name == "kind" and isinstance(field.value, Scalar) and field.value.text == kind:
            return show(field)
    return evidence.at("sequence_batching.control_input", "sequence_batching")


@CORE.rule(
    "decoupled-cache",
    "Response Cache does not currently support model {model:word} with 'decoupled' transaction",
)
def decoupled_cache(evidence: Evidence, said: Said) -> Advice:
    """Take response_cache out of a decoupled model."""
    return Advice(
        "A decoupled model cannot use the response cache.",
        evidence.at("response_cache"),
        "Take response_cache out, or decoupled: true.",
    )


@CORE.rule("no-repository-agent", "unable to find '{library}' for repo agent '{agent}'")
def no_repository_agent(evidence: Evidence, said: Said) -> Advice:
    """Take model_repository_agents out, or use a server that has the agent."""
    return Advice(
        f'This server has no repository agent "{said["agent"]}".',
        evidence.at("model_repository_agents"),
        "Take model_repository_agents out, or serve the model in NVIDIA's container.",
    )


# -- the override at load --------------------------------------------------------------------------


@CORE.rule("override-field", "Invalid config override: {field:word}: Cannot find field")
def override_field(evidence: Evidence, said: Said) -> Advice:
    """Write the field's name in the override as the schema has it."""
    from . import schema

    *section, name = said["field"].rstrip(":").split(".")
    known = (
        schema.section_names(".".join(section)) if section else schema.field_names("ModelConfig")
    )
    meant = schema.field_near("ModelConfig", name) if not section else near(name, known)
    return Advice(
        f"The override has a field that Triton does not know: {name}.",
        "the config given at load",
        f'Write "{meant}".' if meant else f"Known here: {', '.join(known)}.",
    )


@CORE.rule(
    "override-value",
    'Invalid config override: ({field:rest}): invalid value "{value}" for type {type:rest}',
    "Invalid config override: {words:rest}",
)
def override_value(evidence: Evidence, said: Said) -> Advice:
    """Write the override's value as the schema has it."""
    from . import schema

    field, value = said.get("field", ""), said.get("value", "")
    meant = schema.enum_near(field, value) if field else ""
    return Advice(
        f'The override\'s {field} cannot be "{value}".'
        if field
        else f"The override cannot be read: {said.get('words', '').rstrip('.')}.",
        "the config given at load",
        f'Write "{meant}".'
        if meant
        else "Write numbers as numbers, and types by their names (TYPE_FP32).",
    )
