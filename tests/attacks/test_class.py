"""A class of honest, mistaken and hostile students, graded by the command that instructors use.

The class of 25 (class_of_25.py) comes in downloads of Moodle and Canvas; beside them lie the
entries of hostile students. The run is killed with -9 in the middle, continued, and run twice more;
before the third run, a person grades, and somebody hands in again. The tests check the results:
stored results, marks, reports, exports, and the hashes of what no submission may change.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import html
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grader import sandbox
from grader.assignments.a2__forest.attacks import ATTACKS, CANARY, MARK
from grader.assignments.a2__forest.mutants import MUTANTS
from grader.authoring import submissions
from grader.authoring.trial import message
from grader.classroom import autograde, by_hand, export, gradebook, intake, similarity
from grader.classroom.classroom import Classroom
from grader.pages import class_report
from grader.sandbox import cgroup
from grader.vocabulary.define import load
from grader.vocabulary.results import Graded
from tests import files_beside
from tests.attacks import class_of_25
from tests.attacks import submissions as s
from tests.attacks.attack import Attack, make, outputs, together
from tests.attacks.class_of_25 import DISGUISED, DOWNLOAD, SAME, UNREADABLE
from tests.attacks.test_every_assignment import assert_gains_nothing
from workbook import assignments
from workbook.common import paths
from workbook.common.errors import WorkbookError

#: A mutant; all of them are tried, faster, in tests/grader/test_assignments.py.
WRONG = {"mutant": MUTANTS[0]}
#: The attacks that hand in. The others are tried in the submission of one of these.
HOSTILE = [attack for attack in ATTACKS if not attack.beside]
#: The limits of the whole notebook, and of one cell.
LIMITS = ["--notebook-seconds", "240", "--cell-seconds", "60"]
TOTAL = 80  # points that the machine gives; a person gives 20 more
#: Of the class of 25: points of the checks, flags, and what the late days cost.
POINTS = {
    **dict.fromkeys(("s01", "s11"), TOTAL),
    **dict.fromkeys((*SAME, *DISGUISED, "s03"), 50),
    **dict.fromkeys(("s05", "s10", "s22", *UNREADABLE), 0),
    **{"s02": 60, "s04": 40},
}
FLAGS = {
    **{who: {"another's data"} for who in (*SAME[1:], "s11")},
    **{who: {"unreadable"} for who in UNREADABLE},
    **{"s02": {"execution"}, "s04": {"execution"}, "s10": {"files missing"}},
}
#: What a person gives for a written answer.
BY_HAND = {"s03": 8, "s23": 7}
PENALTIES = {"s02": 10, "s04": 20, "s14": 10, "s19": 10}
#: What lies in the inbox and is not graded, or should be known.
REPORTED = {
    f"{DOWNLOAD}: Max Nobody_999_assignsubmission_file": "Nobody in the class list is 'Max Nobody'",
    "homework.zip": "It holds 1 submission, as Moodle names them",
    "notes.txt": "It is a .txt file",
    "deadlines.toml": "nothing says when",
}


def zips(inbox: Path) -> None:
    """Write entries that are hostile before any of their code runs."""
    with zipfile.ZipFile(inbox / "zip_climbs.zip", "w") as file:
        file.writestr("a2.ipynb", "{}")
        file.writestr("../../climbed.txt", "out")
        file.writestr("/tmp/climbed.txt", "out")
    with (
        zipfile.ZipFile(inbox / "zip_explodes.zip", "w", zipfile.ZIP_DEFLATED) as file,
        file.open("a2.ipynb", "w", force_zip64=True) as member,
    ):
        for _ in range(600):
            member.write(bytes(1 << 20))
    with zipfile.ZipFile(inbox / "zip_links.zip", "w") as file:
        link = zipfile.ZipInfo("a2.ipynb")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    (inbox / "zip_is_none.zip").write_bytes(b"PK\x03\x04" + os.urandom(1_000))
    linked = s.release(inbox / "folder_links")
    (linked / "a2.ipynb").unlink()
    (linked / "a2.ipynb").symlink_to("/etc/passwd")
    (linked / "models" / "etc").symlink_to("/etc")


#: Each of these entries, and a part of the reason for its refusal.
ZIPS = {
    "zip_climbs": "leads out of",
    "zip_explodes": "grows over",
    "zip_links": "is a link",
    "zip_is_none": "not a zip file",
    "folder_links": "is a link",
}


def hashes(folder: Path) -> dict[str, str]:
    """The hash of every regular file below a folder, and the target of every link, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def course_files() -> dict[str, str]:
    """The hash of every file of the checkout that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=paths.root(),
        capture_output=True,
        check=True,
    ).stdout
    files = [paths.root() / os.fsdecode(name) for name in listed.split(b"\0") if name]
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()
    }


def environment_files() -> dict[str, tuple[int, int]]:
    """Size and modification time of every file in the Python environment, except compiled files.

    The environment has some gigabytes, so hashes would take minutes.
    """
    found = {}
    for base, folders, files in os.walk(sys.prefix):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            status = Path(base, name).lstat()
            found[str(Path(base, name))] = (status.st_size, status.st_mtime_ns)
    return found


def machine_files() -> dict[str, str]:
    """The hashes of files of the machine that attacks try to change, and of the shared folders."""
    files = [Path("/etc/passwd"), Path("/etc/shadow"), Path("/usr/bin/env"), Path("/bin/sh")]
    return {
        **{str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
        "host name": Path("/proc/sys/kernel/hostname").read_text(),
    }


class GradedClass:
    """A classroom after grading, and what was recorded before and during it.

    Attributes:
        classroom: the instructor's files.
        inbox: what was handed in.
        calls: the addresses that connected to this machine.
        before: the hashes of what must not change, by what they belong to.
        killed_with: how many results were stored when the first run was killed.
        graded_later: how many were stored by the second run.
        again: the output of the last run.
    """

    def __init__(self, home: Path) -> None:
        self.classroom = Classroom(home / "work")
        self.inbox, self.made = home / "inbox", home / "made"
        self.inbox.mkdir(parents=True)
        self.calls: list[str] = []
        self.before: dict[str, object] = {}
        self.killed_with = 0
        self.graded_later = 0
        self.again = ""
        self._environment = {
            **os.environ,
            "GRADER_WORK": str(self.classroom.home),
            "GRADER_TOKEN": CANARY,
        }

    def state(self) -> dict[str, object]:
        """The hashes of everything that no submission may change."""
        return {
            "the course": course_files(),
            "Python's environment": environment_files(),
            "the machine": machine_files(),
            "what was handed in": hashes(self.inbox),
            "the instructor's notes": (self.classroom.home / "notes.txt").read_text(),
            "the secret": self.classroom.secret(),
        }

    def fill(self, port: int) -> None:
        """Write all submissions, and the canary where no submission may look."""
        class_of_25.hand_in(self.inbox, self.made, CANARY)
        class_of_25.settings(self.classroom, [*WRONG, *(a.name for a in HOSTILE), *ZIPS])
        (self.classroom.home / "notes.txt").write_text(CANARY)
        for name, mutant in WRONG.items():
            submissions.mutant(assignments.named(s.ASSIGNMENT), mutant, self.inbox / name)
        for attack in HOSTILE:
            _, *others = together(attack, ATTACKS)
            folder = make(attack, self.inbox / attack.name, None, *others)
            if attack.name == "calls_home":
                (folder / "port.txt").write_text(str(port))
        zips(self.inbox)

    def a_week_later(self) -> None:
        """A person grades what two students wrote, and one of them hands in again."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.classroom.gradebook}") as book:
            for student, points in BY_HAND.items():
                grade = book.find_grade("a2-why", "a2", s.ASSIGNMENT, student)
                grade.manual_score, grade.needs_manual_grade = points, False
            book.db.commit()
        class_of_25.hand_in_later(self.inbox, self.made)
        self.before["what was handed in"] = hashes(self.inbox)

    def start(self) -> subprocess.Popen[str]:
        """Start `grader autograde`, as an instructor does."""
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "grader.cli", "autograde", s.ASSIGNMENT),
                *("--from", str(self.inbox), *LIMITS),
            ],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def stored(self) -> dict[str, bytes]:
        """The stored results by file name."""
        home = self.classroom.home / "results" / s.ASSIGNMENT
        return {
            path.name: path.read_bytes()
            for path in home.glob("*.json")
            if path.name != "class.json"
        }

    def of(self, student: str) -> Graded:
        """One student's result."""
        return self.classroom.results(s.ASSIGNMENT)[student]

    def points(self, student: str) -> float:
        """The points that the machine gave, from nbgrader's gradebook."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.classroom.gradebook}") as book:
            return float(book.find_submission(s.ASSIGNMENT, student).score)


@pytest.fixture(scope="module")
def graded_class(class_home_of_module: Path) -> GradedClass:
    """The class, graded: killed in the middle, continued, and run until nothing is left to do."""
    if (problem := sandbox.protection().error) is not None:
        pytest.fail(f"{problem} {problem.todo}")
    graded = GradedClass(class_home_of_module)
    with listening(graded.calls) as port:
        graded.fill(port)
        graded.before = graded.state()
        running = graded.start()
        while len(graded.stored()) < 8:
            assert running.poll() is None, running.communicate()[0]
            time.sleep(0.2)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        before = graded.stored()
        graded.killed_with = len(before)
        running = graded.start()
        said, _ = running.communicate(timeout=1_500)
        assert running.returncode in (0, 3), said
        after = graded.stored()
        assert settled(before).items() <= after.items(), "graded twice"
        graded.graded_later = len(after) - len(before)
        index = graded.classroom.results_index(s.ASSIGNMENT)
        graded.a_week_later()
        running = graded.start()  # grades again after faults of the machine
        said, _ = running.communicate(timeout=600)
        assert running.returncode == 3, said
        now = graded.classroom.results_index(s.ASSIGNMENT)
        assert {who for who in now if now[who] != index[who]} == {"s23"}
        assert now["s23"] == now["s13"], "the same files are graded once"
        final = graded.stored()
        assert settled(after).items() <= final.items(), "graded twice"
        running = graded.start()
        graded.again, _ = running.communicate(timeout=120)
        assert running.returncode in (0, 3), graded.again
        assert graded.stored() == final
    return graded


def settled(stored: dict[str, bytes]) -> dict[str, bytes]:
    """The results that no later run may touch."""
    return {
        name: content
        for name, content in stored.items()
        if autograde.is_final(Graded.model_validate_json(content))
    }


@contextlib.contextmanager
def listening(calls: list[str]) -> Iterator[int]:
    """A server on this machine that nothing should connect to; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        over = threading.Event()

        def accept() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    connection, address = server.accept()
                    connection.close()
                    calls.append(str(address))

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        over.set()
        thread.join()


pytestmark = [
    pytest.mark.server,
    pytest.mark.timeout(1_800),
    pytest.mark.usefixtures("graded_class"),
]


def lost(graded: Graded) -> set[str]:
    """The checks that earned less than full credit."""
    return {check.id for check in graded.verdict.checks if check.credit < 1}


def earned(graded: Graded) -> float:
    """The points that a result gives."""
    points = assignments.named(s.ASSIGNMENT).checks
    return sum(check.credit * points[check.id] for check in graded.verdict.checks)


def test_nothing_is_lost_or_graded_twice(graded_class: GradedClass) -> None:
    """A kill in the middle costs at most the submissions that were being graded."""
    assert graded_class.killed_with >= 8
    assert graded_class.graded_later > 0
    everybody = {*POINTS, *WRONG, *(attack.name for attack in HOSTILE), *ZIPS}
    assert set(graded_class.classroom.results(s.ASSIGNMENT)) == everybody
    assert "0 graded" in graded_class.again


def test_the_release_gets_nothing(graded_class: GradedClass) -> None:
    """It gets exactly 0 points, and no check calls it wrong."""
    graded = graded_class.of("s05")
    assert {check.status for check in graded.verdict.checks} == {"not attempted"}
    assert graded_class.points("s05") == 0


def test_the_marks_of_the_class(graded_class: GradedClass) -> None:
    """Points of checks and of a person, flags and late days, whatever way the work came in."""
    results = graded_class.classroom.results(s.ASSIGNMENT)
    others = {who: results[who] for who in POINTS if earned(results[who]) != POINTS[who]}
    assert not others, {
        who: [
            (check.id, check.rationale, check.found)
            for check in graded.verdict.checks
            if check.credit < 1
        ]
        for who, graded in others.items()
    }
    flags = {who: {flag.kind for flag in results[who].verdict.flags} for who in POINTS}
    assert {who: kinds for who, kinds in flags.items() if kinds} == FLAGS
    assert files_beside.PRINTED in outputs(results["s01"].notebook)
    marks = {mark.student: mark for mark in gradebook.marks(graded_class.classroom, s.ASSIGNMENT)}
    assert {who: marks[who].score - BY_HAND.get(who, 0) for who in POINTS} == POINTS
    assert {who: marks[who].penalty for who in POINTS if marks[who].penalty} == PENALTIES
    stale = by_hand.stale(graded_class.classroom, s.ASSIGNMENT)
    assert {who: [one.cell for one in cells] for who, cells in stale.items()} == {"s23": ["a2.why"]}


def test_the_report_of_the_class(graded_class: GradedClass) -> None:
    """What is nobody's is reported, and thirteen who have one solution are one group."""
    classroom = graded_class.classroom
    said = {one.source: one.reason for one in intake.read_reports(classroom)}
    assert {
        name: words for name, words in REPORTED.items() if words not in said.get(name, "")
    } == {}
    assert said.keys() == REPORTED.keys()
    results = classroom.results(s.ASSIGNMENT)
    found = similarity.groups(
        similarity.solution_texts(classroom, class_of_25.A2, results), class_of_25.A2
    )
    copies, with_course = found  # the second is that of the attacks, which begin with the solution
    assert copies.students == sorted([*SAME, *DISGUISED])
    assert {"s01", "s10", "s11"} <= {*with_course.students}
    assert {p.other for p in with_course.pairs} >= {similarity.COURSE}
    assert not {*with_course.students} & {"s02", "s03", "s04", "s05", "s12"}
    text = report(graded_class)
    for words in (
        f"13 students: {', '.join(copies.students)}",
        "Of 2 that were handed in, the last counts: submissions (1).zip",
        "not graded",
        "excused",
        "no submission",
        "2 days",
    ):
        assert words in text, words


def report(graded_class: GradedClass) -> str:
    """The class report, without its tags."""
    class_report.write_class_report(graded_class.classroom, class_of_25.A2)
    page = class_report.page(graded_class.classroom, class_of_25.A2).read_text()
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())


def test_the_exports_of_the_class(graded_class: GradedClass, tmp_path: Path) -> None:
    """Each system gets its students' points; nobody who has no mark gets a zero."""
    total = {
        who: f"{points + BY_HAND.get(who, 0) - PENALTIES.get(who, 0):.2f}"
        for who, points in POINTS.items()
        if who not in UNREADABLE
    }
    sheets = {"moodle": class_of_25.moodle_worksheet(), "canvas": class_of_25.canvas_gradebook()}
    tables = {"nbgrader": export.table(graded_class.classroom, class_of_25.A2, "nbgrader")}
    for system, sheet in sheets.items():
        (tmp_path / system).write_text(sheet, "utf-8-sig", newline="")
        tables[system] = export.table(
            graded_class.classroom, class_of_25.A2, system, tmp_path / system
        )
    rows = {
        system: list(csv.reader(io.StringIO(made.text.removeprefix("\ufeff"), newline="")))
        for system, made in tables.items()
    }
    moodle = {row[0]: row[5] for row in rows["moodle"][1:]}
    canvas = {row[2]: row[4] for row in rows["canvas"][2:]}
    plain = {row[3]: row for row in rows["nbgrader"][1:]}
    for who in class_of_25.PEOPLE:
        points = total.get(who, "")
        number = f"Teilnehmer/in{class_of_25.moodle_number(who)}"
        assert moodle[number] == points.replace(".", ","), who
        assert canvas[who] == ("EX" if who == class_of_25.EXCUSED else points), who
        if who in total:
            assert float(plain[who][9]) == float(points)
    assert {who: plain[who][-1] for who in ("s24", "s25")} == {
        "s24": "excused",
        "s25": "no submission",
    }
    assert plain["s12"][-1].startswith("not graded: It could not be read.")
    assert plain["s12"][9] == ""
    with pytest.raises(WorkbookError, match=r"not final yet.*s12"):
        export.table(graded_class.classroom, class_of_25.A2, "nbgrader", final=True)


@pytest.mark.parametrize("student", WRONG)
def test_a_mutant_fails_what_it_should(graded_class: GradedClass, student: str) -> None:
    mutant = WRONG[student]
    results = {check.id: check for check in graded_class.of(student).verdict.checks}
    assert lost(graded_class.of(student)) == set(mutant.fails), graded_class.of(student).verdict
    for id, words in mutant.fails.items():
        said = message(results[id])
        assert words in said, said
    assert graded_class.points(student) == earned(graded_class.of(student))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gains_nothing(graded_class: GradedClass, attack: Attack) -> None:
    """Its marks are those of the work in it, it saw nothing, and the report flags it."""
    first, *_ = tried = together(attack, ATTACKS)
    graded = graded_class.of(first.name)
    assert_gains_nothing(attack, graded, *[other for other in tried if other is not attack])
    assert graded_class.points(first.name) == earned(graded)


@pytest.mark.parametrize("student", ZIPS)
def test_a_hostile_entry_earns_nothing_and_says_why(
    graded_class: GradedClass, student: str
) -> None:
    graded = graded_class.of(student)
    assert {check.credit for check in graded.verdict.checks} == {0}
    (flag,) = graded.verdict.flags
    assert flag.kind == "unreadable"
    assert ZIPS[student] in flag.detail
    assert graded_class.points(student) == 0
    taken = graded_class.classroom.submission(student, s.ASSIGNMENT)
    assert not taken.is_symlink()
    (notebook,) = taken.rglob("*")  # replaces what could not be taken
    assert flag.detail in notebook.read_text()
    assert not notebook.is_symlink()


def test_nobody_called_home(graded_class: GradedClass) -> None:
    assert graded_class.calls == []


def test_nothing_was_left_behind(graded_class: GradedClass) -> None:
    """No process, no file outside of its folder, no cgroup of a sandbox."""
    own = psutil.Process()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        assert MARK not in words
        if process.pid != own.pid and str(graded_class.classroom.home) in " ".join(words):
            pytest.fail(f"{words} still runs")
    assert not Path("/tmp/climbed.txt").exists()
    assert not Path("/tmp/owned").exists()
    assert not list(graded_class.inbox.parent.rglob("climbed.txt"))
    if (group := cgroup.make(64, 64 << 20)) is not None:  # this removes groups without processes
        parents = {folder.parent for folder in group.folders.values()}
        group.close()
        left = {path.name for parent in parents for path in parent.glob("workbook-sandbox-*")}
        owners = {name.split("-")[2] for name in left}
        assert {owner for owner in owners if not Path("/proc", owner).exists()} == set()


def test_nothing_was_changed(graded_class: GradedClass) -> None:
    """The course, the Python environment, the machine and the submissions are unchanged."""
    for what, after in graded_class.state().items():
        before = graded_class.before[what]
        if isinstance(before, dict) and isinstance(after, dict):
            changed = {name for name in before | after if before.get(name) != after.get(name)}
            assert not changed, (what, changed)
        assert after == before, what


def test_every_submission_was_taken_as_it_was(graded_class: GradedClass) -> None:
    """The graded files are the handed-in files; no submission changed its own or other files."""
    readable = {attack.name for attack in HOSTILE if attack.flags != {"unreadable"}}
    taken = graded_class.classroom.submissions(s.ASSIGNMENT)
    for name in (*WRONG, *readable):
        assert hashes(taken[name]) == hashes(graded_class.inbox / name), name
    same = {who: hashes(taken[who]) for who in SAME}  # they came in many ways
    assert len({str({**files, "timestamp.txt": ""}) for files in same.values()}) == 1


def test_the_instructor_sees_no_script(graded_class: GradedClass) -> None:
    """A hostile notebook in formgrader contains nothing that a browser would run."""
    from nbconvert import HTMLExporter

    path = (
        graded_class.classroom.autograded / "scripts_for_the_instructor" / s.ASSIGNMENT / "a2.ipynb"
    )
    exporter = HTMLExporter(config=gradebook.config(graded_class.classroom), template_name="basic")
    body, _ = exporter.from_filename(str(path))
    assert "owned" in body  # it is shown, as text
    for tag in ("<script>owned", "<img src=x", "<svg onload", "<b onclick", "<iframe"):
        assert tag not in body
    assert 'href="javascript' not in body


def test_no_result_names_a_hidden_check(graded_class: GradedClass) -> None:
    """No text for students contains the hidden checks' code or the secret."""
    variants = [v for check in load(s.SHORT, variants=True).values() for v in check.variants]
    kept_secret = {graded_class.classroom.secret(), *(variant.__name__ for variant in variants)}
    assert len(kept_secret) > len(load(s.SHORT))
    for student, graded in graded_class.classroom.results(s.ASSIGNMENT).items():
        text = graded.verdict.model_dump_json(exclude={"log"})
        assert not [word for word in kept_secret if word in text], student
        assert "hidden.py" not in text, student
        assert "forest.hidden" not in text, student
        assert "Traceback" not in "".join(check.rationale for check in graded.verdict.checks)
