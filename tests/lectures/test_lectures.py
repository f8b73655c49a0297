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
from workbook.common.errors import WorkbookError
from workbook.notebooks import Cell, Source, building, executing
from workbook.server import Server, Triton, all_models

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
    named = {name for name in all_models.names(repository) if re.search(rf"\b{name}\b", code)}
    with Triton(repository) as server:
        for name in sorted(named):  # an ensemble needs its parts
            config = (repository / name / "config.pbtxt").read_text("utf-8")
            named |= set(re.findall(r'model_name: "(\w+)"', config))
        zoo.repository.build(only=sorted(named))
        assert all_models.load_all(server, sorted(named)) == {}
        yield {
            "TRITON_URL": server.url,
            "TRITON_GRPC_URL": server.grpc_url,
            "TRITON_METRICS_URL": server.metrics_url,
            "TRITON_REPOSITORY": str(server.repository),
        }


#: Numbers that a reader may change before running a cell again: lecture → (text, what replaces it).
CHANGES = {
    "00__start": [("numbers = [1, 2, 3]", "numbers = [1, 2, 3, 4]")],
    "01__first_model": [("np.array([[1, 2, 3, 4]]", "np.array([[5, 6, 7, 8]]")],
    "02__inside_the_server": [('"data": [3_000_000]', '"data": [2_000_000]'),
                              ("random((5, 1, 1, 8, 8)", "random((7, 1, 1, 8, 8)")],
    "03__schedulers": [('"alone", measure.every(1, 6)', '"alone", measure.every(1, 4)'),
                       ('"together", measure.every(1, 6)', '"together", measure.every(1, 9)'),
                       ("np.array([5], np.int32)", "np.array([7], np.int32)")],
    "04__dynamic_batcher": [("measure.every(5, 40)", "measure.every(5, 60)"),
                            ("measure.every(1, 60)", "measure.every(1, 80)")],
    "05__model_repository_manager": [("time.sleep(0.5)  # as", "time.sleep(0.7)  # as"),
                                     ('sample}, "count": 3', 'sample}, "count": 2')],
    "06__metrics": [('"anton": (15, 4)', '"anton": (20, 4)'),
                    ("[2] * 9 + [100]", "[2] * 9 + [200]")],
    "07__ways_in": [("random((1, 1000)", "random((1, 2000)"), ("requests = 20", "requests = 30"),
                    ("one model speaks to many callers", "one more model speaks to all of them")],
}  # fmt: skip


#: How often a lecture may run, and the messages of a false claim and a false premise.
TRIES, MEASURED = 3, re.compile("This does not hold here|This run does not show it")


@pytest.mark.alone
@pytest.mark.timeout(1_800)
@each_lecture
def test_a_lecture_runs_and_its_cells_run_again(path: Path, shared: dict[str, str]) -> None:
    """A lecture runs from top to bottom; then a reader goes back to its start and plays with it.

    First run: every cell runs, every claim holds, and the shared server serves what it served
    before.

    Second run, in the same kernel, so with all that the first one left behind: every code cell
    runs twice in a row, the second time with another number where `CHANGES` has one. At the end
    of each section (a heading of the second level), the cells of the section that only look at
    results run once more, in reverse order. No cell may raise, so no claim may fail either.

    Lectures measure. Where a claim or a premise is false in one try, the lecture is tried again.
    """
    served = serves(shared["TRITON_URL"])
    for left in reversed(range(TRIES)):
        try:
            play(path, shared)
            break
        except WorkbookError as error:
            # Other programs on this machine can spoil a measurement. Anything else is a mistake.
            if not left or not MEASURED.search(str(error)):
                raise
    assert serves(shared["TRITON_URL"]) == served


def play(path: Path, shared: dict[str, str]) -> None:
    """The two runs of `test_a_lecture_runs_and_its_cells_run_again`.

    Raises:
        WorkbookError: a cell failed.
    """
    changes = list(CHANGES.get(path.stem, ()))
    with executing.session(path, shared) as lecture:
        lecture.run()
        assert all(c.execution_count for c in lecture.node.cells if c.cell_type == "code")
        for section in sections(lecture.node):
            looking = []
            for place in section:
                code = lecture.node.cells[place].source
                lecture.cell(place)
                for text, other in [pair for pair in changes if pair[0] in code]:
                    code = code.replace(text, other)
                    changes.remove((text, other))
                lecture.cell(place, code)
                if only_looks(code):
                    looking.append(place)
            for place in reversed(looking):
                lecture.cell(place)
    assert not changes, f"no cell holds {changes}"


@pytest.mark.parametrize(
    ("name", "lost", "needed"),
    [
        ("00__start", ["square"], "square"),
        ("02__inside_the_server", ["language", "language_onnx", "language_labels"], "language"),
        ("02__inside_the_server", ["language_onnx"], "language"),
    ],
)
def test_the_first_cell_loads_what_the_server_has_lost(
    shared: dict[str, str], name: str, lost: list[str], needed: str
) -> None:
    with Server(shared["TRITON_URL"]) as server:
        served = serves(shared["TRITON_URL"])
        for model in lost:
            server.unload(model)
        assert serves(shared["TRITON_URL"]) != served
        path = next(path for path in LECTURES if path.stem == name)
        with executing.session(path, shared) as lecture:
            first = next(i for i, c in enumerate(lecture.node.cells) if c.cell_type == "code")
            lecture.cell(first)
        assert server.ready(needed)
        assert serves(shared["TRITON_URL"]) == served


def sections(node: Any) -> list[list[int]]:
    """The places of the code cells of each section, from one heading `## …` to the next."""
    found: list[list[int]] = [[]]
    for place, cell in enumerate(node.cells):
        if cell.cell_type == "code":
            found[-1].append(place)
        elif cell.source.startswith("## "):
            found.append([])
    return found


def only_looks(code: str) -> bool:
    """Whether a cell compares and claims, and asks no server anything."""
    asks = r"\b(lab|server|poller|client|openai|core|connect|attempt|ask|httpx|started)\b"
    return bool(re.search(r"\b(compare|claim)\(", code)) and not re.search(asks, code)


def serves(url: str) -> list[tuple[str, str]]:
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


@each_lecture
def test_every_comparison_names_its_premise(path: Path) -> None:
    for call in calls(path, "compare"):
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
