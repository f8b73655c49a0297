"""Lecture 3's scoreboard: two deployments measured in turns, rows that are kept, the waterfall."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbook.common.errors import WorkbookError
from workbook.lessons import formats, laboratory, scoreboard
from workbook.server import Triton

CONFIG = """\
platform: "pytorch_libtorch"
max_batch_size: 16
input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] } ]
parameters { key: "INTRA_OP_THREAD_COUNT" value: { string_value: "1" } }
"""
ROW = scoreboard.Row(
    "batching", "dynamic batching", "pair", "batched", 100, 250, 20, 31, 40, 3.2, 0, 1.1
)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of the rows, in a folder of the test's own."""
    file = tmp_path / "scoreboard.json"
    monkeypatch.setattr(scoreboard, "_file", lambda: file)
    return file


def keep(*rows: scoreboard.Row, file: Path) -> None:
    import json

    for row in rows:
        found = [dataclasses.asdict(each) for each in scoreboard._with(row)]
        file.write_text(json.dumps(found), "utf-8")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the network plain, with the dynamic batcher, and with the response cache."""
    models = tmp_path_factory.mktemp("scoreboard")
    kinds = {"single": "", "batched": "dynamic_batching { }\n"}
    for name, more in (kinds | {"kept": "response_cache { enable: true }\n"}).items():
        (models / name / "1").mkdir(parents=True)
        formats.save_torchscript(models / name / "1/model.pt")
        (models / name / "config.pbtxt").write_text(CONFIG + more)
    server = laboratory(models)
    yield server
    server.stop()


@pytest.mark.server
def test_a_step_is_measured_and_kept(lab: Triton) -> None:
    start = scoreboard.add(lab, "point_a", after="single", what="one by one")
    assert start.gain == 1
    row = scoreboard.add(lab, "batching", before="single", after="batched", what="a batcher")
    assert scoreboard.rows() == {"point_a": start, "batching": row}
    assert min(row.before, row.after, row.memory_mb) > 0
    assert 0.1 < row.cpu_ms < 500
    assert 0 < row.p50_ms <= row.p99_ms
    assert (row.changed, start.changed) == (0, 0)
    assert row.spread >= 1


@pytest.mark.server
def test_a_step_under_a_load_of_its_own(lab: Triton) -> None:
    sent = []

    def ten_equal(server: Triton, model: str) -> dict[str, float]:
        sent.append(model)
        for _ in range(10):
            formats.served_logits(server, model, formats.pictures()[:1])
        return {"throughput": 30.0 if model == "kept" else 10.0, "p50_ms": 2.0, "p99_ms": 3.0}

    row = scoreboard.add(
        lab,
        "cache",
        before="single",
        after="kept",
        what="a cache",
        measured=ten_equal,
        load="one picture",
    )
    assert sent == ["single", "kept"] * 2
    assert (row.gain, row.p50_ms, row.p99_ms, row.load) == (3, 2, 3, "one picture")
    assert row.cpu_ms < 500  # per answer: the cache's answers count too
    assert list(scoreboard.table()["load"]) == ["one picture"]


@pytest.mark.server
def test_a_step_of_the_client_measures_one_model_in_two_ways(lab: Triton) -> None:
    def client(throughput: float, requests: int) -> scoreboard.Measure:
        def measured(server: Triton, model: str) -> dict[str, float]:
            for _ in range(requests):
                formats.served_logits(server, model, formats.pictures()[:1])
            return {"throughput": throughput, "p50_ms": 2.0, "p99_ms": 3.0}

        return measured

    row = scoreboard.add(
        lab,
        "clients",
        after="batched",
        what="several under way",
        measured=client(30, 5),
        measured_before=client(10, 3),
        load="one program",
    )
    assert (row.before, row.after, row.gain) == (10, 30, 3)
    assert 0.1 < row.cpu_ms < 500


def test_another_load_has_words() -> None:
    with pytest.raises(ValueError, match="belong together"):
        scoreboard.add(Triton(), "cache", after="kept", what="?", load="one picture")


@pytest.mark.server
def test_what_cannot_be_measured_leaves_no_row(lab: Triton) -> None:
    with pytest.raises(KeyError, match="no step"):
        scoreboard.add(lab, "magic", after="single", what="?")
    with pytest.raises(WorkbookError, match="absent is not loaded"):
        scoreboard.add(lab, "batching", before="single", after="absent", what="?")
    assert scoreboard.rows() == {}


def test_rows_stand_in_the_order_of_the_notebooks(kept: Path) -> None:
    later = dataclasses.replace(ROW, step="cache")
    first = dataclasses.replace(ROW, step="point_a", before=100, after=100)
    keep(later, ROW, first, file=kept)
    assert list(scoreboard.rows()) == ["point_a", "batching", "cache"]
    table = scoreboard.table()
    assert list(table.index) == ["01 point A", "03 batching", "07 cache"]
    assert list(table["gain"]) == ["", "×2.50", "×2.50"]


def test_an_unsteady_row_replaces_no_steady_one(kept: Path) -> None:
    unsteady = dataclasses.replace(ROW, after=900, spread=2.0)
    keep(ROW, unsteady, file=kept)
    assert scoreboard.rows()["batching"].after == 250
    keep(unsteady, dataclasses.replace(ROW, after=300), file=kept)
    assert scoreboard.rows()["batching"].after == 300


def bars() -> list[tuple[float, float]]:
    """Where each bar of the figure begins and ends."""
    (axes,) = scoreboard.draw().axes
    return [
        (round(bar.get_x(), 3), round(bar.get_x() + bar.get_width(), 3)) for bar in axes.patches
    ]


def test_the_figure_multiplies_gains_and_shows_what_is_missing(kept: Path) -> None:
    assert "nothing was measured yet" in scoreboard.draw().description
    first = dataclasses.replace(ROW, step="point_a", before=100, after=100)
    worse = dataclasses.replace(
        ROW, step="precision", old="batched", new="int8", before=240, after=120, spread=2.0
    )
    other = dataclasses.replace(ROW, step="cache", load="Zipf's law")
    keep(first, ROW, worse, other, file=kept)
    figure = scoreboard.draw()
    assert "01 point A 100 pictures per second; 03 batching ×2.50" in figure.description
    assert "05 precision ×0.50, not steady" in figure.description
    assert "07 cache ×2.50, Zipf's law" in figure.description
    assert bars() == [(0.0, 1.0), (1.0, 2.5), (2.5, 1.25), (1.0, 2.5)]
    (axes,) = figure.axes
    texts = [text.get_text().strip() for text in axes.texts]
    assert texts.count("not measured") == len(scoreboard.STEPS) - 4


def test_a_step_begins_at_the_model_that_it_changes(kept: Path) -> None:
    """Two steps from `batched`: the second does not multiply with the first."""
    way = dataclasses.replace(ROW, step="precision", old="batched", new="int8", after=150)
    other = dataclasses.replace(ROW, step="accelerators", old="batched", new="openvino", after=80)
    last = dataclasses.replace(ROW, step="tuning", old="int8", new="tuned", after=200)
    keep(ROW, way, other, last, file=kept)
    assert bars() == [(1.0, 2.5), (2.5, 3.75), (2.5, 2.0), (3.75, 7.5)]


def test_others_do_not_gain_by_a_load_of_its_own(kept: Path) -> None:
    one = dataclasses.replace(ROW, step="clients", load="one program")
    keep(ROW, one, dataclasses.replace(ROW, step="tuning", old="?", after=200), file=kept)
    assert bars() == [(1.0, 2.5), (1.0, 2.5), (2.5, 5.0)]


def test_rows_can_be_forgotten(kept: Path) -> None:
    keep(ROW, file=kept)
    for _ in range(2):
        scoreboard.forget()
        assert scoreboard.rows() == {}


def test_rows_of_another_version_are_left_out(kept: Path) -> None:
    kept.write_text('[{"step": "batching", "speed": 3}]')
    assert scoreboard.rows() == {}
    assert scoreboard.table().empty
