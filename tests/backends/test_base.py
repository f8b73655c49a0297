"""What all stand-ins share, on the real server: batching, ragged batches, state, parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import Counts, infer, infer_together, load_all
from tritonclient.utils import InferenceServerException

from workbook.backends import batching
from workbook.server import Triton

# -- the pure functions -------------------------------------------------------------------------

rows_lists = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(rows_lists, st.lists(st.integers(0, 3), max_size=2))
def test_split_undoes_join(rows: list[int], dims: list[int]) -> None:
    total = sum(rows) * math.prod(dims)
    numbers = iter(range(total))
    parts = [
        np.array([next(numbers) for _ in range(r * math.prod(dims))]).reshape(r, *dims)
        for r in rows
    ]
    whole = batching.join(parts)
    back = batching.split(whole, rows)
    assert len(back) == len(parts)
    for part, again in zip(parts, back, strict=True):
        assert again is not None
        np.testing.assert_array_equal(part, again)
        assert again.size == 0 or np.shares_memory(again, whole)


@given(rows_lists, st.integers(0, 20))
def test_split_of_a_short_output_leaves_out_whom_it_does_not_reach(
    rows: list[int], have: int
) -> None:
    back = batching.split(np.zeros((have, 2)), rows)
    assert [b is not None for b in back] == [s <= have for s in np.cumsum(rows)]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=6))
def test_scatter_undoes_flatten(shapes: list[tuple[int, int]]) -> None:
    parts = [np.random.default_rng(i).normal(size=s) for i, s in enumerate(shapes)]
    flat = batching.flatten(parts)
    assert flat.shape == (sum(math.prod(s) for s in shapes),)
    for part, again in zip(parts, batching.scatter(flat, shapes), strict=True):
        assert again is not None
        np.testing.assert_array_equal(part, again)
    if math.prod(shapes[-1]):
        assert batching.scatter(flat[:-1], shapes)[-1] is None


def test_a_single_request_is_not_copied() -> None:
    array = np.zeros((2, 3))
    assert batching.join([array]) is array
    assert np.shares_memory(batching.flatten([array]), array)


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("BATCH_ELEMENT_COUNT", [3, 8]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", [3, 11]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 3, 11]),
        ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [0] * 8),
        ("BATCH_ITEM_SHAPE", [[3], [4], [4]]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [3, 4, 4]),
    ],
)
def test_batch_inputs_as_the_documentation_gives_them(kind: str, made: list[Any]) -> None:
    assert kind in batching.BATCH_INPUT_KINDS
    array = batching.batch_input(kind, np.float32, [(1, 3), (2, 4)])
    assert array.dtype == np.float32
    assert array.tolist() == made


# -- on the server ------------------------------------------------------------------------------

HEAD = """
from workbook.backends.base import *
import numpy as np

class TritonPythonModel(StandIn):
    backend = "example"

    def load(self):
        pass
"""
ECHO = "max_batch_size: 8 instance_group [{ count: 1 kind: KIND_CPU }]"
TWO = "max_batch_size: 8 instance_group [{ count: 2 kind: KIND_CPU }]"
GATHERED = "dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 400000 }"
X = 'input [{ name: "x" data_type: TYPE_FP32 dims: [2] }]'
Y = 'output [{ name: "y" data_type: TYPE_FP32 dims: [2] }]'
OPTIONS = 'parameters [{{ key: "{}" value: {{ string_value: "{}" }} }}]'

STATES = """
  control_input [{ name: "READY"
                   control [{ kind: CONTROL_SEQUENCE_READY int32_false_true: [0, 1] }] }]
  state [{ input_name: "old" output_name: "new" data_type: TYPE_FP32 dims: [2]
           initial_state { name: "start" data_type: TYPE_FP32 dims: [2] data_file: "start" } }]"""
SUM = (
    HEAD
    + """
    def infer(self, inputs, outputs):
        new = inputs["old"] + inputs["x"]
        if (inputs["x"][inputs["READY"][:, 0] == 1] < 0).any():
            raise BadRequest("x must not be negative")
        return {"new": new, "y": 10 * new}
"""
)
RAGGED_KINDS = sorted(batching.BATCH_INPUT_KINDS)
RAGGED = (
    HEAD
    + """
    def infer(self, inputs, outputs):
        x = inputs["x"]
        n = len(inputs["BATCH_ELEMENT_COUNT"])
        seen = np.zeros((n, 40), np.float32)
        seen[:, 0] = x.ndim
        seen[:, 1] = x.size
        at = 2
        for kind in KINDS:
            flat = inputs[kind].reshape(-1)
            seen[:, at] = flat.size
            seen[:, at + 1 : at + 1 + flat.size] = flat
            at += 1 + flat.size
        return {"seen": seen, "twice": 2 * x}
""".replace("KINDS", repr(RAGGED_KINDS))
)

# The same model twice: `plain` takes the short way if it can, `careful` always the long one.
PLAIN_CONFIG = f"{ECHO} dynamic_batching {{ max_queue_delay_microseconds: 3000 }} " + (
    'input [{ name: "x" data_type: TYPE_FP32 dims: [-1] }] '
    'output [{ name: "y" data_type: TYPE_FP32 dims: [-1] }]'
)
PLAIN = (
    HEAD
    + """
    def infer(self, inputs, outputs):
        x = inputs["x"]
        if (x < 0).any():
            raise BadRequest(f"x must not be negative: {x.min()}")
        if (x == 7).any():
            raise ValueError("seven")
        return {"y": 2 * x}
"""
)
SAME_TYPES = (
    HEAD
    + """
        import importlib.util
        import triton_python_backend_utils as used
        spec = importlib.util.spec_from_file_location("fresh", used.__file__)
        fresh = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(fresh)
        if used.numpy_to_triton_type is fresh.numpy_to_triton_type:
            raise BadModel("the tables are not in use")
        codes = [*np.typecodes["All"], ">f4", "<i8", "S5", "U3", "f4,i4"]
        for kind in map(np.dtype, codes):
            if used.numpy_to_triton_type(kind) != fresh.numpy_to_triton_type(kind):
                raise BadModel(f"another number for {kind}")
        for number in range(20):
            if used.triton_to_numpy_type(number) is not fresh.triton_to_numpy_type(number):
                raise BadModel(f"another type for {number}")
"""
)

MODELS: dict[str, tuple[str, str]] = {
    "plain": (PLAIN_CONFIG, PLAIN),
    "careful": (PLAIN_CONFIG, PLAIN.replace("pass", "self._plain = None")),
    "short_way_only": (
        PLAIN_CONFIG,
        PLAIN
        + """
    def _take(self, position, request):
        raise BadRequest("the long way")
""",
    ),
    "types": (f"{ECHO} {X} {Y}", SAME_TYPES),
    "mates": (
        f"{ECHO} {GATHERED} {X} {Y}",
        HEAD
        + """
    def infer(self, inputs, outputs):
        x = inputs["x"]
        if (x < 0).any():
            raise BadRequest("x must not be negative")
        if (x == 7).any():
            raise ValueError("seven")
        return {"y": x + len(x)}
""",
    ),
    "picky": (
        f"{ECHO} dynamic_batching {{ max_queue_delay_microseconds: 3000 }} {X} "
        "output [{ name: 'a' data_type: TYPE_FP32 dims: [2] }, "
        "{ name: 'b' data_type: TYPE_STRING dims: [1] }]",
        HEAD
        + """
    def infer(self, inputs, outputs):
        words = np.array([[" ".join(outputs)]] * len(inputs["x"]), dtype=object)
        return {n: {"a": inputs["x"], "b": to_bytes(words)}[n] for n in outputs}
""",
    ),
    "short": (
        f"{ECHO} {GATHERED} {X} {Y}",
        HEAD + '\n    def infer(self, inputs, outputs):\n        return {"y": inputs["x"][:3]}\n',
    ),
    "scalar": (
        "instance_group [{ count: 1 kind: KIND_CPU }] "
        f"{X} output [{{ name: 'y' data_type: TYPE_FP32 dims: [1, 1] }}]",
        HEAD + '\n    def infer(self, inputs, outputs):\n        return {"y": inputs["x"].sum()}\n',
    ),
    "flags": (
        f"{ECHO} {X} {Y} " + OPTIONS.format("flag", "perhaps"),
        HEAD.replace("pass", 'self.config.boolean("flag", True)'),
    ),
    "numbers": (
        f"{ECHO} {X} {Y} " + OPTIONS.format("number", "two"),
        HEAD.replace("pass", 'self.config.integer("number", 1)'),
    ),
    "small": (
        f"{ECHO} {X} {Y} " + OPTIONS.format("number", " 3x"),
        HEAD.replace("pass", 'self.config.integer("number", 1, least=4)'),
    ),
    "nofile": (
        f"{ECHO} {X} {Y} default_model_filename: 'model.py'",
        HEAD.replace(
            "pass",
            'self.config.raw["default_model_filename"] = ""\n'
            '        self.config.file("weights.bin")',
        ),
    ),
    "ragged": (
        "max_batch_size: 8 instance_group [{ count: 1 kind: KIND_CPU }] "
        "dynamic_batching { preferred_batch_size: [3] max_queue_delay_microseconds: 400000 } "
        'input [{ name: "x" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true }] '
        'output [{ name: "seen" data_type: TYPE_FP32 dims: [40] }, '
        '{ name: "twice" data_type: TYPE_FP32 dims: [-1] }] batch_input ['
        + ",".join(
            f'{{ kind: {k} target_name: "{k}" data_type: TYPE_FP32 source_input: "x" }}'
            for k in RAGGED_KINDS
        )
        + "] batch_output [{ kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: 'twice' "
        "source_input: 'x' }]",
        RAGGED,
    ),
    "direct": (f"{TWO} {X} {Y} sequence_batching {{ direct {{ }} {STATES} }}", SUM),
    "oldest": (
        f"{TWO} {X} {Y} sequence_batching {{ oldest {{ max_candidate_sequences: 4 }} {STATES} }}",
        SUM,
    ),
    "shown": (
        f"{ECHO} {X} output [{{ name: 'new' data_type: TYPE_FP32 dims: [2] }}] "
        f"sequence_batching {{ direct {{ }} {STATES} }}",
        SUM,
    ),
}
REFUSED = {
    "flags": "failed to convert 'perhaps' to boolean: parameter flag",
    "numbers": "failed to convert 'two' to integral number: parameter number",
    "small": "parameter number is 3; it must be at least 4",
    "nofile": "failed to stat file",
}


@pytest.fixture(scope="module")
def refusals(server: Triton) -> dict[str, str]:
    """All models, loaded; what the server said of those that failed."""
    for name, (config, code) in MODELS.items():
        folder = server.repository / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(f'backend: "python" {config}')
        (folder / "1" / "model.py").write_text(code)
        (folder / "initial_state").mkdir()
        start = np.array([100, 200], np.float32)
        (folder / "initial_state" / "start").write_bytes(start.tobytes())
    return load_all(server, MODELS)


@pytest.fixture(scope="module")
def served(server: Triton, refusals: dict[str, str]) -> Triton:
    assert {n: message for n, message in refusals.items() if message and n not in REFUSED} == {}
    return server


@pytest.mark.server
@pytest.mark.parametrize(("model", "words"), REFUSED.items())
def test_parameters_and_files_are_refused_in_upstreams_words(
    refusals: dict[str, str], model: str, words: str
) -> None:
    assert words in refusals[model]


@pytest.mark.server
@pytest.mark.quick
def test_one_bad_request_does_not_harm_its_batch_mates(served: Triton) -> None:
    count = Counts(served, "mates")
    values = [1, -1, 2, 3, 7, 4, 5, 6]
    answers = infer_together(
        served, "mates", [{"x": np.full((1, 2), v, np.float32)} for v in values]
    )
    assert str(answers[1]).endswith("x must not be negative")
    assert str(answers[4]).endswith("ValueError: seven")
    good = [v for v in values if v not in (-1, 7)]
    got = [a.as_numpy("y")[0, 0] for a in answers if not isinstance(a, Exception)]
    assert got == [v + 1 for v in good]  # each of them alone, after the batch had failed
    assert count.since(8) == (8, 1)


@pytest.mark.server
@pytest.mark.quick
def test_good_requests_are_answered_in_one_batch(served: Triton) -> None:
    count = Counts(served, "mates")
    requests = [{"x": np.full((r, 2), 10 * i, np.float32)} for i, r in enumerate((1, 3, 2, 2), 1)]
    answers = infer_together(served, "mates", requests)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_array_equal(answer.as_numpy("y"), request["x"] + 8)
    assert count.since(8) == (8, 1)


@pytest.mark.server
def test_only_the_outputs_asked_for_are_made_and_sent_in_the_configs_order(served: Triton) -> None:
    x = {"x": np.ones((2, 2), np.float32)}
    both = infer(served, "picky", x)
    assert [o.name for o in both.get_response().outputs] == ["a", "b"]
    assert both.as_numpy("b").tolist() == [[b"a b"], [b"a b"]]
    one = infer(served, "picky", x, outputs=[grpcclient.InferRequestedOutput("b")])
    assert [o.name for o in one.get_response().outputs] == ["b"]
    assert one.as_numpy("b").tolist() == [[b"b"], [b"b"]]


@pytest.mark.server
def test_an_output_with_too_few_rows_reaches_the_first_requests_only(served: Triton) -> None:
    answers = infer_together(
        served, "short", [{"x": np.full((2, 2), i, np.float32)} for i in range(4)]
    )
    failed = [str(a) for a in answers if isinstance(a, Exception)]
    assert len(failed) == 3
    assert any(
        "failed to split the output tensor 'y' in responses: expected batch size of at least 4 in "
        "model output, got 3" in words
        for words in failed
    )


@pytest.mark.server
def test_a_scalar_output_takes_the_configs_dims(served: Triton) -> None:
    answer = infer(served, "scalar", {"x": np.array([1, 2], np.float32)}).as_numpy("y")
    assert answer.tolist() == [[3.0]]


@pytest.mark.server
def test_a_ragged_batch_is_flat_and_its_batch_inputs_describe_it(served: Triton) -> None:
    count = Counts(served, "ragged")
    lengths = (3, 1, 5)
    requests = [{"x": np.arange(n, dtype=np.float32)[None]} for n in lengths]
    answers = infer_together(served, "ragged", requests)
    assert count.since(3) == (3, 1)
    seen = [a.as_numpy("seen")[0].tolist() for a in answers]
    assert seen[0] == seen[1] == seen[2]
    order = [a.as_numpy("twice").shape[1] for a in answers]
    assert order == list(lengths)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_array_equal(answer.as_numpy("twice"), 2 * request["x"])
    ndim, size, *rest = seen[0]
    assert (ndim, size) == (1, 9)
    found = {}
    for kind in RAGGED_KINDS:
        count = int(rest[0])
        found[kind], rest = rest[1 : 1 + count], rest[1 + count :]
    arrived = found["BATCH_ELEMENT_COUNT"]  # the server chooses the order of the requests
    assert sorted(arrived) == [1, 3, 5]
    for kind, made in found.items():
        expected = batching.batch_input(kind, np.float32, [(1, int(n)) for n in arrived])
        assert made == expected.reshape(-1).tolist(), kind


@pytest.mark.server
@pytest.mark.parametrize("model", ["direct", "oldest"])
def test_implicit_state_follows_each_sequence(served: Triton, model: str) -> None:
    start = np.array([[100, 200]], np.float32)
    sums: dict[int, Any] = {}
    rng = np.random.default_rng(0)
    with served.grpc_client() as client:
        for step in range(4):
            for sequence in (11, 12, 13):
                x = rng.integers(0, 9, (1, 2)).astype(np.float32)
                sums[sequence] = (start if step == 0 else sums[sequence]) + x
                value = grpcclient.InferInput("x", [1, 2], "FP32")
                value.set_data_from_numpy(x)
                answer = client.infer(
                    model,
                    [value],
                    sequence_id=sequence,
                    sequence_start=step == 0,
                    sequence_end=step == 3,
                )
                np.testing.assert_array_equal(answer.as_numpy("y"), 10 * sums[sequence])
                assert answer.as_numpy("new") is None  # a state is not an output
    again = infer(
        served, model, {"x": np.zeros((1, 2), np.float32)}, sequence_id=11, sequence_start=True
    )
    np.testing.assert_array_equal(again.as_numpy("y"), 10 * start)  # START resets


@pytest.mark.server
def test_a_failed_request_leaves_its_sequences_state_alone(served: Triton) -> None:
    def send(value: float, **flags: bool) -> Any:
        x = {"x": np.full((1, 2), value, np.float32)}
        return infer(served, "direct", x, sequence_id=21, **flags)

    send(1, sequence_start=True)
    with pytest.raises(InferenceServerException, match="x must not be negative"):
        send(-5)
    assert send(2, sequence_end=True).as_numpy("y").tolist() == [[1030.0, 2030.0]]


@pytest.mark.server
def test_a_state_that_is_an_output_too_is_sent(served: Triton) -> None:
    x = {"x": np.ones((1, 2), np.float32)}
    first = infer(served, "shown", x, sequence_id=31, sequence_start=True)
    second = infer(served, "shown", x, sequence_id=31, sequence_end=True)
    assert first.as_numpy("new").tolist() == [[101.0, 201.0]]
    assert second.as_numpy("new").tolist() == [[102.0, 202.0]]


@pytest.mark.server
@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.floats(0, 6, width=32).map(abs)), min_size=1, max_size=6
    )
)
def test_whatever_is_sent_together_comes_back_to_its_sender(
    served: Triton, sent: list[tuple[int, float]]
) -> None:
    requests = [{"x": np.full((r, 2), v, np.float32)} for r, v in sent]
    answers = infer_together(served, "picky", requests)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_array_equal(answer.as_numpy("a"), request["x"])


@pytest.mark.server
@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 2), st.sampled_from([-2, -1, 0, 1, 5, 7])),
        min_size=1,
        max_size=6,
    )
)
def test_the_short_way_answers_as_the_long_one(
    served: Triton, sent: list[tuple[int, int, int]]
) -> None:
    requests = [{"x": np.full((rows, width), v, np.float32)} for rows, width, v in sent]
    short, long = (infer_together(served, model, requests) for model in ("plain", "careful"))
    for request, one, other in zip(requests, short, long, strict=True):
        if isinstance(other, Exception):
            assert str(one) == str(other)
        else:
            np.testing.assert_array_equal(one.as_numpy("y"), other.as_numpy("y"))
            np.testing.assert_array_equal(one.as_numpy("y"), 2 * request["x"])


@pytest.mark.server
def test_what_fits_into_one_batch_goes_the_short_way(served: Triton) -> None:
    good, bad = (np.full((2, 2), value, np.float32) for value in (1, -1))
    assert infer(served, "short_way_only", {"x": good}).as_numpy("y").tolist() == [[2, 2], [2, 2]]
    with pytest.raises(InferenceServerException, match="the long way"):
        infer(served, "short_way_only", {"x": bad})
