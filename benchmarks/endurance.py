"""Measure what grows and what fails in half an hour of load, 1,000 loads and 200 redeploys."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from workbook import zoo
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.server import Triton, all_models, deploy

from . import held
from .growth import BLOCKS, Growth, growth
from .mixed_load import CLIENTS, Ask, Clients, MixedLoad, asks
from .settings import Settings
from .tables import Goal, Section

#: A small model of each backend, loaded and redeployed in turn.
SMALL = (
    "square",
    "digits_onnx",
    "digits_torch",
    "digits_openvino",
    "digits_tf",
    "forest_xgboost",
    "jpeg_dali",
    "language",
)
#: For each part: the least number of samples (if it is long enough), and the most seconds between
#: two samples.
_SAMPLES, _SECONDS = 200, 10.0
#: How many MiB memory may grow per unit (see `_UNITS`), beyond the noise.
_MOST_MIB = 0.1
_TITLES = {"load": "load", "loads": "loads", "deploys": "redeploys"}
#: The unit of a part's growth: its length in what `Sample.at` counts, and its name.
_UNITS = {"load": (1, "a minute"), "loads": (10, "in 10 loads"), "deploys": (10, "in 10 redeploys")}


class Sample(NamedTuple):
    """What the server and its processes held at one moment.

    Attributes:
        at: when it was taken: in minutes of load, or loads, or redeploys.
        done: the number of answers, loads or redeploys so far.
    """

    at: float
    done: int
    held: held.Resources


@dataclasses.dataclass
class Part:
    """A part of the measurement.

    Attributes:
        key: `load`, `loads` or `deploys`.
        samples: from the part's begin to its end.
        load: what was sent meanwhile; None for `loads`, during which nothing is sent.
    """

    key: str
    samples: list[Sample]
    load: MixedLoad | None = None


def measure(settings: Settings) -> Section:
    """Measure the three parts, one after the other, with one server.

    Raises:
        WorkbookError: a loaded model does not give its first answer.
    """
    with tempfile.TemporaryDirectory(prefix="bench-endurance-") as scratch:
        repository, temporary = Path(scratch) / "models", Path(scratch) / "tmp"
        sources = Path(scratch) / "sources"
        settings.say("endurance: building the models")
        for folder in (repository, temporary):
            folder.mkdir()
        zoo.repository.build(only=zoo.repository.MODELS, bar=False)
        for name in zoo.repository.MODELS:
            shutil.copytree(paths.repository() / name, repository / name)
        for name in SMALL:
            shutil.copytree(repository / name, sources / name)
        with Triton(repository, environment={"TMPDIR": str(temporary)}) as server:
            watched = held.Watched(server, (Path(scratch),))
            errors = all_models.load_all(server, zoo.repository.MODELS)
            if errors:
                raise next(iter(errors.values()))
            requests = asks(server)
            caches = set(temporary.iterdir())  # one per package, for any number of processes
            parts = [
                _load(settings, server, watched, requests),
                _loads(settings, server, watched, requests),
                _deploys(settings, server, watched, requests, sources),
            ]
            processes = [psutil.Process(server.pid), *watched.processes()]
        left = [str(process) for process in processes if process.is_running()]
        left += [*watched.regions(), *map(str, set(temporary.iterdir()) - caches)]
        left += [str(watched.run)] if watched.run.exists() else []
    return _section(settings, parts, left)


def _load(settings: Settings, server: Triton, watched: held.Watched, requests: list[Ask]) -> Part:
    part = Part("load", [Sample(0.0, 0, watched.now())])
    step = min(_SECONDS, settings.minutes * 60 / _SAMPLES)
    with MixedLoad(server, requests) as load:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < settings.minutes * 60:
            settings.say(f"endurance: minute {passed / 60:.1f}, {load.answered} answers")
            time.sleep(step)
            now = watched.now()
            minute = (time.monotonic() - began) / 60
            part.samples.append(Sample(minute, load.answered, now))
    part.load = load
    return part


def _loads(settings: Settings, server: Triton, watched: held.Watched, requests: list[Ask]) -> Part:
    part = Part("loads", [Sample(0, 0, watched.now())])
    with Clients(server) as clients:
        for number in range(settings.loads):
            name = SMALL[number % len(SMALL)]
            settings.say(f"endurance: load {number + 1} of {settings.loads}: {name}")
            server.unload(name, report=settings.say)
            server.load(name)
            for ask in requests:
                if ask.model == name and not clients.compare(ask, "grpc"):
                    raise WorkbookError(f"{name} was loaded, but its answer is another one.")
            part.samples += _sample_if_due(watched, number + 1, settings.loads)
    return part


def _deploys(
    settings: Settings,
    server: Triton,
    watched: held.Watched,
    requests: list[Ask],
    sources: Path,
) -> Part:
    part = Part("deploys", [Sample(0, 0, watched.now())])
    with MixedLoad(server, requests) as load:
        for number in range(settings.deploys):
            name = SMALL[number % len(SMALL)]
            settings.say(f"endurance: redeploy {number + 1} of {settings.deploys}: {name}")
            before = server.log_size()
            deploy(sources / name, server=server)
            if f"successfully loaded '{name}'" not in server.log_text(before):
                raise WorkbookError(f"{name} was deployed, but not loaded again.")
            part.samples += _sample_if_due(watched, number + 1, settings.deploys)
    part.load = load
    return part


def _sample_if_due(watched: held.Watched, done: int, of: int) -> Iterator[Sample]:
    """Yield a sample if one is due."""
    if done % max(1, of // _SAMPLES) == 0 or done == of:
        yield Sample(done, done, watched.now())


# -- the section of the report --------------------------------------------------------------------


def _section(settings: Settings, parts: Sequence[Part], left: Sequence[str]) -> Section:
    failed = [(part, part.load.failed) for part in parts if part.load is not None]
    wrong = [(part, part.load.wrong) for part in parts if part.load is not None]
    examples = sorted({*left, *(error for _, errors in failed for error in errors)})[:4]
    failures = f" Of what failed or was left: {'; '.join(examples)}." if examples else ""
    return Section(
        "endurance",
        "Endurance",
        f"{settings.minutes:g} minutes of mixed load ({CLIENTS} clients, all "
        f"{len(zoo.repository.MODELS)} models of the repository, HTTP, gRPC and JSON, an ensemble, "
        "a model that calls others, sequences, streams; each answer compared with the first one), "
        f"then {settings.loads} loads and unloads of {len(SMALL)} models in turn, one for each "
        f"backend, then {settings.deploys} redeploys of them under the same load; one server. "
        "Processes: those that the server has started. Anonymous memory: pages that stand in no "
        "file, heaps and stacks; a copy of a fork server has also those that it has not written to "
        "yet. Mapped: its part of the pages of files and of shared memory. Files: in the server's "
        "run folder, in its folder for temporary files, and in the repository with what deploys "
        "leave beside it. Growth: a line "
        f"through the means of {BLOCKS} blocks of the part's last third, with the range in which "
        "its slope lies with a probability of 95%; only what exceeds that range is growth beyond "
        f"noise.{failures}",
        ("", "done", *(title for title, _ in held.COLUMNS.values())),
        [row for part in parts for row in _rows(part)],
        [
            *(_none(f"{_TITLES[part.key]}: requests failed", len(found)) for part, found in failed),
            *(_none(f"{_TITLES[part.key]}: answers wrong", len(found)) for part, found in wrong),
            *(goal for part in parts for goal in _growth_goals(part)),
            _none("processes, regions and files left after the server's end", len(left)),
        ],
        timed=False,
    )


def _none(what: str, count: int) -> Goal:
    return Goal(what, count, 0, "", at_most=True)


def _rows(part: Part) -> Iterator[tuple[str, ...]]:
    """Yield rows: the part's begin, each whole minute of load, its end, the growth per column."""
    title, shown = _TITLES[part.key], [part.samples[0]]
    if part.key == "load":
        for sample in part.samples[1:-1]:
            if int(sample.at) > int(shown[-1].at):
                shown.append(sample)
    for number, sample in enumerate([*shown, part.samples[-1]]):
        when = f", minute {sample.at:.0f}" if 0 < number < len(shown) else ", end"
        when = ", begin" if number == 0 else when
        values = dataclasses.asdict(sample.held)
        cells = (
            f"{values[name]:.1f}" if is_memory else f"{values[name]:.0f}"
            for name, (_, is_memory) in held.COLUMNS.items()
        )
        yield f"{title}{when}", f"{sample.done:,}", *cells
    per, unit = _UNITS[part.key]
    slopes = ((_growth(part, name), per) for name in held.COLUMNS)
    cells = ("-" if g is None else f"{g.slope * n:+.2f} ± {g.noise * n:.2f}" for g, n in slopes)
    yield f"{title}: growth {unit}", "", *cells


def _growth(part: Part, column: str) -> Growth | None:
    values = [getattr(sample.held, column) for sample in part.samples]
    return growth([sample.at for sample in part.samples], values)


def _growth_goals(part: Part) -> Iterator[Goal]:
    """Yield the goals: memory grows by at most `_MOST_MIB` and no count grows, beyond the noise."""
    per, unit = _UNITS[part.key]
    found = {name: _growth(part, name) for name in held.COLUMNS}
    title = _TITLES[part.key]
    for name, whose in (("anonymous", "the server's"), ("their_anonymous", "its processes'")):
        if (memory := found[name]) is not None:
            yield Goal(
                f"{title}: growth {unit} of {whose} anonymous memory, beyond noise",
                memory.beyond_noise * per,
                _MOST_MIB,
                "MiB",
                at_most=True,
            )
    counts = [g for name, g in found.items() if not held.COLUMNS[name][1]]
    growing = sum(g is not None and g.beyond_noise > 0 for g in [*counts, found["shm"]])
    yield _none(f"{title}: counts, and regions in /dev/shm, that grow beyond noise", growing)
