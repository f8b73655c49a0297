"""The lectures' notebooks: no outputs, parts and limits, links, names, keys, and the prose."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import sources
from tests.lectures import counting
from tests.lectures.course import (
    LECTURES,
    TOPICS,
    built,
    calls,
    codes,
    each_lecture,
    each_topic,
    headings,
    keys,
    parsed,
    texts,
)
from workbook.cli import app
from workbook.lessons import syllabus, tasks, units
from workbook.notebooks import building

BANNED = ("simply", "just", "easy", "easily", "obviously", "trivial", "AI")

# -- the built notebooks -------------------------------------------------------------------------


@each_lecture
def test_the_built_notebook_is_up_to_date_and_has_no_outputs(path: Path) -> None:
    """A notebook that was run would show what the reader is asked to predict."""
    assert building.build(building.Lecture(path), dry=True) == []
    for cell in built(path).cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None), cell.source


@each_lecture
def test_a_notebook_keeps_the_limits(path: Path) -> None:
    counts = counting.count(building.page(path), path.parent)
    assert counts.cells <= 40
    assert counts.longest_code <= 16
    assert counts.longest_text <= 60
    assert counts.harness <= 0.15, (
        f"{counts.harness_lines} of {counts.lines} lines of code belong to the lesson (HARNESS in "
        "counting.py), more than 15 %. Show more of Triton: a file, a command, a client."
    )
    assert 12 <= sources.read(path).header["minutes"] <= 30


@each_lecture
def test_the_built_notebook_does_not_tell_the_answers(path: Path) -> None:
    for cell in building.page(path).cells:
        assert not re.search(r"(?m)^predict(_curve)?\(\n|^predict(_curve)?\([^)]*,", cell.source)


@each_lecture
def test_a_wrong_option_has_a_word_of_its_own(path: Path) -> None:
    for call in calls(path, "predict"):
        if len(call.args) < 3:
            continue  # a number
        options = ast.literal_eval(call.args[2])
        assert isinstance(options, dict), ast.unparse(call)[:80]
        words = [word for word in options.values() if word is not None]
        assert len(words) == len(options) - 1
        assert len({*words}) == len(words)
        assert all(len(word.split()) >= 4 for word in words), words


def test_the_lectures_ask_for_a_choice_a_number_and_a_curve() -> None:
    """Each of the three forms is in use; otherwise it should be deleted."""
    asked = [call for path in TOPICS for call in calls(path, "predict")]
    assert any(len(call.args) == 3 for call in asked)
    assert any(len(call.args) == 2 for call in asked)
    assert any(calls(path, "predict_curve") for path in TOPICS)


@each_lecture
def test_a_lecture_sets_one_or_two_tasks(path: Path) -> None:
    own = keys(path, "task")
    assert len(own) in (1, 2), 'Set one or two tasks: task("topic.name", server=lab)'
    for id in own:
        assert tasks.find(id).sentence


def test_ids_of_claims_belong_to_one_claim_each() -> None:
    ids = [
        ast.literal_eval(word.value)
        for path in LECTURES
        for call in calls(path, "claim")
        for word in call.keywords
        if word.arg == "id"
    ]
    assert not [id for id, count in Counter(ids).items() if count > 1]


# -- links and names -----------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The headings of a notebook as Jupyter makes anchors of them."""
    return {heading.replace(" ", "-") for heading in headings(path)}


@each_lecture
def test_relative_links_and_images_resolve(path: Path) -> None:
    for cell in texts(path):
        prose = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", prose):
            target, _, anchor = "".join(link).partition("#")
            if target.startswith("https://"):
                assert re.fullmatch(r"https://[\w.-]+\.\w+(/[\w./%@()-]*)?", target), target
                continue
            file = (path.parent / target).resolve() if target else path
            assert file.is_file(), f"{target} in line {cell.line}"
            if anchor and file.suffix == ".ipynb":
                assert anchor in anchors(file.with_name("lesson.py")), f"{target}#{anchor}"


@each_lecture
def test_a_task_copies_the_files_that_its_text_links_to(path: Path) -> None:
    """The server does not read the files beside the notebook, so a change there has no effect."""
    section = path.read_text("utf-8").partition("# ## Your turn\n")[2].partition("\n# ## ")[0]
    for folder, name in re.findall(r"\]\((models|clients)/([^)/]+)", section):
        copy = rf"place\([^)]*{folder}/{name}\b|\bcp {folder}/{name}\b|setup\.{name}\(models\)"
        if path.parent.name != "12__in_process":  # its server reads the file itself
            assert re.search(copy, section), f"Copy {folder}/{name} in the task's cell."


def resolve(name: str) -> None:
    """Import a dotted name of ours: module, attribute, attribute of an attribute."""
    words = name.split(".")
    thing: Any = importlib.import_module(words[0])
    for place, word in enumerate(words[1:], 2):
        if not hasattr(thing, word):
            importlib.import_module(".".join(words[:place]))
        thing = getattr(thing, word)


@each_lecture
def test_names_of_the_workbook_resolve(path: Path) -> None:
    beside = {file.stem for file in path.parent.glob("*.py")}
    for cell in texts(path):
        for name in re.findall(r"`((?:workbook|measure)(?:\.\w+)+)[`(]", cell.source):
            resolve(name if name.startswith("workbook") else f"workbook.{name}")
    for cell in codes(path):
        for node in ast.walk(parsed(cell)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbook"):
                for alias in node.names if node.names[0].name != "*" else ():
                    resolve(f"{node.module}.{alias.name}")
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "measure":
                resolve(f"workbook.measure.{node.attr}")
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in beside:
                module = units.load(path.parent, node.value.id)  # type: ignore[attr-defined]
                assert hasattr(module, node.attr), f"{node.attr} in {cell.source}"


@each_lecture
def test_commands_that_are_named_exist(path: Path) -> None:
    known = {c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands}
    for cell in texts(path):
        named = re.findall(r"(?:`|\$ )workbook ([a-z]+)", cell.source)
        assert set(named) <= known, f"line {cell.line}"


# -- what every lecture has ----------------------------------------------------------------------


def test_keys_of_predictions_belong_to_one_lecture_each() -> None:
    every = Counter(key for path in LECTURES for key in keys(path, "predict", "predict_curve"))
    assert not [key for key, count in every.items() if count > 1]


@each_topic
def test_predictions_are_compared_later(path: Path) -> None:
    asked = keys(path, "predict", "predict_curve")
    shown = keys(path, "compare", "compare_curve")
    assert asked, "Ask for one prediction at least: predict(…)"
    assert asked == shown, "Compare each prediction, in the order in which they were asked."


@each_topic
def test_a_lecture_has_its_parts(path: Path) -> None:
    cells = texts(path)
    assert cells[0].source.startswith("# "), "The first cell begins with the title: # …"
    start = "\n".join(cell.source for cell in cells[:2])
    assert "**Question.**" in start, "**Question.** stands in one of the first two texts."
    parts = [cell.source for cell in cells]
    remember = [part for part in parts if part.startswith("## What to remember")]
    assert len(remember) == 1, "Write one text that begins with ## What to remember"
    assert len(re.findall(r"(?m)^- ", remember[0])) == 3, "What to remember: three lines, each - …"
    place = [n for n, part in enumerate(parts) if part.startswith("## Check yourself")]
    assert len(place) == 1, "Write one text that begins with ## Check yourself"
    check = "\n".join(parts[place[0] :])
    folds = "Check yourself: two or three questions, each answer in <details> … </details>"
    assert len(re.findall("<details>", check)) in (2, 3), folds
    assert check.count("<details>") == check.count("</details>"), folds
    assert calls(path, "claim"), "Make one claim at least: claim(…, id=…)"


@each_lecture
def test_every_comparison_names_its_premise(path: Path) -> None:
    for call in calls(path, "compare", "compare_curve"):
        assert "premise" in [word.arg for word in call.keywords], ast.unparse(call)[:80]


def bound(node: ast.AST) -> set[str]:
    """The names that code binds in the notebook's own scope."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return set()
    own = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
    return own.union(*map(bound, ast.iter_child_nodes(node)))


def used(tree: ast.Module) -> set[str]:
    """The names that a cell reads and has not bound in a statement before."""
    found: set[str] = set()
    done: set[str] = set()
    for statement in tree.body:
        inside = {
            arg.arg
            for node in ast.walk(statement)
            if isinstance(node, ast.arguments)
            for arg in (*node.args, *node.kwonlyargs, node.vararg, node.kwarg)
            if arg
        }
        inside |= {
            node.id
            for node in ast.walk(statement)  # a function's or comprehension's own
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        found |= (
            {
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            }
            - inside
            - done
        )
        done |= bound(statement)
    return found  # fmt: skip


@each_lecture
def test_a_name_that_a_later_cell_reads_is_bound_in_one_cell(path: Path) -> None:
    """Otherwise a cell that is run again reads what another experiment left in the name."""
    trees = [parsed(cell) for cell in codes(path)]
    times = Counter(name for tree in trees for name in bound(tree))
    read = set().union(*map(used, trees))
    assert not sorted(name for name in read if times[name] > 1)


@each_topic
def test_claims_say_what_to_try(path: Path) -> None:
    for call in calls(path, "claim"):
        assert len(call.args) == 3, f"claim in {path.parent.name}: {ast.unparse(call)[:80]}"


@pytest.mark.parametrize(
    "folder", sorted({path.parent.parent for path in TOPICS}), ids=lambda f: f.name
)
def test_the_start_sums_the_minutes(folder: Path) -> None:
    own = [path for path in TOPICS if path.parent.parent == folder]
    table = syllabus.table().data
    total = sum(float(sources.read(path).header["minutes"]) for path in own)
    assert f"| **{syllabus.heading(folder.name)}** | **{total:g}** |" in table
    for path in own:
        assert f"{folder.name}/{path.parent.name}/{path.parent.name}.ipynb" in table


# -- prose and code ------------------------------------------------------------------------------


def prose(text: str) -> str:
    """A text cell's sentences: no code, tables, links' addresses, or answers behind a fold."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^\s*\|.*$", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "code", text)


@each_lecture
def test_no_banned_words(path: Path) -> None:
    said = [prose(cell.source) for cell in texts(path)]
    said += [str(getattr(arg, "value", "")) for n in ("predict", "compare", "claim")
             for call in calls(path, n) for arg in call.args]  # fmt: skip
    for text in said:
        for word in BANNED:
            flags = 0 if word.isupper() else re.IGNORECASE
            assert not re.search(rf"\b{word}\b", text, flags), f"{word!r} in: {text[:80]}"
