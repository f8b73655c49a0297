"""The parts of lectures: predictions, premises, claims, folders, the syllabus, the diagrams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from nbconvert import HTMLExporter

from workbook import lessons
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import Premise, premises, syllabus
from workbook.notebooks import building, executing

HOLDS = Premise(True, "nothing")


def _field(box: Any) -> Any:
    first = box.children[0]
    return getattr(first, "children", [first])[0]


def test_a_number_is_remembered_and_compared(shown: list[Any]) -> None:
    lessons.predict("a.gain", "How much?", unit="×")
    field, note = _field(shown[1]), shown[1].children[1]
    field.value = "much"
    assert "is not a number" in note.value
    assert lessons.remembered("a.gain") is None
    field.value = "×2,5"
    assert "remembered: ×2.5" in note.value
    lessons.compare("a.gain", 5.0, unit="×", published="×3.3 elsewhere", premise=HOLDS)
    assert str(shown[-1]) == (
        "⇄ Compare: You were off by a factor of 2.0.\n"
        "  you said: ×2.5\n  measured here: ×5\n  published: ×3.3 elsewhere"
    )
    lessons.predict("a.gain", "How much?", unit="×")
    assert _field(shown[-1]).value == "2.5"


@pytest.mark.parametrize(
    ("said", "measured", "verdict"),
    [("3", 3.0, "You were right."), ("3", 3.5, "You were close."), ("0", 4.0, "Not what you said"),
     ("-2", 4.0, "Not what you said"), ("8", 4.0, "factor of 2.0")],
)  # fmt: skip
def test_how_near_a_number_came(shown: list[Any], said: str, measured: float, verdict: str) -> None:
    lessons.predict("n", "How many?")
    _field(shown[1]).value = said
    lessons.compare("n", measured, premise=HOLDS)
    assert verdict in str(shown[-1])


def test_a_choice_is_remembered(shown: list[Any]) -> None:
    lessons.predict("choice", "Which?", ["this", "that"])
    assert _field(shown[1]).value is None
    _field(shown[1]).value = "that"
    lessons.compare("choice", "that", premise=HOLDS)
    assert "You were right." in str(shown[-1])
    lessons.compare("choice", "this", premise=HOLDS)
    assert "Not what you said" in str(shown[-1])


def test_what_was_not_predicted_is_said(shown: list[Any]) -> None:
    lessons.compare("nothing", 3.0, unit="ms", premise=HOLDS)
    assert "you said: nothing yet" in str(shown[-1])
    assert "measured here: 3 ms" in str(shown[-1])


def test_unattended_nothing_is_read_or_asked(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons.predict("c", "Which?", ["this", "that"])
    _field(shown[1]).value = "that"
    monkeypatch.setenv(lessons.UNATTENDED, "1")
    del shown[:]
    lessons.predict("c", "Which?", ["this", "that"])
    lessons.compare("c", "this", premise=HOLDS)
    assert [str(card) for card in shown] == [
        "? Predict: Which?\n  ○ this\n  ○ that",
        "⇄ Compare\n  measured here: this",
    ]


def test_an_answer_that_comes_late_reaches_its_comparison(shown: list[Any]) -> None:
    lessons.predict("late", "How many?")
    field = _field(shown[1])
    lessons.compare("late", 4.0, premise=HOLDS)
    assert "you said: nothing yet" in str(shown[-1])
    field.value = "8"
    assert "you said: 8\n" in str(shown[-1])
    assert "factor of 2.0" in str(shown[-1])
    field.value = "4"
    assert "You were right." in str(shown[-1])


def test_a_run_whose_premise_does_not_hold_shows_no_result(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons.predict("slot", "Which slot?")
    _field(shown[1]).value = "0"
    busy = Premise(False, "another request came with it")
    again = "→ Run this experiment again, when the machine is quieter."
    lessons.compare("slot", 1.0, premise=busy)
    assert str(shown[-1]) == (
        f"↻ Compare: This run does not show it: another request came with it.\n  {again}"
    )
    lessons.claim(True, "It is so.", "Try again.", premise=busy)
    assert str(shown[-1]).startswith("↻ Claim: This run does not show it: another request")
    before = len(shown)
    _field(shown[1]).value = "1"  # a later answer shows no result
    assert len(shown) == before
    monkeypatch.setenv(lessons.UNATTENDED, "1")
    with pytest.raises(WorkbookError, match="does not show it: another request came with it"):
        lessons.compare("slot", 1.0, premise=busy)
    with pytest.raises(WorkbookError, match="does not show it: another request came with it"):
        lessons.claim(True, "It is so.", "Try again.", premise=busy)


def test_an_experiment_is_run_again_until_its_premise_holds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs: list[int] = []

    def experiment() -> int:
        runs.append(len(runs))
        return runs[-1]

    def third(run: int) -> Premise:
        return Premise(run == 2, f"it was run {run}")

    assert lessons.attempt(experiment, third) == 2
    assert capsys.readouterr().out == (
        "This run does not show it: it was run 0. It is run again (2 more at most).\n"
        "This run does not show it: it was run 1. It is run again (1 more at most).\n"
    )
    assert lessons.attempt(experiment, third) == 5  # run 3, 4 and 5; no more than three
    assert len(runs) == 6


def test_premises_of_tables() -> None:
    places = pd.DataFrame({"queued_ms": [0.0, 5.0], "end_ms": [20.0, 40.0]})
    assert lessons.arrived_together(places)
    late = lessons.arrived_together(places.assign(queued_ms=[0.0, 27.0]))
    assert str(late).endswith("the last request arrived 7 ms after the first was answered.")
    answers = pd.DataFrame({"sent_ms": [0.0, 10.0, 22.0]})
    assert lessons.sent_as_planned(answers, 10)
    assert "every 11.0 ms, and not every 5 ms" in str(lessons.sent_as_planned(answers, 5))
    assert lessons.steady([10, 12.0, 14])
    assert not lessons.steady([10, 16])
    assert not lessons.steady([0, 1])


def test_a_ratio_within_the_noise_of_a_limit_decides_nothing() -> None:
    assert premises.clear(1.3, 1.1, spread=1.1)
    assert premises.clear(0.9, 1.1, spread=1.1)
    for ratio in (1.02, 1.09, 1.12, 1.2):
        assert not premises.clear(ratio, 1.1, spread=1.1)
    assert not premises.clear(1.3, 1.1, spread=1.5)


def test_joined_premises_hold_together_and_the_first_that_does_not_speaks() -> None:
    wrong = [Premise(False, "one"), Premise(False, "two")]
    assert HOLDS & HOLDS
    assert (HOLDS & wrong[0]).differs == "one"
    assert (wrong[1] & wrong[0]).differs == "two"
    assert (wrong[1] & HOLDS).differs == "two"


def test_a_claim_that_fails_says_what_to_try(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons.claim(True, "It is so.", "Nothing.")
    lessons.claim(False, "It is <so>.", "Try again.")
    assert [str(card) for card in shown] == [
        "✓ Holds: It is so.", "✗ Does not hold here: It is <so>.\n  → Try again."
    ]  # fmt: skip
    assert "It is &lt;so&gt;." in shown[1]._repr_html_()
    monkeypatch.setenv(lessons.UNATTENDED, "1")
    with pytest.raises(WorkbookError, match="does not hold") as caught:
        lessons.claim(False, "It is so.", "Try again.")
    assert caught.value.todo == "Try again."


@pytest.mark.parametrize("name", ["../up", "", "A", "a/b", ".hidden"])
def test_names_that_are_none(shown: list[Any], name: str) -> None:
    with pytest.raises(WorkbookError, match="not a name"):
        lessons.folder(name)
    with pytest.raises(WorkbookError, match="not a name"):
        lessons.predict(name, "?")


def test_a_lectures_folder_is_fresh_and_relative(shown: list[Any], tmp_path: Path) -> None:
    made = lessons.folder("own")
    lessons.write(made / "cube" / "config.pbtxt", "x")
    assert not made.is_absolute()
    assert made.resolve().is_relative_to(tmp_path / ".workbook")
    again = lessons.folder("own")
    assert (again, list(again.iterdir())) == (made, [])


MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        tensor = pb_utils.Tensor("Y", np.zeros(1, np.float32))
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
"""


@pytest.mark.server
def test_a_laboratory_that_is_started_twice_is_one_server(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its folder made anew stops it, too; another choice of models is another server."""
    monkeypatch.delenv("WORKBOOK_HOME")
    models = lessons.folder("test_laboratory_twice")
    home = models.resolve()
    config = """
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }
"""
    lessons.write(models / "one/config.pbtxt", config)
    lessons.write(models / "one/1/model.py", MODEL)
    first = lessons.laboratory(models)
    other = lessons.laboratory(models, only=[])
    assert (first.ready("one"), other.ready("one")) == (True, False)
    second = lessons.laboratory(models)
    assert (first.live(), other.live(), second.ready("one")) == (False, True, True)
    lessons.folder("test_laboratory_twice")
    assert (other.live(), second.live()) == (False, False)
    home.rmdir()


@pytest.mark.server
def test_a_laboratory_refuses_what_the_server_refuses(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WORKBOOK_HOME")
    models = tmp_path / "models"
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "config.pbtxt").write_text('backend: "nonesuch"')
    with pytest.raises(WorkbookError, match="broken"):
        lessons.laboratory(models)


def test_the_syllabus_lists_what_there_is() -> None:
    entries, table = syllabus.entries(), syllabus.table().data
    for entry in entries:
        assert (paths.root() / "lectures/00__start" / entry.link).exists(), entry.link
        assert entry.minutes > 0
        assert f"]({entry.link})" in table
    own = [e.minutes for e in entries if e.folder == "1_architecture"]
    assert f"**{sum(own):g}**" in table


def test_what_is_not_there_yet_is_said_to_come(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    lessons.write(tmp_path / "lectures" / "2_backends" / "02__python/lesson.py", LECTURE)
    lines = syllabus.table().data.splitlines()
    assert "| **Lecture 1: architecture** | to come |" in lines
    assert "| **Lecture 2: backends** | **10** |" in lines
    assert "| [Small](../2_backends/02__python/02__python.ipynb) | 10 |" in lines
    last = syllabus.routes().data.splitlines()[-1]
    assert last.endswith("[Small](../2_backends/02__python/02__python.ipynb) | 10 |")


def test_each_route_fits_into_its_hours() -> None:
    """After the start. Each notebook and folder that it names is there."""
    for route in syllabus.ROUTES:
        way = syllabus.take(route)
        assert {*route.names} <= {name for each in way for name in (each.name, each.folder)}
        assert sum(each.minutes for each in way) <= 60 * route.hours


def test_every_image_is_shown_somewhere() -> None:
    home = paths.root()
    pages = [*home.glob("*.md"), *home.glob("docs/*.md"), *home.glob("lectures/**/lesson.py")]
    every = "".join(page.read_text("utf-8") for page in pages)
    for image in home.glob("lectures/**/*"):
        if image.suffix not in building.IMAGES:
            continue
        if image.parent.name == "images":
            assert f"images/{image.name}" in every, image
        else:
            assert f"]({image.name})" in image.with_name("lesson.py").read_text("utf-8"), image


LECTURE = """\
# ---
# title: Small
# minutes: 10
# ---

# %%
import os

import setup

folder = os.path.basename(os.getcwd())
print(os.environ["WORKBOOK_UNATTENDED"], os.environ["GREETING"], folder, setup.WORD)
"""


@pytest.mark.server
def test_a_lecture_is_run_in_its_folder(tmp_path: Path) -> None:
    source = tmp_path / "lectures" / "01__small" / "lesson.py"
    lessons.write(source, LECTURE)
    lessons.write(source.with_name("setup.py"), "WORD = 'its own'")
    node = executing.run(source, {"GREETING": "hello"})
    assert node.cells[0].outputs[0].text == "1 hello 01__small its own\n"


ASKED = """\
# %%
from workbook.lessons import Premise, compare, predict

predict("test.fallback", "Which colour has the sky?", ["blue", "green"])
predict("test.number", "How many suns?")
compare("test.fallback", "blue", premise=Premise(True, ""))
"""


@pytest.mark.server
def test_a_saved_notebook_shows_its_predictions_as_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A notebook that a reader ran and saved, shown without a kernel: its widgets are gone."""
    monkeypatch.setattr(executing, "UNATTENDED", "WORKBOOK_A_READER_SITS_HERE")
    source = tmp_path / "lectures" / "01__asked" / "lesson.py"
    lessons.write(source, ASKED)
    node = executing.run(source, {"WORKBOOK_HOME": str(tmp_path)})
    outputs = node.cells[0].outputs
    widgets = [o.data for o in outputs if "application/vnd.jupyter.widget-view+json" in o.data]
    assert len(widgets) == 2
    for data in widgets:
        assert "Run this cell to answer." in data["text/plain"]
        assert "Run this cell to answer." in data["text/html"]
    saved = nbformat.writes(node)  # type: ignore[no-untyped-call]
    assert "widget-state" not in saved
    page, _ = HTMLExporter().from_notebook_node(nbformat.reads(saved, as_version=4))  # type: ignore[no-untyped-call]
    for text in ("Which colour has the sky?", "○ blue", "○ green", "Run this cell to answer.",
                 "How many suns?", "nothing yet: answer the question above"):  # fmt: skip
        assert text in page, text
    assert "Error displaying widget" not in page
    assert "model_id" not in page


@pytest.mark.server
def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    source = tmp_path / "01__small" / "lesson.py"
    lessons.write(source, LECTURE.replace("import setup", "setup = None"))
    with pytest.raises(WorkbookError, match="01__small failed") as caught:
        executing.run(source)
    assert "GREETING" in caught.value.todo
