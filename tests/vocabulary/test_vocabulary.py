"""Every word, and every other public function that authors of checks use, says how to use it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from grader.vocabulary import figures, require, tolerance, values

WORDS = {f"require.{name}": getattr(require, name) for name in require.__all__}
OTHERS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": function
    for module in (figures, tolerance, values)
    for name, function in vars(module).items()
    if inspect.isfunction(function)
    and function.__module__ == module.__name__
    and not name.startswith("_")
}


@pytest.mark.parametrize("name", WORDS | OTHERS)
def test_a_word_is_documented(name: str) -> None:
    """An example that calls it, and a line for each parameter."""
    function: Callable[..., Any] = (WORDS | OTHERS)[name]
    text = inspect.getdoc(function) or ""
    assert "Example::" in text
    assert name in text or f"{name.rpartition('.')[2]}(" in text.partition("Example::")[2]
    if name in WORDS:
        assert "Raises:" in text
    documented = text.partition("Args:")[2] or text
    assert not [p for p in inspect.signature(function).parameters if f"{p}:" not in documented]


def test_the_table_of_functions_is_complete() -> None:
    """The docstring of require.py lists each word once, and no other."""
    assert require.__doc__ is not None
    table = require.__doc__.partition("| a check is about")[2]
    for name in require.__all__:
        assert table.count(f"`{name}`") == 1, name
