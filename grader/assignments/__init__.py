"""The modules of each assignment: `grader.assignments.a2__forest.checks` and the like.

They lie in the assignment's folder, `solutions/a2__forest/`. Students have no solutions: they get
copies of those modules that they may see, in `assignments/a2__forest/`.
"""

from pathlib import Path

_COURSE = Path(__file__).resolve().parents[2]
__path__ = [str(_COURSE / "solutions"), str(_COURSE / "assignments")]


def module(short: str, name: str) -> str:
    """The full name of an assignment's module.

    Example::

        module("a2", "checks")      # "grader.assignments.a2__forest.checks"

    Args:
        short: the assignment's short name.
        name: the module's.
    """
    folders = (
        folder for place in map(Path, __path__) if place.is_dir() for folder in place.iterdir()
    )
    full = next((folder.name for folder in folders if folder.name.split("__")[0] == short), short)
    return f"{__name__}.{full}.{name}"
