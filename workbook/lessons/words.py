"""What the short calls of a built notebook stand for: it carries this in its metadata, encoded.

A source has the whole question, with an explanation for each wrong option, and the conditions of
comparisons and claims. This code would tell the right answer before the reader has thought. So the
built notebook has `predict("batcher.delay")` and `claim("batcher.delay", late=late)` in its place
(workbook/notebooks/hide_words.py).

A program that runs a notebook sends only its code to the kernel. So the texts are read from the
notebook's file, as it was saved. The kernel does not know for certain which file that is, so these
are looked through:

1. the file that `JPY_SESSION_NAME` names: Jupyter Server sets this variable for its kernels,
2. the file that `__vsc_ipynb_file__` names: VS Code sets this variable in the notebook,
3. the notebooks in the folder where the kernel started: first the one with the folder's name, as
   the course's notebooks have it, then the others. `jupyter execute` and nbconvert start the kernel
   in the notebook's folder, and name no file.

If two files have a text for the same call, the first one counts.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython import get_ipython

from ..common.errors import WorkbookError
from ..notebooks.hide_words import Words, carried

#: How a reader writes the texts into the call itself.
_FORMS = {
    "predict": 'predict("{}", "How many?", unit="ms")',
    "predict_curve": 'predict_curve("{}", "How does it grow?", x=[1, 2, 4], y_range=(0, 90))',
    "compare": 'compare("{}", 20.5, unit="ms", premise=Premise(True, ""))',
    "compare_curve": 'compare_curve("{}", [1, 2, 4], [5, 6, 9], premise=Premise(True, ""))',
    "claim": 'claim(a < b, "What is true if a < b.", "What to try if not.", id="{}")',
}

#: The questions whose text was given in the call, by function and key.
_questions: dict[tuple[str, str], dict[str, Any]] = {}
#: The texts that were read from the notebook's file.
_read: Words = {}


def find(function: str, key: str) -> dict[str, Any]:
    """The arguments of a question, beside its key.

        find("predict", "batcher.delay")["question"]

    Args:
        function: the name of the function that asks, e.g. `predict`.
        key: the prediction's name.

    Returns:
        Argument → value. A question that `remember` has kept is preferred.

    Raises:
        WorkbookError: the notebook has no such question.
    """
    if (function, key) in _questions:
        return _questions[function, key]
    found: dict[str, Any] = _text(function, key)
    return found


def answering(function: Callable[..., None]) -> Callable[..., None]:
    """Let a function that compares or claims be called as in a built notebook.

    Decorated with it, `claim("batcher.delay", late=late)` evaluates the source's call, with the
    variables of the notebook and the values in the call. A call with more than the name is executed
    as it is.

    Raises:
        WorkbookError: the notebook has no such call, or a variable that it reads is missing or has
            become something else.
    """

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> None:
        if len(args) == 1 and isinstance(args[0], str):
            variables = {**sys._getframe(1).f_globals, **named}
            _evaluate(function, args[0], variables)
        else:
            function(*args, **named)

    return call


def remember(function: str, key: str, **arguments: Any) -> None:
    """Keep a question that was asked with its text, for its comparison in the same kernel.

    Args:
        function: the name of the function that asks.
        key: the prediction's name.
        arguments: what it was called with.
    """
    _questions[function, key] = arguments


def _text(function: str, key: str) -> Any:
    """What a short call stands for: a question's arguments, or the code of an answering call."""
    files = [] if key in _read.get(function, {}) else _files()
    for file in files:
        for each, texts in _carried(file).items():
            _read[each] = {**texts, **_read.get(each, {})}
    if key in _read.get(function, {}):
        return _read[function][key]
    where = f'{function}("{key}")'
    own = f"In a cell of your own, write the text yourself: {_FORMS[function].format(key)}."
    if _read:
        names = ", ".join(sorted(_read.get(function, {}))) or "none"
        raise WorkbookError(
            "This notebook has no text for this call.",
            where=where,
            todo=f"Look at the name. The notebook has texts for: {names}. {own}",
        )
    looked = ", ".join(map(str, files)) or f"no notebook in {_folder()}"
    raise WorkbookError(
        "The texts of this notebook were not found.",
        where=where,
        todo="They are in the metadata of the notebook's file, and not in its cells. Looked at: "
        f"{looked}. Run the notebook itself, with its own folder as the working folder. If the "
        f"file has lost its metadata, take a fresh copy from `lectures/`. {own}",
    )


def _files() -> list[Path]:
    """The notebooks that may carry the texts, the likeliest one first."""
    folder = _folder()
    variables = getattr(get_ipython(), "user_ns", {})
    named = (
        os.environ.get("JPY_SESSION_NAME", ""),
        variables.get("__vsc_ipynb_file__", ""),
        f"{folder.name}.ipynb",
    )
    files = [*(folder / name for name in named if name), *sorted(folder.glob("*.ipynb"))]
    return [file for file in dict.fromkeys(files) if file.is_file()]


def _folder() -> Path:
    """The folder in which the kernel started; later cells may have left it (`os.chdir`)."""
    return Path(getattr(get_ipython(), "starting_dir", "")).absolute()


def _carried(file: Path) -> Words:
    """The texts of a notebook; {} where there are none."""
    try:
        return carried(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return {}


def _evaluate(function: Callable[..., None], key: str, variables: dict[str, Any]) -> None:
    """Execute the call that a short one stands for."""
    name = function.__name__
    code = str(_text(name, key))
    where = f'{name}("{key}")'
    own = f"write your own: {_FORMS[name].format(key)}."
    try:
        exec(compile(code, f"<{name}>", "exec"), {**variables, name: function})
    except WorkbookError:
        raise
    except NameError as error:
        raise WorkbookError(
            f"This call reads `{error.name}`, which is not set.",
            where=where,
            todo=f"Run the cells above that set `{error.name}`. If you renamed it or took it out, "
            f"set it again, or {own}",
        ) from None
    except Exception as error:  # a value that was replaced can raise any error
        named = {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}
        reads = ", ".join(f"`{each}`" for each in sorted(named - {*dir(builtins), name}))
        raise WorkbookError(
            f"This call cannot be evaluated: {type(error).__name__}: {error}.",
            where=where,
            todo=f"It reads {reads}. Run the cells above that set them. If you changed what they "
            f"are, change it back, or {own}",
        ) from None
