"""Requirements on tables of figures that a student has computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import values
from .failure import Failure
from .figures import Figure
from .requests import Array
from .tolerance import Tolerance

Figures = Mapping[str, Figure]


def metrics_table(
    name: str,
    table: Any,
    models: Mapping[str, str],
    scores: Callable[[str], Array],
    figures: Figures | Callable[[str], Figures],
    *,
    tolerance: Tolerance,
    places: int = 3,
    partial: float = 0.0,
    help: str = "",
) -> None:
    """Fail unless every figure of a table is that of the served model; each one is computed anew.

    A figure may be rounded. It may also be any figure that the model could have with scores that
    differ within the tolerance: a row whose score is so near to a threshold may get either class.

    Example::

        def scores(model: str) -> Array:
            return server.infer(model, {"x": rows}, outputs=["logit"])["logit"][:, 1]

        require.metrics_table(
            "table", table, {"fp32": fp32, "fp16": fp16}, scores,
            {"accuracy": figures.accuracy(truth, above=0.0),
             "largest deviation": figures.deviation(scores(fp32), "largest")},
            tolerance=facts.logits, help="table[model][figure]",
        )

    Args:
        name: the parameter's name, for the message.
        table: what was handed over: a dict of dicts, `table[row][figure]`, or the other way round.
        models: the name of the served model, for each row of the table.
        scores: asks a model, and returns a score for each row of the data.
        figures: what the table must hold in each row; a function of the row's name, if the
            thresholds differ between the rows.
        tolerance: how far two right scores may be apart.
        places: the places after the point to which a figure may be rounded.
        partial: the credit of a wrong table is this number times the share of its right figures.
        help: what to look at.

    Raises:
        Failure: it is no such table, or figures in it are wrong. The message names them.
    """
    wanted = {row: dict(figures(row) if callable(figures) else figures) for row in models}
    cells = _cells(name, table, wanted, help)
    wrong = []
    for row, model in models.items():
        served = np.asarray(scores(model), dtype=np.float64).reshape(-1)
        if not np.isfinite(served).all():
            raise Failure(f"{model} answers scores that are not finite numbers.")
        for figure, compute in wanted[row].items():
            low, high = _range(compute, served, tolerance)
            rounded = 0.5 * 10.0**-places + 1e-12
            if not low - rounded <= cells[row, figure] <= high + rounded:
                wrong.append(f"{figure} of {row}")
    if wrong:
        shown = ", ".join(wrong[:6]) + (" and others" if len(wrong) > 6 else "")
        verb = "is not that" if len(wrong) == 1 else "are not those"
        right = 1 - len(wrong) / len(cells)
        why = f", and the scores may differ by {tolerance.allowed:.1g}: {tolerance.because}"
        raise Failure(
            f"{len(wrong)} of {len(cells)} figures in `{name}` {verb} of the served models: "
            f"{shown}. They may be rounded to {places} places{why * bool(tolerance.because)}.",
            help=help or "Compute them from what the deployed models answer, on the same rows.",
            credit=partial * right,
        )


def _cells(
    name: str, table: Any, wanted: Mapping[str, Figures], help: str
) -> dict[tuple[str, str], float]:
    """The figures of the table by row and name."""
    rows = list(wanted)
    if not isinstance(table, Mapping) or not all(isinstance(v, Mapping) for v in table.values()):
        raise Failure(
            f"`{name}` is no table: a dict of dicts is wanted, {name}[{rows[0]!r}][figure].",
            help=help or f'A DataFrame becomes one by {name}.to_dict("index").',
        )
    is_turned = not any(row in table for row in rows)  # table[figure][row]
    found = {}
    for row, figures in wanted.items():
        for figure in figures:
            first, second = (figure, row) if is_turned else (row, figure)
            if second not in table.get(first, {}):
                raise Failure(f"`{name}` lacks {figure} of {row}.", help=help)
            place = f"{name}[{first!r}][{second!r}]"
            found[row, figure] = values.number(place, table[first][second], help=help)
    return found


def _range(figure: Figure, scores: Array, tolerance: Tolerance) -> tuple[float, float]:
    """The least and the largest figure of scores that differ within the tolerance.

    All scores are moved up, down, and by chance in either direction, 64 times.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(64, scores.size))
    moved = [scores, *(scores + sign * tolerance.allowed for sign in (-1.0, 1.0, *signs))]
    found = [figure(one) for one in moved]
    return min(found), max(found)
