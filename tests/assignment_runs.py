"""Run the notebook of an assignment in this process, and judge the values that it hands over.

No kernel and no sandbox is started, and an unchanged model folder is not deployed again. So dozens
of wrong answers can be tried in a minute or two.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import marshal
import os
import pickle
import pickletools
import re
import shutil
import sys
import types
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grader.authoring import submissions
from grader.authoring.mutants import Mutant
from grader.vocabulary import own
from grader.vocabulary.define import Check, evaluate, load
from grader.vocabulary.probe import Probe
from grader.vocabulary.results import CheckResult
from tests import sources
from workbook.assignments import Assignment
from workbook.common.errors import ServerError, WorkbookError
from workbook.server import Deployment, Triton, deploy, undeploy

#: Seconds that a model may take to unload. A model with an endless loop never unloads.
_UNLOADED = 30.0
#: What an export to ONNX has made, by the network and the options.
_exported: dict[tuple[str, ...], Any] = {}


class Models:
    """The models on a test's server. After a run, the server has the models of this run.

    They have the names of their folders, as a student's models: an ensemble names its steps, and a
    model may call another one.

    Args:
        server: its repository holds nothing else. If a wrong model never unloads, the server is
            started anew.
    """

    def __init__(self, server: Triton) -> None:
        self.server = server
        #: The run that deployed the models.
        self.run: Run | None = None
        self._digests: dict[str, str] = {}
        self._deployments: dict[str, Deployment] = {}

    def deploy(self, folder: Path, *, again: bool) -> Deployment:
        """Deploy a folder, unless the same model is deployed already.

        Args:
            folder: the model's folder.
            again: whether this run has deployed it before. If not, and the server refuses the
                folder, no model of this name stays, not even one of an earlier run.

        Raises:
            WorkbookError: the server refuses it.
        """
        name, digest = folder.name, _digest(folder)
        if self._digests.get(name) != digest:
            self._digests.pop(name, None)
            if not again:
                self._remove(*self._ensembles([name]))
            try:
                self._deployments[name] = deploy(folder, server=self.server)
            except WorkbookError:
                if not again:
                    self._remove(name)
                raise
            self._digests[name] = digest
        return self._deployments[name]

    def keep(self, run: Run) -> None:
        """Remove the models that a run has not deployed. The models now belong to this run."""
        names = {folder.name for folder in run.folders}
        self._remove(*(self._names() - names))
        self.run = run

    def clear(self) -> None:
        """Remove all models, even those that a notebook in a kernel has deployed."""
        self.revive()
        self._remove(*self._names())
        self.run = None

    def revive(self) -> None:
        """Start the server again if it has ended."""
        if not self.server.live():
            self._start_anew("It had ended.")

    def _names(self) -> set[str]:
        """The names of all models in the repository."""
        folders = self.server.repository.iterdir()
        return {path.name for path in folders if not path.name.startswith(".")}

    def _remove(self, *names: str) -> None:
        """Remove models, after the ensembles that have one of them as a step.

        Triton takes more than a second to unload a Python model: the models unload together.
        """
        if ensembles := self._ensembles(names):
            self._remove(*ensembles)
        there = [name for name in names if (self.server.repository / name).is_dir()]
        with ThreadPoolExecutor(8) as pool:
            ends = [
                pool.submit(undeploy, name, server=self.server, timeout=_UNLOADED) for name in there
            ]
        for name in names:
            self._digests.pop(name, None)
        errors = [error for end in ends if (error := end.exception())]
        for error in errors:
            if not isinstance(error, ServerError):
                raise error
        if errors:  # of one wrong answer; the others need a server
            self._start_anew(errors[0])

    def _ensembles(self, names: Collection[str]) -> list[str]:
        """The ensembles that have one of these models as a step."""
        found = []
        for config in sorted(self.server.repository.glob("*/config.pbtxt")):
            text = config.read_text("utf-8")
            others = {*names} - {config.parent.name}
            if "ensemble_scheduling" in text and any(f'"{name}"' in text for name in others):
                found.append(config.parent.name)
        return found

    def _start_anew(self, why: object) -> None:
        """Start the server again without models, on the same ports, and print the reason."""
        warnings.warn(f"The test's server was started anew. {why}", stacklevel=2)
        self.server.stop()
        for path in self.server.repository.iterdir():
            shutil.rmtree(path)
        self._digests.clear()
        self.run = None
        self.server.start()


#: Assignments whose checks measure how fast a deployment is: they run with little beside them.
_MEASURED = ("a7",)


def alone(assignment: Assignment) -> list[pytest.MarkDecorator]:
    """The marker `alone`, for an assignment whose checks measure."""
    return [pytest.mark.alone] * (assignment.short in _MEASURED)


def solution_files(assignment: Assignment, handout: Path, me: str = own.DEFAULT) -> Path:
    """Make a student's folder that holds the solution's model files."""
    for folder in (assignment.starter, assignment.solution):
        if folder.is_dir():
            shutil.copytree(folder, handout, dirs_exist_ok=True)
    handout.mkdir(exist_ok=True)
    submissions.fetch(assignment, handout, me)
    return handout


@contextlib.contextmanager
def as_the_students(server: Triton) -> Iterator[None]:
    """Let notebooks find the test's server within the block."""
    import matplotlib

    matplotlib.use("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_URL", server.url)
        patch.setenv("TRITON_GRPC_URL", server.grpc_url)
        patch.setenv("TRITON_METRICS_URL", server.metrics_url)
        patch.setenv("TRITON_REPOSITORY", str(server.repository))
        yield


@contextlib.contextmanager
def _exports_once() -> Iterator[None]:
    """Let torch export each network once, for all runs: an export takes a second."""
    torch = sys.modules.get("torch")  # a cell that imports it exports nothing
    if torch is None:
        yield
        return
    export = torch.onnx.export

    def once(*args: Any, **options: Any) -> Any:
        if len(args) != 2 or "f" in options:  # it writes a file itself
            return export(*args, **options)
        digest = hashlib.sha256(b"\0".join(_network(args[0]))).hexdigest()
        key = digest, repr(args[1:]), repr(options)
        if key not in _exported:
            _exported[key] = export(*args, **options)
        return _exported[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", once)
        yield


def _network(network: Any) -> Iterator[bytes]:
    """What a torch module computes: its layers and numbers; of a notebook's classes, their code."""
    yield repr(network).encode()
    for name, tensor in network.state_dict().items():
        yield name.encode() + tensor.numpy().tobytes()
    for layer in network.modules():
        forward = type(layer).forward
        if type(layer).__module__ == "builtins":  # a class of a cell
            used = {name: forward.__globals__.get(name) for name in forward.__code__.co_names}
            values = {n: v for n, v in used.items() if not isinstance(v, types.ModuleType)}
            own = {name: value for name, value in vars(layer).items() if name[0] != "_"}
            yield marshal.dumps(forward.__code__) + _bytes((values, own))


class Run:
    """A run of a notebook's code, without the plain cells that plot.

    Args:
        assignment: its notebook is run in the current folder.
        models: the models on the test's server.
        mutant: a change of the notebook.
        me: the student's id; it replaces the id in the notebook.
        until: the run ends with the cell of this id; with "" at the notebook's end.

    Attributes:
        handed: what each check was given, by its id.
        stops: the messages of the cells that raised an error.
        folders: the model folders that it has deployed.
    """

    def __init__(
        self,
        assignment: Assignment,
        models: Models,
        mutant: Mutant | None = None,
        me: str = own.DEFAULT,
        until: str = "",
    ) -> None:
        self.handed: dict[str, dict[str, Any]] = {}
        self.stops: list[str] = []
        self.folders: list[Path] = []
        models.revive()
        space: dict[str, Any] = {}

        def check(id: str, **values: Any) -> None:
            self.handed[id] = {k: None if v is ... else v for k, v in values.items()}

        def once(folder: str) -> Deployment:
            path = Path(folder).resolve()
            found = models.deploy(path, again=path in self.folders)
            if path not in self.folders:
                self.folders.append(path)
            return found

        for cell in sources.read(assignment.source).cells:
            if cell.type != "code" or (not cell.kind and "plt." in cell.source):
                continue
            source = mutant.edit_cell(cell.id, cell.source) if mutant else cell.source
            source = source.replace(f'me = "{own.DEFAULT}"', f"me = {me!r}")
            lines = source.splitlines(keepends=True)  # torch.jit.script reads a class's source
            linecache.cache[cell.id] = (len(source), None, lines, cell.id)
            try:
                with _exports_once():
                    exec(compile(source, cell.id, "exec"), space)
            except Exception as error:
                self.stops.append(str(error))
            space |= {"check": check, "deploy": once}
            if cell.id and cell.id == until:
                break
        models.keep(self)

    def restore(self, models: Models) -> None:
        """Deploy this run's models again, if another run has replaced them."""
        models.revive()
        if models.run is not self:
            for folder in self.folders:
                models.deploy(folder, again=False)
            models.keep(self)


class Judge:
    """Runs all checks on the handed-over values, as the judge does, but on the student's server.

    Most wrong answers change one model or one value. A check that has passed is run again only if
    something that it looked at has changed: the values handed over to it, the files of the models
    that it asked, or the files of the models that these name.

    Args:
        server: the test's server, with the student's models in its repository.
    """

    def __init__(self, server: Triton) -> None:
        self._server = server
        #: (check's id, seed, its values) → what it looked at, and its result.
        self._passed: dict[tuple[str, int, bytes], tuple[_Seen, CheckResult]] = {}

    def __call__(
        self,
        assignment: Assignment,
        handed: Mapping[str, dict[str, Any]],
        *,
        number: int = 7,
        only: Collection[str] = (),
    ) -> dict[str, CheckResult]:
        """The result of each check, by its id.

        Args:
            assignment: its checks are run, with their hidden variants.
            handed: what each check was given, by its id.
            number: the seed of the secret random numbers.
            only: judge these checks, and those that they need; by default all.
        """
        checks = load(assignment.short, variants=True)
        if only:
            wanted = with_needs(only, checks)
            checks = {id: check for id, check in checks.items() if id in wanted}
        models = _Models(self._server.repository)
        earned: dict[str, CheckResult] = {}
        for check in checks.values():
            values = handed.get(check.id)
            key = check.id, number, _bytes(values)
            seen, result = self._passed.get(key, ({}, None))
            if (
                result is None
                or any(earned[need].credit == 0 for need in check.needs)
                or seen != models.seen(seen)
            ):
                with contextlib.closing(_Noting(self._server)) as probe:
                    probe.may_reload = True
                    probe.seed(number)
                    result = evaluate(check, lambda: probe, values, earned)
                if result.status == "passed":
                    self._passed[key] = models.seen(probe.model_names), result
            earned[check.id] = result
        return earned


def with_needs(ids: Collection[str], checks: Mapping[str, Check]) -> set[str]:
    """The checks of these ids, those that they need, those that these need, and so on."""
    return _reached(ids, lambda id: (*checks[id].needs, *checks[id].after))


def _reached(names: Collection[str], leads_to: Callable[[str], Collection[str]]) -> set[str]:
    """These names, those that they lead to, those that these lead to, and so on."""
    found, waiting = set[str](), {*names}
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= {*leads_to(name)} - found
    return found


def _bytes(values: object) -> bytes:
    """The same bytes for equal values; for values that cannot be serialized, always others."""
    try:
        return pickle.dumps(values)
    except Exception:  # a mutant can hand over any value
        return os.urandom(16)


#: The digest of each model that a check depends on, by name; None where there is none.
_Seen = dict[str, str | None]


class _Noting(Probe):
    """A probe that keeps the names of the models that it is asked about."""

    def __init__(self, server: Triton) -> None:
        super().__init__(server)
        self.model_names: set[str] = set()

    def require(self, model: str) -> None:
        """Every method that is first asked for a model calls this."""
        if isinstance(model, str):
            self.model_names.add(model)
        super().require(model)


class _Models:
    """The models of a repository: their files' digests, and which models each of them names."""

    def __init__(self, repository: Path) -> None:
        folders = {path.name: path for path in repository.iterdir() if path.is_dir()}
        self._digests = {name: _digest(path) for name, path in folders.items()}
        self._names = {
            name: set(re.findall(r"[\w.-]+", _text(path))) & {*folders}
            for name, path in folders.items()
        }

    def seen(self, model_names: Collection[str]) -> _Seen:
        """The digests of the models that were asked, and of all that these name."""
        found = _reached(model_names, lambda name: self._names.get(name, set()))
        return {name: self._digests.get(name) for name in found}


def _text(folder: Path) -> str:
    """The texts of a model's config and programs."""
    paths = [path for path in folder.rglob("*") if path.suffix in (".pbtxt", ".py", ".json")]
    return "\n".join(path.read_text("utf-8", "replace") for path in paths if path.is_file())


def _digest(folder: Path) -> str:
    """A digest that is equal for folders that the server would serve in the same way."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.parent.name != "__pycache__":
            total.update(path.relative_to(folder).as_posix().encode() + b"\0" + _content(path))
    return total.hexdigest()[:8]


#: In a TorchScript file, the numbers by which a process tells classes of the same name.
_MANGLED = re.compile(rb"[./]?___torch_mangle_\d+")


def _content(path: Path) -> bytes:
    """A file's bytes; for a TorchScript file, only what stays the same when it is written again."""
    if path.suffix != ".pt" or not zipfile.is_zipfile(path):
        return path.read_bytes()
    total = hashlib.sha256()
    with zipfile.ZipFile(path) as archive:
        names = {_MANGLED.sub(b"", name.encode()): name for name in archive.namelist()}
        for name in sorted(names):
            if name.endswith((b".debug_pkl", b"serialization_id")):  # source lines; a digest
                continue
            content = archive.read(names[name])
            if name.endswith(b".pkl"):  # each text comes after its length
                operations = [(code.name, arg) for code, arg, _ in pickletools.genops(content)]
                content = repr(operations).encode()
            total.update(name + b"\0" + _MANGLED.sub(b"", content))
    return total.digest()
