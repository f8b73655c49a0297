"""Without a GPU the TensorRT stand-ins load nothing, and say why and what to do."""

from __future__ import annotations

import pytest
from loading import load_all

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

IO = (
    'input [{ name: "x" data_type: TYPE_FP32 dims: [4] }] '
    'output [{ name: "y" data_type: TYPE_FP32 dims: [3] }] max_batch_size: 8 '
)
NO_GPU = "TensorRT backend supports only GPU device. An engine runs on an NVIDIA GPU only"
CASES = {
    "platform": (f'platform: "tensorrt_plan" {IO}', NO_GPU),
    "backend": (f'backend: "tensorrt" {IO}', NO_GPU),
    "bare": ('backend: "tensorrt"', NO_GPU),
    "on_gpu": (f'backend: "tensorrt" {IO} instance_group [{{ kind: KIND_GPU }}]', "KIND_GPU"),
    "llm": (f'backend: "tensorrtllm" {IO}', "TensorRT-LLM runs on NVIDIA GPUs only"),
    "bare_llm": ('backend: "tensorrtllm"', "TensorRT-LLM runs on NVIDIA GPUs only"),
}


@pytest.fixture(scope="module")
def refusals(server: Triton) -> dict[str, str]:
    """What the server said of each model."""
    for name, (config, _) in CASES.items():
        (server.repository / name / "1").mkdir(parents=True)
        (server.repository / name / "1" / "model.plan").write_bytes(b"an engine")
        (server.repository / name / "config.pbtxt").write_text(config)
    return load_all(server, CASES)


@pytest.mark.parametrize("model", CASES)
def test_nothing_loads_and_the_message_says_what_is_needed(
    refusals: dict[str, str], model: str
) -> None:
    assert CASES[model][1] in refusals[model]
    if CASES[model][1] is NO_GPU:
        assert f"unable to load model '{model}', " in refusals[model]
        assert "onnxruntime or openvino" in refusals[model]
