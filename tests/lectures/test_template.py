"""The notebooks' template: cells that run without the course, answers out of sight, folds."""

from __future__ import annotations

import ast
import collections
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tests.lectures.changes import CHANGES
from tests.lectures.course import LECTURES, each_lecture, each_topic
from workbook.notebooks import building
from workbook.notebooks.hide_words import carried

#: Calls that show a card or a widget. A cell of these alone has nothing to take home.
CARDS = ("predict", "predict_curve", "compare", "compare_curve", "claim", "task")
AT_WORK = "## The same at work, without this course"
#: What a lecture writes to make sure that a measurement means something.
BOOKKEEPING = re.compile(
    r"\b(attempt|Premise|premise|sent_as_planned|reached_rate|steady\(|counted\(|arrived_together)\b"
)
# -- cells without the course --------------------------------------------------------------------


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in building.page(path).cells if cell.cell_type == "code"]


def portable(cell: Any) -> bool:
    return "triton" in cell.metadata.get("tags", ())


def tree(code: str) -> ast.Module:
    """A code cell's Python; a cell that is another language or a file is empty."""
    if code.startswith("%%"):
        return ast.Module([], [])
    return ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", code))


def only_cards(cell: Any) -> bool:
    """Whether a cell holds nothing but calls of `CARDS`, and their imports."""
    body = [s for s in tree(cell.source).body if not isinstance(s, ast.Import | ast.ImportFrom)]
    calls = [getattr(getattr(s, "value", None), "func", None) for s in body]
    return bool(body) and all(getattr(call, "id", "") in CARDS for call in calls)


@each_topic
def test_half_of_the_cells_run_without_the_course(path: Path) -> None:
    """test_lectures_run.py runs them so.

    Cells of predictions, claims and tasks alone do not count: they have no code to learn from.
    """
    cells = [cell for cell in code_cells(path) if not only_cards(cell)]
    own = [cell.source.splitlines()[0][:60] for cell in cells if not portable(cell)]
    assert 2 * len(own) <= len(cells), (
        f'{len(own)} of {len(cells)} code cells lack tags=["triton"]: {own}'
    )


#: What a cell for work finds: the path of the server's repository, and IPython's own function.
_AT_HAND = "from pathlib import Path\nmodels = Path()\ndef get_ipython(): ...\n"
#: The course's modules, and those of a notebook.
_COURSE = {"workbook", "grader", "setup", "task", "solution"}


@each_topic
def test_cells_without_the_course_use_no_name_of_it(path: Path) -> None:
    """Each name comes from a cell with the tag `triton` above, and no import from the course.

    `test_lectures_run.py` runs these cells in a Python that lacks the course: of short lectures at
    each change, of the others in `make mutants`.
    """

    def program(line: re.Match[str]) -> str:
        """The program that a line with `%run` runs: its names are the notebook's afterwards."""
        file = path.parent / line[1].replace("{models}", "models")
        return file.read_text("utf-8")

    cells = [
        re.sub(r"(?m)^%run (\S+).*$", program, cell.source)
        for cell in code_cells(path)
        if portable(cell)
    ]
    code = _AT_HAND + "\n".join(TransformerManager().transform_cell(cell) for cell in cells)
    for node in ast.walk(ast.parse(code)):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        ours = [name for name in names if name.partition(".")[0] in _COURSE]
        assert not ours, f"A cell that runs without the course imports {ours}."
    ruff = Path(sys.executable).with_name("ruff")
    done = subprocess.run(
        [ruff, "check", "--isolated", "--select=F821,F403", "--output-format=concise", "-"],
        input=code, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@each_topic
def test_a_lecture_ends_with_the_same_at_work(path: Path) -> None:
    cells = building.page(path).cells
    heads = [i for i, cell in enumerate(cells) if cell.source.startswith(AT_WORK)]
    assert len(heads) == 1, f"Write one text that begins with {AT_WORK}"
    after = [cell for cell in cells[heads[0] :] if cell.cell_type == "code"]
    assert any(portable(cell) and "at_work/" in cell.source for cell in after)
    files = [file for file in path.parent.glob("at_work/**/*") if file.is_file()]
    assert files, f"{path.parent.name}/at_work has no files."
    lines = 0
    for file in files:
        text = file.read_text("utf-8")
        assert not re.search(r"\bworkbook\b", text), file
        lines += sum(1 for line in text.splitlines() if line.strip())
    assert 10 <= lines <= 45, lines


# -- answers out of sight ------------------------------------------------------------------------


def between(cells: list[Any], key: str) -> list[Any]:
    """The cells from a prediction to its comparison, both included."""

    def place(name: str) -> int:
        call = re.compile(rf'\b{name}(_curve)?\(\s*"{re.escape(key)}"')
        return next(i for i, cell in enumerate(cells) if call.search(cell.source))

    return cells[place("predict") : place("compare") + 1]


@each_lecture
def test_no_cell_gives_the_answer_before_the_comparison(path: Path) -> None:
    """No option's text stands in a cell below the question, and no comparison that decides."""
    node = building.page(path)
    texts = carried(node)
    for key, question in texts.get("predict", {}).items():
        options = question.get("options")
        decides = names(texts["compare"][key])
        for cell in between(node.cells, key):
            if cell.cell_type == "markdown":
                right = [o for o, word in dict(options or {}).items() if word is None]
                long = [option for option in right if len(option.split()) > 2]
                assert not [o for o in long if o in cell.source], f"{key}: {cell.source[:80]}"
                continue
            strings = [n.value for n in ast.walk(tree(cell.source)) if isinstance(n, ast.Constant)]
            assert not {*strings} & {*(options or ())}, f"{key}: {cell.source}"
            for node_ in ast.walk(tree(cell.source)):
                if isinstance(node_, ast.Compare | ast.IfExp):
                    assert not names(ast.unparse(node_)) & decides, f"{key}: {cell.source}"


def names(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


@each_topic
def test_bookkeeping_takes_two_lines_at_most(path: Path) -> None:
    lines = [line for cell in code_cells(path) for line in cell.source.splitlines()]
    found = [line for line in lines if BOOKKEEPING.search(line) and "import" not in line]
    assert len(found) <= 2, found


# -- folds ---------------------------------------------------------------------------------------


@each_lecture
def test_errata_are_folded(path: Path) -> None:
    """What a document says wrongly stands in a fold, after what is right."""
    for cell in building.page(path).cells:
        if cell.cell_type == "markdown" and path.parent.name != "00__start":
            open_text = re.sub(r"(?s)<details>.*?</details>", "", cell.source)
            assert "Errat" not in open_text, open_text[:80]


@pytest.mark.parametrize("name", ["document 000", "document 004"])
@each_lecture
def test_code_names_of_documents_are_not_shown(path: Path, name: str) -> None:
    assert all(name not in cell.source.lower() for cell in building.page(path).cells)


# -- names ---------------------------------------------------------------------------------------


def test_a_folder_and_the_first_word_of_ids_belong_to_one_notebook() -> None:
    """Two notebooks with one `folder("…")` empty each other's models."""
    notebooks = collections.defaultdict(list)
    for path in LECTURES:
        text = path.read_text("utf-8")
        ids = r'\b(?:(?:predict|compare)(?:_curve)?|task)\(\s*"(\w+)\.|\bid="(\w+)\.'
        found = {f'folder("{name}")' for name in re.findall(r'\bfolder\("(\w+)"\)', text)}
        found |= {f'"{one or other}.…"' for one, other in re.findall(ids, text)}
        for name in {path.parent.name, *found}:
            notebooks[name].append(str(path.parent))
    assert not {name: where for name, where in notebooks.items() if len(where) > 1}
    assert len(notebooks) > 2 * len(LECTURES)


# -- second runs ---------------------------------------------------------------------------------


@each_topic
def test_the_number_that_a_second_run_changes_is_in_a_cell(path: Path) -> None:
    """`make mutants` makes the second runs of long lectures; a changed cell would be seen late."""
    code = "\n".join(cell.source for cell in code_cells(path))
    for text, other in CHANGES.get(path.parent.name, ()):
        assert text in code, text
        assert text != other
