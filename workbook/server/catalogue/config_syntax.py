"""Mistakes in the text of config.pbtxt: what protobuf's parser refuses.

The parser's messages are only in the server's log; the answer to a load request does not have
them. Each begins with a line and a column.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import re

from ..pbtxt import Field, Place, Scalar
from . import config_schema
from .evidence import CONFIG, Evidence, at_position, short, show
from .rules import Advice, Catalogue, Said, listed

TEXT: Catalogue[Evidence] = Catalogue()

_LOOKALIKES = {
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u2013\u2014\u2212", "-"),
    "\uff1a": ":",
    "\uff0c": ",",
    **dict.fromkeys("\u00a0\u3000", "a plain space"),
    "\u200b": "nothing",
}


TEXT.row(
    "binary-config",
    "Invalid control characters encountered in text",
    what="config.pbtxt is not a text file.",
    where=CONFIG,
    todo="Write it anew as plain text (UTF-8). Weights belong into {version}/.",
)


@TEXT.rule(
    "byte-order-mark",
    "1:1: Interpreting non ascii codepoint 239",
    "1:1: Interpreting non ascii codepoint 254",
    "1:1: Interpreting non ascii codepoint 255",
)
def byte_order_mark(evidence: Evidence, said: Said) -> Advice | None:
    """Save config.pbtxt as UTF-8 without a byte order mark."""
    if not evidence.config_bytes.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return None  # another character whose first UTF-8 byte is the same
    return Advice(
        "config.pbtxt begins with a byte order mark, which Triton does not read.",
        f"{CONFIG}, line 1",
        "Save it as UTF-8 without BOM (in Windows editors an option of Save As).",
    )


@TEXT.rule(
    "foreign-character", "{line:int}:{column:int}: Interpreting non ascii codepoint {code:int}"
)
def foreign_character(evidence: Evidence, said: Said) -> Advice:
    """Write plain quotes, dashes and spaces; other alphabets only inside quotes and comments."""
    place = evidence.place(said)
    line = evidence.config.lines[place.line - 1 : place.line]
    character = line[0][place.column - 1 : place.column] if line else ""
    plain = _LOOKALIKES.get(character)
    name = f"the character {character}" if character.isprintable() else ascii(character)
    if character == "\u00a0":
        name = "a no-break space"
    return Advice(
        f"config.pbtxt holds {name or 'a character'}, which Triton does not understand here.",
        f"{CONFIG}, line {place.line}, column {place.column}",
        f"Write {plain} in its place (a word processor or a web page inserts such characters)."
        if plain
        else "Outside quotes and comments write plain letters only.",
    )


@TEXT.rule(
    "missing-brace",
    '{line:int}:{column:int}: Message type "inference.{type:word}" has no field named "{field}"',
)
def missing_brace(evidence: Evidence, said: Said) -> Advice | None:
    """Close the section above: a field of the whole file stands inside it."""
    name = said["field"]
    field = evidence.config.before(evidence.place(said), name)
    section = evidence.config.find(field.path.rpartition(".")[0]) if field else None
    unclosed = any(p.kind == "unclosed" and p.text in "{<" for p in evidence.config.problems)
    if field is None or section is None or not unclosed:
        return None
    if name not in config_schema.field_names("ModelConfig"):
        return None
    line = max(
        (
            i
            for i, text in enumerate(evidence.config.lines[: field.place.line - 1], 1)
            if text.strip()
        ),
        default=field.place.line,
    )
    return Advice(
        f"A closing brace is missing: {short(section)}, which begins on line "
        f"{section.place.line}, is still open where line {field.place.line} begins {name}.",
        f"{CONFIG}, line {line}",
        f"Write {' '.join('}' * field.path.count('.'))} "
        f"{_before(evidence.config.lines, field.place)}.",
    )


@TEXT.rule(
    "map-entry",
    '{line:int}:{column:int}: Message type "inference.{type:word}Entry" has no field named '
    '"{field}"',
)
def map_entry(evidence: Evidence, said: Said) -> Advice:
    """Write the entry of a map as key and value."""
    field = evidence.config.before(evidence.place(said), said["field"])
    section = field.path.rpartition(".")[0] if field else ""
    name = section.rpartition(".")[2].partition("[")[0] or "parameters"
    text = field.value.text if field and isinstance(field.value, Scalar) else "…"
    value = f'value: "{text}"' if name.endswith("_map") else f'value {{ string_value: "{text}" }}'
    return Advice(
        f"An entry of {name} is written as a key and a value.",
        show(field) if field else evidence.at_position(said),
        f'Write {name} {{ key: "{said["field"]}" {value} }}.',
    )


@TEXT.rule(
    "list-without-brackets",
    "{line:int}:{column:int}: Expected identifier, got: {value:int}",
    '{line:int}:{column:int}: Message type "inference.{in:word}" has no field named "{value:int}"',
)
def list_without_brackets(evidence: Evidence, said: Said) -> Advice | None:
    """Write the values of a list in square brackets."""
    line = "".join(evidence.config.lines[int(said["line"]) - 1 : int(said["line"])])
    found = re.search(r"(\w+)\s*:\s*(-?\d+(?:[\s,]+-?\d+)+)", line)
    if found is None:
        return None
    name, values = found.groups()
    return Advice(
        f"{name} has several values, and they stand without brackets.",
        f"{CONFIG}, line {said['line']}, field {name}",
        f"Write {name}: [ {', '.join(re.findall(r'-?[0-9]+', values))} ].",
    )


#: Fields that Triton never had, and the parameter of a backend that is meant.
_PARAMETERS = {
    "signature_def": "TF_SIGNATURE_DEF",
    "tf_signature_def": "TF_SIGNATURE_DEF",
    "graph_tag": "TF_GRAPH_TAG",
    "tf_graph_tag": "TF_GRAPH_TAG",
}


@TEXT.rule(
    "parameter-as-field",
    '{line:int}:{column:int}: Message type "inference.ModelConfig" has no field named "{field}"',
)
def parameter_as_field(evidence: Evidence, said: Said) -> Advice | None:
    """Write a backend's own option as a parameter."""
    name = said["field"]
    key = _PARAMETERS.get(name.lower())
    if key is None:
        return None
    field = evidence.config.before(evidence.place(said), name)
    text = field.value.text if field and isinstance(field.value, Scalar) else "…"
    return Advice(
        f"{name} is no field of a config; it is an option of the TensorFlow backend, {key}.",
        show(field) if field else evidence.at_position(said),
        f'Write parameters {{ key: "{key}" value: {{ string_value: "{text}" }} }} in its place.',
    )


@TEXT.rule(
    "misspelt-field",
    '{line:int}:{column:int}: Message type "inference.{type:word}" has no field named "{field}"',
)
def misspelt_field(evidence: Evidence, said: Said) -> Advice:
    """Write the field's name as the schema has it."""
    name = said["field"]
    field = evidence.config.before(evidence.place(said), name)
    section = field.path.rpartition(".")[0] if field else ""
    inside = f"The section {section}" if section else CONFIG
    meant = config_schema.field_near(said["type"], name)
    owners = config_schema.owners(name)
    if not section and name in config_schema.field_names("ModelConfig"):
        todo = "Newer releases of Triton have it, this server does not: take it out."
    elif owners and (
        not config_schema.is_habit(name)
        or any(owner.startswith(f"{section}.") for owner in owners if section)
    ):
        todo = f"{name} belongs into {listed(owners[:4], 'or')}."
    elif meant:
        todo = f"Write {meant} in place of {name}."
    else:
        todo = f"Take it out. Known here: {', '.join(config_schema.field_names(said['type']))}."
    return Advice(
        f"{inside} has a field that Triton does not know: {name}.",
        show(field) if field else evidence.at_position(said),
        todo,
    )


@TEXT.rule(
    "enum-value",
    '{line:int}:{column:int}: Unknown enumeration value of "{value}" for field "{field}"',
)
def enum_value(evidence: Evidence, said: Said) -> Advice:
    """Write the value as the schema has it, e.g. TYPE_FP32 or KIND_CPU."""
    field = evidence.config.before(evidence.place(said), said["field"], said["value"])
    return _enum(evidence, said, field, said["value"], f"{said['value']} is not a value of")


@TEXT.rule("quoted-enum", '{line:int}:{column:int}: Expected integer or identifier, got: "{value}"')
def quoted_enum(evidence: Evidence, said: Said) -> Advice:
    """Write such a value without quotes."""
    field = evidence.config.at(evidence.place(said))
    return _enum(
        evidence,
        said,
        field,
        said["value"],
        f'"{said["value"]}" is written as text, in quotes, and is no value of',
    )


def _enum(evidence: Evidence, said: Said, field: Field | None, value: str, trouble: str) -> Advice:
    path = field.path if field else ""
    meant = config_schema.enum_near(path, value)
    values = ", ".join(config_schema.enum_values(path))
    return Advice(
        f"{trouble} {field.name if field else 'this field'}.",
        show(field) if field else evidence.at_position(said),
        f"Write {meant}, without quotes." if meant else f"Write one of {values}, without quotes.",
    )


@TEXT.rule("unquoted-string", "{line:int}:{column:int}: Expected string, got: {value:rest}")
def unquoted_string(evidence: Evidence, said: Said) -> Advice:
    """Put the text into quotes."""
    field = evidence.config.at(evidence.place(said))
    name = field.name if field else "the field"
    place = evidence.place(said)
    rest = "".join(evidence.config.lines[place.line - 1 : place.line])[place.column - 1 :]
    # The server names the first word; a file's name goes on after it.
    whole = re.match(r"[^\s,;{}\[\]<>#\"']+", rest)
    value = whole[0] if whole else said["value"].strip()
    return Advice(
        f"The value of {name} is text, and text is written in quotes.",
        evidence.at_position(said),
        f'Write {name}: "{value}".',
    )


@TEXT.rule(
    "not-an-integer",
    "{line:int}:{column:int}: Expected integer, got: {value:rest}",
    "{line:int}:{column:int}: Integer out of range ({value:rest})",
)
def not_an_integer(evidence: Evidence, said: Said) -> Advice:
    """Write a whole number without quotes; a list in square brackets."""
    field = evidence.config.at(evidence.place(said))
    name, value = (field.name if field else "the field"), said["value"].strip()
    bare = value.strip("\"'")
    if value == "(":
        todo = f"Write a list in square brackets, e.g. {name}: [ 4 ]."
    elif field and config_schema.is_list(field.path) and not bare.lstrip("-").isdigit():
        return Advice(
            f"{name} is a list of whole numbers, and {value} is no number.",
            evidence.at_position(said),
            f"Write the numbers in square brackets, e.g. {name}: [ {_whole(bare)} ].",
        )
    elif bare.lstrip("-").isdigit() and bare != value:
        todo = f"Write {name}: {bare}, without quotes."
    else:
        todo = f"Write a whole number, e.g. {name}: {_whole(bare)}."
    return Advice(
        f"{name} is a whole number, and {value} is not.", evidence.at_position(said), todo
    )


def _whole(text: str) -> str:
    try:
        return str(min(int(float(text)), 2**31 - 1))
    except (ValueError, OverflowError):
        return "8"


@TEXT.rule(
    "not-a-boolean",
    '{line:int}:{column:int}: Invalid value for boolean field "{field}". Value: "{value}"',
    '{line:int}:{column:int}: Expected identifier, got: "{value}"',
    "{line:int}:{column:int}: Integer out of range for a boolean ({value:int})",
)
def not_a_boolean(evidence: Evidence, said: Said) -> Advice | None:
    """Write true or false, without quotes."""
    field = evidence.config.at(evidence.place(said))
    if field is None or not isinstance(field.value, Scalar):
        return None  # a quoted name, as in JSON
    name, value = field.name, said["value"]
    yes = value.lower() in ("true", "yes", "on", "1", "t", "y")
    return Advice(
        f"{name} is true or false, and {field.value.raw} is neither.",
        show(field),
        f"Write {name}: {'true' if yes else 'false'}, without quotes.",
    )


@TEXT.rule("field-twice", 'Non-repeated field "{field}" is specified multiple times')
def field_twice(evidence: Evidence, said: Said) -> Advice:
    """Keep one of the two."""
    name = said["field"]
    places = [f for f in evidence.config.walk() if f.name == name and f.path.endswith("]")]
    lines = [str(f.place.line) for f in places]
    return Advice(
        f"The field {name} is given {len(places) or 2} times, and it can be given once.",
        f"{CONFIG}, lines {listed(lines)}, field {name}" if lines else CONFIG,
        "Keep the one that you mean.",
    )


@TEXT.rule(
    "one-of-two",
    'Field "{second}" is specified along with field "{first}", another member of oneof "{group}"',
)
def one_of_two(evidence: Evidence, said: Said) -> Advice:
    """Choose one: a model has one scheduler, one version policy."""
    first, second = said["first"], said["second"]
    places = {
        name: next((f for f in evidence.config.walk() if f.name == name), None)
        for name in (first, second)
    }
    lines = [str(f.place.line) for f in places.values() if f]
    hints = {
        frozenset({"dynamic_batching", "sequence_batching"}): "For a model with state keep "
        "sequence_batching; `oldest { }` inside it batches across sequences. Else keep "
        "dynamic_batching.",
        frozenset({"dynamic_batching", "ensemble_scheduling"}): "Take dynamic_batching out: an "
        "ensemble does not batch, the models inside it do; write it into their configs.",
        frozenset({"sequence_batching", "ensemble_scheduling"}): "Take sequence_batching out; "
        "write it into the config of the model inside the ensemble that keeps the state.",
    }
    return Advice(
        f"{first} and {second} exclude each other.",
        f"{CONFIG}, lines {listed(lines)}, field {second}" if lines else CONFIG,
        hints.get(frozenset({first, second}), f"Keep {first} or {second}, and remove the other."),
    )


@TEXT.rule("unclosed-string", "{line:int}:{column:int}: String literals cannot cross line")
def unclosed_string(evidence: Evidence, said: Said) -> Advice:
    """Put the closing quote at the end of the text."""
    line = int(said["line"])
    for problem in evidence.config.problems:
        if problem.kind == "unclosed" and problem.place.line == line and problem.text[0] in "\"'":
            quote, text = problem.text[0], problem.text[1:].strip()
            return Advice(
                "A text in quotes has no closing quote.",
                evidence.at_position({"line": str(line), "column": str(problem.place.column)}),
                f"Write {quote}{text}{quote}.",
            )
    return Advice("A text in quotes has no closing quote.", f"{CONFIG}, line {line}", "Close it.")


@TEXT.rule("json-config", "1:1: Expected identifier, got: {")
def json_config(evidence: Evidence, said: Said) -> Advice | None:
    """Write `name: value` lines without outer braces; JSON goes into an override at load."""
    text = evidence.config_bytes.decode("utf-8", errors="replace").lstrip()
    if evidence.config_bytes and not text.startswith("{"):
        return None
    return Advice(
        "config.pbtxt is written as JSON (or has braces around it all).",
        f"{CONFIG}, line 1",
        'Write one field per line, names without quotes and no outer braces: backend: "python". '
        "JSON is for server.load(…, config=…).",
    )


TEXT.row(
    "comment-sign",
    "{line:int}:{column:int}: Expected identifier, got: /",
    what="A comment in config.pbtxt begins with #, not with //.",
    where=f"{CONFIG}, line {{line}}",
    todo="Write # in place of //.",
)


@TEXT.rule("missing-colon", '{line:int}:{column:int}: Expected ":", found "{found:rest}')
def missing_colon(evidence: Evidence, said: Said) -> Advice:
    """Write a colon between name and value."""
    field = evidence.config.at(evidence.place(said))
    name = field.name if field else "name"
    raw = field.value.raw if field and isinstance(field.value, Scalar) else "…"
    return Advice(
        "Between a name and its value stands a colon.",
        evidence.at_position(said),
        f"Write {name}: {raw}.",
    )


TEXT.row(
    "trailing-comma",
    '{line:int}:{column:int}: Expected "{", found "]"',
    what="A list ends with a comma.",
    where=f"{CONFIG}, line {{line}}",
    todo="Take the comma before ] out: commas stand between elements.",
)


@TEXT.rule(
    "unclosed-bracket",
    "{line:int}:{column:int}: Expected identifier, got: {found:rest}",
    '{line:int}:{column:int}: Expected ",", found "{found}"',
    '{line:int}:{column:int}: Expected "}", found "{found}"',
    '{line:int}:{column:int}: Expected ">", found "{found}"',
)
def unclosed_bracket(evidence: Evidence, said: Said) -> Advice | None:
    """Close the bracket or brace that the message names."""
    closes = {"{": "}", "[": "]", "<": ">"}
    said_at = evidence.place(said)
    for problem in reversed(evidence.config.problems):
        if problem.kind == "unclosed" and problem.text in closes and problem.place < said_at:
            field = evidence.config.at(problem.place)
            name = f" of {field.name}" if field else ""
            line = problem.place.line
            return Advice(
                f"The {problem.text}{name} on line {line} is never closed.",
                f"{CONFIG}, line {line}" + (f", field {field.path}" if field else ""),
                f"Write {closes[problem.text]} "
                f"{_before(evidence.config.lines, problem.found or said_at)}.",
            )
    return None


def _before(lines: list[str], place: Place) -> str:
    """How to say where to write what is missing before a place: `before line 8`."""
    rest = [lines[place.line - 1][place.column - 1 :], *lines[place.line :]]
    if not any(line.strip() for line in rest):
        return "at the end of the file"
    if not lines[place.line - 1][: place.column - 1].strip():
        return f"before line {place.line}"
    return f"before column {place.column} of line {place.line}"


TEXT.row(
    "missing-comma",
    '{line:int}:{column:int}: Expected ",", found "{found:rest}"',
    what="Between two elements of a list stands a comma.",
    where=at_position,
    todo="Write a comma between them: [ { … }, { … } ].",
)


@TEXT.rule("section-expected", '{line:int}:{column:int}: Expected "{", found "{found:rest}"')
def section_expected(evidence: Evidence, said: Said) -> Advice:
    """Write a section in braces, e.g. `value { string_value: "x" }`."""
    place, found = evidence.place(said), said["found"].rstrip('".')
    lines = evidence.config.lines
    here = [line[: place.column - 1] for line in lines[place.line - 1 : place.line]]
    before = [*lines[: place.line - 1], *here]
    bare = re.search(r"(\w+)\s*:?\s*\[\s*\Z", "\n".join(before))
    if bare and re.fullmatch(r"[A-Za-z_]\w*", found):
        return Advice(
            f"The elements of the list {bare[1]} stand without braces.",
            evidence.at_position(said),
            f"Write each in braces, and close the list: {bare[1]} [ {{ {found}: … }} ].",
        )
    field = evidence.config.at(evidence.place(said))
    name, path = (field.name, field.path) if field else ("the field", "")
    raw = field.value.raw if field and isinstance(field.value, Scalar) else '"…"'
    text = field.value.text if field and isinstance(field.value, Scalar) else "…"
    inner = config_schema.section_names(path)
    if name == "version_policy":
        return _version_policy(evidence, said, raw)
    if text in inner:
        return _bare_section(evidence, said, name, text)
    if "string_value" in inner:
        written = f'{name} {{ string_value: "{text}" }}'
    elif inner:
        written = f"{name} {{ {inner[0]}: … }} (it may hold {', '.join(inner)})"
    else:
        written = f"{name} {{ … }}"
    return Advice(
        f"{name} is a section in braces, and {raw} is a plain value.",
        evidence.at_position(said),
        f"Write {written}.",
    )


def _version_policy(evidence: Evidence, said: Said, raw: str) -> Advice:
    fields = evidence.config.root.all("version_policy")
    values = [f.value.text for f in fields if isinstance(f.value, Scalar)]
    numbers = [value for value in values if value.isdigit()] or ["2", "4"]
    given = f"[ {', '.join(values)} ]" if fields and fields[0].listed else raw
    return Advice(
        f"version_policy is a section in braces, and {given} is a plain value.",
        evidence.at_position(said),
        "Write one of version_policy { specific { versions: "
        f"[ {', '.join(numbers)} ] }} }} (these versions), version_policy {{ latest {{ "
        f"num_versions: {len(numbers)} }} }} (the newest ones) or version_policy {{ all {{ }} }}.",
    )


def _bare_section(evidence: Evidence, said: Said, name: str, inner: str) -> Advice:
    """The advice for a section whose first field has no braces around it."""
    line = "".join(evidence.config.lines[int(said["line"]) - 1 : int(said["line"])])
    found = re.search(rf"\b{inner}\s*:\s*(\"[^\"]*\"|'[^']*'|[\w.+-]+)", line)
    return Advice(
        f"{name} is a section, and its braces are missing.",
        evidence.at_position(said),
        f"Write {name} {{ {inner}: {found[1] if found else '…'} }}.",
    )


TEXT.row(
    "not-text-format",
    "Error parsing text-format inference.ModelConfig: {line:int}:{column:int}: {words:text}",
    what="config.pbtxt cannot be read: {words}.",
    where=at_position,
    todo='Each field is written name: value, or name { … } for a section; text in "quotes".',
)


@TEXT.rule("config-unreadable", "failed to read text proto from {path:rest}")
def config_unreadable(evidence: Evidence, said: Said) -> Advice | None:
    """Look at the server's log: it names line and column."""
    if "Error parsing text-format" in evidence.message:
        return None
    return Advice(
        "config.pbtxt cannot be read, and the reason stands in the server's log only.",
        CONFIG,
        "Look for `Error parsing text-format` in the log: it names line and column.",
    )
