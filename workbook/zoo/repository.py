"""Put the weights of the demonstration models, which the zoo builds, where Triton finds them.

`model_repository/` keeps configs, labels and Python models; git ignores the weights. The file
`.weights.json` in each model folder records what its weights were made from, so that a second build
has nothing to do.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from ..common import paths
from . import builder, engines, progress
from .builder import BuildError
from .demonstrations import ENGINES, GROUP, LLAMAS, MODELS, SAMPLING, lacking
from .recipe import place
from .registry import RECIPES

__all__ = ["ENGINES", "LLAMAS", "MODELS", "build", "lacking", "left_out"]

_ALL = MODELS | LLAMAS | ENGINES
#: Ensembles and their models. An ensemble can be loaded when all of its models can be loaded.
_STEPS = {
    "language": ("language_tokenizer", "language_onnx", "language_labels"),
    "llama_next": ("llama_tokenizer", "llama_onnx"),
}

_RECORD = ".weights.json"
_HUB = "hub "


def build(
    target: Path | None = None,
    only: Iterable[str] | None = None,
    *,
    force: bool = False,
    hub: Mapping[str, str] | None = None,
    ready: Callable[[str], None] = lambda model: None,
    bar: bool = True,
    background: bool = False,
) -> list[str]:
    """Make the demonstration models complete: build what is missing and put it in place.

        repository.build(only=["digits_onnx", "language"], ready=server.load)

    Each model is put in place in one step, as soon as its own weights are built, so that a running
    server never sees an incomplete model. Meanwhile `zoo.building` tells every process which models
    are still to come.

    Args:
        target: the repository; by default the shared one. Models that it lacks are copied from
            the checkout's `model_repository/`.
        only: names of models, or `llama` for all of LLAMAS; by default all of MODELS, and ENGINES
            where they can run (`engines.cannot_run`).
        force: replace weights that are already there.
        hub: checkpoints of the Hugging Face hub, for models that hold a whole checkpoint, e.g.
            `{"image_classifier": "microsoft/resnet-18", "llama_hf": "facebook/opt-125m"}`. They
            stay until `force`.
        ready: called with each changed model, as soon as it is in place.
        bar: show a progress bar on the terminal.
        background: build with a low priority, because nobody waits for the models.

    Returns:
        The models that were changed.

    Raises:
        BuildError: no such model, something could not be built, or this machine cannot build it.
    """
    target = (target or paths.repository()).resolve()
    hub = hub or {}
    names = [*MODELS, *(() if engines.cannot_run() else ENGINES)]
    if only is not None:
        names = [name for given in only for name in (LLAMAS if given == GROUP else (given,))]
    for name in (*names, *hub):
        if name not in _ALL:
            raise BuildError(
                f"There is no demonstration model called {name!r}.",
                todo=f"Take one of: {', '.join([*_ALL, GROUP])}.",
            )
    engine_names = [name for name in names if name in ENGINES]
    if engine_names and (reason := engines.lacking()):
        raise BuildError(
            f"{engine_names[0]} cannot be built here: {reason}",
            todo="`pip install tensorrt-rtx-cu12` adds TensorRT for RTX, under NVIDIA's licence "
            "terms; on a machine with an NVIDIA GPU `pip install -e '.[gpu]'` adds TensorRT. For "
            "NVIDIA's container, build it inside (docker/gpu/README.md).",
        )
    todo = [
        name for name in names if force or name in hub or not _complete(target / name, _ALL[name])
    ]
    if todo:
        _install(todo, target, hub, ready, bar, background)
    return todo


def left_out(folder: Path) -> bool:
    """Whether a folder is one of the course's models that cannot be loaded here.

    It is incomplete (`lacking`), or it holds TensorRT plans and nothing here runs them. Such a
    model is skipped when all models of a repository are loaded.
    """
    if lacking(folder):
        return True
    ours = folder.name in ENGINES and folder.parent.resolve() == paths.repository().resolve()
    return ours and bool(engines.cannot_run())


def _complete(folder: Path, weights: Mapping[str, str]) -> bool:
    """Whether a model's folder holds what it needs, and nothing has changed since."""
    if not (folder / "config.pbtxt").is_file() or not (folder / "1").is_dir():
        return False
    record = _record(folder)
    return all(
        (folder / file).exists()
        and (record.get(file, "").startswith(_HUB) or record.get(file) == _key(source))
        for file, source in weights.items()
    )


def _record(folder: Path) -> dict[str, str]:
    try:
        content = json.loads((folder / _RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _recipe(source: str) -> str:
    return source.partition("/")[0]


def _key(source: str) -> str:
    if source == SAMPLING:
        return hashlib.sha256(_artefact(source).read_bytes()).hexdigest()[:16]
    return RECIPES[_recipe(source)].key(RECIPES)


def _artefact(source: str) -> Path:
    if source == SAMPLING:
        return paths.package().parent / source
    name, _, inner = source.partition("/")
    return place(RECIPES[name], RECIPES) / inner


def _install(
    names: list[str],
    target: Path,
    hub: Mapping[str, str],
    ready: Callable[[str], None],
    bar: bool,
    background: bool,
) -> None:
    from . import checkpoint

    with progress.published(target, names) as table:

        def put(name: str, weights: Mapping[str, Path], record: Mapping[str, str]) -> None:
            _renew(target / name, weights, record)
            table.done(name)
            ready(name)

        for name in (name for name in names if name in hub):
            theirs = checkpoint(name, hub=hub[name])
            parts = _ALL[name].items()
            weights = {file: _artefact(s) if s == SAMPLING else theirs for file, s in parts}
            put(
                name, weights, {f: _key(s) if s == SAMPLING else _HUB + hub[name] for f, s in parts}
            )

        # Model → artefacts that must be built before it can be loaded; ensembles last.
        own = sorted((name for name in names if name not in hub), key=_STEPS.__contains__)
        waiting = {name: _artefacts(name, own) for name in own}
        wanted = dict.fromkeys(artefact for needed in waiting.values() for artefact in needed)

        def look(running: Collection[str]) -> None:
            """Put every model in place for which all artefacts are there."""
            table.started([name for name in waiting if _is_made_of(waiting[name], running)])
            missing = set(builder.missing(wanted))
            for name in [name for name, needed in waiting.items() if missing.isdisjoint(needed)]:
                del waiting[name]
                weights = {file: _artefact(source) for file, source in _ALL[name].items()}
                put(name, weights, {file: _key(source) for file, source in _ALL[name].items()})

        look(())
        builder.build(wanted, report=look, bar=bar, background=background)


def _artefacts(model: str, among: Collection[str]) -> list[str]:
    """The artefacts that a model needs, and for an ensemble those of its models in `among`."""
    parts = [model, *(step for step in _STEPS.get(model, ()) if step in among)]
    return list(
        dict.fromkeys(_recipe(s) for part in parts for s in _ALL[part].values() if s != SAMPLING)
    )


def _is_made_of(artefacts: Iterable[str], running: Collection[str]) -> bool:
    return any(not builder.made_from(name).isdisjoint(running) for name in artefacts)


def _renew(folder: Path, weights: Mapping[str, Path], record: Mapping[str, str]) -> None:
    """Replace the model's folder, in one step, with a copy of it that has these weights."""
    from ..server.model_folder import locked, precompile, put

    former = folder if folder.is_dir() else paths.root() / "model_repository" / folder.name
    if not (former / "config.pbtxt").is_file():
        raise BuildError(
            f"The demonstration model {folder.name} has no config.pbtxt.",
            where=str(former),
            todo="Restore the folder from the course's files.",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent, folder.name) as staging:
        copy = staging / f"{folder.name}@{secrets.token_hex(4)}"
        try:
            shutil.copytree(former, copy, ignore=shutil.ignore_patterns("__pycache__"))
            (copy / "1").mkdir(exist_ok=True)
            for file, source in weights.items():
                _copy(copy / file, source)
            if record:
                (copy / _RECORD).write_text(json.dumps(record, indent=1))
            precompile(copy)
            replaced = put(copy, folder)
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            raise BuildError(
                f"The weights of {folder.name} could not be put in place: {error}",
                where=str(folder),
                todo="Free some disk space; the model is as it was before.",
            ) from None
        if replaced is not None:
            shutil.rmtree(replaced, ignore_errors=True)


def _copy(target: Path, source: Path) -> None:
    """Copy a file or a folder to a place, over what is there."""
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
