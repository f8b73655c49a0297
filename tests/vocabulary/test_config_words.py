"""Words about a config, on a real server: right models pass, others fail with the message."""

from __future__ import annotations

import types
from typing import cast

import pytest

from grader.vocabulary import require
from grader.vocabulary.collect import fault
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe
from tests.vocabulary.conftest import Put
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import config

pytestmark = [pytest.mark.server, pytest.mark.quick]

BODY = "answer(y=x)"
WORD = 'parameters { key: "word" value: { string_value: "0.5" } }'


@pytest.fixture(scope="module")
def parsed(probe: Probe) -> dict[str, object]:
    """The config of one model, as the server parsed it."""
    from tests.vocabulary import python_models

    folder = probe.server.repository / "parsed" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(python_models.model(BODY)["1/model.py"])
    (folder.parent / "config.pbtxt").write_text(config("x FP32 2", "y FP32 2", WORD))
    return require.backend(probe, "parsed", "python")


def test_backend(probe: Probe, parsed: dict[str, object]) -> None:
    assert require.backend(probe, "parsed", "fil", "python")["name"] == "parsed"
    with fails_with(
        "parsed is served by the backend 'python'. → This task is about a model with backend: "
        '"fil" or "pytorch". Hand over that model\'s name, or correct its config.pbtxt'
    ):
        require.backend(probe, "parsed", "fil", "pytorch")
    with fails_with("'nothing'"):
        require.backend(probe, "nothing", "fil")


def test_tensors(parsed: dict[str, object]) -> None:
    right = {"inputs": {"x": ("FP32", [2])}, "outputs": {"y": ("FP32", [2])}}
    require.tensors(parsed, **right)
    require.tensors(parsed, inputs={"x": (None, None)})
    heading = "As the server parsed the config of parsed:\n"
    for wrong, words in (
        ({"inputs": {"z": ("FP32", [2])}}, "It has no input 'z', only x."),
        ({"outputs": {"x": ("FP32", [2])}}, "It has no output 'x', only y."),
        ({"inputs": {"x": ("FP32", [3])}}, "x has dims [2], and the task asks for others."),
        ({"outputs": {"y": ("INT32", None)}}, "y is TYPE_FP32, and the task asks for another."),
    ):
        with fails_with(heading + words, "Look."):
            require.tensors(parsed, **wrong, help="Look.")
    with fails_with("It has no output 'y', and no other output."):
        require.tensors({"name": "empty"}, outputs={"y": ("FP32", None)})


def test_the_backend_of_an_ensemble() -> None:
    """An ensemble's config names a platform, and no backend."""
    for parsed, words in (
        ({"platform": "ensemble", "backend": ""}, "two is served by the backend 'ensemble'."),
        ({}, "two is served by no known backend."),
    ):
        probe = types.SimpleNamespace(config=lambda model, parsed=parsed: parsed)
        with fails_with(words):
            require.backend(cast(Probe, probe), "two", "python")


def test_other_fields(parsed: dict[str, object]) -> None:
    require.setting(parsed, "instance_group")
    with fails_with(
        "The config of parsed, as the server parsed it, has no dynamic_batching.", "Add it."
    ):
        require.setting(parsed, "dynamic_batching", help="Add it.")
    require.batch_size(parsed, 8, because="there are 8 rows")
    with fails_with("max_batch_size is 8, and 9 rows are one request."):
        require.batch_size(parsed, 9, because="9 rows are one request")


def test_number_parameter(parsed: dict[str, object]) -> None:
    assert require.number_parameter(parsed, "word", above=0, below=1) == 0.5
    with fails_with("has no parameter nothing with a string_value. → With a point.") as failure:
        require.number_parameter(parsed, "nothing", above=0, below=1, help="With a point.")
    assert "None" not in failure.text
    with fails_with("The word of parsed, as the server parsed it, is '0.5'.", "With a point."):
        require.number_parameter(parsed, "word", above=0, below=0.5, help="With a point.")
    for text in ("nan", "inf", "1e999", "half", ""):
        entry = {"parameters": {"word": {"string_value": text}}}
        with fails_with(f"is {text!r}"):
            require.number_parameter(entry, "word", above=0, below=1)


def test_all_of_says_all_faults(parsed: dict[str, object]) -> None:
    with require.all_of(partial=0.5):
        require.batch_size(parsed, 1, because="there is a row")
    with (
        fails_with(
            "As the server parsed the config of parsed:\nx has dims [2], and the task asks for "
            "others.\nmax_batch_size is 8, and there are 9 rows. → Correct it.",
            credit=0.5,
        ),
        require.all_of(partial=0.5, help="Correct it."),
    ):
        require.tensors(parsed, inputs={"x": ("FP32", [3])}, help="Not this one.")
        require.batch_size(parsed, 9, because="there are 9 rows")
    with fails_with("has no dynamic_batching. → First."), require.all_of():
        require.setting(parsed, "dynamic_batching", help="First.")
        require.setting(parsed, "instance_group", help="Second.")


def test_the_worst_fault_decides_what_the_work_earns(parsed: dict[str, object]) -> None:
    with fails_with("The delay is small.", credit=0.5), require.all_of():
        fault("The delay is small.", credit=0.5)
    with fails_with("has no dynamic_batching", credit=0), require.all_of():
        fault("The delay is small.", credit=0.5)
        require.setting(parsed, "dynamic_batching")
    with fails_with("The delay is small.", credit=0.5):
        fault("The delay is small.", credit=0.5)


def test_all_of_ends_at_another_failure(parsed: dict[str, object]) -> None:
    """Another failure ends the block with its own message; collected faults are dropped."""
    with fails_with("The answer is late."), require.all_of(partial=0.5):
        require.setting(parsed, "dynamic_batching")
        raise Failure("The answer is late.")
    with require.all_of():
        pass
    with fails_with("has no dynamic_batching"):
        require.setting(parsed, "dynamic_batching")


@pytest.mark.parametrize(
    ("policy", "answering"),
    [
        ("version_policy { specific { versions: [ 1, 3 ] } }", None),
        ("version_policy { all { } }", "1, 2, 3"),
        ("version_policy { latest { num_versions: 2 } }", "2, 3"),
        ("", "3"),
    ],
)
def test_versions(policy: str, answering: str | None, put: Put, probe: Probe) -> None:
    name = f"versions_{answering or 'right'}".replace(", ", "")
    put(name, BODY, config("x FP32 2", "y FP32 2", policy))
    for version in ("2", "3"):
        folder = probe.server.repository / name
        (folder / version).mkdir()
        (folder / version / "model.py").write_bytes((folder / "1" / "model.py").read_bytes())
    if answering is None:
        require.versions(probe, name, (3, 1))
        return
    with fails_with(f"Of {name}, these versions answer: {answering}.", "Look at version_policy."):
        require.versions(probe, name, (1, 3), help="Look at version_policy.")
