"""The PyTorch stand-in on the real server: TorchScript and torch.compile."""

from __future__ import annotations

import concurrent.futures
import re
import typing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.http as http

from workbook.errors import LoadError
from workbook.server import Triton

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


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
    """Tells whether torch was in inference mode: such tensors do not count their versions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x) + float(torch.ones(1).is_inference())


class Counter(torch.nn.Module):
    """A running sum: the START control resets it, implicit state carries it."""

    def forward(
        self, x: torch.Tensor, start: torch.Tensor, total: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        now = x + total * (1 - start)
        return now, now


MODELS: dict[str, type[torch.nn.Module]] = {
    c.__name__: c
    for c in (
        SumAndProduct, Linear, FromDict, Shout, GivesDict, GivesList, Scalar, TakesNumber,
        PickRows, Modes, Counter,
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """A model's name → its TorchScript file."""
    folder = tmp_path_factory.mktemp("scripts")

    def get(name: str) -> bytes:
        path = folder / f"{name}.pt"
        if not path.exists():
            torch.jit.script(MODELS[name]().eval()).save(path)
        return path.read_bytes()

    return get


def io(inputs: str, outputs: str) -> str:
    """`a FP32 4; b FP32 4` → the config's input and output sections."""

    def entries(kind: str, text: str) -> str:
        lines = []
        for one in text.split(";"):
            name, data_type, *rest = one.split()
            dims, *reshape = rest
            extra = f" reshape {{ shape: [{' '.join(reshape[1:])}] }}" if reshape else ""
            lines.append(f'{{ name: "{name}" data_type: TYPE_{data_type} dims: [{dims}]{extra} }}')
        return f"{kind} [{', '.join(lines)}]\n"

    return entries("input", inputs) + entries("output", outputs)


def parameter(key: str, value: str) -> str:
    value = value.replace('"', '\\"')
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


Infer = Callable[..., dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def infer(server: Triton) -> Infer:
    """`infer(model, {"x": array}, sequence_id=…)` → the outputs by name, over HTTP."""
    types = {"float32": "FP32", "int64": "INT64", "object": "BYTES", "int32": "INT32"}

    def call(model: str, inputs: dict[str, np.ndarray], **options: object) -> dict[str, np.ndarray]:
        tensors = []
        for name, array in inputs.items():
            tensor = http.InferInput(name, list(array.shape), types[str(array.dtype)])
            tensor.set_data_from_numpy(array)
            tensors.append(tensor)
        with server.http_client() as client:
            result = client.infer(model, tensors, **options)
        return {o["name"]: result.as_numpy(o["name"]) for o in result.get_response()["outputs"]}

    return call


@pytest.fixture
def load(server: Triton, scripts: Callable[[str], bytes], write_model: Callable[..., Path]):
    """`load(name, "Linear", config)`: deploy a TorchScript model and load it."""

    def go(name: str, model: str | None, config: str, platform: str = "pytorch_libtorch") -> None:
        files = {"1/model.pt": scripts(model)} if model else {"1/.keep": ""}
        write_model(name, f'platform: "{platform}"\n{config}' if platform else config, files)
        server.load(name)

    return go


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


# -- names ----------------------------------------------------------------------------------------

A, B = ones(1, 2) * 3, ones(1, 2) * 5  # a + 2b tells the arguments apart


@pytest.mark.parametrize(
    ("label", "inputs", "feeds"),
    [
        ("by_argument", "b FP32 2; a FP32 2", {"b": B, "a": A}),
        ("by_index", "y__1 FP32 2; x__0 FP32 2", {"y__1": B, "x__0": A}),
        ("by_order", "first FP32 2; second FP32 2", {"second": B, "first": A}),
        # One name is no argument and has no index: all of them go by order.
        ("mixed", "b FP32 2; second FP32 2", {"b": A, "second": B}),
    ],
)
def test_inputs_are_found_by_argument_then_index_then_order(
    load: typing.Any, infer: Infer, label: str, inputs: str, feeds: dict[str, np.ndarray]
) -> None:
    load(label, "SumAndProduct", "max_batch_size: 4\n" + io(inputs, "s__0 FP32 2; p__1 FP32 2"))
    got = infer(label, feeds)
    sums, products = torch.jit.script(SumAndProduct())(torch.from_numpy(A), torch.from_numpy(B))
    np.testing.assert_array_equal(got["s__0"], sums.numpy())
    np.testing.assert_array_equal(got["p__1"], products.numpy())


def test_outputs_are_found_by_index_then_order(load: typing.Any, infer: Infer) -> None:
    ins = "a FP32 2; b FP32 2"
    load("out_index", "SumAndProduct", "max_batch_size: 4\n" + io(ins, "p__1 FP32 2; s__0 FP32 2"))
    got = infer("out_index", {"a": A, "b": B})
    assert got["s__0"][0, 0] == 13
    assert got["p__1"][0, 0] == 15
    load("out_order", "SumAndProduct", "max_batch_size: 4\n" + io(ins, "s FP32 2; p FP32 2"))
    got = infer("out_order", {"a": A, "b": B})
    assert got["s"][0, 0] == 13
    assert got["p"][0, 0] == 15


def test_a_dict_is_filled_by_name(load: typing.Any, infer: Infer) -> None:
    load("dict", "FromDict", io("right FP32 1 2; left FP32 1 2".replace("1 2", "2"), "d FP32 2"))
    got = infer("dict", {"right": ones(2), "left": ones(2) * 4})
    np.testing.assert_array_equal(got["d"], ones(2) * 3)


def test_text_goes_in_and_out(load: typing.Any, infer: Infer) -> None:
    load("text", "Shout", "max_batch_size: 4\n" + io("words STRING 1 r", "loud STRING 1 r"))
    words = np.array([["grüße".encode()], [b""], [b"b"]], np.object_)
    got = infer("text", {"words": words})["loud"]
    assert got.shape == (3, 1)
    assert [w.decode() for w in got.ravel()] == ["GRÜSSE!", "!", "B!"]
    with pytest.raises(Exception, match="is not UTF-8"):
        infer("text", {"words": np.array([[b"\xff"]], np.object_)})


def test_no_batching_serves_the_shape_as_it_is(load: typing.Any, infer: Infer) -> None:
    load("unbatched", "Linear", io("x FP32 -1,4", "y FP32 -1,3"))
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    want = Linear()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(infer("unbatched", {"x": x})["y"], want, rtol=1e-6)


# -- what upstream refuses ------------------------------------------------------------------------

X = "x FP32 4"
Y = "y FP32 3"


@pytest.mark.parametrize(
    ("model", "config", "words"),
    [
        (None, io(X, Y), r"unable to find '.*/1/model\.pt' for model instance"),
        ("Linear", "", "configuration expects 0 inputs, model provides 1"),
        ("FromDict", "", "must contain at least one input, none were specified"),
        ("Linear", io(X, Y).split("output")[0], "must contain at least one output, none were"),
        ("Linear", io(f"{X}; z FP32 1", Y), "configuration expects 2 inputs, model provides 1"),
        ("Linear", io("x UINT16 4", Y), "unsupported datatype TYPE_UINT16 for input 'x' for model"),
        ("Linear", io(X, "y BF16 3"), "unsupported datatype TYPE_BF16 for output 'y' for model"),
        (
            "Shout",
            "max_batch_size: 2\n" + io("words STRING 1", "loud STRING 1 r"),
            "Triton only supports 1 dimensional List of String as input for 'words'",
        ),
        (
            "Shout",
            io("words STRING -1", "loud STRING -1,1"),
            "Triton only supports 1 dimensional List of String as output for 'loud'",
        ),
        ("TakesNumber", io("x FP32 2; n INT32 1", Y), "An input of type 'int' was detected"),
        ("SumAndProduct", io("x__0 FP32 2; y__2 FP32 2", "s FP32 2"), "takes arguments 0 to 1"),
        (
            "Linear",
            io(X, Y) + parameter("INFERENCE_MODE", "maybe"),
            "failed to convert 'maybe' to boolean",
        ),
        (
            "Linear",
            io(X, Y) + parameter("INTRA_OP_THREAD_COUNT", "two"),
            "failed to convert 'two' to integral number",
        ),
        (
            "SumAndProduct",
            "max_batch_size: 1\n"
            + io("a FP32 1", "s FP32 1")
            + 'sequence_batching { control_input [{ name: "START" control '
            "[{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }] }] }",
            "input 'START' does not follow <name>__<index> naming convention",
        ),
    ],
)
def test_a_wrong_config_fails_in_upstreams_words(
    load: typing.Any, request: pytest.FixtureRequest, model: str | None, config: str, words: str
) -> None:
    name = f"wrong{request.node.callspec.id.rpartition('-')[0]}{abs(hash(words)) % 9999}"
    name = re.sub(r"\W", "_", name)
    with pytest.raises(LoadError) as caught:
        load(name, model, config)
    assert re.search(words, caught.value.message), caught.value.message


def test_a_file_that_is_no_torchscript_fails(
    server: Triton, write_model: Callable[..., Path], tmp_path: Path
) -> None:
    torch.save(Linear().state_dict(), tmp_path / "weights.pt")
    files = {"1/model.pt": (tmp_path / "weights.pt").read_bytes()}
    write_model("weights_only", 'backend: "pytorch"\n' + io(X, Y), files)
    with pytest.raises(LoadError) as caught:
        server.load("weights_only")
    assert "failed to load model 'weights_only': " in caught.value.message
    assert "constants.pkl" in caught.value.message


@pytest.mark.parametrize(
    ("model", "outputs", "words"),
    [
        (
            "Linear",
            "y FP64 3",
            "configuration expects datatype TYPE_FP64 for output 'y', model provides TYPE_FP32",
        ),
        (
            "Linear",
            "y__0 FP32 3; z__1 FP32 1",
            "The output z__1 in the model configuration refers to an output index which doesn't "
            "exist. This model has 1 outputs",
        ),
        ("Scalar", Y, "output 'y' is a scalar which is not supported."),
        ("GivesDict", Y, "It should not be a List / Dictionary of Tensors or a Scalar"),
        ("GivesList", Y, "output must be of type Tensor or List[str], received List[Tensor]"),
    ],
)
def test_a_wrong_output_fails_at_the_request_in_upstreams_words(
    load: typing.Any, infer: Infer, model: str, outputs: str, words: str
) -> None:
    name = f"bad_output_{model}_{len(outputs)}"
    load(name, model, io(X, outputs))
    with pytest.raises(Exception, match=re.escape(words)):
        infer(name, {"x": ones(4)})


# -- batches --------------------------------------------------------------------------------------


def test_requests_share_a_batch_and_a_bad_one_fails_alone(
    server: Triton, load: typing.Any, infer: Infer
) -> None:
    config = (
        "max_batch_size: 16\ninstance_group [{ kind: KIND_CPU count: 1 }]\n"
        "dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 300000 }\n"
        + io("index INT64 1", "row FP32 4")
    )
    load("rows", "PickRows", config)
    indices = [0, 1, 2, 99, 4, 5, 6, 7]

    def one(i: int) -> np.ndarray | str:
        try:
            return infer("rows", {"index": np.array([[i]], np.int64)})["row"]
        except Exception as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, indices))
    table = np.arange(40, dtype=np.float32).reshape(10, 4)
    for i, answer in zip(indices, answers, strict=True):
        if i == 99:
            assert "PyTorch execute failure" in answer
            assert "index 99 is out of bounds" in answer
        else:
            np.testing.assert_array_equal(answer, table[[i]])
    statistics = server.statistics("rows")[0]
    assert statistics["inference_count"] == 7
    assert statistics["execution_count"] < 7


def test_a_batch_of_one_client_is_answered_row_by_row(load: typing.Any, infer: Infer) -> None:
    load("batched", "Linear", "max_batch_size: 8\n" + io(X, Y))
    x = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    want = Linear()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(infer("batched", {"x": x})["y"], want, rtol=1e-6)
    with pytest.raises(Exception, match="batch-size must be <= 8"):
        infer("batched", {"x": np.concatenate([x, x])})


def test_sequences_carry_controls_and_state(load: typing.Any, infer: Infer) -> None:
    config = (
        "max_batch_size: 2\n"
        + io("x__0 FP32 1", "sum__0 FP32 1")
        + """sequence_batching {
          control_input [{ name: "start__1" control
            [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }] }]
          state [{ input_name: "total__2" output_name: "total__1" data_type: TYPE_FP32 dims: [1]
            initial_state: { name: "zero" data_type: TYPE_FP32 dims: [1] zero_data: true } }]
        }"""
    )
    load("counter", "Counter", config)
    steps = [
        infer(
            "counter",
            {"x__0": ones(1, 1) * value},
            sequence_id=7,
            sequence_start=i == 0,
            sequence_end=i == 2,
        )["sum__0"].item()
        for i, value in enumerate((2, 3, 4))
    ]
    assert steps == [2, 5, 9]


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "wanted"), [(None, 1.0), ("false", 0.0), ("On", 1.0)])
def test_inference_mode_reaches_torch(
    load: typing.Any, infer: Infer, value: str | None, wanted: float
) -> None:
    name = f"mode_{value}"
    load(
        name,
        "Modes",
        io("x FP32 1", "y FP32 1") + (parameter("INFERENCE_MODE", value) if value else ""),
    )
    assert infer(name, {"x": ones(1)})["y"].item() == wanted


def test_threads_reach_torch(server: Triton, load: typing.Any) -> None:
    threads = parameter("INTRA_OP_THREAD_COUNT", "3") + parameter("INTER_OP_THREAD_COUNT", "5")
    load("threads", "Linear", io(X, Y) + threads)
    assert re.search(r"'threads' .*model\.pt, 3 intra-op and 5 inter-op threads", server.log_text())


def test_instances_share_the_cores(
    server: Triton, load: typing.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(
        "shared",
        "Linear",
        io(X, Y) + "instance_group [{ kind: KIND_CPU count: 64 }]\n".replace("64", "2"),
    )
    import os

    each = max(1, len(os.sched_getaffinity(0)) // 2)
    assert server.log_text().count(f"TorchScript model.pt, {each} intra-op") >= 2


def test_every_parameter_is_read_and_logged(server: Triton, load: typing.Any, infer: Infer) -> None:
    keys = {
        "DISABLE_OPTIMIZED_EXECUTION": "Optimized execution is disabled",
        "ENABLE_CACHE_CLEANING": "Cache Cleaning is enabled",
        "ENABLE_TENSOR_FUSER": "Tensor fuser is enabled",
        "ENABLE_JIT_PROFILING": "Jit profiling is enabled",
        "ENABLE_JIT_EXECUTOR": "Jit executor is enabled",
        "ENABLE_WEIGHT_SHARING": "Weight sharing is enabled",
        "ENABLE_NVFUSER": "ENABLE_NVFUSER has no effect",
        "DISABLE_CUDNN": "Inference Mode is enabled",
    }
    load("every", "Linear", io(X, Y) + "".join(parameter(k, "true") for k in keys))
    assert infer("every", {"x": ones(4)})["y"].shape == (3,)
    log = server.log_text()
    for line in keys.values():
        assert line in log


def test_the_log_is_quiet(server: Triton, load: typing.Any, infer: Infer) -> None:
    load("quiet", "Linear", io(X, Y))
    infer("quiet", {"x": ones(4)})
    assert "Warning" not in server.log_text()
    assert "Traceback (most recent call last):\n  File" not in server.log_text()


# -- torch.compile --------------------------------------------------------------------------------

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.layer(x)), x.sum(1, keepdim=True)
"""
RUNTIME = 'backend: "pytorch"\nruntime: "model.py"\nmax_batch_size: 8\n'
NET_IO = io(X, "y FP32 3; s FP32 1")


def weights(tmp_path: Path) -> bytes:
    torch.save({f"layer.{k}": v for k, v in Linear().layer.state_dict().items()}, tmp_path / "w.pt")
    return (tmp_path / "w.pt").read_bytes()


def test_a_module_is_compiled_and_answers_as_in_process(
    server: Triton, write_model: Callable[..., Path], infer: Infer, tmp_path: Path
) -> None:
    options = parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", '{"dynamic": true}')
    threads = parameter("NUM_THREADS", "2") + parameter("NUM_INTEROP_THREADS", "3")
    files = {"1/model.py": NET, "1/model.pt": weights(tmp_path)}
    write_model("compiled", RUNTIME + NET_IO + options + threads, files)
    server.load("compiled")
    x = np.random.default_rng(2).normal(size=(5, 4)).astype(np.float32)
    for rows in (5, 2):
        got = infer("compiled", {"x": x[:rows]})
        want = torch.relu(Linear()(torch.from_numpy(x[:rows]))).detach().numpy()
        np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got["s"], x[:rows].sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    log = server.log_text()
    assert "torch.compile model.py, 2 intra-op and 3 inter-op threads, options" in log
    assert "{'dynamic': True}" in log


@pytest.mark.parametrize(
    ("label", "source", "extra", "words"),
    [
        ("no_class", "import torch\n", "", "Cannot find a subclass of torch.nn.Module"),
        ("broken", "import nonsense\n", "", "No module named 'nonsense'"),
        (
            "needs_arguments",
            NET.replace("(self)", "(self, size)"),
            "",
            "it must be made without arguments",
        ),
        (
            "own_model",
            NET,
            parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", '{"model": 1}'),
            "'model' is not an optional parameter for 'torch.compile'",
        ),
        (
            "no_json",
            NET,
            parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", "dynamic"),
            "TORCH_COMPILE_OPTIONAL_PARAMETERS is not JSON",
        ),
        (
            "no_mode",
            NET,
            parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", '{"mode": "fastest"}'),
            "fastest",
        ),
    ],
)
def test_a_module_that_cannot_be_compiled_fails_at_load(
    server: Triton,
    write_model: Callable[..., Path],
    label: str,
    source: str,
    extra: str,
    words: str,
) -> None:
    write_model(label, RUNTIME + NET_IO + extra, {"1/model.py": source})
    with pytest.raises(LoadError) as caught:
        server.load(label)
    assert words in caught.value.message


def test_without_runtime_a_module_is_not_served(
    server: Triton, write_model: Callable[..., Path]
) -> None:
    config = 'backend: "pytorch"\nmax_batch_size: 8\n' + NET_IO
    write_model("no_runtime", config, {"1/model.py": NET})
    with pytest.raises(LoadError) as caught:
        server.load("no_runtime")
    assert "1/model.pt' for model instance" in caught.value.message


def test_without_a_compiler_the_load_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models" / "compiled" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(NET)
    (folder.parent / "config.pbtxt").write_text(RUNTIME + NET_IO)
    missing = {"CXX": "no-such-compiler"}
    with Triton(tmp_path / "models", environment=missing) as triton:
        with pytest.raises(LoadError) as caught:
            triton.load("compiled")
        assert "there is no 'no-such-compiler' on PATH" in caught.value.message
        config = triton.repository / "compiled" / "config.pbtxt"
        eager = parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", '{"backend": "eager"}')
        config.write_text(RUNTIME + NET_IO + eager)
        triton.load("compiled")
        assert triton.ready("compiled")
