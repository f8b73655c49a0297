"""Every task of the lectures, on a real server: not done where the reader begins, done after."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbook.common import paths
from workbook.lessons import laboratory, tasks
from workbook.lessons.setups import in_process
from workbook.server import Server, Triton

LECTURES = sorted((paths.root() / "lectures").glob("**/[0-9][0-9]__*.py"))

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
    if isinstance(server, Triton | in_process.Inside):
        server.stop()


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
    """What is missing at the last of three looks: some tasks measure, and other tests run."""
    for _ in range(3):
        if not (missing := task.missing(server, models=models)):
            break
    return missing


@each_task
def test_hints_and_words_of_a_task(id: str) -> None:
    """Hints go from a direction to a step, and none is the solution."""
    task = tasks.find(id)
    assert id.count(".") == 1
    assert task.check.__module__.endswith(f".tasks.{id.partition('.')[0]}")
    assert 2 <= len(task.hints) <= 5
    assert len(set(task.hints)) == len(task.hints)
    whole = [task.solution] if isinstance(task.solution, str) else task.solution.values()
    for text in [task.sentence, *task.hints]:
        assert text[-1] in ".?!:`", text
        assert not any(solution.strip() in text for solution in whole)


@each_task
def test_a_task_is_set_in_one_lecture(id: str) -> None:
    call = re.compile(rf'^task\("{re.escape(id)}"', re.MULTILINE)
    assert sum(bool(call.search(path.read_text("utf-8"))) for path in LECTURES) == 1
