"""A class that is graded for the first time, in `grader/work`, where an instructor's class lies.

Its submissions hold Python files beside the notebook and in the models' folders. Nobody may
compile them there, and no compiled file is part of a submission.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import psutil
import pytest

from grader.classroom import autograde
from grader.classroom.classroom import Classroom
from grader.judge import grade_submission
from grader.judge.grade_submission import Settings
from tests.attacks import submissions as s
from workbook import assignments

pytestmark = [pytest.mark.server, pytest.mark.quick]

SETTINGS = Settings(secret="x", wall_s=240, cell_s=60)
ASSIGNMENT = assignments.named(s.ASSIGNMENT)
#: The most memory of a grading process outside of sandboxes. An idle one takes 0.25 GB.
MOST_BYTES = 900 << 20
#: Five megabytes of Python. `compile` takes 2 GB for the first.
HOSTILE = {
    "long.py": "x = " + "+".join(["a"] * 2_500_000) + "\n",
    "nested.py": "x = " + "(" * 100 + "-" * 5_000_000 + "1" + ")" * 100 + "\n",
    "dict.py": "x = {" + "1:(1,)," * 700_000 + "}\n",
}


def helper(folder: Path, text: str, *, models: bool = False) -> None:
    """Write helper.py where a student may have it.

    Args:
        folder: the submission's.
        text: the content of the file.
        models: write it into the folders of models too. No assignment's server accepts such a
            model.
    """
    places = [folder, folder / "models", *(folder.glob("models/*/1") if models else ())]
    for place in places:
        (place / "helper.py").write_text(f"WHO = {text!r}\n\n\ndef who():\n    return WHO\n")


class Watch:
    """Watches the memory of this process's children outside of sandboxes, until it is stopped."""

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                try:
                    if Path(f"/proc/{process.pid}/ns/pid").readlink() == OWN:  # in no sandbox
                        self.most = max(self.most, process.memory_info().rss)
                except (psutil.Error, OSError):
                    continue


OWN = Path("/proc/self/ns/pid").readlink()


@pytest.fixture(scope="module")
def graded(class_home_of_module: Path) -> tuple[Classroom, autograde.Outcome, Watch]:
    """Three students in one process, in one run. No module of the course is compiled before."""
    classroom = Classroom(class_home_of_module)

    def folder(student: str) -> Path:
        place = classroom.submission(student, ASSIGNMENT.name)
        place.parent.mkdir(parents=True)
        return place

    helper(s.solution(folder("anna")), "anna")
    helper(s.release(folder("dora")), "dora", models=True)
    hostile = s.release(folder("eve"))
    for name, text in HOSTILE.items():
        (hostile / name).write_text(text)
    with Watch() as watch:
        outcome = autograde.autograde(classroom, ASSIGNMENT, SETTINGS, workers=1)
    return classroom, outcome, watch


@pytest.mark.timeout(900)
def test_everybody_is_graded_in_the_first_run(
    graded: tuple[Classroom, autograde.Outcome, Watch],
) -> None:
    classroom, outcome, _ = graded
    assert outcome.failed == outcome.unwritten == {}, outcome
    assert outcome.graded == ("anna", "dora", "eve")
    for student, result in classroom.results(ASSIGNMENT.name).items():
        credit = 1.0 if student == "anna" else 0.0
        assert {check.credit for check in result.verdict.checks} == {credit}, (
            student,
            result.verdict,
        )
        assert autograde.NOT_GRADED not in {flag.kind for flag in result.verdict.flags}
    again = autograde.autograde(classroom, ASSIGNMENT, SETTINGS, workers=1)
    assert again.graded == ()


def test_nothing_is_written_beside_what_was_handed_in(
    graded: tuple[Classroom, autograde.Outcome, Watch],
) -> None:
    classroom, _, _ = graded
    assert not list(classroom.submitted.rglob("*.pyc"))


def test_no_process_outside_of_a_sandbox_takes_the_memory_of_a_hostile_file(
    graded: tuple[Classroom, autograde.Outcome, Watch],
) -> None:
    _, _, watch = graded
    assert 50 << 20 < watch.most < MOST_BYTES, f"{watch.most >> 20} MiB"


def test_compiled_files_and_clutter_change_no_key_and_are_not_packed(tmp_path: Path) -> None:
    one, other = s.release(tmp_path / "one"), s.release(tmp_path / "other")
    for place in (other, other / "models/forest/1"):
        place.mkdir(parents=True, exist_ok=True)
        (one / place.relative_to(other)).mkdir(parents=True, exist_ok=True)
        for clutter in ("__pycache__/helper.cpython-311.pyc", "old.pyc", ".DS_Store"):
            (place / clutter).parent.mkdir(exist_ok=True)
            (place / clutter).write_bytes(os.urandom(8))
    keys = {grade_submission.key(work, s.ASSIGNMENT, SETTINGS) for work in (one, other)}
    assert len(keys) == 1
    for path in one.rglob("*"):  # a tar contains the times
        twin = other / path.relative_to(one)
        shutil.copystat(path, twin)
    assert autograde._pack(one) == autograde._pack(other)
