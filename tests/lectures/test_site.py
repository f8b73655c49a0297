"""The site: it builds, every link in it leads somewhere, and answers and solutions are folded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.lectures.site_links import Page, broken
from workbook import lessons, site
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import tasks
from workbook.notebooks import building, executing
from workbook.site import executed, pages

pytestmark = pytest.mark.server


def test_every_link_of_the_site_leads_somewhere(tmp_path: Path) -> None:
    """The site of all lectures; a lecture that changed since its last run has no outputs."""
    nodes = {
        lecture.source: executed.copy_of(lecture.source) or building.page(lecture.source)
        for lecture in building.lectures()
    }
    index = site.build(nodes, tmp_path / "site")
    assert broken(index.parent) == []
    menu = Page(index).links
    for source in nodes:
        built = building.Lecture(source).built
        within = built.relative_to(paths.root() / "lectures").with_suffix(".html")
        assert str(within) in menu
    assert (index.parent / "search.html").is_file()
    first = next(page for page in index.parent.rglob("01__first_model.html"))
    assert "theme-switch" in first.read_text("utf-8")
    assert {"Previous", "Next"} <= set(Page(first).open.title().split())


LECTURE = """\
# ---
# title: Sky
# minutes: 10
# ---

# %% [markdown]
# # Sky
#
# See [another](../02__sea/02__sea.ipynb#The-salt), [this heading](#Colours),
# [the config](models/sky/config.pbtxt), [homework](../../../assignments/a.ipynb). ![Sky](sky.svg)

# %% [markdown]
# ## Colours

# %%
from workbook.lessons import Premise, claim, compare, predict
predict("sky.colour", "Which colour?", {"blue": None, "green": "You thought of grass."})

# %%
print("The spectrum: mostly 450 nm.")

# %%
compare("sky.colour", "blue", premise=Premise(True, ""))
claim(True, "It is the air.", "Look up.", id="sky.air")

# %%
print("And at night?")
"""
DOCUMENT = """\
# For `instructors`

[Sky](../lectures/1_architecture/01__sky/01__sky.ipynb), [a part](#the-second-part),
[the other](trust.md#what-is-tested), [a file](../grader/a.md), [the web](https://example.org/).

## The second part

```console
$ make site     # [not](a.md) a link
```
"""
TRUST = "# Trust\n\n## What is tested\n"
OTHER = "# %% [markdown]\n# # Sea\n#\n# ## The salt\n"


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with two lectures, of which one has run."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    home = tmp_path / "lectures"
    (home / "images").mkdir(parents=True)
    for name, text in (
        ("00__start", "# %% [markdown]\n# # Start\n"),
        ("1_architecture/01__sky", LECTURE),
        ("1_architecture/02__sea", OTHER),
    ):
        lessons.write(home / name / "lesson.py", text)
    lessons.write(tmp_path / "docs/adding.md", DOCUMENT)
    lessons.write(tmp_path / "docs/trust.md", TRUST)
    lessons.write(home / "1_architecture/01__sky/models/sky/config.pbtxt", "backend: 'sky'")
    lessons.write(
        home / "1_architecture/01__sky/sky.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"
    )
    return home


def test_an_answer_is_folded_and_its_code_with_it(course: Path, tmp_path: Path) -> None:
    source = course / "1_architecture/01__sky/lesson.py"
    executed.keep(source, executing.run(source, {"WORKBOOK_HOME": str(tmp_path)}))
    nodes = {
        lecture.source: executed.copy_of(lecture.source) or building.page(lecture.source)
        for lecture in building.lectures()
    }
    index = site.build(nodes, tmp_path / "site")
    assert broken(index.parent) == []
    page = Page(index.parent / "1_architecture/01__sky/01__sky.html")
    for text in ("Which colour?", "green", "And at night?", "homework"):
        assert text in page.open
    for text in ("mostly 450 nm.\n", "measured here", "You thought of grass", "It is the air"):
        assert text in (index.parent / "1_architecture/01__sky/01__sky.html").read_text("utf-8")
        assert text not in page.open.replace('print("The spectrum: mostly 450 nm.', "")
    carried = nodes[source].metadata.workbook.words
    assert not [file for file in index.parent.rglob("*.html") if carried in file.read_text("utf-8")]
    assert not any("assignments" in link for link in page.links)
    assert any(link.endswith("config.pbtxt") for link in page.links)
    assert any(link.endswith("sky.svg") for link in page.links)
    document = Page(index.parent / "docs/adding.html")
    assert {
        "../1_architecture/01__sky/01__sky.html",
        "#the-second-part",
        "trust.html#what-is-tested",
        "https://example.org/",
    } <= set(document.links)
    assert not any("grader" in link for link in document.links)
    assert "[not](a.md) a link" in document.open
    menu = [link for link in Page(index).links if link.startswith("docs/")]
    assert menu[:2] == ["docs/trust.html", "docs/adding.html"]  # trust is among the first


def test_a_copy_of_an_older_source_does_not_count(course: Path, tmp_path: Path) -> None:
    source = course / "1_architecture/01__sky/lesson.py"
    assert executed.copy_of(source) is None
    executed.keep(source, executing.run(source, {"WORKBOOK_HOME": str(tmp_path)}))
    assert executed.copy_of(source) is not None
    source.write_text(LECTURE.replace("And at night?", "And at noon?"))
    assert executed.copy_of(source) is None


def test_a_link_that_leads_nowhere_is_an_error(course: Path, tmp_path: Path) -> None:
    lessons.write(
        course / "1_architecture/02__sea/lesson.py",
        OTHER + "# [no](../01__sky/01__sky.ipynb#Nowhere)\n",
    )
    nodes = {lecture.source: building.page(lecture.source) for lecture in building.lectures()}
    with pytest.raises(WorkbookError, match="Sphinx found mistakes") as caught:
        site.build(nodes, tmp_path / "site")
    assert "Nowhere" in caught.value.todo
    assert "02__sea" in caught.value.todo


def test_a_solution_follows_its_task_behind_a_fold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "_tasks", {})
    monkeypatch.setattr(tasks.Task, "solution", "lab.load('cube')\n")

    @tasks.define("made_up.cube", hints=("a", "b"))
    def cube(server: Any) -> None:
        """Make it."""

    card = nbformat.v4.new_output(  # type: ignore[no-untyped-call]
        "display_data", data={"text/plain": "☐"}, metadata={"workbook": {"task": "made_up.cube"}}
    )
    cell = nbformat.v4.new_code_cell('task("made_up.cube", server=lab)', outputs=[card])  # type: ignore[no-untyped-call]
    node = nbformat.v4.new_notebook(cells=[cell], metadata={"language_info": {"name": "python"}})  # type: ignore[no-untyped-call]
    made = pages.page(node, Path("01__sky.ipynb"), [])
    assert made.cells[0].metadata.tags == ["remove-input"]
    assert made.cells[1].source.startswith("<details><summary>A solution</summary>")
    assert "```python\nlab.load('cube')\n```" in made.cells[1].source
    assert len(node.cells) == 1
