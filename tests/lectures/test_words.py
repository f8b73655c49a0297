"""A built notebook carries the texts of its predictions and claims, and needs no source."""

from __future__ import annotations

import ast
import builtins
import json
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.lectures.course import built, each_lecture
from workbook import lessons
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import words
from workbook.notebooks import building
from workbook.notebooks.hide_words import ANSWERING, ASKING, carried, encode

CALLS = (*ASKING, *ANSWERING)


def trees(path: Path) -> list[ast.Module]:
    """The code cells of a built notebook; a cell magic's body is another file."""
    codes = [cell.source for cell in built(path).cells if cell.cell_type == "code"]
    magic = re.compile(r"(?m)^(\s*)[%!].*$")
    return [ast.parse(magic.sub(r"\1pass", code)) for code in codes if not code.startswith("%%")]


def asked(path: Path) -> list[tuple[str, str]]:
    """Function and key of the calls in a built notebook whose texts are not in the call."""
    found = []
    for node in (node for tree in trees(path) for node in ast.walk(tree)):
        name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        if name in CALLS and len(node.args) == 1:  # type: ignore[attr-defined]
            found.append((name, str(ast.literal_eval(node.args[0]))))  # type: ignore[attr-defined]
    return found


def names(path: Path) -> set[str]:
    """The names that a built notebook binds."""
    found = set()
    for node in (node for tree in trees(path) for node in ast.walk(tree)):
        if isinstance(node, ast.alias):
            found.add(node.asname or node.name)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found | {*lessons.__all__} if "*" in found else found


@each_lecture
def test_each_call_of_a_built_notebook_finds_its_texts_without_the_source(
    path: Path, shown: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The checkout is an empty folder here: `shown` sets WORKBOOK_HOME.

    A comparison and a claim read only names that the notebook binds; it runs in
    test_lectures_run.py.
    """
    assert not (tmp_path / "lectures").exists()
    shutil.copy(building.Lecture(path).built, tmp_path)
    monkeypatch.chdir(tmp_path)
    found, known = asked(path), names(path) | {*dir(builtins)}
    for function, key in found:
        if function in ASKING:
            assert words.find(function, key)["question"], key
            continue
        nodes = [
            n for n in ast.walk(ast.parse(words._text(function, key))) if isinstance(n, ast.Name)
        ]
        own = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
        assert {node.id for node in nodes} - own <= known, key
    assert found
    assert len(found) == sum(len(held) for held in carried(built(path)).values())


@each_lecture
def test_nothing_that_a_notebook_carries_can_be_read_in_its_file(path: Path) -> None:
    code = built(path).metadata.workbook.words
    held = carried(built(path))
    calls = [ast.parse(text) for name in ANSWERING for text in held.get(name, {}).values()]
    texts = [n.value for tree in calls for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    options: list[str] = []
    for question in (question for name in ASKING for question in held.get(name, {}).values()):
        texts.append(question["question"])
        options += question.get("options") or {}
        texts += (question.get("options") or {}).values()
    sentences = [text for text in texts if isinstance(text, str) and len(text.split()) >= 6]
    assert sentences
    assert not [text for text in sentences + options if len(text) > 3 and text in code]
    file = building.Lecture(path).built.read_text("utf-8")
    page = "\n".join(cell.source for cell in built(path).cells)
    assert not [text for text in sentences if text in file or text in page]


EARLIER = """\
# ---
# title: Sky
# minutes: 10
# ---

# %%
import os

from workbook.lessons import Premise, claim, compare, predict

os.chdir("/")
predict("sky.colour", "Which colour has the sky?", {"blue": None, "green": "You thought of grass."})

# %%
conflict = "a cloud"
print(conflict)
claim(conflict, f"The sky is not blue where there is {conflict}.", "Look up.", id="sky.conflict")

# %%
compare("sky.colour", "blue", premise=Premise(True, ""))
"""
LATER = (
    EARLIER.replace("sky.conflict", "sky.weather")
    .replace("conflict", "weather")
    .replace('"green"', '"grey"')
    .replace("Which colour has the sky?", "Which colour is the sky at noon?")
)


def executed(path: Path) -> str:
    """Run a notebook as `jupyter execute` does, and return what it showed."""
    node = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(node, kernel_name="python3", resources=resources).execute()
    data = [o.data["text/plain"] for c in node.cells for o in c.get("outputs", ()) if "data" in o]
    return "\n".join(data)


@pytest.mark.server
@pytest.mark.parametrize("now", [LATER, ""], ids=["changed", "removed"])
def test_a_copy_of_the_former_edition_runs_with_its_own_texts(
    now: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reader edited and renamed the copy; then the course was updated."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.setenv(lessons.UNATTENDED, "1")
    source = tmp_path / "lectures/1_sky/01__sky/lesson.py"
    lessons.write(source, EARLIER)
    (built_copy,) = building.build(building.lectures(tmp_path)[0])
    copy = tmp_path / "work/lectures/1_sky/01__sky/01__sky-mine.ipynb"
    lessons.write(copy, built_copy.read_text("utf-8").replace("a cloud", "a big cloud"))
    if now:
        source.write_text(now, "utf-8")
        assert building.build(building.lectures(tmp_path)[0])
    else:
        shutil.rmtree(tmp_path / "lectures")
    shown = executed(copy)
    assert "? Predict: Which colour has the sky?\n  ○ blue\n  ○ green" in shown
    assert "✓ Holds: The sky is not blue where there is a big cloud." in shown
    assert "You said “green”? You thought of grass." in shown


CLOUD = "claim(True, f\"There is {conflict['at']}.\", 'Look up.', id='a.one')"


def save(path: Path, question: str = "Which?", **metadata: Any) -> Path:
    """Write a notebook that carries the texts of one claim and one prediction."""
    texts = {"claim": {"a.one": CLOUD}, "predict": {"a.sky": {"question": question}}}
    held = {"workbook": {"words": encode(texts)} | metadata}
    lessons.write(path, json.dumps({"metadata": held, "cells": []}))
    return path


def variables(**others: Any) -> dict[str, Any]:
    """The variables of a notebook."""
    return {name: getattr(lessons, name) for name in ("claim", "predict", "compare")} | others


@pytest.mark.parametrize(
    ("code", "others", "what", "todo"),
    [
        ('claim("a.one")', {}, "reads `conflict`, which is not set", "Run the cells above"),
        ('claim("a.one")', {"conflict": None}, "TypeError: 'NoneType'", "reads `conflict`."),
        ('claim("a.one")', {"conflict": {}}, "KeyError: 'at'", "reads `conflict`."),
        ('claim("x")', {}, "no text for this call", "has texts for: a.one. In a cell of"),
        ('compare("x")', {}, "no text for this call", 'compare("x", 20.5, unit="ms"'),
        ('predict("b")', {}, "no text for this call", "texts for: a.sky. In a cell of your own"),
    ],
)
def test_what_a_reader_changed_is_said(
    shown: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    code: str,
    others: dict[str, Any],
    what: str,
    todo: str,
) -> None:
    monkeypatch.chdir(save(tmp_path / "sky.ipynb").parent)
    with pytest.raises(WorkbookError) as caught:
        exec(code, variables(**others))
    assert what in caught.value.what
    assert todo in caught.value.todo
    where = ('claim("a.one")', 'claim("x")', 'compare("x")', 'predict("b")')
    assert caught.value.where in where
    assert "git pull" not in str(caught.value)
    assert not shown


@pytest.mark.parametrize("words", [None, 5, "W10=", "eyJ", "_words"])
def test_a_file_without_texts_is_named(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: Any
) -> None:
    """A notebook that the reader made, or that a program has written without its metadata."""
    own = variables()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkbookError, match="texts of this notebook were not found") as caught:
        exec('predict("a.sky")', own)
    assert caught.value.where == 'predict("a.sky")'
    assert f"Looked at: no notebook in {tmp_path}." in caught.value.todo
    file = save(tmp_path / "sky.ipynb", words=words)
    (tmp_path / "other.ipynb").write_text("[", "utf-8")
    with pytest.raises(WorkbookError, match="texts of this notebook were not found") as caught:
        exec('claim("a.one")', own)
    assert f"Looked at: {tmp_path}/other.ipynb, {file}. Run" in caught.value.todo
    assert "take a fresh copy" in caught.value.todo
    exec('claim(1, "It is one.", "Count.", id="a.one")', own)
    assert str(shown.pop()) == "✓ Holds: It is one."
    exec('compare("a.sky", "blue", premise=True)', own)  # without its options
    assert "measured here: blue" in str(shown.pop())

    # The reader saves the right notebook there, and runs the cell again.
    save(file)
    exec('predict("a.sky")', own)
    assert "Which?" in str(shown)


def test_the_notebook_that_runs_is_preferred_to_others_beside_it(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each is removed in its turn. The last one would come first in alphabetical order."""
    shell = types.SimpleNamespace(starting_dir=str(tmp_path / "sky"), user_ns={})
    monkeypatch.setattr(words, "get_ipython", lambda: shell)
    files = ("sky/mine.ipynb", "elsewhere/code.ipynb", "sky/sky.ipynb", "sky/a.ipynb")
    paths = [save(tmp_path / name, question=f"{name}?") for name in files]
    monkeypatch.setenv("JPY_SESSION_NAME", str(paths[0]))
    shell.user_ns["__vsc_ipynb_file__"] = str(paths[1])
    for path, name in zip(paths, files, strict=True):
        monkeypatch.setattr(words, "_read", {})
        assert words.find("predict", "a.sky") == {"question": f"{name}?"}
        path.unlink()
    # What was found stays, whatever becomes of the file.
    assert words.find("predict", "a.sky") == {"question": "sky/a.ipynb?"}


def test_a_source_that_is_not_built_has_its_own_texts(shown: list[Any]) -> None:
    """An author runs the source directly; a comparison in another cell has the options."""
    own = variables()
    exec('predict("a.sky", "Which?", {"blue": None, "green": "Grass."})', own)
    shown[-1].children[0].value = "green"
    exec('compare("a.sky", "blue", premise=True)', own)
    assert "Grass." in str(shown[-1])


@pytest.mark.server
def test_a_notebook_that_becomes_a_script_and_back_keeps_its_texts(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "lectures/00__start/00__start.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.root() / name, tmp_path / name)
    notebook = tmp_path / "lectures/00__start/00__start.ipynb"
    texts = carried(json.loads(notebook.read_bytes()))
    command = [sys.executable, "-m", "jupytext", "--quiet", "--to"]
    subprocess.run([*command, "py:percent", str(notebook)], check=True)
    notebook.unlink()
    subprocess.run([*command, "ipynb", str(notebook.with_suffix(".py"))], check=True)
    assert carried(json.loads(notebook.read_bytes())) == texts != {}
