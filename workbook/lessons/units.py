"""The folders of the notebooks, and the modules in them: `setup.py`, `task.py`, and others.

A notebook imports them by these names (`import setup`): its kernel works in its folder. Elsewhere,
e.g. in tests, where the modules of several notebooks are needed in one process:

    setup = load(find("02__python"), "setup")
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ..notebooks import building

#: What was imported from each folder, by the modules' names.
_loaded: dict[Path, dict[str, ModuleType]] = {}


def folders() -> list[Path]:
    """The folders of the notebooks, e.g. `lectures/2_backends/02__python`, in their order."""
    return [lecture.source.parent for lecture in building.lectures()]


def find(name: str) -> Path:
    """The folder of a notebook of this checkout, e.g. of `02__python`.

    Raises:
        KeyError: there is no such notebook.
    """
    return {folder.name: folder for folder in folders()}[name]


def load(folder: Path, name: str) -> ModuleType:
    """Import a module that lies in a notebook's folder.

        load(find("02__python"), "setup").repository(models)

    Args:
        folder: the notebook's.
        name: the module's, e.g. `setup`.

    Raises:
        ModuleNotFoundError: there is none.
    """
    with importable(folder):
        return importlib.import_module(name)


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let `import setup` find the module of this folder, in the block of the `with` statement.

    The notebook's own kernel always finds it. Modules of other folders have the same names. So the
    modules of a folder are removed from `sys.modules` when the block ends, and restored in the
    folder's next block.

    Example:
        with importable(folder):
            import setup
    """
    folder = folder.resolve()
    if str(folder) in map(os.path.abspath, sys.path):
        yield
        return
    names = {file.stem for file in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    own = _loaded.setdefault(folder, {})
    sys.modules.update(own)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        own.update({name: sys.modules.pop(name) for name in names if name in sys.modules})
        sys.modules.update(others)
