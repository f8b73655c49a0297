"""Downloads of a whole class, and files beside them: 2,000 of each.

Each part of any input belongs to a student or is refused, and nothing is written elsewhere.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given

from grader.classroom import (
    arrivals,
    intake,
    names,
    roster,
    unpack_entry,
    unpack_submission,
    worksheet,
)
from grader.classroom.classroom import Classroom
from tests.attacks.fuzz import chances, changed, fresh, in_memory, many, plain, text
from tests.grader.a_class import answered, course, pack
from workbook.assignments import Assignment

pytestmark = pytest.mark.filterwarnings("ignore")  # zipfile and nbformat warn of mistakes


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder for small files."""
    with in_memory() as folder:
        yield folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Assignment]:
    home = tmp_path_factory.mktemp("course")
    return [course(home, "a8__other"), course(home)]


NAMES = [
    "Anna Okafor_12_assignsubmission_file",
    "Bo Li_13_assignsubmission_onlinetext",
    "okaforanna_4711_90210_a9.zip",
    "libo_LATE_4712_90211_a9.ipynb",
    "anon_x7Fq2_90212_a9.zip",
    "libo_4712_text.html",
    "__MACOSX",
    "submissions",
    "..",
    "",
    "a" * 300,
    "_1_assignsubmission_file",
    "\u0661_\u0662_assignsubmission_file",
]


def name(chance: random.Random) -> str:
    return text(chance, 6) if chance.random() < 0.2 else chance.choice(NAMES)


@many
@given(chances)
def test_a_download_is_listed_or_is_none(place: Path, chance: random.Random) -> None:
    packed = place / "submissions.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for _ in range(chance.randrange(5)):
            parts = [name(chance) for _ in range(chance.randrange(1, 4))]
            path = "/".join(parts) + "/" * (chance.random() < 0.2)
            archive.writestr(path.lstrip("\0") or "x", b"x")  # zipfile cuts a name at a NUL
    if chance.random() < 0.5:
        packed.write_bytes(changed(chance, packed.read_bytes()))
    with contextlib.suppress(unpack_submission.Refused, OSError):
        listed = unpack_entry._read_listing(packed, arrivals.is_named)["parts"]
        json.dumps(listed)
        for part in listed:
            with fresh(place) as to, contextlib.suppress(unpack_submission.Refused):
                unpack_submission.unzip(packed, to, part=part)
                plain(to)
                assert len(list(to.iterdir())) <= 1


@many
@given(chances)
def test_every_name_says_something(chance: random.Random) -> None:
    raw = f"{text(chance, 8)}{chance.choice(['', '_'])}{name(chance)}".replace("/", "")
    found = arrivals.read_entry_name(Path("/nowhere") / (raw.replace("\0", "") or "x"))
    assert names.shown(found.source) == found.source
    assert not set("\n\t") & set(found.source)
    assert found.name
    assert names.shown(found.problem) == found.problem
    with contextlib.suppress(ValueError):
        assert roster.Roster({}).whose(found.name, system=found.system, number=found.number) == []


@many
@given(chances)
def test_a_worksheet_is_read_or_passed_over(place: Path, chance: random.Random) -> None:
    content = (
        "\ufeffIdentifier,Full name,Last modified (submission)\n"
        'Participant 12,Anna,"Friday, 20 November 2026, 11:59 PM"\n'
    ).encode()
    (place / "grades.csv").write_bytes(changed(chance, content))
    found, faults = worksheet.handed_in(place, datetime.UTC)
    assert all(number.isdecimal() and time.year >= 2000 for number, time in found.items())
    assert all(fault.isprintable() for fault in faults.values())


def notebook(chance: random.Random, both: list[Assignment]) -> bytes:
    """A notebook of one of the assignments, sometimes damaged."""
    assignment = chance.choice(both)
    content = chance.choice(
        [answered(assignment, "number = 1"), assignment.release.read_bytes(), b"{}", b"["]
    )
    return bytes(changed(chance, content)) if chance.random() < 0.3 else content


@pytest.mark.parametrize("seed", range(60))
def test_an_inbox_of_anything(tmp_path: Path, both: list[Assignment], seed: int) -> None:
    """Through the limited processes; so these are fewer."""
    chance = random.Random(seed)
    where = Classroom(tmp_path / "work")
    where.make_inbox()
    if seed % 2:
        roster.path(where).write_text("id,name,Canvas ID\nanna,Anna Okafor,4711\nbo,Bo Li,4712\n")
    for _ in range(chance.randrange(1, 5)):
        files = {
            "/".join(
                chance.choice(["a9.ipynb", "a8 (1).ipynb", "deep", "x.ipynb", "m.zip"])
                for _ in range(chance.randrange(1, 4))
            ): notebook(chance, both)
            for _ in range(chance.randrange(4))
        }
        inner = pack(tmp_path / "inner.zip", dict(files)).read_bytes()
        entry = chance.choice([*NAMES[:5], "anna.zip", "bo.ipynb", "submissions.zip", "x-y-1.zip"])
        kind = chance.randrange(4)
        target = where.inbox / entry
        with contextlib.suppress(OSError):
            if kind == 0:
                target.write_bytes(inner)
            elif kind == 1:
                pack(target, {chance.choice(NAMES[:5]): inner, **files})
            elif kind == 2:
                pack(target, {f"{n}/a9.ipynb": notebook(chance, both) for n in NAMES[:2]})
            else:
                target.mkdir()
                (target / chance.choice(NAMES[:3])).symlink_to("/etc")
                (target / "a9.ipynb").write_bytes(notebook(chance, both))

    first = intake.take(where, both, where.inbox)
    again = intake.take(where, both, where.inbox)

    assert first == again
    for folder in where.submitted.glob("*/*"):
        plain(folder)
        assert folder.name in {assignment.name for assignment in both}
        assert (folder / f"{folder.name[:2]}.ipynb").is_file()
        if seed % 2:
            assert folder.parent.name in ("anna", "bo")
    assert not list(where.submitted.glob(".*"))
