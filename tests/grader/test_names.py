"""Names of students become ids that are safe everywhere, and texts that can be shown."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.classroom import names


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("Ana Ruiz", "Ana_Ruiz"),
        ("Zoe\u0308", "Zoë"),
        ("मोहन कुमार", "मोहन_कुमार"),
        ("O'Brien (2)", "O_Brien_2"),
        ("../..", "student-0cfd1c96"),
        ("\u0301a", "a"),
        ("a\u200db\u200d", "a\u200db"),
        ("@anna", "anna"),
        ("@SUM", "SUM"),
        ("=1+1", "1_1"),
        ("a\udcffb", "a_b"),
    ],
)
def test_an_id_keeps_what_it_can(name: str, id: str) -> None:
    assert names.clean(name) == id


@given(st.text(st.characters(), min_size=1))
def test_an_id_is_a_plain_folder_of_its_own(name: str) -> None:
    id = names.clean(name)
    assert id
    assert len(id) <= names.MOST_CHARACTERS
    assert len(f"{id}-012345.json".encode()) < 255
    assert Path(id).name == id
    assert id[0] not in ".-_@=+"
    assert not unicodedata.category(id[0]).startswith("M")
    assert unicodedata.is_normalized("NFC", id)
    assert names.clean(id) == id
    assert names.shown(id) == id


@given(st.text(), st.sampled_from([str.upper, str.lower, str.title, str.swapcase]))
def test_ids_that_a_disk_takes_for_one_are_folded_to_one(name: str, change: object) -> None:
    id = names.clean(name)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert names.fold(unicodedata.normalize(form, id)) == names.fold(id)
    assert names.fold(names.fold(id)) == names.fold(id)


@given(st.text(st.characters()))
def test_what_is_shown_can_be_written_and_obeys_nobody(text: str) -> None:
    shown = names.shown(text)
    shown.encode()
    assert names.shown(shown) == shown
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE")]


def test_text_of_people_is_shown_as_it_is() -> None:
    for text in ("José", "علی‌رضا", "मोहन", "👩‍💻", "tab\there\n", "nbsp\u00a0"):
        assert names.shown(text) == text
    assert names.shown("a\r\nb\rc") == "a\nb\nc"
