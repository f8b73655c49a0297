"""Which files a sandbox sees, so that Python, the course's packages and the server work in it.

The parts of the checkout are bound one by one. So the instructors' own files (hidden checks,
solutions, submissions, the gradebook, the pages) are never in a student's sandbox.
"""

from __future__ import annotations

import compileall
import functools
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import workbook
from workbook.server import assemble
from workbook.server.model_folder import precompile
from workbook.server.tritonserver_command import SHORT_SPIN

#: The folder in the sandbox that is used as the checkout: the student's code and the server write
#: below it. `WORKBOOK_HOME` is set to it. HOME is another folder, `/tmp/home`.
CHECKOUT = "/tmp/course"
#: Which processors there are. vLLM asks lscpu, which reads it here, and does not start without.
PROCESSORS = ("/sys/devices/system/cpu", "/sys/devices/system/node")


def course(*, hidden: bool = False) -> tuple[dict[str, Path], dict[str, str]]:
    """The files to bind and the environment to set, for the course's programs in a sandbox.

    Example::

        bound, environment = course()
        sandbox.run([sys.executable, "-m", "…"], read_only=bound, environment=environment)

    Args:
        hidden: bind the assignments' own modules as instructors have them, too, with the hidden
            checks. They come before those that students have. For the judge only.

    Returns:
        `read_only` and `environment` for `sandbox.run`. `read_only` has the interpreter with its
        packages, `workbook`, `grader` without classroom and pages, and the assignments' modules,
        each at its own path. It also has the backends of the laptop server, at their path in a
        checkout.

    Raises:
        ServerError: the laptop server cannot be assembled on this machine.
    """
    prefix, base = Path(sys.prefix), Path(sys.base_prefix)
    grader = Path(__file__).resolve().parents[1]
    packages = [Path(workbook.__file__).parent]
    packages += [grader / name for name in ("assignments", "judge", "sandbox", "vocabulary")]
    _compile(*packages)
    places = [base, base.resolve(), prefix, prefix.resolve(), *packages, grader / "__init__.py"]
    places += _modules(grader.parent / "assignments")
    if hidden:
        places += _modules(grader.parent / "solutions")
    bound = {str(p): p for p in places if not p.is_relative_to("/usr")}
    backends = assemble.find().backends
    bound[f"{CHECKOUT}/.workbook/server/{backends.name}"] = backends
    bound |= {place: Path(place) for place in PROCESSORS if Path(place).is_dir()}
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "WORKBOOK_HOME": CHECKOUT,
        "TRITON_REPOSITORY": f"{CHECKOUT}/model_repository",
        "JUPYTER_RUNTIME_DIR": "/tmp/jupyter",
        "IPYTHONDIR": "/tmp/home/.ipython",
        **SHORT_SPIN,
    }
    return bound, environment


def _modules(place: Path) -> Iterator[Path]:
    """The assignments' modules of checks, with what Python has compiled of them, and the models
    with which students begin.

    Not among them: sources of notebooks, solutions, wrong answers, attacks.

    Args:
        place: solutions/ or assignments/.
    """
    for folder in sorted(place.glob("a*__*/")):
        other = (folder.name.split("__")[0], "mutants", "attacks")
        for path in sorted(folder.glob("*.py")):
            if path.stem not in other:
                yield from filter(Path.is_file, (path, _compile_module(path)))
        models = folder / ("models" if place.name == "assignments" else "starter/models")
        if models.is_dir():
            yield models


@functools.cache
def _compile_module(path: Path) -> Path:
    """The compiled file of a module, which is made where it may be: a sandbox cannot write it."""
    compileall.compile_file(path, quiet=2)
    return Path(importlib.util.cache_from_source(path))


@functools.cache
def _compile(*packages: Path) -> None:
    """Compile the course's packages, once per process: a sandbox cannot write compiled files.

    Each package is named. `grader/` as a whole holds what students handed in, too, in
    `grader/work/`: no process outside of a sandbox compiles that, and nothing may be written there.
    """
    for package in packages:
        precompile(package)
