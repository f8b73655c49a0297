"""Compare the server with other services, and batching with none, for small requests in JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbook.common.errors import WorkbookError
from workbook.server import Triton

from . import models, peers, services, wrk
from .machine import CORES
from .settings import Settings
from .tables import TIMES, Goal, Section

CONNECTIONS = (16, 64)
FASTAPI_GOALS = {16: 3.0, 64: 4.0}
PEER_GOALS = (
    (peers.MLSERVER, 7.0),
    (peers.MLSERVER_ALONE, 7.0),
    (peers.BENTOML, 10.0),
    (peers.LITSERVE, 12.0),
)
SERVED = "Triton, dynamic batching"
BOUND = "Triton's health endpoint, no inference"

#: The fastest settings on two cores, in runs beside each other. One instance is faster with batches
#: than two processes that take turns on the cores. A delay of 50 us is enough for requests that are
#: already on their way to join the batch; with 300 us, requests wait for others that do not come.
_BATCHING = "dynamic_batching { max_queue_delay_microseconds: 50 }\n"
#: The HTTP endpoint has one thread per core, as FastAPI has one worker per core. The default of 8
#: is for servers with more cores, and for the loading of models: each load occupies a thread.
_OPTIONS = (f"--http-thread-count={CORES}",)


@dataclasses.dataclass(frozen=True)
class Target:
    """One endpoint under load: where, what to send, how to read the scores in its answer.

    With an empty body, requests use GET, and the answer has no scores.
    """

    name: str
    url: str
    body: str
    read: Callable[[Any], Any]


def batching(settings: Settings) -> Section:
    """Measure the same models with and without dynamic batching, in one server."""
    rows: list[tuple[str, ...]] = []
    goals = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        scratch = Path(folder)
        files = {
            "one layer, ONNX": models.one_layer(scratch),
            "one layer, TorchScript": models.one_layer_torch(scratch),
            "17 MB of weights, ONNX": models.three_layers(scratch),
        }
        for number, file in enumerate(files.values()):
            _place(scratch / "models", f"batched_{number}", file, batched=True)
            _place(scratch / "models", f"single_{number}", file, batched=False)
        with Triton(scratch / "models", cache=0, options=_OPTIONS) as server:
            for number, (shown, file) in enumerate(files.items()):
                batched = _target(server, f"batched_{number}", f"{shown}, batching", file)
                single = _target(server, f"single_{number}", f"{shown}, none", file)
                _check([batched, single], file.with_suffix(".onnx"))
                found = _rounds([batched, single], settings)
                rows += _table(found, batched.name)
                if number > 0:
                    ratio = _ratio(found, batched.name, single.name, CONNECTIONS[-1])
                    goals.append(Goal(f"{shown}, {CONNECTIONS[-1]} connections", ratio, 2.0))
    return Section(
        "batching",
        "Dynamic batching over HTTP",
        "One row a request as JSON, wrk on the same cores; "
        f"1 instance with batching, {CORES} without, which is the better of each. Batching wins "
        "what an execution costs however many rows it has: the way to the PyTorch stand-in's "
        "process and back, or reading the weights. One layer that the server runs itself (ONNX) "
        f"costs less than the request does, and batching wins nothing. {_how(settings)}",
        _COLUMNS,
        rows,
        goals,
    )


def fastapi(settings: Settings) -> Section:
    """Compare the server with FastAPI and ONNX Runtime, each with the endpoints it can have."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        _triton(Path(scratch)) as served,
        _peer(peers.FASTAPI, Path(scratch), settings) as targets,
    ):
        health = served.url.partition("/v2/")[0] + "/v2/health/live"
        bound = Target(BOUND, health, "", lambda answer: None)
        found = _rounds([served, bound, *targets], settings)
    goals, bounds = [], []
    for connections, wanted in FASTAPI_GOALS.items():
        best = max(statistics.median(found[t.name][connections]) for t in targets)
        mine = statistics.median(found[SERVED][connections])
        goals.append(
            Goal(f"against the best FastAPI, {connections} connections", mine / best, wanted)
        )
        most = statistics.median(found[BOUND][connections]) / best
        bounds.append(f"{TIMES}{most:.2f} at {connections}")
    return Section(
        "fastapi",
        "Triton against FastAPI over HTTP",
        "A model of one layer, one row a request as JSON, wrk on the same cores. Triton: "
        f"{_OPTIONS[0]}, one instance. FastAPI: uvicorn with {CORES} worker processes, uvloop and "
        f"httptools ({', '.join(peers.FASTAPI.pins)}). "
        "The health endpoint reads no body and infers nothing: what Triton's HTTP front end and "
        "wrk can do on these cores, and so a bound for every model. Of the best FastAPI it is "
        f"{' and '.join(bounds)} connections. {_how(settings)}",
        _COLUMNS,
        _table(found, SERVED),
        goals,
    )


def compare_peers(settings: Settings) -> Section:
    """Compare the server with MLServer, BentoML and LitServe in turn; their own batching is on."""
    rows: list[tuple[str, ...]] = []
    goals = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, _triton(Path(scratch)) as served:
        for peer, wanted in PEER_GOALS:
            with _peer(peer, Path(scratch), settings) as targets:
                found = _rounds([served, *targets], settings)
            # Each peer is compared with the server's rounds between its own rounds, and at every
            # load: the lower ratio is as true as the higher one.
            for connections in CONNECTIONS:
                ratio = _ratio(found, SERVED, targets[0].name, connections)
                goals.append(Goal(f"against {peer.name}, {connections} connections", ratio, wanted))
            (_, *ours), theirs = _table(found, SERVED)
            rows += [(f"{SERVED} (beside {peer.name})", *ours), theirs]
    pins = ", ".join(p.pins[0] for p in (peers.MLSERVER, peers.BENTOML, peers.LITSERVE))
    return Section(
        "peers",
        "Triton against other inference servers over HTTP",
        "A model of one layer, one row a request as JSON, wrk on the same cores; each peer with "
        f"batching on and {CORES} worker processes (LitServe: {CORES} for HTTP) or as named, in "
        f"an environment of its own ({pins}). "
        f"{_how(settings)}",
        _COLUMNS,
        rows,
        goals,
    )


_COLUMNS = ("requests/s (median)", *(f"{c} connections" for c in CONNECTIONS))


def _how(settings: Settings) -> str:
    return f"{settings.rounds} alternating rounds of {settings.seconds:g} s."


@contextlib.contextmanager
def _triton(scratch: Path) -> Iterator[Target]:
    """Start a server with the model of one layer, batched."""
    onnx = models.one_layer(scratch)
    _place(scratch / "models", "one_layer", onnx, batched=True)
    with Triton(scratch / "models", cache=0, options=_OPTIONS) as server:
        target = _target(server, "one_layer", SERVED, onnx)
        _check([target], onnx)
        yield target


def _place(repository: Path, name: str, file: Path, *, batched: bool) -> None:
    models.place(
        repository,
        name,
        file,
        (models.FEATURES,),
        batch=max(CONNECTIONS),
        classes=models.CLASSES,
        # Without batching one request is one execution, so one instance per core is better.
        instances=1 if batched else CORES,
        more=_BATCHING if batched else "",
    )


def _target(server: Triton, name: str, shown: str, file: Path) -> Target:
    """Load a model, and return how requests are sent to it."""
    server.load(name)
    x = models.rows((models.FEATURES,), 1)
    entry = {
        "name": models.input_name(file),
        "shape": list(x.shape),
        "datatype": "FP32",
        "data": x.tolist(),
    }
    url = f"{server.url.replace('localhost', '127.0.0.1')}/v2/models/{name}/infer"
    return Target(shown, url, json.dumps({"inputs": [entry]}), peers.read_kserve)


@contextlib.contextmanager
def _peer(peer: peers.Peer, scratch: Path, settings: Settings) -> Iterator[list[Target]]:
    """Start a peer in an environment of its own, and wait until it answers."""
    wrk.check()
    settings.say(f"building an environment for {peer.name}")
    onnx = scratch / "one_layer.onnx"
    home = scratch / peer.name.replace(", ", "-").replace(" ", "-")
    home.mkdir()
    programs = services.apps(home)
    port = services.free_port()
    closure = programs / f"{peer.program}.txt"
    with services.environment(home.name, peer.pins, closure) as python:
        argv = peer.start(python, programs, onnx, port, CORES)
        env = {"MODEL": str(onnx), "WORKERS": str(CORES), "PORT": str(port), **peer.env}
        with services.running(home.name, argv, port=port, env=env, cwd=programs):
            x = models.rows((models.FEATURES,), 1)
            targets = [
                Target(
                    f"{peer.name}{f', {path[1:]} endpoint' if len(peer.paths) > 1 else ''}",
                    f"http://127.0.0.1:{port}{path}",
                    json.dumps(peer.body(x)),
                    peer.read,
                )
                for path in peer.paths
            ]
            _check(targets, onnx)
            yield targets


def _check(targets: Sequence[Target], onnx: Path) -> None:
    """Check that each endpoint gives the scores that the file gives in this process."""
    x = models.rows((models.FEATURES,), 1)
    (expected,) = models.session(onnx, 1).run(None, {"x": x})
    for target in targets:
        answer = services.wait_for_answer(target.url, target.body).json()
        scores = np.asarray(target.read(answer), dtype=np.float32).reshape(expected.shape)
        if not np.allclose(scores, expected, rtol=1e-5, atol=1e-6):
            raise WorkbookError(f"{target.name} gives other scores than the model itself.")


def _rounds(targets: Sequence[Target], settings: Settings) -> dict[str, dict[int, list[float]]]:
    """Measure requests per second by target and connections, one figure per round."""
    for target in targets:  # warm up every worker
        wrk.requests_per_second(target.url, target.body, connections=CONNECTIONS[-1], seconds=2)
    found: dict[str, dict[int, list[float]]] = {
        t.name: {c: [] for c in CONNECTIONS} for t in targets
    }
    for number in range(settings.rounds):
        for connections in CONNECTIONS:
            for target in targets:
                settings.say(f"round {number + 1}, {connections} connections: {target.name}")
                rate = wrk.requests_per_second(
                    target.url, target.body, connections=connections, seconds=settings.seconds
                )
                found[target.name][connections].append(rate)
    return found


def _ratio(
    found: dict[str, dict[int, list[float]]], mine: str, theirs: str, connections: int
) -> float:
    ours = statistics.median(found[mine][connections])
    return ours / statistics.median(found[theirs][connections])


def _table(found: dict[str, dict[int, list[float]]], reference: str) -> list[tuple[str, ...]]:
    """Make one row per target: its rate, and the reference's rate divided by it."""
    rows = []
    for name, rates in found.items():
        cells = []
        for connections in CONNECTIONS:
            cell = f"{statistics.median(rates[connections]):,.0f}"
            if name != reference:
                cell += f" ({TIMES}{_ratio(found, reference, name, connections):.2f})"
            cells.append(cell)
        rows.append((name, *cells))
    return rows
