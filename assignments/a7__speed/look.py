"""For the notebook of a7__speed: serve the deployment as found, and look where the time goes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from grader.vocabulary.probe import Probe
from workbook.server import connect

from . import before, facts, load

#: What the server counts per request, and how the table calls it.
_PARTS = {"queue": "waits", "compute_infer": "computes"}


@contextlib.contextmanager
def _probe() -> Iterator[Probe]:
    with connect() as server, contextlib.closing(Probe(server)) as probe:
        yield probe


def serve_found(me: str) -> str:
    """Serve the deployment as it was found beside the student's; returns its name.

    Example::

        found = serve_found("anna")     # "before_service"

    Raises:
        Failure: it cannot be written into the repository, or does not load.
    """
    with _probe() as probe:
        before.place(probe, me)
        probe.take_in(before.SERVICE)
    return before.SERVICE


def measure(model: str, seconds: float = 1.0, clients: int = facts.CLIENTS) -> float:
    """Load a model as the clients do, and print what comes out and where the time goes.

    Each client sends a picture, waits, and sends the next one. Two runs in a row differ by some
    percent, and by more where other programs run. The checks leave the deployment as found
    unloaded; here it is loaded again.

    Example::

        measure("service")              # pictures per second

    Args:
        model: its name; of an ensemble, the table has its steps.
        seconds: how long.
        clients: how many.

    Returns:
        Pictures per second.

    Raises:
        Failure: there is no such model.
    """
    with _probe() as probe:
        if model == before.SERVICE and not probe.server.ready(model):
            probe.take_in(model)
        steps = probe.config(model).get("ensemble_scheduling", {}).get("step", ())
        names = [str(step["model_name"]) for step in steps] or [model]
        pictures, _ = facts.draw(np.random.default_rng(), 4_000)
        with load.Clients(probe.server.url, model, clients) as sending:
            sending.one_after_the_other(pictures[::-1], 0.2)
            earlier = {name: _counted(probe, name) for name in names}
            answers = sending.one_after_the_other(pictures, seconds)
        end = max((one.end for one in answers), default=seconds)
        rate = load.rate(answers, end)
        worst = 1000 * load.percentile(answers, 0.99)
        print(f"{model}: {rate:.0f} pictures per second, 99 of 100 within {worst:.0f} ms")
        for message in {one.message for one in answers if one.scores is None}:
            print(f"  no scores: {message}")
        print(f"  {'':<16}{'waits':>9}{'computes':>10}{'batch':>7}   (per request, in ms)")
        took = [one.took for one in answers if one.scores is not None]
        outside = 1000 * sum(took) / max(len(took), 1)
        for name in names:
            waits, computes, batch = _between(earlier[name], _counted(probe, name))
            outside -= waits + computes
            print(f"  {name:<16}{waits:>9.2f}{computes:>10.2f}{batch:>7.1f}")
        print(f"  {'outside of them':<16}{max(outside, 0):>9.2f}")
        return rate


def _counted(probe: Probe, model: str) -> dict[str, float]:
    """What the server has counted: nanoseconds in the queue and in the model, and how often."""
    found: dict[str, float] = {
        "requests": 0,
        "executions": 0,
        "rows": 0,
        **dict.fromkeys(_PARTS, 0),
    }
    for record in probe.server.statistics(model):
        stats = record["inference_stats"]
        found["requests"] += stats["success"]["count"]
        found["executions"] += record["execution_count"]
        found["rows"] += record["inference_count"]
        for part in _PARTS:
            found[part] += stats[part]["ns"]
    return found


def _between(earlier: dict[str, float], later: dict[str, float]) -> tuple[float, float, float]:
    """Milliseconds that a request has waited and was computed for, and the mean batch."""
    change = {name: later[name] - earlier[name] for name in later}
    requests, executions = max(change["requests"], 1), max(change["executions"], 1)
    return (
        change["queue"] / requests / 1e6,
        change["compute_infer"] / requests / 1e6,
        change["rows"] / executions,
    )


def compare(me: str, model: str, count: int = 64) -> None:
    """Print how far a model's scores are from those of the student's network.

    Example::

        compare("anna", "service")      # largest difference 3e-07; at most 0.005 is allowed

    Raises:
        Failure: the model refuses a picture, or there is none of this name.
    """
    pictures, _ = facts.draw(np.random.default_rng(), count)
    with _probe() as probe:
        answers = [
            probe.infer(model, {facts.INPUT: picture[None]}, outputs=[facts.OUTPUT], timeout=5.0)
            for picture in pictures
        ]
    got = np.concatenate([one[facts.OUTPUT].reshape(1, -1) for one in answers])
    expected = facts.own_network(me).scores(pictures)
    if got.shape != expected.shape:
        print(f"{model} answers {got.shape[1]} numbers per picture, not {facts.CLASSES}.")
        return
    off = np.abs(got - expected).max()
    print(f"{model}: largest difference {off:.2g}; at most {facts.BOUND:g} is allowed")


__all__ = ["compare", "measure", "serve_found"]
