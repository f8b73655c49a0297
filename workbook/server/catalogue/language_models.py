"""What the vLLM backend refuses: its file of engine arguments, the engine itself, and requests.

The messages are those of this course's stand-in (backends/vllm), of vLLM, and of Transformers where
it answers in vLLM's place. vLLM's own are from vLLM 0.32.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .evidence import Evidence
from .failed_requests import REQUESTS, Question
from .rules import Advice, Catalogue, Said, listed, near

ENGINES: Catalogue[Evidence] = Catalogue()

#: The file of engine arguments. One of more bytes is another model's file of this name.
_FILE, _LARGE = "model.json", 100_000
_STARTED = "engine did not start: "
#: Engine arguments that people write, for those that are misspelt.
_ARGUMENTS = (
    "model", "tokenizer", "dtype", "quantization", "max_model_len", "max_num_seqs",
    "max_num_batched_tokens", "gpu_memory_utilization", "kv_cache_dtype", "enable_prefix_caching",
    "enforce_eager", "tensor_parallel_size", "pipeline_parallel_size", "enable_lora", "max_loras",
    "trust_remote_code", "seed", "disable_log_stats", "enable_log_requests", "load_format",
)  # fmt: skip
#: Names that older versions had, or that other programs have → what to do.
_OTHER = {
    "disable_log_requests": "Take it out: requests are logged if enable_log_requests is true.",
    "max_input_length": 'Write "max_model_len": the prompt and its answer together.',
    "max_output_length": "Take it out: each request says max_tokens in its sampling_parameters.",
    "model_checkpoint": 'Write "model".',
}
#: TensorRT-LLM's parameters without a default → a value, and what it says.
_TRTLLM = {
    "gpt_model_type": ("inflight_fused_batching", "how requests are batched"),
    "gpt_model_path": ("/models/MODEL/1", "the folder of the engine, which exists"),
}
#: Sampling parameters that people write, for those that are misspelt.
_SAMPLING = (
    "max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop",
    "stop_token_ids", "ignore_eos", "n", "logprobs", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "skip_special_tokens", "structured_outputs",
)  # fmt: skip


# -- a model that does not load --------------------------------------------------------------------


@ENGINES.rule(
    "engine-arguments-missing", "'model.json' containing vllm engine args must be provided in"
)
def arguments_missing(evidence: Evidence, said: Said) -> Advice:
    """Write the engine's arguments into VERSION/model.json, at least "model"."""
    named = re.search(rb'"model_checkpoint"[^}]*string_value: *"([^"]*)"', evidence.config_bytes)
    given = named[1].decode("utf-8", errors="replace") if named else ""
    todo = f'Write it with the weights\' folder or hub name, e.g. {{"model": "{given or "…"}"}}.'
    if given:
        todo += " The backend does not read the parameter model_checkpoint."
    return Advice(
        f"The model has no file {evidence.version}/{_FILE}, which holds the engine's arguments.",
        f"{evidence.version}/",
        todo,
    )


ENGINES.row(
    "engine-arguments-broken",
    "failed to read {path:word}: it is not JSON: {why:text}",
    what=f"{_FILE} is not JSON: {{why}}.",
    where=f"{{version}}/{_FILE}",
    todo="Mend it there: names and texts in double quotes; true, false and null in small letters; "
    "no comma after the last entry.",
)
ENGINES.row(
    "engine-arguments-broken",
    'failed to read {path:word}: it must be an object with a "model"',
    what=f'{_FILE} has no "model".',
    where=f"{{version}}/{_FILE}",
    todo='Write {"model": "…"}: the folder of the weights, or their name on the hub.',
)
ENGINES.row(
    "engine-missing",
    "vLLM is not installed here",
    what="The package vllm is not installed.",
    todo="Run `make vllm` in the course's folder, then load the model again.",
)


@ENGINES.rule(
    "engine-batches",
    "configuration specified max_batch_size {size:int}, but in auto-complete-config function for "
    "model '{model}' specified max_batch_size 0",
)
def batches(evidence: Evidence, said: Said) -> Advice | None:
    """Leave max_batch_size out: the engine makes the batches."""
    if evidence.frame() is not None:  # a Python model, in its own auto_complete_config
        return None
    return Advice(
        f"The config says max_batch_size: {said['size']}; the engine makes the batches itself.",
        evidence.at("max_batch_size"),
        "Write max_batch_size: 0, or take the line out.",
    )


@ENGINES.rule("engine-kind", "has kind KIND_GPU but no GPUs are available")
def kind(evidence: Evidence, said: Said) -> Advice | None:
    """Write KIND_MODEL: vLLM chooses its devices itself."""
    if evidence.value("backend") != "vllm":
        return None
    return Advice(
        "The config asks for a GPU, and this server has none.",
        evidence.at("instance_group.kind", "instance_group"),
        "Write KIND_MODEL: vLLM takes the GPUs that it needs, or the CPU.",
    )


@ENGINES.rule(
    "engine-argument-unknown",
    "__init__() got an unexpected keyword argument '{name}'",
    "there is no engine argument '{name}'",
)
def argument_unknown(evidence: Evidence, said: Said) -> Advice | None:
    """Write an engine argument that this version of the engine has."""
    if _STARTED not in evidence.message:
        return None
    name = said["name"]
    meant = near(name, _ARGUMENTS)
    return Advice(
        f"The engine has no argument {name}.",
        f"{evidence.version}/{_FILE}",
        _OTHER.get(name)
        or (
            f'Write "{meant}".'
            if meant
            else "Take it out; engine arguments are those of the installed vLLM's EngineArgs."
        ),
    )


ENGINES.row(
    "engine-context",
    "User-specified max_model_len ({asked:int}) is greater than the derived max_model_len "
    "(max_position_embeddings={most:int}",
    "max_model_len ({asked:int}) is greater than the model's context ({most:int})",
    what="max_model_len is {asked}, and the model was made for {most} tokens.",
    where=f"{{version}}/{_FILE}",
    todo="Write at most {most}, or take max_model_len out.",
)


@ENGINES.rule(
    "engine-weights",
    "there are no weights at '{place}': no such folder in {repository}, {why:text}",
    "Invalid repository ID or local directory specified: '{place}'",
    "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{place}'",
    "{place:word} is not a local folder and is not a valid model identifier",
    "We couldn't connect to '{hub}' to load the files",
)
def weights(evidence: Evidence, said: Said) -> Advice | None:
    """Write the weights' folder as seen from the repository, or their name on the hub."""
    repository, why = said.get("repository", ""), said.get("why", "")
    if not repository and _STARTED not in evidence.message:
        return None
    place = said.get("place") or str(_arguments(evidence).get("model", ""))
    beside = [f for f in evidence.files() if f != "__pycache__/"]
    why = why or ("and the hub cannot be reached" if "hub" in said else "")
    folders = [name.rstrip("/") for name in beside if name.endswith("/")]
    meant = near(place.rstrip("/").rpartition("/")[2], folders) or (folders or [""])[0]
    here = f"{evidence.model}/{evidence.version}"
    if meant:
        todo = f'Write "{here}/{meant}" as "model": a path begins in the repository.'
    else:
        held = f"{here}/ holds {listed(beside)}" if beside else f"{here}/ is empty"
        todo = (
            f"{held}, and no folder. Put the folder of the weights there, e.g. as "
            f'{here}/checkpoint, and write this path as "model": a path begins in the repository.'
        )
        if "reached" in why or "forbids" in why:
            todo += " A name on the hub needs a network."
    return Advice(
        f"There is no folder {place}, {why}."
        if place.startswith("/") and why
        else f'The repository has no folder "{place}" (looked for in {repository}), {why}.'
        if repository
        else f"There are no weights at {place}" + (f", {why}." if why else "."),
        _at_argument(evidence, "model"),
        todo,
    )


@ENGINES.rule("engine-refused", "engine did not start: {why:rest}")
def refused(evidence: Evidence, said: Said) -> Advice:
    """Mend the argument that the message names; the log has the engine's own lines."""
    if invalid := _INVALID.search(evidence.message):
        name, why, value = invalid.groups()
        return Advice(
            f"The engine does not take {value} as {name}.",
            _at_argument(evidence, name),
            f"{why}.",
        )
    why = said["why"].strip().rstrip(".")
    for name, value in _arguments(evidence).items():
        if isinstance(value, str) and _UNQUOTED.fullmatch(value):
            return Advice(
                f"The engine did not start: {why}.",
                _at_argument(evidence, name),
                f'"{value}" is a text there. Write {value.lower()} without quotes.',
            )
    return Advice(
        f"The engine did not start: {why}.",
        f"{evidence.version}/{_FILE}",
        "Mend the argument that the message names; the log has the engine's own lines.",
    )


#: How pydantic says which argument it does not take, and why.
_INVALID = re.compile(
    r"validation errors? for \w+\s+(\w+)(?:\.\S+)?\s+([^\n]+?) \[type=\w+, input_value=(.+?), "
)
#: A number or a constant of JSON, where it stands in quotes.
_UNQUOTED = re.compile(r"-?\d+(?:\.\d+)?|true|false|null", re.IGNORECASE)


@ENGINES.rule(
    "engine-parameter",
    "There the backend would refuse this config: Cannot find parameter with name: {key:word}",
    "creating modelInstanceState: Cannot find parameter with name: {key:word}",
    "Invalid {key:id}. Must be v1/inflight_batching/inflight_fused_batching",
    "Both encoder and decoder model paths are {key:id}",
)
def engine_parameter(evidence: Evidence, said: Said) -> Advice:
    """Write the parameters gpt_model_type and gpt_model_path, and serve it on a GPU."""
    key = said["key"] if said["key"].startswith("gpt") else "gpt_model_path"
    value, what = _TRTLLM[key]
    given = evidence.at_parameter(key)
    return Advice(
        f"TensorRT-LLM's backend for engines wants the parameter {key}: {what}.",
        given,
        f'Write parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}. It needs an '
        "NVIDIA GPU, too.",
    )


ENGINES.row(
    "engine-package",
    "No module named 'tensorrt_llm'",
    what="TensorRT-LLM is not installed, and it needs an NVIDIA GPU.",
    where="{python_file}",
    todo="Serve the model in NVIDIA's container tritonserver:<version>-trtllm-python-py3; here "
    'take backend: "vllm".',
)


def _arguments(evidence: Evidence) -> dict[str, Any]:
    """The engine's arguments; empty where the file cannot be read, or holds something else."""
    path = evidence.folder / evidence.version / _FILE
    try:
        if path.stat().st_size > _LARGE:
            return {}
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_for_vllm(evidence: Evidence) -> bool:
    """Whether the version's folder has a file of engine arguments, with a "model"."""
    return isinstance(_arguments(evidence).get("model"), str)


def _at_argument(evidence: Evidence, name: str) -> str:
    """The file of engine arguments, with the line of one of them where it has such a line."""
    file = f"{evidence.version}/{_FILE}"
    for line in range(1, 200):
        code = evidence.code(file, line)
        if code.startswith(f'"{name}"'):
            return f"{file}, line {line}: {code}"
    return file


# -- a request that fails --------------------------------------------------------------------------


@REQUESTS.rule(
    "sampling-unknown",
    "sampling parameter '{name}' is not one of vLLM's",
    "there is no sampling parameter '{name}'",
)
def sampling_unknown(question: Question, said: Said) -> Advice:
    """Use a name that vLLM's SamplingParams have."""
    meant = near(said["name"], _SAMPLING)
    return Advice(
        f"{said['name']} is not a sampling parameter.",
        "sampling_parameters",
        f'Write "{meant}".' if meant else "Take it out, or look the name up in SamplingParams.",
    )


REQUESTS.row(
    "sampling-not-json",
    "sampling_parameters is not JSON: {why:text}",
    "sampling_parameters must be a JSON object",
    what="sampling_parameters is a text with JSON in it, and this one cannot be read as an object.",
    where="sampling_parameters",
    todo='Make it with json.dumps({"max_tokens": 64}).',
)
REQUESTS.row(
    "sampling-value",
    "sampling parameter {name:id} is {why:text}",
    "Error generating stream: {name:id} is {why:text}",
    "Error generating stream: {name:id} must {why:text}",
    what="The sampling parameter {name} has a value that it cannot have.",
    where="sampling_parameters",
    todo="Give {name} another value; the server's own words say which.",
)
REQUESTS.row(
    "prompt-too-long",
    "maximum context length is {most:int} tokens",
    "context length is {most:int}, the answer included",
    what="The prompt leaves no room: prompt and answer share {most} tokens.",
    where="text_input",
    todo="Send a shorter prompt, or raise max_model_len if the model was made for more.",
)
REQUESTS.row(
    "streaming-with-prompt",
    "When streaming, `exclude_input_in_output` = False is not allowed",
    what="A streamed answer cannot begin with the prompt.",
    where="exclude_input_in_output",
    todo="Leave exclude_input_in_output out, or take stream out.",
)
