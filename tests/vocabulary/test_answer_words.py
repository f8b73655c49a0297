"""Words about answers, on a real server where one answers."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe
from grader.vocabulary.tolerance import Tolerance
from tests import hidden_texts
from tests.vocabulary.conftest import Put
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import config

FLOATS = stn.arrays(
    np.float64, stn.array_shapes(max_dims=3, max_side=6), elements=st.floats(-1e6, 1e6)
)
HALF = Tolerance(0.5, "a half is allowed")
SMALL = Tolerance(1e-5, "it is float32")
P = np.float32([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
NAMES = ("cat", "dog")


# -- close -----------------------------------------------------------------------------------------


@given(FLOATS, st.data())
def test_close_counts_the_rows_that_are_off(expected: np.ndarray, data: Any) -> None:
    rows = data.draw(st.sets(st.integers(0, len(expected) - 1)))
    got = expected.copy()
    for row in rows:
        got[row] += 1.0
    if not rows:
        require.close(got, expected, what="it", tolerance=HALF)
        return
    with pytest.raises(Failure) as failure:
        require.close(got, expected, what="it", tolerance=HALF)
    assert f"It differ in {len(rows)} of {len(expected)} rows" in failure.value.rationale
    assert "a half is allowed" in failure.value.rationale


@given(FLOATS, st.floats(0, 1))
def test_close_allows_the_tolerance(expected: np.ndarray, part: float) -> None:
    got = expected + part * 0.25
    require.close(got, expected, what="it", tolerance=Tolerance(0.25 + 1e-9, "so it is"))


@pytest.mark.parametrize(
    ("got", "words"),
    [
        ([[1.0, 2.0]], "have the shape [1, 2]; expected is [2]"),
        (3.0, "have the shape []"),
        ([1.0], "have the shape [1]"),
        (["1", "2"], "are not numbers"),
        ([[1], [1, 2]], "are not numbers"),
        ([1 + 1j, 2], "are not numbers"),
        (object(), "are not numbers"),
        ([1.0, np.nan], "not finite"),
        ([1.0, np.inf], "not finite"),
    ],
)
def test_close_refuses_what_is_no_answer(got: Any, words: str) -> None:
    with pytest.raises(Failure, match=re.escape(words)):
        require.close(got, [1.0, 2.0], what="they", tolerance=Tolerance(9, ""))


# -- shape, probabilities, agreement, same_answer -------------------------------------------------


def test_shape() -> None:
    require.shape("m", P, (3, 2))
    with fails_with("m answers 3 rows with the shape [3, 2]; expected is [3, 1].", "Look at dims."):
        require.shape("m", P, (3, 1), help="Look at dims.")
    with fails_with("m answers 1 row with the shape [3, 2]; expected is [1, 2]."):
        require.shape("m", P, (1, 2))
    with fails_with("m answers 3 rows with LABEL of the shape [3, 2]; expected is [3, 1]."):
        require.shape("m", P, (3, 1), output="LABEL")


def test_checks_name_the_output_of_a_shape() -> None:
    """Each call in a check, and in the template of one, knows which output it looks at."""
    package = Path(require.__file__).parents[1]
    found = 0
    for file in [*hidden_texts.sources(), *package.glob("authoring/templates/*.py.in")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in ("require.shape", "shape"):
                found += 1
                named = {keyword.arg for keyword in node.keywords}
                assert "output" in named, f"{file.name}, line {node.lineno}"
    assert found > 8


def test_probabilities() -> None:
    assert require.probabilities("p", P.tolist(), 3, NAMES).shape == (3, 2)
    assert np.allclose(require.probabilities("p", P[:, 1], 3, NAMES, column=1), P[:, 1])


@pytest.mark.parametrize(
    ("value", "column", "words"),
    [
        (P[:, 1], None, "`p` has the shape [3]; expected is [3, 2]: a row for each row of data"),
        (P[:2], None, "`p` has the shape [2, 2]; expected is [3, 2]"),
        (P, 1, "`p` has the shape [3, 2]; expected is [3]: the probability of dog"),
        (P[:2], 1, "expected is [3]: the probability of dog for each row of data"),
        (P * 2, None, "3 of 6 values in `p` lie outside 0 to 1, so they are no probabilities."),
        (P / 2, None, "The columns of `p` do not add up to 1."),
        (P[:, 1] - 0.5, 1, "1 of 3 values in `p` lie outside 0 to 1"),
        ("text", None, "not made of numbers"),
    ],
)
def test_probabilities_that_are_none(value: Any, column: int | None, words: str) -> None:
    with fails_with(words):
        require.probabilities("p", value, 3, NAMES, column=column)


def _agree(got: np.ndarray, expected: Any = P) -> None:
    require.agreement("the table", got, expected, "the library's", tolerance=SMALL, classes=NAMES)


def test_agreement() -> None:
    _agree(P + np.float32(1e-6))
    with fails_with(
        "Of the table and the library's, one has the two columns exchanged.", "column 1 is dog"
    ):
        _agree(P[:, ::-1])
    three = np.float32([[0.1, 0.2, 0.7], [0.3, 0.5, 0.2]])
    with fails_with("one has columns in another order."):
        _agree(three[:, [1, 2, 0]], three)
    with fails_with("The table are all 0 or 1: these are classes."):
        _agree((P > 0.5).astype(np.float32))
    with fails_with(
        "The table differ in 1 of 3 rows, by up to 0.2. Allowed is 1e-05: it is float32.",
        "They are compared with the library's.",
    ):
        _agree(P + np.float32([[0.2], [0], [0]]))
    with fails_with("have the shape [2, 2]; expected is [3, 2]"):
        _agree(P[:2])
    with fails_with("not finite"):
        _agree(P * np.float32(np.nan))
    _agree(np.eye(2, dtype=np.float32), np.eye(2))  # confident in both rows, and correct


def test_same_answer() -> None:
    require.same_answer("served", P.tolist(), P)
    with fails_with("The two columns of `served` are exchanged.", "as it is"):
        require.same_answer("served", P[:, ::-1], P)
    with fails_with(
        "The values in `served` differ in 3 of 3 rows", "the server answers", "Ask again."
    ):
        require.same_answer("served", P**2, P, help="Ask again.")
    with fails_with("`served` is not a number"):
        require.same_answer("served", "text", P)
    require.same_answer("named", [b"cat", "dog"], ["cat", "dog"])
    with fails_with(
        "`named` holds 2 values; 1 of the 2 texts that the server answers is at the right"
    ):
        require.same_answer("named", ["cat", "cat"], ["cat", "dog"])
    with fails_with("`named` holds 1 value; 1 of the 2 texts"):
        require.same_answer("named", ["cat"], ["cat", "dog"])
    with fails_with("`message` is another text than the server answers.", "Send it again."):
        require.same_answer("message", "no cat", ["no dog"], help="Send it again.")
    require.same_answer("message", "no dog", ["no dog"])
    with fails_with("`named` holds numbers"):
        require.same_answer("named", [0, 1], ["cat", "dog"])


# -- labels, classes, decided ---------------------------------------------------------------------

LABELLED = config("x FP32 2", "y FP32 2").replace(
    'name: "y"', 'label_filename: "labels.txt" name: "y"'
)
ROWS = {"x": P}


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "stated", "file", "words"),
    [
        ("labels_right", LABELLED, "cat\ndog\n", ""),
        ("labels_exchanged", LABELLED, "dog\ncat\n", "3 of 3 labels are those of the other class."),
        ("labels_short", LABELLED, "cat\n", "line 1 of labels.txt, counted from 0"),
        ("labels_strange", LABELLED, "cat\nwolf\n", "answers with the label 'wolf'."),
        ("labels_none", config("x FP32 2", "y FP32 2"), "", "names a file of labels"),
        (
            "labels_shape",
            LABELLED.replace(
                '"y" data_type: TYPE_FP32 dims: [ 2 ]', '"y" data_type: TYPE_FP32 dims: [ -1 ]'
            ),
            "cat\ndog\n",
            "expected is [3, 2]",
        ),
    ],
)
def test_labels(name: str, stated: str, file: str, words: str, put: Put, probe: Probe) -> None:
    body = "answer(y=x[:, :1])" if "shape" in name else "answer(y=x)"
    put(name, body, stated, files={"labels.txt": file} if file else {})
    if not words:
        assert require.labels(probe, name, ROWS, "y", NAMES) == ["cat", "dog", "dog"]
        return
    with fails_with(words):
        require.labels(probe, name, ROWS, "y", NAMES)


@pytest.mark.server
@pytest.mark.quick
def test_labels_of_three(put: Put, probe: Probe) -> None:
    stated = LABELLED.replace("dims: [ 2 ]", "dims: [ 3 ]")
    put("labels_three", "answer(y=x)", stated, files={"labels.txt": "a\nc\nb\n"})
    rows = {"x": np.eye(3, dtype=np.float32)}
    with fails_with("2 of 3 labels are those of another class.", "The first line of labels.txt"):
        require.labels(probe, "labels_three", rows, "y", ("a", "b", "c"))


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("classes_right", "answer(y=(x[:, 1:] > 0.5).astype(np.float32))", ""),
        ("classes_both", "answer(y=x)", "answers 2 numbers per row; a class is one."),
        ("classes_not", "answer(y=x[:, 1:])", "answers numbers such as 0.1, which are no classes."),
        ("classes_nan", "answer(y=x[:, 1:] * np.float32(np.nan))", "such as nan"),
    ],
)
def test_classes(name: str, body: str, words: str, put: Put, probe: Probe) -> None:
    put(name, body, config("x FP32 2", "y FP32 -1"))
    if not words:
        assert require.classes(probe, name, ROWS, "y").tolist() == [0, 1, 1]
        return
    with fails_with(words, "Who decides?"):
        require.classes(probe, name, ROWS, "y", help="Who decides?")


def test_decided() -> None:
    p = P[:, 1]

    def decide(given: list[int], limit: float) -> None:
        require.decided(
            np.array(given), p, limit, "`p`", tolerance=SMALL, names=NAMES, help="Trained so?"
        )

    decide([0, 1, 1], 0.5)
    decide([0, 1, 0], float(p[2]))  # as near to the threshold as rounding may be
    decide([0, 1, 1], float(p[2]))
    with fails_with(
        "1 of 3 classes do not follow from `p` and the threshold 0.5 that", "Trained so?"
    ):
        decide([0, 1, 0], 0.5)
    with fails_with("and all do from 1 minus it: is it the probability of cat?", "Class 1 is dog"):
        decide([1, 0, 0], 0.5)


# -- batching -------------------------------------------------------------------------------------

DELAYED = config(
    "x FP32 2", "y FP32 2", "dynamic_batching { max_queue_delay_microseconds: 20000 }", batch=64
)


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "body", "stated", "words"),
    [
        ("batched_right", "answer(y=2 * x)", DELAYED, ""),
        ("batched_not", "answer(y=2 * x)", config(batch=64), "hardly any shared one"),
        # It answers every request of a batch with the rows of the first one.
        (
            "batched_mixed",
            "self.first = x if request is requests[0] else self.first\nanswer(y=2 * self.first)",
            DELAYED,
            "The answers to single rows differ in",
        ),
    ],
)
def test_batched(name: str, body: str, stated: str, words: str, put: Put, probe: Probe) -> None:
    put(name, body, stated)
    rows = {"x": probe.rng.random((40, 2), dtype=np.float32)}
    if not words:
        require.batched(probe, name, rows, "y", tolerance=SMALL)
        return
    with fails_with(words):
        require.batched(probe, name, rows, "y", tolerance=SMALL)


#: A model that answers one request after the other, and sends itself batches to look batched.
CALLS_ITSELF = """
if x[0, 0] >= 0 and request is requests[0]:
    rows = pb_utils.Tensor("x", np.full((32, 2), -1, np.float32))
    call = pb_utils.InferenceRequest(
        model_name="batched_by_itself", requested_output_names=["y"], inputs=[rows]
    )
    threading.Thread(target=call.exec).start()
answer(y=2 * x)
"""


@pytest.mark.server
@pytest.mark.quick
def test_batched_counts_what_the_check_has_sent(put: Put, probe: Probe) -> None:
    put("batched_by_itself", CALLS_ITSELF, DELAYED, before="import threading")
    rows = {"x": probe.rng.random((40, 2), dtype=np.float32)}
    with fails_with("The check has sent 40 requests of one row, and the server has counted"):
        require.batched(probe, "batched_by_itself", rows, "y", tolerance=SMALL)


@pytest.mark.parametrize(
    ("requests", "executions", "words"),
    [
        (114, 9, ""),
        ([[114]], 113, ""),
        (113, 1, ""),
        (342, 27, ""),
        (1, 1, "Your counts: 1 request, 1 execution. They do not show batching"),
        (114, 114, "must take fewer executions"),
        (114, 0, "They do not show batching"),
        (114, -3, "A count below 0 comes from a deploy between the two readings"),
        (9999, 3, "cannot be the server's: the task sends 114 requests, and a batch of m has at"),
        (1000, 3, "at most 256 rows"),
        (114.5, 3, "`requests` is 114.5; a whole number is wanted."),
        ("many", 3, "`requests` is not a number"),
        (114, [1, 2], "`executions` holds 2 values"),
        (1e300, 1e299, "cannot be the server's"),
        (float("inf"), 3, "`requests` holds NaN, None or infinity"),
    ],
)
def test_batch_counts(requests: Any, executions: Any, words: str) -> None:
    config = {"name": "m", "max_batch_size": 256}
    if not words:
        require.batch_counts(requests, executions, sent=114, config=config)
        return
    with fails_with(words):
        require.batch_counts(requests, executions, sent=114, config=config)


FOUR = [0, 500, 5000, 20_000]


@pytest.mark.parametrize(
    ("delays", "runs", "latencies", "words"),
    [
        (FOUR, [30, 12, 3, 2], [1.2, 1.9, 6.1, 21.4], ""),
        (FOUR[1:], [12, 3, 2], [2, 6, 21], "`delays` has 3 different values; the task asks for 4."),
        ([500] * 4, [3] * 4, [2] * 4, "`delays` has 1 different values"),
        ([1000, 1100, 5000, 1300], [3] * 4, [9] * 4, "`delays` goes from 1000 to 5000"),
        ([-1, 500, 5000, 20_000], [3] * 4, [30] * 4, "`delays` goes from -1"),
        ([0, 500, 5000, 200_000], [3] * 4, [300] * 4, "to 200000"),
        ([0, 0.5, 5000, 20_000], [3] * 4, [30] * 4, "`delays` holds fractions"),
        (FOUR, [3, 3, 3], [30] * 4, "`runs` has the shape [3]; expected is [4]"),
        (FOUR, [0, 3, 3, 3], [30] * 4, "`runs` goes from 0 to 3"),
        (FOUR, [300, 3, 3, 3], [30] * 4, "`runs` goes from 3 to 300"),
        (FOUR, [3] * 4, [1, 2, 3, 4], "With a delay of 5000 µs a single request took 3 ms"),
        (FOUR, [3] * 4, ["a"] * 4, "`latencies` is not a number"),
        ([0, 700, 7000, 20_000], [3] * 4, [30] * 4, "a delay of 5000 µs for m, which is none of"),
    ],
)
def test_delays(delays: Any, runs: Any, latencies: Any, words: str) -> None:
    config = {"name": "m", "dynamic_batching": {"max_queue_delay_microseconds": "5000"}}
    limits = {"sent": 114, "at_least": 4, "longest": 100_000}
    if not words:
        require.delays(delays, runs, latencies, config=config, **limits)
        return
    with fails_with(words):
        require.delays(delays, runs, latencies, config=config, **limits)
