"""`workbook submit`: what is found, how the notebook is run, and the zip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from notebook_sample import save, tagged

from tests import files_beside
from workbook.assignments import Assignment, cells, submit
from workbook.common.errors import WorkbookError
from workbook.lab import reader_copy
from workbook.server import Triton

pytestmark = pytest.mark.server


@pytest.fixture
def done(sample: Assignment, release: dict[str, Any]) -> dict[str, Any]:
    """A finished notebook, saved."""
    tagged(release, "a9.root")["source"] = "x = 16\nroot = 4"
    tagged(release, "a9.double")["source"] = "def double(number):\n    return number + number"
    tagged(release, "a9.why")["source"] = 20 * "Because. "
    save(sample, release)
    return release


def command(sample: Assignment, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbook.cli", "submit", *words],
        cwd=folder,
        env={**os.environ, "WORKBOOK_HOME": str(sample.home), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def found(sample: Assignment, *, run: bool = False) -> list[tuple[str, str]]:
    return [(f.level, f.where) for f in submit.check_submission(sample, run=run).findings]


@pytest.mark.quick
def test_finished_work_is_zipped_with_notebook_and_models(
    sample: Assignment, done: dict[str, Any]
) -> None:
    models = sample.handout / "models"
    (models / "forest/1/xgboost.json").write_text("{}")
    (models / "forest/2").mkdir()
    (models / "forest/run.sh").write_text("")
    (models / "forest/run.sh").chmod(0o755)
    (sample.handout / "helper.py").write_text("")
    (models / ".ipynb_checkpoints").mkdir()
    (models / ".ipynb_checkpoints/config.pbtxt").write_text("")
    (models / "forest/1/__pycache__").mkdir()
    (models / "forest/1/__pycache__/model.pyc").write_text("")
    finished = command(sample, sample.handout, "--no-run")
    assert finished.returncode == 0, finished.stderr
    path = sample.handout / "a9__sample.zip"
    assert str(path) in finished.stdout
    assert (
        "The submission holds a9.ipynb, 5 files of the assignment, and 3 files of yours: "
        "helper.py (1 KB), models/forest/1/xgboost.json (1 KB), models/forest/run.sh (1 KB)."
    ) in finished.stderr
    with zipfile.ZipFile(path) as packed:
        assert packed.namelist() == [
            "a9.ipynb",
            "checks.py",  # the course's: this student works in assignments/
            "helper.py",
            "models/forest/1/.gitkeep",
            "models/forest/1/xgboost.json",
            "models/forest/2/",
            "models/forest/config.pbtxt",
            "models/forest/run.sh",
            "run.sh",
            "words.py",
        ]
        assert packed.read("a9.ipynb") == sample.release.read_bytes()
        modes = {i.filename: i.external_attr >> 16 & 0o777 for i in packed.infolist()}
    assert modes["models/forest/run.sh"] == 0o755
    assert modes["a9.ipynb"] == 0o644

    first = path.read_bytes()
    os.utime(sample.release, (1, 1))
    assert command(sample, sample.home, "a9", "--no-run").returncode == 0
    assert path.read_bytes() == first


def test_a_bonus_that_is_not_begun_costs_nothing(
    sample: Assignment, release: dict[str, Any]
) -> None:
    heading = {
        "cell_type": "markdown",
        "id": "bonus",
        "metadata": {},
        "source": "## A bonus: a why",
    }
    place = release["cells"].index(tagged(release, "a9.why"))
    release["cells"].insert(place, heading)
    save(sample, release)
    says = {f.where: f.todo for f in submit.check_submission(sample, run=False).findings}
    assert says["a9.why"] == "It is a bonus: you lose no points by it."
    assert says["a9.root"].startswith("It earns no points as it is.")


def test_the_folder_says_which_assignment_is_meant(sample: Assignment) -> None:
    assert submit.find_assignment(None, sample.handout / "models") == sample
    assert submit.find_assignment("a9", Path("/")) == sample
    with pytest.raises(WorkbookError, match="Which assignment") as caught:
        submit.find_assignment(None, sample.home)
    assert "workbook submit a9" in caught.value.todo


@pytest.fixture
def copy(sample: Assignment) -> Assignment:
    """The reader's own copy, as `make lab` makes it."""
    reader_copy.update(sample.home)
    return Assignment(sample.name, sample.home / "work")


def begin(assignment: Assignment, why: str) -> None:
    """Write the answer of one task."""
    notebook = cells.read(assignment.release)
    tagged(notebook, "a9.why")["source"] = why
    save(assignment, notebook)


def test_the_copy_in_work_is_handed_in_from_anywhere(sample: Assignment, copy: Assignment) -> None:
    begin(copy, "Because.")
    (copy.handout / "models/forest/1/xgboost.json").write_text("{}")
    for folder in (sample.home, copy.home, copy.handout / "models", Path("/")):
        assert submit.find_assignment("a9", folder) == copy
    assert submit.find_assignment(None, copy.handout) == copy
    finished = command(sample, sample.home, "a9", "--no-run")
    assert finished.returncode == 0, finished.stderr
    assert str(copy.handout) in finished.stderr
    assert not (sample.handout / "a9__sample.zip").exists()
    with zipfile.ZipFile(copy.handout / "a9__sample.zip") as packed:
        assert packed.read("a9.ipynb") == copy.release.read_bytes()
        assert "models/forest/1/xgboost.json" in packed.namelist()


def test_the_untouched_release_is_not_handed_in_while_there_is_work(
    sample: Assignment, copy: Assignment
) -> None:
    begin(copy, "Because.")
    assert submit.find_assignment(None, sample.handout) == copy
    assert submit.find_assignment("a9", sample.handout / "models") == copy


def test_who_works_in_assignments_hands_in_from_there(sample: Assignment, copy: Assignment) -> None:
    begin(sample, "Because.")
    assert submit.find_assignment("a9", sample.home) == sample
    assert submit.find_assignment(None, sample.handout) == sample
    begin(copy, "Because of something else.")
    assert submit.find_assignment("a9", sample.home) == copy
    assert submit.find_assignment("a9", sample.handout) == sample


def test_a_copy_without_its_notebook_is_told(sample: Assignment, copy: Assignment) -> None:
    copy.release.unlink()
    assert (
        submit.find_assignment("a9", sample.home)
        == submit.find_assignment(None, copy.handout)
        == copy
    )
    assert found(copy) == [("error", "a9.ipynb")]


def test_a_fresh_copy_has_a_place(
    sample: Assignment, copy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(sample.home))
    copy.release.unlink()
    (copy.handout / "models/forest/config.pbtxt").unlink()
    (missing,) = submit.check_submission(copy, run=False).errors
    assert missing.todo == f"Bring a fresh one: cp {sample.release} {copy.release}"
    copy.release.write_bytes(sample.release.read_bytes())
    missing, not_begun = submit.check_submission(copy, run=False).errors
    assert not_begun.what == "Nothing in this notebook is begun."
    place = "models/forest/config.pbtxt"
    assert missing.todo == f"Bring it back: cp {sample.handout / place} {copy.handout / place}"


def test_a_renamed_notebook_is_found(sample: Assignment, done: dict[str, Any]) -> None:
    """The error names it, and it is not taken silently; of two such notebooks none is chosen."""
    assert submit.renamed(sample) is None
    own = sample.release.rename(sample.handout / "a9 final.ipynb")
    (sample.handout / "notes.ipynb").write_text("{}")
    assert submit.renamed(sample) == own
    finished = command(sample, sample.handout, "--no-run")
    assert finished.returncode == 1
    assert "a9 final.ipynb beside it is a notebook of this assignment" in finished.stderr
    assert "Rename it to a9.ipynb" in finished.stderr
    assert own.exists()
    (sample.handout / "a9 (1).ipynb").write_bytes(own.read_bytes())
    assert submit.renamed(sample) is None


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_the_student_is_asked_for_the_renamed_notebook(
    sample: Assignment, done: dict[str, Any], answer: str, code: int
) -> None:
    """In a terminal; the question has a yes and a no."""
    own = sample.release.rename(sample.handout / "a9 final.ipynb")
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "workbook.cli", "submit", "--no-run"],
        cwd=str(sample.handout),
        env={**os.environ, "WORKBOOK_HOME": str(sample.home), "COLUMNS": "200"},
        timeout=120,
    )
    terminal.expect("Rename it to a9.ipynb")
    terminal.sendline(answer)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == code
    assert sample.release.exists() == (answer == "y") != own.exists()


def test_the_points_that_can_be_had(sample: Assignment, done: dict[str, Any]) -> None:
    passed = submit.Finding("passed", "a9.doubled", "This check passes.")
    sentences = submit.points(submit.Submission(sample, findings=(passed,)))
    most, doubled = sum(sample.checks.values()), sample.checks["a9.doubled"]
    assert sentences.startswith(
        f"1 of {len(sample.checks)} checks pass here; they are worth {doubled:g} of {most:g} points"
    )
    words = sum(sample.written.values())
    assert f"for up to {words:g} of {words:g} points more" in sentences
    empty = submit.Finding("warning", "a9.why", submit._NOT_BEGUN)
    sentences = submit.points(submit.Submission(sample, findings=(passed, empty)))
    assert f"The {words:g} points for answers in words are lost" in sentences


def test_an_answer_of_few_words_is_worth_another_look(
    sample: Assignment, done: dict[str, Any]
) -> None:
    tagged(done, "a9.why")["source"] = "TODO"
    save(sample, done)
    (finding,) = submit.check_submission(sample, run=False).findings
    assert (finding.level, finding.where) == ("warning", "a9.why")
    assert "It has 1 word. A person gives up to 10 points" in finding.what


@pytest.mark.quick
def test_what_is_not_begun_is_a_warning(sample: Assignment) -> None:
    """But a notebook in which nothing is begun is not handed in: another copy is meant."""
    assert found(sample) == [
        ("error", "a9.ipynb"),
        ("warning", "a9.root"),
        ("warning", "a9.double"),
        ("warning", "a9.why"),
    ]
    assert command(sample, sample.handout, "--no-run").returncode == 1
    assert command(sample, sample.handout, "--no-run", "--force").returncode == 0


def test_a_finding_names_its_task_and_the_id_as_it_was_given(
    sample: Assignment, done: dict[str, Any]
) -> None:
    heading = {"cell_type": "markdown", "id": "h", "metadata": {}, "source": "## Task 7: doubled"}
    place = done["cells"].index(tagged(done, "a9.doubled"))
    done["cells"].insert(place, heading)
    own = {"cell_type": "code", "id": "m", "metadata": {}, "outputs": [], "execution_count": None}
    done["cells"].insert(0, own | {"source": 'me = "self-study"'})
    assert submit._tasks(done)["a9.doubled"] == "Task 7"
    assert submit._has_default_id(done)
    done["cells"][0]["source"] = 'me = "anna"'
    assert not submit._has_default_id(done)


def test_a_deleted_check_stops_the_zip_unless_forced(
    sample: Assignment, done: dict[str, Any]
) -> None:
    done["cells"].remove(tagged(done, "a9.doubled"))
    save(sample, done)
    finished = command(sample, sample.handout, "--no-run")
    assert finished.returncode == 1
    assert "a9.doubled is missing" in finished.stderr
    assert "--force" in finished.stderr
    assert not submit.Submission(sample).zip.exists()
    assert command(sample, sample.handout, "--no-run", "--force").returncode == 0
    assert submit.Submission(sample).zip.exists()


def test_missing_files_links_and_odd_names_are_errors(
    sample: Assignment, done: dict[str, Any]
) -> None:
    models = sample.handout / "models"
    (models / "forest/config.pbtxt").unlink()
    (models / "forest/link").symlink_to("/etc/passwd")
    (models / "folder").symlink_to("/etc")
    (models / "a\\b").write_text("")
    os.mkfifo(models / "pipe")
    submission = submit.check_submission(sample, run=False)
    assert {f.where for f in submission.errors} == {
        "models/forest/config.pbtxt",
        "models/forest/link",
        "models/folder",
        "models/a\\\\b",
        "models/pipe",
    }
    assert all(f.todo for f in submission.errors)
    assert [f for f in submission.files if "/" in f] == ["models/forest/1/.gitkeep"]


def test_names_that_are_not_graded_are_a_warning(sample: Assignment, done: dict[str, Any]) -> None:
    models = sample.handout / "models"
    names = ("forest/1/my data.csv", "forest/1/café/x.txt", "forest/1/x$(id).json")
    for name in (*names, "forest/1/model-00001-of-00002.safetensors"):
        (models / name).parent.mkdir(exist_ok=True)
        (models / name).write_text("")
    submission = submit.check_submission(sample, run=False)
    warnings = [f for f in submission.findings if "is not graded" in f.what]
    assert {f.where for f in warnings} == {f"models/{name}" for name in names}
    assert {f.level for f in warnings} == {"warning"}
    assert submission.errors == ()


def test_other_notebooks_and_too_many_files_are_errors(
    sample: Assignment, done: dict[str, Any]
) -> None:
    """A notebook of another assignment in the zip would be graded as handed in."""
    shutil.copy(sample.release, sample.handout / "a9-Copy1.ipynb")
    done["metadata"]["workbook"]["assignment"] = "a3__torchscript"
    (sample.handout / "old.ipynb").write_text(json.dumps(done))
    (sample.handout / "notes.ipynb").write_text("{}")
    (sample.handout / "timestamp.txt").write_text("")
    (sample.handout / "frames").mkdir()
    for number in range(submit.MOST_ENTRIES):
        (sample.handout / f"frames/{number}.txt").touch()
    errors = {f.where: f for f in submit.check_submission(sample, run=False).errors}
    assert set(errors) == {"old.ipynb", "timestamp.txt", "a9__sample"}
    assert "a3__torchscript" in errors["old.ipynb"].what
    assert "frames/ (2,000)" in errors["a9__sample"].todo


def test_too_large_names_the_limit_and_the_biggest_files(
    sample: Assignment, done: dict[str, Any]
) -> None:
    big = sample.handout / "models/forest/1/xgboost.json"
    with big.open("wb") as file:
        file.truncate(submit.LIMIT)
    (error,) = submit.check_submission(sample, run=False).errors
    assert "100 MB are allowed" in error.what
    assert "models/forest/1/xgboost.json (100 MB)" in error.todo


@pytest.mark.parametrize("content", ["", "[]", '{"cells": []}', "\x00"])
def test_what_is_no_notebook_is_an_error(sample: Assignment, content: str) -> None:
    sample.release.write_text(content)
    assert found(sample) == [("error", "a9.ipynb")]


def test_a_missing_notebook_is_an_error(sample: Assignment) -> None:
    sample.release.unlink()
    assert found(sample) == [("error", "a9.ipynb")]


def test_the_notebook_of_another_assignment_is_an_error(
    sample: Assignment, done: dict[str, Any]
) -> None:
    done["metadata"]["workbook"]["assignment"] = "a3__torchscript"
    save(sample, done)
    (error,) = submit.check_submission(sample, run=False).errors
    assert "a3__torchscript" in error.what


def test_without_a_server_the_notebook_is_not_run(
    sample: Assignment, done: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_URL", "http://127.0.0.1:9")
    (error,) = submit.check_submission(sample).errors
    assert "was not run: No server answers at http://127.0.0.1:9" in error.what
    assert "--no-run" in error.todo


@pytest.fixture
def reachable(server: Triton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_URL", server.url)


@pytest.fixture
def left_over(sample: Assignment, server: Triton) -> Iterator[str]:
    """A model of the student's that is on the server, and that no cell deploys."""
    own = sample.handout / "models" / "left_over"
    (own / "1").mkdir(parents=True)
    (own / "1" / "model.py").write_text("class TritonPythonModel:\n    pass\n")
    (own / "config.pbtxt").write_text('backend: "python"\n')
    shutil.copytree(own, server.repository / own.name)
    server.load(own.name)
    yield own.name
    server.unload(own.name)
    shutil.rmtree(server.repository / own.name)


@pytest.mark.usefixtures("reachable")
class TestRun:
    """With a server, in a real kernel."""

    def test_finished_work_runs_in_its_folder(
        self, sample: Assignment, done: dict[str, Any]
    ) -> None:
        """In an ordinary Jupyter kernel, as in JupyterLab, with the files beside the notebook."""
        own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        files_beside.write(sample.handout)
        printed = "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n"
        printed += textwrap.indent(files_beside.CELL, "    ")
        printed += f"\nassert out.getvalue().strip() == {files_beside.PRINTED!r}"
        done["cells"].append(own | {"id": "own", "source": printed})
        save(sample, done)
        before = sample.release.read_bytes()
        seen: list[tuple[int, int]] = []
        submission = submit.check_submission(
            sample, report=lambda done, total: seen.append((done, total))
        )
        assert submission.findings == ()
        assert {*files_beside.NAMES} < {*submission.files}
        assert seen == [(count, 6) for count in range(1, 7)]
        assert sample.release.read_bytes() == before

    def test_an_error_is_found_where_it_is(self, sample: Assignment, done: dict[str, Any]) -> None:
        tagged(done, "a9.double")["source"] = "def double(number):\n    return nubmer"
        tagged(done, "a9.doubled")["metadata"]["tags"] = ["raises-exception"]
        save(sample, done)
        (error,) = submit.check_submission(sample).errors
        assert error.where == "a9.doubled"
        assert "NameError: name 'nubmer' is not defined" in error.what

    def test_an_error_after_a_task_that_is_not_begun_is_a_warning(
        self, sample: Assignment, done: dict[str, Any], release: dict[str, Any]
    ) -> None:
        tagged(done, "a9.root")["source"] = "x = 16\n# Your code here.\nroot = ..."
        tagged(done, "a9.double")["source"] = "def double(number):\n    return root + number"
        save(sample, done)
        assert found(sample, run=True) == [("warning", "a9.root"), ("warning", "a9.doubled")]

    def test_an_error_after_a_bonus_that_is_not_begun_is_an_error(
        self, sample: Assignment, done: dict[str, Any], release: dict[str, Any]
    ) -> None:
        """A bonus need not be done, so it is no excuse for the error."""
        tagged(done, "a9.root")["source"] = "x = 16\n# Your code here.\nroot = ..."
        tagged(done, "a9.double")["source"] = "def double(number):\n    return nubmer"
        task = next(cell for cell in done["cells"] if "".join(cell["source"]) == "## Task 1")
        task["source"] = "## Task 1, a bonus"
        save(sample, done)
        assert ("error", "a9.doubled") in found(sample, run=True)

    def test_an_error_in_a_task_that_was_begun_is_its_own(
        self, sample: Assignment, done: dict[str, Any]
    ) -> None:
        tagged(done, "a9.root")["source"] = "x = 16\n# Your code here.\nroot = ..."
        tagged(done, "a9.double")["source"] = "double = 1 / 0"
        save(sample, done)
        submission = submit.check_submission(sample)
        assert [(f.level, f.where) for f in submission.findings] == [
            ("warning", "a9.root"),
            ("warning", "a9.double"),
            ("warning", "a9.doubled"),
        ]
        assert "correct this one" in submission.findings[1].todo
        assert "could not run" in submission.findings[2].what

    def test_an_error_before_all_that_is_not_begun_is_an_error(
        self, sample: Assignment, release: dict[str, Any]
    ) -> None:
        tagged(release, "a9.root")["source"] = "root = 1 / 0"
        save(sample, release)
        findings = found(sample, run=True)
        assert ("warning", "a9.double") in findings
        assert ("error", "a9.root") in findings

    def test_a_model_that_only_the_server_has_from_before_is_missed(
        self, sample: Assignment, done: dict[str, Any], server: Triton, left_over: str
    ) -> None:
        """The server that gives marks has only the models that the notebook deploys."""
        (error,) = submit.check_submission(sample).errors
        assert error.where == f"models/{left_over}"
        assert f'deploy("models/{left_over}")' in error.todo
        assert server.ready(left_over)  # as it was before

    @pytest.mark.parametrize(
        ("status", "level", "words"),
        [
            ("passed", "passed", "passes"),
            ("failed", "warning", "does not pass: Row 3 is wrong."),
            ("not attempted", "warning", "Not attempted: Row 3 is wrong."),
        ],
    )
    def test_each_check_that_ran_is_listed(
        self,
        status: str,
        level: str,
        words: str,
        sample: Assignment,
        done: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("WORKBOOK_HOME", str(sample.home))
        reports = sample.home / ".workbook/reported/a9"
        reports.mkdir(parents=True)
        (reports / "a9.root_is_right.json").write_text("{}")  # of an earlier run
        result = {"status": status, "rationale": "Row 3 is wrong.", "help": "Look at row 3."}
        path, report = str(reports / "a9.doubled.json"), json.dumps({"result": result})
        written = f"from pathlib import Path\nPath({path!r}).write_text({report!r})"
        own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        done["cells"].append(own | {"id": "own", "source": written})
        save(sample, done)
        submission = submit.check_submission(sample)
        assert [(f.level, f.where) for f in submission.findings] == [(level, "a9.doubled")]
        assert words in submission.findings[0].what
        assert not submission.errors

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"result": null}', '{"result": {}}'])
    def test_a_report_that_is_none_is_passed_over(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "a9.doubled.json"
        path.write_text(text)
        assert list(submit._outcome("a9.doubled", submit._read_result(path))) == []

    def test_a_kernel_that_ends_is_an_error(
        self, sample: Assignment, done: dict[str, Any], server: Triton, left_over: str
    ) -> None:
        tagged(done, "a9.root")["source"] = "import os\nos._exit(1)"
        save(sample, done)
        (error,) = submit.check_submission(sample).errors
        assert error.where == "a9.root"
        assert "kernel ended" in error.what
        assert server.ready(left_over)

    def test_a_cell_without_an_end_is_an_error(
        self,
        sample: Assignment,
        done: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch,
        server: Triton,
        left_over: str,
    ) -> None:
        monkeypatch.setattr(submit, "CELL_SECONDS", 2)
        tagged(done, "a9.root")["source"] = "while True: pass"
        save(sample, done)
        (error,) = submit.check_submission(sample).errors
        assert error.where == "a9.root"
        assert "took more than" in error.what
        assert server.ready(left_over)
