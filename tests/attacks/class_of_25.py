"""A class of 25 that handed in a2 on Moodle in German, on Canvas and by mail, with what goes wrong.

Thirteen hand in one solution: eleven of them the same files, two with other names and an id of
their own. It is due on the evening before the clocks are set back, and comes a day late, two days
late, and in time by an extension. Others hand in an endless loop, a flood of output, a lone
notebook, a text.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from pathlib import Path

from grader.authoring import submissions
from grader.classroom import deadlines, grade_rules, roster
from grader.classroom.causes import solution_cells
from grader.classroom.classroom import Classroom
from tests import files_beside
from tests.attacks import submissions as s
from tests.grader.solutions_a2 import ALONE, disguised
from workbook import assignments
from workbook.notebooks import dotted

A2 = assignments.named(s.ASSIGNMENT)
FIRST = (
    *("Anna", "José", "Nguyễn", "Łukasz", "Zoë", "Айгүл", "Δήμητρα", "मोहन", "สมชาย", "太郎"),
    *("Ana María", "Bo", "Chidi", "Dmitri", "Eva-Lena", "Fatima", "Gül", "Hana", "Ines", "Bo"),
    *("Juan", "Kim", "Lea", "Mia", "Noa"),
)
LAST = ("Okafor", "Núñez", "Khai", "Żółć", "O'Connor", "Жаңабек", "Αγγελή", "कुमार", "ใจดี", "山田")
#: s01 to s25: first and last names.
PEOPLE = {f"s{n + 1:02}": (FIRST[n], LAST[n % 10]) for n in range(25)}
#: Who has the same files in the end; s23 has a solution of their own at first.
SAME = ("s13", "s06", "s07", "s09", "s14", "s15", "s16", "s17", "s18", "s19", "s23")
DISGUISED = ("s08", "s20")
#: Independent solutions of some tasks, by their authors in solutions_a2.py.
OWN = {"s02": "plain", "s03": "functions", "s04": "pandas", "s23": "short"}
#: Who hands in what cannot be read: a text, an archive of another kind.
UNREADABLE = ("s12", "s21")
EXCUSED, MISSING = "s24", "s25"
ON_MOODLE = tuple(PEOPLE)[:12]
RULES = f'[excused]\na2 = ["{EXCUSED}"]\n'
DUE = """
timezone = "Europe/Berlin"

[a2]
due = 2026-10-24T20:00:00               # in the next night, the clocks are set back
percent_per_day = 10

[a2.extensions]
s03 = 1

[a2.handed_in]                          # Canvas says no times
s14 = 2026-10-24T21:00:00
"""
IN_TIME, DAY_LATE = "Samstag, 24. Oktober 2026, 19:30", "Sonntag, 25. Oktober 2026, 19:30"
TIMES = {"s02": DAY_LATE, "s03": DAY_LATE, "s04": "Montag, 26. Oktober 2026, 12:00"}
MOODLE = (
    *("ID", "Vollständiger Name", "Matrikelnummer", "E-Mail-Adresse", "Status", "Bewertung"),
    *("Maximale Bewertung", "Bewertung kann geändert werden", "Zuletzt geändert (Abgabe)"),
    *("Texteingabe online", "Zuletzt geändert (Bewertung)", "Feedback als Kommentar"),
)
DOWNLOAD = "Triton 26-Forest-71.zip"


def moodle_number(student: str) -> str:
    return str(900 + int(student[1:]))


def canvas_number(student: str) -> str:
    return str(4700 + int(student[1:]))


def settings(classroom: Classroom, others: list[str]) -> None:
    """Write class list, due dates and rules; the list has further ids after the 25."""
    out = io.StringIO()
    table = csv.writer(out, delimiter=";", lineterminator="\r\n")  # as Excel writes it
    table.writerow(["id", "First name", "Last name", "E-mail", "Canvas ID"])
    for student, names in PEOPLE.items():
        table.writerow([student, *names, f"{student}@example.org", canvas_number(student)])
    table.writerows([other, other, "", "", ""] for other in others)
    classroom.home.mkdir(parents=True, exist_ok=True)
    roster.path(classroom).write_bytes(out.getvalue().encode("utf-8-sig"))
    deadlines.path(classroom).write_text(DUE)
    grade_rules.path(classroom).write_text(RULES)


def hand_in(inbox: Path, made: Path, diary: str) -> None:
    """Write the downloads of Moodle and Canvas, and what came by mail.

    Args:
        inbox: where they are put.
        made: a folder that is not there yet, for the submissions.
        diary: a text beside the notebook of s11.
    """
    made.mkdir()
    _copied("s13", made)
    _on_moodle(inbox, made, diary)
    _on_canvas(inbox, made)
    same = made / "s13"
    _zip(inbox / "s18@example.org.zip", _files(same))
    shutil.copytree(same, inbox / "s19+a2__forest+2026-10-25 18:30:00 UTC+x")
    _zip(inbox / "s23.zip", _files(_written_alone("s23", made)))
    evil = {f"{_moodle_name('s06')}/a2.ipynb": A2.release.read_bytes()}
    _zip(inbox / "homework.zip", evil)
    for name in ("Thumbs.db", ".DS_Store"):
        (inbox / name).write_bytes(b"\0")
    (inbox / "notes.txt").write_text("call s25")


def hand_in_later(inbox: Path, made: Path) -> None:
    """A week later: s23 hands in what the others have."""
    _zip(inbox / "s23.zip", _files(made / "s13"))


def moodle_worksheet() -> str:
    """Moodle's grading worksheet in German, with all 25."""
    rows = [list(MOODLE)]
    for student, names in PEOPLE.items():
        handed_in = student in ON_MOODLE
        rows.append(
            [
                *(f"Teilnehmer/in{moodle_number(student)}", " ".join(names), "", ""),
                *("Zur Bewertung abgegeben" if handed_in else "Keine Abgabe", "", "100,00", "Ja"),
                *(TIMES.get(student, IN_TIME) if handed_in else "-", "", "-", ""),
            ]
        )
    return _table(rows)


def canvas_gradebook() -> str:
    """Canvas's gradebook with all 25."""
    rows = [
        ["Student", "ID", "SIS Login ID", "Section", "Assignment 2: a forest on FIL (501)"],
        ["    Points Possible", "", "", "", "100.00"],
    ]
    rows += [
        [", ".join(reversed(names)), canvas_number(student), student, "Triton", ""]
        for student, names in PEOPLE.items()
    ]
    return _table(rows)


def _on_moodle(inbox: Path, made: Path, diary: str) -> None:
    folders = {who: _written_alone(who, made) for who in OWN if who in ON_MOODLE}
    s.last(folders["s02"], "for number in range(3_000_000):\n    print(number)")
    s.last(folders["s04"], "import time\n\nwhile True:\n    time.sleep(0.1)")
    folders |= {who: _copied(who, made) for who in DISGUISED if who in ON_MOODLE}
    folders |= {who: made / "s13" for who in SAME if who in ON_MOODLE}
    for who in ("s01", "s10"):
        folders[who] = submissions.solution(A2, made / who, who)
    files_beside.write(folders["s01"])
    s.first(folders["s01"], files_beside.CELL)
    shutil.rmtree(folders["s10"] / "models")
    folders["s05"] = submissions.release(A2, made / "s05")
    folders["s11"] = submissions.solution(A2, made / "s11")  # and no id of their own
    (folders["s11"] / "diary.txt").write_text(diary)
    files: dict[str, bytes] = {}
    for student, folder in folders.items():
        name = _moodle_name(student)
        if int(student[1:]) % 2:
            files |= {f"{name}/{path}": content for path, content in _files(folder).items()}
        else:
            files[f"{name}/a2__forest.zip"] = _packed(_files(folder))
    files[f"{_moodle_name('s12', 'onlinetext')}/onlinetext.html"] = b"Ich war krank."
    files["Max Nobody_999_assignsubmission_file/a2.ipynb"] = A2.release.read_bytes()
    _zip(inbox / DOWNLOAD, files)
    (inbox / f"Bewertungen-{DOWNLOAD[:-4]}.csv").write_text(moodle_worksheet(), "utf-8-sig")


def _on_canvas(inbox: Path, made: Path) -> None:
    same = _files(made / "s13")
    zipped, release = _packed(same), A2.release.read_bytes()
    files = {
        _canvas_name("s13", 101, "a2__forest.zip"): zipped,
        _canvas_name("s14", 102, "a2__forest.zip", late=True): zipped,
        _canvas_name("s15", 103, "everything.zip"): _packed(
            {
                "triton-course/assignments/a2__forest/a2.ipynb": release,
                **{f"triton-course/work/assignments/a2__forest/{k}": v for k, v in same.items()},
                "triton-course/.git/HEAD": b"ref",
                "__MACOSX/triton-course/._README.md": b"\0",
            }
        ),
        _canvas_name("s16", 104, "a2.zip"): _packed({"a2__forest.zip": zipped}),
        _canvas_name("s17", 105, "a2__forest.zip"): _packed({"a2.ipynb": release}),
        _canvas_name("s20", 106, "a2__forest.zip"): _packed(_files(_copied("s20", made))),
        _canvas_name("s21", 107, "a2.rar"): b"Rar!",
        _canvas_name("s22", 108, "a2__forest.zip"): _packed(_files(made / "s05")),
    }
    _zip(inbox / "submissions.zip", files)
    _zip(inbox / "submissions (1).zip", {_canvas_name("s17", 205, "a2__forest-1.zip"): zipped})


def _written_alone(student: str, made: Path) -> Path:
    """A solution of some tasks, by an author of solutions_a2.py."""
    return _with_cells(student, made, ALONE[OWN[student]])


def _copied(student: str, made: Path) -> Path:
    """The solution that went around: the same, or with other names and the student's own id."""
    cells = ALONE["careful"]
    if student in DISGUISED:
        cells = disguised(cells, int(student[1:]))
    return _with_cells(student, made, cells)


def _with_cells(student: str, made: Path, cells: dict[str, str]) -> Path:
    """The solution's files, and a notebook in which only these tasks are done."""
    to = submissions.solution(A2, made / student, student)
    path = to / A2.release.name
    notebook, released = json.loads(path.read_text()), solution_cells(A2.release.read_text())
    written = dict.fromkeys(A2.written, f"I think so. {student}")
    texts = {**released, **COMMON, **cells, **written}
    for cell in notebook["cells"]:
        id = dotted(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))
        if id in texts:
            cell["source"] = texts[id]
    path.write_text(json.dumps(notebook))
    return to


#: One line each, which all write in the same way.
COMMON = {
    "a2.serve": 'forest = deploy("models/forest").name',
    "a2.ask": "served = ask(forest, cancer.x_test)",
}


def _moodle_name(student: str, kind: str = "file") -> str:
    return f"{' '.join(PEOPLE[student])}_{moodle_number(student)}_assignsubmission_{kind}"


def _canvas_name(student: str, file: int, name: str, *, late: bool = False) -> str:
    first, last = PEOPLE[student]
    squeezed = "".join(c for c in f"{last}{first}".lower() if c.isalnum() or not c.isascii())
    return f"{squeezed}{'_LATE' if late else ''}_{canvas_number(student)}_{file}_{name}"


def _files(folder: Path) -> dict[str, bytes]:
    """The files below a folder, and its folders as names that end with /."""
    return {
        path.relative_to(folder).as_posix() + "/" * path.is_dir(): b""
        if path.is_dir()
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def _packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _zip(path: Path, files: dict[str, bytes]) -> None:
    path.write_bytes(_packed(files))


def _table(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue()
