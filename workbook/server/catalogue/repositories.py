"""The instruction how to put a model into the repository that a server reads."""

from __future__ import annotations

from pathlib import Path

from ...common import paths


def how_to_add(repository: Path) -> str:
    """The instruction for a model that a repository does not have.

    how_to_add(paths.repository())     # "Deploy it first: `workbook deploy FOLDER`."

    `workbook deploy` copies into the shared repository only. A lecture's own server reads a folder
    that the cells of its notebook write into (lessons/workspace.py).
    """
    home = repository.resolve()
    if home == paths.repository().resolve():
        return "Deploy it first: `workbook deploy FOLDER`."
    if home.parent == paths.root().resolve() / ".workbook" / "lectures":
        return "Run the cells of the notebook that write it first."
    return "Put its folder into this server's model repository first."
