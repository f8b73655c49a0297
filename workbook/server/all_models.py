"""All models of a repository: which are loaded first, how to load several, the status of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from .. import zoo
from ..common.errors import RepositoryError, ServerError, WorkbookError
from . import model_folder, model_warnings, server_log
from .connection import Server
from .deploy import is_stand_in
from .find_server import connect
from .loading import AT_ONCE, is_ensemble, load, missing
from .model_warnings import ModelWarning
from .which_repository import MARKER

#: The models that are loaded before all others: `square`, which the first notebook needs, and
#: models whose framework takes seconds to import, so that others are loaded at the same time.
LOADED_FIRST = (
    "square",
    *("llama_vllm", "llama_hf", "llama_stream", "chat_bls"),
    *("text_classifier", "image_classifier", "digits_tf", "jpeg_dali"),
)


@dataclasses.dataclass(frozen=True)
class ModelStatus:
    """One model of the repository.

    Attributes:
        name: its name.
        state: `READY`, `LOADING`, `UNLOADING`, `UNAVAILABLE`; `building` or `waiting` where its
            weights are still being built (`zoo.building`); else `not loaded`.
        versions: state by version number, for the versions that the server has touched.
        backend: as the server's configuration names it; empty where it is not loaded.
        stand_in: whether one of this course's stand-ins serves it; None where it is not loaded.
        reason: the server's message why it is unavailable, or why it does not use a changed config
            (control mode poll); else empty.
        warnings: what is wrong with it, though it is served (model_warnings.py).
    """

    name: str
    state: str
    versions: dict[int, str]
    backend: str
    stand_in: bool | None
    reason: str
    warnings: tuple[ModelWarning, ...] = ()


def names(folder: Path) -> list[str]:
    """The models that a repository holds, ensembles last, since they need the others.

    Some of the course's own models are left out: those that are built on request and are not built,
    and those that need a package or a GPU which is not there (`zoo.repository.left_out`).

    Raises:
        RepositoryError: the repository is not a folder.
    """
    if not folder.is_dir():
        raise RepositoryError("The model repository is not a folder.", where=str(folder))
    models = [p for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    models = [p for p in models if model_folder.versions(p) and not zoo.repository.left_out(p)]
    return [p.name for p in sorted(models, key=is_ensemble)]


def ensure(*models: str) -> Server:
    """Load the models that are not ready yet; return the server that `connect()` finds.

        server = ensure("square", "digits_onnx")
        server = ensure()

    A model that is ready is not loaded again.

    Args:
        models: names of models; without any, every model of the repository that is built.

    Raises:
        ServerError: there is no server, or several models did not load; each is explained.
        LoadError: one model did not load.
    """
    server = connect()
    wanted = models or names(server.repository)
    errors = load_all(server, missing(server, wanted))
    if not errors:
        return server
    server.close()
    if len(errors) == 1:
        raise next(iter(errors.values()))
    raise ServerError(
        f"{len(errors)} of {len(wanted)} models did not load.\n\n"
        + "\n\n".join(str(error) for error in errors.values()),
        where=server.url,
        todo="Correct them one after the other: each has its own instructions above.",
    )


def select(server: Server, models: str) -> list[str] | None:
    """The models to load for the option `--models`: "all", or names with commas between them.

    The answer is None for "none". It is None, too, if the control mode is not "explicit": in the
    other modes the server itself loads all models.
    """
    if server.control != "explicit" or models == "none":
        return None
    return names(server.repository) if models == "all" else models.split(",")


def load_all(
    server: Server,
    models: Iterable[str],
    *,
    report: Callable[[str, WorkbookError | None], None] = lambda name, error: None,
) -> dict[str, WorkbookError]:
    """Load models, a few at a time. If one model fails, the others are still loaded.

    Args:
        report: called when a model is done, with its name, and with its error if it failed.

    Returns:
        The errors by model name.
    """
    errors: dict[str, WorkbookError] = {}
    wanted = sorted(models, key=_turn)
    ensembles = [name for name in wanted if is_ensemble(server.repository / name)]
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        for group in ([name for name in wanted if name not in ensembles], ensembles):
            jobs = {pool.submit(load, server, name): name for name in group}
            for job in as_completed(jobs):
                name, error = jobs[job], job.result()
                if error is not None:
                    errors[name] = error
                report(name, error)
    finally:
        # After Ctrl-C: begin no other load, and do not wait for the loads under way.
        pool.shutdown(wait=False, cancel_futures=True)
    return errors


def status(server: Server) -> list[ModelStatus]:
    """The status of each model of the repository, sorted by name."""
    return list(_status(server))


def _status(server: Server) -> Iterator[ModelStatus]:
    coming = zoo.building(server.repository)
    log = server.log_text()
    refused = server_log.refused_configs(log) if server.control == "poll" else {}
    logged = model_warnings.of_log(log)
    core = str(server.metadata().get("version", ""))
    entries: dict[str, list[dict[str, str]]] = {name: [] for name in coming}
    for entry in server.index():
        if not entry["name"].startswith((".", MARKER)):
            entries.setdefault(entry["name"], []).append(entry)
    for name, listed in sorted(entries.items()):
        versions = [v for v in listed if not _is_gone(server, name, v)]
        states = {
            int(v["version"]): v.get("state", "")
            for v in versions
            if v.get("version", "").isdecimal()
        }
        reasons = [v["reason"] for v in versions if v.get("reason") not in (None, "", "unloaded")]
        if name in refused and (server.repository / name).is_dir():
            reasons.append(f"The changed config is not used: {refused[name]}")
        backend, stand_in, warnings = "", None, list[ModelWarning]()
        if "READY" in states.values():
            config = server.config(name)
            backend = str(config.get("backend") or config.get("platform") or "")
            stand_in = is_stand_in(config)
            warnings = model_warnings.of_config(config, core)
            warnings += [warning for warning in logged if warning.model == name]
            state = "READY"
        else:
            state = next((v["state"] for v in versions if v.get("state")), "not loaded")
            if state == "UNAVAILABLE" and not reasons:
                state = "not loaded"
            if state == "not loaded":
                state = coming.get(name, state)
        why = "; ".join(reasons)
        yield ModelStatus(name, state, states, backend, stand_in, why, tuple(warnings))


def _is_gone(server: Server, name: str, entry: Mapping[str, str]) -> bool:
    """Whether a version in the index has failed, and its folder has been removed.

    The index keeps such a version as long as the model has others. If this checkout did not start
    the server, this cannot be found out: the answer is False.
    """
    folder = server.repository / name
    has_failed = entry.get("state") == "UNAVAILABLE" and entry.get("version", "").isdecimal()
    ours = server.log is not None and folder.is_dir()
    return has_failed and ours and not (folder / entry["version"]).is_dir()


def _turn(name: str) -> int:
    return LOADED_FIRST.index(name) if name in LOADED_FIRST else len(LOADED_FIRST)
