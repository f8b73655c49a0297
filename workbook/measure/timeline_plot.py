"""`plot_timeline`: how long each request waited, and with which others it was computed.

Above, one row per request, in the order of sending: a thin line while it waits in the queue, a
thick one while it is computed. Below, one lane per instance: one bar per execution, its requests
stacked in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from ..common.errors import WorkbookError
from . import style, trace_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 64  # more rows than this cannot be told apart
_BAR = 0.82  # of a lane's height
# In inches: the most that requests and lanes take, so that a screen shows all and the legend.
_ROWS, _LANES = 3.2, 2.2
_LABEL = 0.13  # inches between two names of rows, at least
_LEGIBLE = 5.5  # points; names that would be smaller are left out


def plot_timeline(
    spans: pd.DataFrame,
    *,
    order: Sequence[str] = (),
    title: str = "",
) -> style.Picture:
    """Draw requests and executions from traces.

    Args:
        spans: a table of `traces` or of a `recording`. Requests without an id are drawn too.
        order: the models in the order of their lanes; by default as they were first used.
        title: a line above the figure.

    Returns:
        Two panels over one axis of time, in milliseconds since the first request waited.

    Raises:
        WorkbookError: no request was computed, or there are too many of them to be drawn.

    Example:
        with measure.recording(server) as recorded:
            measure.send(server, "together", measure.every(1, count=6))
        measure.plot_timeline(recorded.spans)
    """
    table = trace_tables.executions(spans)
    if table.empty:
        raise WorkbookError(
            "There is no execution to draw.",
            todo="Send requests inside a `with recording(server)` block; was the trace level "
            "TIMESTAMPS?",
        )
    models = list(dict.fromkeys([*order, *table["model"]]))
    models = [model for model in models if model in set(table["model"])]
    table = table.assign(request=_requests(spans, table))
    rows = trace_tables.in_order(table.groupby("request")["queued_ms"].min().to_dict())
    if len(rows) > _MOST:
        raise WorkbookError(
            f"{len(rows)} requests cannot be told apart in one picture.",
            todo=f"Record at most {_MOST} of them.",
        )
    colour, entries = _colours(table, models)
    lanes = [
        (model, number)
        for model in models
        for number in range(int(table.loc[table["model"] == model, "lane"].max()) + 1)
    ]
    above = min(max(1.0, 0.17 * len(rows)), _ROWS)
    lane = max(0.5, min(0.17 * int(table["size"].max()), 1.5))  # inches
    below = min(max(0.75, lane * len(lanes)), _LANES)
    lane = min(lane, below / len(lanes))
    figure = style.Picture(8.6, above + below + 1.35, _describe(table, lanes))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[above, below])
    style.panel(
        top, "Each request, in the order of sending: ─ it waits, ━ it is computed", grid="x"
    )
    style.panel(bottom, "Each instance: one bar per execution", below="milliseconds", grid="x")
    _draw_requests(top, table, rows, colour, every=math.ceil(_LABEL * len(rows) / above))
    _draw_lanes(bottom, table, lanes, colour, lane)
    top.tick_params(length=0)
    top.spines["bottom"].set_visible(False)
    end = float(table["end_ms"].max())
    bottom.set_xlim(-0.01 * end, 1.01 * end)
    if entries:
        from matplotlib.patches import Patch

        figure.legend(
            handles=[Patch(color=c, label=name) for name, c in entries.items()],
            loc="outside upper right",
            ncols=len(entries),
            frameon=False,
            labelcolor=style.GREY,
            fontsize=9,
        )
    if title:
        figure.suptitle(title, color=style.GREY, fontsize=12, x=0.01, ha="left")
    return figure


def _requests(spans: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """The name of the request that the client sent, also for the parts of an ensemble."""
    known = spans.drop_duplicates("trace").set_index("trace")
    parents: dict[int, int] = known["parent"].to_dict()
    names: dict[int, str] = known["request_id"].to_dict()

    def root(trace: int) -> str:
        while parents.get(trace):
            trace = parents[trace]
        return names.get(trace) or f"#{trace}"

    return [root(trace) for trace in table["trace"]]


def _colours(table: pd.DataFrame, models: Sequence[str]) -> tuple[dict[int, str], dict[str, str]]:
    """The colour of each row of the table (the colour of its model), and the legend's entries."""
    if len(models) == 1:
        return dict.fromkeys(table.index, style.COLOURS[0]), {}
    entries = {name: style.COLOURS[i % len(style.COLOURS)] for i, name in enumerate(models)}
    return {i: entries[model] for i, model in table["model"].items()}, entries


def _draw_requests(
    axes: Axes, table: pd.DataFrame, rows: Sequence[str], colour: Mapping[int, str], every: int
) -> None:
    place = {name: i for i, name in enumerate(rows)}
    for row in table.itertuples():
        y = place[row.request]
        axes.plot([row.queued_ms, row.start_ms], [y, y], color=style.GREY, linewidth=1.2, alpha=0.6)
        axes.plot([row.queued_ms], [y], color=style.GREY, marker="|", markersize=5)
        axes.barh(y, row.end_ms - row.start_ms, 0.7, left=row.start_ms, color=colour[row.Index])
    axes.set_yticks(range(0, len(rows), every), rows[::every], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)


def _draw_lanes(
    axes: Axes,
    table: pd.DataFrame,
    lanes: Sequence[tuple[str, int]],
    colour: Mapping[int, str],
    inches: float,
) -> None:
    place = {lane: i for i, lane in enumerate(lanes)}
    span = float(table["end_ms"].max())
    for row in table.itertuples():
        height = _BAR / row.size
        y = place[row.model, row.lane] - _BAR / 2 + row.place * height
        long = row.end_ms - row.start_ms
        axes.barh(
            y + height / 2, long, height, left=row.start_ms, color=colour[row.Index],
            edgecolor=style.INK, linewidth=0.5,
        )  # fmt: skip
        points = min(8.0, 60 * inches * height)
        if long > 0.012 * len(row.request) * span and points > _LEGIBLE:
            axes.text(
                row.start_ms + long / 2, y + height / 2, row.request, ha="center",
                va="center_baseline", fontsize=points, color=style.INK,
            )  # fmt: skip
    several = len({model for model, _ in lanes}) > 1
    count = {model: sum(m == model for m, _ in lanes) for model, _ in lanes}
    names = [
        (model if several else "instance") + (f" {lane}" if count[model] > 1 or not several else "")
        for model, lane in lanes
    ]
    axes.set_yticks(range(len(lanes)), names, fontsize=9)
    axes.set_ylim(len(lanes) - 0.5, -0.5)


def _describe(table: pd.DataFrame, lanes: Sequence[tuple[str, int]]) -> str:
    sizes = table.drop_duplicates("execution")["size"].tolist()
    return (
        f"Timeline: {table['request'].nunique()} requests, {len(sizes)} executions on "
        f"{len(lanes)} lanes; requests per execution: {', '.join(map(str, sizes))}."
    )
