"""A built notebook carries the texts of its predictions and claims, and needs no source."""

from __future__ import annotations

import ast
import builtins
import re
import shutil
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.lectures.course import built, each_lecture
from workbook import lessons, notebooks
from workbook.common.errors import WorkbookError
from workbook.lessons import words
from workbook.notebooks import building
from workbook.notebooks.hide_words import NAME, decode, encode, without

ASK = ("predict", "predict_curve", "claim")


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
        if name not in ASK or len(node.args) > 1:  # type: ignore[attr-defined]
            continue
        named = {word.arg: word.value for word in node.keywords}  # type: ignore[attr-defined]
        key = named["id"] if name == "claim" else node.args[0]  # type: ignore[attr-defined]
        found.append((name, str(ast.literal_eval(key))))
    return found


def carried(path: Path) -> str:
    """The encoded texts of a built notebook."""
    values = [
        statement.value
        for tree in trees(path)
        for statement in tree.body
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == NAME
    ]
    assert len(values) == 1
    return str(ast.literal_eval(values[0]))


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
    return found


@each_lecture
def test_each_call_of_a_built_notebook_finds_its_texts_without_the_source(
    path: Path, shown: list[Any], tmp_path: Path
) -> None:
    """The checkout is an empty folder here: `shown` sets WORKBOOK_HOME.

    The values that a claim shows are those of the notebook's own names; it runs in
    test_lectures_run.py.
    """
    assert not (tmp_path / "lectures").exists()
    variables = {NAME: carried(path)}
    found, known = asked(path), names(path) | {*dir(builtins)}
    for function, key in found:
        if function != "claim":
            assert words.find(function, key, variables)["question"], key
            continue
        for text in words._carried(function, key, variables):
            nodes = [*ast.walk(ast.parse(text, mode="eval"))]
            shows = {node.id for node in nodes if isinstance(node, ast.Name)}
            own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            assert shows - own <= known, key
    assert found
    assert len(found) == sum(len(held) for held in decode(carried(path)).values())


@each_lecture
def test_nothing_that_a_notebook_carries_can_be_read_in_its_file(path: Path) -> None:
    """An option may be read in the cell that compares, which names it as what was measured."""
    code = carried(path)
    held = decode(code)
    claims = [ast.parse(text) for pair in held.pop("claim", {}).values() for text in pair]
    texts = [n.value for tree in claims for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    options: list[str] = []
    for question in (question for asks in held.values() for question in asks.values()):
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
from workbook.lessons import Premise, claim, compare, predict

predict("sky.colour", "Which colour has the sky?", {"blue": None, "green": "You thought of grass."})

# %%
conflict = "a cloud"
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


def notebook(*carry: str, **variables: Any) -> dict[str, Any]:
    """The variables of a built notebook that has one claim, and what it carries."""
    own = {name: getattr(lessons, name) for name in ("claim", "predict", "compare")}
    text = encode({"claim": {"a.one": list(carry)}, "predict": {"a.sky": {"question": "Which?"}}})
    return own | {NAME: text} | variables


@pytest.mark.parametrize(
    ("code", "variables", "what", "todo"),
    [
        ('claim(1, id="a.one")', {}, "shows `conflict`, which is not set", "Run the cells above"),
        ('claim(1, id="a.one")', {"conflict": None}, "TypeError: 'NoneType'", "of `conflict`."),
        ('claim(1, id="a.one")', {"conflict": {}}, "KeyError: 'at'", "of `conflict`."),
        ('claim(1, id="x")', {}, "no text for this call", "has texts for: a.one. In a cell of"),
        ("claim(1)", {}, "no text for this call", 'claim(a < b, "What is true if a < b."'),
        ('predict("b")', {}, "no text for this call", 'texts for: a.sky. In a cell of your own'),
        ('predict("a.sky")', {NAME: "W10="}, "cannot be read", "from a fresh copy"),
        ('predict("a.sky")', {NAME: "eyJ"}, "cannot be read", "from a fresh copy"),
        ('predict("a.sky")', {NAME: None}, "cannot be read", "from a fresh copy"),
    ],
)  # fmt: skip
def test_what_a_reader_changed_is_said(
    shown: list[Any], code: str, variables: dict[str, Any], what: str, todo: str
) -> None:
    own = notebook("(f\"There is {conflict['at']}.\"\n'')", "('Look up.')", **variables)
    with pytest.raises(WorkbookError) as caught:
        exec(code, own)
    assert what in caught.value.what
    assert todo in caught.value.todo
    assert caught.value.where in ('claim(…, id="a.one")', 'claim(…, id="x")', 'claim(…, id="")',
                                  'predict("b")', 'predict("a.sky")')  # fmt: skip
    assert "git pull" not in str(caught.value)
    assert not shown


def test_a_notebook_that_carries_nothing_is_told_why(shown: list[Any]) -> None:
    """A notebook from before notebooks carried their texts, or a cell that the reader wrote."""
    own = notebook()
    del own[NAME]
    with pytest.raises(WorkbookError, match=f"the variable `{NAME}` is not set") as caught:
        exec('claim(1, id="a.one")', own)
    assert "an older edition" in caught.value.todo
    exec('claim(1, "It is one.", "Count.", id="a.one")', own)
    assert str(shown.pop()) == "✓ Holds: It is one."
    exec('compare("a.sky", "blue", premise=True)', own)  # without its options
    assert "measured here: blue" in str(shown.pop())


def test_a_source_that_is_not_built_has_its_own_texts(shown: list[Any]) -> None:
    """An author runs the source directly; a comparison in another cell has the options."""
    own = notebook()
    del own[NAME]
    exec('predict("a.sky", "Which?", {"blue": None, "green": "Grass."})', own)
    shown[-1].children[0].value = "green"
    exec('compare("a.sky", "blue", premise=True)', own)
    assert "Grass." in str(shown[-1])


def test_the_texts_stand_below_the_imports_and_are_no_code_to_read(tmp_path: Path) -> None:
    source = tmp_path / "lesson.py"
    source.write_text(EARLIER, "utf-8")
    code = building.page(source).cells[0].source
    lines = code.splitlines()
    assert lines[0].startswith("from workbook.lessons import")
    assert lines[3].startswith(f'{NAME} = "')
    assert lines[4:] == ["", 'predict("sky.colour")']
    assert without(code).splitlines() == [lines[0], *lines[4:]]
    assert "question" not in code


@pytest.mark.parametrize("head", ["", "# %%\nimport workbook\n\n"])
def test_a_source_that_asks_before_it_imports_is_refused(head: str, tmp_path: Path) -> None:
    source = tmp_path / "lesson.py"
    source.write_text(head + EARLIER.replace("from workbook.lessons", "from there"), "utf-8")
    with pytest.raises(WorkbookError, match="before the import") as caught:
        notebooks.notebook(building.hide_texts(notebooks.read(source)))
    assert "lesson.py, line" in caught.value.where
