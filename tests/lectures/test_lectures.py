"""The lectures: each runs on a real server; links, names, keys, minutes and the rules of prose."""

from __future__ import annotations

import ast
import importlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from workbook import notebooks, zoo
from workbook.cli import app
from workbook.common import paths
from workbook.notebooks import Cell, Source, building, executing
from workbook.server import Triton, fleet

HOME = paths.root() / "lectures"
LECTURES = sorted(HOME.glob("**/[0-9][0-9]__*.py"))
TOPICS = [path for path in LECTURES if path.parent != HOME]
WORDS, LINES = 60, 12  # at most, in a text cell and in a code cell
BANNED = ("simply", "just", "easy", "easily", "obviously", "trivial", "AI")

each_lecture = pytest.mark.parametrize("path", LECTURES, ids=lambda path: path.stem)
each_topic = pytest.mark.parametrize("path", TOPICS, ids=lambda path: path.stem)


def source(path: Path) -> Source:
    return notebooks.read(path)


def built(path: Path) -> Any:
    return nbformat.read(path.with_suffix(".ipynb"), as_version=4)  # type: ignore[no-untyped-call]


def texts(path: Path) -> list[Cell]:
    return [cell for cell in source(path).cells if cell.type == "markdown"]


def codes(path: Path) -> list[Cell]:
    return [cell for cell in source(path).cells if cell.type == "code"]


def parsed(cell: Cell) -> ast.Module:
    """A code cell's Python; a cell magic's body is another file, line magics are left out."""
    if cell.source.startswith("%%"):
        return ast.Module([], [])
    return ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", cell.source))


def calls(path: Path, name: str) -> list[ast.Call]:
    return [
        node
        for cell in codes(path)
        for node in ast.walk(parsed(cell))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name
    ]


def keys(path: Path, name: str) -> list[str]:
    return [str(ast.literal_eval(call.args[0])) for call in calls(path, name)]


# -- they run ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, str]]:
    """A server on the shared repository, with the models that a lecture names."""
    repository = paths.root() / "model_repository"
    code = "\n".join(cell.source for path in LECTURES for cell in source(path).cells)
    named = {name for name in fleet.names(repository) if re.search(rf"\b{name}\b", code)}
    with Triton(repository) as server:
        for name in sorted(named):  # an ensemble needs its parts
            config = (repository / name / "config.pbtxt").read_text("utf-8")
            named |= set(re.findall(r'model_name: "(\w+)"', config))
        zoo.repository.build(only=sorted(named))
        assert fleet.load_all(server, sorted(named)) == {}
        yield {
            "TRITON_URL": server.url,
            "TRITON_GRPC_URL": server.grpc_url,
            "TRITON_METRICS_URL": server.metrics_url,
            "TRITON_REPOSITORY": str(server.repository),
        }


@each_lecture
def test_a_lecture_runs_from_top_to_bottom(path: Path, shared: dict[str, str]) -> None:
    """Every cell runs, every claim holds, and the shared server serves what it served before."""
    served = serves(shared["TRITON_URL"])
    node = executing.run(path, shared)
    assert all(cell.execution_count for cell in node.cells if cell.cell_type == "code")
    assert serves(shared["TRITON_URL"]) == served


def serves(url: str) -> list[tuple[str, str]]:
    from workbook.server import Server

    with Server(url) as server:
        return sorted((m["name"], str(m.get("version"))) for m in server.index(ready_only=True))


# -- the built notebooks -------------------------------------------------------------------------


@each_lecture
def test_the_built_notebook_is_up_to_date_and_executed(path: Path) -> None:
    assert building.build(building.Lecture(path), dry=True) == []
    for cell in built(path).cells:
        if cell.cell_type == "code":
            assert cell.execution_count, f"not executed:\n{cell.source}"
            assert not [o for o in cell.outputs if o.output_type == "error"], cell.source


@each_lecture
def test_a_built_notebook_shows_nothing_of_the_machine_it_was_built_on(path: Path) -> None:
    for cell in built(path).cells:
        for output in cell.get("outputs", ()):
            shown = {k: v for k, v in output.get("data", {}).items() if k.startswith("text/")}
            for private in (f"{paths.root()}/", f"{Path.home()}/", tempfile.gettempdir()):
                assert private not in json.dumps([output.get("text"), shown]), cell.source


# -- links and names -----------------------------------------------------------------------------


def headings(path: Path) -> set[str]:
    """The headings of a notebook as Jupyter makes anchors of them."""
    found = re.findall(r"(?m)^#+ (.+)$", "\n".join(cell.source for cell in texts(path)))
    return {heading.strip().replace(" ", "-") for heading in found}


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
            if anchor and file.suffix in (".ipynb", ".py"):
                assert anchor in headings(file.with_suffix(".py")), f"{target}#{anchor}"


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
    for cell in texts(path):
        for name in re.findall(r"`((?:workbook|measure)(?:\.\w+)+)[`(]", cell.source):
            resolve(name if name.startswith("workbook") else f"workbook.{name}")
    for cell in codes(path):
        for node in ast.walk(parsed(cell)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbook"):
                for alias in node.names:
                    resolve(f"{node.module}.{alias.name}")
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "measure":
                resolve(f"workbook.measure.{node.attr}")


@each_lecture
def test_commands_that_are_named_exist(path: Path) -> None:
    known = {c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands}
    for cell in texts(path):
        named = re.findall(r"(?:`|\$ )workbook ([a-z]+)", cell.source)
        assert set(named) <= known, f"line {cell.line}"


# -- what every lecture has ----------------------------------------------------------------------


def test_keys_of_predictions_belong_to_one_lecture_each() -> None:
    every = Counter(key for path in LECTURES for key in keys(path, "predict"))
    assert not [key for key, count in every.items() if count > 1]


@each_topic
def test_predictions_are_compared_later(path: Path) -> None:
    asked, shown = keys(path, "predict"), keys(path, "compare")
    assert asked
    assert asked == shown


@each_topic
def test_a_lecture_has_its_parts(path: Path) -> None:
    cells = texts(path)
    assert cells[0].source.startswith("# ")
    assert "**Question.**" in "\n".join(cell.source for cell in cells[:2])
    remember = next(c.source for c in cells if c.source.startswith("## What to remember"))
    assert len(re.findall(r"(?m)^- ", remember)) == 3
    check = next(c.source for c in cells if c.source.startswith("## Check yourself"))
    assert len(re.findall("<details>", check)) in (2, 3)
    assert check.count("<details>") == check.count("</details>")
    assert calls(path, "claim")


@each_topic
def test_claims_say_what_to_try(path: Path) -> None:
    for call in calls(path, "claim"):
        assert len(call.args) == 3, f"claim in {path.stem}: {ast.unparse(call)[:80]}"


def minutes(path: Path) -> float:
    return float(source(path).header["minutes"])


@each_topic
def test_minutes_of_a_lecture(path: Path) -> None:
    assert 10 <= minutes(path) <= 25


@pytest.mark.parametrize("folder", sorted({path.parent for path in TOPICS}), ids=lambda f: f.name)
def test_the_start_sums_the_minutes(folder: Path) -> None:
    start = json.dumps([
        [cell.source, cell.get("outputs")] for cell in built(HOME / "00__start.py").cells
    ])  # fmt: skip
    own = [path for path in TOPICS if path.parent == folder]
    assert re.search(rf"\b{sum(map(minutes, own)):.0f}\b", start)
    for path in own:
        assert f"{folder.name}/{path.stem}.ipynb" in start


# -- prose and code ------------------------------------------------------------------------------


def prose(text: str) -> str:
    """A text cell's sentences: no code, tables, links' addresses, or answers behind a fold."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^\s*\|.*$", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "code", text)


@each_lecture
def test_text_cells_are_short(path: Path) -> None:
    for cell in texts(path):
        count = len(re.findall(r"\w[\w'.-]*", prose(cell.source)))
        assert count <= WORDS, f"{count} words in line {cell.line}"


@each_lecture
def test_no_banned_words(path: Path) -> None:
    said = [prose(cell.source) for cell in texts(path)]
    said += [str(getattr(arg, "value", "")) for n in ("predict", "compare", "claim")
             for call in calls(path, n) for arg in call.args]  # fmt: skip
    for text in said:
        for word in BANNED:
            flags = 0 if word.isupper() else re.IGNORECASE
            assert not re.search(rf"\b{word}\b", text, flags), f"{word!r} in: {text[:80]}"


def code_lines(cell: Cell) -> int:
    """Lines to be read: no blank ones, imports, long texts, words of predictions and claims."""
    tree = parsed(cell)
    passed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):  # a config, say
            passed |= set(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Import | ast.ImportFrom):
            passed |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "claim", "compare", "predict", "write"
        ):  # fmt: skip
            passed |= set(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(cell.source.splitlines(), 1)
    return sum(bool(line.strip()) and number not in passed for number, line in lines)


@each_lecture
def test_code_cells_are_short(path: Path) -> None:
    for cell in codes(path):
        if not cell.source.startswith("%%writefile"):
            assert code_lines(cell) <= LINES, f"{code_lines(cell)} lines in line {cell.line}"


# -- coverage ------------------------------------------------------------------------------------

ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| \[([^\]]+)\]\(([^)#]+)\) \| ([^|]+) \|$")


def coverage() -> list[tuple[str, ...]]:
    lines = (HOME / "coverage.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| where in", "| ---"))]
    assert all(ROW.match(row) for row in rows), [row for row in rows if not ROW.match(row)]
    return [match.groups() for row in rows if (match := ROW.match(row))]


def section(path: Path, heading: str) -> str:
    """The text and code below a heading, up to the next one."""
    lines = "\n\n".join(cell.source for cell in source(path).cells).splitlines()
    starts = [n for n, line in enumerate(lines) if re.match(r"#+ ", line)]
    here = [n for n in starts if lines[n].lstrip("# ") == heading]
    assert here, f"{path.stem} has no heading {heading!r}"
    end = next((n for n in starts if n > here[0]), len(lines))
    return "\n".join(lines[here[0] : end])


@pytest.mark.parametrize("row", coverage(), ids=lambda row: f"{row[0]}: {row[1]}"[:60])
def test_every_item_of_the_source_document_is_covered(row: tuple[str, ...]) -> None:
    """The section that is named exists, and speaks of what it is named for."""
    _, _, heading, notebook, words = row
    text = section((HOME / notebook).with_suffix(".py"), heading).lower()
    for word in words.split(", "):
        assert word.lower() in text, f"{word!r} is not in {notebook}, {heading}"
