"""Take the lesson's words out of a built notebook: the keys of questions and claims are left.

The source has a question with its options, and a word for each wrong one. In the notebook, this
code would tell the right answer, and so would the sentence of a claim. So the notebook has
`predict("batcher.delay")` and `claim(calm > 1, id="batcher.delay")`; `predict` and `claim` look the
rest up in the source (workbook/lessons/words.py).
"""

from __future__ import annotations

import ast
import dataclasses
import re

from ..common.errors import WorkbookError
from .source import Cell, Source

ASKING = ("predict", "predict_curve")
_WIDTH = 100


def hidden(source: Source) -> Source:
    """The same source with the key of each question alone, and the condition of each claim.

        node = notebook(hidden(read(path)))

    A claim without an id keeps its words, and one whose words are not written in the call.

    Raises:
        WorkbookError: a question is not written out, so that it cannot be looked up.
    """
    cells = [
        dataclasses.replace(cell, source=_short(source, cell)) if _speaks(cell) else cell
        for cell in source.cells
    ]
    return dataclasses.replace(source, cells=tuple(cells))


def _speaks(cell: Cell) -> bool:
    if cell.type != "code" or cell.source.startswith("%%"):
        return False
    return bool(re.search(rf"(?m)^({'|'.join((*ASKING, 'claim'))})\(", cell.source))


def _short(source: Source, cell: Cell) -> str:
    lines = cell.source.splitlines()
    # Magics are no Python; a statement in their place keeps the numbers of lines.
    python = "\n".join("pass" if re.match(r"[%!]", line) else line for line in lines)
    for statement in reversed(ast.parse(python).body):
        call = getattr(statement, "value", None)
        if not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "id", "")
        if name in ASKING and len(call.args) + len(call.keywords) > 1:
            short = f'{name}("{_key(call, source, cell)}")'
        elif name == "claim" and _has_words(call):
            short = _claim(call, python)
        else:
            continue
        lines[statement.lineno - 1 : statement.end_lineno] = [short]
    return "\n".join(lines)


def _key(call: ast.Call, source: Source, cell: Cell) -> str:
    """The key of a question that is written out."""
    try:
        key, *_ = [
            ast.literal_eval(value)
            for value in [*call.args, *(word.value for word in call.keywords)]
        ]
    except ValueError:
        raise WorkbookError(
            "A question is put together when the cell runs.",
            where=f"{source.path}, line {cell.line + call.lineno}",
            todo="Write out its texts and numbers: predict looks them up in the source.",
        ) from None
    return str(key)


def _has_words(call: ast.Call) -> bool:
    """Whether a claim can be looked up: it has an id, and its two texts are written in the call."""
    named = any(word.arg == "id" for word in call.keywords)
    texts = call.args[1:]
    return named and len(texts) == 2 and all(_is_text(text) for text in texts)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Constant)


def _claim(call: ast.Call, python: str) -> str:
    """A claim without its two texts."""
    words = [f"{word.arg}={ast.get_source_segment(python, word.value)}" for word in call.keywords]
    parts = [ast.get_source_segment(python, call.args[0]) or "", *words]
    line = f"claim({', '.join(parts)})"
    if "\n" not in line and len(line) <= _WIDTH:
        return line
    return "\n".join(["claim(", f"    {parts[0]},", f"    {', '.join(words)},", ")"])
