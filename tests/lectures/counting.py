"""Measure how long a lecture's notebook is: cells, lines, words, share of harness, minutes.

    source = Path("lectures/1_architecture/01__first_model/lesson.py")
    counts = count(building.page(source), source.parent)
    print(counts.cells, counts.harness, round(counts.minutes))

Everything that a reader sees counts: imports and configs as lines of code, tables and lists as
words. A folded answer counts as a text of its own, because the reader opens it by itself. A program
in a text, between two lines with ```, counts as code: its lines count like those of a code cell. So
do the lines of a file that a cell shows: `show("models/crowd/config.pbtxt")`. The code of a cell
that the notebook shows as a bar does not count.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

from nbformat import NotebookNode

#: Calls that belong to the lesson and not to Triton. A statement with such a call is harness.
HARNESS = frozenset(
    ("predict", "predict_curve", "compare", "compare_curve", "claim", "task", "folder", "Premise")
)
WORDS_PER_MINUTE, LINES_PER_MINUTE = 110, 20
#: Minutes for one code cell (to run it, and look at the result), a prediction, a task.
CELL, PREDICTION, TASK = 1 / 5, 1 / 2, 5
_PROGRAM = r"(?ms)^```\w*\n(.*?)^```"


@dataclasses.dataclass(frozen=True)
class Counts:
    """What was counted in one notebook.

    Attributes:
        cells: all cells that the notebook does not show as a bar.
        code_cells: those with code.
        longest_code: lines of the longest code cell, or of a program in a text, without blank
            ones.
        longest_text: words of the longest text: a text cell with its folds closed, or a fold.
        lines: lines of code in all, without blank ones, also those of files that a cell shows.
        harness_lines: those of statements with a call of `HARNESS`.
        words: words in all.
        predictions: how many questions it asks.
        tasks: how many tasks it sets.
    """

    cells: int
    code_cells: int
    longest_code: int
    longest_text: int
    lines: int
    harness_lines: int
    words: int
    predictions: int
    tasks: int

    @property
    def harness(self) -> float:
        """The harness's share of the lines of code."""
        return self.harness_lines / self.lines if self.lines else 0.0

    @property
    def minutes(self) -> float:
        """The minutes that a reader needs, without the machine's working time."""
        reading = self.words / WORDS_PER_MINUTE + self.lines / LINES_PER_MINUTE
        return reading + self.code_cells * CELL + self.predictions * PREDICTION + self.tasks * TASK


def count(node: NotebookNode, home: Path) -> Counts:
    """Count a notebook.

    Args:
        node: the notebook as readers get it, from `building.page`.
        home: its folder, with the files that it shows.
    """
    markdown = [cell.source for cell in node.cells if cell.cell_type == "markdown"]
    texts = [words(text) for cell in markdown for text in _unfolded(cell)]
    code_cells = [cell for cell in node.cells if cell.cell_type == "code"]
    codes = [cell.source for cell in code_cells if not collapsed(cell)]
    lines = [_lines(code) for code in codes]
    shown = [_lines(program) for cell in markdown for program in re.findall(_PROGRAM, cell)]
    calls = [call for code in codes for call in _calls(code)]
    names = [getattr(call.func, "id", "") for call in calls]
    files = [home / arg.value for call, name in zip(calls, names, strict=True) if name == "show"
             for arg in call.args if isinstance(arg, ast.Constant)]  # fmt: skip
    return Counts(
        cells=sum(not collapsed(cell) for cell in node.cells),
        code_cells=len(code_cells),
        longest_code=max(map(len, [*lines, *shown]), default=0),
        longest_text=max(texts, default=0),
        lines=sum(map(len, lines)) + sum(len(_lines(file.read_text("utf-8"))) for file in files),
        harness_lines=sum(len(_harness(code)) for code in codes),
        words=sum(texts),
        predictions=names.count("predict") + names.count("predict_curve"),
        tasks=names.count("task"),
    )


def collapsed(cell: NotebookNode) -> bool:
    """Whether JupyterLab shows a bar in place of a cell's code."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def words(text: str) -> int:
    """The words of a text cell that a reader sees; a piece of code such as `a = 1` is one word.

    >>> words("Ask [the *server*](https://example.org/a): `a = 1`.")
    4
    """
    text = re.sub(_PROGRAM, " ", text)
    text = re.sub(r"<[^>]*>", " ", text)  # tags, with the addresses in them
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)  # images
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`\n]+`", "code", text)
    return len(re.findall(r"\w[\w'.,-]*", text))


def _unfolded(cell: str) -> list[str]:
    """A text cell with its folds closed, and then the content of each fold."""
    folds = re.findall(r"(?s)</summary>(.*?)</details>", cell)
    return [re.sub(r"(?s)</summary>.*?</details>", "</summary>", cell), *folds]


def _tree(code: str) -> ast.Module:
    """A code cell's Python. Files that it writes are left out; a magic becomes `pass`."""
    if code.startswith("%%"):
        return ast.Module([], [])
    return ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", code))


def _lines(code: str) -> set[int]:
    return {number for number, line in enumerate(code.splitlines(), 1) if line.strip()}


def _calls(code: str) -> list[ast.Call]:
    return [node for node in ast.walk(_tree(code)) if isinstance(node, ast.Call)]


def _harness(code: str) -> set[int]:
    """The lines of statements that belong to the lesson, also inside functions and loops."""
    found: set[int] = set()
    for node in ast.walk(_tree(code)):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
        if any(getattr(call.func, "id", "") in HARNESS for call in calls):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found & _lines(code)
