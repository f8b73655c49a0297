"""Every task of the lectures, on a real server: not done at the start, done with its solution."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workbook.lessons import laboratory, tasks, units
from workbook.notebooks import building
from workbook.server import Server, Triton

LECTURES = [lecture.source for lecture in building.lectures()]

each_task = pytest.mark.parametrize("id", tasks.ids())


@pytest.fixture
def begun(id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server on which the reader begins; `laboratory` and its traces are those of the test."""
    assert callable(laboratory)  # what the tasks start their servers with
    monkeypatch.setenv("WORKBOOK_UNATTENDED", "1")
    folder = tmp_path / "models"
    folder.mkdir()
    server = tasks.find(id).start(folder)
    yield server
    inside = units.load(units.find("12__in_process"), "setup").Inside
    if isinstance(server, Triton | inside):
        server.stop()


@pytest.mark.server
@each_task
def test_a_task_is_to_do_at_first_and_done_by_its_solution(
    id: str, begun: Server, tmp_path: Path
) -> None:
    task, models = tasks.find(id), tmp_path / "models"
    missing = task.missing(begun, models=models)
    assert missing, "It is done before the reader has begun."
    tasks.solve(id, begun, models)
    assert lacks(task, begun, models) == ""
    assert lacks(task, begun, models) == "", "It was done, and looking undid it."


def lacks(task: tasks.Task, server: Server, models: Path) -> str:
    """What is missing at the last of three checks: other tests can disturb a measurement."""
    for _ in range(3):
        if not (missing := task.missing(server, models=models)):
            break
    return missing


@each_task
def test_hints_and_words_of_a_task(id: str) -> None:
    """Hints go from a direction to a step, and none is the solution."""
    task = tasks.find(id)
    assert id.count(".") == 1
    assert 2 <= len(task.hints) <= 5
    assert len(set(task.hints)) == len(task.hints)
    for text in [task.sentence, *task.hints]:
        assert text[-1] in ".?!:`", text
        assert task.solution.strip() not in text


@each_task
def test_a_task_is_set_in_one_lecture(id: str) -> None:
    call = re.compile(rf'^task\("{re.escape(id)}"', re.MULTILINE)
    asking = [path.parent for path in LECTURES if call.search(path.read_text("utf-8"))]
    assert asking == [Path(tasks.find(id).check.__code__.co_filename).parent]


#: Task → an answer that looks right but is wrong, and the task's message for it.
ALMOST = {
    "python.verdict": (
        """
        from workbook.lessons import tasks
        right = tasks.find("python.verdict").solution
        exec(right.replace("> self.thr", ">= self.thr"))
        """,
        "[[0.0, 0.5]] got ['sharp'], not ['blurred']",
    ),
    "environments.strict": (
        """
        import setup
        other = models / "other"
        setup.create(other)
        setup.install(other, setup.wheel(models, "2.0"))
        setup.share_packages(other)
        setup.use(models / "strict", str(other.resolve()))
        server.unload("strict")
        server.load("strict")
        """,
        "strict uses an environment outside of its folder",
    ),
    "onnxruntime.frozen": (
        """
        file = models / "frozen/config.pbtxt"
        write(file, file.read_text().replace("[ 1, 3, 64, 64 ]", "[ 3, 64, 64 ]"))
        try:
            server.load("frozen")
        except Exception as error:
            print(error)
        """,
        "where that is refused, the server goes on with the config before",
    ),
}


@pytest.mark.server
@pytest.mark.parametrize("id", ALMOST)
def test_what_looks_right_is_not_done(id: str, begun: Server, tmp_path: Path) -> None:
    code, message = ALMOST[id]
    tasks.solve(id, begun, tmp_path / "models", code)
    assert message in tasks.find(id).missing(begun, models=tmp_path / "models")


@pytest.mark.server
def test_the_camera_s_first_file_is_not_done_where_no_verdict_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many verdicts a file in fp16 changes depends on the machine; its deviations do not."""
    same_answers = units.load(units.find("13__does_it_still_answer_the_same"), "task")
    monkeypatch.setattr(same_answers, "_CHANGED", 9)
    server = same_answers.start(tmp_path)
    try:
        assert "A score differs by up to" in tasks.find("same_answers.camera").missing(server)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("name", "unit", "function", "more"),
    [
        ("strict", "03__python_environments", "setup.strict", ()),
        ("scaled", "04__pytorch", "setup.scaled", ()),
        ("frozen", "05__onnxruntime", "setup.frozen", ()),
        ("lone", "06__openvino", "setup.lone", ("focus_openvino",)),
        ("unsure", "07__tensorflow", "setup.two_signatures", (lambda image: image,)),
        ("ir", "01__map_of_backends", "setup.borrowed", ()),
    ],
)
def test_a_task_that_is_begun_anew_keeps_the_readers_work(
    name: str, unit: str, function: str, more: tuple[Any, ...], tmp_path: Path
) -> None:
    for folder in (name, "trees"):  # the map's task has two models
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.pbtxt").write_text("mine")
    made_by(unit, function)(tmp_path, *more)
    assert [path.name for path in (tmp_path / name).iterdir()] == ["config.pbtxt"]
    assert (tmp_path / name / "config.pbtxt").read_text() == "mine"


@pytest.mark.parametrize(
    ("unit", "function", "file"),
    [
        ("08__fil", "setup.pickled", "pickled/config.pbtxt"),
        ("09__dali", "setup.front", "front/1/dali.py"),
        pytest.param(  # builds the network where it is not there
            *("11__llm_backends", "task.assistant", "assistant/1/model.json"),
            marks=pytest.mark.server,
        ),
    ],
)
def test_a_reader_s_work_on_a_task_is_kept(
    unit: str, function: str, file: str, tmp_path: Path
) -> None:
    """A cell that writes a task's folder may be run again."""
    write = made_by(unit, function)
    write(tmp_path)
    (tmp_path / file).write_text("mine")
    write(tmp_path)
    assert (tmp_path / file).read_text() == "mine"


def made_by(unit: str, function: str) -> Callable[..., Any]:
    """A function that writes a task's starting state, e.g. `setup.pickled` of `08__fil`."""
    module, name = function.split(".")
    found: Callable[..., Any] = getattr(units.load(units.find(unit), module), name)
    return found
