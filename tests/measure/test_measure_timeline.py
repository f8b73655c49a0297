"""Plans of requests, recordings, the timeline and the live view, on a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbook import measure
from workbook.common.errors import WorkbookError
from workbook.measure import trace_tables
from workbook.server import Triton

MODEL = """\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.01)
        inputs = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * x)]) for x in inputs]
"""
CONFIG = """\
backend: "python"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { count: COUNT kind: KIND_CPU } ]
"""
SEQUENCES = "sequence_batching { oldest { max_candidate_sequences: 4 } }"
VARIANTS = {
    "single": CONFIG.replace("COUNT", "1"),
    "pair": CONFIG.replace("COUNT", "2"),
    "batched": CONFIG.replace("COUNT", "1") + "dynamic_batching { }",
    "states": CONFIG.replace("COUNT", "1") + SEQUENCES,
}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server that can be recorded, with the four variants of one model."""
    models = tmp_path_factory.mktemp("models")
    for name, config in VARIANTS.items():
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(config)
        (models / name / "1" / "model.py").write_text(MODEL)
    trace = {"file": tmp_path_factory.mktemp("trace") / "t.json", "rate": 1, "level": "OFF"}
    with Triton(models, models=VARIANTS, trace=trace) as server:
        yield server


def _spans(rows: list[tuple[int, float, float, float]], model: str = "m") -> pd.DataFrame:
    """Spans of requests; a row has the number, begin of waiting, begin and end of computing."""
    parts = []
    for trace, waits, begins, ends in rows:
        for span, start, stop in (
            ("request", waits, ends), ("queue", waits, begins), ("compute_input", begins, begins),
            ("compute_infer", begins, ends), ("compute_output", ends, ends),
        ):  # fmt: skip
            parts.append((trace, 0, f"r{trace}", model, "1", span, start, stop - start))
    return pd.DataFrame(parts, columns=trace_tables.COLUMNS)


@pytest.mark.quick
def test_requests_that_are_computed_together_share_an_execution() -> None:
    table = measure.executions(
        _spans([(1, 5, 10, 20), (2, 6, 10, 20), (3, 7, 12, 15), (4, 8, 20, 30)])
    )
    assert table["execution"].tolist() == [1, 1, 2, 3]
    assert table["size"].tolist() == [2, 2, 1, 1]
    assert table["place"].tolist() == [0, 1, 0, 0]
    assert table["lane"].tolist() == [0, 0, 1, 0]
    assert table["queued_ms"].tolist() == [0, 1, 2, 3]
    assert table["end_ms"].tolist() == [15, 15, 10, 25]


bars = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=25)


@given(bars)
@settings(max_examples=60)
def test_bars_of_a_lane_never_overlap(drawn: list[tuple[int, int]]) -> None:
    rows = [(i + 1, 0.0, float(a), float(a + n)) for i, (a, n) in enumerate(drawn)]
    rows = list({begin: row for row in rows for begin in [row[2]]}.values())
    table = measure.executions(_spans(rows))
    assert len(table) == len(rows)
    for _, lane in table.sort_values("start_ms").groupby("lane"):
        assert (lane["start_ms"].to_numpy()[1:] >= lane["end_ms"].to_numpy()[:-1]).all()
    busy = [sum(a <= t < a + n for _, _, a, e in rows for n in [e - a]) for t in range(80)]
    assert table["lane"].max() + 1 == max(busy)  # no more lanes than were needed


def test_no_span_is_no_execution() -> None:
    assert measure.executions(pd.DataFrame(columns=trace_tables.COLUMNS)).empty
    with pytest.raises(WorkbookError, match="no execution"):
        measure.plot_timeline(pd.DataFrame(columns=trace_tables.COLUMNS))


def test_rows_stand_in_the_order_of_sending() -> None:
    came = {"r2": 0.1, "r10": 0.2, "late": 9.0, "r1": 0.3, "u1": 0.25, "7": 4.0}
    assert trace_tables.in_order(came) == ["r1", "r2", "u1", "r10", "7", "late"]


@pytest.mark.parametrize("instances", [1, 8])
def test_a_timeline_of_many_requests_fits_a_screen(instances: int) -> None:
    begins = [20 * (i // instances) + 0.1 * (i % instances) for i in range(64)]
    rows = [(i + 1, 0.0, begin, begin + 20) for i, begin in enumerate(begins)]
    picture = measure.plot_timeline(_spans(rows))
    assert picture.get_figheight() <= 6.8  # about 600 pixels
    names = [label.get_text() for label in picture.axes[0].get_yticklabels()]
    assert 16 <= len(names) <= 32


def _counted(traced: Triton, model: str, requests: int) -> pd.DataFrame:
    """A model's counts, once they include all its requests: the server answers, then counts."""
    for _ in range(200):
        counts = measure.statistics(traced, model)
        if counts["requests"].item() == requests:
            break
        time.sleep(0.02)
    assert counts["requests"].item() == requests
    return counts


@pytest.mark.server
def test_a_recording_holds_what_was_sent_in_it_and_no_more(traced: Triton) -> None:
    measure.send(traced, "batched", measure.every(0, 3, name="before"))
    before = _counted(traced, "batched", 3)
    seen = []
    for sent, name in ((15, "first"), (27, "second")):
        with measure.recording(traced) as recorded:
            answers = measure.send(traced, "batched", measure.every(1, 12, name=name))
        after = _counted(traced, "batched", sent)
        between = measure.difference(before, after)
        before = after
        table = measure.executions(recorded.spans)
        assert set(table["request_id"]) == set(answers["id"])
        assert table["execution"].nunique() == between["executions"].item() < 12
        sizes = table.drop_duplicates("execution")["size"].value_counts().to_dict()
        assert sizes == between["batches"].item()
        seen.append(table)
    assert set(seen[0]["request_id"]).isdisjoint(seen[1]["request_id"])


@pytest.mark.server
def test_two_instances_are_two_lanes(traced: Triton) -> None:
    with measure.recording(traced) as recorded:
        measure.send(traced, "single", measure.every(0, 6))
        measure.send(traced, "pair", measure.every(0, 6, name="p"))
    lanes = measure.executions(recorded.spans).groupby("model")["lane"].max() + 1
    assert lanes.to_dict() == {"single": 1, "pair": 2}
    picture = measure.plot_timeline(recorded.spans)
    assert picture.description == (
        "Timeline: 12 requests, 12 executions on 3 lanes; requests per execution: "
        + ", ".join("1" * 12) + "."
    )  # fmt: skip
    data = picture._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert data["text/plain"] == picture.description


@pytest.mark.server
def test_a_server_without_a_trace_file_says_so(server: Triton) -> None:
    with pytest.raises(WorkbookError, match="no trace file"), measure.recording(server):
        pass


@pytest.mark.server
def test_answers_come_in_the_order_of_the_plan_with_outputs_or_errors(traced: Triton) -> None:
    good = measure.Request("good", inputs={"x": np.array([[1, 2], [3, 4]], np.float32)})
    bad = measure.Request("bad", inputs={"x": np.zeros((1, 3), np.float32)})
    answers = measure.send(traced, "single", [good, bad, measure.Request("zeros")])
    assert answers["id"].tolist() == ["good", "bad", "zeros"]
    assert answers["outputs"][0]["y"].tolist() == [[2, 4], [6, 8]]
    assert answers["outputs"][1] == {}
    assert "unexpected shape" in answers["error"][1]
    assert answers["outputs"][2]["y"].tolist() == [[0, 0]]
    assert (answers["ms"] > 0).all()


@pytest.mark.server
def test_a_sequence_waits_for_its_own_answers(traced: Triton) -> None:
    plan = [
        measure.Request(f"{name}{i}", sequence=number, start=i == 0, end=i == 2)
        for name, number in (("a", 7), ("b", 8))
        for i in range(3)
    ]
    answers = measure.send(traced, "states", plan).set_index("id")
    assert (answers["error"] == "").all()
    for name in "ab":
        for i in (1, 2):
            assert answers["sent_ms"][f"{name}{i}"] >= answers["answered_ms"][f"{name}{i - 1}"]


def test_an_empty_plan_is_refused() -> None:
    with pytest.raises(WorkbookError, match="empty"):
        measure.send("http://localhost:9", "m", [])


@pytest.mark.server
def test_the_live_view_adds_up(traced: Triton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_UNATTENDED", "1")
    before = measure.statistics(traced, "batched")
    load = lambda: measure.send(traced, "batched", measure.every(5, 200))  # noqa: E731
    table = measure.watch(traced, "batched", load, step=0.25)
    between = measure.difference(before, measure.statistics(traced, "batched"))
    assert 0 < table["requests"].sum() <= between["requests"].item() == 200
    assert (table["compute_infer_ms"] >= 10).all()
    assert table["seconds"].is_monotonic_increasing


@pytest.mark.server
def test_the_live_view_raises_what_the_load_raised(traced: Triton) -> None:
    with pytest.raises(WorkbookError, match="empty"):
        measure.watch(traced, "single", lambda: measure.send(traced, "single", []), step=0.05)
    with pytest.raises(WorkbookError, match="answered nothing"):
        measure.watch(traced, "single", lambda: None, step=0.05)
