"""The parser of config.pbtxt against protobuf's own, and against text that is no config at all."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from workbook.server.pbtxt import Document, Field, Message, Place, Scalar, parse

CONFIG = """\
# an example
backend: "py" 'thon'  # in two pieces
max_batch_size: 8
input [
  { name: "a" data_type: TYPE_FP32 dims: [ 2, -1 ] },
  < name: "b\\n\\"c\\" \\303\\251" data_type: TYPE_STRING dims: 1 dims: 3; >
]
output { name: "y", data_type: TYPE_FP32, dims: [] }
parameters { key: "k" value: { string_value: "v" } }
parameters: { key: "l" value { string_value: "# no comment {" } }
"""


def described(document: Document) -> dict[str, tuple[int, int, str]]:
    return {
        field.path: (
            field.place.line,
            field.place.column,
            field.value.text if isinstance(field.value, Scalar) else "",
        )
        for field in document.walk()
    }


def test_everything_has_its_place() -> None:
    document = parse(CONFIG)
    assert document.problems == []
    assert described(document) == {
        "backend": (2, 1, "python"),
        "max_batch_size": (3, 1, "8"),
        "input[0]": (5, 3, ""),
        "input[0].name": (5, 5, "a"),
        "input[0].data_type": (5, 15, "TYPE_FP32"),
        "input[0].dims[0]": (5, 44, "2"),
        "input[0].dims[1]": (5, 47, "-1"),
        "input[1]": (6, 3, ""),
        "input[1].name": (6, 5, 'b\n"c" é'),
        "input[1].data_type": (6, 31, "TYPE_STRING"),
        "input[1].dims[0]": (6, 54, "1"),
        "input[1].dims[1]": (6, 62, "3"),
        "output": (8, 1, ""),
        "output.name": (8, 10, "y"),
        "output.data_type": (8, 21, "TYPE_FP32"),
        "parameters[0]": (9, 1, ""),
        "parameters[0].key": (9, 14, "k"),
        "parameters[0].value": (9, 23, ""),
        "parameters[0].value.string_value": (9, 32, "v"),
        "parameters[1]": (10, 1, ""),
        "parameters[1].key": (10, 15, "l"),
        "parameters[1].value": (10, 24, ""),
        "parameters[1].value.string_value": (10, 32, "# no comment {"),
    }


def test_finding() -> None:
    document = parse(CONFIG)
    field = document.find("input.name")
    assert field is not None
    assert field.path == "input[0].name"
    assert document.find("input[1].dims[1]") is not None
    assert document.find("input[2]") is None
    at = document.at(Place(5, 20))
    assert at is not None
    assert at.path == "input[0].data_type"
    before = document.before(Place(6, 99), "name", '"a"')
    assert before is not None
    assert before.path == "input[0].name"


@pytest.mark.parametrize(
    ("text", "kind", "place", "still"),
    [
        ('input [{ name: "x" dims: [4] ]\nmax_batch_size: 3', "unclosed", Place(1, 8), "input[0]"),
        ('input [{ name: "x" }\noutput [{ name: "y" }]', "unclosed", Place(1, 7), "output[0].name"),
        ('backend: "python\nmax_batch_size: 3', "unclosed", Place(1, 10), "max_batch_size"),
        ('name: "a\\"\nbackend: "b"', "unclosed", Place(1, 7), "backend"),
        ('backend = "python"', "no-colon", Place(1, 9), "backend"),
        ('backend "python"', "no-colon", Place(1, 1), "backend"),
        ('}\nbackend: "python"', "stray", Place(1, 1), "backend"),
        ("// note\nbackend: 3", "stray", Place(1, 1), "backend"),
        ("max_batch_size:\n}", "no-value", Place(1, 1), "max_batch_size"),
        ("\ufeffbackend: 3", "stray", Place(1, 1), "backend"),
    ],
)
def test_broken_files_are_read_on(text: str, kind: str, place: Place, still: str) -> None:
    document = parse(text)
    assert (document.problems[0].kind, document.problems[0].place) == (kind, place)
    assert document.find(still) is not None


def test_the_server_counts_bytes_and_tabs() -> None:
    document = parse('\té: "x" y: 1')  # tab to 8, é is 2 bytes: y stands in its column 17
    assert document.place_of(1, 17) == Place(1, 9)


PIECES = st.sampled_from(
    [
        *"{}<>[]:,;-='\"\\#\n\t \r€é\x00\ufeff",
        *(
            "name",
            "dims",
            "input",
            "8",
            "-1",
            "1e-3",
            "TYPE_FP32",
            '"x"',
            "'y'",
            "[{",
            "}]",
            "\\x4",
        ),
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map(" ".join)))
@settings(max_examples=400)
def test_any_text_is_read_and_positions_are_right(text: str) -> None:
    document = parse(text)
    assert document.lines == text.split("\n")
    paths = [field.path for field in document.walk()]
    assert len(paths) == len(set(paths))
    for field in document.walk():
        if not field.listed:
            assert written_at(document, field.place).startswith(field.name)
        if isinstance(field.value, Scalar):
            first = field.value.raw[:1]
            assert written_at(document, field.value.place).startswith(first)
            assert (
                field.place == field.value.place
                if field.listed
                else field.place < field.value.place
            )
        elif isinstance(field.value, Message):
            assert written_at(document, field.value.place)[0] in "{<"
        found = document.find(field.path)
        assert found is not None
        assert found.path == field.path
    for problem in document.problems:
        assert 1 <= problem.place.line <= len(document.lines)
        assert problem.place.column <= len(document.lines[problem.place.line - 1]) + 1


@given(st.sampled_from("{<["), st.integers(1, 5000))
@settings(max_examples=20)
def test_depth_has_an_end(bracket: str, depth: int) -> None:
    document = parse(f"a {bracket}" * depth)
    assert document.problems


def written_at(document: Document, place: Place) -> str:
    return document.lines[place.line - 1][place.column - 1 :]


# -- the round trip ------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
TENSOR = st.fixed_dictionaries(
    {
        "name": WORDS,
        "data_type": st.sampled_from(["TYPE_FP32", "TYPE_STRING", "TYPE_INT64"]),
        "dims": st.lists(st.integers(-1, 512), max_size=4),
    }
)


@st.composite
def configs(draw: st.DrawFn) -> Any:
    config = model_config_pb2.ModelConfig()
    config.name = draw(WORDS)
    config.max_batch_size = draw(st.integers(-1, 64))
    for entries, tensors in (("input", 3), ("output", 3)):
        for tensor in draw(st.lists(TENSOR, max_size=tensors)):
            entry = getattr(config, entries).add(name=tensor["name"], dims=tensor["dims"])
            entry.data_type = model_config_pb2.DataType.Value(tensor["data_type"])
    for key, value in draw(st.dictionaries(WORDS, WORDS, max_size=3)).items():
        config.parameters[key].string_value = value
    if draw(st.booleans()):
        config.dynamic_batching.preferred_batch_size.extend(draw(st.lists(st.integers(1, 9))))
        config.dynamic_batching.preserve_ordering = draw(st.booleans())
    if draw(st.booleans()):
        step = config.ensemble_scheduling.step.add(model_name=draw(WORDS), model_version=-1)
        step.input_map[draw(WORDS)] = draw(WORDS)
    return config


STYLE = st.fixed_dictionaries(
    {
        "as_one_line": st.booleans(),
        "use_short_repeated_primitives": st.booleans(),
        "pointy_brackets": st.booleans(),
        "as_utf8": st.booleans(),
    }
)


@given(configs(), STYLE)
@settings(max_examples=150)
def test_generated_configs_come_back(config: Any, style: dict[str, bool]) -> None:
    document = parse(text_format.MessageToString(config, **style))
    assert document.problems == []
    assert built(document.root, model_config_pb2.ModelConfig()) == config


def built(message: Message, into: Any) -> Any:
    """Fill a protobuf message from what was read."""
    for field in message.fields:
        descriptor = into.DESCRIPTOR.fields_by_name[field.name]
        options = descriptor.message_type.GetOptions() if descriptor.message_type else None
        if options is not None and options.map_entry:
            assert isinstance(field.value, Message)
            key = field.value.text("key")
            value = next((f for f in field.value.fields if f.name == "value"), None)
            if value is not None and isinstance(value.value, Scalar):
                getattr(into, field.name)[key] = value.value.text
            else:
                assert value is None or isinstance(value.value, Message)
                built(
                    value.value if value else Message([], Place(1, 1)),
                    getattr(into, field.name)[key],
                )
        elif descriptor.message_type:
            assert isinstance(field.value, Message)
            target = getattr(into, field.name)
            if descriptor.is_repeated:
                built(field.value, target.add())
            else:
                target.SetInParent()
                built(field.value, target)
        elif descriptor.is_repeated:
            getattr(into, field.name).append(converted(field, descriptor))
        else:
            setattr(into, field.name, converted(field, descriptor))
    return into


def converted(field: Field, descriptor: Any) -> Any:
    assert isinstance(field.value, Scalar)
    text = field.value.text
    if descriptor.enum_type:
        return descriptor.enum_type.values_by_name[text].number
    if descriptor.type == descriptor.TYPE_STRING:
        assert field.value.quoted
        return text
    return text == "true" if descriptor.type == descriptor.TYPE_BOOL else int(text)
