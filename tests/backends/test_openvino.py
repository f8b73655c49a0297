"""The OpenVINO stand-in on the real server: right, wrong and missing configs, batches, settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from loading import Counts, infer, infer_together, load_all
from openvino import layout_helpers, opset13
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = pytest.mark.server

WEIGHTS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)

Model = Callable[[], ov.Model]


def dense(first: int = -1, *, layout: bool = False) -> ov.Model:
    """y = x · w, for batches of `first` rows."""
    x = opset13.parameter([first, 4], ov.Type.f32, name="x")
    x.output(0).tensor.set_names({"x"})
    y = opset13.matmul(x, opset13.constant(WEIGHTS), False, False)
    y.output(0).tensor.set_names({"y"})
    result = opset13.result(y)
    model = ov.Model([result], [x], "dense")
    if layout:
        layout_helpers.set_layout(model.input(0), ov.Layout("NC"))
        layout_helpers.set_layout(model.output(0), ov.Layout("NC"))
    return model


def doubled(shape: list[int]) -> ov.Model:
    """y = x + x."""
    x = opset13.parameter(shape, ov.Type.f32, name="x")
    x.output(0).tensor.set_names({"x"})
    y = opset13.add(x, x)
    y.output(0).tensor.set_names({"y"})
    return ov.Model([opset13.result(y)], [x], "doubled")


def positions() -> ov.Model:
    """Where x is not 0: two rows, and at most as many columns as x has numbers."""
    x = opset13.parameter([1, 8], ov.Type.f32, name="x")
    x.output(0).tensor.set_names({"x"})
    y = opset13.non_zero(x, "i64")
    y.output(0).tensor.set_names({"y"})
    return ov.Model([opset13.result(y)], [x], "positions")


def lookup() -> ov.Model:
    """One row of a table for each index; it has no batch dimension of its own."""
    i = opset13.parameter([-1], ov.Type.i64, name="i")
    i.output(0).tensor.set_names({"i"})
    y = opset13.reshape(i, opset13.constant(np.array([2, 2])), False)
    y.output(0).tensor.set_names({"y"})
    return ov.Model([opset13.result(y)], [i], "pairs")


ONE = "instance_group [{ count: 1 kind: KIND_CPU }] "
BATCH = f"max_batch_size: 8 {ONE}"


def io(kind: str, name: str, data_type: str, dims: str, more: str = "") -> str:
    """One entry of `input` or `output`."""
    return f'{kind} [{{ name: "{name}" data_type: TYPE_{data_type} dims: {dims} {more} }}] '


def option(key: str, value: str) -> str:
    """One parameter."""
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }} '


# A model with a variable dimension; its config without tensors is completed with -1 throughout.
NOT_COMPLETED = (
    "model '{}', tensor '{}': the model expects 2 dimensions (shape [{}]) but the model "
    "configuration specifies 2 dimensions (shape [{}])"
)
X4 = io("input", "x", "FP32", "[-1, 4]")
X, Y = io("input", "x", "FP32", "[4]"), io("output", "y", "FP32", "[3]")
WHOLE = io("input", "x", "FP32", "[-1, 4]") + io("output", "y", "FP32", "[-1, 3]")
PADDED = option("ENABLE_BATCH_PADDING", "Yes")
GATHERED = "dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 400000 } "


@dataclasses.dataclass(frozen=True)
class Case:
    """A model folder, and the server's words if it is to be refused."""

    model: Model
    config: str
    refusal: str = ""
    file: str = "model.xml"


CASES: dict[str, Case] = {
    # right
    "padded": Case(dense, f"{BATCH} {GATHERED} {X} {Y} {PADDED}"),
    "full_only": Case(dense, f"{BATCH} {GATHERED} {X} {Y}"),
    "any_rows": Case(dense, f"{ONE} {WHOLE}"),
    "converted": Case(
        dense,
        f"{ONE}" + io("input", "x", "UINT8", "[-1, 4]") + io("output", "y", "FP16", "[-1, 3]"),
    ),
    "reshaped": Case(
        lambda: doubled([2, 4]),
        f"{ONE}"
        + io("input", "x", "FP32", "[-1, -1]")
        + io("output", "y", "FP32", "[-1, -1]")
        + option("RESHAPE_IO_LAYERS", "YES"),
    ),
    "named": Case(dense, f"{ONE} {WHOLE} default_model_filename: 'net.xml'", file="net.xml"),
    "pairs": Case(
        lookup, f"{ONE}" + io("input", "i", "INT64", "[-1]") + io("output", "y", "INT64", "[2, 2]")
    ),
    "between": Case(
        positions,
        ONE + io("input", "x", "FP32", "[1, 8]") + io("output", "y", "INT64", "[2, 4]"),
    ),
    # missing
    "fixed": Case(lambda: dense(2), ONE),
    "layout": Case(lambda: dense(2, layout=True), ONE),
    "only_batch": Case(lambda: dense(2), BATCH),
    "only_inputs": Case(dense, f"{BATCH} {Y}"),
    "nothing": Case(dense, "", NOT_COMPLETED.format("nothing", "x", "-1,4", "-1,-1")),
    "no_output": Case(
        dense, f"{ONE} {X4}", NOT_COMPLETED.format("no_output", "y", "-1,3", "-1,-1")
    ),
    "free_layout": Case(
        lambda: dense(layout=True), ONE, "tensor 'y': the model expects 2 dimensions (shape [4,3])"
    ),
    # settings
    "set": Case(
        dense,
        f"{ONE} {WHOLE}"
        + option("INFERENCE_NUM_THREADS", "1")
        + option("NUM_STREAMS", "1")
        + option("PERFORMANCE_HINT", "THROUGHPUT")
        + option("SKIP_OV_DYNAMIC_BATCHSIZE", "YES")
        + option("HINT_BF16", "yes"),
    ),
    # wrong
    "missing_file": Case(dense, f"{ONE} {WHOLE}", "unable to find '", file="other.xml"),
    "input_name": Case(
        dense,
        f"{BATCH} {Y}" + io("input", "in", "FP32", "[4]"),
        "unexpected inference input 'in', allowed inputs are: x",
    ),
    "output_name": Case(
        dense,
        f"{BATCH} {X}" + io("output", "out", "FP32", "[3]"),
        "unexpected inference output 'out', allowed outputs are: y",
    ),
    "too_many": Case(
        dense,
        f"{BATCH} {X} {Y}" + io("input", "x2", "FP32", "[4]"),
        "unable to load model 'too_many', configuration expects 2 inputs, model provides 1",
    ),
    "type": Case(
        dense,
        f"{BATCH} {Y}" + io("input", "x", "FP64", "[4]"),
        "unsupported datatype TYPE_FP64 for input 'x' for model 'type'",
    ),
    "optional": Case(
        dense,
        f"{ONE}"
        + io("input", "x", "FP32", "[-1, 4]", "optional: true")
        + io("output", "y", "FP32", "[-1, 3]"),
        "'optional' is set to true for input 'x' while the backend model doesn't support optional "
        "input",
    ),
    "dims": Case(
        dense,
        f"{BATCH} {Y}" + io("input", "x", "FP32", "[5]"),
        "model 'dims', tensor 'x': the model expects 2 dimensions (shape [-1,4]) but the model "
        "configuration specifies 2 dimensions (an initial batch dimension because max_batch_size "
        "> 0 followed by the explicit tensor shape, making complete shape [8,5])",
    ),
    "open_dim": Case(
        lambda: doubled([2, 4]),
        f"{ONE}" + io("input", "x", "FP32", "[-1, 4]") + io("output", "y", "FP32", "[2, 4]"),
        "tensor 'x': the model expects 2 dimensions (shape [2,4]) but the model configuration "
        "specifies 2 dimensions (shape [-1,4])",
    ),
    "bounded": Case(
        positions,
        ONE + io("input", "x", "FP32", "[1, 8]") + io("output", "y", "INT64", "[2, 8]"),
        "(shape [2,8]); dimension 1 has the bounds 0..8",
    ),
    "bounded_open": Case(
        positions,
        ONE + io("input", "x", "FP32", "[1, 8]") + io("output", "y", "INT64", "[2, -1]"),
        "(shape [2,-1]); dimension 1 has the bounds 0..8",
    ),
    "output_dims": Case(
        dense,
        f"{BATCH} {X}" + io("output", "y", "FP32", "[-1]"),
        "tensor 'y': the model expects 2 dimensions (shape [8,3])",
    ),
    "reshape": Case(
        lambda: doubled([2, 4]),
        f"{ONE}"
        + io("input", "x", "FP32", "[2, 5]")
        + io("output", "y", "FP32", "[2, 5]")
        + option("RESHAPE_IO_LAYERS", "YES"),
        "openvino error in apply model input preprocessing : ",
    ),
    "threads": Case(
        dense,
        f"{ONE} {WHOLE}" + option("INFERENCE_NUM_THREADS", "many"),
        "expected the parameter 'INFERENCE_NUM_THREADS' to be a non-negative number, got many",
    ),
    "streams": Case(
        dense,
        f"{ONE} {WHOLE}" + option("NUM_STREAMS", "-1"),
        "expected the parameter 'NUM_STREAMS' to be either AUTO/NUMA/<int_value>, got -1",
    ),
    "hint": Case(
        dense,
        f"{ONE} {WHOLE}" + option("PERFORMANCE_HINT", "FAST"),
        "expected the parameter 'PERFORMANCE_HINT' to be "
        "LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT, got fast",
    ),
    "bf16": Case(
        dense,
        f"{ONE} {WHOLE}" + option("HINT_BF16", "no"),
        "expected the parameter 'HINT_BF16' to be YES, got no",
    ),
    "compilation": Case(  # read, and then refused by OpenVINO's own CPU plugin
        dense,
        f"{ONE} {WHOLE}" + option("COMPILATION_NUM_THREADS", "1"),
        "Unsupported property COMPILATION_NUM_THREADS by CPU plugin",
    ),
    "device": Case(
        dense,
        f"{ONE} {WHOLE}" + option("TARGET_DEVICE", "TOASTER"),
        "openvino error in ",
    ),
}
REFUSED = {name: case.refusal for name, case in CASES.items() if case.refusal}


@pytest.fixture(scope="module")
def refusals(server: Triton) -> dict[str, str]:
    """All models, loaded; what the server said of those that failed."""
    for name, case in CASES.items():
        folder = server.repository / name
        (folder / "1").mkdir(parents=True)
        ov.save_model(case.model(), folder / "1" / case.file, compress_to_fp16=False)
        (folder / "config.pbtxt").write_text(f'backend: "openvino" {case.config}')
    onnx_file(server.repository / "from_onnx")
    return load_all(server, [*CASES, "from_onnx"])


def onnx_file(folder: Path) -> None:
    """The same layer as an ONNX file, which OpenVINO reads too."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    (folder / "1").mkdir(parents=True)
    onnx.save(model, folder / "1" / "model.onnx")
    (folder / "config.pbtxt").write_text(
        f'backend: "openvino" {ONE} default_model_filename: "model.onnx" {WHOLE}'
    )


@pytest.fixture(scope="module")
def served(server: Triton, refusals: dict[str, str]) -> Triton:
    assert {n: message for n, message in refusals.items() if message and n not in REFUSED} == {}
    return server


def settings_of(server: Triton, model: str) -> str:
    """The line in which a model reported its settings."""
    lines = [x for x in server.log_text().splitlines() if f"openvino stand-in: '{model}'" in x]
    return lines[-1]


def reference(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The layer's answer by OpenVINO in this process, in the precision that it chooses."""
    return ov.Core().compile_model(dense(), "CPU")(x)[0]


def numbers(rows: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Some input."""
    return np.random.default_rng(seed).normal(size=(rows, 4)).astype(np.float32)


# OpenVINO may compute in bfloat16, with 8 bits of mantissa: products of numbers around 1, four of
# them summed, differ by a few times 2^-8.
CLOSE = {"rtol": 0.03, "atol": 0.05}


@pytest.mark.parametrize(("model", "words"), REFUSED.items())
def test_a_wrong_config_is_refused_in_upstreams_words(
    refusals: dict[str, str], model: str, words: str
) -> None:
    assert words in refusals[model]


@pytest.mark.parametrize(
    ("model", "size", "x", "y", "batcher"),
    [
        ("fixed", 0, [2, 4], [2, 3], False),
        ("layout", 4, [4], [3], True),
        ("only_batch", 8, [4], [3], False),
        ("only_inputs", 8, [-1], [3], False),
    ],
)
def test_a_missing_config_is_completed(
    served: Triton, model: str, size: int, x: list[int], y: list[int], batcher: bool
) -> None:
    config = served.config(model)
    assert config["max_batch_size"] == size
    assert [(t["name"], t["dims"]) for t in config["input"]] == [("x", x)]
    assert [(t["name"], t["dims"]) for t in config["output"]] == [("y", y)]
    assert ("dynamic_batching" in config) == batcher
    assert config["default_model_filename"] in ("model.xml", "model.onnx")


def test_a_dimension_with_bounds_is_served_with_a_number_between_them(served: Triton) -> None:
    x = np.array([[0, 1, 1, 0, 1, 1, 1, 1]], np.float32)
    answer = infer(served, "between", {"x": x}).as_numpy("y")
    assert answer.tolist() == [[0] * 6, [1, 2, 4, 5, 6, 7]]  # upstream sends what the model gives


@pytest.mark.parametrize("model", REFUSED)
def test_a_refusal_has_the_real_backends_form(refusals: dict[str, str], model: str) -> None:
    """The code and the sentence: no name of a Python class, and no places in Python files."""
    code, _, words = refusals[model].partition("UNAVAILABLE state: ")[2].partition(": ")
    assert code in ("Invalid argument", "Unavailable", "Internal")
    assert "BadModel" not in words
    assert "BrokenModel" not in words
    assert "At:" not in words


@pytest.mark.quick
@pytest.mark.parametrize("model", ["any_rows", "named", "from_onnx"])
def test_answers_are_those_of_openvino_in_process(served: Triton, model: str) -> None:
    x = numbers(5)
    np.testing.assert_allclose(infer(served, model, {"x": x}).as_numpy("y"), reference(x), **CLOSE)


def test_padded_requests_are_answered_in_one_run(served: Triton) -> None:
    count = Counts(served, "padded")
    requests = [{"x": numbers(n, n)} for n in (1, 2, 4, 1)]
    answers = infer_together(served, "padded", requests)
    assert count.since(8) == (8, 1)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_allclose(answer.as_numpy("y"), request["x"] @ WEIGHTS, **CLOSE)
    few = infer(served, "padded", {"x": numbers(3)}).as_numpy("y")
    assert few.shape == (3, 3)
    np.testing.assert_allclose(few, numbers(3) @ WEIGHTS, **CLOSE)


def test_without_padding_a_request_must_fill_the_batch(served: Triton) -> None:
    full = numbers(8)
    answer = infer(served, "full_only", {"x": full}).as_numpy("y")
    np.testing.assert_allclose(answer, full @ WEIGHTS, **CLOSE)
    answers = infer_together(served, "full_only", [{"x": numbers(4)}, {"x": numbers(4)}])
    for error in answers:
        assert (
            "expected requests with batch size '8', got '4'... this error can be avoided by "
            in (str(error))
        )


@pytest.mark.quick
def test_a_request_that_does_not_fit_fails_in_openvinos_words(served: Triton) -> None:
    good = infer(served, "pairs", {"i": np.arange(4)}).as_numpy("y")
    assert good.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(InferenceServerException, match="openvino error in running inference"):
        infer(served, "pairs", {"i": np.arange(5)})
    assert infer(served, "pairs", {"i": np.arange(4)}).as_numpy("y").tolist() == [[0, 1], [2, 3]]


def test_openvino_converts_between_types(served: Triton) -> None:
    x = np.arange(8, dtype=np.uint8).reshape(2, 4)
    y = infer(served, "converted", {"x": x}).as_numpy("y")
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, x.astype(np.float32) @ WEIGHTS, rtol=0.03, atol=0.2)


def test_reshaped_layers_take_other_dimensions(served: Triton) -> None:
    x = np.ones((7, 5), np.float32)
    np.testing.assert_array_equal(infer(served, "reshaped", {"x": x}).as_numpy("y"), 2 * x)


def test_the_log_states_what_the_compiled_model_uses(served: Triton) -> None:
    assert "batch padding on" in settings_of(served, "padded")
    assert "performance hint LATENCY" in settings_of(served, "any_rows")
    line = settings_of(served, "set")
    assert "target CPU, threads 1, streams 1, performance hint THROUGHPUT, precision " in line
    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "bf16"})  # not on every processor
    precision = core.compile_model(dense(), "CPU").get_property("INFERENCE_PRECISION_HINT")
    assert f"precision {precision.get_type_name()}," in line
