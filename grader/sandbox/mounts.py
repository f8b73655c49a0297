"""What a sandbox must see for Python, the course's package and the laptop server to work in it.

The checkout's own packages are bound piece by piece, so that what instructors keep beside them
(hidden checks, solutions, submissions, the gradebook) is never inside, not even covered up.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import workbook
from workbook.server import assemble
from workbook.server.repository import precompile
from workbook.server.command import SHORT_SPIN

#: A checkout's place inside, for what the student's code and the server write.
HOME = "/tmp/course"


def course(*, hidden: bool = False) -> tuple[dict[str, Path], dict[str, str]]:
    """What to bind, and the environment, for the course's programs in a sandbox.

    Args:
        hidden: bind the hidden checks too; for the judge only.

    Returns:
        `read_only` and `environment` for `sandbox.run`: the interpreter with its packages,
        `workbook` and the public part of `grader` at their own paths, and the backends of the
        laptop server where a checkout at `HOME` has them.

    Raises:
        ServerError: the laptop server cannot be assembled on this machine.
    """
    prefix, base = Path(sys.prefix), Path(sys.base_prefix)
    grader = Path(__file__).resolve().parents[1]
    checks = grader / "checks"
    _compile(Path(workbook.__file__).parent, grader)
    places = [base, base.resolve(), prefix, prefix.resolve(), Path(workbook.__file__).parent]
    places += [grader / "__init__.py", grader / "judge", grader / "sandbox"]
    places += [*sorted(checks.glob("*.py")), checks / "__pycache__"]
    places += [checks / "hidden"] if hidden else []
    bound = {str(p): p for p in places if not p.is_relative_to("/usr")}
    backends = assemble.find().backends
    bound[f"{HOME}/.workbook/server/{backends.name}"] = backends
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "WORKBOOK_HOME": HOME,
        "TRITON_REPOSITORY": f"{HOME}/model_repository",
        "JUPYTER_RUNTIME_DIR": "/tmp/jupyter",
        "IPYTHONDIR": "/tmp/home/.ipython",
        **SHORT_SPIN,
    }
    return bound, environment


@functools.cache
def _compile(*packages: Path) -> None:
    """Compile the course's modules, once a process: in a sandbox they cannot be written."""
    for package in packages:
        precompile(package)
