"""Every task of the lectures, on a real server: not done at the start, done with its solution."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lectures.wrong_answers import ALMOST, ALSO_RIGHT
from workbook.lessons import laboratory, tasks, units
from workbook.notebooks import building
from workbook.server import Server, Triton

LECTURES = [lecture.source for lecture in building.lectures()]

each_task = pytest.mark.parametrize("id", tasks.ids())
#: The first wrong answer to each task; `make mutants` tries the others, too.
_FIRST = {wrong.task: wrong for wrong in reversed(ALMOST)}
WRONG = [
    pytest.param(
        *wrong, id=wrong.task, marks=[] if wrong is _FIRST[wrong.task] else pytest.mark.long
    )
    for wrong in ALMOST
]


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


@pytest.mark.server
@pytest.mark.parametrize(("id", "code", "said"), WRONG)
def test_what_looks_right_is_not_done(
    id: str, code: str, said: str, begun: Server, tmp_path: Path
) -> None:
    tasks.solve(id, begun, tmp_path / "models", code)
    task = tasks.find(id)
    for _ in range(3):  # other tests can disturb a measurement
        lack = task.look(begun, models=tmp_path / "models")
        assert lack is not None, "It looks right, and it is said to be done."
        if not isinstance(lack, tasks.CannotTell):
            break
    assert said in str(lack)


@pytest.mark.server
@pytest.mark.parametrize(("id", "code"), ALSO_RIGHT.items(), ids=list(ALSO_RIGHT))
def test_another_right_answer_is_done(id: str, code: str, begun: Server, tmp_path: Path) -> None:
    tasks.solve(id, begun, tmp_path / "models", code)
    assert lacks(tasks.find(id), begun, tmp_path / "models") == ""


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
