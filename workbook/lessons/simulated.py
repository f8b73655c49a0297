"""The simulator in a notebook: sliders redraw the slots, a button runs the plan on the server.

    def setting(every_ms, delay_ms):
        batching = {"max_queue_delay_microseconds": 1000 * delay_ms}
        return batching, measure.every(every_ms, 24)

    bench = simulated.explore(
        lab, "eager", setting, duration_ms=20, every_ms=[5, 30], delay_ms=[0, 100]
    )
    served = bench.serve(every_ms=30, delay_ms=100)     # what the button does
    served                                              # the server's executions over the simulated
    served.agrees

Where nobody can press a button (`WORKBOOK_UNATTENDED`, so on the course's site), all positions of
the sliders are drawn beforehand and a small script of the page shows the chosen one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import pandas as pd
from IPython import display

from .. import measure
from ..common.errors import WorkbookError
from ..common.unattended import unattended
from ..server import Server
from . import runs, simulator, slots
from .premises import Premise, attempt

#: A function of the sliders' values; it returns the config's dynamic_batching (JSON) and the plan.
Setting = Callable[..., tuple[Mapping[str, Any], list[measure.Request]]]

_STATES = 128  # more positions would make a page too large
_LATE_MS = 8.0  # how late a request, and how much longer an execution, may be
#: Shows the drawing of the sliders' position, on a page without a kernel.
_SCRIPT = """(function () {
  var box = document.currentScript.parentElement;
  var all = Array.from(box.querySelectorAll('input'));
  function show() {
    var values = all.map(function (i) { return JSON.parse(i.dataset.values)[+i.value]; });
    all.forEach(function (i, n) { i.nextElementSibling.textContent = values[n]; });
    box.querySelectorAll('[data-state]').forEach(function (d) {
      d.hidden = d.dataset.state !== values.join(',');
    });
  }
  all.forEach(function (i) { i.addEventListener('input', show); });
})();"""


@dataclass(frozen=True)
class Served:
    """A plan that a real server has served, beside its simulation.

    Attributes:
        run: what the server did.
        simulation: what the simulator says. After an execution the batcher and the instance race
            (see `workbook.lessons.simulator`); this is the outcome that is nearest to the run.
        batcher_first: the executions after which the batcher won the race, in this outcome.
        planned: when each request was to be sent, by its id.
        duration_ms: how long an execution was to take.
        most: max_batch_size.
    """

    run: runs.Run
    simulation: simulator.Simulation
    batcher_first: tuple[int, ...]
    planned: Mapping[str, float]
    duration_ms: float
    most: int

    @property
    def expected(self) -> list[int]:
        """The simulated number of requests of each execution."""
        return [int(size) for size in self.simulation.executions["size"]]

    @property
    def lost(self) -> int:
        """How many requests the simulation refuses."""
        return int((self.simulation.requests["error"] != "").sum())

    @property
    def agrees(self) -> bool:
        """Whether the server formed the same batches, and refused as many requests."""
        return self.run.sizes == self.expected and len(self.run.refused) == self.lost

    @property
    def premise(self) -> Premise:
        """Premise: requests came when they were planned, and executions took as long as planned."""
        sent = self.run.answers.set_index("id")["sent_ms"]
        late = max(abs(sent[name] - at) for name, at in self.planned.items())
        places = self.run.places
        longest = float((places["end_ms"] - places["start_ms"]).max())
        return Premise(
            late < _LATE_MS, f"a request was sent {late:.0f} ms before or after its planned time"
        ) & Premise(
            longest < self.duration_ms + _LATE_MS,
            f"an execution took {longest:.0f} ms, and {self.duration_ms:g} ms were planned",
        )

    def picture(self) -> slots.Drawing:
        """The server's executions as frames over the simulated ones."""
        return slots.draw(
            measure.executions(self.simulation.spans),
            answers=self.simulation.requests,
            over=self.run.places,
            most=self.most,
        )

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return self.picture()._repr_mimebundle_(**options)


@dataclass
class Bench:
    """Sliders for a simulation, and a server that can run the same plan."""

    server: Server
    model: str
    setting: Setting
    duration_ms: float
    sliders: Mapping[str, Sequence[Any]]

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's config as it was when the bench was made."""
        return self.server.config(self.model)

    def simulate(
        self, values: Mapping[str, Any], batcher_first: tuple[int, ...] = ()
    ) -> simulator.Simulation:
        """What the simulator says for a position of the sliders."""
        batching, plan = self.setting(**values)
        model = simulator.from_config({**self.config, "dynamic_batching": batching})
        return simulator.simulate(
            model, plan, duration_ms=self.duration_ms, batcher_first=batcher_first
        )

    def draw(self, values: Mapping[str, Any]) -> slots.Drawing:
        """The simulated slots for a position of the sliders."""
        result = self.simulate(values)
        return slots.draw(
            measure.executions(result.spans), answers=result.requests, most=self._most
        )

    def serve(self, **values: Any) -> Served:
        """Load the model with these settings, send the plan, and compare it with the simulation.

        If requests or executions are late, it is done again, three times in all at most.

        Args:
            values: the sliders' values; by default the first value of each.

        Raises:
            LoadError: the server refuses the settings.
        """
        return attempt(lambda: self._serve(values), lambda served: served.premise)

    def _serve(self, values: dict[str, Any]) -> Served:
        """One try of `serve`."""
        values = {name: options[0] for name, options in self.sliders.items()} | values
        batching, plan = self.setting(**values)
        self.server.load(self.model, config={**self.config, "dynamic_batching": dict(batching)})
        measure.send(self.server, self.model, measure.every(0, 1, name="first"))
        run = runs.record(self.server, self.model, plan)
        possible = [(first, self.simulate(values, first)) for first in self._races(batching)]
        first, nearest = min(possible, key=lambda pair: _distance(pair[1], run))
        planned = {request.id: request.at_ms for request in plan}
        return Served(run, nearest, first, planned, self.duration_ms, self._most)

    @property
    def _most(self) -> int:
        return int(self.config.get("max_batch_size", 0))

    def _races(self, batching: Mapping[str, Any]) -> Iterator[tuple[int, ...]]:
        """The possible outcomes: after which executions the batcher won the race.

        Without a policy the race makes no difference. Only the first five executions are tried:
        more would have too many outcomes.
        """
        raced = any(name in batching for name in ("priority_levels", "default_queue_policy"))
        for count in range(6 if raced else 1):
            yield from itertools.combinations(range(1, 6), count)


def explore(
    server: Server, model: str, setting: Setting, *, duration_ms: float, **sliders: Sequence[Any]
) -> Bench:
    """Show sliders, the simulated slots, and a button that sends the same plan to the server.

    Args:
        server: a server that `laboratory` started; the model is loaded with other settings there.
        model: a model whose executions take `duration_ms`.
        setting: a function of the sliders' values; it returns the model's dynamic_batching, as JSON
            with the names of config.pbtxt, and the plan of requests.
        duration_ms: how long an execution takes.
        sliders: for each argument of `setting` the values that can be chosen. The first is shown
            at first, so it is one that Triton takes; on the slider they stand in the order of
            their size.

    Returns:
        The bench; its `serve` does what the button does.

    Raises:
        WorkbookError: the sliders have too many positions.
    """
    bench = Bench(server, model, setting, duration_ms, dict(sliders))
    states = list(itertools.product(*sliders.values()))
    if not 0 < len(states) <= _STATES:
        raise WorkbookError(
            f"The sliders have {len(states)} positions.",
            where="simulated.explore",
            todo=f"Give each slider some values; together at most {_STATES} positions.",
        )
    if unattended():
        drawn = {state: bench.draw(dict(zip(sliders, state, strict=True))).svg for state in states}
        _display(_page(sliders, drawn), "A simulation with sliders.")
    else:
        _show_widgets(bench)
    return bench


def _label(name: str) -> str:
    """`delay_ms` is "delay (ms)"."""
    words, _, unit = name.rpartition("_")
    text = f"{words} ({unit})" if unit in ("ms", "us") else name
    return text.replace("_", " ")


def _distance(simulation: simulator.Simulation, run: runs.Run) -> float:
    """How far a run is from a simulation: batches first, then the times of their starts."""
    there = run.places.drop_duplicates("execution").sort_values("start_ms")
    here = simulation.executions
    sizes = list(itertools.zip_longest(here["size"], there["size"], fillvalue=0))
    wrong = sum(abs(int(ours) - int(theirs)) for ours, theirs in sizes)
    starts = zip(here["start_ms"], there["start_ms"], strict=False)
    return 1e6 * wrong + float(sum(abs(ours - theirs) for ours, theirs in starts))


def _display(html: str, text: str) -> None:
    display.display({"text/html": html, "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]


def _page(sliders: Mapping[str, Sequence[Any]], drawn: Mapping[tuple[Any, ...], str]) -> str:
    """Sliders for a page without a kernel: the drawings of all positions, and which is shown."""
    ordered = {name: sorted(values) for name, values in sliders.items()}
    rows = "".join(
        f'<label style="display:inline-block;margin-right:2em">{escape(_label(name))} '
        f'<input type="range" min="0" max="{len(values) - 1}" step="1" '
        f'value="{values.index(sliders[name][0])}" '
        f"data-values='{escape(json.dumps(list(map(str, values))), quote=True)}' "
        f'aria-label="{escape(_label(name))}"> <b>{escape(str(sliders[name][0]))}</b></label>'
        for name, values in ordered.items()
    )
    shown = "".join(
        f'<div data-state="{",".join(map(str, state))}"{" hidden" if place else ""}>{svg}</div>'
        for place, (state, svg) in enumerate(drawn.items())
    )
    return f'<div class="simulated">{rows}{shown}<script>{_SCRIPT}</script></div>'


def _show_widgets(bench: Bench) -> None:
    """Sliders and a button of a live notebook."""
    import ipywidgets

    wide = ipywidgets.Layout(width="26em")
    fields = {
        name: ipywidgets.SelectionSlider(
            options=[(str(value), value) for value in sorted(values)],
            value=values[0],
            description=_label(name),
            style={"description_width": "11em"},
            layout=wide,
        )
        for name, values in bench.sliders.items()
    }
    picture, note = ipywidgets.HTML(), ipywidgets.HTML()
    button = ipywidgets.Button(
        description="Send this plan to Triton", layout=ipywidgets.Layout(width="16em")
    )

    def values() -> dict[str, Any]:
        return {name: own.value for name, own in fields.items()}

    def redraw(_: Any = None) -> None:
        picture.value, note.value = bench.draw(values()).svg, ""

    def ask(_: Any) -> None:
        button.disabled, note.value = True, "Triton loads the model and gets the requests …"
        try:
            served = bench.serve(**values())
            picture.value, note.value = served.picture().svg, escape(_describe(served))
        except WorkbookError as error:
            note.value = escape(str(error))
        finally:
            button.disabled = False

    for own in fields.values():
        own.observe(redraw, names="value")
    button.on_click(ask)
    redraw()
    display.display(  # type: ignore[no-untyped-call]
        ipywidgets.VBox([*fields.values(), picture, ipywidgets.HBox([button, note])])
    )


def _describe(served: Served) -> str:
    if not served.premise:
        return f"{served.premise} Press the button again."
    if served.agrees:
        return "Triton formed the batches that the simulator expected."
    return f"Triton's batches: {served.run.sizes}. The simulator expected {served.expected}."


def table(bench: Bench, **values: Any) -> pd.DataFrame:
    """What the simulator says in figures, one row per value of one slider, in their order.

    Args:
        bench: of `explore`.
        values: fixed values of the other sliders; the slider that is left out varies.
    """
    free = next(name for name in bench.sliders if name not in values)
    rows = []
    for value in sorted(bench.sliders[free]):
        result = bench.simulate({**values, free: value})
        done = result.requests[result.requests["error"] == ""]
        rows.append(
            {
                free: value,
                "executions": len(result.executions),
                "mean batch": round(float(result.executions["size"].mean()), 1),
                "refused": int((result.requests["error"] != "").sum()),
                "longest wait, ms": round(float((done["start_ms"] - done["queued_ms"]).max()), 1),
            }
        )
    return pd.DataFrame(rows).set_index(free)
