"""What tools can measure of how well a student's Python file reads: lint, docstrings, structure.

A person judges the rest by a rubric. What is measured is listed in `RULES`, and each fault names
the line.
"""

from __future__ import annotations

import ast
import json
import subprocess

from .failure import Failure

#: Rules of ruff, with a pattern for their codes, and what they ask for.
RULES = {
    "E,W": "layout: spaces, blank lines, at most 100 characters per line",
    "F": "no unused imports and variables, no undefined names",
    "N": "names as Python writes them: functions_and_variables, ClassesLikeThis",
    "D100,D101,D102,D103": "a docstring for the file, each class, and each public method",
    "B,BLE,E722": "no common traps, such as a bare `except`; but see `LEFT_OUT`",
    "C90": "no function with more than 8 branches",
    "ERA,FIX,T20": "no code in comments, no TODO, no print",
    "S102,S307": "no exec and no eval",
}
#: Rules that these names include, and that are not asked for. Notebooks of the course write
#: `zip(…)` without `strict=`; students may too.
LEFT_OUT = ("B905", "D203", "D213")
#: The most characters of a line, lines of a function, and branches of a function.
CHARACTERS, LINES, BRANCHES = 100, 40, 8
_SECONDS = 20


def faults(source: str) -> list[str]:
    """What tools find fault with in a Python file, one sentence per finding, in the lines' order.

    Comments that switch ruff off are not obeyed. An assignment that uses this gives students the
    same rules as a file (a1__classifier: `style.toml`), so that they can run ruff themselves.

    Example::

        faults("import os\\n")      # ["line 1: `os` imported but unused (F401)", …]

    Args:
        source: the file's text.

    Raises:
        Failure: it is not Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise Failure(f"The file is not Python{line}.", help="Does the model load?") from None
    found = [(line, f"{text} ({code})") for line, code, text in _ruff(source)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LINES:
                text = f"{node.name} has {length} lines; {LINES} are the most"
                found.append((node.lineno, text))
    return [f"line {line}: {text}" for line, text in sorted(found)]


def _ruff(source: str) -> list[tuple[int, str, str]]:
    """Line, code and message of each finding."""
    from ruff import find_ruff_bin  # type: ignore[import-untyped]

    command = [
        *(find_ruff_bin(), "check", "--isolated", "--no-cache", "--ignore-noqa", "--quiet"),
        *("--select", ",".join(RULES), "--ignore", ",".join(LEFT_OUT)),
        *("--line-length", str(CHARACTERS), "--target-version", "py311"),
        *("--config", f"lint.mccabe.max-complexity = {BRANCHES}"),
        *("--output-format", "json", "--stdin-filename", "model.py", "-"),
    ]
    done = subprocess.run(
        command, input=source.encode(), capture_output=True, timeout=_SECONDS, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"ruff ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    return [
        (int(one["location"]["row"]), str(one["code"]), str(one["message"]))
        for one in json.loads(done.stdout)
    ]


def called_names(tree: ast.AST, start: str) -> set[str]:
    """The names of all functions and methods that a function calls, directly or through others.

    Example::

        called_names(ast.parse(source), "execute")       # {"decode", "predict", "softmax", …}

    Args:
        tree: a module's syntax tree.
        start: the function's name.
    """
    bodies = {
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    called: set[str] = set()
    waiting = [start]
    while waiting:
        body = bodies.get(waiting.pop())
        for node in ast.walk(body) if body else ():
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name not in called:
                    called.add(name)
                    waiting.append(name)
    return called
