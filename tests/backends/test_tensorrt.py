"""The TensorRT stand-ins without a GPU: nothing loads, and the message says what is known.

The engine is a real one, built by TensorRT for RTX. Messages of configs that do not fit it are
those of triton-inference-server/tensorrt_backend.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from loading import load_all

from workbook import zoo
from workbook.backends.tensorrt.record import Record, digest
from workbook.backends.tensorrt.record import path as record_of
from workbook.server import Triton
from workbook.server.explain import load_error
from workbook.zoo import engines

pytestmark = [pytest.mark.server, pytest.mark.quick]

if engines.gpu():
    pytest.skip("this machine has a GPU: docker/verify_gpu.sh", allow_module_level=True)

IMAGE = 'input [{ name: "image" data_type: TYPE_FP32 dims: [1, 8, 8] }] '
LOGITS = 'output [{ name: "logits" data_type: TYPE_FP32 dims: [10] }] '
FULL = f'backend: "tensorrt" {IMAGE}{LOGITS}max_batch_size: 64 '
NO_GPU = "unable to load model '{model}', TensorRT backend supports only GPU device. "
FITS = (
    f"{NO_GPU}The engine fits this config. TensorRT for RTX {{version}} built it for GPUs of "
    "compute capability 8.0, 8.6, 8.9, 12.0, 12.1: 7 layers, batches of up to 64, {memory} on the "
    "GPU. An engine runs on an NVIDIA GPU only. Without one, serve the same model with the "
    "onnxruntime or openvino backend"
)
BROKEN = "unable to create TensorRT engine: "
SHAPE = "the model expects 4 dimensions (shape [-1,1,8,8]) but the model configuration specifies"


def nothing(plan: Path) -> None:
    """Leave plan and record as they were built."""


def without_record(plan: Path) -> None:
    record_of(plan).unlink()


def cut(plan: Path) -> None:
    plan.write_bytes(plan.read_bytes()[:100_000])


def of_another_version(plan: Path) -> None:
    """Write 1.6.0 into the plan's header, where TensorRT for RTX keeps the version."""
    content = bytearray(plan.read_bytes())
    content[25:28] = 6, 0, 0
    plan.write_bytes(bytes(content))


def of_tensorrt(plan: Path) -> None:
    """Make it an engine of TensorRT, as a machine with a GPU builds it, with its record."""
    known = Record.beside(plan)
    assert known is not None
    plan.write_bytes(b"ftrt" + bytes(99))
    same = {"sha256": digest(plan), "bytes": plan.stat().st_size}
    dataclasses.replace(known, product="tensorrt", **same).save(plan)


def text(content: bytes) -> Callable[[Path], None]:
    def write(plan: Path) -> None:
        plan.write_bytes(content)
        without_record(plan)

    return write


def record(**fields: object) -> Callable[[Path], None]:
    def write(plan: Path) -> None:
        known = json.loads(record_of(plan).read_text())
        record_of(plan).write_text(json.dumps(known | fields))

    return write


@dataclasses.dataclass(frozen=True)
class Case:
    """A model: its config, the message of the server, and what is changed in its files.

    Attributes:
        rule: the entry of the catalogue that explains the message, where it is looked at.
        outputs: how many outputs the engine has.
    """

    config: str
    message: str
    change: Callable[[Path], None] = nothing
    rule: str = ""
    outputs: int = 1


def resized(before: str, after: str) -> str:
    assert before in FULL
    return FULL.replace(before, after)


CASES = {
    # configs that fit
    "full": Case(FULL, FITS, rule="needs-gpu"),
    "platform": Case(resized('backend: "tensorrt"', 'platform: "tensorrt_plan"'), FITS),
    "bare": Case('backend: "tensorrt"', FITS),
    "inputs_only": Case(f'backend: "tensorrt" {IMAGE}', FITS),
    "small": Case(resized("64", "8"), FITS),
    "one_batch": Case(
        'backend: "tensorrt" input [{ name: "image" data_type: TYPE_FP32 dims: [8, 1, 8, 8] }] '
        'output [{ name: "logits" data_type: TYPE_FP32 dims: [8, 10] }]',
        FITS,
    ),
    # configs that do not
    "large": Case(
        resized("64", "65"),
        "autofill failed for model 'large': configuration specified max-batch 65 but TensorRT "
        "engine only supports max-batch 64",
        rule="engine-batch",
    ),
    "no_batches": Case(
        resized("1, 8, 8", "-1, 1, 8, 8").replace("[10]", "[-1, 10]"),
        "configuration specified max-batch 64 but TensorRT engine only supports max-batch 0",
        rule="engine-batch",
    ),
    "contradiction": Case(
        resized("[10]", "[-1, 10]"),
        "unable to autofill for 'contradiction', model tensor configurations are contradicting "
        "each other in terms of whether batching is supported",
    ),
    "beyond": Case(
        'backend: "tensorrt" input [{ name: "image" data_type: TYPE_FP32 dims: [65, 1, 8, 8] }] '
        'output [{ name: "logits" data_type: TYPE_FP32 dims: [65, 10] }]',
        "model configuration specified invalid shape for input 'image' for model beyond. Error "
        "details: model expected the shape of dimension 0 to be between 1 and 64 but received 65",
        rule="engine-profile",
    ),
    "type_in": Case(
        resized("FP32 dims: [1,", "FP16 dims: [1,"),
        "unexpected datatype TYPE_FP32 for inference input 'image', expecting TYPE_FP16 for type_",
        rule="tensor-data-type",
    ),
    "type_out": Case(
        resized("FP32 dims: [10]", "INT64 dims: [10]"),
        "unexpected datatype TYPE_FP32 for inference output 'logits', expecting TYPE_INT64 for ",
    ),
    "text": Case(
        resized("FP32 dims: [10]", "STRING dims: [10]"),
        "unsupported datatype TYPE_STRING for output 'logits' for model 'text'",
    ),
    "input_name": Case(
        resized("image", "pixels"), "unexpected inference input 'pixels', allowed inputs are: image"
    ),
    "output_name": Case(
        resized("logits", "scores"), "unexpected inference output 'scores', allowed outputs are: "
    ),
    "two_inputs": Case(
        f'{FULL}input [{{ name: "more" data_type: TYPE_FP32 dims: [1] }}]',
        "unexpected inference input 'more', allowed inputs are: image",
    ),
    "dims": Case(
        resized("1, 8, 8", "3, 8, 8"),
        f"model 'dims', tensor 'image': {SHAPE} 4 dimensions (an initial batch dimension because "
        "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
        "[-1,3,8,8])",
        rule="tensor-dims",
    ),
    "one_output": Case(
        FULL,
        "expected configuration for output 'more' for one_output",
        rule="engine-tensor",
        outputs=2,
    ),
    "on_gpu": Case(f"{FULL}instance_group [{{ kind: KIND_GPU }}]", "KIND_GPU"),
    # plans and records that are no good
    "cut": Case(
        FULL,
        f"{BROKEN}IRuntime::deserializeCudaEngine: Error Code 1: Serialization",
        cut,
        rule="engine-not-whole",
    ),
    "cut_bare": Case('backend: "tensorrt"', "plan.header.size == blobSize failed", cut),
    "older": Case(
        FULL,
        f"{BROKEN}The engine has been created with TensorRT-RTX version 1.6.0, but the current ",
        of_another_version,
        rule="engine-version",
    ),
    "no_plan": Case(FULL, "unable to find '", lambda plan: plan.unlink()),
    "no_record": Case(
        FULL,
        f"{NO_GPU}model.plan is an engine of TensorRT for RTX. Nothing more is known of it here, "
        "since model.plan.json is not beside it. An engine runs on",
        without_record,
    ),
    "other_record": Case(
        FULL,
        "unable to load model 'other_record', model.plan.json belongs to another plan: it "
        "describes one of {bytes} bytes with the hash 000000000000, and model.plan has {bytes} "
        "bytes and the hash {sha256}. Take the JSON file away, or build the engine again",
        record(sha256=64 * "0"),
        rule="engine-record",
    ),
    "bad_record": Case(
        FULL,
        "model.plan.json is not the record of an engine: it names an unknown product, 'tensorflow'",
        record(product="tensorflow"),
        rule="engine-record",
    ),
    "tensorrt": Case(
        FULL,
        f"{NO_GPU}model.plan is an engine of TensorRT. Nothing more",
        text(b"ftrt" + bytes(99)),
    ),
    "known_tensorrt": Case(
        FULL, f"{NO_GPU}The engine fits this config. TensorRT {{version}} built it", of_tensorrt
    ),
    "words": Case(
        FULL,
        f"{NO_GPU}And model.plan is no engine: it begins with b'buil'. An engine runs on",
        text(b"built on a GPU machine"),
    ),
    "empty": Case(FULL, "And model.plan is no engine: it begins with b''", text(b"")),
    # TensorRT-LLM
    "llm": Case(f"{FULL.replace('tensorrt', 'tensorrtllm')}", "TensorRT-LLM runs on NVIDIA GPUs"),
    "bare_llm": Case('backend: "tensorrtllm"', "TensorRT-LLM runs on NVIDIA GPUs only"),
}


@pytest.fixture(scope="module")
def known(server: Triton, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the messages name of the engine; the models are in the server's repository."""
    home, profile = tmp_path_factory.mktemp("engine"), engines.profile_of({"image": (1, 8, 8)})
    network = onnx.load(zoo.checkpoint("digits_onnx"))
    records = []
    for outputs in (1, 2):
        onnx.save(network, home / f"{outputs}.onnx")
        plan = home / str(outputs) / "model.plan"
        records.append(engines.build(home / f"{outputs}.onnx", plan, profile, by="rtx").record)
        network.graph.node.append(onnx.helper.make_node("Relu", ["logits"], ["more"]))
        network.graph.output.add().CopyFrom(network.graph.output[0])
        network.graph.output[1].name = "more"
    built = records[0]
    assert built is not None
    for name, case in CASES.items():
        plan = home / str(case.outputs) / "model.plan"
        folder = server.repository / name / "1"
        folder.mkdir(parents=True)
        folder.with_name("config.pbtxt").write_text(case.config)
        for file in plan.parent.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        case.change(folder / plan.name)
    activations, weights = built.activation_bytes or 0, built.weights_bytes or 0
    memory = f"{activations / 1e6:.2f} MB of activations and {weights / 1e6:.2f} MB of weights"
    return {
        "version": built.version,
        "memory": memory,
        "bytes": str(built.bytes),
        "sha256": built.sha256[:12],
    }


@pytest.fixture(scope="module")
def refusals(server: Triton, known: dict[str, str]) -> dict[str, str]:
    """What the server said of each model."""
    return load_all(server, CASES)


@pytest.mark.parametrize("model", CASES)
def test_nothing_loads_and_the_message_says_what_is_known(
    refusals: dict[str, str], known: dict[str, str], model: str
) -> None:
    assert CASES[model].message.format(model=model, **known) in refusals[model]
    assert "Traceback" not in refusals[model]


@pytest.mark.parametrize("model", [name for name, case in CASES.items() if case.rule])
def test_the_message_is_explained(server: Triton, refusals: dict[str, str], model: str) -> None:
    error = load_error(model, refusals[model], server.repository / model)
    assert error.rule == CASES[model].rule, str(error)


def test_the_server_lives_and_the_models_of_others_answer(
    server: Triton, refusals: dict[str, str], write_model: Callable[..., Path]
) -> None:
    code = (
        "import triton_python_backend_utils as pb_utils\n"
        "class TritonPythonModel:\n"
        "    def execute(self, requests):\n"
        "        return [pb_utils.InferenceResponse([pb_utils.Tensor('y', "
        "pb_utils.get_input_tensor_by_name(r, 'x').as_numpy())]) for r in requests]\n"
    )
    tensors = (
        'input [{ name: "x" data_type: TYPE_FP32 dims: [1] }] '
        'output [{ name: "y" data_type: TYPE_FP32 dims: [1] }]'
    )
    write_model("same", f'backend: "python" {tensors}', {"1/model.py": code})
    server.load("same")
    ready = [model["name"] for model in server.index() if model.get("state") == "READY"]
    assert ready == ["same"]
