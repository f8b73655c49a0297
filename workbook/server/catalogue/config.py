"""What the server's core refuses in a well-formed config: names, numbers, versions, GPUs."""

from __future__ import annotations

import re

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


# -- folders and files -----------------------------------------------------------------------------


@CORE.rule("no-such-model", "failed to poll from model repository", "model not found in any model")
def no_such_model(evidence: Evidence, said: Said) -> Advice | None:
    """Load a name that the repository has."""
    if evidence.folder.is_dir() or not evidence.folder.parent.is_dir():
        return None
    known = evidence.neighbours()
    meant = near(evidence.model, known)
    return Advice(
        f"The repository has no model {evidence.model}.",
        str(evidence.folder.parent),
        f"Load {meant}."
        if meant
        else f"It holds {listed(known)}. Deploy the model first: `workbook deploy FOLDER`.",
    )


@CORE.rule(
    "no-version",
    "at least one version must be available under the version policy of model '{model}'",
)
def no_version(evidence: Evidence, said: Said) -> Advice:
    """Put the model's file into a folder named by a number, which version_policy serves."""
    versions = evidence.versions()
    wanted = [
        f.value.text
        for f in evidence.config.walk()
        if f.name == "versions" and isinstance(f.value, Scalar)
    ]
    if versions and wanted:
        return Advice(
            f"version_policy asks for version {listed(wanted)}, and the folder has "
            f"{listed(map(str, versions))}.",
            evidence.at("version_policy.specific.versions"),
            f"Write versions: [ {', '.join(map(str, versions))} ], or add the folder {wanted[0]}/.",
        )
    if versions:
        return Advice(
            "version_policy serves none of the versions there are.",
            evidence.at("version_policy.latest.num_versions", "version_policy"),
            "Write version_policy { latest { num_versions: 1 } }, or take it out.",
        )
    entries = evidence.entries()
    almost = [n for n in entries if n.endswith("/") and re.search(r"\d", n)]
    loose = [n for n in entries if re.search(r"\.(py|onnx|pt|xml|plan|json|ubj|tl|dali)$", n)]
    if evidence.value("platform") == "ensemble":
        todo = f"Make the empty folder {evidence.model}/1/: an ensemble has a version as well."
    elif almost:
        number = re.sub(r"\D", "", almost[0]).lstrip("0") or "1"
        todo = f"Rename {almost[0]} to {number}/: a version folder is named by a number alone."
    elif loose:
        todo = f"Move {loose[0]} into the folder {evidence.model}/1/."
    else:
        todo = f"Put the model's file into {evidence.model}/1/, e.g. {evidence.model}/1/model.py."
    return Advice("The model has no version folder.", f"{evidence.model}/", todo)


@CORE.rule("file-unreadable", "failed to open text file for read {path:word}: {why:rest}")
def file_unreadable(evidence: Evidence, said: Said) -> Advice:
    """Put the file where the config says, or correct its name in the config."""
    path = said["path"]
    name = path.rpartition(f"/{evidence.model}/")[2]
    why = said["why"].rstrip("; ")
    if name == CONFIG:
        return Advice(
            f"config.pbtxt cannot be read: {why}.",
            CONFIG,
            f"Make it readable: `chmod a+r {evidence.model}/{CONFIG}`.",
        )
    for field in evidence.config.walk():
        value = field.value.text if isinstance(field.value, Scalar) else ""
        if value and name.endswith(value) and field.name.endswith(("filename", "file")):
            home = "the model's folder" if field.name == "label_filename" else name[: -len(value)]
            seen = near(value, evidence.entries())
            return Advice(
                f"The file {value} is not in {home}."
                if "No such file" in why
                else f"The file {value} cannot be read: {why}.",
                show(field),
                f'Write "{seen}", or put {value} into {home}.'
                if seen
                else f"Put {value} there, as {evidence.model}/{name}.",
            )
    return Advice(f"The file {name} cannot be read: {why}.", name, "Put it there, readable.")


@CORE.rule(
    "missing-file",
    "failed to stat file {path:word}",
    "unable to find '{path}' for model",
    "unable to find {path:word} for model",
    "Failed to load model file. The program looked in the following locations: {path:word},",
    "No model found in {path:rest}",
)
def missing_file(evidence: Evidence, said: Said) -> Advice:
    """Put the weights there under that name, or write default_model_filename."""
    path = said["path"].rstrip("/.:;")
    inside = path.rpartition(f"/{evidence.model}/")[2] if f"/{evidence.model}/" in path else path
    folder, _, name = inside.rpartition("/")
    version = folder or evidence.version()
    if name.startswith("["):  # pytorch lists the names that it tried
        name = "model.pt"
    files = [f for f in evidence.files() if not f.startswith("__pycache__")]
    return Advice(
        f"The model's file {version}/{name} is missing"
        + (f"; {version}/ holds {listed(files)}." if files else f": {version}/ is empty."),
        evidence.at("default_model_filename")
        if evidence.value("default_model_filename")
        else f"{version}/",
        f'Rename {files[0]} to {name}, or write default_model_filename: "{files[0]}".'
        if len(files) == 1 and not files[0].endswith("/")
        else f"Put the model's file there as {name}, or name it in default_model_filename.",
    )


# -- tensors ---------------------------------------------------------------------------------------


@CORE.rule("no-data-type", "model {kind:word} '{name}' must specify 'data_type'")
def no_data_type(evidence: Evidence, said: Said) -> Advice:
    """Write data_type, e.g. TYPE_FP32."""
    return Advice(
        f'The {said["kind"]} "{said["name"]}" has no data type.',
        evidence.at_tensor(said["kind"], said["name"]),
        "Write e.g. data_type: TYPE_FP32 into it.",
    )


@CORE.rule("no-dims", "model {kind:word} '{name}' must specify 'dims'")
def no_dims(evidence: Evidence, said: Said) -> Advice:
    """Write dims, e.g. [ 4 ], with -1 for a size that varies."""
    return Advice(
        f'The {said["kind"]} "{said["name"]}" has no dims.',
        evidence.at_tensor(said["kind"], said["name"]),
        "Write e.g. dims: [ 4 ] into it; -1 for a size that varies. The batch is not among them "
        "where max_batch_size is above 0.",
    )


@CORE.rule("bad-dim", "model {kind:word} '{name}' dimension must be integer >= 1, or -1")
def bad_dim(evidence: Evidence, said: Said) -> Advice:
    """Write sizes from 1 up, and -1 for a size that varies."""
    return Advice(
        f'A size in the dims of {said["kind"]} "{said["name"]}" is neither 1 or more nor -1.',
        evidence.at_tensor(said["kind"], said["name"], "dims"),
        "Write sizes from 1 up, and -1 for a size that varies.",
    )


@CORE.rule("tensor-without-name", "model {kind:word} must specify 'name'")
def tensor_without_name(evidence: Evidence, said: Said) -> Advice:
    """Give every input and output a name."""
    for field, section in evidence.sections(said["kind"]):
        if not section.text("name"):
            return Advice(
                f"An {said['kind']} has no name.", show(field), 'Write name: "…" into it.'
            )
    return Advice(f"An {said['kind']} has no name.", CONFIG, 'Write name: "…" into it.')


@CORE.rule(
    "reshape-size",
    "model {kind:word} '{name}' has different size for dims and reshape",
    "model {kind:word} '{name}' cannot have empty reshape for non-batching model",
)
def reshape_size(evidence: Evidence, said: Said) -> Advice:
    """Give reshape as many elements as dims."""
    empty = "cannot have empty reshape" in evidence.message
    return Advice(
        f'The reshape of {said["kind"]} "{said["name"]}" is empty, which needs a batch dimension.'
        if empty
        else f'dims and reshape of {said["kind"]} "{said["name"]}" hold different numbers of '
        "elements.",
        evidence.at_tensor(said["kind"], said["name"], "reshape"),
        "Set max_batch_size above 0, or take reshape out."
        if empty
        else "Let both multiply to the same number, or take reshape out.",
    )


@CORE.rule("image-format", "model input NHWC/NCHW require 3 dims")
def image_format(evidence: Evidence, said: Said) -> Advice:
    """Take `format` out, or give three dims."""
    return Advice(
        "An input with an image format needs three dims.",
        evidence.at("input.format"),
        "Take format out: it changes nothing else. Or write dims: [ 3, 224, 224 ].",
    )


# -- instances -------------------------------------------------------------------------------------


@CORE.rule("no-gpu", "has kind KIND_GPU but no GPUs are available")
def no_gpu(evidence: Evidence, said: Said) -> Advice:
    """Leave `kind` out: the server takes a GPU where there is one."""
    return Advice(
        "The config asks for a GPU, and this server has none.",
        evidence.at("instance_group.kind", "instance_group"),
        "Leave kind out (a GPU is used where there is one), or write KIND_CPU.",
    )


@CORE.rule("unknown-gpu", "specifies invalid or unsupported gpu id {gpu:int}")
def unknown_gpu(evidence: Evidence, said: Said) -> Advice:
    """Leave `gpus` out, or name one that the server has."""
    known = evidence.message.partition("are: ")[2].split("\n")[0].strip('; "')
    return Advice(
        f"The config asks for GPU {said['gpu']}, and this server has "
        f"{f'only {known}' if known else 'none'}.",
        evidence.at("instance_group.gpus", "instance_group"),
        "Leave gpus and kind out: the server takes what there is.",
    )


@CORE.rule("gpus-on-cpu", "has kind KIND_CPU but specifies one or more GPUs")
def gpus_on_cpu(evidence: Evidence, said: Said) -> Advice:
    """Take `gpus` out, or write KIND_GPU."""
    return Advice(
        "An instance group on the CPU names GPUs.",
        evidence.at("instance_group.gpus", "instance_group"),
        "Take gpus out, or write kind: KIND_GPU.",
    )


# -- warm-up ---------------------------------------------------------------------------------------


@CORE.rule(
    "warmup-batch",
    "failed to run warmup sample '{sample}': batch size {size:int} for '{name}', max allowed is "
    "{limit:int}",
)
def warmup_batch(evidence: Evidence, said: Said) -> Advice:
    """Warm up with at most max_batch_size."""
    return Advice(
        f'The warm-up "{said["sample"]}" has batches of {said["size"]}, and max_batch_size is '
        f"{said['limit']}.",
        evidence.at("model_warmup.batch_size", "model_warmup"),
        f"Write batch_size: {said['limit']} or less.",
    )


@CORE.rule(
    "warmup-data",
    "warmup setting expects input '{input}' to have input_data_type set",
    "warmup setting expects all variable-size dimensions are specified for input '{input}'",
    "warmup setting expects {expected:int} bytes, but the data provided from {file} has "
    "{given:int} bytes",
)
def warmup_data(evidence: Evidence, said: Said) -> Advice:
    """Give a warm-up input zero_data, random_data or a file, and dims without -1."""
    if said.get("expected"):
        return Advice(
            f"A warm-up's data file has {said['given']} bytes, its dims need {said['expected']}.",
            evidence.at("model_warmup.inputs.value.input_data_file", "model_warmup"),
            "Write the array with numpy's tofile(), in the config's data_type and dims.",
        )
    if "variable-size" in evidence.message:
        return Advice(
            f'The warm-up of input "{said["input"]}" has -1 in its dims.',
            evidence.at("model_warmup.inputs.value.dims", "model_warmup"),
            "Write the size to warm up with.",
        )
    return Advice(
        f'The warm-up of input "{said["input"]}" has no data.',
        evidence.at("model_warmup.inputs.value", "model_warmup"),
        'Write zero_data: true, random_data: true or input_data_file: "…" into it.',
    )


@CORE.rule(
    "warmup-input",
    "expected {n:int} inputs but got {m:int} inputs for model '{model}'. Got input(s) "
    "[{got:rest}], but missing required input(s) [{missing:rest}]. Please",
    "inference input '{input}' data-type is '{given}', but model '{model}' expects '{wanted}'",
    "unexpected shape for input '{input}' for model '{model}'. Expected [{wanted:rest}], got "
    "[{given:rest}].",
)
def warmup_input(evidence: Evidence, said: Said) -> Advice | None:
    """Make the warm-up's inputs the model's: names, types and dims."""
    if not evidence.config.root.all("model_warmup"):
        return None
    if not said.get("input"):
        missing = said["missing"].strip("'")
        return Advice(
            f'The warm-up lacks the input "{missing}".',
            evidence.at("model_warmup.inputs.key", "model_warmup.inputs", "model_warmup"),
            f'Write inputs {{ key: "{missing}" value {{ … }} }}.',
        )
    if "data-type is" in evidence.message:
        return Advice(
            f'The warm-up gives input "{said["input"]}" as {said["given"]}; it is '
            f"{said['wanted']}.",
            evidence.at("model_warmup.inputs.value.data_type", "model_warmup"),
            f"Write data_type: TYPE_{said['wanted'].replace('BYTES', 'STRING')}.",
        )
    wanted = said["wanted"].split(",")
    batched = evidence.value("max_batch_size", "0") != "0"
    dims = ", ".join(wanted[1:] if batched else wanted)
    return Advice(
        f'The warm-up gives input "{said["input"]}" other dims than the model has.',
        evidence.at("model_warmup.inputs.value.dims", "model_warmup"),
        f"Write dims: [ {dims} ].",
    )


# -- the Python backend's parameters ---------------------------------------------------------------


@CORE.rule(
    "no-environment",
    "Failed to get the canonical path for {path:word}",
    "Path {path:word} does not exist. The Python environment should contain an 'activate' script",
)
def no_environment(evidence: Evidence, said: Said) -> Advice:
    """Put the packed environment where EXECUTION_ENV_PATH says."""
    path = said["path"].rstrip(".")
    name = path.rpartition(f"/{evidence.model}/")[2]
    return Advice(
        f"EXECUTION_ENV_PATH names an environment that is not there: {name}.",
        evidence.at_parameter("EXECUTION_ENV_PATH"),
        f"Pack one (`venv-pack -o {name.rpartition('/')[2]}`) into the model's folder, and write "
        "$$TRITON_MODEL_DIRECTORY/ before its name.",
    )


@CORE.rule(
    "broken-environment",
    "archive_read_open_filename() failed",
    "archive_read_next_header() failed",
    "archive_write_header() failed",
)
def broken_environment(evidence: Evidence, said: Said) -> Advice:
    """Pack the environment again with venv-pack or conda-pack."""
    return Advice(
        "The packed environment is not an archive that can be read.",
        evidence.at_parameter("EXECUTION_ENV_PATH"),
        "Pack it again as .tar.gz with venv-pack or conda-pack.",
    )


@CORE.rule(
    "bad-parameter",
    "Incorrect value for {key:word}: {value:rest}",
    "failed to convert '{value}' to {type:id}",
    "parameter {key:word} is {value:word}; it must be at least {least:int}",
    "Expected 'true' or 'false' for parameter '{key}', got: '{value}'",
    "Bad input for parameter {key:word}: '{value}'",
    "expected the parameter '{key}' to {wanted}, got {value:rest}",
    "Expected values for  {key:id} are 0 or 1 but got {value:word}",
    "unsupported {key:id} value '{value}' is requested",
    "parameter '{key}' must be {wanted} number{value:rest}",
    "Unknown {what} name: {value:word}. ",
    "{value:word} not recognized as a valid serialization format",
)
def bad_parameter(evidence: Evidence, said: Said) -> Advice:
    """Write a value that the parameter may have; a parameter is always a string."""
    value = said["value"].rstrip("';. ")
    entries = [s for _, s in evidence.sections("parameters")]
    key = said.get("key", "") or next(
        (s.text("key") for s in entries if _string_value(s).lower() == value.lower()), ""
    )
    if (
        said.get("type") == "boolean"
        or "Incorrect value" in evidence.message
        or "true' or 'false" in evidence.message
    ):
        wanted = '"true" or "false"'
    elif said.get("type") == "integral" or "at least" in evidence.message:
        wanted = 'a whole number in quotes, e.g. "4"'
    elif "serialization format" in evidence.message:
        key = key or "model_type"
        wanted = "xgboost_json, xgboost_ubj, lightgbm or treelite_checkpoint"
    else:
        wanted = "one of the values that the message below names"
    if said.get("wanted", "").startswith("a "):  # a message without the value
        value = next((_string_value(s) for s in entries if s.text("key") == key), "")
        wanted = f"{said['wanted']} number in quotes"
    return Advice(
        f'The parameter {key or "named below"} cannot be "{value}".',
        evidence.at_parameter(key),
        f"Write {wanted} as its string_value.",
    )


def _string_value(section: object) -> str:
    from ..pbtxt import Message

    if not isinstance(section, Message):
        return ""
    inner = [f.value for f in section.all("value")]
    return inner[0].text("string_value") if inner and isinstance(inner[0], Message) else ""
