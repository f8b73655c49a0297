"""Hide the texts of predictions and claims in a built notebook, which carries them encoded.

The source has a question with its options, and an explanation for each wrong one. In the notebook
this code would give the right answer away, and so would the sentence of a claim. So the notebook
has `predict("batcher.delay")` and `claim(calm > 1, id="batcher.delay")`. The texts are in the
notebook's metadata, as JSON in base64 that nobody reads by accident:

    {"metadata": {"workbook": {"title": …, "words": "eyJwcmVkaWN0Ijog…"}}, "cells": …}

`predict` and `claim` find them there (workbook/lessons/words.py), so that a notebook which a reader
keeps runs with its own texts on every later version of the course.
"""

from __future__ import annotations

import ast
import base64
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from ..common.errors import WorkbookError
from .source import Cell, Source

#: The functions that ask, and the names of their positional arguments after the key.
ASKING = {"predict": ("question", "options"), "predict_curve": ("question", "x", "y_range")}
_WIDTH = 100

#: Function → key → a question's arguments, or the code of a claim's two texts.
Words = dict[str, dict[str, Any]]


def hide_texts(source: Source) -> Source:
    """The same source with only the key of each question and the condition of each claim.

        node = notebook(hide_texts(read(path)))

    The header has the texts, encoded, as `words`. A claim keeps its texts if it has no id, or if
    its texts are not written in the call.

    Raises:
        WorkbookError: a question is not written out.
    """
    words: Words = {}
    cells = [
        dataclasses.replace(cell, source=_short(source, cell, words)) if _speaks(cell) else cell
        for cell in source.cells
    ]
    header = {**source.header, "words": encode(words)} if words else source.header
    return dataclasses.replace(source, header=header, cells=tuple(cells))


def encode(words: Words) -> str:
    """Encode the texts of a notebook, so that nobody reads them by accident."""
    return base64.b64encode(json.dumps(words).encode()).decode()


def carried(notebook: Mapping[str, Any]) -> Words:
    """The texts that a notebook carries.

        carried(json.loads(path.read_bytes()))["predict"]["batcher.delay"]["question"]

    Args:
        notebook: the content of its file.

    Returns:
        The texts; {} where there are none, or they cannot be read.
    """
    try:
        return dict(json.loads(base64.b64decode(notebook["metadata"]["workbook"]["words"])))
    except (KeyError, TypeError, ValueError):
        return {}


def _python(cell: Cell) -> str:
    """A cell's Python. Magics are replaced by a statement, so that line numbers stay the same."""
    return re.sub(r"(?m)^[%!].*$", "pass", cell.source)


def _speaks(cell: Cell) -> bool:
    if cell.type != "code" or cell.source.startswith("%%"):
        return False
    return bool(re.search(rf"(?m)^({'|'.join((*ASKING, 'claim'))})\(", cell.source))


def _short(source: Source, cell: Cell, words: Words) -> str:
    """A cell's code without the texts, which are added to `words`."""
    lines, python = cell.source.splitlines(), _python(cell)
    for statement in reversed(ast.parse(python).body):
        call = getattr(statement, "value", None)
        if not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "id", "")
        if name in ASKING and len(call.args) + len(call.keywords) > 1:
            key, arguments = _question(name, call, f"{source.path}, line {cell.line + call.lineno}")
            words.setdefault(name, {})[key] = arguments
            short = f'{name}("{key}")'
        elif name == "claim" and _has_words(call):
            id = next(ast.literal_eval(word.value) for word in call.keywords if word.arg == "id")
            # In brackets, since a text may be written on several lines.
            texts = [f"({ast.get_source_segment(python, text)})" for text in call.args[1:]]
            words.setdefault(name, {})[id] = texts
            short = _claim(call, python)
        else:
            continue
        lines[statement.lineno - 1 : statement.end_lineno] = [short]
    return "\n".join(lines)


def _question(name: str, call: ast.Call, where: str) -> tuple[str, dict[str, Any]]:
    """The key of a question that is written out, and its other arguments."""
    try:
        key, *given = [ast.literal_eval(value) for value in call.args]
        named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except ValueError:
        raise WorkbookError(
            "The text of a question is computed when the cell runs.",
            where=where,
            todo="Write out its texts and numbers: the notebook carries them.",
        ) from None
    return str(key), dict(zip(ASKING[name], given, strict=False)) | named


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
