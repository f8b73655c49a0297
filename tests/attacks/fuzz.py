"""Shared by the fuzz tests: many seeded random runs, and inputs that parsers know.

Inputs are changed copies of real files, names and times, so that changes reach deep into the
parsers. `random`, seeded by Hypothesis, makes them: this is five times as fast as drawing each byte
with Hypothesis. A test that fails prints its seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

#: Each run of the tests has other seeds.
RUNS = 2_000
many = settings(
    max_examples=RUNS, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
chances = st.randoms(use_true_random=True)


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory if the system has one: most of these tests write small files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@contextlib.contextmanager
def fresh(place: Path) -> Iterator[Path]:
    """An empty folder inside another folder; nothing else may appear in the outer one."""
    outer = Path(tempfile.mkdtemp(dir=place))
    inner = outer / "inner"
    inner.mkdir()
    yield inner
    assert [path.name for path in outer.iterdir()] == ["inner"]
    shutil.rmtree(outer)


def plain(folder: Path) -> list[Path]:
    """All paths below a folder; each must be a folder or a regular file."""
    found = list(folder.rglob("*"))
    for path in found:
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return found


#: Bytes with a meaning for parsers: signs, and the largest and smallest numbers.
BYTES = [
    b"\0",
    b"\xff",
    b"\xff" * 2,
    b"\xff" * 4,
    b"\0" * 4,
    b"\x7f\xff\xff\xff",
    b"/",
    b"..",
    b"PK",
]


def changed(chance: random.Random, data: bytes, at: Sequence[int] | None = None) -> bytearray:
    """The data with up to five changes, at these offsets or anywhere, and sometimes cut off."""
    mutable = bytearray(data)
    for _ in range(chance.randrange(6)):
        value = chance.choice(BYTES) if chance.random() < 0.5 else chance.randbytes(2)
        where = chance.choice(at) if at else chance.randrange(len(mutable))
        if where < len(mutable):
            mutable[where : where + len(value)] = value
    if chance.random() < 0.2:
        del mutable[chance.randrange(len(mutable)) :]
    return mutable


#: Characters with a meaning for file systems, spreadsheets, terminals or Unicode.
CHARACTERS = (
    "aAbzZ019 ._-@/\\:'\"=+|!()<>&\0\t\n\r\x1b\x7f\x9b\u0301\u0308\u093e\u200d\u200c\u202e\u2066"
    "\u2028éß\u017f\u0130\u0131Σς\ufb01\uff21\uff1d\uff0b\uff0d\uff20\u1100\u1161\uac00\ufffd\U0001f600\U0010ffff"
)


def text(chance: random.Random, most: int = 12) -> str:
    """A text of up to `most` characters of all kinds, except halves of surrogate pairs."""
    found = []
    for _ in range(chance.randrange(most + 1)):
        point = chance.randrange(0x110000)
        is_known = chance.random() < 0.8 or 0xD800 <= point < 0xE000
        found.append(chance.choice(CHARACTERS) if is_known else chr(point))
    return "".join(found)
