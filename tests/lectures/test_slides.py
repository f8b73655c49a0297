"""Slides of a lecture: a poll before each answer, figures of the run, and no address to load."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from typer.testing import CliRunner

from workbook import cli, lessons
from workbook.lessons.cards import ASKS, HOLDS, SHOWS, TO_DO, Card
from workbook.notebooks import building
from workbook.site import executed, slides

QUESTION = """\
# Sky

**Question.** Why is it *blue*, and see [the picture](sky.svg)?

A text that is on no slide."""
SOURCE = "# %% [markdown]\n" + "".join(f"# {line}\n" for line in QUESTION.splitlines())


def output(card: Any = None, *, text: str = "", html: str = "", **about: str) -> NotebookNode:
    data = {"text/plain": text or str(card), "text/html": html or card._repr_html_()}
    return nbformat.v4.new_output("display_data", data=data, metadata={"workbook": about})


def code(*outputs: NotebookNode) -> NotebookNode:
    return nbformat.v4.new_code_cell("secret_code()", outputs=list(outputs))


@pytest.fixture
def node() -> NotebookNode:
    """An executed lecture with two predictions, one answered by a figure and one by a print."""
    text = nbformat.v4.new_markdown_cell
    first = Card(ASKS, "Predict", "Which colour?", ["○ blue", "○ `green`"])
    number = Card(ASKS, "Predict", "How many?", ["A number, in km."])
    printed = nbformat.v4.new_output("stream", text="".join(f"line {n}\n" for n in range(30)))
    figure = output(text="curve", html='<svg viewBox="0 0 1 1"></svg>')
    cells = [
        text(QUESTION),
        text("## Light"),
        code(output(first, predict="sky.colour")),
        code(output(text="early", html="<svg id='early'></svg>"), figure),
        code(
            output(
                Card(SHOWS, "Compare", "", rows={"measured here": "blue"}), compare="sky.colour"
            ),
            output(Card(HOLDS, "Holds", "It is the air."), claim="sky.air"),
        ),
        text("## Height"),
        code(output(number, predict="sky.height")),
        code(printed),
        code(output(Card(SHOWS, "Compare", ""), compare="sky.height")),
        code(
            output(Card(TO_DO, "Your turn", "Make it `red`.", ["Not yet: blue."]), task="sky.red")
        ),
        text("## What to remember\n\n- Air scatters.\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
        text("## Check yourself"),
    ]
    return nbformat.v4.new_notebook(cells=cells, metadata={"workbook": {}})


def test_each_answer_follows_its_poll(node: NotebookNode) -> None:
    page = slides.html(node)
    found = re.findall(r'(?s)<section id="\d+">(.*?)</section>', page)
    title, poll, answer, second, printed, task, remember = found
    assert "<title>Sky</title>" in page
    assert "<h1>Sky</h1>" in title
    assert "<em>blue</em>" in title
    assert "on no slide" not in page
    assert "secret_code" not in page
    assert "<ol><li>blue</li><li><code>green</code></li></ol>" in poll
    assert "<h2>Light</h2>" in poll
    assert 'viewBox="0 0 1 1"' in answer
    assert "early" not in answer
    assert "measured here" in answer
    assert "It is the air." in answer
    assert "measured here" not in poll
    assert "<p>A number, in km.</p>" in second
    assert "line 29" in printed
    assert "line 17" not in printed
    assert "Compare" not in printed  # this card has nothing but its title
    assert "Make it <code>red</code>." in task
    assert "Not yet" not in task
    assert "<li>Air scatters.</li>" in remember
    assert "<td>1</td>" in remember


def test_the_file_loads_nothing(node: NotebookNode) -> None:
    page = slides.html(node)
    assert not re.search(r"<link|<script[^>]+src|@import|url\(", page)
    assert "sky.svg" not in page  # a link to a file that is not there


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with a lecture that has run."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    source = tmp_path / "lectures/1_architecture/05__sky/lesson.py"
    lessons.write(source, SOURCE)
    executed.keep(source, building.page(source))
    return tmp_path


@pytest.mark.parametrize("name", ["1/05", "05__sky", ""])
def test_the_command_writes_a_file_for_each_lecture(course: Path, name: str) -> None:
    done = CliRunner().invoke(cli.app, ["slides", *filter(None, [name])])
    assert done.exit_code == 0, done.output
    (file,) = (course / ".workbook/slides").iterdir()
    assert file.name == "05__sky.html"
    assert str(file) in done.output
    assert "<h1>Sky</h1>" in file.read_text("utf-8")


def test_an_unknown_lecture_is_named(course: Path) -> None:
    with pytest.raises(slides.WorkbookError, match=r"There is no lecture 1/06\.") as caught:
        slides.sources(["1/05", "1/06"])
    assert "05__dynamic_batcher" in caught.value.todo
