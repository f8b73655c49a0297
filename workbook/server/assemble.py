"""Assemble the laptop server from the installed server wheel and this package's stand-ins.

A *stand-in* is a backend of this course, written in Python. It runs on the CPU in place of one of
NVIDIA's C++ backends, and follows the same rules (`workbook/backends/`).

The wheel `nvidia-pytriton` contains the real tritonserver and its Python backend. The server also
needs a backend directory: one folder per backend. The wheel does not have one, so this module makes
it. The directory's name is a hash of the Python version, the wheel's version and the stand-ins: it
is made once, and again when one of them changes. Files are copied, because the server refuses links
that lead out of a backend's folder. Of each stand-in only `model.py` is copied; that file imports
the rest from the installed package.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from importlib import metadata
from pathlib import Path

from ..common import paths
from ..common.errors import ServerError
from . import model_folder, native, run_folders

STAND_INS = Path(__file__).resolve().parent.parent / "backends"

# Triton 24.10 hands the path of the stub and of the model to an unquoted `bash -c`; any other
# character may be read by the shell or split the word.
_SHELL_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")

_CHECKS = STAND_INS / "python" / "answer_checks.py"
_CALL_CHECKS = """

# Added by the laptop server of the workbook: see triton_workbook_checks.py.
import triton_workbook_checks

triton_workbook_checks.install()
"""

_KEPT_SECONDS = 24 * 3600  # how long an assembled folder that is no longer used is kept

_LIBRARIES = "nvidia_pytriton.libs"  # what the wheel's programs need, beside its package

_LOOK_FIRST = """\
#!/bin/sh
here="${0%/*}"
stub="$here/bin/triton_python_backend_stub"
[ -x "$here/bin/start_stub" ] && exec "$here/bin/start_stub" "$stub" "$@"
for last in "$@"; do :; done
if [ "$last" = DEFAULT ] && [ ! -e "$1" ]; then
    shift
    set -- "$here/in_place/absent/1/model.py" "$@"
fi
exec "$stub" "$@"
"""
#: For each reason why a model is not started: the error that another model raises in its place.
#: The key is the folder of that other model in `in_place`. (A sandbox of native/jail.py hides what
#: lies beside a model's folder.)
_IN_PLACE = {
    "absent": FileNotFoundError("Python model file not found"),
    "refused": RuntimeError("the model's process could not get a sandbox of its own"),
    "unsafe": ValueError(
        "the model's process was not started: a name on its command line has a space, or another "
        "character than letters, digits and . _ - + = : , @ %"
    ),
}
_RAISES = '''\
"""Takes the place of a model that is not started, to say why."""


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        raise {error!r}

    def initialize(self, args):
        raise {error!r}
'''


@dataclasses.dataclass(frozen=True)
class Installation:
    """What a tritonserver process needs from this machine.

    Attributes:
        binary: the tritonserver executable.
        backends: the assembled directory for --backend-directory.
        caches: the directory for --cache-directory.
        libraries: directories for LD_LIBRARY_PATH, in order.
        preload: a library for LD_PRELOAD with which Python-based models load faster
            (native/autocomplete.c, native/forkserver.c); None for a plain server, and where there
            was no compiler to make it.
    """

    binary: Path
    backends: Path
    caches: Path
    libraries: tuple[Path, ...]
    preload: Path | None


def find(*, plain: bool = False) -> Installation:
    """Find the wheel, assemble the backend directory where it is missing, and return both.

    Args:
        plain: without the compiled helpers (native/README.md) and without the checks of Python
            models' answers (backends/python/answer_checks.py).

    Raises:
        ServerError: the wheel, its stub for this Python, or libpython is not there.
    """
    wheel = _wheel()
    stub = _stub(wheel)
    libpython = _libpython()
    triton = wheel / "tritonserver"
    backends = _backends(triton / "backends" / "python", stub, wheel.parent, plain)
    preload = backends / "preload.so"
    return Installation(
        binary=triton / "bin" / "tritonserver",
        backends=backends,
        caches=triton / "caches",
        libraries=(libpython.parent, wheel.parent / _LIBRARIES),
        preload=preload if preload.is_file() else None,
    )


def core(folder: Path) -> Path:
    """The path of `libtritonserver`, Triton's core, among the wheel's libraries.

    Raises:
        ServerError: there is none.
    """
    found = sorted(folder.glob("libtritonserver*.so*"))
    if not found:
        raise ServerError(
            "The server wheel holds no libtritonserver.",
            where=str(folder),
            todo="Run `make setup` again.",
        )
    return found[0]


def shell_safe(path: Path) -> Path:
    """A path to the same file or folder that needs no quotes in a shell.

    A path without special characters is returned as it is. Any other is reached through a
    symbolic link in a private folder of the system's temporary directory.
    """
    path = path.resolve()
    if _SHELL_SAFE.fullmatch(str(path)):
        return path
    link = _private_folder() / hashlib.sha256(str(path).encode()).hexdigest()[:16]
    with contextlib.suppress(FileExistsError):
        link.symlink_to(path)
    return link


def _private_folder() -> Path:
    """A folder of this user's in the system's temporary directory. It is made if it is missing.

    Raises:
        ServerError: somebody else has made it, and could put files into it.
    """
    folder = Path(tempfile.gettempdir()) / f"triton-workbook-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
        raise ServerError(
            "The server's folder in the system's temporary directory belongs to somebody else.",
            where=str(folder),
            todo="Set TMPDIR to a folder of your own whose path has no spaces.",
        )
    return folder


def _wheel() -> Path:
    spec = importlib.util.find_spec("pytriton")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        if (Path(place) / "tritonserver" / "bin" / "tritonserver").is_file():
            return Path(place)
    raise ServerError(
        "The server wheel nvidia-pytriton is not installed in this Python.",
        where=sys.executable,
        todo="Run `make setup`, then use the Python in .venv.",
    )


def _stub(wheel: Path) -> Path:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stubs = wheel / "tritonserver" / "python_backend_stubs"
    stub = stubs / version / "triton_python_backend_stub"
    if not stub.is_file():
        known = ", ".join(sorted(p.name for p in stubs.iterdir())) if stubs.is_dir() else "none"
        raise ServerError(
            f"The server wheel has no Python stub for Python {version}.",
            where=str(stubs),
            todo=f"Use one of these Pythons: {known}; the course supports 3.11 and 3.12.",
        )
    return stub


def _libpython() -> Path:
    """The shared library of *this* interpreter. With that of another build, imports fail later."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    libdir = Path(sysconfig.get_config_var("LIBDIR") or "/nonexistent")
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for folder in (libdir, libdir / multiarch, Path(sys.base_prefix) / "lib"):
        if ".so" in name and (folder / name).is_file():
            return folder / name
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise ServerError(
        "This Python was built without a shared libpython, which Triton's stub needs.",
        where=sys.base_prefix,
        todo=f"Debian or Ubuntu: `apt install libpython{version}`. pyenv: "
        f"`PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install {version}`. Then `make setup`.",
    )


def _put_stub(stub: Path, folder: Path) -> None:
    """Put the stub into the Python backend's folder, and a script that starts it.

    Before the stub starts, native/start_stub.c looks whether the model's file exists. Without a
    compiler, the script looks. If the file is missing, Triton 24.10 waits for the model for ever,
    and in the control modes none and poll the server then answers no request at all (issue 8766 of
    triton-inference-server/server). So the stub gets another file, which raises an error that says
    what is wrong. The stub's last argument is DEFAULT for the Python backend; for a Python-based
    backend it is the folder of that backend's model.py.
    """
    (folder / "bin").mkdir()
    shutil.copyfile(stub, folder / "bin" / stub.name)
    (folder / stub.name).write_text(_LOOK_FIRST, encoding="utf-8")
    for file in (folder / "bin" / stub.name, folder / stub.name):
        file.chmod(0o755)
    for name, error in _IN_PLACE.items():
        model = folder / "in_place" / name / "1" / "model.py"
        model.parent.mkdir(parents=True)
        model.write_text(_RAISES.format(error=error), encoding="utf-8")


def _backends(python_backend: Path, stub: Path, packages: Path, plain: bool) -> Path:
    """The assembled backend directory. It is made here if it does not exist yet."""
    sources = sorted(STAND_INS.glob("*/model.py"))
    added = "plain" if plain else native.fingerprint() + _CALL_CHECKS + _CHECKS.read_text("utf-8")
    digest = hashlib.sha256()
    digest.update(metadata.version("nvidia-pytriton").encode())
    digest.update(sys.version.encode())
    digest.update(f"{_LOOK_FIRST}{_RAISES}{_IN_PLACE}{added}".encode())
    for source in sources:
        digest.update(str(source.relative_to(STAND_INS)).encode())
        digest.update(source.read_bytes())
    home = paths.state("server")
    target = home / digest.hexdigest()[:16]
    # The stub's own path is on the command line, too, and links are refused. The checkout may
    # belong to another user who has not assembled this folder.
    if shell_safe(home) != home or not (target.is_dir() or os.access(home, os.W_OK)):
        home = _private_folder() / "server"
        home.mkdir(mode=0o700, exist_ok=True)
        target = home / target.name
    if target.is_dir():
        with contextlib.suppress(OSError):  # a sandbox sees it read-only
            os.utime(target)
        return target
    build = Path(tempfile.mkdtemp(dir=home, prefix=".build-"))
    try:
        shutil.copytree(python_backend, build / "python")
        _put_stub(stub, build / "python")
        if not plain:
            native.preload(build)
            native.fastpath(build / "python", core(packages / _LIBRARIES))
            _put_checks(build / "python")
        for source in sources:
            copy = build / source.relative_to(STAND_INS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        model_folder.precompile(build)  # a sandbox sees the folder read-only
        build.chmod(0o755)
        build.rename(target)
    except OSError:
        shutil.rmtree(build, ignore_errors=True)
        if not target.is_dir():  # another process may have been faster
            raise
    _clear(home)
    return target


def _put_checks(folder: Path) -> None:
    """Have the Python backend check the answers of models (backends/python/answer_checks.py).

    The checks are added to triton_python_backend_utils. The model's file imports that module; if
    it does not, the stub does.
    """
    shutil.copyfile(_CHECKS, folder / "triton_workbook_checks.py")
    with (folder / "triton_python_backend_utils.py").open("a", encoding="utf-8") as utils:
        utils.write(_CALL_CHECKS)


def _clear(home: Path) -> None:
    """Remove assembled folders that no server uses and that `find` has not returned for a day.

    Earlier versions of this package made them, 3 MB each. A server in a sandbox is not in this
    checkout's list of servers. `find` returned its folder before it started, so the folder is kept
    for a day.
    """
    words = {word for orders in run_folders.orders() for word in orders["argv"]}
    for folder in home.iterdir():
        with contextlib.suppress(OSError):
            unused = time.time() - folder.stat().st_mtime > _KEPT_SECONDS
            if unused and f"--backend-directory={folder}" not in words:
                shutil.rmtree(folder, ignore_errors=True)
