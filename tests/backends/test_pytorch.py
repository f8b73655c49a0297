"""The PyTorch stand-in on the real server: TorchScript and torch.compile."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from backend_cases import Case, deployed, infer, io, parameters, together
from loading import counted
from tritonclient.utils import InferenceServerException

from workbook.common.errors import LoadError
from workbook.server import Triton

pytestmark = pytest.mark.server

# -- tiny models ----------------------------------------------------------------------------------


class SumAndProduct(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + 2 * b, a * b


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class FromDict(torch.nn.Module):
    def forward(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return tensors["left"] - tensors["right"]


class Shout(torch.nn.Module):
    def forward(self, words: list[str]) -> list[str]:
        result: list[str] = []
        for word in words:
            result.append(word.upper() + "!")
        return result


class GivesDict(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x}


class GivesList(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x]


class Scalar(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


class Views(torch.nn.Module):
    """Tensors whose memory does not hold their values in order: a negated and a transposed one."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.fft.fft(x).conj().imag, x.t()


class Complex(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).conj()


class Sparse(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to_sparse()


class TakesNumber(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n


class PickRows(torch.nn.Module):
    """Fails for a row index that is out of range: one bad request among good ones."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(40, dtype=torch.float32).reshape(10, 4))

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table[index[:, 0]]


class Modes(torch.nn.Module):
    """Shows whether torch was in inference mode: such tensors do not count their versions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x) + float(torch.ones(1).is_inference())


class Counter(torch.nn.Module):
    """A running sum: the START control resets it, implicit state carries it."""

    def forward(
        self, x: torch.Tensor, start: torch.Tensor, total: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        now = x + total * (1 - start)
        return now, now


NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.layer(x)), x.sum(1, keepdim=True)
"""


TURNED = """
import torch


class Turned(torch.nn.Module):
    def forward(self, x):
        return x.t()
"""


X, Y = "x FP32 4", "y FP32 3"
SP = "s FP32 2; p FP32 2"
BATCH = "max_batch_size: 8\n"
RUNTIME = 'backend: "pytorch"\nruntime: "model.py"\n' + BATCH + io(X, "y FP32 3; s FP32 1")
START = "control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }]"

# name: (TorchScript model, config)
SERVED: dict[str, tuple[type[torch.nn.Module], str]] = {
    "by_argument": (SumAndProduct, BATCH + io("b FP32 2; a FP32 2", SP)),
    "by_index": (SumAndProduct, BATCH + io("y__1 FP32 2; x__0 FP32 2", "p__1 FP32 2; s__0 FP32 2")),
    # One name is no argument and has no index, so all inputs go by order.
    "mixed": (SumAndProduct, BATCH + io("b FP32 2; second FP32 2", SP)),
    "dict": (
        FromDict,
        io("right FP32 2; left FP32 2", "d FP32 2") + "instance_group [{ kind: KIND_MODEL }]\n",
    ),
    "text": (Shout, BATCH + io("words STRING 1 r", "loud STRING 1 r")),
    "views": (Views, io("x FP32 -1,4", "n FP32 -1,4; t FP32 4,-1")),
    "unbatched": (
        Linear,
        io("x FP32 -1,4", "y FP32 -1,3")
        + parameters(INTRA_OP_THREAD_COUNT="3", INTER_OP_THREAD_COUNT="5"),
    ),
    "batched": (Linear, BATCH + io(X, Y) + "instance_group [{ kind: KIND_CPU count: 2 }]\n"),
    "rows": (
        PickRows,
        "max_batch_size: 16\n"
        "dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 300000 }\n"
        + io("index INT64 1", "row FP32 4"),
    ),
    "counter": (
        Counter,
        BATCH
        + io("x__0 FP32 1", "sum__0 FP32 1")
        + f"""sequence_batching {{
          control_input [{{ name: "start__1" {START} }}]
          state [{{ input_name: "total__2" output_name: "total__1" data_type: TYPE_FP32 dims: [1]
            initial_state: {{ name: "zero" data_type: TYPE_FP32 dims: [1] zero_data: true }} }}]
        }}""",
    ),
    "mode_off": (Modes, io("x FP32 1", "y FP32 1") + parameters(INFERENCE_MODE="off")),
    "every_parameter": (
        Modes,
        io("x FP32 1", "y FP32 1")
        + parameters(
            DISABLE_OPTIMIZED_EXECUTION="true",
            ENABLE_CACHE_CLEANING="1",
            ENABLE_TENSOR_FUSER="false",
            ENABLE_JIT_PROFILING="On",
            ENABLE_JIT_EXECUTOR="true",
            ENABLE_WEIGHT_SHARING="true",
            ENABLE_NVFUSER="true",
            DISABLE_CUDNN="true",
        ),
    ),
}

# name: (TorchScript model, config, upstream's words at the load)
REFUSED: dict[str, tuple[type[torch.nn.Module] | None, str, str]] = {
    "no_file": (None, io(X, Y), r"unable to find '.*/1/model\.pt' for model instance 'no_file"),
    "no_tensors": (Linear, "", "'no_tensors', configuration expects 0 inputs, model provides 1"),
    "dict_no_tensors": (FromDict, "", "must contain at least one input, none were specified."),
    "no_outputs": (Linear, io(X, ""), "must contain at least one output, none were specified."),
    "input_type": (
        Linear,
        io("x UINT16 4", Y),
        "unsupported datatype TYPE_UINT16 for input 'x' for model 'input_type'",
    ),
    "output_type": (
        Linear,
        io(X, "y BF16 3"),
        "unsupported datatype TYPE_BF16 for output 'y' for model 'output_type'",
    ),
    "text_rank_in": (
        Shout,
        BATCH + io("words STRING 1", "loud STRING 1 r"),
        "Triton only supports 1 dimensional List of String as input for 'words' for model",
    ),
    "text_rank_out": (
        Shout,
        io("words STRING -1", "loud STRING -1,1"),
        "Triton only supports 1 dimensional List of String as output for 'loud' for model",
    ),
    "number": (
        TakesNumber,
        io("x FP32 2; n INT32 1", Y),
        "An input of type 'int' was detected in the model. Only a single input of type",
    ),
    "index_range": (SumAndProduct, io("x__0 FP32 2; y__2 FP32 2", Y), "takes arguments 0 to 1"),
    "boolean": (
        Linear,
        io(X, Y) + parameters(INFERENCE_MODE="maybe"),
        "failed to convert 'maybe' to boolean",
    ),
    "integer": (
        Linear,
        io(X, Y) + parameters(INTRA_OP_THREAD_COUNT="two"),
        "failed to convert 'two' to integral number",
    ),
    "control_name": (
        SumAndProduct,
        "max_batch_size: 1\n"
        + io("a FP32 1", "s FP32 1")
        + f'sequence_batching {{ control_input [{{ name: "START" {START} }}] }}',
        "input 'START' does not follow <name>__<index> naming convention.",
    ),
}

# name: (TorchScript model, outputs, upstream's words at the request)
BAD_OUTPUTS: dict[str, tuple[type[torch.nn.Module], str, str]] = {
    "wrong_dtype": (
        Linear,
        "y FP64 3",
        "configuration expects datatype TYPE_FP64 for output 'y', model provides TYPE_FP32",
    ),
    "wrong_index": (
        Linear,
        "y__0 FP32 3; z__1 FP32 1",
        "The output z__1 in the model configuration refers to an output index which doesn't "
        "exist. This model has 1 outputs",
    ),
    "text_wanted": (
        Linear,
        "y STRING 1",
        "configuration expects datatype TYPE_BYTES for output 'y', model provides TYPE_FP32",
    ),
    "complex": (Complex, Y, "model provides TYPE_<invalid>"),
    "sparse": (Sparse, Y, "output tensor 'y' is not found"),
    "scalar": (Scalar, Y, "output 'y' is a scalar which is not supported."),
    "gives_dict": (GivesDict, Y, "should not be a List / Dictionary of Tensors or a Scalar"),
    "gives_list": (GivesList, Y, "must be of type Tensor or List[str], received List[Tensor]"),
}

# name: (model.py, more config, words at the load)
NOT_COMPILED: dict[str, tuple[str, str, str]] = {
    "no_class": ("import torch\n", "", "Cannot find a subclass of torch.nn.Module"),
    "needs_arguments": (
        NET.replace("(self)", "(self, size)"),
        "",
        "it must be made without arguments",
    ),
    "own_model": (
        NET,
        parameters(TORCH_COMPILE_OPTIONAL_PARAMETERS='{"model": 1}'),
        "'model' is not an optional parameter for 'torch.compile'",
    ),
    "no_json": (
        NET,
        parameters(TORCH_COMPILE_OPTIONAL_PARAMETERS="dynamic"),
        "TORCH_COMPILE_OPTIONAL_PARAMETERS is not JSON",
    ),
    "no_mode": (
        NET,
        parameters(TORCH_COMPILE_OPTIONAL_PARAMETERS='{"mode": "fastest"}'),
        "Unrecognized mode=fastest",
    ),
}


def script(module: type[torch.nn.Module]) -> torch.jit.ScriptModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(module().eval())


@pytest.fixture(scope="module")
def loads(server: Triton, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every model of this module, loaded; each one's refusal, "" for none."""
    folder = tmp_path_factory.mktemp("scripts")

    def torchscript(module: type[torch.nn.Module] | None, config: str) -> Case:
        files: dict[str, bytes] = {"1/README": b"a version needs a folder"}
        if module is not None:
            path = folder / f"{module.__name__}.pt"
            if not path.exists():
                script(module).save(path)
            files["1/model.pt"] = path.read_bytes()
        return Case('platform: "pytorch_libtorch"\n' + config, files)

    state = {f"layer.{key}": value for key, value in Linear().layer.state_dict().items()}
    torch.save(state, folder / "weights.pt")
    weights = (folder / "weights.pt").read_bytes()
    compiled = parameters(
        TORCH_COMPILE_OPTIONAL_PARAMETERS='{"dynamic": true}',
        NUM_THREADS="2",
        NUM_INTEROP_THREADS="3",
    )
    cases = {name: torchscript(module, config) for name, (module, config) in SERVED.items()}
    cases |= {name: torchscript(module, config) for name, (module, config, _) in REFUSED.items()}
    cases |= {
        name: torchscript(module, io(X, outputs))
        for name, (module, outputs, _) in BAD_OUTPUTS.items()
    }
    cases["weights_only"] = Case('backend: "pytorch"\n' + io(X, Y), {"1/model.pt": weights})
    cases["compiled"] = Case(RUNTIME + compiled, {"1/model.py": NET, "1/model.pt": weights})
    without = RUNTIME.replace('runtime: "model.py"', "")
    turned = 'backend: "pytorch"\nruntime: "model.py"\n' + io("x FP32 2,4", "t FP32 4,2")
    cases["compiled_view"] = Case(turned, {"1/model.py": TURNED})
    cases["no_runtime"] = Case(without, {"1/model.py": NET})
    cases |= {
        name: Case(RUNTIME + more, {"1/model.py": source})
        for name, (source, more, _) in NOT_COMPILED.items()
    }
    return deployed(server, cases)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


# -- right configs --------------------------------------------------------------------------------

A, B = ones(1, 2) * 3, ones(1, 2) * 5  # a + 2b tells the arguments apart


@pytest.mark.parametrize(
    ("model", "inputs", "outputs"),
    [
        ("by_argument", {"b": B, "a": A}, "sp"),
        ("by_index", {"y__1": B, "x__0": A}, ("s__0", "p__1")),
        ("mixed", {"b": A, "second": B}, "sp"),
    ],
)
def test_tensors_are_found_by_argument_then_index_then_order(
    server: Triton,
    loads: dict[str, str],
    model: str,
    inputs: dict[str, np.ndarray],
    outputs: tuple[str, str],
) -> None:
    assert loads[model] == ""
    got = infer(server, model, inputs)
    for name, want in zip(
        outputs, script(SumAndProduct)(*map(torch.from_numpy, (A, B))), strict=True
    ):
        np.testing.assert_array_equal(got[name], want.numpy())


def test_views_are_sent_with_their_values(server: Triton, loads: dict[str, str]) -> None:
    assert loads["views"] == ""
    x = np.array([[1, 2, 3, 4], [1, 0, 0, 5]], np.float32)
    got = infer(server, "views", {"x": x})
    np.testing.assert_allclose(got["n"], -np.fft.fft(x).imag, atol=1e-5)
    np.testing.assert_array_equal(got["t"], x.T)


def test_a_dict_is_filled_by_name(server: Triton, loads: dict[str, str]) -> None:
    assert loads["dict"] == ""
    got = infer(server, "dict", {"right": ones(2), "left": ones(2) * 4})
    np.testing.assert_array_equal(got["d"], ones(2) * 3)


def test_text_goes_in_and_out(server: Triton, loads: dict[str, str]) -> None:
    assert loads["text"] == ""
    words = np.array([["grüße".encode()], [b""], [b"b"]], np.object_)
    got = infer(server, "text", {"words": words})["loud"]
    assert got.shape == (3, 1)
    assert [w.decode() for w in got.ravel()] == script(Shout)(["grüße", "", "b"])
    with pytest.raises(Exception, match="is not UTF-8"):
        infer(server, "text", {"words": np.array([[b"\xff"]], np.object_)})


@pytest.mark.quick
@pytest.mark.parametrize("model", ["unbatched", "batched"])
def test_answers_are_those_of_torch(server: Triton, loads: dict[str, str], model: str) -> None:
    assert loads[model] == ""
    x = normal(8, 4)
    want = Linear()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(infer(server, model, {"x": x})["y"], want, rtol=1e-6)


def test_a_batch_above_the_maximum_is_refused(server: Triton, loads: dict[str, str]) -> None:
    with pytest.raises(Exception, match="batch-size must be <= 8"):
        infer(server, "batched", {"x": normal(9, 4)})


@pytest.mark.quick
def test_requests_share_a_batch_and_a_bad_one_fails_alone(
    server: Triton, loads: dict[str, str]
) -> None:
    assert loads["rows"] == ""
    indices = [0, 1, 2, 99, 4, 5, 6, 7]
    answers = together(server, "rows", [{"index": np.array([[i]])} for i in indices])
    table = PickRows().table.numpy()
    for i, answer in zip(indices, answers, strict=True):
        if i == 99:
            assert "PyTorch execute failure" in answer
            assert "index 99 is out of bounds" in answer
        else:
            assert not isinstance(answer, str), answer
            np.testing.assert_array_equal(answer["row"], table[[i]])
    statistics = counted(server, "rows", 8)
    assert statistics["inference_count"] == 8
    assert statistics["execution_count"] < 8


def test_sequences_carry_controls_and_state(server: Triton, loads: dict[str, str]) -> None:
    assert loads["counter"] == ""
    sums = []
    for i, value in enumerate((2, 3, 4)):
        place = {"sequence_id": 7, "sequence_start": i == 0, "sequence_end": i == 2}
        got = infer(server, "counter", {"x__0": ones(1, 1) * value}, **place)
        sums.append(got["sum__0"].item())
    assert sums == [2, 5, 9]


# -- wrong configs --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", REFUSED)
def test_a_wrong_config_fails_in_upstreams_words(loads: dict[str, str], model: str) -> None:
    assert re.search(REFUSED[model][2], loads[model]), loads[model]


def test_a_file_that_is_no_torchscript_fails(loads: dict[str, str]) -> None:
    words = (
        "failed to load model 'weights_only': PytorchStreamReader failed locating file constants"
    )
    assert words in loads["weights_only"]


def test_without_runtime_a_module_is_not_served(loads: dict[str, str]) -> None:
    words = r"unable to find '.*/1/model\.pt' for model instance 'no_runtime"
    assert re.search(words, loads["no_runtime"])


@pytest.mark.parametrize("model", BAD_OUTPUTS)
def test_a_wrong_output_fails_at_the_request_in_upstreams_words(
    server: Triton, loads: dict[str, str], model: str
) -> None:
    assert loads[model] == ""
    with pytest.raises(Exception, match=re.escape(BAD_OUTPUTS[model][2])):
        infer(server, model, {"x": ones(4)})


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "inference_mode"), [("mode_off", 0), ("every_parameter", 1)])
def test_inference_mode_reaches_torch(
    server: Triton, loads: dict[str, str], model: str, inference_mode: int
) -> None:
    assert loads[model] == ""
    assert infer(server, model, {"x": ones(1)})["y"].item() == inference_mode


def test_threads_reach_torch(server: Triton, loads: dict[str, str]) -> None:
    line = r"'unbatched' .*TorchScript model\.pt, 3 intra-op and 5 inter-op threads"
    assert re.search(line, server.log_text())


def test_instances_share_the_cores(server: Triton, loads: dict[str, str]) -> None:
    each = max(1, len(os.sched_getaffinity(0)) // 2)
    line = f"'batched' version 1 on cpu: TorchScript model.pt, {each} intra-op"
    assert server.log_text().count(line) == 2


def test_every_parameter_is_read_and_logged(server: Triton, loads: dict[str, str]) -> None:
    log = server.log_text()
    for line in (
        "Optimized execution is disabled",
        "Cache Cleaning is enabled",
        "Inference Mode is enabled",
        "cuDNN is disabled",
        "Tensor fuser is disabled",
        "Jit profiling is enabled",
        "Jit executor is enabled",
    ):
        assert f"{line} for model instance 'every_parameter'" in log
    for key in ("ENABLE_NVFUSER", "ENABLE_WEIGHT_SHARING"):
        assert f"{key} has no effect on model 'every_parameter'" in log


def test_the_log_is_quiet(server: Triton, loads: dict[str, str]) -> None:
    assert "Warning" not in server.log_text()


# -- torch.compile --------------------------------------------------------------------------------


def test_a_compiled_module_answers_as_in_process(server: Triton, loads: dict[str, str]) -> None:
    assert loads["compiled"] == ""
    x = normal(5, 4)
    for rows in (5, 2):
        got = infer(server, "compiled", {"x": x[:rows]})
        want = torch.relu(Linear()(torch.from_numpy(x[:rows]))).detach().numpy()
        np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got["s"], x[:rows].sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    line = "torch.compile model.py, 2 intra-op and 3 inter-op threads, options {'dynamic': True}"
    assert line in server.log_text()


def test_a_compiled_module_must_give_tensors_in_order(
    server: Triton, loads: dict[str, str]
) -> None:
    assert loads["compiled_view"] == ""
    with pytest.raises(InferenceServerException, match="DLPack tensor is not contiguous"):
        infer(server, "compiled_view", {"x": ones(2, 4)})


@pytest.mark.parametrize("model", NOT_COMPILED)
def test_a_module_that_cannot_be_compiled_fails_at_load(loads: dict[str, str], model: str) -> None:
    assert NOT_COMPILED[model][2] in loads[model]


def test_without_a_compiler_the_load_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "net"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(NET)
    (folder / "config.pbtxt").write_text(RUNTIME)
    with Triton(tmp_path / "models", environment={"CXX": "no-such-compiler"}) as triton:
        with pytest.raises(LoadError) as caught:
            triton.load("net")
        assert "there is no 'no-such-compiler' on PATH" in caught.value.message
