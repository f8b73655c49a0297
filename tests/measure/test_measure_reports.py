"""The parsers of perf_analyzer's report, statistics, metrics and traces, on good and damaged input.

The real programs wrote the good input. test_measure_server.py also reads it from a running server.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbook.common.errors import WorkbookError
from workbook.measure import perf_output, plot_load, prometheus, trace_tables
from workbook.measure.server_statistics import batch_sizes, counted, difference, from_records
from workbook.server import Server

CSV = """\
Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute \
Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,\
p99 latency,Avg latency,request/response,response wait
2,2806.97,3,355,70,13,180,81,1,622,861,1016,3269,707,4,686
"""
PRINTED = """\
Request concurrency: 2
  Client: 
    Request count: 5104
  Server: 
    Inference count: 5107
    Execution count: 4581
  Composing models: 
  part, version: 1
      Inference count: 1
      Execution count: 1
"""  # noqa: W291 - as the program prints it
RECORD: dict[str, Any] = {
    "name": "m",
    "version": "1",
    "inference_count": 10,
    "execution_count": 4,
    "inference_stats": {
        name: {"count": 10, "ns": 10_000_000}
        for name in (
            "success", "queue", "compute_input", "compute_infer", "compute_output"
        )
    }
    | {name: {"count": 0, "ns": 0} for name in ("fail", "cache_hit", "cache_miss")},
    "batch_stats": [
        {"batch_size": 1, "compute_infer": {"count": 1, "ns": 1}},
        {"batch_size": 3, "compute_infer": {"count": 3, "ns": 1}},
    ],
}  # fmt: skip
TRACE = json.dumps(
    [{"id": 1, "model_name": "m", "model_version": 1, "request_id": "a"}]
    + [
        {"id": 1, "timestamps": [{"name": name, "ns": 1_000_000 * (i + 1)}]}
        for i, name in enumerate(
            (
                "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END",
                "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END",
            )
        )
    ],
    separators=(",", ":"),
)  # fmt: skip


def test_a_report_becomes_rows_in_milliseconds() -> None:
    (row,) = perf_output.rows(CSV)
    assert row["concurrency"] == 2
    assert row["throughput"] == 2806.97
    assert (row["p50_ms"], row["p99_ms"], row["mean_ms"]) == (0.622, 3.269, 0.707)
    assert (row["queue_ms"], row["compute_infer_ms"]) == (0.070, 0.180)
    assert "responses" not in row


def test_the_printed_counts_are_those_of_the_model_and_not_of_an_ensembles_parts() -> None:
    assert perf_output.counts(PRINTED) == {"requests": 5104, "inferences": 5107, "executions": 4581}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: "", "no rows"),
        (lambda text: text.splitlines()[0], "no rows"),
        (lambda text: text.replace("p99 latency", "p98 latency"), "p99 latency"),
        (lambda text: text.replace("Concurrency", "Level"), "Concurrency or Request Rate"),
        (lambda text: text.replace("2806.97", "nan"), "Inferences/Second in line 2"),
        (lambda text: text.replace("3269", "-3269"), "p99 latency in line 2"),
        (lambda text: text.replace(",686", ""), "line 2 has"),
        (lambda text: text.replace("2806.97", '"2806.97'), "not CSV"),
    ],
)
def test_a_damaged_report_says_what_is_wrong(damage: Callable[[str], str], words: str) -> None:
    with pytest.raises(WorkbookError, match=words):
        perf_output.rows(damage(CSV))


def _cut_and_changed(text: str) -> st.SearchStrategy[str]:
    """The text, cut off somewhere, with a piece of it replaced by anything."""

    def build(spot: int, length: int, piece: str, end: int) -> str:
        return (text[:spot] + piece + text[spot + length :])[:end]

    size = len(text)
    return st.builds(
        build, st.integers(0, size), st.integers(0, 20), st.text(max_size=8), st.integers(0, size)
    )


@given(_cut_and_changed(CSV))
@settings(max_examples=150)
def test_any_report_is_read_or_refused(text: str) -> None:
    try:
        rows = perf_output.rows(text)
    except WorkbookError:
        return
    assert rows
    assert all(np.isfinite(v) and v >= 0 for row in rows for v in row.values())


@given(_cut_and_changed(PRINTED))
@settings(max_examples=100)
def test_any_printed_counts_are_read_or_refused(text: str) -> None:
    try:
        found = perf_output.counts(text)
    except WorkbookError:
        return
    assert set(found) == {"requests", "inferences", "executions"}


def test_statistics_have_means_and_a_histogram() -> None:
    table = from_records([RECORD])
    (row,) = table.to_dict("records")
    assert (row["requests"], row["inferences"], row["executions"]) == (10, 10, 4)
    assert row["batch_size"] == 2.5
    assert row["queue_ms"] == 1.0
    histogram = batch_sizes(table)
    assert list(histogram["batch_size"]) == [1, 3]
    assert list(histogram["share"]) == [0.25, 0.75]


def test_the_difference_counts_what_lay_between() -> None:
    later = copy.deepcopy(RECORD)
    later["inference_count"] += 6
    later["execution_count"] += 2
    later["inference_stats"]["success"]["count"] += 6
    later["inference_stats"]["queue"]["ns"] += 3_000_000
    later["batch_stats"][1]["compute_infer"]["count"] += 2
    other = {**copy.deepcopy(RECORD), "name": "new"}
    between = difference(from_records([RECORD]), from_records([later, other]))
    first, second = between.to_dict("records")
    assert (first["inferences"], first["executions"], first["batch_size"]) == (6, 2, 3.0)
    assert first["queue_ms"] == 0.5
    assert first["batches"] == {3: 2}
    assert second["inferences"] == 10  # the model was loaded in between, so it counts from zero


def test_a_count_waits_until_the_server_has_counted() -> None:
    first, last = copy.deepcopy(RECORD), copy.deepcopy(RECORD)
    first["inference_stats"]["success"]["count"] += 2
    last["inference_stats"]["success"]["count"] += 2
    last["execution_count"] += 1
    said = iter([RECORD, first, last, last])

    class Late(Server):
        def statistics(self, model: str | None = None) -> list[dict[str, Any]]:
            return [next(said)]

    between = counted(Late("http://localhost:1"), "m", from_records([RECORD]), 2)
    assert (between["requests"].item(), between["executions"].item()) == (2, 1)
    assert list(said) == []


def test_a_model_without_requests_has_no_means() -> None:
    same = from_records([RECORD])
    (row,) = difference(same, same).to_dict("records")
    assert row["requests"] == 0
    assert np.isnan(row["queue_ms"])
    assert np.isnan(row["batch_size"])
    assert batch_sizes(from_records([])).empty


def test_a_model_loaded_again_in_between_is_an_error() -> None:
    fresh = copy.deepcopy(RECORD)
    fresh["inference_count"] = 1
    with pytest.raises(WorkbookError, match="went down"):
        difference(from_records([RECORD]), from_records([fresh]))


def _with_one_value_lost(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """A record with one of its parts gone or of another type."""
    record = copy.deepcopy(RECORD)
    place: Any = record
    while True:
        key = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or draw(st.booleans()):
            break
        place = place[key]
    if draw(st.booleans()):
        del place[key]
    else:
        place[key] = draw(st.none() | st.text(max_size=3) | st.lists(st.integers(), max_size=2))
    return record


@given(st.data())
@settings(max_examples=150)
def test_any_record_is_read_or_refused(data: st.DataObject) -> None:
    record = _with_one_value_lost(data.draw)
    try:
        table = from_records([record])
    except WorkbookError:
        return
    assert len(table) == 1


def test_metrics_keep_the_names_that_the_server_gives() -> None:
    text = (
        "# TYPE nv_inference_count counter\n"
        'nv_inference_count{model="m",version="1"} 7\n'
        "# TYPE requests_total counter\n"
        'requests_total{zone="a"} 2\n'
    )
    table = prometheus.from_text(text)
    assert list(table["metric"]) == ["nv_inference_count", "requests_total"]
    assert list(table["value"]) == [7.0, 2.0]
    assert list(table["zone"]) == ["", "a"]


METRICS = (
    '# HELP a Some help\n# TYPE a counter\na{model="m",version="1"} 7\n# TYPE b gauge\nb 1.5\n'
)


@given(_cut_and_changed(METRICS))
@settings(max_examples=150)
def test_any_metrics_are_read_or_refused(text: str) -> None:
    try:
        table = prometheus.from_text(text)
    except WorkbookError:
        return
    assert list(table.columns)[:4] == ["metric", "kind", "model", "version"]


def test_spans_of_a_trace(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(TRACE)
    table = trace_tables.traces(tmp_path / "t.json")
    spans = table.set_index("span")
    assert set(spans.index) == {
        "request", "queue", "compute_input", "compute_infer", "compute_output"
    }  # fmt: skip
    assert spans.loc["request", ["start_ms", "ms"]].tolist() == [0.0, 6.0]
    assert spans.loc["queue", ["start_ms", "ms"]].tolist() == [1.0, 1.0]
    assert set(table["model"]) == {"m"}
    assert set(table["request_id"]) == {"a"}


def test_a_trace_cut_off_anywhere_gives_what_is_whole(tmp_path: Path) -> None:
    whole = trace_tables._table(list(trace_tables._records(TRACE.encode())))
    for end in range(len(TRACE)):
        part = trace_tables._table(list(trace_tables._records(TRACE[:end].encode())))
        assert len(part) <= len(whole)
        assert set(part["ms"]) <= set(whole["ms"])
    last_stamp = TRACE.rindex('{"id"')
    cut = trace_tables._table(list(trace_tables._records(TRACE[:last_stamp].encode())))
    assert len(cut) == len(whole) - 1  # only the span that the lost timestamp ends


@given(_cut_and_changed(TRACE) | st.text(max_size=50), st.binary(max_size=4))
@settings(max_examples=150)
def test_any_trace_is_read(text: str, tail: bytes) -> None:
    table = trace_tables._table(list(trace_tables._records(text.encode() + tail)))
    assert list(table.columns) == trace_tables.COLUMNS


def test_numbered_trace_files_are_read_in_order(tmp_path: Path) -> None:
    for number in (0, 2, 10):
        (tmp_path / f"t.json.{number}").write_text(TRACE.replace('"id":1', f'"id":{number + 1}'))
    (tmp_path / "t.json.bak").write_text("not a trace")
    assert set(trace_tables.traces(tmp_path / "t.json")["trace"]) == {1, 3, 11}


def test_no_trace_and_no_trace_in_it_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match="no trace file"):
        trace_tables.traces(tmp_path / "none.json")
    (tmp_path / "other.json").write_text("hello there")
    with pytest.raises(WorkbookError, match="no trace that could be read"):
        trace_tables.traces(tmp_path / "other.json")
    (tmp_path / "empty.json").write_text("[]")
    assert trace_tables.traces(tmp_path / "empty.json").empty


def _loads(levels: list[int], scale: float = 1.0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "concurrency": levels,
            "throughput": [scale * 100.0 * x for x in levels],
            "p50_ms": [1.0 * x for x in levels],
            "p95_ms": [1.5 * x for x in levels],
            "p99_ms": [2.0 * x for x in levels],
        }
    )


def test_the_plot_shows_what_was_measured(tmp_path: Path) -> None:
    figure = plot_load(_loads([8, 1, 2]), title="a model")
    left, right = figure.axes
    (line,) = left.get_lines()
    assert line.get_xdata().tolist() == [1, 2, 8]
    assert line.get_ydata().tolist() == [100.0, 200.0, 800.0]
    assert [one.get_label() for one in right.get_lines()] == ["p99", "p95", "p50"]
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_plot_compares_tables_by_name() -> None:
    figure = plot_load({"one": _loads([1, 2]), "two": _loads([1, 4], scale=2)})
    left, right = figure.axes
    assert [line.get_label() for line in left.get_lines()] == ["one", "two"]
    assert len(right.get_lines()) == 4
    assert len({line.get_color() for line in left.get_lines()}) == 2
    assert len({line.get_marker() for line in left.get_lines()}) == 2


def test_the_plot_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(WorkbookError, match="empty"):
        plot_load(_loads([]))
    with pytest.raises(WorkbookError, match="p99_ms"):
        plot_load(_loads([1]).drop(columns="p99_ms"))
    with pytest.raises(WorkbookError, match="no axis in common"):
        plot_load({"a": _loads([1]), "b": _loads([1]).rename(columns={"concurrency": "rate"})})
    with pytest.raises(WorkbookError):
        plot_load({})
