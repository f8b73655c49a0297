"""The endurance benchmark: its judgement of growth, and a short run of all of it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import benchmarks
from benchmarks import endurance, held
from benchmarks.growth import Growth, growth
from benchmarks.mixed_load import Ask, Clients, MixedLoad
from workbook.common import paths
from workbook.server import Triton
from workbook.zoo.repository import MODELS

pytestmark = pytest.mark.server

MINUTES = np.arange(0, 30, 1 / 6)


def test_a_rising_line_is_growth_and_a_flat_one_is_none() -> None:
    rising = growth(MINUTES, 100 + 0.5 * MINUTES)
    assert rising is not None
    assert rising.slope == pytest.approx(0.5)
    assert rising.beyond_noise == pytest.approx(0.5)
    assert growth(MINUTES, np.full(len(MINUTES), 19.7)) == Growth(0.0, 0.0)


def test_noise_alone_is_seldom_growth() -> None:
    """5 % of the slopes lie outside of the range, and half of these lie above it."""
    random = np.random.default_rng(0)
    found = [growth(MINUTES, random.normal(100, 3, len(MINUTES))) for _ in range(1000)]
    assert 10 <= sum(g is not None and g.beyond_noise > 0 for g in found) <= 45


def test_growth_shows_through_noise_of_its_size() -> None:
    noise = np.random.default_rng(0).normal(0, 1, len(MINUTES))
    found = growth(MINUTES, 100 + MINUTES + noise)
    assert found is not None
    assert 0.7 < found.beyond_noise < 1.0


def test_what_was_held_at_first_does_not_count() -> None:
    found = growth(MINUTES, 100 + np.minimum(MINUTES, 15))
    assert found == Growth(0.0, 0.0)


def test_too_few_samples_say_nothing() -> None:
    assert growth(range(20), range(20)) is None


def test_the_load_counts_wrong_answers_and_failures(tmp_path: Path) -> None:
    """A request to a missing model fails; an answer that differs from the first one is wrong."""
    (tmp_path / "square").symlink_to(paths.repository() / "square")
    x = np.full((1, 2), 3.0, np.float32)
    right, wrong = (Ask("square", "", {"INPUT": x}, {"OUTPUT": y}) for y in (x * x, x))
    with Triton(tmp_path, models=["square"]) as server:
        with Clients(server) as clients:
            for kind in ("http", "grpc", "json"):
                assert clients.compare(right, kind)
                assert not clients.compare(wrong, kind)
        load = MixedLoad(server, [right, wrong, right._replace(model="gone")])
        load._count("square", 1, lambda: True)
        load._count("square", 1, lambda: False)
        load._count("gone", 1, clients.compare, load._requests[2], "http")
    assert load.answered == 2
    assert load.wrong == ["square"]
    assert load.failed[0].startswith("gone: ")


def test_endurance_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endurance, "SMALL", ("square", "digits_onnx"))
    file = tmp_path / "results.md"
    (section,) = benchmarks.run(
        ("endurance",),
        output=file,
        minutes=0.05,
        loads=4,
        deploys=2,
        console=Console(file=io.StringIO(), width=120),
    )
    rows = {row[0]: row[1:] for row in section.rows}
    assert list(rows) == [
        *("load, begin", "load, end", "load: growth a minute"),
        *("loads, begin", "loads, end", "loads: growth in 10 loads"),
        *("redeploys, begin", "redeploys, end", "redeploys: growth in 10 redeploys"),
    ]
    assert int(rows["load, end"][0].replace(",", "")) > 0
    assert rows["loads, end"][0] == "4"
    assert all(len(row) == 1 + len(held.COLUMNS) for row in rows.values())
    assert set(rows["loads: growth in 10 loads"][1:]) == {"-"}  # four samples say nothing
    verdicts = {goal.what: goal for goal in section.goals}
    for part in ("load", "redeploys"):
        assert verdicts[f"{part}: requests failed"].reached
        assert verdicts[f"{part}: answers wrong"].reached
    assert verdicts["processes, regions and files left after the server's end"].reached
    assert f"all {len(MODELS)} models" in file.read_text()
    assert "not judged" not in file.read_text()  # growth does not depend on other programs


def test_a_part_is_shown_with_each_whole_minute_and_its_growth() -> None:
    nothing = dict.fromkeys(held.COLUMNS, 7.0)
    samples = [
        endurance.Sample(at, int(at * 600), held.Resources(**{**nothing, "anonymous": 30 + at}))
        for at in MINUTES[MINUTES <= 3.1]
    ]
    rows = list(endurance._rows(endurance.Part("load", [*samples])))
    assert [row[:3] for row in rows[:4]] == [
        ("load, begin", "0", "30.0"),
        ("load, minute 1", "600", "31.0"),
        ("load, minute 2", "1,200", "32.0"),
        ("load, end", "1,800", "33.0"),
    ]
    assert rows[-1][:2] == ("load: growth a minute", "")
    many = [sample._replace(at=sample.at / 3) for sample in samples for _ in range(3)]
    goals = {goal.what: goal for goal in endurance._growth_goals(endurance.Part("load", many))}
    grows = goals["load: growth a minute of the server's anonymous memory, beyond noise"]
    assert grows.value == pytest.approx(3.0, abs=0.5)
    assert not grows.reached
    assert goals["load: counts, and regions in /dev/shm, that grow beyond noise"].reached
