"""Draw executions as slots: which requests waited, were batched together, or were refused.

The drawing is an SVG that takes the page's text colour, so it can be read on a light and on a dark
page. It is small, so that a page can hold one for each position of a slider (`simulated`).

    with measure.recording(lab) as seen:
        answers = measure.send(lab, "eager", measure.every(5, 24))
    slots.draw(measure.executions(seen.spans), answers=answers, most=8)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from ..common.errors import WorkbookError
from ..measure import trace_tables

BLUE, ORANGE, RED = "#2A8FD0", "#E69F00", "#D0342C"
_INK = "#111111"  # text on a coloured slot
_WIDE, _LEFT, _RIGHT = 820, 66, 14  # pixels
_ROW, _SLOT, _GAP = 9.0, 14.0, 26.0
_MOST = 80  # more requests cannot be told apart
# In pixels: the most that requests and lanes take, so that a screen shows all and the legend.
_ROWS, _LANES = 300.0, 240.0


@dataclass(frozen=True)
class Drawing:
    """A drawing that a notebook shows.

    Attributes:
        svg: the drawing.
        description: one sentence for readers who cannot see it.
    """

    svg: str
    description: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.svg, "text/plain": self.description}


def draw(
    table: pd.DataFrame,
    *,
    answers: pd.DataFrame | None = None,
    over: pd.DataFrame | None = None,
    most: int = 0,
    group: Callable[[str], str] | None = None,
    until_ms: float | None = None,
) -> Drawing:
    """Draw a table of executions.

    Above, each request has a row, in the order of sending: a thin line while it waits, a thick one
    while it is computed, and a red cross where it was refused. Below, each instance has a lane, and
    each execution its slots.

    Args:
        table: of `measure.executions`, for a real server or for a simulation.
        answers: of `measure.send`, or a simulation's `requests`: its refused requests are marked.
        over: the executions of a second run of the same plan; they are drawn as black or white
            frames over the first run.
        most: max_batch_size; slots that stay empty are dashed. 0 draws none of these.
        group: from a request's id to the name of its colour; two names at most.
        until_ms: the end of the axis; by default everything is drawn.

    Raises:
        WorkbookError: nothing was computed, or there are too many requests to be told apart.
    """
    if table.empty:
        raise WorkbookError("There is no execution to draw.", todo="Was the plan sent?")
    refused = _refused(table, answers)
    rows = _rows(table, refused)
    if len(rows) > _MOST:
        raise WorkbookError(
            f"{len(rows)} requests cannot be told apart in one picture.",
            todo=f"Record at most {_MOST} of them.",
        )
    ends = [float(part["end_ms"].max()) for part in (table, over) if part is not None]
    ends += [float(refused["answered_ms"].max())] if not refused.empty else []
    scale = _Scale(until_ms or max(ends))
    names = list(dict.fromkeys(group(name) for name in rows)) if group else []
    colours = dict(zip(names, (BLUE, ORANGE), strict=False))

    def colour(name: str) -> str:
        return colours.get(group(name), BLUE) if group else BLUE

    row = min(_ROW, _ROWS / len(rows))
    top = 48.0
    deep = max(most, int(table["size"].max()), 1 if over is None else int(over["size"].max()))
    lanes = 1 + int(max(part["lane"].max() for part in (table, over) if part is not None))
    slot = min(_SLOT, 112 / deep, (_LANES / lanes - 10) / deep)
    below = top + row * len(rows) + _GAP
    high = below + lanes * (deep * slot + 10) + 34
    parts = [
        _legend(colours, over is not None, not refused.empty),
        _axis(scale, top, below, high),
        *(_text(_LEFT - 8, top + row * i + 3, rows[i], 9.5, text_anchor="end")
          for i in range(0, len(rows), math.ceil(_ROW / row))),
        *(_request(scale, top + row * i, row, name, table, refused, colour(name))
          for i, name in enumerate(rows)),
        *_lanes(scale, table, below, slot, deep, most, colour),
        *([] if over is None else _frames(scale, over, below, slot, deep)),
    ]  # fmt: skip
    words = _describe(table, refused, over)
    svg = (
        f'<svg viewBox="0 0 {_WIDE} {high:.0f}" width="{_WIDE}" style="max-width:100%;height:auto" '
        f'role="img" aria-label="{escape(words)}" font-family="sans-serif" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )
    return Drawing(svg, words)


@dataclass(frozen=True)
class _Scale:
    """From milliseconds to pixels."""

    end: float

    def __call__(self, ms: float) -> float:
        inside = min(max(ms, 0.0), self.end)
        return _LEFT + inside / self.end * (_WIDE - _LEFT - _RIGHT)


def _refused(table: pd.DataFrame, answers: pd.DataFrame | None) -> pd.DataFrame:
    """When each refused request was sent and answered, on the time axis of the table."""
    columns = ["id", "came_ms", "answered_ms"]
    if answers is None:
        return pd.DataFrame(columns=columns)
    came = answers["queued_ms" if "queued_ms" in answers else "sent_ms"]
    first = table.sort_values("queued_ms")["request_id"].iloc[0]
    origin = float(came[answers["id"] == first].iloc[0])
    found = pd.DataFrame(
        {
            "id": answers["id"],
            "came_ms": came - origin,
            "answered_ms": answers["answered_ms"] - origin,
        }
    )
    return found[answers["error"] != ""]


def _rows(table: pd.DataFrame, refused: pd.DataFrame) -> list[str]:
    """All requests, in the order of sending."""
    came = dict(zip(table["request_id"], table["queued_ms"], strict=True))
    came |= dict(zip(refused["id"], refused["came_ms"], strict=True))
    return trace_tables.in_order(came)


def _text(x: float, y: float, text: str, size: float = 11, **more: str) -> str:
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{extra}>{escape(text)}</text>'


def _bar(x1: float, x2: float, y: float, high: float, more: str) -> str:
    wide = max(x2 - x1, 0.8)
    return f'<rect x="{x1:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" {more}/>'


def _legend(colours: Mapping[str, str], framed: bool, crossed: bool) -> str:
    x, parts = float(_LEFT), []
    entries = [(name, f'fill="{colour}"') for name, colour in colours.items()]
    if not entries:
        entries = [("simulated" if framed else "computed", f'fill="{BLUE}"')]
    if framed:
        entries.append(("the real server", 'fill="none" stroke="currentColor" stroke-width="2"'))
    for name, look in entries:
        parts += [_bar(x, x + 14, 8, 10, look), _text(x + 19, 17, name)]
        x += 40 + 6.2 * len(name)
    parts += [f'<path d="M{x} 13h14" stroke="currentColor"/>', _text(x + 19, 17, "waits")]
    if crossed:
        parts += [_cross(x + 70, 13), _text(x + 80, 17, "is refused")]
    return "".join(parts)


def _axis(scale: _Scale, top: float, below: float, high: float) -> str:
    step = next(s for s in (5, 10, 20, 50, 100, 200, 500, 1000, 5000) if scale.end / s <= 12)
    parts = [
        _text(_LEFT, top - 12, "requests, in the order of sending:"),
        _text(4, below + 12, "instance"),
    ]
    for ms in range(0, int(scale.end) + 1, step):
        x = scale(ms)
        line = f"M{x:.1f} {top - 6:.0f}V{high - 26:.0f}"
        parts.append(f'<path d="{line}" stroke="currentColor" opacity=".16"/>')
        parts.append(_text(x, high - 12, "0 ms" if ms == 0 else str(ms), text_anchor="middle"))
    return "".join(parts)


def _request(
    scale: _Scale, y: float, high: float, name: str, table: pd.DataFrame, refused: pd.DataFrame,
    colour: str,
) -> str:  # fmt: skip
    lost = refused[refused["id"] == name]
    if not lost.empty:
        arrived, answered = float(lost["came_ms"].iloc[0]), float(lost["answered_ms"].iloc[0])
        cross = _cross(scale(answered), y) if answered <= scale.end else ""
        return _line(scale, arrived, answered, y) + cross
    own = table[table["request_id"] == name].iloc[0]
    bar = _bar(scale(own.start_ms), scale(own.end_ms), y - high * 0.36, high * 0.72,
               f'fill="{colour}"')  # fmt: skip
    return _line(scale, own.queued_ms, own.start_ms, y) + bar


def _line(scale: _Scale, begin: float, end: float, y: float) -> str:
    return (
        f'<path d="M{scale(begin):.1f} {y:.1f}H{scale(end):.1f}M{scale(begin):.1f} {y - 3:.1f}v6" '
        'stroke="currentColor" stroke-width="1"/>'
    )


def _cross(x: float, y: float) -> str:
    return (
        f'<path d="M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6" stroke="{RED}" stroke-width="1.8" '
        'fill="none"/>'
    )


def _lanes(
    scale: _Scale, table: pd.DataFrame, below: float, slot: float, deep: int, most: int,
    colour: Callable[[str], str],
) -> list[str]:  # fmt: skip
    parts = []
    for _, own in table.groupby("execution"):
        first = own.iloc[0]
        if scale(first.start_ms) >= scale(scale.end):
            continue
        left, right = scale(first.start_ms), scale(first.end_ms)
        y = below + first.lane * (deep * slot + 10)
        names = own.sort_values("place")["request_id"]
        for i, name in enumerate(names):
            parts.append(
                _bar(left, right, y + i * slot, slot - 1.5, f'fill="{colour(name)}" rx="1.5"')
            )
            if right - left > 5.5 * len(name) and slot > 8:
                parts.append(
                    _text((left + right) / 2, y + i * slot + slot / 2 + 2.6, name, 9,
                          text_anchor="middle", fill=_INK)
                )  # fmt: skip
        empty = most - len(names)
        if empty > 0:
            grid = "".join(
                f"M{left:.1f} {y + i * slot - 0.7:.1f}H{right:.1f}"
                for i in range(len(names), most + 1)
            )
            sides = f"M{left:.1f} {y + len(names) * slot:.1f}v{empty * slot:.1f}"
            sides += f"M{right:.1f} {y + len(names) * slot:.1f}v{empty * slot:.1f}"
            parts.append(
                f'<path d="{grid}{sides}" stroke="currentColor" stroke-dasharray="2 3" '
                'opacity=".5" fill="none"/>'
            )
    return parts


def _frames(scale: _Scale, table: pd.DataFrame, below: float, slot: float, deep: int) -> list[str]:
    look = 'fill="none" stroke="currentColor" stroke-width="2"'
    return [
        _bar(scale(own.start_ms), scale(own.end_ms),
             below + own.lane * (deep * slot + 10) - 1.5, own.size * slot + 1.5, look)
        for own in table.drop_duplicates("execution").itertuples()
    ]  # fmt: skip


def _describe(table: pd.DataFrame, refused: pd.DataFrame, over: pd.DataFrame | None) -> str:
    def sizes(part: pd.DataFrame) -> str:
        found = part.drop_duplicates("execution").sort_values("start_ms")["size"]
        return f"{len(found)} executions of {', '.join(map(str, found))} requests"

    text = sizes(table) + (f", {len(refused)} refused" if len(refused) else "")
    return text + ("." if over is None else f"; the second run: {sizes(over)}.")
