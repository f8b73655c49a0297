"""The texts of predictions and claims, which the built notebook carries.

A source has the whole question, and an explanation for each wrong option:

    predict("batcher.delay", "What does a delay do to a lone request?",
            {"nothing": "The batcher cannot know that no other comes.", "it waits": None})

This code would tell the right answer before the reader has thought. So the built notebook has
`predict("batcher.delay")` in its place, and the texts of the whole notebook in its metadata,
encoded (workbook/notebooks/hide_words.py).

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
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython import get_ipython

from ..common.errors import WorkbookError
from ..notebooks.hide_words import Words, carried

#: How a reader writes the texts into the call itself.
_FORMS = {
    "predict": 'predict("{}", "How many?", unit="ms")',
    "predict_curve": 'predict_curve("{}", "How does it grow?", x=[1, 2, 4], y_range=(0, 90))',
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
    sentence, todo = (_evaluated(id, text, variables) for text in _text("claim", id))
    return sentence, todo


def remember(function: str, key: str, **arguments: Any) -> None:
    """Keep a question that was asked with its text, for its comparison in the same kernel.

    Args:
        function: the name of the function that asks.
        key: the prediction's name.
        arguments: what it was called with.
    """
    _questions[function, key] = arguments


def _text(function: str, key: str) -> Any:
    """The notebook's text for a call: a question's arguments, or the code of a claim's texts."""
    files = [] if key in _read.get(function, {}) else _files()
    for file in files:
        for each, texts in _carried(file).items():
            _read[each] = {**texts, **_read.get(each, {})}
    if key in _read.get(function, {}):
        return _read[function][key]
    where = f'claim(…, id="{key}")' if function == "claim" else f'{function}("{key}")'
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
