"""Which files of the course a program uses: its modules, found by reading their import statements.

Nothing is imported. An `__init__` or module that only passes names on (`grader.vocabulary.require`,
`workbook.measure`) counts itself. Of the modules that it takes names from, only those count whose
names are used. So a program that uses `measure.statistics` does not depend on the plots.

Beside import statements, texts in the code are looked at: one that is a module's name
(`"grader.judge.judge"`, for `python -m`) is an import, and one that names a file beside the module
(`"forkserver.c"`) makes this file count.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

#: The packages whose modules are followed. All others are installed, and pinned.
PACKAGES = ("workbook", "grader")


#: Stands for no name of a module: the module itself counts, with what its own code needs.
_ITSELF = "<itself>"


class Course:
    """The modules of a checkout, and which of them a program reaches.

    Example::

        course = Course(paths.root())
        course.follow("grader.judge.judge")
        course.files        # {…/grader/judge/judge.py, …/grader/vocabulary/define.py, …}

    Attributes:
        files: all files that were reached so far.

    Args:
        root: the checkout.
    """

    def __init__(self, root: Path) -> None:
        self.files: set[Path] = set()
        self._root = root
        self._followed: set[tuple[str, str]] = set()

    def follow(self, module: str, name: str = "") -> None:
        """Reach a module and all that it imports.

        Args:
            module: its dotted name. One that is not there reaches nothing.
            name: reach only what this name of it needs, if the module only passes names on.
        """
        waiting = [(module, name)]
        while waiting:
            item = waiting.pop()
            if item not in self._followed:
                self._followed.add(item)
                waiting += self._step(*item)

    def follow_code(self, tree: ast.AST) -> None:
        """Reach all that a program imports which is no module of the course."""
        for module, name in self._imports(tree, ""):
            self.follow(module, name)

    def file(self, module: str) -> Path | None:
        """The file of a module or package; None if the course has no such module."""
        if module.partition(".")[0] not in PACKAGES:
            return None
        parts = module.split(".")
        places = [self._root.joinpath(*parts)]
        if parts[:2] == ["grader", "assignments"]:  # as its __path__ says
            places += [self._root.joinpath(top, *parts[2:]) for top in ("solutions", "assignments")]
        for place in places:
            for file in (place / "__init__.py", place.with_suffix(".py")):
                if file.is_file():
                    return file
        return None

    def _step(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        """Reach one module; yields what must be followed next."""
        if name and self.file(f"{module}.{name}"):
            module, name = f"{module}.{name}", ""
        file = self.file(module)
        if file is None:
            return
        self.files.add(file)
        if above := module.rpartition(".")[0]:
            yield above, _ITSELF  # Python runs it first
        tree = _parse(file.read_bytes())
        package = module if file.name == "__init__.py" else above
        if name:
            yield from _sources(tree, package, name) if _only_passes_on(tree) else [(module, "")]
            return
        yield from self._imports(tree, package)
        for text in _texts(tree):
            beside = file.parent / text
            if "." in text and self.file(text):
                yield text, ""
            elif "." in text and beside.suffix != ".md" and beside.is_file():
                self.files.add(beside)
                if beside.suffix == ".py":
                    yield f"{package}.{beside.stem}", ""

    def _imports(self, tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
        """What a program's import statements name, wherever in it they stand."""
        for node in _import_statements(tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = _base(node, package)
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    if alias.name != "*" and self.file(inner):
                        used = _attributes(tree, alias.asname or alias.name)
                        yield from ((inner, name) for name in used or [""])
                    else:
                        yield base, alias.name if alias.name != "*" and self.file(base) else ""


# Assignments share most files, so what was found in a program is kept for the next assignment.


@functools.cache
def _parse(program: bytes) -> ast.Module:
    """The syntax tree of a program."""
    return ast.parse(program)


@functools.cache
def _nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree."""
    return list(ast.walk(tree))


@functools.cache
def _import_statements(tree: ast.AST) -> list[ast.AST]:
    """The nodes of all import statements but those that only type checkers read."""
    found, waiting = list[ast.AST](), [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def _base(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module that names are imported from."""
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*above, *filter(None, [node.module])])


@functools.cache
def _attributes(tree: ast.AST, module: str) -> set[str]:
    """The names that are taken from a module as `module.name`.

    The set is empty if the module is used in another way too, so that any name may be meant.
    """
    names: set[str] = set()
    plain = 0
    for node in _nodes(tree):
        if isinstance(node, ast.Name) and node.id == module:
            plain += 1
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == module
        ):
            names.add(node.attr)
            plain -= 1
    return set() if plain else names


def _only_passes_on(tree: ast.Module) -> bool:
    """Whether a module has nothing but a docstring, imports and `__all__`."""
    return all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for node in tree.body
    )


def _sources(tree: ast.Module, package: str, name: str) -> Iterable[tuple[str, str]]:
    """From where a module that only passes names on takes this name."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*" or (alias.asname or alias.name) == name:
                    yield _base(node, package), "" if alias.name == "*" else alias.name


@functools.cache
def _texts(tree: ast.AST) -> set[str]:
    """All texts in the code that could name a module or a file."""
    texts = {node.value for node in _nodes(tree) if isinstance(node, ast.Constant)}
    return {
        text
        for text in texts
        if isinstance(text, str) and len(text) < 100 and not set(text) & set(" /\n\0")
    }
