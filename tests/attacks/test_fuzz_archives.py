"""Zips, folders and tars, as students and their sandboxes send them: 2,000 of each.

Any input is taken or refused, and only regular files are written, in their place.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given

from grader.classroom import intake, unpack_entry, unpack_submission
from grader.sandbox.unpack import FILES, FOLDERS, unpack
from tests.attacks.fuzz import chances, changed, fresh, in_memory, many, plain, text

pytestmark = pytest.mark.filterwarnings("ignore")  # zipfile and nbformat warn of mistakes


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder for small files."""
    with in_memory() as folder:
        yield folder


# Zips


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, inside in files.items():
            archive.writestr(name, inside)
    return stream.getvalue()


ZIPS = [
    zipped({"a9.ipynb": b"{}", "models/m/1/": b"", "models/m/config.pbtxt": b"name: 'm'" * 30}),
    zipped({"a": b"x" * 300, "é/b": b"y"}, zipfile.ZIP_STORED),
    zipped({"a": b"x"}, zipfile.ZIP_BZIP2),
    zipped({"n" * 300: b"\0" * 100_000}),
    zipped({}),
]


@many
@given(chances)
def test_a_damaged_zip_is_taken_or_refused(place: Path, chance: random.Random) -> None:
    mutable = changed(chance, chance.choice(ZIPS))
    if chance.random() < 0.3 and len(mutable) >= 22:
        # The last record: numbers of entries, size and place of the list.
        back = chance.choice([18, 16, 14, 12, 10, 6])
        mutable[-back : 4 - back] = struct.pack("<I", chance.getrandbits(chance.choice([8, 32])))
    packed = place / "a.zip"
    packed.write_bytes(mutable)
    with fresh(place) as to:
        with contextlib.suppress(unpack_submission.Refused):
            unpack_submission.unzip(packed, to)
        plain(to)


PARTS = ["..", ".", "", "a", "A", "é", "e\u0301", "C:", "\\", "x" * 100, "\x1b", "nul", "__MACOSX"]
MODES = [0, 0o120777, 0o100755, 0o40755, 0o10644, 0o60644, 0o140644]


@many
@given(chances)
def test_no_name_in_a_zip_leads_outside(place: Path, chance: random.Random) -> None:
    packed = place / "a.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for _ in range(chance.randrange(1, 5)):
            parts = (
                chance.choice(PARTS) if chance.random() < 0.8 else text(chance, 4)
                for _ in range(chance.randrange(1, 6))
            )
            info = zipfile.ZipInfo("/".join(parts))
            info.external_attr = chance.choice(MODES) << 16
            archive.writestr(info, b"content")
    with fresh(place) as to:
        with contextlib.suppress(unpack_submission.Refused):
            unpack_submission.unzip(packed, to)
        plain(to)


# Folders

KINDS = ["file", "file", "file", "folder", "link", "pipe", "sparse"]
FILE_NAMES = [
    b"a",
    b"A",
    b"a9.ipynb",
    b"timestamp.txt",
    b".DS_Store",
    b"\xff",
    b"\x1b",
    "é".encode(),
]


@many
@given(chances)
def test_a_folder_is_taken_or_refused(place: Path, chance: random.Random) -> None:
    source = Path(tempfile.mkdtemp(dir=place))
    (source / "sub").mkdir()
    for _ in range(chance.randrange(4)):
        path = source / chance.choice(["", "", "sub"]) / os.fsdecode(chance.choice(FILE_NAMES))
        kind = chance.choice(KINDS)
        with contextlib.suppress(FileExistsError):
            if kind == "folder":
                path.mkdir()
            elif kind == "link":
                path.symlink_to("/etc/passwd")
            elif kind == "pipe":
                os.mkfifo(path)
            else:
                with path.open("xb") as file:
                    file.truncate(1 << 40 if kind == "sparse" else 7)
    with fresh(place) as to:
        try:
            parts = unpack_entry.parts(source)
        except unpack_submission.Refused:
            pass
        else:
            intake._digest(source, parts)
            unpack_submission.copy(source, to)
            assert len(plain(to)) == len(parts)
    shutil.rmtree(source)


# The tar that comes out of a sandbox


def tarred(format: int) -> bytes:
    stream = io.BytesIO()
    long = "long" * (20 if format == tarfile.USTAR_FORMAT else 30)
    with tarfile.open(fileobj=stream, mode="w", format=format) as tar:
        for name in ("run.json", f"reported/{long}", "repository/m/1/model.py", "é"):
            member = tarfile.TarInfo(name)
            member.size = 30
            tar.addfile(member, io.BytesIO(b"x" * 30))
    return stream.getvalue()


TARS = [tarred(tarfile.PAX_FORMAT), tarred(tarfile.GNU_FORMAT), tarred(tarfile.USTAR_FORMAT)]
#: In each of the first headers: name, size, checksum, type, target, and what old formats have.
TAR_FIELDS = [
    512 * block + field
    for block in range(10)
    for field in (0, 100, 124, 135, 148, 156, 156, 156, 157, 257, 345, 386, 482)
]
TAR_TYPES = b"012356xgLKSVD"


@pytest.mark.server
def test_an_entry_that_claims_any_size_ends_at_once(place: Path) -> None:
    """tarfile reads a stream block by block up to the end that a header claims."""
    header = tarfile.TarInfo("run.json")
    for size in (1 << 20, 1 << 40, 1 << 62):
        header.size = size
        claimed = header.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
        with fresh(place) as to:
            (said,) = unpack(claimed, to, most_bytes=1_000)
            assert "longer than the archive" in said


@many
@given(chances)
def test_a_damaged_tar_is_unpacked_or_reported(place: Path, chance: random.Random) -> None:
    mutable = changed(chance, chance.choice(TARS), TAR_FIELDS if chance.random() < 0.5 else None)
    for block in range(0, len(mutable) - 511, 512):
        if mutable[block + 257 : block + 262] == b"ustar":
            if chance.random() < 0.2:
                mutable[block + 156] = chance.choice(TAR_TYPES)
            if chance.random() < 0.8:  # with the right checksum, changes reach the code behind it
                mutable[block + 148 : block + 156] = b" " * 8
                mutable[block + 148 : block + 156] = b"%06o\0 " % sum(mutable[block : block + 512])
    with fresh(place) as to:
        unpack(bytes(mutable), to, most_bytes=1_000)
        assert {path.name for path in to.iterdir()} <= {*FILES, *FOLDERS}
        assert sum(path.stat().st_size for path in plain(to) if path.is_file()) <= 1_000
