"""Hide in a built notebook what would tell the answers; the notebook carries it encoded.

The source has a question with its options, and an explanation for each wrong one; and below the
experiment, what was measured and what is claimed of it:

    predict("batcher.delay", "What does a delay do?", {"it helps": "…", "it costs": None})
    compare("batcher.delay", "it costs" if late > early else "it helps", premise=calm)
    claim(late > early, f"{early:.0f}, then {late:.0f} ms.", "Run it again.", id="batcher.delay")

This code would give the right answer away before the reader has answered. So the notebook has calls
with the name alone, and the measured values:

    predict("batcher.delay")
    compare("batcher.delay", late=late, early=early)
    claim("batcher.delay", late=late, early=early)

What the calls stand for is in the notebook's metadata, as JSON in base64 that nobody reads by
accident: {"metadata": {"workbook": {"title": …, "words": "eyJwcmVkaWN0Ijog…"}}, "cells": …}. The
functions find it there (workbook/lessons/words.py), so that a notebook which a reader keeps runs
with its own texts on every later version of the course. A cell that holds nothing but comparisons
and claims is collapsed.
"""

from __future__ import annotations

import ast
import base64
import builtins
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..common.errors import WorkbookError
from .source import Cell, Source

#: The functions that ask, and the names of their positional arguments after the key.
ASKING = {"predict": ("question", "options"), "predict_curve": ("question", "x", "y_range")}
#: The functions that answer, and how many of their first arguments show measured values.
ANSWERING = {"compare": 2, "compare_curve": 3, "claim": 2}
_WIDTH = 100

#: Function → key → a question's arguments, or the code of an answering call.
Words = dict[str, dict[str, Any]]


def hide_texts(source: Source) -> Source:
    """The same source with short calls in place of questions, comparisons and claims.

        node = notebook(hide_texts(read(path)))

    The header has what they stand for, encoded, as `words`. A claim stays as it is if it has no id.

    Raises:
        WorkbookError: a question is not written out.
    """
    words: Words = {}
    values: set[str] = set()  # what the cells up to here have assigned
    reads = [_reads(cell) for cell in source.cells]
    cells: list[Cell] = []
    for place, cell in enumerate(source.cells):
        shown = cell
        if cell.type == "code" and not cell.source.startswith("%%"):
            tree = ast.parse(_python(cell))
            values |= {name for each in tree.body for name in _assigned(each)}
            elsewhere = set[str]().union(*reads[:place], *reads[place + 1 :])
            shown = _short(source, cell, tree, elsewhere, values, words)
        cells.append(shown)
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
    return re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", cell.source)


def _assigned(statement: ast.stmt) -> set[str]:
    """The names of the values that a statement assigns, outside of functions and comprehensions."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return set()
    bound = {
        inner
        for node in ast.walk(statement)
        if isinstance(node, ast.comprehension)
        for inner in ast.walk(node.target)
    }
    nodes = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, ast.Store) and node not in bound}


def _short(
    source: Source,
    cell: Cell,
    tree: ast.Module,
    elsewhere: set[str],
    values: set[str],
    words: Words,
) -> Cell:
    """A cell with short calls; what they stand for is added to `words`.

    Args:
        elsewhere: the names that other cells read.
        values: the names of values that the notebook has assigned up to here.
    """
    lines, decisions = cell.source.splitlines(), _decisions(tree, elsewhere)
    answers = 0
    for statement in reversed(tree.body):
        call = getattr(statement, "value", None)
        name = getattr(getattr(call, "func", None), "id", "")
        new: list[str] = []
        if statement in decisions:
            pass
        elif not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call):
            continue
        elif name in ASKING and len(call.args) + len(call.keywords) > 1:
            where = f"{source.path}, line {cell.line + call.lineno}"
            key, arguments = _question(name, call, where)
            words.setdefault(name, {})[key] = arguments
            new = [f'{name}("{key}")']
        elif name in ANSWERING and (key := _key(name, call)):
            code, read = _with_decisions(call, call.args[: ANSWERING[name]], decisions)
            words.setdefault(name, {})[key] = code
            new = [_call(name, key, [each for each in read if each in values])]
            answers += 1
        else:
            continue
        lines[statement.lineno - 1 : statement.end_lineno] = new
    collapsed = bool(answers) and answers + len(decisions) == len(tree.body)
    text = "\n".join(lines).strip("\n")
    return dataclasses.replace(cell, source=text, collapsed=collapsed)


def _reads(cell: Cell) -> set[str]:
    """The names that a code cell reads, also in its magics: `%%writefile {models}/a.py`."""
    if cell.type != "code":
        return set()
    magics = " ".join(re.findall(r"(?m)^\s*[%!].*$", cell.source))
    code = [] if cell.source.startswith("%%") else _names([ast.parse(_python(cell))])
    return {*code, *re.findall(r"\w+", magics)}


def _decisions(tree: ast.Module, elsewhere: set[str]) -> list[ast.stmt]:
    """The assignments of a cell that decide what was right, and that nothing else reads.

    These are conditions, an option's text, and what is read by a premise alone. If only such
    assignments and answering calls are left but for assignments without calls, these count too.
    """
    answering = [each for each in tree.body if _answers(each)]
    premises = [
        word.value for each in answering for word in each.value.keywords  # type: ignore[attr-defined]
        if word.arg == "premise"
    ]  # fmt: skip
    found: list[ast.stmt] = []
    for statement in reversed(tree.body):
        if not isinstance(statement, ast.Assign):
            continue
        names = _assigned(statement)
        rest = [each for each in tree.body if each not in (statement, *answering, *found)]
        if names & {*_names(rest), *elsewhere}:
            continue
        hidden = [each.value if isinstance(each, ast.Assign) else each for each in found]
        calls = [each.value for each in answering]  # type: ignore[attr-defined]
        plain = [part for call in calls for part in (*call.args, *(
            word.value for word in call.keywords if word.arg != "premise"))]  # fmt: skip
        decides = any(
            isinstance(node, ast.Compare | ast.BoolOp | ast.IfExp) for node in ast.walk(statement)
        ) or _is_constant(statement.value)
        of_premise = names & {*_names(premises)} and not names & {*_names([*plain, *hidden])}
        if names & {*_names([*calls, *hidden])} and (decides or of_premise):
            found.append(statement)
    rest = [each for each in tree.body if each not in (*answering, *found)]
    if answering and all(_is_value(each) and not _assigned(each) & elsewhere for each in rest):
        return [each for each in tree.body if each in found or each in rest]
    return found[::-1]


def _is_value(statement: ast.stmt) -> bool:
    """Whether a statement assigns, and calls nothing but Python's own functions."""
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    own = all(isinstance(call, ast.Name) and call.id in dir(builtins) for call in calls)
    return isinstance(statement, ast.Assign) and own


def _is_constant(value: ast.expr) -> bool:
    """Whether an expression is written out, such as a list of options."""
    return not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(value))


def _answers(statement: ast.stmt) -> bool:
    """Whether a statement is a comparison, or a claim with an id."""
    call = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call):
        return False
    name = getattr(call.func, "id", "")
    return name in ANSWERING and bool(_key(name, call))


def _with_decisions(
    call: ast.Call, measured: list[ast.expr], decisions: list[ast.stmt]
) -> tuple[str, list[str]]:
    """The code of a call after the assignments that it needs; and the names of measured values."""
    code: list[str] = [ast.unparse(call)]
    needed, read = {*_names([call])}, _names(measured)
    for statement in reversed(decisions):
        if needed & _assigned(statement):
            code.insert(0, ast.unparse(statement))
            own = _names([statement.value])  # type: ignore[attr-defined]
            needed |= {*own}
            if {*read} & _assigned(statement):
                place = min(read.index(name) for name in _assigned(statement) if name in read)
                read[place:place] = own
    decided = {name for statement in decisions for name in _assigned(statement)}
    return "\n".join(code), [name for name in dict.fromkeys(read) if name not in decided]


def _key(name: str, call: ast.Call) -> str:
    """The name of a comparison or a claim; "" for a claim without an id."""
    if name != "claim":
        return str(ast.literal_eval(call.args[0]))
    ids = [ast.literal_eval(word.value) for word in call.keywords if word.arg == "id"]
    return str(ids[0]) if ids else ""


def _names(values: Sequence[ast.AST]) -> list[str]:
    """The names that code reads, each once, in their order."""
    nodes = (node for value in values for node in ast.walk(value) if isinstance(node, ast.Name))
    read = [node.id for node in nodes if isinstance(node.ctx, ast.Load)]
    return [name for name in dict.fromkeys(read) if name not in dir(builtins)]


def _call(name: str, key: str, shown: list[str]) -> str:
    """A short call, on several lines if it is long."""
    parts = [f'"{key}"', *(f"{value}={value}" for value in shown)]
    line = f"{name}({', '.join(parts)})"
    return (
        line if len(line) <= _WIDTH else "\n".join([f"{name}(", *(f"    {p}," for p in parts), ")"])
    )


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
