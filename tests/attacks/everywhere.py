"""Attacks on any assignment: they need only what its notebook says."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import nbformat

from grader import assignments
from tests.attacks import submissions as s
from tests.attacks.attack import RAN, Attacks

ATTACKS = Attacks()


def handed_over(folder: Path) -> dict[str, str]:
    """The variables that check cells hand over, each with its parameter."""
    notebook = nbformat.read(s.notebook_of(folder), as_version=4)
    found = {}
    for number in s.checks(notebook):
        for node in ast.walk(ast.parse(notebook.cells[number].source)):
            if isinstance(node, ast.keyword) and isinstance(node.value, ast.Name):
                found[node.value.id] = node.arg or ""
    return found


def with_values(folder: Path, code: str, model: str = "") -> str:
    """Code that fills in every variable that a check cell hands over, after `code`.

    Args:
        folder: the submission.
        code: sets VALUE, which every variable gets.
        model: the name that every model gets; by default its own.
    """
    lines = [dedent(code)]
    for name, parameter in handed_over(folder).items():
        value = repr(model or name) if parameter.startswith("model") else "VALUE"
        lines.append(f"{name} = {value}")
    return "\n".join(lines)


def before_checks(folder: Path, code: str) -> None:
    """Insert code before every check cell: the stubs' `...` would undo code in a first cell."""

    def change(notebook: nbformat.NotebookNode) -> None:
        for number in reversed(s.checks(notebook)):
            notebook.cells.insert(number, nbformat.v4.new_code_cell(dedent(code).strip()))

    s.edit(folder, change)


@ATTACKS.add("release", says=RAN)
def equal_to_everything(folder: Path) -> None:
    """Values whose `==` always says yes."""
    code = """
        class Always:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __array__(self, *a, **k): return self
            def __getattr__(self, name): return self
            def __call__(self, *a, **k): return self
        VALUE = Always()
        print("the attack ran")
        """
    before_checks(folder, with_values(folder, code))


@ATTACKS.add("release", says=RAN)
def checks_patched(folder: Path) -> None:
    """`evaluate` replaced by one that always passes."""
    s.first(
        folder,
        """
        import grader.vocabulary.define, grader.vocabulary.notebook
        from grader.vocabulary.results import CheckResult

        def evaluate(check, *rest):
            return CheckResult(id=check.id, sentence="", status="passed", credit=1)

        grader.vocabulary.define.evaluate = evaluate
        grader.vocabulary.notebook.evaluate = evaluate
        print("the attack ran")
        """,
    )


@ATTACKS.add("release", flags={"notebook disagrees"}, says=RAN)
def values_forged(folder: Path) -> None:
    """Reported values written by the student's own code, with passed results."""
    short = s.notebook_of(folder).stem
    s.last(
        folder,
        f"""
        from grader.vocabulary import reported
        from grader.vocabulary.define import load
        from grader.vocabulary.results import CheckResult

        for id, check in load({short!r}).items():
            values = {{name: 0.5 for name in check.parameters}}
            values |= {{name: "one" for name in check.parameters if name.startswith("model")}}
            result = CheckResult(id=id, sentence="", status="passed", credit=1)
            reported.write(id, values, result, reported.folder({short!r}))
        print("the attack ran")
        """,
    )


@ATTACKS.add("release", says=RAN)
def a_grader_of_its_own(folder: Path) -> None:
    """A package `grader` beside the notebook, and a sitecustomize that would load it."""
    own = folder / "grader" / "vocabulary"
    own.mkdir(parents=True)
    (own.parent / "__init__.py").write_text("print('the attack ran')\n")
    (own / "__init__.py").touch()
    (own / "notebook.py").write_text("def check(*a, **k):\n    print('passed')\n\n\nhint = check\n")
    for name in ("sitecustomize.py", "usercustomize.py", "conftest.py"):
        (folder / name).write_text("import builtins\nbuiltins.float = lambda *a: 1.0\n")
    s.first(
        folder,
        """
        import sys
        sys.path.insert(0, ".")
        for name in [name for name in sys.modules if name.partition(".")[0] == "grader"]:
            del sys.modules[name]  # the kernel may have been forked with the real one
        import grader
        """,
    )


@ATTACKS.add("release", says=RAN)
def an_import_hook(folder: Path) -> None:
    """A finder that gives another numpy.testing, time and grader.vocabulary.define."""
    s.first(
        folder,
        """
        import importlib.abc, importlib.machinery, sys

        class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path, target=None):
                if name.startswith("grader.vocabulary.define"):
                    return importlib.machinery.ModuleSpec(name, self)
            def exec_module(self, module):
                module.load = lambda *a, **k: {}

        sys.meta_path.insert(0, Finder())
        print("the attack ran")
        """,
    )


@ATTACKS.add("release", says="ModuleNotFoundError")
def imports_hidden_checks(folder: Path) -> None:
    """Import the hidden checks by their name."""
    s.last(
        folder,
        f"""
        import importlib
        from grader import assignments
        name = assignments.module("{s.notebook_of(folder).stem}", "hidden")
        try:
            print("LEAK", importlib.import_module(name))
        except ModuleNotFoundError as error:
            print(type(error).__name__)
        """,
    )


@ATTACKS.add("release", lost="all", message="No model is named '../../etc' here.")
def names_that_climb(folder: Path) -> None:
    """Names of models that are paths."""
    code = "import numpy as np\nVALUE = np.full((114, 2), 0.5)"
    before_checks(folder, with_values(folder, code, model="../../etc"))


@ATTACKS.add("solution", flags={"copied cell"})
def a_check_copied(folder: Path) -> None:
    """A check cell twice, as copy and paste makes it."""

    def change(notebook: nbformat.NotebookNode) -> None:
        at = s.checks(notebook)[0]
        copy = nbformat.from_dict({**notebook.cells[at], "id": "a-copy"})
        notebook.cells.insert(at + 1, copy)

    s.edit(folder, change)


@ATTACKS.add("solution", flags={"deleted cell"})
def checks_deleted(folder: Path) -> None:
    """The first and the last check cell gone; the grader puts them back."""

    def change(notebook: nbformat.NotebookNode) -> None:
        places = s.checks(notebook)
        for at in sorted({places[0], places[-1]}, reverse=True):
            del notebook.cells[at]

    s.edit(folder, change)


@ATTACKS.add("release", flags={"edited cell"})
def checks_edited(folder: Path) -> None:
    """Check cells that check nothing, with points of their own."""

    def change(notebook: nbformat.NotebookNode) -> None:
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("grade"):
                cell.metadata["nbgrader"]["points"] = 1_000
                if cell.cell_type == "code":
                    cell.source = "100"

    s.edit(folder, change)


@ATTACKS.add("release", flags={"foreign cell"})
def another_assignment(folder: Path) -> None:
    """The notebook of another assignment under this one's name."""
    other = nbformat.v4.new_notebook()
    cell = nbformat.v4.new_code_cell("check('a99.other')")
    cell.metadata["nbgrader"] = {
        "schema_version": 3, "grade": True, "solution": False, "locked": True, "task": False,
        "points": 100, "grade_id": "a99-other", "cell_type": "code",
    }  # fmt: skip
    other.cells = [cell]
    nbformat.write(other, s.notebook_of(folder))


@ATTACKS.add("release", says=RAN)
def checks_of_its_own(folder: Path) -> None:
    """The assignment's checks edited, beside the notebook and where it looks for them."""
    name = assignments.module(s.notebook_of(folder).stem, "checks").split(".")[2]
    for place in (folder, folder / "assignments" / name, folder / "solutions" / name):
        place.mkdir(parents=True, exist_ok=True)
        for module in ("checks", "facts", "hidden"):
            (place / f"{module}.py").write_text("def __getattr__(name):\n    return print\n")
    s.first(
        folder,
        """
        import sys
        import grader.assignments
        sys.path.insert(0, ".")
        grader.assignments.__path__[:0] = ["assignments", "solutions"]
        for name in [name for name in sys.modules if name.startswith("grader.assignments.")]:
            del sys.modules[name]
        print("the attack ran")
        """,
    )
