"""Predictions with an explanation per wrong option, curves that readers draw, tasks with hints."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from workbook import lessons
from workbook.common.errors import WorkbookError
from workbook.lessons import Premise, cards, task_card, tasks

HOLDS = Premise(True, "nothing")
SKY = {"blue": None, "green": "You thought of grass.", "red": "You thought of the evening."}


# -- a word on each wrong option -----------------------------------------------------------------


def test_a_wrong_option_gets_its_own_word(shown: list[Any]) -> None:
    lessons.predict("sky", "Which colour?", SKY)
    field = shown[1].children[0]
    assert field.options == ("blue", "green", "red")
    field.value = "green"
    lessons.compare("sky", "blue", premise=HOLDS)
    assert str(shown[-1]) == (
        "⇄ Compare: Not what you said.\n  you said: green\n  measured here: blue\n"
        "  You thought of grass."
    )
    field.value = "red"
    assert "You thought of the evening." in str(shown[-1])
    field.value = "blue"
    assert "You were right." in str(shown[-1])
    assert "You thought" not in str(shown[-1])


def test_where_the_run_differs_from_most_the_reader_is_told(shown: list[Any]) -> None:
    lessons.predict("sky", "Which colour?", SKY)
    shown[1].children[0].value = "blue"
    lessons.compare("sky", "green", premise=HOLDS)
    assert "On most machines this is the right answer." in str(shown[-1])


def test_without_a_reader_the_words_are_folds(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lessons.UNATTENDED, "1")
    lessons.predict("sky", "Which <colour>?", SKY)
    lessons.compare("sky", "blue", premise=HOLDS)
    assert "Which &lt;colour&gt;?" in shown[0]._repr_html_()
    page = shown[1]._repr_html_()
    assert "<details><summary>You said “green”?</summary>You thought of grass.</details>" in page
    assert "You said “blue”?" not in page


@pytest.mark.parametrize("options", [{"a": None, "b": None}, {"a": "no", "b": "no"}])
def test_exactly_one_option_is_right(shown: list[Any], options: dict[str, str | None]) -> None:
    with pytest.raises(WorkbookError, match="must be the right one"):
        lessons.predict("sky", "Which?", options)


def test_a_comparison_with_something_that_is_no_option_is_an_error(shown: list[Any]) -> None:
    lessons.predict("sky", "Which?", SKY)
    with pytest.raises(WorkbookError, match="'pink' is no option"):
        lessons.compare("sky", "pink", premise=HOLDS)


def test_code_in_a_sentence_is_set_as_code() -> None:
    assert cards.as_html("Load `a<b`, then `c`.") == (
        "Load <code>a&lt;b</code>, then <code>c</code>."
    )


# -- a curve -------------------------------------------------------------------------------------


def draw(box: Any, values: list[float]) -> None:
    sliders, _, below = box.children
    for slider, value in zip(sliders.children, values, strict=True):
        slider.value = value
    below.children[0].click()


def lines(figure: Any) -> dict[str, list[float]]:
    return {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}


def test_a_curve_is_drawn_kept_and_compared(shown: list[Any]) -> None:
    lessons.predict_curve("load", "How?", x=[10, 20, 40], y_range=(0, 100), unit="ms", below="load")
    box = shown[1]
    assert [slider.value for slider in box.children[0].children] == [0, 0, 0]
    assert lessons.remembered_curve("load") is None
    lessons.compare_curve("load", [10, 20, 40], [10, 21, 80], premise=HOLDS)
    assert "not drawn a curve yet" in str(shown[2])
    assert lines(shown[3]) == {"measured here": [10, 21, 80]}
    draw(box, [10, 20, 40])
    assert lessons.remembered_curve("load") == ([10, 20, 40], [10, 20, 40])
    assert str(shown[4]).endswith("Farthest apart at 40: you said 40 ms, measured 80 ms.")
    assert lines(shown[5]) == {"measured here": [10, 21, 80], "you said": [10, 20, 40]}
    draw(box, [11, 20, 80])
    assert "close everywhere" in str(shown[6])
    lessons.predict_curve("load", "How?", x=[10, 20, 40], y_range=(0, 100))
    assert [slider.value for slider in shown[-1].children[0].children] == [11, 20, 80]


def test_a_curve_without_a_reader_shows_the_measured_one_alone(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons.predict_curve("load", "How?", x=[1, 2], y_range=(0, 9), unit="ms", below="load")
    draw(shown[1], [3, 4])
    monkeypatch.setenv(lessons.UNATTENDED, "1")
    lessons.predict_curve("load", "How?", x=[1, 2], y_range=(0, 9), unit="ms", below="load")
    assert "load = 1, 2; values from 0 to 9 ms." in str(shown[-1])
    lessons.compare_curve("load", [1, 2], [5, 6], premise=HOLDS)
    assert lines(shown[-1]) == {"measured here": [5, 6]}
    with pytest.raises(WorkbookError, match="does not show it"):
        lessons.compare_curve("load", [1, 2], [5, 6], premise=Premise(False, "it was busy"))


@pytest.mark.parametrize(
    ("x", "y_range"), [([1], (0, 1)), (list(range(9)), (0, 1)), ([1, 2], (1, 1))]
)
def test_curves_that_cannot_be_drawn(
    shown: list[Any], x: list[float], y_range: tuple[float, float]
) -> None:
    with pytest.raises(WorkbookError, match="cannot be drawn"):
        lessons.predict_curve("load", "How?", x=x, y_range=y_range)


# -- tasks ---------------------------------------------------------------------------------------


class Folder:
    """A server that answers from a folder: a model is ready when its config is there."""

    def __init__(self, models: Path) -> None:
        self.models = models

    def ready(self, name: str) -> bool:
        return (self.models / name / "config.pbtxt").is_file()

    def load(self, name: str) -> None:
        assert self.ready(name)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a task that is defined for one test."""
    monkeypatch.setattr(tasks, "_tasks", {})

    @tasks.define(
        "made_up.cube",
        hints=("Look into the folder.", "It lacks a config.", "Write config.pbtxt."),
    )
    def cube(server: Any, models: Path) -> None:
        """Make `cube`
        answer."""
        assert models == server.models
        if not server.ready("cube"):
            raise tasks.NotYet("`cube` is not ready.")

    return "made_up.cube"


def test_a_task_turns_green_when_the_server_says_so(
    shown: list[Any], task: str, tmp_path: Path
) -> None:
    server: Any = Folder(tmp_path)
    task_card.task(task, server=server, models=tmp_path)
    (widget,) = shown
    state, buttons, _ = widget.children
    again, hint = buttons.children
    not_yet = "<div>Not yet: <code>cube</code> is not ready.</div>"
    assert "☐</span> Your turn</b> Make <code>cube</code> answer." in state.value
    assert not_yet in state.value
    again.click()
    assert not_yet in state.value
    tasks.solve(task, server, tmp_path, """write(models / "cube/config.pbtxt", "")""")
    again.click()
    assert "✓</span> Done</b> Make <code>cube</code> answer." in state.value
    assert "Not yet" not in state.value
    assert not hint.disabled


def test_a_disturbed_measurement_says_neither_done_nor_not_yet(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_tasks", {})

    @tasks.define("made_up.fast", hints=("a", "b"))
    def fast(server: Any) -> None:
        """Answer fast."""
        raise tasks.CannotTell("It took 1 to 9 ms.")

    server: Any = object()
    task_card.task("made_up.fast", server=server)
    state = shown[0].children[0].value
    assert "↻</span> Your turn</b> Answer fast." in state
    assert "Cannot tell: It took 1 to 9 ms. The machine was busy. Look again" in state
    assert "Not yet" not in state


def test_hints_come_one_by_one(shown: list[Any], task: str, tmp_path: Path) -> None:
    server: Any = Folder(tmp_path)
    task_card.task(task, server=server, models=tmp_path)
    _, buttons, below = shown[0].children
    hint = buttons.children[1]
    assert (hint.description, below.value) == ("Hint 1 of 3", "")
    hint.click()
    assert (hint.description, below.value) == (
        "Hint 2 of 3",
        '<ol style="line-height:1.5"><li>Look into the folder.</li></ol>',
    )
    hint.click()
    hint.click()
    assert (hint.description, hint.disabled) == ("Hint 3 of 3", True)
    assert below.value.endswith("<li>It lacks a config.</li><li>Write config.pbtxt.</li></ol>")


def test_a_solution_may_be_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tasks, "_tasks", {})

    @tasks.define(
        "made_up.copied",
        hints=("a", "b"),
    )
    def copied(server: Any) -> None:
        """Copy it."""
        if not server.ready("b"):
            raise tasks.NotYet("b is missing.")

    lessons.write(tmp_path / "a/config.pbtxt", "")
    server: Any = Folder(tmp_path)
    assert tasks.find("made_up.copied").missing(server, models=tmp_path) == "b is missing."
    code = """
        shutil.copytree(models / "a", models / "b")
        lab.load("b")
    """
    tasks.solve("made_up.copied", server, tmp_path, code)
    assert tasks.find("made_up.copied").missing(server, models=tmp_path) == ""
    shutil.rmtree(tmp_path / "b")
    assert tasks.find("made_up.copied").missing(server) == "b is missing."


def test_what_the_server_refuses_is_not_done(task: str) -> None:
    class Gone:
        models = Path()

        def ready(self, name: str) -> bool:
            raise WorkbookError("No server answers.", todo="Start it.")

    server: Any = Gone()
    assert "No server answers." in tasks.find(task).missing(server, models=Path())


@pytest.mark.parametrize("id", ["nothing.here", "made_up.sphere"])
def test_a_task_that_is_not_there(task: str, id: str) -> None:
    with pytest.raises(WorkbookError, match="There is no task"):
        tasks.find(id)
