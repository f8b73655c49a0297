"""The ONNX Runtime stand-in on the real server: right, wrong, missing configs; settings.

All requests go to two servers: one runs plain models itself, the other has no fast path, as on a
machine without a C++ compiler.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import psutil
import pytest
import tritonclient.grpc as grpcclient
from loading import Counts, infer, infer_together, load_all, text
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from workbook.common.errors import LoadError
from workbook.server import Triton
from workbook.server.native import build

pytestmark = pytest.mark.server

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
Shape = list[int | str | None]

# -- the models ---------------------------------------------------------------------------------


def graph(
    nodes: list[Any],
    inputs: list[tuple[str, int, Shape]],
    outputs: list[tuple[str, int, Shape]],
    initializers: dict[str, np.ndarray[Any, Any]] | None = None,
) -> onnx.ModelProto:
    """A model of the given nodes."""
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*t) for t in inputs],
        [helper.make_tensor_value_info(*t) for t in outputs],
        [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def identity(dtype: int, shape: Shape) -> onnx.ModelProto:
    """y = x."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return graph([node], [("x", dtype, shape)], [("y", dtype, shape)])


WEIGHTS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
DENSE = graph(
    [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("Neg", ["h"], ["z"]),
    ],
    [("x", FLOAT, ["n", 4])],
    [("y", FLOAT, ["n", 3]), ("z", FLOAT, ["n", 3])],
    {"w": WEIGHTS},
)
FIXED = identity(FLOAT, [2, 4])
FREE = identity(FLOAT, ["n", "t"])
VECTOR = graph(  # one value a row, as the labels of a classifier
    [helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=0)],
    [("x", FLOAT, ["n", 4])],
    [("y", FLOAT, ["n"])],
    {"axis": np.array([1])},
)
SCALED = graph(
    [helper.make_node("Mul", ["x", "t"], ["y"])],
    [("x", FLOAT, ["n", 2]), ("t", FLOAT, [])],
    [("y", FLOAT, ["n", 2])],
)
SCALAR = graph([helper.make_node("Add", ["x", "x"], ["y"])], [("x", FLOAT, [])], [("y", FLOAT, [])])
LOOKUP = graph(  # fails for an index that is not in its table
    [helper.make_node("Gather", ["table", "i"], ["y"])],
    [("i", INT64, ["n", 1])],
    [("y", FLOAT, ["n", 1, 2])],
    {"table": np.arange(10, dtype=np.float32).reshape(5, 2)},
)
SEQUENCE = helper.make_model(
    helper.make_graph(
        [helper.make_node("SequenceConstruct", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["n"])],
        [helper.make_tensor_sequence_value_info("y", FLOAT, ["n"])],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
)
SEQUENCE.ir_version = 8
DEFAULT = graph(  # an input with a default: a config may declare it optional
    [helper.make_node("Add", ["x", "b"], ["y"])],
    [("x", FLOAT, [2]), ("b", FLOAT, [2])],
    [("y", FLOAT, [2])],
    {"b": np.array([10, 20], np.float32)},
)
RAGGED = graph(
    [
        helper.make_node("Mul", ["x", "two"], ["y"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["count"]),
    ],
    [("x", FLOAT, ["all"]), ("n", FLOAT, ["requests"])],
    [("y", FLOAT, ["all"]), ("count", FLOAT, ["requests", 1])],
    {"two": np.array(2, np.float32), "axis": np.array([1])},
)
STATEFUL = graph(
    [
        helper.make_node("Add", ["x", "old"], ["new"]),
        helper.make_node("Identity", ["new"], ["y"]),
        helper.make_node("Identity", ["START"], ["unused"]),
    ],
    [("x", FLOAT, ["n", 1]), ("old", FLOAT, ["n", 1]), ("START", FLOAT, ["n", 1])],
    [("new", FLOAT, ["n", 1]), ("y", FLOAT, ["n", 1])],
)
SHORT = graph(  # one row, whatever the batch
    [helper.make_node("Slice", ["x", "from", "to"], ["y"])],
    [("x", FLOAT, ["n", 4])],
    [("y", FLOAT, ["m", 4])],
    {"from": np.array([0]), "to": np.array([1])},
)
HEAVY = graph(  # large enough for ONNX Runtime to make use of its threads
    [helper.make_node("MatMul", ["x", "w"], ["y"])],
    [("x", FLOAT, ["n", 4])],
    [("y", FLOAT, ["n", 3])],
    {"w": WEIGHTS},
)

DTYPES: dict[str, tuple[int, Any]] = {
    "FP32": (FLOAT, np.float32),
    "FP16": (TensorProto.FLOAT16, np.float16),
    "FP64": (TensorProto.DOUBLE, np.float64),
    "INT8": (TensorProto.INT8, np.int8),
    "INT16": (TensorProto.INT16, np.int16),
    "INT32": (TensorProto.INT32, np.int32),
    "INT64": (INT64, np.int64),
    "UINT8": (TensorProto.UINT8, np.uint8),
    "UINT16": (TensorProto.UINT16, np.uint16),
    "UINT32": (TensorProto.UINT32, np.uint32),
    "UINT64": (TensorProto.UINT64, np.uint64),
    "BOOL": (TensorProto.BOOL, np.bool_),
}

# -- the configs --------------------------------------------------------------------------------

ONE = "instance_group [{ count: 1 kind: KIND_CPU }]"
X = 'input [{ name: "x" data_type: TYPE_FP32 dims: [4] }]'
Y = 'output [{ name: "y" data_type: TYPE_FP32 dims: [3] }]'
IO = f"{X} {Y} {ONE}"
BATCH = "max_batch_size: 8"
GATHERED = "dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 400000 } "


def io(kind: str, name: str, data_type: str, dims: str, more: str = "") -> str:
    """One entry of `input` or `output`."""
    return f'{kind} [{{ name: "{name}" data_type: TYPE_{data_type} dims: {dims} {more} }}] '


def option(key: str, value: str) -> str:
    """One parameter."""
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }} '


def states(start: str) -> str:
    """A sequence model's section."""
    return (
        f"sequence_batching {{ direct {{ }} control_input [{{ name: 'START' control "
        f"[{{ kind: CONTROL_SEQUENCE_START {start} }}] }}] state [{{ input_name: 'old' "
        "output_name: 'new' data_type: TYPE_FP32 dims: [1] initial_state "
        "{ name: 'zero' data_type: TYPE_FP32 dims: [1] zero_data: true } }] } "
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A model folder, and the server's words if it is to be refused."""

    model: onnx.ModelProto
    config: str
    refusal: str = ""
    file: str = "1/model.onnx"


ONES = {"x": io("input", "x", "FP32", "[1]"), "y": io("output", "y", "FP32", "[1]")}
CASES: dict[str, Case] = {
    # right
    "dense": Case(DENSE, f"{BATCH} {GATHERED} {IO} "),
    "single": Case(
        DENSE, io("input", "x", "FP32", "[-1, 4]") + io("output", "y", "FP32", "[-1, 3]")
    ),
    "narrowed": Case(
        FREE,
        f"{BATCH} {ONE} " + io("input", "x", "FP32", "[3]") + io("output", "y", "FP32", "[-1]"),
    ),
    "fixed": Case(FIXED, io("input", "x", "FP32", "[2, 4]") + io("output", "y", "FP32", "[2, 4]")),
    "named": Case(DENSE, f"{BATCH} {IO} default_model_filename: 'net.onnx'", file="1/net.onnx"),
    "folder": Case(DENSE, f"{BATCH} {IO}", file="1/model.onnx/model.onnx"),
    "strings": Case(
        identity(STRING, ["n", 2]),
        f"{BATCH} {GATHERED} {ONE}"
        + io("input", "x", "STRING", "[2]")
        + io("output", "y", "STRING", "[2]"),
    ),
    "labelled": Case(
        DENSE, f"{BATCH} {X} {ONE}" + io("output", "y", "FP32", "[3]", "label_filename: 'l.txt'")
    ),
    "optional": Case(
        DEFAULT,
        io("input", "x", "FP32", "[2]")
        + io("input", "b", "FP32", "[2]", "optional: true")
        + io("output", "y", "FP32", "[2]"),
    ),
    "reshaped": Case(
        VECTOR, f"{BATCH} {X} {ONE}" + io("output", "y", "FP32", "[1]", "reshape { shape: [] }")
    ),
    "scalar": Case(SCALAR, f"{ONES['x']} {ONES['y']} {ONE}"),
    "scaled": Case(
        SCALED,
        f"{BATCH} {GATHERED} {ONE}"
        + io("input", "x", "FP32", "[2]")
        + io("input", "t", "FP32", "[1]")
        + io("output", "y", "FP32", "[2]"),
    ),
    "scalar_batch": Case(SCALAR, f"{BATCH} {ONES['x']} {ONES['y']} {ONE}"),
    "scalar_text": Case(
        identity(STRING, []),
        f"{BATCH} " + io("input", "x", "STRING", "[1]") + io("output", "y", "STRING", "[1]"),
    ),
    "lookup": Case(
        LOOKUP,
        f"{BATCH} {GATHERED} {ONE}"
        + io("input", "i", "INT64", "[1]")
        + io("output", "y", "FP32", "[1, 2]"),
    ),
    "short": Case(
        SHORT,
        f"{BATCH} {GATHERED} {X} {ONE}" + io("output", "y", "FP32", "[4]"),
    ),
    "widths": Case(
        FREE,
        f"{BATCH} {GATHERED} {ONE}"
        + io("input", "x", "FP32", "[-1]")
        + io("output", "y", "FP32", "[-1]"),
    ),
    "ragged": Case(
        RAGGED,
        "max_batch_size: 8 dynamic_batching { preferred_batch_size: [3] "
        f"max_queue_delay_microseconds: 400000 }} {ONE}"
        + io("input", "x", "FP32", "[-1]", "allow_ragged_batch: true")
        + io("output", "y", "FP32", "[-1]")
        + io("output", "count", "FP32", "[1]")
        + "batch_input [{ kind: BATCH_ELEMENT_COUNT target_name: 'n' data_type: TYPE_FP32 "
        "source_input: 'x' }] batch_output [{ kind: BATCH_SCATTER_WITH_INPUT_SHAPE "
        "target_name: 'y' source_input: 'x' }]",
    ),
    "stateful": Case(
        STATEFUL, f"{BATCH} {ONE} {ONES['x']} {ONES['y']}" + states("fp32_false_true: [0, 1]")
    ),
    "openvino": Case(
        DENSE,
        f"{BATCH} {IO} optimization {{ execution_accelerators {{ cpu_execution_accelerator "
        "[{ name: 'openvino' }] } }",
    ),
    "gpu_only": Case(  # accelerators of GPU instances are not read for others
        DENSE,
        f"{BATCH} {IO} optimization {{ execution_accelerators {{ gpu_execution_accelerator "
        "[{ name: 'tensorrt' parameters { key: 'precision_mode' value: 'FP9' } }] } }",
    ),
    # missing
    "nothing": Case(DENSE, ""),
    "no_output": Case(DENSE, f"{X} {ONE}"),
    "no_input": Case(DENSE, f"max_batch_size: 16 {Y} {ONE}"),
    "one_batch": Case(DENSE, f"max_batch_size: 1 {ONE}"),
    "no_batch": Case(FIXED, ONE),
    "vector": Case(VECTOR, ONE),
    "lonely": Case(SCALAR, ONE),
    # wrong
    "input_name": Case(
        DENSE,
        f"{BATCH} {Y}" + io("input", "in", "FP32", "[4]"),
        "unexpected inference input 'in', allowed inputs are: x",
    ),
    "output_name": Case(
        DENSE,
        f"{BATCH} {X}" + io("output", "out", "FP32", "[3]"),
        "unexpected inference output 'out', allowed outputs are: y, z",
    ),
    "too_many": Case(
        DENSE,
        f"{BATCH} {X} {Y}" + io("input", "x2", "FP32", "[4]"),
        "unable to load model 'too_many', configuration expects 2 inputs, model provides 1",
    ),
    "input_type": Case(
        DENSE,
        f"{BATCH} {Y}" + io("input", "x", "FP64", "[4]"),
        "configuration expects datatype TYPE_FP64 for input 'x', model provides TYPE_FP32",
    ),
    "output_type": Case(
        identity(STRING, ["n", 2]),
        f"{BATCH} " + io("input", "x", "STRING", "[2]") + io("output", "y", "FP32", "[2]"),
        "configuration expects datatype TYPE_FP32 for output 'y', model provides TYPE_BYTES",
    ),
    "bf16": Case(
        identity(TensorProto.BFLOAT16, ["n", 2]),
        f"{BATCH} " + io("input", "x", "BF16", "[2]") + io("output", "y", "BF16", "[2]"),
        "unsupported datatype TYPE_BF16 for input 'x' for model 'bf16'",
    ),
    "batch_in_dims": Case(
        DENSE,
        f"{BATCH} {Y}" + io("input", "x", "FP32", "[-1, 4]"),
        "model 'batch_in_dims', tensor 'x': the model expects 2 dimensions (shape [-1,4]) but the "
        "model configuration specifies 3 dimensions (an initial batch dimension because "
        "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
        "[-1,-1,4])",
    ),
    "open_dim": Case(
        FIXED,
        io("input", "x", "FP32", "[-1, 4]") + io("output", "y", "FP32", "[2, 4]"),
        "model 'open_dim', tensor 'x': the model expects 2 dimensions (shape [2,4]) but the model "
        "configuration specifies 2 dimensions (shape [-1,4])",
    ),
    "narrow_output": Case(
        FREE,
        f"{BATCH} " + io("input", "x", "FP32", "[3]") + io("output", "y", "FP32", "[3]"),
        "tensor 'y': the model expects 2 dimensions (shape [-1,-1])",
    ),
    "no_batching": Case(
        FIXED,
        f"{BATCH} " + io("input", "x", "FP32", "[4]") + io("output", "y", "FP32", "[4]"),
        "model 'no_batching', tensor 'x': for the model to support batching the shape should have "
        "at least 1 dimension and the first dimension must be -1; but shape expected by the model "
        "is [2,4]",
    ),
    "autofill": Case(
        FIXED,
        BATCH,
        "autofill failed for model 'autofill': model does not support batching while non-zero "
        "max_batch_size is specified",
    ),
    "half_given": Case(  # upstream takes the missing max_batch_size for "please fill it in"
        DENSE,
        io("input", "x", "FP32", "[-1, 4]"),
        "tensor 'x': the model expects 2 dimensions (shape [-1,4]) but the model configuration "
        "specifies 3 dimensions",
    ),
    "sequence_type": Case(
        SEQUENCE,
        "",
        "Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'y', expected 'ONNX_TYPE_TENSOR'.",
    ),
    "scalar_dims": Case(
        SCALAR,
        io("input", "x", "FP32", "[2]") + ONES["y"],
        "scalar tensor 'x', should only provide 1 in the model configuration when the model "
        "doesn't support batching. Model configuration provided: [2].",
    ),
    "optional_batch": Case(
        DENSE,
        f"{BATCH} {Y}"
        + io("input", "x", "FP32", "[4]")
        + io("input", "b", "FP32", "[4]", "optional: true"),
        "optional input 'b' is not supported for models that support batching",
    ),
    "ragged_shape": Case(
        DENSE,
        f"{BATCH} {Y}" + io("input", "x", "FP32", "[4]", "allow_ragged_batch: true"),
        "configuration expects model provides input with shape [-1]  for ragged input 'x', model "
        "provides [-1,4]",
    ),
    "control_name": Case(
        DENSE,
        f"{BATCH} {X} {Y} sequence_batching {{ control_input [{{ name: 'GO' control "
        "[{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }] }] }",
        "configuration specified sequence control 'GO', but model does not provide that input",
    ),
    "control_type": Case(
        STATEFUL,
        f"{BATCH} {ONES['x']} {ONES['y']}" + states("int32_false_true: [0, 1]"),
        "sequence control 'START', the model expects data-type FLOAT but the model configuration "
        "specifies data-type TYPE_INT32",
    ),
    "missing_file": Case(DENSE, f"{BATCH} {IO}", "failed to stat file", file="1/other.onnx"),
    "empty_folder": Case(DENSE, f"{BATCH} {IO}", "unable to find '", file="1/model.onnx/net.onnx"),
    "execution_mode": Case(
        DENSE,
        f"{BATCH} {IO}" + option("execution_mode", "2"),
        "Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but "
        "got 2 .",
    ),
    "accelerator": Case(
        DENSE,
        f"{BATCH} {IO} optimization {{ execution_accelerators {{ cpu_execution_accelerator "
        "[{ name: 'turbo' }] } }",
        "unknown Execution Accelerator 'turbo' is requested",
    ),
    "operations": Case(
        DENSE,
        f"{BATCH} {IO} model_operations {{ op_library_filename: '/nowhere.so' }}",
        "onnx runtime error",
    ),
    # settings, as the log reports them
    "shrinking": Case(
        DENSE, f"{BATCH} {IO}" + option("memory.enable_memory_arena_shrinkage", "cpu:0")
    ),
    "shrunk_twice": Case(  # loads, and fails at each request, as upstream
        DENSE,
        f"{BATCH} {IO}"
        + option("memory.enable_memory_arena_shrinkage", "cpu:0")
        + option("enable_mem_arena", "0"),
    ),
    "default_threads": Case(
        DENSE, f"{BATCH} {X} {Y} instance_group [{{ count: 2 kind: KIND_CPU }}]"
    ),
    "many_threads": Case(
        HEAVY,
        f"{BATCH} {IO}" + option("intra_op_thread_count", "6") + option("execution_mode", "0"),
    ),
    "one_thread": Case(HEAVY, f"{BATCH} {IO}" + option("intra_op_thread_count", "1")),
    "parallel": Case(
        DENSE,
        f"{BATCH} {IO}"
        + option("execution_mode", "1")
        + option("inter_op_thread_count", "3")
        + option("intra_op_thread_count", "0")
        + option("enable_mem_arena", "off")
        + option("enable_mem_pattern", "false")
        + option("share_session_between_instances", "true")
        + option("session.use_device_allocator_for_initializers", "1"),
    ),
    **{
        f"level_{n}".replace("-", "minus"): Case(
            DENSE, f"{BATCH} {IO} optimization {{ graph {{ level: {n} }} }}"
        )
        for n in (-1, 1, 2)
    },
    "types": Case(
        graph(
            [helper.make_node("Identity", [f"in_{n}"], [f"out_{n}"]) for n in DTYPES],
            [(f"in_{n}", dtype, ["n", 2]) for n, (dtype, _) in DTYPES.items()],
            [(f"out_{n}", dtype, ["n", 2]) for n, (dtype, _) in DTYPES.items()],
        ),
        f"{BATCH} {ONE} "
        + "".join(
            io("input", f"in_{n}", n, "[2]") + io("output", f"out_{n}", n, "[2]") for n in DTYPES
        ),
    ),
}
REFUSED = {name: case.refusal for name, case in CASES.items() if case.refusal}


@pytest.fixture(scope="module", params=["inside", "apart"])
def place(request: pytest.FixtureRequest) -> str:
    """Where plain models run: inside the server, or apart from it in processes of their own."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(place: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server that runs plain models itself, and one without the library for that."""
    with pytest.MonkeyPatch.context() as patch:
        if place == "inside":
            assert build._compiler(build._FASTPATH), "these tests need a C++ compiler: g++"
        else:
            made = build._compiler
            patch.setattr(build, "_compiler", lambda s: made(s) if s.suffix == ".c" else None)
        triton = Triton(tmp_path_factory.mktemp("models")).start()
    with triton:
        yield triton


#: Models with requests that the fast path does not handle, so that the model's process answers.
APART = {
    *("scaled", "scalar_batch", "scalar_text"),
    *("strings", "optional", "scalar", "lonely", "ragged", "stateful"),
    *("parallel", "shrinking", "shrunk_twice"),  # for a setting that is not handed over
    "openvino",  # a plug-in for Python (test_accelerators.py)
}


@pytest.fixture(scope="module")
def refusals(server: Triton) -> dict[str, str]:
    """All models, loaded; what the server said of those that failed."""
    for name, case in CASES.items():
        path = server.repository / name / case.file
        path.parent.mkdir(parents=True)
        onnx.save(case.model, path)
        config = path.parents[case.file.count("/")] / "config.pbtxt"
        config.write_text(f'backend: "onnxruntime" {case.config}')
    (server.repository / "labelled" / "l.txt").write_text("zero\none\ntwo\n")
    outside = server.repository / "outside" / "1"
    outside.mkdir(parents=True)
    onnx.save(
        copy.deepcopy(DENSE),
        outside / "model.onnx",
        save_as_external_data=True,
        location="w",
        size_threshold=0,
    )
    return load_all(server, [*CASES, "outside"])


@pytest.fixture(scope="module")
def served(server: Triton, refusals: dict[str, str]) -> Triton:
    assert {n: message for n, message in refusals.items() if message and n not in REFUSED} == {}
    return server


def settings_of(server: Triton, model: str) -> str:
    """The line in which a model's first instance reported its settings."""
    lines = [x for x in server.log_text().splitlines() if f"onnxruntime stand-in: '{model}'" in x]
    return lines[-1]


def reference(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """The same model run in this process."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


# -- wrong and missing configs ------------------------------------------------------------------


@pytest.mark.parametrize(("model", "words"), REFUSED.items())
def test_a_wrong_config_is_refused_in_upstreams_words(
    refusals: dict[str, str], model: str, words: str
) -> None:
    assert words in refusals[model]


@pytest.mark.parametrize(
    ("model", "size", "inputs", "outputs"),
    [
        ("nothing", 4, {"x": [4]}, {"y": [3], "z": [3]}),
        ("no_output", 4, {"x": [4]}, {"y": [3], "z": [3]}),
        ("no_input", 16, {"x": [4]}, {"y": [3]}),
        ("one_batch", 1, {"x": [4]}, {"y": [3], "z": [3]}),
        ("no_batch", 0, {"x": [2, 4]}, {"y": [2, 4]}),
        ("vector", 4, {"x": [4]}, {"y": [1]}),
        ("lonely", 0, {"x": [1]}, {"y": [1]}),
        ("outside", 4, {"x": [4]}, {"y": [3], "z": [3]}),
    ],
)
def test_a_missing_config_is_completed(
    served: Triton, model: str, size: int, inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    config = served.config(model)
    assert config["max_batch_size"] == size
    assert {t["name"]: t["dims"] for t in config["input"]} == inputs
    assert {t["name"]: t["dims"] for t in config["output"]} == outputs
    assert ("dynamic_batching" in config) == (size > 1)
    assert config["runtime"] == "model.py"


def test_the_servers_option_sets_the_completed_batch_size(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    onnx.save(DENSE, tmp_path / "m" / "1" / "model.onnx")
    options = [
        "--backend-config=default-max-batch-size=7",
        "--backend-config=onnxruntime,default-max-batch-size=16",
    ]
    with Triton(tmp_path, models=["m"], options=options) as server:
        assert server.config("m")["max_batch_size"] == 16


# -- right configs: the answers -----------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("model", ["dense", "named", "folder", "nothing", "outside"])
def test_answers_are_those_of_the_session_in_process(served: Triton, model: str) -> None:
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    answer = infer(served, model, {"x": x})
    np.testing.assert_array_equal(answer.as_numpy("y"), reference(DENSE, {"x": x})["y"])


def test_every_type_goes_through_unchanged(served: Triton) -> None:
    sent: dict[str, Any] = {}
    for name, (_, dtype) in DTYPES.items():
        if dtype is np.bool_:
            sent[name] = np.array([[True, False], [False, True]])
        elif np.issubdtype(dtype, np.floating):
            sent[name] = np.array([[1.5, -np.inf], [np.nan, np.finfo(dtype).tiny]], dtype)
        else:
            info = np.iinfo(dtype)
            sent[name] = np.array([[info.min, info.max], [0, 1]], dtype)
    answer = infer(served, "types", {f"in_{n}": x for n, x in sent.items()})
    for name, x in sent.items():
        y = answer.as_numpy(f"out_{name}")
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)


def test_strings_are_utf8(served: Triton) -> None:
    words = text("Grüße", "", "日本", "\N{PILE OF POO}").reshape(2, 2)
    answer = infer(served, "strings", {"x": words}).as_numpy("y")
    np.testing.assert_array_equal(answer, words)


def test_bytes_that_are_no_text_fail_alone(served: Triton) -> None:
    bad = np.array([[b"\xff\xfe", b"b"]], np.object_)
    good = text("a", "b").reshape(1, 2)
    answers = infer_together(served, "strings", [{"x": good}, {"x": bad}, {"x": good}])
    assert "a BYTES element is not UTF-8 text" in str(answers[1])
    for i in (0, 2):
        np.testing.assert_array_equal(answers[i].as_numpy("y"), good)


def test_requests_are_answered_in_one_run(served: Triton) -> None:
    rng = np.random.default_rng(2)
    requests = [{"x": rng.normal(size=(n, 4)).astype(np.float32)} for n in (1, 2, 1, 3, 1)]
    count = Counts(served, "dense")
    answers = infer_together(served, "dense", requests)
    assert count.since(8) == (8, 1)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_allclose(
            answer.as_numpy("y"), reference(DENSE, request)["y"], rtol=1e-6, atol=1e-6
        )


@pytest.mark.quick
def test_one_bad_request_does_not_harm_the_others_of_its_batch(served: Triton, place: str) -> None:
    count = Counts(served, "lookup")
    indices = [0, 1, 99, 2, 3, 4, 0, 1]
    answers = infer_together(served, "lookup", [{"i": np.array([[i]])} for i in indices])
    # The core counts a request as failed if the backend reports this; Triton's Python backend does
    # not report it, since it has answered.
    counted = 7 if place == "inside" else 8
    assert count.since(counted) == (counted, 1)
    assert "onnx runtime error 2: " in str(answers[2])
    assert "indices element out of data bounds" in str(answers[2])
    for i, answer in zip(indices, answers, strict=True):
        if i != 99:
            assert answer.as_numpy("y").tolist() == [[[2 * i, 2 * i + 1]]]


def test_requests_of_different_shapes_wait_for_the_same_run(served: Triton) -> None:
    requests = [{"x": np.full((1, n), n, np.float32)} for n in (3, 1, 3, 2)]
    for request, answer in zip(requests, infer_together(served, "widths", requests), strict=True):
        np.testing.assert_array_equal(answer.as_numpy("y"), request["x"])


def test_an_output_with_too_few_rows_fails_those_that_get_none(served: Triton) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(infer(served, "short", {"x": x[:1]}).as_numpy("y"), x[:1])
    words = "failed to split the output tensor 'y' in responses: expected batch size of at least 2"
    with pytest.raises(InferenceServerException, match=words):
        infer(served, "short", {"x": x})
    count = Counts(served, "short")
    answers = infer_together(served, "short", [{"x": x[:1]}, {"x": x[:1]}])
    good = [a for a in answers if not isinstance(a, InferenceServerException)]
    (bad,) = (a for a in answers if isinstance(a, InferenceServerException))
    np.testing.assert_array_equal(good[0].as_numpy("y"), x[:1])
    assert words in str(bad)
    assert count.since(1)[1] == 1


def test_a_request_gets_the_outputs_that_it_asks_for(served: Triton) -> None:
    x = np.random.default_rng(6).normal(size=(2, 4)).astype(np.float32)
    expected = reference(DENSE, {"x": x})
    for names in (["y"], ["z"], ["z", "y"]):
        wanted = [grpcclient.InferRequestedOutput(name) for name in names]
        answer = infer(served, "nothing", {"x": x}, outputs=wanted)
        assert {t.name for t in answer.get_response().outputs} == set(names)
        for name in names:
            np.testing.assert_array_equal(answer.as_numpy(name), expected[name])


def test_without_max_batch_size_the_request_is_the_batch(served: Triton) -> None:
    x = np.random.default_rng(3).normal(size=(20, 4)).astype(np.float32)
    answer = infer(served, "single", {"x": x}).as_numpy("y")
    np.testing.assert_array_equal(answer, reference(DENSE, {"x": x})["y"])
    with pytest.raises(InferenceServerException, match="unexpected shape for input 'x'"):
        infer(served, "single", {"x": x[:, :3]})


def test_reshapes_and_scalars(served: Triton) -> None:
    x = np.random.default_rng(4).normal(size=(3, 4)).astype(np.float32)
    for model in ("reshaped", "vector"):
        answer = infer(served, model, {"x": x}).as_numpy("y")
        np.testing.assert_array_equal(answer[:, 0], reference(VECTOR, {"x": x})["y"])
        assert answer.shape == (3, 1)
    for model in ("scalar", "lonely"):
        assert infer(served, model, {"x": np.float32([21])}).as_numpy("y").tolist() == [42.0]


def test_a_scalar_of_a_batch_is_its_first_element(served: Triton) -> None:
    """As upstream: the tensor without dimensions begins where the batch begins."""
    x, t = np.ones((2, 2), np.float32), np.array([[3], [5]], np.float32)
    assert infer(served, "scaled", {"x": x, "t": t}).as_numpy("y").tolist() == [[3, 3], [3, 3]]
    requests = [{"x": x[:1], "t": t[:1]}, {"x": x[:1], "t": t[1:]}]
    count = Counts(served, "scaled")
    answers = [a.as_numpy("y").tolist() for a in infer_together(served, "scaled", requests)]
    assert count.since(2) == (2, 1)
    assert answers[0] == answers[1]  # both from one execution; its first element is 3 or 5
    assert infer(served, "scalar_batch", {"x": t[:1]}).as_numpy("y").tolist() == [6]
    with pytest.raises(InferenceServerException, match="batch size of at least 2 in model output"):
        infer(served, "scalar_batch", {"x": t})
    words = np.array([["a"], ["b"]], np.object_)
    answer = infer(served, "scalar_text", {"x": words}).as_numpy("y")
    assert answer.tolist() == [[b"a"], [b"b"]]  # text keeps its shape, as upstream


def test_an_optional_input_may_be_left_out(served: Triton) -> None:
    x = np.array([1, 2], np.float32)
    assert infer(served, "optional", {"x": x}).as_numpy("y").tolist() == [11, 22]
    assert infer(served, "optional", {"x": x, "b": x}).as_numpy("y").tolist() == [2, 4]


def test_classification_uses_the_labels(served: Triton) -> None:
    x = np.random.default_rng(5).normal(size=(2, 4)).astype(np.float32)
    wanted = [grpcclient.InferRequestedOutput("y", class_count=1)]
    answer = infer(served, "labelled", {"x": x}, outputs=wanted).as_numpy("y")
    best = reference(DENSE, {"x": x})["y"].argmax(axis=1)
    names = ["zero", "one", "two"]
    assert [a[0].decode().split(":")[2] for a in answer] == [names[i] for i in best]


def test_ragged_requests_share_a_run(served: Triton) -> None:
    count = Counts(served, "ragged")
    requests = [{"x": np.arange(n, dtype=np.float32)[None]} for n in (2, 5, 1)]
    answers = infer_together(served, "ragged", requests)
    assert count.since(3) == (3, 1)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_array_equal(answer.as_numpy("y"), 2 * request["x"])
        assert answer.as_numpy("count").tolist() == [[request["x"].size]]


def test_implicit_state_is_fed_back(served: Triton) -> None:
    totals = {}
    for step, (sequence, x) in enumerate([(1, 5), (2, 7), (1, 1), (2, 2), (1, 3)]):
        answer = infer(
            served,
            "stateful",
            {"x": np.array([[x]], np.float32)},
            sequence_id=sequence,
            sequence_start=step < 2,
        )
        totals[sequence] = totals.get(sequence, 0) + x
        assert answer.as_numpy("y").tolist() == [[totals[sequence]]]


def test_a_model_that_the_server_cannot_take_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    onnx.save(DENSE, tmp_path / "m" / "1" / "model.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_onnxruntime", lambda: Path("/nowhere/libonnxruntime.so.1"))
        triton = Triton(tmp_path).start()
    with triton:
        for _ in range(2):
            with pytest.raises(LoadError, match="cannot open ONNX Runtime: /nowhere/libonnx"):
                triton.load("m")
        assert triton.live()


# -- settings -----------------------------------------------------------------------------------


def test_threads_default_to_an_even_share_of_the_cores(served: Triton) -> None:
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert f"threads {share} within an operator" in settings_of(served, "default_threads")


@pytest.mark.quick
def test_plain_models_run_inside_where_they_can(served: Triton, place: str) -> None:
    plain = {*CASES, "outside"} - {*REFUSED} - APART
    assert len(plain) > 10
    for model in plain | APART:
        inside = place == "inside" and model in plain
        where = "inside the server" if inside else "in a process of their own"
        assert f"requests {where}" in settings_of(served, model), model


PYTHON = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        made = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() + 1 for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", y)]) for y in made]
"""


def test_what_replaces_a_plain_model_is_asked_itself(served: Triton) -> None:
    x = np.array([[1, 2]], np.float32)
    folder = served.repository / "replaced"
    (folder / "1").mkdir(parents=True)
    onnx.save(identity(FLOAT, ["n", 2]), folder / "1" / "model.onnx")
    tensors = io("input", "x", "FP32", "[2]") + io("output", "y", "FP32", "[2]")
    (folder / "config.pbtxt").write_text(f'backend: "onnxruntime" {BATCH} {ONE} {tensors}')
    served.load("replaced")
    np.testing.assert_array_equal(infer(served, "replaced", {"x": x}).as_numpy("y"), x)
    (folder / "1" / "model.py").write_text(PYTHON)
    (folder / "config.pbtxt").write_text(f'backend: "python" {BATCH} {ONE} {tensors}')
    served.load("replaced")
    np.testing.assert_array_equal(infer(served, "replaced", {"x": x}).as_numpy("y"), x + 1)


def threads_given_back(server: Triton, model: str) -> int:
    """How many threads end, in the server and its processes, when a model is unloaded."""

    def threads() -> int:
        process = psutil.Process(server.pid)
        count = 0
        for p in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                count += p.num_threads()
        return count

    before = threads()
    server.unload(model)
    for _ in range(40):
        if threads() < before:
            break
        time.sleep(0.05)
    after = threads()
    server.load(model)
    return before - after


def test_the_threads_of_the_config_exist(served: Triton) -> None:
    differences = []
    for _ in range(6):  # the server's own threads come and go, too
        many, one = (threads_given_back(served, m) for m in ("many_threads", "one_thread"))
        differences.append(many - one)
        if differences[-1] == 5:
            break
    assert 5 in differences, differences
    assert "threads 6 within an operator" in settings_of(served, "many_threads")


def test_the_log_states_what_the_session_uses(served: Triton) -> None:
    line = settings_of(served, "parallel")
    assert "threads (ONNX Runtime's default) within an operator, 3 across operators" in line
    assert "execution mode parallel" in line
    assert "memory arena off, memory pattern off" in line
    assert "providers CPUExecutionProvider" in line
    assert "execution mode sequential" in settings_of(served, "dense")
    x = np.ones((1, 4), np.float32)
    answer = infer(served, "parallel", {"x": x}).as_numpy("y")
    np.testing.assert_array_equal(answer, reference(DENSE, {"x": x})["y"])


def test_the_arena_shrinks_where_there_is_one(served: Triton) -> None:
    x = np.ones((1, 4), np.float32)
    answer = infer(served, "shrinking", {"x": x}).as_numpy("y")
    np.testing.assert_array_equal(answer, reference(DENSE, {"x": x})["y"])
    with pytest.raises(InferenceServerException, match="memory arena shrink list"):
        infer(served, "shrunk_twice", {"x": x})


@pytest.mark.parametrize(
    ("model", "level"),
    [
        ("dense", "enable_all"),
        ("level_minus1", "enable_basic"),
        ("level_1", "enable_extended"),
        ("level_2", "disable_all"),
    ],
)
def test_the_graph_level_reaches_the_session(served: Triton, model: str, level: str) -> None:
    assert f"graph level {level}," in settings_of(served, model)
