"""Find out why a config was refused when the server's log cannot be read.

For every mistake in a config.pbtxt the server's answer is the same: "failed to poll from model
repository". The reason is only in its log. The laptop server's log can be read (explain.py), a
container's log cannot. So this module parses the model's folder again, and writes the message that
the server's log would show. The catalogue then explains that message.

It recognizes:

- a config.pbtxt that is missing, or has another name
- everything that protobuf's parser refuses: misspelt fields, wrong types, missing braces
- a name that differs from the folder's name
- a platform that does not exist

The server's core refuses other mistakes, too (batch sizes, schedulers, ensembles). This module does
not recognize them. For these the entry `config-refused` says how to read the log.
"""

from __future__ import annotations

import re

from .catalogue.config_values import PLATFORMS
from .catalogue.evidence import CONFIG, Evidence
from .pbtxt import Place, Scalar

_HEAD = "Error parsing text-format inference.ModelConfig: "
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
#: Messages of protobuf's parser for Python → messages of its parser for C++, which the server uses.
#: `{0}` is the text that the Python message quotes. {field}, {value} and {token} are the field's
#: name, its value and the token at the place of the mistake.
_MESSAGES = (
    (r'has no value named "(.*)"', 'Expected integer or identifier, got: "{0}"'),
    (r"has no value named (.*)\.", 'Unknown enumeration value of "{0}" for field "{field}".'),
    (r"Couldn't parse integer: (.*)", "Expected integer, got: {0}"),
    (r"Expected identifier or number, got (.*)\.", "Expected identifier, got: {0}"),
    (r"Expected string but found: '(.*)'", "Expected string, got: {0}"),
    (
        r'Expected "true" or "false"',
        'Invalid value for boolean field "{field}". Value: "{value}".',
    ),
    (
        r'should not have multiple "(\w+)" fields',
        'Non-repeated field "{0}" is specified multiple times.',
    ),
    (r"missing ending quote", "String literals cannot cross line boundaries."),
    (r'Expected "(.*)"\.', 'Expected "{0}", found "{token}".'),
)


def diagnose(evidence: Evidence) -> str:
    """The reason why a config was refused, as the server's log gives it; "" if none is found.

    diagnose(Evidence("digits", Path("models/digits"), "failed to poll from model repository"))
    """
    content = evidence.config_bytes
    if evidence.folder.is_dir() and not (evidence.folder / CONFIG).exists():
        return f"must specify 'platform' or 'backend' for '{evidence.model}'"
    if content.startswith(_BYTE_ORDER_MARKS):
        return f"{_HEAD}1:1: Interpreting non ascii codepoint {content[0]}."
    if re.search(rb"[\x00-\x08\x0e-\x1f]", content):
        return f"{_HEAD}1:1: Invalid control characters encountered in text."
    from google.protobuf import text_format  # type: ignore[import-untyped]
    from tritonclient.grpc import model_config_pb2

    config = model_config_pb2.ModelConfig()
    message = ""
    end = Place(len(evidence.config.lines) + 1, 1)
    try:
        text_format.Parse(content.decode("utf-8", errors="replace"), config)
    except text_format.ParseError as error:
        end = Place(error.GetLine() or 1, error.GetColumn() or 1)
        message = _translated(evidence, end, str(error))
    for problem in evidence.config.problems:  # Python reads some of these as white space
        if problem.kind == "stray" and not problem.text.isascii() and problem.place <= end:
            message = f"Interpreting non ascii codepoint {problem.text.encode()[0]}."
            end = problem.place
            break
    if message:
        return f"{_HEAD}{end.line}:{_column(evidence, end)}: {message}"
    if config.name and config.name != evidence.model:
        return (
            f"unexpected directory name '{evidence.model}' for model '{config.name}', directory "
            "name must equal model name"
        )
    if config.platform and config.platform not in PLATFORMS and not config.backend:
        return f"unexpected platform type '{config.platform}' for {evidence.model}"
    return ""


def _translated(evidence: Evidence, place: Place, error: str) -> str:
    """The message of protobuf's C++ parser for a message of its Python parser."""
    text = re.sub(r"^\d+:\d+ : ('.*': )?(?=\S)", "", error, flags=re.DOTALL)
    field = evidence.config.at(place)
    token = _token(evidence, place)
    value = field.value.text if field and isinstance(field.value, Scalar) else token
    for python, server in _MESSAGES:
        if found := re.search(python, text):
            name = field.name if field else ""
            return server.format(*found.groups(), field=name, value=value, token=token)
    return text


def _token(evidence: Evidence, place: Place) -> str:
    lines = evidence.config.lines
    rest = lines[place.line - 1][place.column - 1 :] if place.line <= len(lines) else ""
    found = re.match(r"[\w.+-]+|\"[^\"]*\"|'[^']*'|.", rest)
    return found[0] if found else ""


def _column(evidence: Evidence, place: Place) -> int:
    """The column as protobuf's C++ parser counts it: in bytes; a tab goes to a multiple of 8."""
    count = 0
    for character in evidence.config.lines[place.line - 1][: place.column - 1]:
        count += 8 - count % 8 if character == "\t" else len(character.encode())
    return count + 1
