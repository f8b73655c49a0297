"""Look-ups for models that the vLLM backend refuses. language_models.toml has the messages."""

from __future__ import annotations

import json
import re
from typing import Any

from .evidence import PLACES, Evidence
from .rules import Catalogue, Parts, listed, near

ENGINES: Catalogue[Evidence] = Catalogue("language_models", PLACES)

#: The file of engine arguments, and its largest size in bytes. A larger file of this name belongs
#: to another kind of model.
_FILE, _LARGE = "model.json", 100_000
_STARTED = "engine did not start: "
#: The usual engine arguments, to find the one that a misspelt name means.
_ARGUMENTS = (
    "model", "tokenizer", "dtype", "quantization", "max_model_len", "max_num_seqs",
    "max_num_batched_tokens", "gpu_memory_utilization", "kv_cache_dtype", "enable_prefix_caching",
    "enforce_eager", "tensor_parallel_size", "pipeline_parallel_size", "enable_lora", "max_loras",
    "trust_remote_code", "seed", "disable_log_stats", "enable_log_requests", "load_format",
)  # fmt: skip
#: Names of older versions or of other programs → what to do.
_OTHER = {
    "disable_log_requests": "Take it out: requests are logged if enable_log_requests is true.",
    "max_input_length": 'Write "max_model_len": the prompt and its answer together.',
    "max_output_length": "Take it out: each request says max_tokens in its sampling_parameters.",
    "model_checkpoint": 'Write "model".',
}
#: The part of pydantic's message that names the argument that it refuses, and says why.
_INVALID = re.compile(
    r"validation errors? for \w+\s+(\w+)(?:\.\S+)?\s+([^\n]+?) \[type=\w+, input_value=(.+?), "
)
#: The text of a number or a constant of JSON, for a value that was written in quotes.
_UNQUOTED = re.compile(r"-?\d+(?:\.\d+)?|true|false|null", re.IGNORECASE)


@ENGINES.look_up
def checkpoint(evidence: Evidence, parts: Parts) -> Parts:
    """The weights that the config names, in a parameter that the backend does not read."""
    named = re.search(rb'"model_checkpoint"[^}]*string_value: *"([^"]*)"', evidence.config_bytes)
    return {"given": named[1].decode("utf-8", errors="replace") if named else ""}


@ENGINES.look_up
def not_in_python(evidence: Evidence, parts: Parts) -> Parts | None:
    """None where a Python model's own auto_complete_config says so."""
    return {} if evidence.frame() is None else None


@ENGINES.look_up
def by_vllm(evidence: Evidence, parts: Parts) -> Parts | None:
    """None for a model of another backend."""
    return {} if evidence.value("backend") == "vllm" else None


@ENGINES.look_up
def argument_unknown(evidence: Evidence, parts: Parts) -> Parts | None:
    """The argument that is meant; None where something else than an engine was started."""
    name = parts["name"]
    if _STARTED not in evidence.message:
        return None
    return {"other": _OTHER.get(name, ""), "meant": near(name, _ARGUMENTS)}


@ENGINES.look_up
def weights(evidence: Evidence, parts: Parts) -> Parts | None:
    """The folders that there are, and the one that is meant."""
    repository, why = parts.get("repository", ""), parts.get("why", "")
    if not repository and _STARTED not in evidence.message:
        return None
    place = parts.get("place") or str(_arguments(evidence).get("model", ""))
    beside = [f for f in evidence.files() if f != "__pycache__/"]
    why = why or ("and the hub cannot be reached" if "hub" in parts else "")
    folders = [name.rstrip("/") for name in beside if name.endswith("/")]
    here = f"{evidence.model}/{evidence.version}"
    return {
        "place": place,
        "repository": repository,
        "why": why,
        "absolute": "yes" if place.startswith("/") and why else "",
        "argument": _at_argument(evidence, "model"),
        "here": here,
        "held": f"{here}/ holds {listed(beside)}" if beside else f"{here}/ is empty",
        "meant": near(place.rstrip("/").rpartition("/")[2], folders) or (folders or [""])[0],
        "hub": "yes" if "reached" in why or "forbids" in why else "",
    }


@ENGINES.look_up
def refused(evidence: Evidence, parts: Parts) -> Parts:
    """The argument that the engine does not take."""
    if invalid := _INVALID.search(evidence.message):
        name, why, value = invalid.groups()
        return {"name": name, "value": value, "reason": why,
                "argument": _at_argument(evidence, name)}  # fmt: skip
    found = {"why": parts["why"].strip().rstrip("."), "argument": f"{evidence.version}/{_FILE}"}
    for name, value in _arguments(evidence).items():
        if isinstance(value, str) and _UNQUOTED.fullmatch(value):
            argument = _at_argument(evidence, name)
            return {**found, "quoted": value, "bare": value.lower(), "argument": argument}
    return found


def _arguments(evidence: Evidence) -> dict[str, Any]:
    """The engine's arguments; empty if the file cannot be read, or holds something else."""
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
    """The place of an engine argument: its file, with the line if the argument begins one."""
    file = f"{evidence.version}/{_FILE}"
    for line in range(1, 200):
        code = evidence.code(file, line)
        if code.startswith(f'"{name}"'):
            return f"{file}, line {line}: {code}"
    return file
