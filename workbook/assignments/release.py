"""Release the course to a class: everything but solutions, tests and hidden checks."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ..common import paths
from ..common.errors import WorkbookError
from .assignment import files, find
from .build import build

FOR_STUDENTS = (
    *(
        "README.md",
        "CHANGELOG.md",
        "BENCHMARKS.md",
        "LICENSE",
        "Makefile",
        "pyproject.toml",
        ".gitignore",
    ),
    *("requirements.in", "requirements.txt", "requirements-torch.txt"),
    *("requirements-uv.txt", "requirements-vllm.txt"),
    *("workbook/", "grader/", "benchmarks/", "lectures/", "model_repository/", "docker/"),
)
"""The files and folders of the checkout that a class gets beside assignments/."""
FOR_INSTRUCTORS = ("grader/checks/hidden/", "grader/work/")


def release(destination: Path, home: Path | None = None) -> list[Path]:
    """Write the course as a class gets it: without solutions, tests and hidden checks.

    Files that git tracks are copied, with their content in the working tree. Assignments are built.

    Args:
        destination: a folder that does not exist yet, or is empty.
        home: the instructor's checkout.

    Returns:
        The files of the release, relative to `destination`.

    Raises:
        WorkbookError: the destination is not empty, the checkout is no git repository, or an
            assignment does not pass the release gate. Then nothing is written.

    Example:
        assignments.release(Path("/tmp/course"))
    """
    home = home or paths.root()
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise WorkbookError(
            "The destination of a release must be empty or new.",
            where=str(destination),
            todo="Name a folder that is not there yet.",
        )
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".release-") as folder:
        draft = Path(folder) / "course"
        for name in _committed(home):
            if not name.startswith(FOR_STUDENTS) or name.startswith(FOR_INSTRUCTORS):
                continue
            if (home / name).is_symlink():
                raise WorkbookError(
                    "A symbolic link cannot be released.", where=name, todo="Replace it by a file."
                )
            target = draft / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(home / name, target)
        for assignment in find(home):
            build(assignment, into=draft)
        shutil.rmtree(draft / "solutions", ignore_errors=True)  # the instructor's notebooks
        for path in draft.glob("lectures/**/*.ipynb"):
            if str(home) in path.read_text("utf-8"):
                raise WorkbookError(
                    "A lecture shows the path of your checkout.",
                    where=path.relative_to(draft).as_posix(),
                    todo=f"Run it again without printing {home}.",
                )
        if destination.exists():
            destination.rmdir()
        draft.rename(destination)
    return [path.relative_to(destination) for path in files(destination)]


def _committed(home: Path) -> Iterable[str]:
    """The files that git tracks and that exist, relative to the checkout."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(home), "ls-files", "-z"], capture_output=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        raise WorkbookError(
            "A release is made from a git checkout, and this folder is not one.",
            where=str(home),
            todo="Clone the course with git, and release from the clone.",
        ) from None
    names = listed.decode("utf-8", "surrogateescape").split("\0")
    return [name for name in names if name and (home / name).is_file()]
