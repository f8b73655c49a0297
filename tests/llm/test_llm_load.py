"""The load for comparing ways to serve: what it requests, and what it draws."""

from __future__ import annotations

import pandas as pd

from workbook.measure import generation


def test_mixed_lengths_reach_from_end_to_end_and_stay_the_same() -> None:
    lengths = generation.mixed_lengths(16, least=8, most=256)
    assert (min(lengths), max(lengths), len(lengths)) == (8, 256, 16)
    assert lengths == generation.mixed_lengths(16, least=8, most=256) != sorted(lengths)


def test_rows_at_work() -> None:
    assert generation.rows_at_work([4, 4, 4, 4], 2) == (2, 2)
    # Static: 8 steps for 10 tokens and 8 for 9. Continuous: 8, 2 + 8 and 1 in the first's row.
    assert generation.rows_at_work([8, 2, 8, 1], 2) == (19 / 16, 19 / 10)


def test_the_pale_part_of_a_static_batch_is_what_was_thrown_away() -> None:
    rows = [(0, 0.0, 4.0, 10), (1, 0.0, 4.0, 40), (0, 4.0, 6.0, 20)]
    table = pd.DataFrame(
        [{"client": c, "sent": s, "first": e, "end": e, "tokens": n} for c, s, e, n in rows]
    )
    figure = generation.plot_answers({"static": table, "continuous": table})
    static, continuous = figure.axes
    widths = [bar.get_width() for bar in static.patches]
    assert widths == [4.0, 1.0, 4.0, 4.0, 2.0, 2.0]  # pale, full, by turns
    assert [bar.get_width() for bar in continuous.patches] == [4.0, 4.0, 4.0, 4.0, 2.0, 2.0]
    assert "12 tokens/s" in static.get_title(loc="left")
    assert [label.get_text() for label in static.get_yticklabels()] == ["1", "2"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "tokens that were asked for",
        "computed, and thrown away",
    ]
