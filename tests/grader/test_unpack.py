"""Unpack what a hostile sandbox delivered: only plain files are written, in their folder."""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.sandbox.unpack import FILES, FOLDERS, unpack

Member = tuple[str, bytes, bytes]  # name, type, content or the target of a link


def archive(*members: Member) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(content)
            else:
                member.linkname = content.decode(errors="replace")
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


PART = st.sampled_from(
    ["..", ".", "", "a", "reported", "repository", "1", "\0", "\n", "é", "x" * 300]
)
NAME = st.one_of(
    st.lists(PART, min_size=1, max_size=15).map("/".join),
    st.sampled_from(FOLDERS).flatmap(lambda top: st.text(max_size=30).map(lambda t: f"{top}/{t}")),
    st.sampled_from(FILES),
)
KIND = st.sampled_from(
    [
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
    ]
)
CONTENT = st.sampled_from([b"", b"content", b"/etc/passwd", b"../..", b"run.json"])


def check(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        to = Path(scratch, "deep", "to")
        to.mkdir(parents=True)
        unpack(data, to, most_bytes=1000)
        assert [p.name for p in Path(scratch).iterdir()] == ["deep"]
        assert [p.name for p in to.parent.iterdir()] == ["to"]
        assert {p.name for p in to.iterdir()} <= {*FILES, *FOLDERS}
        size = 0
        for path in to.rglob("*"):
            assert not path.is_symlink()
            assert path.is_dir() or path.is_file()
            assert path.stat().st_nlink == 1 or path.is_dir()
            size += path.stat().st_size if path.is_file() else 0
        assert size <= 1000


@given(st.lists(st.tuples(NAME, KIND, CONTENT), max_size=8))
def test_nothing_leaves_its_place(members: list[Member]) -> None:
    check(archive(*members))


@given(st.binary(max_size=2000))
def test_any_bytes_are_taken_without_an_exception(data: bytes) -> None:
    check(data)


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 255))
def test_a_damaged_archive_is_taken_without_an_exception(cut: int, at: int, byte: int) -> None:
    data = bytearray(
        archive(("run.json", tarfile.REGTYPE, b"{}"), ("reported/a", b"0", b"x" * 600))
    )
    data[at % len(data)] = byte
    check(bytes(data[: max(cut, 1)]))


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (("../out", tarfile.REGTYPE, b""), "no name for a file"),
        (("/etc/passwd", tarfile.REGTYPE, b""), "no name for a file"),
        (("repository/../../out", tarfile.REGTYPE, b""), "no name for a file"),
        (("reported/a", tarfile.SYMTYPE, b"/etc"), "neither a file nor a folder"),
        (("reported/a", tarfile.LNKTYPE, b"run.json"), "neither a file nor a folder"),
        (("reported/a", tarfile.FIFOTYPE, b""), "neither a file nor a folder"),
        (("elsewhere/a", tarfile.REGTYPE, b""), "not expected"),
        (("reported", tarfile.REGTYPE, b""), "not expected"),
        (("repository/$(reboot)/config.pbtxt", tarfile.REGTYPE, b""), "cannot be a model's name"),
        (("repository/" + "a/" * 20 + "b", tarfile.REGTYPE, b""), "too deep"),
        (("reported/a", tarfile.REGTYPE, b"x" * 2000), "too large together"),
    ],
)
def test_what_is_left_out_is_said(member: Member, reason: str, tmp_path: Path) -> None:
    data = archive(member, ("run.json", tarfile.REGTYPE, b"{}"))
    (wrong,) = unpack(data, tmp_path, most_bytes=1000)
    assert reason in wrong
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["reported", "repository", "run.json"]


@pytest.mark.server
@pytest.mark.quick
def test_a_second_file_of_a_name_does_not_replace_the_first(tmp_path: Path) -> None:
    data = archive(
        ("run.json", tarfile.REGTYPE, b"first"),
        ("run.json", tarfile.REGTYPE, b"second"),
        ("run.json/below", tarfile.REGTYPE, b""),
    )
    wrong = unpack(data, tmp_path, most_bytes=1000)
    assert (tmp_path / "run.json").read_bytes() == b"first"
    assert len(wrong) == 2


@pytest.mark.server
@pytest.mark.quick
def test_a_sparse_file_of_a_terabyte_is_left_out(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("reported/huge")
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}
        tar.addfile(member)
    (wrong,) = unpack(stream.getvalue(), tmp_path, most_bytes=1000)
    assert "size" in wrong or "too large" in wrong


@pytest.mark.server
@pytest.mark.quick
def test_too_many_entries_are_cut(tmp_path: Path) -> None:
    entries = ((f"reported/{n}", tarfile.DIRTYPE, b"") for n in range(10_050))
    wrong = unpack(archive(*entries), tmp_path, most_bytes=1000)
    assert any("10000 entries" in words for words in wrong)
    assert len(list((tmp_path / "reported").iterdir())) == 10_000


@pytest.mark.server
@pytest.mark.quick
def test_empty_folders_are_kept(tmp_path: Path) -> None:
    assert unpack(archive(("repository/m/1", tarfile.DIRTYPE, b"")), tmp_path, most_bytes=9) == []
    assert (tmp_path / "repository/m/1").is_dir()
