"""Values that a notebook reports to its checks: none ends the judge, and none is misread."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.vocabulary import reported, values
from grader.vocabulary.failure import Failure
from workbook.common.errors import WorkbookError


def written(home: Path, value: object, data: bytes = b"", **more: object) -> Path:
    text = json.dumps({"check": "a9.first", "values": {"x": value}, **more})
    (home / "a9.first.json").write_text(text)
    (home / "a9.first.bin").write_bytes(data)
    return home


def array(dtype: str, *shape: object) -> dict[str, object]:
    return {"$array": {"dtype": dtype, "shape": list(shape)}}


#: Invalid arrays. numpy would accept some of them.
REFUSED = {
    "objects": (array("object", 1), bytes(8)),
    "another order of bytes": (array(">f8", 1), bytes(8)),
    "a wider type": (array("float128", 1), bytes(16)),
    "a complex type": (array("complex128", 1), bytes(16)),
    "text": (array("<U4", 1), bytes(16)),
    "fields": (array("f8,f8", 1), bytes(16)),
    "a size below 0": (array("int8", -1, -1), bytes(1)),
    "a size that is a text": (array("int8", "1"), bytes(1)),
    "a size that is true": (array("int8", True), bytes(1)),
    "a fraction": (array("int8", 1.0), bytes(1)),
    "33 dimensions": (array("int8", *[1] * 33), bytes(1)),
    "more than there is": (array("int8", 2), bytes(1)),
    "less than there is": (array("int8", 1), bytes(2)),
    "sizes whose product turns round": (array("int64", 1 << 32, 1 << 32), bytes(8)),
    "one more word": ({"$array": {"dtype": "int8", "shape": [1], "order": "F"}}, bytes(1)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_array_is_what_it_says(tmp_path: Path, what: str) -> None:
    value, data = REFUSED[what]
    with pytest.raises(WorkbookError, match="cannot be read"):
        reported.read("a9.first", written(tmp_path, value, data))


@pytest.mark.parametrize(
    "text",
    [
        '{"check": "a9.second", "values": {}}',  # the file of another check
        '{"check": "a9.first", "values": [], "version": 2}',
        '{"check": "a9.first", "values": {}, "version": 3}',
        '{"check": "a9.first", "values": {}, "credit": 1}',
        '{"check": "a9.first", "values": {"x": ' + "[" * 3_000 + "]" * 3_000 + "}}",
        '{"check": "a9.first", "values": {"x": ' + "9" * 5_000 + "}}",
        '{"check": "a9.first", "values": {"x": "\\ud800"}}',
        '\ufeff{"check": "a9.first", "values": {}}',
    ],
    ids=range(8),
)
def test_a_file_of_another_form_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "a9.first.json").write_text(text)
    with pytest.raises(WorkbookError, match="cannot be read"):
        reported.read("a9.first", tmp_path)


@pytest.mark.parametrize("name", ["a9.first.json", "a9.first.bin"])
def test_a_link_is_not_followed(tmp_path: Path, name: str) -> None:
    home = written(tmp_path, array("int8", 9), bytes(9))
    kept = tmp_path / "elsewhere"
    (home / name).rename(kept)
    (home / name).symlink_to(kept)
    if name.endswith("json"):
        assert reported.read("a9.first", home) is None
    else:
        with pytest.raises(WorkbookError, match="cannot be read"):
            reported.read("a9.first", home)


def test_a_forged_result_is_no_mark(tmp_path: Path) -> None:
    """A credit outside of 0 to 1, or a credit that is no number, is not read."""
    for credit in (1e9, -1, math.inf, math.nan, "1", True):
        result = {"id": "a9.first", "sentence": "", "status": "passed", "credit": credit}
        home = written(tmp_path, 1, result=result)
        try:
            found = reported.read("a9.first", home)
        except WorkbookError:
            continue
        assert found is not None
        assert found.result is not None
        assert 0 <= found.result.credit <= 1


ODD: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": -math.inf,
    "an int beyond floats": 10**400,
    "nothing": None,
    "true": True,
    "true in an array": np.array(True),
    "an empty array": np.zeros((0, 1 << 40)),
    "two": [0.5, 0.5],
    "a ragged list": [[1], [1, 2]],
    "a dict": {"0": 0.5},
    "a list of dicts": [{}],
    "a text": "half",
    "bytes": b"\xff",
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_number_is_no_threshold(what: str) -> None:
    """NaN, for example, is neither above nor below anything: no comparison could refuse it."""
    for read in (
        lambda value: values.number("x", value),
        lambda value: values.whole("x", value, least=0),
        lambda value: values.choice("x", value, (0.25, 0.5, 0.75), of="the thresholds"),
    ):
        with pytest.raises(Failure):
            read(ODD[what])


@pytest.mark.parametrize("value", [-0.0, 5e-324, np.float16(0), [[0]], np.zeros((1, 1, 1))])
def test_a_small_number_is_that_number(value: Any) -> None:
    assert values.number("x", value) == float(np.asarray(value).reshape(-1)[0])
