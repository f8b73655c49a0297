"""Deploy: copy a model folder into the shared repository, and ask the server to load it."""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..common.errors import LoadError, RepositoryError, ServerError, StillLoading
from . import model_folder, model_processes, model_warnings, which_repository
from .connection import Server
from .explain import load_error
from .find_server import connect
from .model_warnings import ModelWarning


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A model that is ready.

    Attributes:
        name: the model's name.
        versions: the versions that answer.
        backend: as the server's configuration names it.
        stand_in: whether a CPU stand-in of this course serves it, and not the real backend.
        seconds: from the call until it was ready.
        warnings: what is wrong with it, though it is served; e.g. what its warm-ups have shown.
    """

    name: str
    versions: tuple[int, ...]
    backend: str
    stand_in: bool
    seconds: float
    warnings: tuple[ModelWarning, ...] = ()

    def __str__(self) -> str:
        which = ", ".join(map(str, self.versions))
        kind = " (stand-in)" if self.stand_in else ""
        verb = "is" if len(self.versions) == 1 else "are"
        ready = (
            f"{self.name} {which} {verb} ready on {self.backend}{kind}, after {self.seconds:.1f} s"
        )
        return "\n".join([ready, *(f"Warning: {warning}" for warning in self.warnings)])


def deploy(
    folder: Path | str,
    *,
    name: str | None = None,
    version: int | None = None,
    server: Server | None = None,
    timeout: float = 300.0,
) -> Deployment:
    """Copy a model folder into the repository, load it, and return when it is ready.

        print(deploy("models/forest"))             # forest 1 is ready on fil (stand-in), …
        deploy("models/forest/2", name="forest", version=2)

    The copy appears in one step. If the server refuses the model, the repository is as it was
    before, and the server still serves the versions that it served before.

    Args:
        folder: the model's folder, with config.pbtxt and version folders. A folder that lies in
            the repository already is loaded where it is.
        name: the model's name; by default the folder's.
        version: take the folder's files as this version of a model that is deployed already. The
            model's other versions and its config stay.
        server: by default the one that `connect()` finds.
        timeout: seconds until giving up.

    Raises:
        RepositoryError: the repository cannot take this folder, or this name.
        LoadError: the server refused the model.
        StillLoading: (a ServerError) it is not ready after `timeout` seconds. The copy stays, and
            the server goes on loading it.
        ServerError: there is no server, it serves another repository, or it loads nothing after
            its start (control mode none).
    """
    began = time.monotonic()
    server = server or connect()
    folder = Path(folder).expanduser()
    home = _home(server)
    target_name = model_folder.check_name(name or folder.resolve().name)
    target = home / target_name
    log_start = server.log_size()
    if version is None and folder.resolve() == target.resolve():
        model_folder.check_folder(folder)
        model_folder.precompile(folder)
        _load(server, target_name, timeout, folder, log_start)
        return _deployment(server, target_name, began)
    with model_folder.locked(home, target_name) as staging:
        if version is None:
            size = model_folder.check_folder(folder)
            copy = model_folder.stage(folder, staging, target_name, size)
        else:
            copy = _with_version(folder, version, target, staging)
        former: Path | None = None
        placed = False
        try:
            former = model_folder.put(copy, target)
            placed = True
            _load(server, target_name, timeout, folder, log_start)
        except StillLoading:  # the server goes on reading the new folder
            if former is not None:
                shutil.rmtree(former, ignore_errors=True)
            raise
        except BaseException:  # Ctrl-C included
            if placed:
                model_folder.take_back(target, former, staging)
            else:
                shutil.rmtree(copy, ignore_errors=True)
            raise
        if former is not None:
            shutil.rmtree(former, ignore_errors=True)
    return _deployment(server, target_name, began)


def undeploy(
    name: str,
    *,
    version: int | None = None,
    now: bool = False,
    server: Server | None = None,
    timeout: float = 60.0,
    report: Callable[[str], None] = print,
) -> None:
    """Unload a model and remove its folder (or one version's) from the repository.

        undeploy("forest", version=1)
        undeploy("forest")
        undeploy("forest", now=True)  # its `execute` never returns

    Args:
        name: the model's name.
        version: remove this version only; the other versions are still served.
        now: do not wait for the model's requests: end the processes in which it runs. The requests
            get an error. Only for Python models, and the whole model, on a server of this machine.
        server: by default the one that `connect()` finds.
        timeout: seconds to wait for the model's requests to end.
        report: called with an explanation when requests that do not end delay it.

    Raises:
        RepositoryError: the repository holds no such model or version.
        ServerError: the server does not answer, it serves another repository, or requests of the
            model are still under way. The folder is then where it was.
    """
    if now and version is not None:
        raise RepositoryError(
            "--now ends all versions of a model.", todo="Leave out the version, or --now."
        )
    server = server or connect()
    model_folder.check_name(name)
    home = _home(server)
    target = home / name
    with model_folder.locked(home, name) as staging:
        held = model_folder.versions(target)
        if now and not target.exists() and model_processes.find(server, name):
            # The model was undeployed before. Processes of older copies are left, and no endpoint
            # shows them.
            _report_ended(name, model_processes.end(server, name, timeout), report)
            return
        if target.is_symlink() or not target.is_dir() or (version and version not in held):
            raise RepositoryError(
                f"The repository holds no model {name}" + (f" {version}." if version else "."),
                where=str(home),
                todo="`workbook status` lists what there is.",
            )
        if version is None or held == [version]:
            if now and _is_decoupled(server, name):
                _report_ended(name, model_processes.end_streaming(server, name), report)
            try:
                server.begin_unload(name)
            except ServerError as error:
                if "polling is enabled" not in error.what:
                    raise
                model_folder.remove(target, staging)  # the server will see that it is gone
                _wait_unloaded(server, name, now, timeout, report)
                return
            _wait_unloaded(server, name, now, timeout, report)
            model_folder.remove(target, staging)
            return
        copy = model_folder.stage(target, staging, name, model_folder.check_folder(target))
        shutil.rmtree(copy / str(version))
        log_start = server.log_size()
        former = model_folder.put(copy, target)
        _load(server, name, timeout, target, log_start)
        if former is not None:
            shutil.rmtree(former, ignore_errors=True)


def _wait_unloaded(
    server: Server, name: str, now: bool, timeout: float, report: Callable[[str], None]
) -> None:
    """Wait until a model is unloaded; with `now`, end its processes if they run on."""
    if now:
        _report_ended(name, model_processes.end(server, name, timeout), report)
    try:
        server.wait_unloaded(name, timeout, report=report)
    except ServerError as error:
        if now:
            error.todo = (
                "The model has no process any more, and Triton still waits for requests of it. "
                "They end with the server: `workbook stop`, then `workbook serve --detach`."
            )
        raise


def _report_ended(
    name: str, ended: Sequence[model_processes.ModelProcess], report: Callable[[str], None]
) -> None:
    if ended:
        report(f"Ended the processes of {name}: {', '.join(str(p.pid) for p in ended)}.")


def _home(server: Server) -> Path:
    """The server's repository, when it is known to be a folder that this machine can change."""
    if not server.repository.is_dir():
        raise RepositoryError(
            "The server's repository is not a folder on this machine.",
            where=str(server.repository),
            todo="Set TRITON_REPOSITORY to the folder that the server serves.",
        )
    which_repository.check(
        server,
        todo="Nothing was changed. Set TRITON_REPOSITORY to the folder that this server serves, "
        "or unset TRITON_URL to use this checkout's own server.",
    )
    return server.repository


def _with_version(folder: Path, version: int, target: Path, staging: Path) -> Path:
    """A staged copy of the deployed model, with `folder` as one of its versions."""
    if version < 1:
        raise RepositoryError(f"{version} is not a version.", todo="Versions begin at 1.")
    if not target.is_dir():
        raise RepositoryError(
            f"There is no model {target.name} to add a version to.",
            where=str(target),
            todo="Deploy the whole model folder first.",
        )
    if not folder.is_dir():
        raise RepositoryError("There is no such version folder.", where=str(folder))
    copy = model_folder.stage(target, staging, target.name, model_folder.check_folder(target))
    shutil.rmtree(copy / str(version), ignore_errors=True)
    wrapper = staging / f"{target.name}@wrap"
    shutil.rmtree(wrapper, ignore_errors=True)
    wrapper.mkdir()
    try:
        shutil.copytree(folder, wrapper / str(version), symlinks=True)
        model_folder.check_folder(wrapper)
        shutil.copytree(wrapper / str(version), copy / str(version), copy_function=shutil.copy)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(wrapper, ignore_errors=True)
    model_folder.precompile(copy / str(version))
    return copy


def _load(server: Server, name: str, timeout: float, folder: Path, log_start: int) -> None:
    """Load and wait until ready, whatever the control mode."""
    try:
        server.load(name, timeout=timeout, folder=folder)
    except LoadError as error:
        # The server gives this answer in both modes that load nothing on request: none and poll.
        if "polling is enabled" not in error.message:
            raise
        if server.control == "none":
            raise ServerError(
                "This server loads nothing after its start (control mode none).",
                where=server.url,
                todo="Start it again to serve the model, or use --control explicit.",
            ) from None
        _await_poll(server, name, timeout, folder, log_start)


def _await_poll(server: Server, name: str, timeout: float, folder: Path, log_start: int) -> None:
    """Wait until a server in poll mode has seen a change, and loaded or refused the model.

    The server's log says which of the two. If the log cannot be read (a container's), only the
    model's readiness shows it.
    """
    loaded = f"successfully loaded '{name}'"
    failed = re.compile(
        rf"\"(?:failed to load '{re.escape(name)}' version \d+|"
        rf"Poll failed for model directory '{re.escape(name)}'): (.*)\"$",
        re.MULTILINE,
    )
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if server.log is None:
            if server.ready(name):
                return
        else:
            news = server.log_text(log_start)
            if refusal := failed.search(news):
                raise load_error(name, refusal[1], folder, news)
            if loaded in news and server.ready(name):
                return
        time.sleep(0.05)
    raise ServerError(
        f"{name} was not ready within {timeout:.0f} s.",
        where=server.url,
        todo="Does this server watch its repository (control mode poll)? Look at its log.",
    )


def _deployment(server: Server, name: str, began: float) -> Deployment:
    ready = [int(e["version"]) for e in server.index(ready_only=True) if e["name"] == name]
    config = server.config(name)
    return Deployment(
        name=name,
        versions=tuple(sorted(ready)),
        backend=str(config.get("backend") or config.get("platform")),
        stand_in=is_stand_in(config),
        seconds=time.monotonic() - began,
        warnings=tuple(model_warnings.of(server, name, config)),
    )


def _is_decoupled(server: Server, name: str) -> bool:
    try:
        policy = server.config(name).get("model_transaction_policy", {})
    except ServerError:
        return False  # it is not loaded
    return bool(policy.get("decoupled"))


def is_stand_in(config: dict[str, object]) -> bool:
    """Whether a model's configuration shows a Python-based backend in place of a C++ one.

        is_stand_in(server.config("digits_onnx"))  # True on a laptop, False in the container

    The server fills in `runtime: "model.py"` for a Python-based backend. vLLM's backend is
    Python-based in NVIDIA's container too, so it does not count.
    """
    return config.get("runtime") == "model.py" and config.get("backend") not in ("python", "vllm")
