"""For the notebook of a7__speed: serve the deployment as found, and look where the time goes."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator

import numpy as np

from grader.vocabulary.probe import Probe
from workbook.server import connect

from . import before, facts, load

#: How often `measure` loads a model.
_LOADS = 3
#: How many pictures `compare` sends in a request.
_SIZES = (1, 2, facts.BATCH)
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


def measure(model: str, seconds: float = 0.6, clients: int = facts.CLIENTS) -> float:
    """Load a model three times as the clients do; print what comes out and where the time goes.

    Each client sends a picture, waits, and sends the next one. The three loads differ by some
    percent, and by much more where other programs run. The checks leave the deployment as found
    unloaded; here it is loaded again.

    Example::

        measure("service")              # pictures per second

    Args:
        model: its name; of an ensemble, the table has its steps.
        seconds: how long each load is.
        clients: how many.

    Returns:
        Pictures per second: the median of the three.

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
            loads = [sending.one_after_the_other(pictures, seconds) for _ in range(_LOADS)]
        ends = [max((one.end for one in some), default=seconds) for some in loads]
        rates = [load.rate(some, end) for some, end in zip(loads, ends, strict=True)]
        answers = [one for some in loads for one in some]
        rate = statistics.median(rates)
        worst = 1000 * load.percentile(answers, 0.99)
        print(
            f"{model}: {rate:.0f} pictures per second ({min(rates):.0f} to {max(rates):.0f} in "
            f"{_LOADS} loads), 99 of 100 within {worst:.0f} ms"
        )
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

    The pictures are sent one per request, then in requests with 2 and with 8: a model may answer
    one picture rightly, and several wrongly.

    Example::

        compare("anna", "service")
        # service: largest difference 3e-07 with 1 picture per request, 3e-07 with 2, 0.03 with 8;
        # at most 0.005 is allowed

    Raises:
        Failure: the model refuses a request, or there is none of this name.
    """
    pictures, _ = facts.draw(np.random.default_rng(), count)
    expected = facts.own_network(me).scores(pictures)
    found = []
    with _probe() as probe:
        for size in _SIZES:
            off = []
            for first in range(0, count, size):
                some, right = pictures[first : first + size], expected[first : first + size]
                inputs = {facts.INPUT: some}
                answer = probe.infer(model, inputs, outputs=[facts.OUTPUT], timeout=5.0)
                got = answer[facts.OUTPUT]
                if got.shape != right.shape:
                    print(f"{model} answers {facts.OUTPUT} of shape {got.shape}, not {right.shape}")
                    return
                off.append(np.abs(got - right).max())
            unit = " picture per request" if size == 1 else ""
            found.append(f"{np.max(off):.2g} with {size}{unit}")
    print(f"{model}: largest difference {', '.join(found)}; at most {facts.BOUND:g} is allowed")


__all__ = ["compare", "measure", "serve_found"]
