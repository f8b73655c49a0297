"""Release the course to a class: everything but solutions, tests and hidden checks.

Only files on a list are released: the files in FOR_STUDENTS that git tracks, and for each
assignment the files that `build` makes from files that git tracks: notebook, starter files, and the
modules that assignment.MODULES and the header of its source name.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ..common import paths
from ..common.errors import WorkbookError
from .assignment import Assignment, files, find
from .build import build

FOR_STUDENTS = (
    *(
        "README.md",
        "CHANGELOG.md",
        "BENCHMARKS.md",
        "LICENSE",
        "LICENSE-texts.md",
        "NOTICE.md",
        *("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff"),
        "Makefile",
        "pyproject.toml",
        *(".gitignore", ".gitattributes"),
    ),
    *("requirements.in", "requirements.txt", "requirements-torch.txt"),
    *("requirements-uv.txt", "requirements-vllm.txt"),
    *("workbook/", "grader/", "benchmarks/", "lectures/", "model_repository/", "docker/", "docs/"),
    ".devcontainer/",
)
"""The files and folders of the checkout that a class gets beside assignments/."""
FOR_INSTRUCTORS = ("grader/work/", "docs/teaching.md")


def release(destination: Path, home: Path | None = None) -> list[Path]:
    """Write the course for a class: without solutions, tests and hidden checks.

    Files that git tracks are copied, with their content in the working tree. Assignments are built.

    Args:
        destination: a folder that does not exist yet, or is empty.
        home: the instructor's checkout.

    Returns:
        The files of the release, relative to `destination`.

    Raises:
        WorkbookError: the destination is not empty, the checkout is no git repository, or an
            assignment does not pass the release gate, or has a starter file that git does not
            track. Then nothing is written.

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
        tracked = _committed(home)
        for name in tracked:
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
            for path in build(assignment, into=draft):
                _require_tracked(assignment, path, set(tracked))
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


def _require_tracked(assignment: Assignment, built: Path, tracked: set[str]) -> None:
    """Raise an error if a built file is the copy of one that git does not track.

    Args:
        assignment: the assignment of the file.
        built: the file in the draft of the release.
        tracked: the files that git tracks in the checkout.
    """
    name = built.as_posix().rpartition(f"/{assignment.name}/")[2]
    for source in (assignment.starter / name, assignment.folder / name):
        inside = source.relative_to(assignment.home).as_posix()
        if source.is_file() and inside not in tracked:
            raise WorkbookError(
                "A file would get to students, and git does not track it.",
                where=inside,
                todo="If students are to have it, add it with git add. Else delete it.",
            )


def _committed(home: Path) -> list[str]:
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
