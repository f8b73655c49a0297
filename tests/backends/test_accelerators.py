"""Execution accelerators of the ONNX Runtime stand-in: OpenVINO's real plug-in, on the real server.

Accelerators of a GPU are read without one: what a config asks for, as options of ONNX Runtime.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_openvino
import psutil
import pytest
from loading import Counts, infer, infer_together, load_all
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from workbook.backends.onnxruntime import accelerators, plugins
from workbook.common.errors import LoadError
from workbook.server import Triton, model_warnings, tritonserver_command

server_test = pytest.mark.server

# -- the models ---------------------------------------------------------------------------------


def graph(nodes: list[Any], inputs: Any, outputs: Any, weights: dict[str, Any]) -> onnx.ModelProto:
    """A model of these nodes; tensors are given as (name, type, shape)."""
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*t) for t in inputs],
        [helper.make_tensor_value_info(*t) for t in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def network() -> onnx.ModelProto:
    """A convolution and a dense layer, large enough to tell FP32 from BF16 by its answers."""
    rng = np.random.default_rng(0)
    weights = {
        "k": rng.normal(size=(16, 1, 3, 3)).astype(np.float32),
        "w": rng.normal(size=(16 * 36, 10)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    return graph(
        nodes,
        [("x", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [("y", TensorProto.FLOAT, ["n", 10])],
        weights,
    )


NETWORK = network()
PICKY = graph(  # fails for rows whose width is not a multiple of three
    [helper.make_node("Reshape", ["x", "shape"], ["y"])],
    [("x", TensorProto.FLOAT, ["n", "t"])],
    [("y", TensorProto.FLOAT, ["n", "m", 3])],
    {"shape": np.array([0, -1, 3])},
)
DIGITS = (
    'max_batch_size: 32 input [{ name: "x" data_type: TYPE_FP32 dims: [1, 8, 8] }] '
    'output [{ name: "y" data_type: TYPE_FP32 dims: [10] }] '
)


def on(kind: str, *entries: str, count: int = 1) -> str:
    """The sections of a config for these accelerators of a CPU or a GPU."""
    return (
        f"instance_group [{{ count: {count} kind: KIND_CPU }}] "
        f"optimization {{ execution_accelerators {{ {kind}_execution_accelerator "
        f"[{', '.join(entries)}] }} }}"
    )


def named(name: str, **parameters: str) -> str:
    """An accelerator in a config."""
    given = " ".join(f'parameters {{ key: "{k}" value: "{v}" }}' for k, v in parameters.items())
    return f'{{ name: "{name}" {given} }}'


def add(repository: Path, name: str, model: onnx.ModelProto, config: str) -> None:
    """Write a model's folder."""
    (repository / name / "1").mkdir(parents=True)
    onnx.save(model, repository / name / "1" / "model.onnx")
    (repository / name / "config.pbtxt").write_text(f'backend: "onnxruntime" {config}')


MODELS = {
    "plain": DIGITS + "instance_group [{ count: 1 kind: KIND_CPU }]",
    "quick": DIGITS + on("cpu", named("openvino")),
    "two": DIGITS + on("cpu", named("openvino"), count=2),
    "completed": on("cpu", named("openvino")),
    "told": DIGITS + on("cpu", named("openvino", precision="FP9", num_of_threads="many")),
    "twice": DIGITS + on("cpu", named("openvino"), named("openvino")),
    "gpu": DIGITS + on("gpu", named("openvino"), named("tensorrt", trt_nonsense="1")),
}
REFUSED = {
    "turbo": (on("cpu", named("turbo")), "unknown Execution Accelerator 'turbo' is requested"),
    "tensorrt": (
        on("cpu", named("openvino"), named("tensorrt")),
        "unknown Execution Accelerator 'tensorrt' is requested",
    ),
    "capital": (
        on("cpu", named("OpenVINO")),
        "unknown Execution Accelerator 'OpenVINO' is requested",
    ),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    repository = tmp_path_factory.mktemp("models")
    for name, config in MODELS.items():
        add(repository, name, NETWORK, config)
    for name, (config, _) in REFUSED.items():
        add(repository, name, NETWORK, DIGITS + config)
    add(
        repository,
        "picky",
        PICKY,
        'max_batch_size: 8 input [{ name: "x" data_type: TYPE_FP32 dims: [-1] }] output '
        '[{ name: "y" data_type: TYPE_FP32 dims: [-1, 3] }] ' + on("cpu", named("openvino")),
    )
    with Triton(repository) as server:
        names = [*MODELS, "picky"]
        assert load_all(server, names) == dict.fromkeys(names, "")
        yield server


def images(rows: int) -> dict[str, Any]:
    """Random inputs."""
    return {"x": np.random.default_rng(rows).normal(size=(rows, 1, 8, 8)).astype(np.float32)}


def expected(inputs: dict[str, Any]) -> Any:
    """The answers of a session without accelerators."""
    session = ort.InferenceSession(NETWORK.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], inputs)[0]


def settings_of(server: Triton, model: str) -> str:
    """The line in which a model reported its settings."""
    lines = [x for x in server.log_text().splitlines() if f"onnxruntime stand-in: '{model}'" in x]
    return lines[-1]


# -- OpenVINO on the CPU ------------------------------------------------------------------------


@server_test
@pytest.mark.quick
def test_openvino_runs_the_model_in_fp32_with_its_share_of_the_cores(served: Triton) -> None:
    for model, instances in (("quick", 1), ("two", 2), ("completed", 1), ("told", 1), ("twice", 1)):
        line = settings_of(served, model)
        threads = max(1, len(psutil.Process().cpu_affinity()) // instances)
        assert (
            "providers OpenVINOExecutionProvider (INFERENCE_PRECISION_HINT f32, NUM_STREAMS 1, "
            f"INFERENCE_NUM_THREADS {threads}), CPUExecutionProvider"
        ) in line
        assert "requests in a process of their own" in line


@server_test
def test_a_model_without_an_accelerator_stays_as_it_was(served: Triton) -> None:
    for model in ("plain", "gpu"):  # accelerators of a GPU are read for instances on a GPU
        line = settings_of(served, model)
        assert "providers CPUExecutionProvider," in line
        assert "requests inside the server" in line


@server_test
@pytest.mark.quick
@pytest.mark.parametrize("rows", [1, 2, 7, 32])
def test_the_answers_are_those_of_the_plain_session(served: Triton, rows: int) -> None:
    inputs = images(rows)
    for model in ("quick", "two", "told", "twice"):
        answer = infer(served, model, inputs).as_numpy("y")
        # In BF16 they differ by 0.1 and more.
        np.testing.assert_allclose(answer, expected(inputs), rtol=0, atol=1e-3)


@server_test
def test_two_instances_answer_side_by_side(served: Triton) -> None:
    requests = [images(1 + i % 5) for i in range(40)]
    count = Counts(served, "two")
    for inputs, answer in zip(requests, infer_together(served, "two", requests), strict=True):
        np.testing.assert_allclose(answer.as_numpy("y"), expected(inputs), rtol=0, atol=1e-3)
    assert count.since(sum(len(r["x"]) for r in requests))[1] == 40


@server_test
def test_a_completed_config_keeps_its_accelerator(served: Triton) -> None:
    config = served.config("completed")
    assert config["max_batch_size"] == 4
    assert config["optimization"]["execution_accelerators"]["cpu_execution_accelerator"] == [
        {"name": "openvino", "parameters": {}}
    ]
    inputs = images(4)
    answer = infer(served, "completed", inputs).as_numpy("y")
    np.testing.assert_allclose(answer, expected(inputs), rtol=0, atol=1e-3)


@server_test
def test_unload_and_load_again(served: Triton) -> None:
    def processes() -> int:
        return len(psutil.Process(served.pid).children(recursive=True))

    before, inputs = processes(), images(3)
    for _ in range(3):
        served.unload("two")
        served.load("two")
        answer = infer(served, "two", inputs).as_numpy("y")
        np.testing.assert_allclose(answer, expected(inputs), rtol=0, atol=1e-3)
    assert processes() == before


@server_test
def test_a_request_that_fails_in_openvino_fails_alone(served: Triton) -> None:
    good, bad = np.ones((1, 6), np.float32), np.ones((1, 7), np.float32)
    for _ in range(3):
        with pytest.raises(InferenceServerException, match="onnx runtime error"):
            infer(served, "picky", {"x": bad})
        answer = infer(served, "picky", {"x": good}).as_numpy("y")
        np.testing.assert_array_equal(answer, np.ones((1, 2, 3)))


@server_test
def test_parameters_of_openvino_have_no_effect_and_a_warning_says_so(served: Triton) -> None:
    found = model_warnings.of(served, "told")
    assert {w.what.split()[1] for w in found} == {"precision", "num_of_threads"}
    for warning in found:
        assert "the ONNX Runtime backend reads no parameter of openvino" in warning.what
        assert 'backend: "openvino"' in warning.todo
    assert model_warnings.of(served, "quick") == []


@server_test
@pytest.mark.parametrize("model", REFUSED)
def test_an_unknown_accelerator_is_refused(served: Triton, model: str) -> None:
    with pytest.raises(LoadError) as caught:
        served.load(model)
    assert REFUSED[model][1] in caught.value.message
    assert served.live()


# -- an incomplete installation -----------------------------------------------------------------

BROKEN = """
def get_library_path():
    return __file__
"""
MISSING = """
import sys
sys.modules["onnxruntime_ep_openvino"] = None
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    for name in ("plain", "quick"):
        add(folder, name, NETWORK, MODELS[name])
    return folder


@contextlib.contextmanager
def served_with(packages: Path, repository: Path) -> Iterator[Triton]:
    """A server whose models find packages in this folder first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tritonserver_command, "_PYTHON", ())
        triton = Triton(repository, environment={"PYTHONPATH": str(packages)}).start()
    with triton:
        yield triton


@server_test
def test_a_broken_plugin_fails_the_load_and_nothing_else(repository: Path, tmp_path: Path) -> None:
    fake = tmp_path / "packages" / "onnxruntime_ep_openvino"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text(BROKEN)
    with served_with(fake.parent, repository) as server:
        for _ in range(2):
            with pytest.raises(LoadError) as caught:
                server.load("quick")
            assert "the plug-in for OpenVINOExecutionProvider" in caught.value.message
            assert caught.value.rule == "broken-plugin"
            assert "damaged: [ONNXRuntimeError]" in caught.value.what
            assert "--force-reinstall --no-deps onnxruntime-ep-openvino==" in caught.value.todo
        server.load("plain")
        assert infer(server, "plain", images(1)).as_numpy("y").shape == (1, 10)


@server_test
def test_without_the_plugin_the_model_runs_and_a_warning_says_so(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(MISSING)
    with served_with(tmp_path, repository) as server:
        server.load("quick")
        inputs = images(2)
        answer = infer(server, "quick", inputs).as_numpy("y")
        np.testing.assert_allclose(answer, expected(inputs), rtol=0, atol=1e-3)
        (warning,) = model_warnings.of(server, "quick")
        assert "because the package onnxruntime-ep-openvino" in warning.what
        assert "pip install" in warning.todo


def test_the_pinned_plugin_is_the_one_that_messages_name() -> None:
    version = metadata.version("onnxruntime-ep-openvino")
    assert plugins.PACKAGES[accelerators.OPENVINO][1] == f"onnxruntime-ep-openvino=={version}"
    assert Path(onnxruntime_ep_openvino.get_library_path()).is_file()


# -- what is read for a GPU ---------------------------------------------------------------------


def gpu(*entries: dict[str, Any], **parameters: str) -> list[accelerators.Provider]:
    """The providers of a config on GPU 1."""
    return accelerators.gpu_providers({"gpu_execution_accelerator": list(entries)}, parameters, "1")


def test_options_of_tensorrt_have_the_names_of_onnx_runtime() -> None:
    parameters = {
        "precision_mode": "FP16",
        "max_workspace_size_bytes": "1073741824",
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": "/cache",
        "trt_profile_min_shapes": "x:1x1x8x8",
        "trt_profile_opt_shapes": "x:8x1x8x8",
        "trt_profile_max_shapes": "x:32x1x8x8",
        "trt_timing_cache_path": "",
    }
    (tensorrt, options), (cuda, _) = gpu({"name": "tensorrt", "parameters": parameters})
    assert (tensorrt, cuda) == ("TensorrtExecutionProvider", "CUDAExecutionProvider")
    assert options == {
        "trt_fp16_enable": "1",
        "trt_max_workspace_size": "1073741824",
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": "/cache",
        "trt_profile_min_shapes": "x:1x1x8x8",
        "trt_profile_opt_shapes": "x:8x1x8x8",
        "trt_profile_max_shapes": "x:32x1x8x8",
        "device_id": "1",
    }


def test_each_option_of_tensorrt_is_known_to_the_installed_onnx_runtime() -> None:
    values = {"boolean": "1", "text": "x"}
    given = {key: values.get(kind[0], "1") for key, kind in accelerators.TENSORRT_KEYS.items()}
    assert len(given) == 31
    options = accelerators.tensorrt_options(given)
    for precision in ("FP16", "BF16", "INT8"):
        options |= accelerators.tensorrt_options({"precision_mode": precision})
    library = Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_tensorrt.so"
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as binary:
        unknown = [name for name in options if binary.find(name.encode() + b"\0") < 0]
    assert unknown == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"precision_mode": "FP9"}, "unsupported precision mode 'FP9' is requested"),
        (
            {"trt_engine_cash_enable": "1"},
            "unknown parameter 'trt_engine_cash_enable' is provided for TensorRT Execution "
            "Accelerator",
        ),
        ({"trt_engine_cache_enable": "yes"}, "failed to convert 'yes' to boolean"),
        ({"trt_min_subgraph_size": "few"}, "failed to convert 'few' to integral number"),
        (
            {"max_workspace_size_bytes": "1 GB".replace("1", "a")},
            "failed to convert 'a GB' to unsigned long long integral number",
        ),
    ],
)
def test_wrong_parameters_of_tensorrt_are_refused(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(accelerators.Refused, match=message):
        gpu({"name": "tensorrt", "parameters": parameters})


def test_options_of_cuda() -> None:
    parameters = {
        "use_ep_level_unified_stream": "1",
        "cudnn_conv_use_max_workspace": "0",
        "cudnn_conv_algo_search": "HEURISTIC",
    }
    ((_, options),) = gpu({"name": "cuda", "parameters": parameters})
    # As in the container: the model's parameter replaces the fourth, here by its default.
    assert options == {
        "use_ep_level_unified_stream": "1",
        "cudnn_conv_use_max_workspace": "0",
        "device_id": "1",
    }
    ((_, options),) = gpu(
        {"name": "cuda", "parameters": parameters}, cudnn_conv_algo_search="2", gpu_mem_limit="9"
    )
    assert options["cudnn_conv_algo_search"] == "DEFAULT"
    assert options["gpu_mem_limit"] == "9"
    with pytest.raises(accelerators.Refused, match="unsupported cudnn_conv_algo_search value '3'"):
        gpu(cudnn_conv_algo_search="3")
    with pytest.raises(accelerators.Refused, match="failed to convert 'maybe' to boolean"):
        gpu({"name": "cuda", "parameters": {"use_ep_level_unified_stream": "maybe"}})
    with pytest.raises(accelerators.Refused, match="unknown Execution Accelerator 'openvino'"):
        gpu({"name": "openvino"})


def test_an_option_of_cuda_without_effect_has_a_warning() -> None:
    entry = {"name": "cuda", "parameters": {"cudnn_conv_algo_search": "2", "use_tf32": "0"}}
    wanted = {"gpu_execution_accelerator": [entry]}
    config = {"optimization": {"execution_accelerators": wanted}, "name": "m"}
    (warning,) = model_warnings.of_config({**config, "backend": "onnxruntime"})
    assert "Parameter cudnn_conv_algo_search of an accelerator has no effect" in warning.what
    assert 'parameters { key: "cudnn_conv_algo_search"' in warning.todo
    assert model_warnings.of_config({**config, "backend": "tensorflow"}) == []


def test_options_of_tensorrt_for_the_rtx_plugin() -> None:
    options = accelerators.tensorrt_options(
        {
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": "/cache",
            "trt_profile_max_shapes": "x:32x1x8x8,t:32x1",
            "precision_mode": "FP16",
        }
    )
    assert plugins.rtx_options(options) == {
        "nv_runtime_cache_path": "/cache",
        "nv_profile_max_shapes": "x:32x1x8x8;t:32x1",
    }
    assert "nv_runtime_cache_path" not in plugins.rtx_options({"trt_engine_cache_path": "/cache"})
