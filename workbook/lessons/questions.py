"""The questions of predictions and the words of claims, read from the lecture's source.

A source has the whole question, and a word for each wrong option:

    predict("batcher.delay", "What does a delay do to a lone request?",
            {"nothing": "The batcher cannot know that no other comes.", "it waits": None})

The built notebook has `predict("batcher.delay")` in its place (`workbook/notebooks/questions.py`),
since the code would tell the right answer before the reader has thought. So `predict` looks the
question up in `lectures/`, and `claim` its sentence and what to do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from ..common import paths
from ..common.errors import WorkbookError
from ..notebooks import building

#: What a kernel has asked already, by function and key.
_asked: dict[tuple[str, str], dict[str, Any]] = {}


def find(function: str, key: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a question, beside its key.

        find("predict", "batcher.delay", ("question", "options"))["question"]

    Args:
        function: the name of the function that asks, e.g. `predict`.
        key: the prediction's name.
        names: what the arguments by position are called, without the key.

    Returns:
        Argument → value. A question that `remember` was told comes first.

    Raises:
        WorkbookError: no lecture asks it.
    """
    if (function, key) in _asked:
        return _asked[function, key]
    call = _in_lectures(function, key)
    if call is None:
        raise _not_there("No lecture asks the question", key)
    given = dict(zip(names, call.args[1:], strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg}
    return {name: ast.literal_eval(value) for name, value in given.items()}


def texts_of_claim(id: str, names: Mapping[str, Any]) -> tuple[str, str]:
    """The sentence of a claim, and what to try if it does not hold.

    Args:
        id: the claim's name.
        names: the notebook's variables: a sentence may name a measured number, as f-strings do.

    Raises:
        WorkbookError: no lecture has this claim.

    Example:
        texts_of_claim("batcher.gain", globals())[0]
    """
    call = _in_lectures("claim", id)
    if call is None or len(call.args) != 3:
        raise _not_there("No lecture has the claim", id)
    sentence, todo = (
        eval(compile(ast.Expression(text), "<claim>", "eval"), dict(names))
        for text in call.args[1:]
    )
    return sentence, todo


def remember(function: str, key: str, **arguments: Any) -> None:
    """Keep a question that was asked with its text, for its comparison in the same kernel.

    Args:
        function: the name of the function that asks.
        key: the prediction's name.
        arguments: what it was called with.
    """
    _asked[function, key] = arguments


def _in_lectures(function: str, key: str) -> ast.Call | None:
    """The call of a function with this key, or this id, in any lecture's source."""
    for lecture in building.lectures():
        for cell in re.split(r"(?m)^# %%", lecture.source.read_text("utf-8")):
            call = _call(cell, function, key) if f'"{key}"' in cell else None
            if call is not None:
                return call
    return None


def _call(cell: str, function: str, key: str) -> ast.Call | None:
    """The call of a function with this key, or this id, in one cell of a source."""
    try:
        tree = ast.parse(f"# {cell}")  # the rest of the cell's first line is a comment
    except SyntaxError:  # a file that the cell writes, e.g. a config
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function:
            named = [word.value for word in node.keywords if word.arg == "id"]
            for value in (*node.args[:1], *named):
                if isinstance(value, ast.Constant) and value.value == key:
                    return node
    return None


def _not_there(what: str, key: str) -> WorkbookError:
    return WorkbookError(
        f"{what} {key!r}.",
        where=str(paths.root() / "lectures"),
        todo="Look at the name in the cell; bring the course up to date with `git pull`.",
    )
