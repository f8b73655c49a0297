"""JSON, notebooks, times and names, as students send them: 2,000 of each.

Any input is taken or refused, and a taken input is within the limits.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import json
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from grader.classroom import (
    arrivals,
    intake,
    names,
    records,
    spreadsheet,
    unpack_entry,
    unpack_submission,
)
from grader.classroom.classroom import Classroom
from tests.attacks.fuzz import chances, changed, fresh, in_memory, many, text
from tests.grader.a_class import course
from workbook.assignments import Assignment, cells
from workbook.common import bounded_json
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.filterwarnings("ignore")  # zipfile and nbformat warn of mistakes


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder for small files."""
    with in_memory() as folder:
        yield folder


# JSON


def content(chance: random.Random, levels: int = 6) -> Any:
    """A random JSON value."""
    kind = chance.randrange(8 if levels else 5)
    if kind < 5:
        simple = (None, True, chance.getrandbits(70), chance.random() * 1e300, text(chance))
        return simple[kind]
    inside = [content(chance, levels - 1) for _ in range(chance.randrange(4))]
    return inside if kind < 7 else {text(chance, 3): value for value in inside}


def values(content: Any) -> int:
    """How many values there are."""
    if isinstance(content, dict | list):
        inner = content.values() if isinstance(content, dict) else content
        return 1 + sum(values(value) for value in inner)
    return 1


def depth(content: Any) -> int:
    """How deep brackets are nested."""
    if isinstance(content, dict | list):
        inner = content.values() if isinstance(content, dict) else content
        return 1 + max(map(depth, inner), default=0)
    return 0


@many
@given(chances)
def test_json_within_the_limits_is_read_and_beyond_them_is_not(chance: random.Random) -> None:
    expected = content(chance)
    packed = json.dumps(
        expected, indent=chance.choice([None, 1]), ensure_ascii=chance.random() < 0.5
    ).encode()
    most, deepest = chance.randrange(1, 60), chance.randrange(1, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_json, "MOST_TOKENS", most)
        patch.setattr(bounded_json, "MOST_DEPTH", deepest)
        try:
            assert bounded_json.loads(packed) == expected
        except bounded_json.TooLarge:
            # A value has at most a key, two brackets and a comma; a bracket may be the last token.
            assert depth(expected) > deepest or 4 * values(expected) > most
        else:
            assert depth(expected) <= deepest
            assert values(expected) <= most + 1


PIECES = [b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b'\\"', b"1", b"-", b"e9", b"\xff", b" "]


@many
@given(chances)
def test_what_is_not_json_is_a_value_error(chance: random.Random) -> None:
    pieces = chance.choices(PIECES, k=chance.randrange(20))
    packed = b"".join(pieces) if chance.random() < 0.5 else bytes(changed(chance, b'{"a":[1,"b"]}'))
    with contextlib.suppress(ValueError):
        assert repr(bounded_json.loads(packed)) == repr(json.loads(packed.decode()))


# Notebooks

ANY: list[Any] = [
    *(None, 0, -1, 4, 5, 1e308, True, "", "code", "x", [], [""], {}, {"a": []}, "\ud800", [[[]]]),
    *({"text/plain": 3}, {"image/png": "x"}, "a" * 70, [None, {"cells": 1}]),
]
NAMES = ["a9-number", "a9-first", "a9-why", "a9-intro"]


def one(chance: random.Random, *known: Any) -> Any:
    """One of the known values; sometimes something else."""
    return chance.choice(known) if chance.random() < 0.85 else chance.choice(ANY)


def some(chance: random.Random, **fields: Any) -> dict[str, Any]:
    """Most of these fields."""
    return {name: value for name, value in fields.items() if chance.random() < 0.9}


def cell(chance: random.Random) -> Any:
    tag = some(
        chance,
        grade_id=one(chance, *NAMES),
        points=one(chance, 10, 5),
        grade=one(chance, True),
        solution=one(chance, False),
        locked=one(chance, True),
        schema_version=one(chance, 3),
    )
    output = some(
        chance,
        output_type=one(chance, "stream", "error", "display_data", "execute_result"),
        name=one(chance, "stdout"),
        text=one(chance, "x", ["x"]),
        data=one(chance, {}, {"text/plain": "x"}),
        metadata=one(chance, {}),
    )
    return some(
        chance,
        cell_type=one(chance, "code", "markdown", "raw"),
        source=one(chance, "x = 1", ["x\n", "y"]),
        metadata=one(chance, {}, {"nbgrader": tag}, {"nbgrader": tag, "tags": chance.choice(ANY)}),
        id=one(chance, "a", "b", chance.choice(NAMES)),
        outputs=one(chance, [], [output]),
        execution_count=one(chance, None, 1),
        attachments=one(chance, {}, {"a.png": {"image/png": "x"}}),
    )


@pytest.fixture
def quiet() -> Iterator[None]:
    """nbformat logs what is wrong, and quotes it; pytest-xdist cannot send halves of surrogates."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return cells.read(course(tmp_path_factory.mktemp("course")).release)


@many
@given(chances)
@pytest.mark.usefixtures("quiet")
def test_a_notebook_is_taken_or_refused(
    place: Path, release: dict[str, Any], chance: random.Random
) -> None:
    """What is read can be compared with the release, and restored."""
    inside = [cell(chance) for _ in range(chance.randrange(4))]
    notebook = some(
        chance,
        cells=one(chance, inside, [*release["cells"], *inside], [*inside, *release["cells"]]),
        metadata=one(chance, {}, release["metadata"]),
        nbformat=one(chance, 4, 4, 4, 3, 2, 1),
        nbformat_minor=one(chance, 5, 5, 4, 0, 99),
        worksheets=one(chance, [], [{"cells": inside}]),
    )
    path = place / "a9.ipynb"
    path.write_text(json.dumps(notebook))
    with contextlib.suppress(unpack_submission.Refused):
        unpack_entry._accept(path)
    with contextlib.suppress(WorkbookError):
        theirs = cells.read(path)
        cells.compare(theirs, release)
        cells.restore(theirs, release)


# Times

ZONES = ["", " UTC", "Z", " +1400", "-1400", "+01:30", " Europe/Berlin", " CET", " ../x", " +2500"]
YEARS = [1, 1969, 1999, 2000, 2026, 2099, 2100, 9999]


@many
@given(chances)
def test_a_time_is_within_reason_and_nbgraders(chance: random.Random) -> None:
    from nbgrader.utils import parse_utc

    moment = datetime.datetime(chance.choice(YEARS), 1, 1) + datetime.timedelta(
        seconds=chance.randrange(360 * 86_400),
        microseconds=chance.choice([0, chance.randrange(10**6)]),
    )
    said = f"{moment}{chance.choice(ZONES)}"
    if chance.random() < 0.3:
        said = changed(chance, said.encode()).decode(errors="replace")
    time = intake.parse_time(said)
    if time is not None:
        assert 1999 <= time.year <= 2100
        written = f"{time:%Y-%m-%d %H:%M:%S.%f} UTC"
        assert parse_utc(written) == time.replace(tzinfo=None)
        assert intake.parse_time(written) in (time, None)  # None: just outside of the century


# Names

ENDS = [".zip", "_{}_assignsubmission_file_a.zip", "_LATE_{}_7_a9.zip", "_{}_1_a.zip", ".ZIP", ""]
ALIKE = [
    "anna",
    "Anna",
    "ANNA.zip",
    "a b",
    "a_b",
    "a  b",
    "\uff41nna",
    "an\u200dna",
    "a" * 61,
    "A" * 62,
]


def entry(chance: random.Random) -> Path:
    """The name of an entry of the inbox."""
    if chance.random() < 0.3:
        return Path(chance.choice(ALIKE))
    if chance.random() < 0.2:
        raw = chance.randbytes(chance.randrange(1, 12))
    else:
        raw = (text(chance, 8) + chance.choice(ENDS).format(chance.randrange(3))).encode()
    return Path(os.fsdecode(raw.translate(None, b"/\0") or b"x"))


@many
@given(chances)
def test_every_entry_has_an_id_for_good(place: Path, chance: random.Random) -> None:
    """Safe as a folder, a disk's own, and the same in every later run, whoever comes."""
    toy = Assignment(name="a9__toy", home=place)
    with fresh(place) as home:
        room = Classroom(home)

        def ids(entries: list[Path]) -> dict[str, str]:
            come = [arrivals.read_entry_name(path) for path in entries]
            found = records.ids(room, toy, [arrival.key for arrival in come])
            for arrival in come:
                assert names.shown(arrival.problem) == arrival.problem
                id = found[arrival.key]
                record = intake.Record(
                    student=id,
                    source=arrival.source,
                    digest="",
                    system=arrival.system,
                    number=arrival.number,
                    name=arrival.name,
                )
                assert record.key == arrival.key
                path = records.path(room, toy.name, id)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(record.model_dump_json())
                assert intake.record(room, toy.name, id) == record
            return found

        first = [entry(chance) for _ in range(chance.randrange(1, 4))]
        before = ids(first)
        after = ids([*first, *(entry(chance) for _ in range(chance.randrange(4)))])
        assert before.items() <= after.items()
        assert len({names.fold(id) for id in after.values()}) == len(after)
        for id in after.values():
            assert Path(id).name == id
            assert id[0] not in ".-_"
            assert names.shown(id) == id


# Tables


@many
@given(chances)
def test_a_cell_of_a_table_is_text(chance: random.Random) -> None:
    cell = spreadsheet.safe(text(chance))
    assert isinstance(cell, str)
    stream = io.StringIO()
    csv.writer(stream).writerow([cell])
    assert next(csv.reader(io.StringIO(stream.getvalue())), [""]) == [cell]
    assert names.shown(cell) == cell
    assert not set("\r\n\t") & set(cell)
    begin = cell.strip()[:1]
    assert begin not in ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
