"""`python -m grader.authoring.function_table`: write the table of functions anew.

It stands in docs/writing_an_assignment.md.

Each line is a function that checks call, with its parameters and the first sentence of its
docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType

from workbook.common import paths

from ..vocabulary import figures, require, tolerance, values
from ..vocabulary.probe import Probe

FILE = paths.root() / "docs/writing_an_assignment.md"
BEGIN = "<!-- functions: made by `python -m grader.authoring.function_table` -->"
#: Methods of `Probe` that only the judge calls.
_JUDGES = ("seed", "close")
END = "<!-- end of functions -->"


def table() -> str:
    """The functions as tables in Markdown, one for each module that has some."""
    parts = [
        _part("require: fail with a message for the student", "require", _public(require)),
        _part("values: what a student handed over", "values", _public(values)),
        _part("tolerance: how far two right answers may be apart", "tolerance", _public(tolerance)),
        _part("figures: for `require.metrics_table`", "figures", _public(figures)),
        _part("server: the first parameter of a check, a `Probe`", "server", _methods(Probe)),
    ]
    return "\n\n".join(parts)


def current(text: str) -> str:
    """The text of the page with the table of today.

    Args:
        text: with the lines BEGIN and END.
    """
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def _part(heading: str, prefix: str, functions: Iterator[tuple[str, Callable[..., object]]]) -> str:
    lines = [f"**{heading}**", "", "| function | what it does |", "|---|---|"]
    for name, function in functions:
        shown = ", ".join(_parameters(function))
        lines.append(f"| `{prefix}.{name}({shown})` | {_sentence(function)} |")
    return "\n".join(lines)


def _public(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """The functions that a module offers, in the order in which they are written or listed."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    for name in names:
        value = getattr(module, name)
        if not name.startswith("_") and inspect.isfunction(value):
            yield name, value


def _methods(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, value in vars(kind).items():
        if not name.startswith("_") and inspect.isfunction(value) and name not in _JUDGES:
            yield name, value


def _parameters(function: Callable[..., object]) -> Iterator[str]:
    """The names of the parameters; those that need not be given, with `=`."""
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        must = parameter.default is parameter.empty
        only = parameter.kind is parameter.KEYWORD_ONLY
        yield f"{star}{name}{'' if must and not only else '='}"


def _sentence(function: Callable[..., object]) -> str:
    text = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return re.sub(r"(?<=[^\d.]\.) .*", "", text).replace("|", "\\|")


def main() -> None:
    """Write the file."""
    FILE.write_text(current(FILE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
