"""Look-ups for mistakes in the text of config.pbtxt. config_syntax.toml has the messages."""

from __future__ import annotations

import re

from ..pbtxt import Field, Place, Scalar
from . import config_schema
from .evidence import PLACES, Evidence, short, show
from .rules import Catalogue, Parts, listed

TEXT: Catalogue[Evidence] = Catalogue("config_syntax", PLACES)

#: Characters that word processors and web pages write → the plain character that is meant.
_LOOKALIKES = {
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u2013\u2014\u2212", "-"),
    "\uff1a": ":",
    "\uff0c": ",",
    **dict.fromkeys("\u00a0\u3000", "a plain space"),
    "\u200b": "nothing",
}
#: Fields that Triton never had → the parameter of a backend that is meant.
_PARAMETERS = {
    "signature_def": "TF_SIGNATURE_DEF",
    "tf_signature_def": "TF_SIGNATURE_DEF",
    "graph_tag": "TF_GRAPH_TAG",
    "tf_graph_tag": "TF_GRAPH_TAG",
}
_SCHEDULERS = {
    frozenset({"dynamic_batching", "sequence_batching"}): "batched_sequences",
    frozenset({"dynamic_batching", "ensemble_scheduling"}): "batched_ensemble",
    frozenset({"sequence_batching", "ensemble_scheduling"}): "ensemble_sequences",
}


@TEXT.look_up
def byte_order_mark(evidence: Evidence, parts: Parts) -> Parts | None:
    """Whether the file begins with one; other characters begin with the same byte."""
    marks = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
    return {} if evidence.config_bytes.startswith(marks) else None


@TEXT.look_up
def foreign_character(evidence: Evidence, parts: Parts) -> Parts:
    """The character, and the plain one that is meant."""
    place = evidence.place(parts)
    character = _line(evidence, place.line)[place.column - 1 : place.column]
    name = f"the character {character}" if character.isprintable() else ascii(character)
    return {
        "name": "a no-break space" if character == "\u00a0" else name,
        "plain": _LOOKALIKES.get(character, ""),
        "line": str(place.line),
        "column": str(place.column),
    }


@TEXT.look_up
def missing_brace(evidence: Evidence, parts: Parts) -> Parts | None:
    """The section that is still open where a field of the whole file begins."""
    field = evidence.config.before(evidence.place(parts), parts["field"])
    section = evidence.config.find(field.path.rpartition(".")[0]) if field else None
    unclosed = any(p.kind == "unclosed" and p.text in "{<" for p in evidence.config.problems)
    if field is None or section is None or not unclosed:
        return None
    if parts["field"] not in config_schema.field_names("ModelConfig"):
        return None
    lines = enumerate(evidence.config.lines[: field.place.line - 1], 1)
    return {
        "section": short(section),
        "begins": str(section.place.line),
        "line": str(field.place.line),
        "last": str(max((i for i, text in lines if text.strip()), default=field.place.line)),
        "braces": " ".join("}" * field.path.count(".")),
        "before": _before(evidence.config.lines, field.place),
    }


@TEXT.look_up
def map_entry(evidence: Evidence, parts: Parts) -> Parts:
    """The map, and its entry as it must be written."""
    field = evidence.config.before(evidence.place(parts), parts["field"])
    section = field.path.rpartition(".")[0] if field else ""
    name = section.rpartition(".")[2].partition("[")[0] or "parameters"
    text = _text(field)
    value = f'value: "{text}"' if name.endswith("_map") else f'value {{ string_value: "{text}" }}'
    return {"name": name, "written": value, "place": _place(evidence, parts, field)}


@TEXT.look_up
def list_without_brackets(evidence: Evidence, parts: Parts) -> Parts | None:
    """The values of the list; None where the line has no more than one."""
    line = _line(evidence, int(parts["line"]))
    found = re.search(r"(\w+)\s*:\s*(-?\d+(?:[\s,]+-?\d+)+)", line)
    if found is None:
        return None
    return {"name": found[1], "values": ", ".join(re.findall(r"-?[0-9]+", found[2]))}


@TEXT.look_up
def parameter_as_field(evidence: Evidence, parts: Parts) -> Parts | None:
    """The parameter that is meant; None for another field."""
    key = _PARAMETERS.get(parts["field"].lower())
    field = evidence.config.before(evidence.place(parts), parts["field"])
    place = _place(evidence, parts, field)
    return {"key": key, "text": _text(field), "place": place} if key else None


@TEXT.look_up
def misspelt_field(evidence: Evidence, parts: Parts) -> Parts:
    """What the schema has: the field that is meant, or the sections that have this one."""
    name, kind = parts["field"], parts["type"]
    field = evidence.config.before(evidence.place(parts), name)
    section = field.path.rpartition(".")[0] if field else ""
    owners = config_schema.owners(name)
    above = any(owner.startswith(f"{section}.") for owner in owners if section)
    newer = not section and name in config_schema.field_names("ModelConfig")
    belongs = owners and (above or not config_schema.is_habit(name))
    return {
        "inside": f"The section {section}" if section else "config.pbtxt",
        "place": _place(evidence, parts, field),
        "newer": "yes" if newer else "",
        "owners": listed(owners[:4], "or") if belongs else "",
        "meant": config_schema.field_near(kind, name),
        "known": ", ".join(config_schema.field_names(kind)),
    }


@TEXT.look_up
def enum_value(evidence: Evidence, parts: Parts) -> Parts:
    """The values that the field may have, and the one that is meant."""
    place, value = evidence.place(parts), parts["value"]
    named = parts.get("field")
    field = evidence.config.before(place, named, value) if named else evidence.config.at(place)
    path = field.path if field else ""
    return {
        "name": field.name if field else "this field",
        "place": _place(evidence, parts, field),
        "meant": config_schema.enum_near(path, value),
        "values": ", ".join(config_schema.enum_values(path)),
    }


@TEXT.look_up
def named_field(evidence: Evidence, parts: Parts) -> Parts:
    """The field at the place that the message names, and its value as it is written."""
    field = evidence.config.at(evidence.place(parts))
    return {"name": field.name if field else "name", "raw": _raw(field) or "…"}


@TEXT.look_up
def unquoted_string(evidence: Evidence, parts: Parts) -> Parts:
    """The whole text: the server names its first word, and a file's name goes on after it."""
    place = evidence.place(parts)
    field = evidence.config.at(place)
    whole = re.match(r"[^\s,;{}\[\]<>#\"']+", _line(evidence, place.line)[place.column - 1 :])
    value = whole[0] if whole else parts["value"].strip()
    return {"name": field.name if field else "the field", "whole": value}


@TEXT.look_up
def not_an_integer(evidence: Evidence, parts: Parts) -> Parts:
    """The number that is meant, and whether the field is a list."""
    field, value = evidence.config.at(evidence.place(parts)), parts["value"].strip()
    bare = value.strip("\"'")
    number = bare.lstrip("-").isdigit()
    a_list = field is not None and config_schema.is_list(field.path) and not number
    try:
        whole = str(min(int(float(bare)), 2**31 - 1))
    except (ValueError, OverflowError):
        whole = "8"
    return {
        "name": field.name if field else "the field",
        "value": value,
        "round": "yes" if value == "(" else "",
        "element": value if a_list and value != "(" else "",
        "bare": bare if number and bare != value else "",
        "whole": whole,
    }


@TEXT.look_up
def not_a_boolean(evidence: Evidence, parts: Parts) -> Parts | None:
    """The value that is meant; None for a name in quotes, as in JSON."""
    field = evidence.config.at(evidence.place(parts))
    if field is None or not isinstance(field.value, Scalar):
        return None
    yes = parts["value"].lower() in ("true", "yes", "on", "1", "t", "y")
    right = "true" if yes else "false"
    return {"name": field.name, "raw": field.value.raw, "right": right, "place": show(field)}


@TEXT.look_up
def field_twice(evidence: Evidence, parts: Parts) -> Parts:
    """The lines of the field."""
    fields = [f for f in evidence.config.walk() if f.name == parts["field"] and f.path[-1] == "]"]
    lines = [str(field.place.line) for field in fields]
    return {"count": str(len(lines) or 2), "lines": listed(lines) if lines else ""}


@TEXT.look_up
def one_of_two(evidence: Evidence, parts: Parts) -> Parts:
    """The lines of the two schedulers, and which two they are."""
    names = (parts["first"], parts["second"])
    fields = [next((f for f in evidence.config.walk() if f.name == n), None) for n in names]
    lines = [str(field.place.line) for field in fields if field]
    which = _SCHEDULERS.get(frozenset(names), "others")
    return {"lines": listed(lines) if lines else "", which: "yes"}


@TEXT.look_up
def unclosed_string(evidence: Evidence, parts: Parts) -> Parts:
    """The text with its closing quote."""
    for problem in evidence.config.problems:
        here = problem.kind == "unclosed" and str(problem.place.line) == parts["line"]
        if here and problem.text[0] in "\"'":
            quote, text = problem.text[0], problem.text[1:].strip()
            at = {"line": parts["line"], "column": str(problem.place.column)}
            return {"place": evidence.at_position(at), "whole": f"{quote}{text}{quote}"}
    return {"place": f"config.pbtxt, line {parts['line']}", "whole": ""}


@TEXT.look_up
def json_config(evidence: Evidence, parts: Parts) -> Parts | None:
    """Whether the file begins with a brace, or cannot be read."""
    text = evidence.config_bytes.decode("utf-8", errors="replace").lstrip()
    return None if text and not text.startswith("{") else {}


@TEXT.look_up
def unclosed_bracket(evidence: Evidence, parts: Parts) -> Parts | None:
    """The last bracket before the place of the message that is never closed."""
    closes = {"{": "}", "[": "]", "<": ">"}
    here = evidence.place(parts)
    for problem in reversed(evidence.config.problems):
        if problem.kind == "unclosed" and problem.text in closes and problem.place < here:
            field = evidence.config.at(problem.place)
            return {
                "bracket": problem.text,
                "closing": closes[problem.text],
                "name": field.name if field else "",
                "path": field.path if field else "",
                "begins": str(problem.place.line),
                "before": _before(evidence.config.lines, problem.found or here),
            }
    return None


@TEXT.look_up
def braces_missing(evidence: Evidence, parts: Parts) -> Parts | None:
    """The section whose name stands alone in its line; the server complains of the next line."""
    place = evidence.place(parts)
    before = "\n".join(evidence.config.lines[: place.line - 1])
    before += "\n" + _line(evidence, place.line)[: place.column - 1]
    before = re.sub(r"#[^\n]*", "", before)
    found = re.search(r"(\w+)[ \t]*:?[ \t]*\n\s*\Z", before)
    names = config_schema.section_names(found[1]) if found else []
    if not found or not names:
        return None
    on = before[: found.start()].count("\n") + 1
    return {"name": found[1], "on": str(on), "known": ", ".join(names)}


@TEXT.look_up
def section_expected(evidence: Evidence, parts: Parts) -> Parts:
    """The section that is written as a plain value, and how it may be written."""
    place, found = evidence.place(parts), parts["found"].rstrip('".')
    lines = evidence.config.lines
    before = [*lines[: place.line - 1], _line(evidence, place.line)[: place.column - 1]]
    bare = re.search(r"(\w+)\s*:?\s*\[\s*\Z", "\n".join(before))
    if bare and re.fullmatch(r"[A-Za-z_]\w*", found):
        return {"list": bare[1], "first": found}
    field = evidence.config.at(place)
    name, inner = (field.name, config_schema.section_names(field.path)) if field else ("", [])
    text, raw = _text(field), _raw(field) or '"…"'
    if name == "version_policy":
        fields = evidence.config.root.all(name)
        values = [f.value.text for f in fields if isinstance(f.value, Scalar)]
        numbers = [value for value in values if value.isdigit()] or ["2", "4"]
        given = f"[ {', '.join(values)} ]" if fields and fields[0].listed else raw
        return {"name": name, "raw": given, "versions": ", ".join(numbers),
                "count": str(len(numbers))}  # fmt: skip
    value = ""
    if text in inner:  # the section's first field, without braces around it
        written = re.search(
            rf"\b{text}\s*:\s*(\"[^\"]*\"|'[^']*'|[\w.+-]+)", _line(evidence, place.line)
        )
        value = written[1] if written else "…"
    return {
        "name": name or "the field",
        "raw": raw,
        "inner": text if value else "",
        "value": value,
        "string": text if "string_value" in inner else "",
        "field": inner[0] if inner else "",
        "known": ", ".join(inner),
    }


def _line(evidence: Evidence, line: int) -> str:
    """A line of the config; "" where it has no such line."""
    return "".join(evidence.config.lines[line - 1 : line])


def _place(evidence: Evidence, parts: Parts, field: Field | None) -> str:
    return show(field) if field else evidence.at_position(parts)


def _text(field: Field | None) -> str:
    return field.value.text if field and isinstance(field.value, Scalar) else "…"


def _raw(field: Field | None) -> str:
    return field.value.raw if field and isinstance(field.value, Scalar) else ""


def _before(lines: list[str], place: Place) -> str:
    """The place to write something that is missing before a line, as text: `before line 8`."""
    rest = [lines[place.line - 1][place.column - 1 :], *lines[place.line :]]
    if not any(line.strip() for line in rest):
        return "at the end of the file"
    if not lines[place.line - 1][: place.column - 1].strip():
        return f"before line {place.line}"
    return f"before column {place.column} of line {place.line}"
