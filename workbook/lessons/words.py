"""The texts of predictions and claims, which the built notebook carries.

A source has the whole question, and an explanation for each wrong option:

    predict("batcher.delay", "What does a delay do to a lone request?",
            {"nothing": "The batcher cannot know that no other comes.", "it waits": None})

This code would tell the right answer before the reader has thought. So the built notebook has
`predict("batcher.delay")` in its place, and the cell that imports `predict` sets `_words`: all
texts of the notebook, encoded (workbook/notebooks/hide_words.py).

The texts are code and not metadata of a cell: JupyterLab sends a cell's metadata to the kernel, but
nbclient, which `jupyter execute` and nbconvert use, sends only the code.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from typing import Any

from ..common.errors import WorkbookError
from ..notebooks.hide_words import NAME, decode

#: How a reader writes the texts into the call itself.
_FORMS = {
    "predict": 'predict("{}", "How many?", unit="ms")',
    "predict_curve": 'predict_curve("{}", "How does it grow?", x=[1, 2, 4], y_range=(0, 90))',
    "claim": 'claim(a < b, "What is true if a < b.", "What to try if not.", id="{}")',
}

#: The questions whose text was given in the call, by function and key.
_questions: dict[tuple[str, str], dict[str, Any]] = {}


def find(function: str, key: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a question, beside its key.

        find("predict", "batcher.delay", globals())["question"]

    Args:
        function: the name of the function that asks, e.g. `predict`.
        key: the prediction's name.
        variables: the variables of the notebook that asks.

    Returns:
        Argument → value. A question that `remember` has kept is preferred.

    Raises:
        WorkbookError: the notebook has no such question.
    """
    if (function, key) in _questions:
        return _questions[function, key]
    found: dict[str, Any] = _carried(function, key, variables)
    return found


def texts_of_claim(id: str, variables: Mapping[str, Any]) -> tuple[str, str]:
    """The sentence of a claim, and what to try if it does not hold.

        texts_of_claim("batcher.gain", globals())[0]

    Args:
        id: the claim's name.
        variables: the notebook's variables. A sentence may show a measured number, as f-strings do.

    Raises:
        WorkbookError: the notebook has no such claim, or a variable that the sentence shows is
            missing or has become something else.
    """
    sentence, todo = (_evaluated(id, text, variables) for text in _carried("claim", id, variables))
    return sentence, todo


def remember(function: str, key: str, **arguments: Any) -> None:
    """Keep a question that was asked with its text, for its comparison in the same kernel.

    Args:
        function: the name of the function that asks.
        key: the prediction's name.
        arguments: what it was called with.
    """
    _questions[function, key] = arguments


def _carried(function: str, key: str, variables: Mapping[str, Any]) -> Any:
    """The notebook's text for a call: a question's arguments, or the code of a claim's texts."""
    where = f'claim(…, id="{key}")' if function == "claim" else f'{function}("{key}")'
    own = f"In a cell of your own, write the text yourself: {_FORMS[function].format(key)}."
    if NAME not in variables:
        raise WorkbookError(
            f"The texts of this notebook are not there: the variable `{NAME}` is not set.",
            where=where,
            todo="Run the cell that imports predict and claim: it sets the variable. A notebook of "
            f"an older edition of the course does not: take today's from `lectures/`. {own}",
        )
    try:
        words = decode(variables[NAME])
    except (ValueError, TypeError):
        raise WorkbookError(
            f"The texts of this notebook cannot be read: `{NAME}` was changed.",
            where=where,
            todo="Run the cell that imports predict and claim again. If that does not help, copy "
            f"the line `{NAME} = …` from a fresh copy of this notebook.",
        ) from None
    if key not in words.get(function, {}):
        names = ", ".join(sorted(words.get(function, {}))) or "none"
        raise WorkbookError(
            "This notebook has no text for this call.",
            where=where,
            todo=f"Look at the name. The notebook has texts for: {names}. {own}",
        )
    return words[function][key]


def _evaluated(id: str, code: str, variables: Mapping[str, Any]) -> str:
    """A text of a claim, with the values that it shows."""
    own = f"write your own text: {_FORMS['claim'].format(id)}."
    try:
        return str(eval(compile(code, "<claim>", "eval"), dict(variables)))
    except NameError as error:
        raise WorkbookError(
            f"The sentence of this claim shows `{error.name}`, which is not set.",
            where=f'claim(…, id="{id}")',
            todo=f"Run the cells above that set `{error.name}`. If you renamed it or took it out, "
            f"set it again, or {own}",
        ) from None
    except Exception as error:  # a value that was replaced can raise any error
        named = {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}
        shows = ", ".join(f"`{name}`" for name in sorted(named - {*dir(builtins)}))
        raise WorkbookError(
            f"The sentence of this claim cannot be made: {type(error).__name__}: {error}.",
            where=f'claim(…, id="{id}")',
            todo=f"It shows values of {shows}. Run the cells above that set them. If you changed "
            f"what they are, change it back, or {own}",
        ) from None
