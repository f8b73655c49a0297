"""Find out by ourselves why a config was refused, where the server says so in its log only.

A server answers "failed to poll from model repository" whatever is wrong with a config.pbtxt; the
reason goes to its log. Where the log is out of reach (a container's), the same reason is found
here, in the server's words, so that the catalogue can explain it: with protobuf's parser for
Python, and by the most common rules of the server's core (triton-inference-server/core,
src/model_config_utils.cc).
"""

from __future__ import annotations

import re
from typing import Any

from .catalogue.config import PLATFORMS
from .catalogue.evidence import CONFIG, Evidence
from .pbtxt import Field, Place, Scalar

_HEAD = "Error parsing text-format inference.ModelConfig: "
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def diagnose(evidence: Evidence) -> str:
    """The reason in the server's words; "" where none is found."""
    content = evidence.config_bytes
    if not content:
        return ""
    if content.startswith(_BOMS):
        return f"{_HEAD}1:1: Interpreting non ascii codepoint {content[0]}."
    if re.search(rb"[\x00-\x08\x0e-\x1f]", content):
        return f"{_HEAD}1:1: Invalid control characters encountered in text."
    from google.protobuf import text_format  # type: ignore[import-untyped]
    from tritonclient.grpc import model_config_pb2

    config = model_config_pb2.ModelConfig()
    said = ""
    end = Place(len(evidence.config.lines) + 1, 1)
    try:
        text_format.Parse(content.decode("utf-8", errors="replace"), config)
    except text_format.ParseError as error:
        end = Place(error.GetLine() or 1, error.GetColumn() or 1)
        said = _words(evidence, end, str(error))
    for problem in evidence.config.problems:  # Python takes some of these for white space
        if problem.kind == "stray" and not problem.text.isascii() and problem.place <= end:
            said = f"Interpreting non ascii codepoint {problem.text.encode()[0]}."
            end = problem.place
            break
    if said:
        return f"{_HEAD}{end.line}:{_column(evidence, end)}: {said}"
    return _refusal(config, evidence)


def _words(evidence: Evidence, place: Place, error: str) -> str:
    """The error of protobuf's parser for Python in the words of the one for C++."""
    text = re.sub(r"^\d+:\d+ : ('.*': )?(?=\S)", "", error, flags=re.DOTALL)
    return _translated(text, evidence.config.at(place), _token(evidence, place))


def _translated(text: str, field: Field | None, token: str) -> str:
    name = field.name if field else ""
    if found := re.search(r'has no value named "(.*)"', text):
        return f'Expected integer or identifier, got: "{found[1]}"'
    if found := re.search(r"has no value named (.*)\.", text):
        return f'Unknown enumeration value of "{found[1]}" for field "{name}".'
    if found := re.search(r"Couldn't parse integer: (.*)", text):
        return f"Expected integer, got: {found[1]}"
    if found := re.search(r"Expected identifier or number, got (.*)\.", text):
        return f"Expected identifier, got: {found[1]}"
    if found := re.search(r"Expected string but found: '(.*)'", text):
        return f"Expected string, got: {found[1]}"
    if 'Expected "true" or "false"' in text:
        value = field.value.text if field and isinstance(field.value, Scalar) else token
        return f'Invalid value for boolean field "{name}". Value: "{value}".'
    if found := re.search(r'should not have multiple "(\w+)" fields', text):
        return f'Non-repeated field "{found[1]}" is specified multiple times.'
    if "missing ending quote" in text:
        return "String literals cannot cross line boundaries."
    if found := re.search(r'Expected "(.*)"\.', text):
        return f'Expected "{found[1]}", found "{token}".'
    return text


def _token(evidence: Evidence, place: Place) -> str:
    lines = evidence.config.lines
    rest = lines[place.line - 1][place.column - 1 :] if place.line <= len(lines) else ""
    found = re.match(r"[\w.+-]+|\"[^\"]*\"|'[^']*'|.", rest)
    return found[0] if found else ""


def _column(evidence: Evidence, place: Place) -> int:
    """A column in characters as protobuf's C++ parser counts it: bytes, tabs to eights."""
    count = 0
    for character in evidence.config.lines[place.line - 1][: place.column - 1]:
        count += 8 - count % 8 if character == "\t" else len(character.encode())
    return count + 1


def _refusal(config: Any, evidence: Evidence) -> str:
    """What the core would say to a config that is well-formed."""
    model = evidence.model
    ensemble = config.platform == "ensemble"
    if config.name and config.name != model:
        return (
            f"unexpected directory name '{model}' for model '{config.name}', directory name must "
            "equal model name"
        )
    if config.platform and config.platform not in PLATFORMS and not config.backend:
        return f"unexpected platform type '{config.platform}' for {model}"
    if config.max_batch_size < 0:
        return f"'max_batch_size' must be non-negative value for {model}"
    for name, sizes in (
        ("dynamic batching preferred size", config.dynamic_batching.preferred_batch_size),
        (
            "sequence batching preferred batch size",
            config.sequence_batching.oldest.preferred_batch_size,
        ),
    ):
        if any(size < 1 for size in sizes):
            return f"{name} must be positive for {model}"
        if any(size > config.max_batch_size for size in sizes):
            return f"{name} must be <= max batch size for {model}"
    levels = config.dynamic_batching.priority_levels
    if levels and not 1 <= config.dynamic_batching.default_priority_level <= levels:
        return f"default priority level must be in range [1, {levels}] for {model}"
    if config.response_cache.enable and config.model_transaction_policy.decoupled:
        return (
            f"Response Cache does not currently support model {model} with 'decoupled' "
            "transaction policy."
        )
    if ensemble or config.HasField("ensemble_scheduling"):
        return _ensemble_refusal(config, model, ensemble)
    if not config.backend and not config.platform:
        return f"must specify 'platform' or 'backend' for '{model}' ({CONFIG})"
    return ""


def _ensemble_refusal(config: Any, model: str, ensemble: bool) -> str:
    if not ensemble:
        return (
            f"ensemble scheduling cannot be set for model '{model}' whose platform is not ensemble"
        )
    if not config.HasField("ensemble_scheduling"):
        return f"ensemble scheduling must be set for ensemble {model} whose platform is ensemble"
    if config.instance_group:
        return f"instance group should not be specified for ensemble '{model}'"
    steps = config.ensemble_scheduling.step
    if not steps:
        return f"must specify 'step' for ensemble '{model}'"
    for i, step in enumerate(steps):
        for name in ("model_name", "input_map", "output_map"):
            if not getattr(step, name):
                return f"must specify '{name}' in step {i} of ensemble '{model}'"
    given = [name for step in steps for name in step.output_map.values()]
    for name in given:
        if given.count(name) > 1:
            return f"ensemble tensor '{name}' can appear in an output map only once"
    taken = {name for step in steps for name in step.input_map.values()}
    for tensor in config.input:
        if tensor.name not in taken:
            return f"ensemble input '{tensor.name}' for ensemble {model}' is not used"
    for tensor in config.output:
        if tensor.name not in given:
            return f"ensemble output '{tensor.name}' for ensemble {model}' is not used"
    return ""
