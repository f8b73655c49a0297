"""Mark the tests that start a server or another process, so that `make check` can leave them out.

No list of tests is kept: a test is marked `server` where it, a fixture that it uses, or a helper in
`tests/` that one of these calls, names something of a module that starts processes. Names are
looked up in the compiled code, so that only what a test really mentions counts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

#: Modules, with all within them, that start servers, notebooks, sandboxes or builds.
STARTERS = (
    "subprocess",
    "multiprocessing",
    "workbook.assignments.submit",  # it runs a notebook
    "benchmarks",
    "grader.classroom.autograde",
    "grader.judge",
    "grader.sandbox",
    "workbook.lessons.laboratory",
    "workbook.measure.perf_install",
    "workbook.notebooks.executing",
    "workbook.server.triton",
    "workbook.site.sphinx_site",  # it runs Sphinx
    "workbook.site.executed",
    "workbook.zoo.builder",
    "workbook.zoo.repository",
)
#: Functions of other modules that do.
STARTING = ("checkpoint", "laboratory", "Triton")

_TESTS = Path(__file__).parent


def starts_processes(item: pytest.Item) -> bool:
    """Whether a test, its fixtures or their helpers mention what starts a process.

    if starts_processes(item):
        item.add_marker("server")
    """
    found: list[object] = [item.function] if isinstance(item, pytest.Function) else []
    definitions = getattr(item, "_fixtureinfo", None)
    if definitions is not None:
        for name in definitions.names_closure:
            found += [d.func for d in definitions.name2fixturedefs.get(name, ())]
    seen: set[int] = set()
    while found:
        thing = inspect.unwrap(found.pop())  # type: ignore[arg-type]
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if _is_starter(thing):
            return True
        if _is_ours(thing):
            found += _mentioned(thing)
    return False


def _is_starter(thing: object) -> bool:
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", "")
    if getattr(thing, "__name__", "") in STARTING:
        return True
    return any(name == starter or f"{name}.".startswith(f"{starter}.") for starter in STARTERS)


def _is_ours(thing: object) -> bool:
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(_TESTS)


def _mentioned(thing: object) -> Iterator[object]:
    """What a function, or the methods of a class, take from their module, and its attributes."""
    if isinstance(thing, type):
        yield from (value for value in vars(thing).values() if isinstance(value, FunctionType))
        return
    if not isinstance(thing, FunctionType):
        return
    for name in _names(thing.__code__):
        value = thing.__globals__.get(name)
        if value is None:
            continue
        yield value
        if isinstance(value, ModuleType):  # `zoo.checkpoint`: the module and one of its names
            yield from (
                vars(value)[attribute]
                for attribute in _names(thing.__code__)
                if attribute in vars(value)
            )


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
