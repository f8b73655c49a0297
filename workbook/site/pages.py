"""An executed lecture as a page: what is folded, what is left out, and where links lead.

- A prediction's answer is folded: the outputs from the question to its comparison, and the code of
  the comparison, because its claims give the answer away.
- A cell that only asks, compares, claims or shows a task is shown as its card, without its code.
- A task's solution follows it behind a fold.
- A link to something that is no page of the site becomes its text.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from ..lessons import tasks

HARNESS = ("predict", "predict_curve", "compare", "compare_curve", "claim", "task")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def page(node: NotebookNode, place: Path, files: Collection[Path]) -> NotebookNode:
    """The page of an executed lecture.

        node = page(executed, Path("1_architecture/01__first_model/01__first_model.ipynb"), names)

    Args:
        node: the executed notebook; it is not changed.
        place: its path below `lectures/`.
        files: the paths of all pages, and of what else they may link to, below `lectures/`.
    """
    made = deepcopy(node)
    made.cells = []
    made.metadata["language_info"]["pygments_lexer"] = "ipython3"  # knows magics
    open_questions: set[str] = set()  # predictions whose answer is not shown yet
    for cell in deepcopy(node.cells):
        if cell.cell_type == "markdown":
            cell.source = links(cell.source, place, files)
        made.cells.append(cell)
        if cell.cell_type != "code":
            continue
        about = _about(cell)
        answers = about.get("compare", set())
        if (open_questions or answers) and not about.get("predict"):
            _fold(cell, whole=bool(answers))
        open_questions = (open_questions | about.get("predict", set())) - answers
        if _is_harness(cell.source):
            cell.metadata.setdefault("tags", []).append("remove-input")
        for output in cell.outputs:
            _markdown_links(output, place, files)
        made.cells += [solution(id) for id in sorted(about.get("task", ()))]
    return made


def solution(id: str) -> NotebookNode:
    """A text cell with a task's solution behind a fold."""
    code = tasks.find(id).solution.strip()
    parts = ["<details><summary>A solution</summary>", "", "```python", code, "```", "</details>"]
    cell: NotebookNode = nbformat.v4.new_markdown_cell("\n".join(parts))  # type: ignore[no-untyped-call]
    cell.id = re.sub(r"\W", "-", id)
    return cell


def _about(cell: NotebookNode) -> dict[str, set[str]]:
    """The names that a cell's cards belong to, by `predict`, `compare`, `claim` and `task`."""
    found: dict[str, set[str]] = {}
    for output in cell.outputs:
        for kind, name in output.get("metadata", {}).get("workbook", {}).items():
            found.setdefault(kind, set()).add(name)
    return found


def _fold(cell: NotebookNode, *, whole: bool) -> None:
    """Hide a cell's output, or the whole cell, until the reader asks for it."""
    if cell.outputs:
        cell.metadata.setdefault("tags", []).append("hide-cell" if whole else "hide-output")
        cell.metadata["mystnb"] = {
            "code_prompt_show": "Predict first, then open: what was measured",
            "code_prompt_hide": "What was measured",
        }


def _is_harness(code: str) -> bool:
    """Whether a cell only asks, compares, claims or shows a task, apart from imports."""
    if re.search(r"(?m)^\s*[%!]", code):
        return False
    statements = [line for line in ast.parse(code).body if not isinstance(line, ast.ImportFrom)]
    calls: list[Any] = [getattr(line, "value", None) for line in statements]
    return bool(calls) and all(
        isinstance(call, ast.Call) and getattr(call.func, "id", "") in HARNESS for call in calls
    )


def links(text: str, place: Path, files: Collection[Path]) -> str:
    """A text whose links lead to pages of the site, or elsewhere on the web."""

    def link(found: re.Match[str]) -> str:
        target = found[2].partition("#")[0]
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        there = Path(os.path.normpath(place.parent / target))
        return found[0] if there in files else found[1]

    return _LINK.sub(link, text)


def _markdown_links(output: NotebookNode, place: Path, files: Collection[Path]) -> None:
    data = output.get("data", {})
    if "text/markdown" in data:
        text = links(data["text/markdown"], place, files)
        # Sphinx knows the pages in a text cell, and takes an output's links as they are.
        data["text/markdown"] = re.sub(r"\.ipynb(#[^)]*)?\)", r".html\1)", text)
