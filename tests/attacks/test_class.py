"""A class of honest, mistaken and hostile students, graded by the command that instructors use.

The run is killed with -9 in the middle, taken up again, and run twice more. Everything that the
tests below look at comes from that: stored results, nbgrader's gradebook, feedback, the machine.
"""

from __future__ import annotations

import contextlib
import os
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
from grader.checks.results import Graded
from grader.classroom import autograde, gradebook
from grader.classroom.classroom import Classroom
from tests.mutants.a2 import MUTANTS, Mutant
from workbook.common import paths

from . import a2
from . import submissions as s
from .a2 import ATTACKS, CANARY, MARK, Attack

HONEST = ("anna", "bela")
IDLE = "zoe"
#: Some mutants; all of them are tried, faster, in tests/grader/test_a2.py.
WRONG = {f"mutant_{number}": mutant for number, mutant in enumerate(MUTANTS) if number % 5 == 0}
#: The whole notebook, and one cell of it.
LIMITS = ["--notebook-seconds", "240", "--cell-seconds", "60"]
TOTAL = 90  # points that a machine gives; 10 more are a person's


def mutate(folder: Path, mutant: Mutant) -> None:
    """Make a mutant of a solution."""
    mutant.edit_files(folder)

    def change(notebook: s.nbformat.NotebookNode) -> None:
        for cell in notebook.cells:
            id = cell.metadata.get("nbgrader", {}).get("grade_id", "").replace("-", ".")
            cell.source = mutant.edit_cell(id, cell.source)

    s.edit(folder, change)


def zips(inbox: Path) -> None:
    """Entries that are hostile before anything of them runs."""
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


ZIPS = ("zip_climbs", "zip_explodes", "zip_links", "zip_is_none", "folder_links")


class Room:
    """The instructor's classroom after the class was graded, and what was seen meanwhile."""

    def __init__(self, home: Path) -> None:
        self.classroom = Classroom(home / "work")
        self.inbox = home / "inbox"
        self.inbox.mkdir(parents=True)
        self.calls: list[str] = []
        self.killed_with = 0
        self.graded_later = 0
        self.again = ""
        self._environment = {
            **os.environ,
            "GRADER_WORK": str(self.classroom.home),
            "GRADER_TOKEN": CANARY,
        }

    def fill(self, port: int) -> None:
        """Write all submissions, and the canary where no submission may look."""
        for name in HONEST:
            s.solution(self.inbox / name)
        (self.inbox / HONEST[1] / "diary.txt").write_text(CANARY)
        self.classroom.home.mkdir(parents=True)
        (self.classroom.home / "notes.txt").write_text(CANARY)
        s.release(self.inbox / IDLE)
        for name, mutant in WRONG.items():
            mutate(s.solution(self.inbox / name), mutant)
        for attack in ATTACKS:
            folder = a2.make(attack, self.inbox / attack.name)
            if attack.name == "calls_home":
                (folder / "port.txt").write_text(str(port))
        zips(self.inbox)

    def start(self) -> subprocess.Popen[str]:
        """`grader autograde`, as an instructor calls it."""
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
        """What nbgrader's gradebook says: the points that the machine gave."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.classroom.gradebook}") as book:
            return float(book.find_submission(s.ASSIGNMENT, student).score)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """The class, graded: killed in the middle, taken up again, and run until nothing is left."""
    if (problem := sandbox.probe().error) is not None:
        pytest.skip(str(problem))
    room = Room(tmp_path_factory.mktemp("class"))
    with listening(room.calls) as port:
        room.fill(port)
        running = room.start()
        while len(room.stored()) < 8 and running.poll() is None:
            time.sleep(0.2)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        before = room.stored()
        room.killed_with = len(before)
        running = room.start()
        said, _ = running.communicate(timeout=1_500)
        assert running.returncode in (0, 3), said
        after = room.stored()
        assert settled(before).items() <= after.items(), "graded twice"
        room.graded_later = len(after) - len(before)
        running = room.start()  # tries once more what may have been the machine's doing
        running.communicate(timeout=600)
        final = room.stored()
        assert settled(after).items() <= final.items(), "graded twice"
        running = room.start()
        room.again, _ = running.communicate(timeout=120)
        assert room.stored() == final
    return room


def settled(stored: dict[str, bytes]) -> dict[str, bytes]:
    """The results that no later run may touch."""
    return {
        name: content
        for name, content in stored.items()
        if autograde.settled(Graded.model_validate_json(content))
    }


@contextlib.contextmanager
def listening(calls: list[str]) -> Iterator[int]:
    """A server on this machine that should hear from nobody; yields its port."""
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


pytestmark = [pytest.mark.timeout(1_800), pytest.mark.usefixtures("room")]


def lost(graded: Graded) -> set[str]:
    """The checks that earned nothing or not everything."""
    return {check.id for check in graded.verdict.checks if check.credit < 1}


def test_nothing_is_lost_or_graded_twice(room: Room) -> None:
    """A kill in the middle costs at most the submissions that were being graded."""
    assert room.killed_with >= 8
    assert room.graded_later > 0
    everybody = {*HONEST, IDLE, *WRONG, *(attack.name for attack in ATTACKS), *ZIPS}
    assert set(room.classroom.results(s.ASSIGNMENT)) == everybody
    assert "0 graded" in room.again


@pytest.mark.parametrize("student", HONEST)
def test_the_solution_gets_everything(room: Room, student: str) -> None:
    graded = room.of(student)
    assert lost(graded) == set(), graded.verdict
    assert graded.verdict.flags == ()
    assert room.points(student) == TOTAL


def test_the_release_gets_nothing(room: Room) -> None:
    """Exactly 0, and nothing of it is called wrong."""
    graded = room.of(IDLE)
    assert {check.status for check in graded.verdict.checks} == {"not attempted"}
    assert room.points(IDLE) == 0


@pytest.mark.parametrize("student", WRONG)
def test_a_mutant_fails_what_it_should(room: Room, student: str) -> None:
    mutant = WRONG[student]
    results = {check.id: check for check in room.of(student).verdict.checks}
    assert lost(room.of(student)) == set(mutant.fails), room.of(student).verdict
    for id, words in mutant.fails.items():
        said = f"{results[id].rationale} {results[id].help}"
        assert words in said or results[id].status in ("waits", "not attempted"), said


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gains_nothing(room: Room, attack: Attack) -> None:
    """Its marks are those of the work in it, it saw nothing, and the report flags it."""
    graded = room.of(attack.name)
    everything = {check.id for check in graded.verdict.checks}
    expected = {"all": everything, "none": set()}.get(str(attack.lost), attack.lost)
    assert lost(graded) == expected, graded.verdict
    if attack.lost == "all":
        assert {check.credit for check in graded.verdict.checks} == {0}
        assert room.points(attack.name) == 0
    kinds = {flag.kind for flag in graded.verdict.flags}
    assert attack.flags <= kinds, graded.verdict.flags
    shown = a2.outputs(graded.notebook)
    assert attack.says in shown
    assert "LEAK" not in shown


@pytest.mark.parametrize("student", ZIPS)
def test_a_hostile_entry_earns_nothing_and_says_why(room: Room, student: str) -> None:
    graded = room.of(student)
    assert {check.credit for check in graded.verdict.checks} == {0}
    assert graded.verdict.flags
    assert room.points(student) == 0
    page = (room.classroom.submission(student, s.ASSIGNMENT)).resolve()
    assert page.is_relative_to(room.classroom.home.resolve())


def test_nobody_called_home(room: Room) -> None:
    assert room.calls == []


def test_nothing_was_left_behind(room: Room) -> None:
    """No process, no climbed file, no sandbox, no cgroup."""
    own = psutil.Process()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        assert MARK not in words
        if process.pid != own.pid and str(room.classroom.home) in " ".join(words):
            pytest.fail(f"{words} still runs")
    assert not Path("/tmp/climbed.txt").exists()
    assert not Path("/tmp/owned").exists()
    assert not list(room.inbox.parent.rglob("climbed.txt"))


def test_the_course_is_as_it_was(room: Room) -> None:
    """No submission wrote into the checkout."""
    for path in ("workbook/common/errors.py", "grader/checks/define.py"):
        assert (paths.root() / path).read_text() != "changed"
    status = subprocess.run(
        ["git", "status", "--porcelain", "--", "grader/checks/hidden", "solutions", "assignments"],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "climb" not in status.stdout


def test_the_instructor_sees_no_script(room: Room) -> None:
    """What formgrader shows of a hostile notebook holds nothing that a browser would run."""
    from nbconvert import HTMLExporter

    path = room.classroom.autograded / "scripts_for_the_instructor" / s.ASSIGNMENT / "a2.ipynb"
    exporter = HTMLExporter(config=gradebook.config(room.classroom), template_name="basic")
    body, _ = exporter.from_filename(str(path))
    assert "owned" in body  # it is shown, as text
    for tag in ("<script>owned", "<img src=x", "<svg onload", "<b onclick", "<iframe"):
        assert tag not in body
    assert 'href="javascript' not in body


def test_no_result_names_a_hidden_check(room: Room) -> None:
    """Nothing that a student gets to read tells of the hidden checks' code or of the secret."""
    secret = room.classroom.secret()
    for student, graded in room.classroom.results(s.ASSIGNMENT).items():
        text = graded.verdict.model_dump_json()
        assert secret not in text, student
        assert "grader/checks/hidden" not in text, student
        assert "Traceback" not in "".join(check.rationale for check in graded.verdict.checks)
