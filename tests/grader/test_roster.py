"""The class list: what is read, what is refused (with line and column), and who an entry is."""

from __future__ import annotations

from pathlib import Path

import pytest
from a_class import classroom
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom import roster
from grader.classroom.roster import Roster
from workbook.common.errors import WorkbookError


def write(home: Path, content: str | bytes) -> Roster:
    where = classroom(home)
    where.home.mkdir(exist_ok=True)
    roster.path(where).write_bytes(content.encode() if isinstance(content, str) else content)
    found = roster.read(where)
    assert found is not None
    return found


LIST = """\
id,first name,last name,E-Mail,Canvas ID,SIS Login ID,Identifier
anna,Anna Maria,Okafor,anna@example.org,4711,ao12,Participant 12
jose,José,Núñez,jose@example.org,4712,jn3,Participant 13
bo,Bo,Li,bo@example.org,4713,bl,Participant 14
bo2,Bo,Li,,4714,bl2,Participant 15
mohan,मोहन,कुमार,,,,
"""


def test_without_a_list_there_is_no_roster(tmp_path: Path) -> None:
    assert roster.read(classroom(tmp_path)) is None


def test_a_list_is_read(tmp_path: Path) -> None:
    found = write(tmp_path, LIST)

    assert list(found.students) == ["anna", "jose", "bo", "bo2", "mohan"]
    anna = found.students["anna"]
    assert (anna.first_name, anna.last_name) == ("Anna Maria", "Okafor")
    assert (anna.name, anna.email) == ("Anna Maria Okafor", "anna@example.org")
    assert anna.columns["SIS Login ID"] == "ao12"
    assert [student.id for student in found.without(["anna", "bo", "eve"])] == [
        "jose",
        "bo2",
        "mohan",
    ]


@pytest.mark.parametrize(
    "content",
    [
        "id;name;mail\r\nanna;Okafor, Anna;a@x.org\r\n\r\nzoë;Zoë Li;\r\n".encode("utf-8-sig"),
        "id\tname\tmail\r\nanna\tAnna Okafor\ta@x.org\r\nzoë\tZoë Li\t\r\n".encode("utf-16"),
        b'sep=;\r\nID;Name;E-mail\r\nanna;"Okafor, Anna";a@x.org\r\nzo\xc3\xab;Zo\xc3\xab Li\r\n',
        'id,first_name,last_name,email,lms_user_id\nanna,Anna,Okafor,a@x.org,7\nzoë,"Zoë",Li,,8\n',
        '"a, b","Student","ID","Email"\n"","Okafor, Anna","anna","a@x.org"\n,Zoë Li,zoë,\n',
    ],
)
def test_what_spreadsheets_write_is_read(tmp_path: Path, content: str | bytes) -> None:
    found = write(tmp_path, content)

    assert [student.name for student in found.students.values()] == ["Anna Okafor", "Zoë Li"]
    assert list(found.students) == ["anna", "zoë"]
    assert found.students["anna"].email == "a@x.org"


def test_canvas_own_gradebook_is_a_list(tmp_path: Path) -> None:
    found = write(
        tmp_path,
        "Student,ID,SIS User ID,SIS Login ID,Section,Forest (90)\n"
        ",,,,,Manual Posting\n"
        "    Points Possible,,,,,100\n"
        '"Okafor, Anna",4711,S1,anna,One,80\n',
    )

    assert list(found.students) == ["4711"]
    assert found.whose("somebody", system="canvas", number="4711")[0].name == "Anna Okafor"
    assert found.whose("anna")[0].id == "4711"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "It is empty"),
        ("name,mail\nAnna,x@y\n", "Line 1 names no column `id`. It has: name, mail"),
        ("id,name\nanna,A\n,B\n", "Line 3, column id: the id is missing"),
        ("id,name\nanna,A\nbob,B\nANNA,C\n", "Lines 2 and 4 have the same id: anna"),
        ("id,mail\na,x@y.z\nb,X@Y.z\n", "Lines 2 and 3 have the same e-mail"),
        ("id,Canvas ID\na,7\nb,7\n", "Lines 2 and 3 have the same Canvas ID: 7"),
        ("id,mail\na,nowhere\n", "Line 2, column mail: 'nowhere' is no e-mail address"),
        ("id,name\na/b,A\n", "Line 2, column id: 'a/b' cannot be the name of a folder"),
        ("id,name\n..,A\n", "cannot be the name of a folder"),
        ("id,name\nanna,Okafor, Anna\n", "Line 2 has 3 cells, and the header 2"),
        ("id,name,ID\n", "Line 1 names column 3 as another one"),
        ('id,name\nanna,"Ann\n', "is no line of a CSV"),
        ("id,name\nm,Müller\n".encode("latin-1"), "Line 2 is no text in UTF-8: m,M\\xfcller"),
        (b"id,name\nanna,A\0\n", "Line 2 holds a character that no text has"),
        (b"\xff\xfei\0d\0\n", "no text in UTF-8"),
        (b"id," + b"x" * (10 << 20), "larger than 10 MiB"),
    ],
)
def test_a_bad_list_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    with pytest.raises(WorkbookError) as raised:
        write(tmp_path, content)
    assert words in raised.value.what
    assert raised.value.where.endswith("students.csv")
    assert raised.value.todo


@pytest.mark.parametrize(
    ("name", "system", "number", "ids"),
    [
        ("anna", "", "", ["anna"]),
        ("ANNA", "", "", ["anna"]),
        ("ao12", "", "", ["anna"]),
        ("Anna@Example.org", "", "", ["anna"]),
        ("Anna Maria Okafor", "", "", ["anna"]),
        ("okafor, anna maria", "", "", ["anna"]),
        ("okaforannamaria", "canvas", "1", ["anna"]),
        ("Anna Maria Okafor", "moodle", "99", ["anna"]),
        ("José Núñez", "moodle", "1", ["jose"]),
        ("jose\u0301 nun\u0303ez", "moodle", "1", ["jose"]),
        ("Jose Nunez", "", "", ["jose"]),
        ("somebody else", "canvas", "4712", ["jose"]),
        ("bo li", "", "", ["bo", "bo2"]),
        ("Bo Li", "moodle", "15", ["bo2"]),
        ("Bo Li", "moodle", "16", ["bo", "bo2"]),
        ("Participant", "moodle", "14", ["bo"]),
        ("libo", "canvas", "4714", ["bo2"]),
        ("मोहन कुमार", "", "", ["mohan"]),
        ("महन कमर", "", "", []),
        ("4711", "", "", ["anna"]),
        ("nobody", "canvas", "1", []),
        ("", "", "", []),
        ("_", "moodle", "", []),
    ],
)
def test_whose_an_entry_is(
    tmp_path: Path, name: str, system: str, number: str, ids: list[str]
) -> None:
    found = write(tmp_path, LIST).whose(name, system=system, number=number)
    assert [student.id for student in found] == ids


def test_canvas_number_comes_before_a_name_that_somebody_chose(tmp_path: Path) -> None:
    assert [s.id for s in write(tmp_path, LIST).whose("anna", system="canvas", number="4712")] == [
        "jose"
    ]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_list_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    where = classroom(tmp_path_factory.mktemp("list"))
    where.home.mkdir()
    for prefix in (b"", b"id,name\n"):
        roster.path(where).write_bytes(prefix + content)
        try:
            found = roster.read(where)
        except WorkbookError:
            continue
        assert found is not None
        for student in found.students.values():
            assert found.whose(student.id) == [student]
