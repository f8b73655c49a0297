"""No file has the words and the names that readers have stumbled over: `docs/STYLE.md`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbook.common import paths

#: A pattern → what to write in its place. (`[words for name in …]` is code, and allowed.)
WORDS = {
    r"\bso many\b": "the number, or what it counts",
    r"\b[Ww]ords for\b(?! \w+(, \w+)* in\b)": "the message for …",
    r"\bbelongs? into\b": "belongs to",
    r"(?<!a4\.)\b[Mm]end(s|ing)?\b": "correct, fix or repair",
    r"\b[Dd]ocument 00\d\b": "the short name of the document, with a link to where it is explained",
}
#: Names that say nothing: a noun or a verb of the field says what the thing is.
NAMES = {"told", "said", "asked", "come", "telling", "lonely", "heard"}
FOLDERS = ("workbook", "grader", "benchmarks", "docker", "docs", "lectures", "solutions")
#: Folders of what students hand in, and of installed programs.
LEFT_BEHIND = {"work", "node_modules"}


def files(*endings: str) -> Iterator[Path]:
    """The project's own files with these endings, without what tools or students leave behind."""
    root = paths.root()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root).parts
            left_behind = any(p.startswith((".", "__")) or p in LEFT_BEHIND for p in inside[:-1])
            if path.suffix in endings and not left_behind:
                yield path
    if ".md" in endings:
        yield from sorted({*root.glob("*.md")} - {root / "CHANGELOG.md"})  # it names what was


@pytest.mark.parametrize("pattern", WORDS)
def test_no_file_has_the_words(pattern: str) -> None:
    found = [
        f"{path.relative_to(paths.root())}:{number}: {line.strip()}"
        for path in files(".py", ".md", ".toml", ".c", ".cc", ".h")
        if path.name != "STYLE.md"  # it shows them
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found, f"Write {WORDS[pattern]}: docs/STYLE.md\n" + "\n".join(found)


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that a file gives to functions, arguments, variables and attributes, with lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr, node.lineno


def test_no_name_is_a_bare_participle() -> None:
    found = [
        f"{path.relative_to(paths.root())}:{line}: {name}"
        for path in files(".py")
        for name, line in names(ast.parse(path.read_text("utf-8")))
        if name.lstrip("_") in NAMES
    ]
    assert not found, "Take a noun or a verb of the field: docs/STYLE.md\n" + "\n".join(found)


def test_the_names_of_a_file_are_found() -> None:
    code = "def told(said, *, asked=1):\n    come, self.gone = asked\n    for heard in said: pass"
    assert {name for name, _ in names(ast.parse(code))} == {
        *("told", "said", "asked", "come", "gone", "heard")
    }
