"""The TensorFlow stand-in on the real server: SavedModels and frozen graphs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from backend_cases import Case, deployed, infer, io, parameters, together
from loading import counted
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = pytest.mark.server

SAVED, GRAPH = 'platform: "tensorflow_savedmodel"\n', 'platform: "tensorflow_graphdef"\n'
ONE = "instance_group [{ kind: KIND_CPU count: 1 }]\n"
BATCH = "max_batch_size: 8\n"
X, Y = "x FP32 4", "y FP32 3"
START = "control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }]"


def signature(name: str) -> str:
    return parameters(TF_SIGNATURE_DEF=name)


def accelerator(kind: str) -> str:
    return (
        f"optimization {{ execution_accelerators {{ {kind}_execution_accelerator "
        '[{ name: "auto_mixed_precision" }] } }\n'
    )


# name: config of the SavedModel below
SERVED: dict[str, str] = {
    "complete": SAVED + BATCH + ONE + io(X, Y),
    "empty": "",
    "no_batch_size": SAVED + ONE + io(X, Y),  # the dims leave the batch out: upstream gives it 4
    "no_batching": SAVED + ONE + io("x FP32 -1,4", "y FP32 -1,3"),  # and here they do not
    "narrowed": SAVED + BATCH + ONE + io("pixels FP32 2", "sum FP32 1 r") + signature("free"),
    "rows": SAVED
    + "max_batch_size: 16\n"
    + ONE
    + "dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 300000 }\n"
    + signature("rows"),
    "text": SAVED + BATCH + ONE + signature("text"),
    "fixed": SAVED + ONE + signature("fixed"),
    "other_tag": SAVED + ONE + parameters(TF_GRAPH_TAG="other"),
    "sequence": SAVED
    + BATCH
    + ONE
    + signature("sequence")
    + f'sequence_batching {{ control_input [{{ name: "START" {START} }}] }}',
    "threads": SAVED + ONE + parameters(TF_NUM_INTRA_THREADS="7", TF_NUM_INTER_THREADS="5"),
    "one_thread": SAVED
    + ONE
    + parameters(
        TF_NUM_INTRA_THREADS="1",
        TF_NUM_INTER_THREADS="1",
        TF_USE_PER_SESSION_THREADS="on",
        MAX_SESSION_SHARE_COUNT="2",
    ),
    "factor": SAVED + ONE + io("factor FP32 1; x FP32 -1,4", "y FP32 -1,4") + signature("scaled"),
    "gpu_accelerator": SAVED + ONE + accelerator("gpu"),
}

# name: (config of the SavedModel below, upstream's words at the load)
REFUSED: dict[str, tuple[str, str]] = {
    "input_name": (
        SAVED + BATCH + io("z FP32 4", Y),
        "unexpected inference input 'z', allowed inputs are: x",
    ),
    "output_name": (
        SAVED + BATCH + io(X, "q FP32 3"),
        "unexpected inference output 'q', allowed outputs are: total, y",
    ),
    "input_type": (
        SAVED + BATCH + io("x INT32 4", Y),
        "unable to load model 'input_type', configuration expects datatype TYPE_INT32 for input "
        "'x', model provides TYPE_FP32",
    ),
    "output_type": (
        SAVED + BATCH + io("words STRING 1", "loud INT64 1") + signature("text"),
        "configuration expects datatype TYPE_INT64 for output 'loud', model provides TYPE_BYTES",
    ),
    "unknown_type": (
        SAVED + BATCH + io("x BF16 4", Y),
        "unsupported datatype 'TYPE_BF16' for tensor 'x' for model 'unknown_type'",
    ),
    "input_dims": (
        SAVED + BATCH + io("x FP32 5", Y),
        "model 'input_dims', tensor 'x': the model expects 2 dimensions (shape [-1,4]) but the "
        "model configuration specifies 2 dimensions (an initial batch dimension because "
        "max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,5])",
    ),
    "output_dims": (  # an output may not be freer, or narrower, than the model's
        SAVED + BATCH + io(X, "y FP32 -1"),
        "tensor 'y': the model expects 2 dimensions (shape [-1,3]) but",
    ),
    "dims_without_batch": (
        SAVED + io("x FP32 3,4", "y FP32 3,3") + signature("fixed"),
        "tensor 'x': the model expects 2 dimensions (shape [2,4]) but the model configuration "
        "specifies 2 dimensions (shape [3,4])",
    ),
    "batch_of_fixed": (
        SAVED + BATCH + signature("fixed"),
        "unable to autofill for 'batch_of_fixed', configuration specified max-batch 8 but model "
        "signature does not support batching",
    ),
    "contradiction": (
        SAVED + io(X, "y FP32 -1,3"),
        "unable to autofill for 'contradiction', model tensor configurations are contradicting "
        "each other in terms of whether batching is supported",
    ),
    "scalar": (
        SAVED + signature("scalar"),
        "Invalid argument: Unable to autofill for 'scalar': the rank of model tensor 'total' is 0 "
        "which is not supported",
    ),
    "scalar_input": (
        SAVED + signature("scaled"),
        "Invalid argument: Unable to autofill for 'scalar_input': the rank of model tensor "
        "'factor' is 0 and dimensions are not defined",
    ),
    "other_signature": (
        SAVED + BATCH + io(X, "sum FP32 1"),
        "unexpected inference output 'sum', allowed outputs are: total, y ('sum' is in the "
        "signature 'free')",
    ),
    "bfloat": (
        SAVED + signature("bfloat"),
        "unable to auto-complete model configuration for 'bfloat', failed to load model: unable "
        "to process input 'x' for 'bfloat', unsupported datatype 'DT_BFLOAT16'",
    ),
    "unknown_signature": (
        SAVED + signature("missing"),
        "Internal: unable to auto-complete model configuration for 'unknown_signature', failed to "
        "load model: unable to load model 'unknown_signature', expected 'missing' signature; the "
        "file has bfloat, fixed, free, rows, scalar, scaled, sequence, serving_default, text",
    ),
    "no_tag": (
        SAVED + parameters(TF_GRAPH_TAG="nope"),
        "Could not find meta graph def matching supplied tags: { nope }",
    ),
    "threads_negative": (
        SAVED + parameters(TF_NUM_INTER_THREADS="-1"),
        "parameter 'TF_NUM_INTER_THREADS' must be non-negative number for TensorFlow model "
        "'threads_negative'",
    ),
    "share_zero": (
        SAVED + parameters(MAX_SESSION_SHARE_COUNT="0"),
        "parameter 'MAX_SESSION_SHARE_COUNT' must be positive number for TensorFlow model",
    ),
    "boolean": (
        SAVED + parameters(TF_USE_PER_SESSION_THREADS="yes"),
        "failed to convert 'yes' to boolean",
    ),
    "twice": (
        SAVED + BATCH + io("x FP32 4; x FP32 4", Y),
        "unable to load model 'twice', configuration expects 2 inputs, model provides 1",
    ),
    "cpu_accelerator": (
        SAVED + accelerator("cpu"),
        "CPU Execution Accelerator is not supported in TensorFlow backend",
    ),
    "no_control": (
        SAVED
        + BATCH
        + f'sequence_batching {{ control_input [{{ name: "GO" {START} }}] }}',
        "configuration specified sequence control 'GO', but model does not provide that input",
    ),
    "init_ops_missing": (
        SAVED + parameters(TF_INIT_OPS_FILE="init.json"),
        "init_ops_missing/init.json': No such file or directory",
    ),
}  # fmt: skip

GRAPH_IO = io("left FP32 2; right FP32 2", "sum FP32 2")
GRAPHS: dict[str, str] = {
    "graph": GRAPH + BATCH + ONE + GRAPH_IO + parameters(TF_INIT_OPS_FILE="init.json"),
    "no_shape": GRAPH + ONE + io("left FP32 2; point FP32 3", "moved FP32 3"),
}
GRAPHS_REFUSED: dict[str, tuple[str, str]] = {
    "graph_input": (
        GRAPH + BATCH + io("middle FP32 2", "sum FP32 2"),
        "unexpected inference input 'middle', allowed inputs are: left, point, right",
    ),
    "graph_count": (
        GRAPH + BATCH + io("a FP32 2; b FP32 2; c FP32 2; d FP32 2", "sum FP32 2"),
        "configuration expects 4 inputs, model provides at most 3",
    ),
    "graph_output": (
        GRAPH + BATCH + io("left FP32 2; right FP32 2", "left FP32 2"),
        "unexpected inference output 'left', allowed outputs are: ",
    ),
}


# -- the models -----------------------------------------------------------------------------------


def save_models(folder: Path) -> dict[str, Any]:
    """Write one SavedModel with many signatures and a graph; the functions of the signatures."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    class Many(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = tf.Variable(
                np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
            )
            self.table = tf.Variable(np.arange(40, dtype=np.float32).reshape(10, 4))
            self.ids = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), -1
            )

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
        def default(self, x: Any) -> Any:
            y = tf.matmul(x, self.weights)
            return {"y": y, "total": tf.reduce_sum(y, 1)}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, "pixels")])
        def free(self, pixels: Any) -> Any:
            return {"sum": tf.reduce_sum(pixels, 1)}

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.int64, "index")])
        def rows(self, index: Any) -> Any:
            return {"row": tf.gather(self.table, index[:, 0])}

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.string, "words")])
        def text(self, words: Any) -> Any:
            return {"loud": tf.strings.upper(words, "utf-8"), "id": self.ids.lookup(words)}

        @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, "x")])
        def fixed(self, x: Any) -> Any:
            return {"y": tf.matmul(x, self.weights)}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
        def scalar(self, x: Any) -> Any:
            return {"total": tf.reduce_sum(x)}

        @tf.function(
            input_signature=[
                tf.TensorSpec([], tf.float32, "factor"),
                tf.TensorSpec([None, 4], tf.float32, "x"),
            ]
        )
        def scaled(self, factor: Any, x: Any) -> Any:
            return {"y": x * factor}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.bfloat16, "x")])
        def bfloat(self, x: Any) -> Any:
            return {"y": x}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 1], tf.float32, "x"),
                tf.TensorSpec([None, 1], tf.float32, "START"),
            ]
        )
        def sequence(self, x: Any, START: Any) -> Any:
            return {"y": x + 100 * START}

    many = Many()
    names = ("free", "rows", "text", "fixed", "scalar", "scaled", "bfloat", "sequence")
    functions = {"serving_default": many.default, **{name: getattr(many, name) for name in names}}
    tf.saved_model.save(many, str(folder / "many"), signatures=functions)

    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    proto = SavedModel.FromString((folder / "many" / "saved_model.pb").read_bytes())
    proto.meta_graphs[0].meta_info_def.tags[:] = ["other"]
    (folder / "other_tag.pb").write_bytes(proto.SerializeToString())

    given = proto.meta_graphs[0].signature_def
    for name in set(given) - {"free", "rows"}:
        del given[name]
    proto.meta_graphs[0].meta_info_def.tags[:] = ["serve"]
    (folder / "no_default.pb").write_bytes(proto.SerializeToString())

    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        left = v1.placeholder(tf.float32, [None, 2], "left")
        right = v1.placeholder(tf.float32, [None, 2], "right")
        offset = v1.get_variable("offset", [2], tf.float32, v1.constant_initializer(10.0))
        tf.add(left + 2 * right, offset, "sum")
        v1.variables_initializer([offset], "set_up")
        tf.add(v1.placeholder(tf.float32, [], "point"), 1.0, "moved")  # says: a single number
    (folder / "model.graphdef").write_bytes(graph.as_graph_def().SerializeToString())
    return {**functions, "module": many}  # the functions hold their module weakly


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tensorflow")


@pytest.fixture(scope="module")
def functions(folder: Path) -> dict[str, Any]:
    """The signatures' own functions, to compare with."""
    return save_models(folder)


@pytest.fixture(scope="module")
def loads(server: Triton, folder: Path, functions: dict[str, Any]) -> dict[str, str]:
    """Every model of this module, loaded; each one's refusal, "" for none."""
    root = folder / "many"
    saved = {
        f"1/model.savedmodel/{path.relative_to(root)}": path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    graph: Mapping[str, str | bytes] = {
        "1/model.graphdef": (folder / "model.graphdef").read_bytes(),
        "init.json": json.dumps({"init_ops": ["set_up"]}),
    }
    pb = "1/model.savedmodel/saved_model.pb"
    cases = {name: Case(config, saved) for name, config in SERVED.items()}
    cases |= {name: Case(config + ONE, saved) for name, (config, _) in REFUSED.items()}
    cases |= {name: Case(config, graph) for name, config in GRAPHS.items()}
    cases |= {name: Case(config + ONE, graph) for name, (config, _) in GRAPHS_REFUSED.items()}
    other = {**saved, pb: (folder / "other_tag.pb").read_bytes()}
    cases["other_tag"] = Case(SERVED["other_tag"], other)
    no_default = {**saved, pb: (folder / "no_default.pb").read_bytes()}
    cases["no_default"] = Case(SAVED + ONE, no_default)
    cases["no_file"] = Case(SAVED + ONE + io(X, Y), {"1/README": "a version needs a folder"})
    cases["corrupt"] = Case(SAVED + ONE, {**saved, pb: b"no protobuf"})
    weights = "1/model.savedmodel/variables/variables.index"
    cases["no_weights"] = Case(SAVED + ONE, {k: v for k, v in saved.items() if k != weights})
    return deployed(server, cases)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def dims(tensors: list[dict[str, Any]]) -> dict[str, tuple[str, list[int]]]:
    return {t["name"]: (t["data_type"].removeprefix("TYPE_"), t["dims"]) for t in tensors}


# -- right and missing configs --------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("model", ["complete", "empty", "no_batch_size", "no_batching"])
def test_answers_are_those_of_tensorflow(
    server: Triton, loads: dict[str, str], functions: dict[str, Any], model: str
) -> None:
    assert loads[model] == ""
    for rows in (1, 4):
        got = infer(server, model, {"x": normal(rows, 4)})
        want = functions["serving_default"](normal(rows, 4))
        assert got
        for name, array in got.items():
            # One value per row is [1] in a config, which cannot say "no dimension".
            expected = want[name].numpy().reshape(array.shape)
            np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_a_missing_config_is_completed(server: Triton, loads: dict[str, str]) -> None:
    config = server.config("empty")
    assert config["max_batch_size"] == 4
    assert "dynamic_batching" in config
    assert dims(config["input"]) == {"x": ("FP32", [4])}
    assert dims(config["output"]) == {"y": ("FP32", [3]), "total": ("FP32", [1])}
    assert [o["reshape"] for o in config["output"] if o["name"] == "total"] == [{"shape": []}]


def test_only_the_outputs_that_are_configured_are_served(
    server: Triton, loads: dict[str, str]
) -> None:
    assert dims(server.config("complete")["output"]) == {"y": ("FP32", [3])}


@pytest.mark.parametrize(
    ("model", "size"), [("complete", 8), ("no_batch_size", 4), ("no_batching", 0), ("fixed", 0)]
)
def test_max_batch_size_follows_the_dims(
    server: Triton, loads: dict[str, str], model: str, size: int
) -> None:
    assert loads[model] == ""
    config = server.config(model)
    assert config["max_batch_size"] == size
    assert ("dynamic_batching" in config) == (size > 0)


def test_an_input_may_be_narrower_than_the_model(server: Triton, loads: dict[str, str]) -> None:
    assert loads["narrowed"] == ""
    got = infer(server, "narrowed", {"pixels": normal(3, 2)})["sum"]
    assert got.shape == (3, 1)
    np.testing.assert_allclose(got[:, 0], normal(3, 2).sum(1), rtol=1e-6)


def test_text_goes_in_and_out(server: Triton, loads: dict[str, str]) -> None:
    assert loads["text"] == ""
    words = np.array([[b"a"], ["grün".encode()]], np.object_)
    got = infer(server, "text", {"words": words})
    assert [w.decode() for w in got["loud"].ravel()] == ["A", "GRÜN"]
    assert got["id"].tolist() == [[1], [-1]]


def test_tags_and_signatures_are_chosen(server: Triton, loads: dict[str, str]) -> None:
    assert loads["other_tag"] == ""
    assert dims(server.config("other_tag")["input"]) == {"x": ("FP32", [4])}
    assert loads["fixed"] == ""
    assert dims(server.config("fixed")["input"]) == {"x": ("FP32", [2, 4])}


def test_without_a_default_another_signature_is_served_and_logged(
    server: Triton, loads: dict[str, str]
) -> None:
    assert loads["no_default"] == ""
    assert dims(server.config("no_default")["input"]) == {"pixels": ("FP32", [-1])}
    log = server.log_text()
    assert "unable to find serving signature 'serving_default'" in log
    assert "using signature 'free'" in log


def test_a_scalar_input_takes_one_number(server: Triton, loads: dict[str, str]) -> None:
    assert loads["factor"] == ""
    x = normal(3, 4)
    got = infer(server, "factor", {"factor": np.float32([2]), "x": x})
    np.testing.assert_array_equal(got["y"], 2 * x)


def test_a_sequence_gets_its_controls(server: Triton, loads: dict[str, str]) -> None:
    assert loads["sequence"] == ""
    assert dims(server.config("sequence")["input"]) == {"x": ("FP32", [1])}
    x = np.ones((1, 1), np.float32)
    first = infer(server, "sequence", {"x": x}, sequence_id=3, sequence_start=True)
    last = infer(server, "sequence", {"x": x}, sequence_id=3, sequence_end=True)
    assert (first["y"].item(), last["y"].item()) == (101, 1)


def test_a_graph_is_served_after_its_initial_operations(
    server: Triton, loads: dict[str, str]
) -> None:
    assert loads["graph"] == ""
    left, right = normal(3, 2), np.ones((3, 2), np.float32)
    got = infer(server, "graph", {"right": right, "left": left})["sum"]
    np.testing.assert_allclose(got, left + 2 * right + 10, rtol=1e-6)


def test_a_graph_computes_what_its_placeholders_do_not_declare(
    server: Triton, loads: dict[str, str]
) -> None:
    assert loads["no_shape"] == ""
    got = infer(server, "no_shape", {"left": normal(2), "point": normal(3)})["moved"]
    np.testing.assert_allclose(got, normal(3) + 1, rtol=1e-6)


def test_without_its_weights_a_model_loads_and_its_requests_fail(
    server: Triton, loads: dict[str, str]
) -> None:
    assert loads["no_weights"] == ""
    with pytest.raises(InferenceServerException, match="FAILED_PRECONDITION: Could not find var"):
        infer(server, "no_weights", {"x": normal(1, 4)})


# -- batches --------------------------------------------------------------------------------------


@pytest.mark.quick
def test_requests_share_a_batch_and_a_bad_one_fails_alone(
    server: Triton, loads: dict[str, str]
) -> None:
    assert loads["rows"] == ""
    indices = [0, 1, 2, 99, 4, 5, 6, 7]
    answers = together(server, "rows", [{"index": np.array([[i]])} for i in indices])
    table = np.arange(40, dtype=np.float32).reshape(10, 4)
    for i, answer in zip(indices, answers, strict=True):
        if i == 99:
            assert "INVALID_ARGUMENT: indices[0] = 99 is not in [0, 10)" in answer
        else:
            assert not isinstance(answer, str), answer
            np.testing.assert_array_equal(answer["row"], table[[i]])
    statistics = counted(server, "rows", 8)
    assert statistics["inference_count"] == 8
    assert statistics["execution_count"] < 8


# -- wrong configs --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [*REFUSED, *GRAPHS_REFUSED])
def test_a_wrong_config_fails_in_upstreams_words(loads: dict[str, str], model: str) -> None:
    assert {**REFUSED, **GRAPHS_REFUSED}[model][1] in loads[model]
    assert "BadModel" not in loads[model]
    assert "At:" not in loads[model]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("no_file", r"Unavailable: unable to find '.*/model\.savedmodel' for model instance 'no_f"),
        ("corrupt", "Internal: unable .* for 'corrupt', failed to load model: Can't parse"),
        ("input_name", "Invalid argument: unexpected inference input 'z', allowed"),
    ],
)
def test_a_missing_or_broken_file_fails(loads: dict[str, str], model: str, words: str) -> None:
    assert re.search(words, loads[model]), loads[model]


# -- parameters -----------------------------------------------------------------------------------


def thread_names(server: Triton, model: str) -> list[str]:
    """The names of the threads of the process that serves a model."""
    for process in psutil.Process(server.pid).children(recursive=True):
        words = process.cmdline()
        if any(f"/{model}/" in word for word in words) and "start_stub" not in words[0]:
            tasks = Path(f"/proc/{process.pid}/task").glob("*/comm")
            return [task.read_text().strip() for task in tasks]
    raise AssertionError(f"no process serves {model}")


def test_threads_reach_tensorflow(server: Triton, loads: dict[str, str]) -> None:
    for model in ("threads", "one_thread"):
        assert loads[model] == ""
        infer(server, model, {"x": normal(1, 4)})
    many, one = thread_names(server, "threads"), thread_names(server, "one_thread")
    assert many.count("tf_Compute") == 5
    assert one.count("tf_Compute") == 1
    assert len(many) - len(one) == (7 - 1) + (5 - 1)


def test_instances_share_the_cores(server: Triton, loads: dict[str, str]) -> None:
    each = max(1, len(os.sched_getaffinity(0)) // 2)  # no instance_group: the core gives it two
    line = f"'empty' version 1 on cpu: tensorflow_savedmodel model.savedmodel, {each} intra-op"
    assert server.log_text().count(line) == 2


def test_a_gpu_accelerator_is_ignored_on_the_cpu(server: Triton, loads: dict[str, str]) -> None:
    assert loads["gpu_accelerator"] == ""
    words = "GPU Execution Accelerator will be ignored for model instance on CPU"
    assert words in server.log_text()


def test_the_log_is_quiet(server: Triton, loads: dict[str, str]) -> None:
    log = server.log_text()
    assert "oneDNN" not in log
    assert "absl::InitializeLog" not in log
    assert "Warning" not in log
