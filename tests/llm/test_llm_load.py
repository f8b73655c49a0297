"""The load that compares ways of serving: what it asks, what it counts, what it draws."""

from __future__ import annotations

import pandas as pd
import pytest
from conftest import put_models

from workbook.errors import RequestError
from workbook.measure import generation
from workbook.server import Triton

PROMPTS = ("def", "The class statement")


def test_mixed_lengths_reach_from_end_to_end_and_stay_the_same() -> None:
    lengths = generation.mixed_lengths(16, least=8, most=256)
    assert (min(lengths), max(lengths), len(lengths)) == (8, 256, 16)
    assert lengths == generation.mixed_lengths(16, least=8, most=256) != sorted(lengths)


def test_the_same_answers_with_and_without_streaming(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    repository = tmp_path_factory.mktemp("models")
    put_models(repository, ("llama_stream",))
    lengths = [3, 9, 5, 12, 4, 7]
    with Triton(repository) as server:
        server.load("llama_stream")
        whole = generation.load(server, "llama_stream", PROMPTS, lengths, clients=3)
        pieces = generation.load(server, "llama_stream", PROMPTS, lengths, clients=3, stream=True)
        with pytest.raises(RequestError, match="broke off under load"):
            generation.load(server, "llama_stream", ["x " * 600], [3], clients=1)
    assert list(whole["text"]) == list(pieces["text"])
    for table in (whole, pieces):
        assert list(table["tokens"]) == lengths
        assert set(table["client"]) <= {0, 1, 2}
        assert ((table["sent"] < table["first"]) & (table["first"] <= table["end"])).all()
    assert (pieces["first"] < pieces["end"]).all()
    assert generation.tokens_per_second(whole) == pytest.approx(40 / whole["end"].max(), rel=0.05)


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
