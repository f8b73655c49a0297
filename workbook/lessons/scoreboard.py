"""Lecture 3's scoreboard: what each step has brought, measured on this machine.

Each notebook of lecture 3 takes one step with the same network, the pictures of `formats`. At its
end it measures two deployments in one run, that before its step and that after it, and the row is
kept:

    scoreboard.add(lab, "batching", before="single", after="batched", what="dynamic batching")
    scoreboard.table()                    # all rows so far
    scoreboard.draw()                     # the gains, one after the other, as a waterfall

Other programs may disturb one run more than another. So throughputs of different notebooks are not
compared: the figure multiplies the gains, each measured within one run.

A step that eight blocking clients with the same eight pictures cannot show is measured by a
function of its notebook's own; the table and the figure say in its words what was sent:

    scoreboard.add(lab, "cache", before="batched", after="kept", what="a response cache",
                   measured=setup.zipf, load="Zipf's law")

Where the client changes and not the deployment, `measured_before` measures the same model with the
client of before.

The rows are kept in `.workbook/lectures/scoreboard.json`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from .. import measure
from ..common import paths
from ..measure import style
from ..server import Triton
from . import formats
from .premises import Premise, steady

#: The steps in the order of the notebooks, and what each is called in the figure.
STEPS = {
    "point_a": "01 point A",
    "instances": "02 instances",
    "batching": "03 batching",
    "compile": "04 compile",
    "precision": "05 precision",
    "accelerators": "06 accelerators",
    "cache": "07 cache",
    "clients": "08 clients",
    "tuning": "11 tuning",
}
#: Requests of one picture each that are under way while a deployment is measured.
LOAD = 8
#: Measures a model: it returns `throughput` (pictures per second), `p50_ms` and `p99_ms`.
Measure = Callable[[Triton, str], Mapping[Any, Any] | pd.Series]
_ROUNDS = 2
#: Two measurements of a throughput may differ by this factor.
_STEADY = 1.3


@dataclasses.dataclass(frozen=True)
class Row:
    """One step.

    Attributes:
        step: a key of `STEPS`.
        what: what was changed, in a few words.
        old, new: the models before and after the step.
        before, after: pictures per second of the deployments before and after the step; the better
            of two measurements each, taken in turns.
        p50_ms, p99_ms: latency after the step, at the client.
        memory_mb: what the model's own processes have after the step, in megabytes that no other
            process shares; the server's process is not in it.
        cpu_ms: processor time of the server and its processes per picture after the step.
        changed: how many of the 200 verdicts are not those of the PyTorch network.
        spread: the larger of two measurements over the smaller, of the deployment where that is
            larger.
        load: what was sent, if it was not the load of eight blocking clients.
    """

    step: str
    what: str
    old: str
    new: str
    before: float
    after: float
    p50_ms: float
    p99_ms: float
    memory_mb: float
    cpu_ms: float
    changed: int
    spread: float
    load: str = ""

    @property
    def gain(self) -> float:
        """By how much the throughput was multiplied."""
        return self.after / self.before

    @property
    def repeated(self) -> Premise:
        """Premise: two measurements of the same deployment agreed."""
        return steady([1.0, self.spread], _STEADY)


def eight_clients(server: Triton, model: str) -> pd.Series:
    """The load by which steps are measured by default: `LOAD` blocking clients, eight pictures."""
    return formats.under_load(server, model, LOAD)


def add(
    server: Triton,
    step: str,
    *,
    after: str,
    before: str = "",
    what: str,
    measured: Measure = eight_clients,
    measured_before: Measure | None = None,
    load: str = "",
) -> Row:
    """Measure two deployments in turns, and keep the row of the step that leads between them.

    Args:
        server: of `laboratory`; both models are loaded.
        step: a key of `STEPS`. Its older row is replaced.
        after: the model as it is after the step.
        before: the model as it was before; by default there was none, as at point A.
        what: what was changed, in a few words.
        measured: measures one model; both are measured by it.
        measured_before: measures the model before the step, if the client is what was changed.
        load: a few words on what `measured` sends, if it is not the default.

    Raises:
        WorkbookError: a model is not loaded, or refused a request.
        KeyError: there is no such step.
        ValueError: `measured` was given without `load`, so nobody would see that the load differs.
    """
    if (measured is not eight_clients) != bool(load):
        raise ValueError("`measured` and `load` belong together: give both or none.")
    if step not in STEPS:
        raise KeyError(f"{step!r} is no step of the scoreboard: {', '.join(STEPS)}")
    sides = dict.fromkeys([(before or after, measured_before or measured), (after, measured)])
    old, new = next(iter(sides)), (after, measured)
    runs: dict[tuple[str, Measure], list[Mapping[Any, Any] | pd.Series]] = {s: [] for s in sides}
    cpu_ms = []
    for _ in range(_ROUNDS):
        for side in sides:
            name, measure_it = side
            formats.loaded(server, name)
            used, answered = processor_seconds(server), _answered(server, name)
            runs[side].append(measure_it(server, name))
            if side == new:
                pictures = _answered(server, name) - answered
                cpu_ms.append(1000 * (processor_seconds(server) - used) / pictures)
    speeds = {side: [float(run["throughput"]) for run in found] for side, found in runs.items()}
    best = max(runs[new], key=lambda run: float(run["throughput"]))
    row = Row(
        step=step,
        what=what,
        old=before or after,
        new=after,
        before=max(speeds[old]),
        after=max(speeds[new]),
        p50_ms=float(best["p50_ms"]),
        p99_ms=float(best["p99_ms"]),
        memory_mb=formats.memory_mb(server, after)[0],
        cpu_ms=min(cpu_ms),
        changed=formats.changed(formats.served_logits(server, after)),
        spread=max(max(found) / min(found) for found in speeds.values()),
        load=load,
    )
    _file().write_text(json.dumps([dataclasses.asdict(r) for r in _with(row)], indent=1), "utf-8")
    return row


def rows() -> dict[str, Row]:
    """The rows that this machine has, by step, in the order of the notebooks."""
    if not _file().exists():
        return {}
    fields = {field.name for field in dataclasses.fields(Row)}
    kept = json.loads(_file().read_text("utf-8"))
    found = {row["step"]: Row(**row) for row in kept if set(row) == fields}
    return {step: found[step] for step in STEPS if step in found}


def forget() -> None:
    """Remove all rows."""
    _file().unlink(missing_ok=True)


def table() -> pd.DataFrame:
    """One row per step that was measured, with units in the column heads."""
    found = [
        {
            "step": STEPS[row.step],
            "what": row.what,
            "load": row.load or f"{LOAD} clients",
            "before, per s": round(row.before),
            "after, per s": round(row.after),
            "gain": f"×{row.gain:.2f}" if row.before != row.after else "",
            "p50, ms": round(row.p50_ms, 1),
            "p99, ms": round(row.p99_ms, 1),
            "memory, MB": round(row.memory_mb),
            "processor, ms per picture": round(row.cpu_ms, 2),
            "verdicts changed": row.changed,
            "repeated": "yes" if row.repeated else "no",
        }
        for row in rows().values()
    ]
    return pd.DataFrame(found).set_index("step") if found else pd.DataFrame()


def draw() -> style.Picture:
    """The gains as a waterfall: each bar begins where that of the model before the step ended.

    A step that this machine has not measured has no bar: its notebook was not run yet. Where the
    model before a step was not measured, its bar begins where the last one ended. A step under a
    load of its own begins at 1: others do not gain by it.
    """
    found = rows()
    figure = style.Picture(8.4, 1.1 + 0.38 * len(STEPS), f"Throughput: {_words(found)}")
    axes = figure.subplots()
    style.panel(axes, "Throughput, as a multiple of point A", below="times", grid="x")
    names, reached = list(STEPS.values()), 1.0
    levels = dict[str, float]()  # model → its throughput, as a multiple of point A
    for place, step in enumerate(STEPS):
        row = found.get(step)
        if row is None:
            axes.text(reached, place, " not measured", va="center", color=style.GREY, fontsize=9)
            continue
        begin = 1.0 if row.load else levels.get(row.old, reached)
        end = begin * row.gain
        if not row.load:
            reached = levels[row.new] = end
        if row.before == row.after:  # point A has nothing before it
            begin = 0.0
        colour = style.COLOURS[2 if row.gain >= 1 else 3]
        axes.barh(place, end - begin, left=begin, height=0.62, color=colour)
        axes.text(
            max(end, begin), place, f" {_gain(row)}", va="center", color=style.GREY, fontsize=9
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(left=0)
    axes.axvline(1.0, color=style.GREY, linewidth=0.8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.2)
    axes.tick_params(axis="y", length=0)
    return figure


def _gain(row: Row) -> str:
    if row.before == row.after:
        return f"{row.after:,.0f} pictures per second"
    words = [f"×{row.gain:.2f}", *filter(None, [row.load])]
    return ", ".join(words if row.repeated else [*words, "not steady"])


def _words(found: dict[str, Row]) -> str:
    parts = [f"{STEPS[step]} {_gain(row)}" for step, row in found.items()]
    return "; ".join(parts) or "nothing was measured yet"


def _with(row: Row) -> list[Row]:
    """All rows with this one; it replaces a steady row of the same step only if it is steady."""
    kept = rows()
    if row.step in kept and kept[row.step].repeated and not row.repeated:
        return list(kept.values())
    return list({**kept, row.step: row}.values())


def _answered(server: Triton, model: str) -> int:
    """Pictures that a model has answered: those computed, and those from the cache.

    A request that the cache answers counts as one picture.
    """
    kept = sum(
        int(version["inference_stats"].get("cache_hit", {}).get("count", 0))
        for version in server.statistics(model)
    )
    return formats.computed(server, model)[1] + kept


def processor_seconds(server: Triton) -> float:
    """Processor time so far of the server and all its processes."""
    return float(measure.processes(server)["cpu_s"].sum())


def _file() -> Path:
    return paths.state("lectures") / "scoreboard.json"
