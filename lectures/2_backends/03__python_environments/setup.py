"""For 03__python_environments: a tiny package in two versions, environments, other Pythons.

setup.repository(models)                    # square and grade_1, which answer requests, and wheels
setup.wheel(models, "2.0")                  # sharpness-2.0-py3-none-any.whl
setup.numpy_wheel(models)                   # numpy as a registry would have it
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pandas as pd

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import cards, formats, laboratory, mistakes, place
from workbook.lessons.cards import Card
from workbook.lessons.mistakes import refusal, shown
from workbook.lessons.premises import Premise
from workbook.lessons.runs import infer
from workbook.lessons.workspace import set_addresses
from workbook.measure import style
from workbook.server import Server, Triton

#: The models that the reader opens.
HERE = Path(__file__).parent / "models"
_PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "sharpness"
version = "{version}"

[tool.setuptools]
py-modules = ["sharpness"]
"""
#: Version → the package's only module.
_PACKAGE = {
    "1.0": '''\
"""How sharp pictures are: the mean step between neighbouring pixels."""

import sys

version = "1.0"


def where():
    """The version of the package, the version of Python, and where that lies."""
    return [version, f"{sys.version_info[0]}.{sys.version_info[1]}", sys.prefix]


def grade(images):
    """Pictures (n, 3, h, w) to grades (n,)."""
    return abs(images[..., 1:] - images[..., :-1]).mean((1, 2, 3))
''',
    "2.0": '''\
"""How sharp pictures are: steps between neighbouring pixels, to the right and down."""

import sys

version = "2.0"


def where():
    """The version of the package, the version of Python, and where that lies."""
    return [version, f"{sys.version_info[0]}.{sys.version_info[1]}", sys.prefix]


def grade(images, power=2):
    """Pictures (n, 3, h, w) to grades (n,)."""
    right = abs(images[..., 1:] - images[..., :-1]) ** power
    down = abs(images[..., 1:, :] - images[..., :-1, :]) ** power
    return right.mean((1, 2, 3)) + down.mean((1, 2, 3))
''',
}
#: A script that puts an environment's Python first on the PATH, wherever the environment lies.
ACTIVATE = """\
VIRTUAL_ENV=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH" PYTHONNOUSERSITE=1
"""
#: The script that makes an environment with conda, and the backend slides' one.
SCRIPTS = sorted((Path(__file__).parent / "clients").glob("conda_env*.sh"))
_FAKES = """\
wget() { touch "$3"; }
conda() { [[ "$*" = *pack\\ -fo* ]] && echo packed > "${!#}"; true; }
"""
_LATER = itertools.count(2, 2)  # in seconds
CLIENTS = 2
#: The version of the Python that the course runs on.
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
#: The icon and the colour of a card for an experiment that this machine cannot run.
NOT_TRIED = ("○", "#808080")


def repository(models: Path) -> None:
    """Copy the models that answer (`square`, and `grade_1` with its environment), and `grade_2`.

    Beside the repository, `….wheels` has the packages. In this process's commands, `python3` is
    this Python, which the server has too, and TRITON_STUBS is the folder of all stubs.
    """
    programs = str(Path(sys.executable).parent)
    if not os.environ["PATH"].startswith(programs + os.pathsep):
        os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    os.environ["TRITON_STUBS"] = str(_stubs())
    numpy_wheel(models)
    wheel(models, "2.0")
    place(models, paths.root() / "model_repository/square", HERE / "grade_1", HERE / "grade_2")
    env = models / "grade_1/env"
    create(env)
    install(env, wheel(models, "1.0"))
    share_packages(env)


def model(models: Path, name: str) -> Path:
    """Copy `grade_1` without its environment under another name; returns the copy's folder."""
    shutil.copytree(HERE / "grade_1", models / name, dirs_exist_ok=True)
    return models / name


def use(home: Path, path: str) -> None:
    """Write the config of `grade_1` into a model's folder, with another environment."""
    text = (HERE / "grade_1/config.pbtxt").read_text("utf-8")
    text = text.replace("$$TRITON_MODEL_DIRECTORY/env", path)
    (home / "config.pbtxt").write_text(text, "utf-8")


def wheel(models: Path, version: str) -> Path:
    """Build one version of the package `sharpness` with pip, without a network.

    Args:
        models: the lecture's folder; the wheel is put beside it.

    Raises:
        WorkbookError: pip could not build it.
    """
    folder = _beside(models)
    source = folder / f"source-{version}"
    source.mkdir(parents=True, exist_ok=True)
    (source / "pyproject.toml").write_text(_PYPROJECT.format(version=version), "utf-8")
    (source / "sharpness.py").write_text(_PACKAGE[version], "utf-8")
    file = folder / f"sharpness-{version}-py3-none-any.whl"
    if not file.is_file():
        _pip("wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder, source)
    return file


def create(env: Path, python: Path | str = sys.executable) -> None:
    """Make an empty virtual environment without pip; an older one at this place is removed."""
    shutil.rmtree(env, ignore_errors=True)
    _run(
        [str(python), "-m", "venv", "--copies", "--without-pip", str(env)],
        "The environment was not made.",
    )


def install(env: Path, *packages: Path | str) -> None:
    """Install wheels, or packages from the registry, into an environment."""
    local = all(isinstance(package, Path) for package in packages)
    flags = ["--no-index", "--no-deps"] if local else []
    _pip("--python", env / "bin/python", "install", "--quiet", *flags, *packages)


def numpy_wheel(models: Path) -> Path:
    """Pack the installed numpy into a wheel, so that no registry is needed.

    Args:
        models: the lecture's folder; the wheel is put beside it.
    """
    about = metadata.distribution("numpy")
    tag = re.findall(r"(?m)^Tag: (\S+)", about.read_text("WHEEL") or "")[0]
    file = _beside(models) / f"numpy-{about.version}-{tag}.whl"
    left_out = re.compile(r"^\.\.|/tests/|__pycache__|/f2py/|\.(pyi|a|h)$|/(INSTALLER|REQUESTED)$")
    files = [each for each in about.files or () if not left_out.search(str(each))]
    record = f"numpy-{about.version}.dist-info/RECORD"
    if not file.is_file():
        with zipfile.ZipFile(file.with_suffix(".new"), "w") as archive:
            for each in files:
                if str(each) != record:
                    archive.write(str(each.locate()), str(each))
            archive.writestr(record, "".join(f"{each},,\n" for each in files))
        file.with_suffix(".new").rename(file)
    return file


def share_packages(env: Path) -> None:
    """Let an environment also find this environment's packages, after its own."""
    file = site_packages(env) / "server.pth"
    file.write_text(sysconfig.get_path("purelib") + "\n", "utf-8")


def site_packages(env: Path) -> Path:
    """Return the folder of an environment's packages."""
    return next((env / "lib").glob("python3*")) / "site-packages"


@dataclass(frozen=True)
class Watched:
    """The answers that clients of two models received while a third model was loaded.

    Attributes:
        answers: one row per request: `model`, `sent_s`, `ms`, `error`.
        began_s, ended_s: when the load began and ended.
    """

    answers: pd.DataFrame
    began_s: float
    ended_s: float

    @property
    def failed(self) -> int:
        """The number of requests that were answered with an error."""
        return int((self.answers["error"] != "").sum())

    @property
    def seconds(self) -> float:
        """The seconds that the load took."""
        return self.ended_s - self.began_s

    @property
    def overlap(self) -> Premise:
        """Premise: both models got requests while the third was loaded."""
        sent = self.answers.query("@self.began_s < sent_s < @self.ended_s")
        counts = sent.groupby("model").size()
        return Premise(
            len(counts) == CLIENTS and counts.min() >= 10,
            "the clients hardly sent requests meanwhile",
        )


def watched(requests: Sequence[tuple[str, float, float, str]], load: Sequence[float]) -> Watched:
    """Make a table of requests: model, begin and end in seconds, error; `load` began and ended."""
    rows = [
        (model, sent - load[0], 1000 * (end - sent), error) for model, sent, end, error in requests
    ]
    table = pd.DataFrame(rows, columns=["model", "sent_s", "ms", "error"])
    return Watched(table, 0.0, load[1] - load[0])


def plot(watched: Watched) -> style.Picture:
    """Draw each request's latency over the time when it was sent; the load is shaded."""
    failures = f"{watched.failed} of {len(watched.answers)} requests failed"
    figure = style.Picture(8.4, 2.4, f"Latency while a third model is loaded: {failures}.")
    axes = figure.subplots()
    style.panel(axes, f"Two models answer, a third is loaded: {failures}", below="seconds")
    axes.axvspan(watched.began_s, watched.ended_s, color=style.GREY, alpha=0.15, label="load")
    for row, (name, own) in enumerate(watched.answers.groupby("model")):
        axes.plot(own["sent_s"], own["ms"], style.MARKS[row], color=style.COLOURS[row],
                  markersize=3, label=name)  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylabel("ms", color=style.GREY)
    style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def environment_of(server: Server, name: str) -> tuple[str, str, str]:
    """Ask a model for one grade; returns its package's version, its Python's version and path.

    A path in the checkout is relative to the checkout, as on the course's pages.

    Raises:
        RequestError: the server answered with an error.
    """
    words = infer(server, name, image=formats.pictures()[:1])["where"][0]
    package, python, prefix = (word.decode() for word in words)
    return package, python, shown(prefix)


def touch(file: Path) -> None:
    """Give a file a later time of change, as if it had just been copied."""
    later = time.time() + next(_LATER)  # the server unpacks a file again only if it is newer
    os.utime(file, (later, later))


def small(models: Path) -> Path:
    """Write `grade_small`: `grade_1` with its environment as an archive; returns its folder."""
    home = model(models, "grade_small")
    env = models / "grade_1/env"
    (env / "bin/activate").write_text(ACTIVATE, "utf-8")
    with tarfile.open(home / "env.tar.gz", "w:gz") as archive:
        archive.add(env, ".")
    use(home, "$$TRITON_MODEL_DIRECTORY/env.tar.gz")
    return home


def strict(models: Path) -> Path:
    """Write the task's model: it calls a function of version 2.0, and its environment has 1.0.

    An existing folder stays as it is, because it may hold the reader's work.
    """
    if (models / "strict").exists():
        return models / "strict"
    place(models, HERE / "strict")
    home = models / "strict"
    create(home / "env")
    install(home / "env", wheel(models, "1.0"))
    share_packages(home / "env")
    return home


def run_scripts(models: Path) -> dict[str, list[str]]:
    """Run `SCRIPTS` with commands that only make files; returns the files that each leaves."""
    left = {}
    for file in SCRIPTS:
        folder = _beside(models) / "conda_env"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        script = _FAKES + file.read_text("utf-8")
        for place_ in ("/tmp/conda_env", "models/python_model"):
            script = script.replace(place_, str(folder))
        script = script.replace("bash $CONDA_INSTALLER", "true $CONDA_INSTALLER")
        subprocess.run(["bash", "-c", script], check=False, capture_output=True, cwd=folder.parent)
        left[file.name] = sorted(each.name for each in folder.rglob("*")) if folder.is_dir() else []
    return left


# -- another Python ------------------------------------------------------------------------------


def stubs() -> dict[str, Path]:
    """Find the stubs in the server's wheel: Python's version → file."""
    files = {path.parent.name: path for path in _stubs().glob("*/triton_python_backend_stub")}
    return dict(sorted(files.items(), key=lambda item: int(item[0].partition(".")[2])))


def _stubs() -> Path:
    return Path(sysconfig.get_path("purelib")) / "pytriton/tritonserver/python_backend_stubs"


def libpython(stub: Path) -> str:
    """Return the Python library that a stub is linked with, e.g. `libpython3.10.so.1.0`."""
    found = re.search(rb"libpython3\.\d+m?\.so[.\d]*", stub.read_bytes())
    return found[0].decode() if found else ""


def stubs_are_linked() -> bool:
    """Whether each stub is linked with the library of its own Python."""
    return all(f"libpython{version}" in libpython(stub) for version, stub in stubs().items())


@dataclass(frozen=True)
class Interpreter:
    """Another Python of this machine.

    Attributes:
        version: e.g. "3.10".
        program: the interpreter.
        library: its shared library.
    """

    version: str
    program: Path
    library: Path


def other_python() -> Interpreter | None:
    """Find another Python for which numpy 1.26 and a stub of the server exist; None without one.

    It must have a shared library, because the stub is linked with it.
    """
    own = OWN
    asks = (
        "import sysconfig as s; print(s.get_config_var('LIBDIR'), s.get_config_var('INSTSONAME'))"
    )
    for version in ("3.12", "3.10", "3.11"):
        if version == own or version not in stubs():
            continue
        for program in _programs(version):
            found = subprocess.run(
                [program, "-c", asks], capture_output=True, text=True, check=False
            )
            folder, _, name = found.stdout.strip().partition(" ")
            library = Path(folder) / name
            if found.returncode == 0 and ".so" in name and library.is_file():
                return Interpreter(version, program, library)
    return None


def _programs(version: str) -> list[Path]:
    """List where a Python of this version may be: on the PATH, or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [path / "bin" / f"python{version}" for path in sorted(pyenv.glob(f"{version}.*"))]
    on_path = shutil.which(f"python{version}")
    if on_path and "shims" not in on_path:
        found.insert(0, Path(on_path))
    return [program for program in found if program.is_file()]


@dataclass(frozen=True)
class Second:
    """How far situation 2 went on this machine.

    Attributes:
        python: the version of the other Python; "" where there is none.
        without_stub: the server's message about the environment without a stub of its own.
        answered: the model's reply, from `environment_of`; None if the model was not loaded.
        lacking: what this machine lacks for the experiment; "" if nothing.
    """

    python: str
    without_stub: str
    answered: tuple[str, str, str] | None
    lacking: str

    @property
    def as_expected(self) -> bool:
        """Whether the other Python answered, and failed without its own stub."""
        return bool(self.answered and self.answered[1] == self.python and self.without_stub)

    def show(self, id: str) -> None:
        """Show a card that it was not tried; `id` is the claim for machines that can try it."""
        cards.show(Card(NOT_TRIED, "Not tried", str(self)), claim=id)

    def __str__(self) -> str:
        if self.answered is None:
            return f"{self.lacking.rstrip('.')}. The commands above are the steps."
        package, python, _ = self.answered
        return (
            f"Beside {OWN}, Python {python} answers, with sharpness {package}. Without its stub, "
            f"the server said: {self.without_stub}"
        )


def situation_2(server: Triton) -> Second:
    """Serve a model on another Python: its environment, its libpython and its stub.

    Args:
        server: from `laboratory`.
    """
    home = model(server.repository, "other_python")
    other = other_python()
    if other is None:
        return Second("", "", None, "This machine has no other Python with a shared library")
    env, stub = home / "env", home / "triton_python_backend_stub"
    try:
        create(env, other.program)
        install(env, wheel(server.repository, "2.0"))
        install(env, f"numpy=={metadata.version('numpy')}")
    except WorkbookError as error:
        lacking = f"Python {other.version} is here, but {error.what.rstrip('.')}: {error.todo}"
        return Second(other.version, "", None, lacking)
    shutil.copy(other.library, env / "lib")
    stub.unlink(missing_ok=True)
    without = refusal(server, home.name)
    shutil.copy(stubs()[other.version], stub)
    server.load(home.name)
    return Second(other.version, without, environment_of(server, home.name), "")


# -- mistakes ------------------------------------------------------------------------------------


def provoke(models: Path, lab: Triton) -> mistakes.Results:
    """Make five mistakes in an environment, on a server of their own.

    Args:
        models: the repository.
        lab: the notebook's server. Its addresses are in the environment again afterwards.
    """
    small(models)
    try:
        with laboratory(models, only=[]) as spare:
            return mistakes.provoke(spare, "grade_small", {
                "a name that is not there": mistakes.config("env.tar.gz", "envs.tar.gz"),
                "one dollar sign": mistakes.config("$$TRITON", "$TRITON"),
                "a folder around everything": wrapped,
                "an archive without the package": without_package,
                "an archive cut in half": cut,
            })  # fmt: skip
    finally:
        set_addresses(lab)


def cut(home: Path) -> str:
    """A mistake: half of the archive is missing."""
    file = home / "env.tar.gz"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    touch(file)
    return "The archive is cut in half."


def wrapped(home: Path) -> str:
    """A mistake: the archive has a folder around the environment."""
    file = home / "env.tar.gz"
    inner = home / "inner"
    inner.mkdir()
    with tarfile.open(file) as archive:
        archive.extract("./bin/activate", inner, filter="data")
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        archive.add(inner, "env")
    touch(file)
    shutil.rmtree(inner)
    return "The archive has a folder `env` around everything."


def without_package(home: Path) -> str:
    """A mistake: the archive lacks the package."""
    file = home / "env.tar.gz"
    inner = home / "inner"
    with tarfile.open(file) as archive:
        archive.extractall(inner, filter="fully_trusted")
    for path in site_packages(inner).glob("sharpness*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        archive.add(inner, ".")
    touch(file)
    shutil.rmtree(inner)
    return "The package is not installed in the environment."


def _beside(models: Path) -> Path:
    """Return the folder beside the repository for wheels and environments."""
    folder = models.resolve().parent / f"{models.resolve().name}.wheels"
    folder.mkdir(exist_ok=True)
    return folder


def _pip(*words: Path | str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)]
    _run(command, "pip did not install what it needs")


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)  # without colour codes
        errors = [line for line in plain.splitlines() if "ERROR" in line] or [plain]
        raise WorkbookError(what, where=" ".join(command[:4]), todo=errors[-1].strip())
