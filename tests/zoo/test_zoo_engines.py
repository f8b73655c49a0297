"""TensorRT plans: the ways to build them, and the names of TensorRT's API.

The int8 network is run by ONNX Runtime. The names that the code takes from TensorRT's Python API
are looked up in NVIDIA's own bindings, 10.4 (of October 2024, as Triton's 24.10) and 11.4. These
are imported with empty stand-ins for TensorRT's libraries, which need a GPU: so every class exists,
but nothing can be built. Whether TensorRT builds the plans is not verified on a GPU. TensorRT for
RTX is installed: test_zoo_engines_rtx.py builds with it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.wheels import unpack
from workbook import zoo
from workbook.common import paths
from workbook.zoo import data, engines, recipe, repository
from workbook.zoo.builder import BuildError

IMAGE = engines.profile_of({"image": (1, 8, 8)})
#: The symbols of TensorRT's libraries that the bindings need when they are imported.
STUBS = "\n".join(
    f"void *{name}(void) {{ return 0; }}"
    for name in (
        "createInferBuilder_INTERNAL",
        "createInferRefitter_INTERNAL",
        "createInferRuntime_INTERNAL",
        "createNvOnnxParserRefitter_INTERNAL",
        "createNvOnnxParser_INTERNAL",
        "getBuilderPluginRegistry",
        "getNvOnnxParserVersion",
        "getPluginRegistry",
        "initLibNvInferPlugins",
    )
)
#: Version → the hashes of its wheels for Python 3.11 and 3.12.
BINDINGS = {
    "10.4.0": (
        "451492cebb48b2d088db20a3fd524df64e87bb911428fd1eb5979698d854b6f1",
        "133bb774f38ca43420bcc5d40f8fba9acc24c7ed5a985f79f57bf720151acf62",
    ),
    "11.4.0.106": (
        "e2ab48f316bbff6a7a44a30e94a9ceb0d2cf6645ff39feadecfa68d7cb7a94bf",
        "6490518c9e072d57e0a815ad80b103596933efe776ffa61766ef31c25dbd8b39",
    ),
}
#: Source file → where its use of TensorRT begins, and the TensorRT class of each name there.
USES = {
    "workbook/zoo/engine_builder.py": (
        "def main",
        {
            "trt": "",
            "builder": "Builder.",
            "network": "INetworkDefinition.",
            "parser": "OnnxParser.",
            "profile": "IOptimizationProfile.",
            "config": "IBuilderConfig.",
        },
    ),
    "workbook/backends/tensorrt/engine.py": (
        "def from_engine",
        {"trt": "", "engine": "ICudaEngine.", "runtime": "Runtime."},
    ),
    "workbook/backends/tensorrt/model.py": (
        "class TritonPythonModel",
        {
            "self._engine": "ICudaEngine.",
            "context": "IExecutionContext.",
            "settings": "IRuntimeConfig.",
            "self._cache": "IRuntimeCache.",
        },
    ),
}
#: Names that are used with TensorRT for RTX only.
RTX_ONLY = {
    *("ComputeCapability", "EngineValidity.INVALID"),
    *("IBuilderConfig.num_compute_capabilities", "IBuilderConfig.set_compute_capability"),
    *("ICudaEngine.create_runtime_config", "Runtime.get_engine_validity"),
    *("IRuntimeConfig.create_runtime_cache", "IRuntimeConfig.set_runtime_cache"),
    *("IRuntimeCache.deserialize", "IRuntimeCache.serialize"),
}
#: Method → its parameters, as the bindings' documentation writes them, types left out.
SIGNATURES = {
    "Builder.create_network": ["flags"],
    "Builder.build_serialized_network": ["network", "config"],
    "OnnxParser.parse_from_file": ["model"],
    "OnnxParser.get_error": ["index"],
    "IOptimizationProfile.set_shape": ["input", "min", "opt", "max"],
    "IBuilderConfig.set_memory_pool_limit": ["pool", "pool_size"],
    "IBuilderConfig.add_optimization_profile": ["profile"],
}
#: trtexec's options that we use. Documentation and published command lines of TensorRT 10 and 11
#: show them. (NVIDIA's page on the change from 10 to 11 lists --fp16, --int8 and --calib as gone.)
DOCUMENTED = {
    "--onnx",
    "--saveEngine",
    "--minShapes",
    "--optShapes",
    "--maxShapes",
    "--memPoolSize",
    "--stronglyTyped",
    "--skipInference",
}


def names_in_our_code() -> set[str]:
    """The names that engine_builder.py and the stand-in use from TensorRT, as `Class.attribute`."""
    found = set()
    for file, (start, classes) in USES.items():
        code = (paths.root() / file).read_text("utf-8").split(start)[1]
        for name, owner in classes.items():
            places = rf"(?<![\w.\"]){re.escape(name)}\.([A-Za-z_]\w*(?:\.[A-Z]\w*)*)"
            found |= {owner + attribute for attribute in re.findall(places, code)}
    return found


@dataclasses.dataclass(frozen=True)
class Bindings:
    """NVIDIA's Python bindings: the module's name, its version, and the folder where it lies."""

    module: str
    version: str
    folder: Path


@pytest.fixture(scope="module", params=[*BINDINGS, "rtx"])
def bindings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bindings:
    """The bindings of one version, with empty libraries for them; or TensorRT for RTX."""
    version, home = request.param, tmp_path_factory.mktemp("tensorrt")
    if version == "rtx":
        return Bindings("tensorrt_rtx", version, home)
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler (Debian, Ubuntu: sudo apt install gcc)")
    unpack(f"tensorrt-cu12-bindings=={version}", BINDINGS[version], home)
    for library in ("nvinfer", "nvinfer_plugin", "nvonnxparser"):
        name = f"lib{library}.so.{version.partition('.')[0]}"
        command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", name, "-xc", "-"]
        subprocess.run(command, cwd=home, input=STUBS, text=True, check=True)
    return Bindings("tensorrt_bindings", version, home)


def ask(bindings: Bindings, code: str) -> object:
    """Run code in which `trt` is the bindings; it prints its answer as JSON."""
    folder = str(bindings.folder)
    done = subprocess.run(
        [sys.executable, "-c", f"import json, {bindings.module} as trt\n{code}"],
        env={**os.environ, "PYTHONPATH": folder, "LD_LIBRARY_PATH": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.server
def test_every_name_that_we_use_is_in_tensorrts_api(bindings: Bindings) -> None:
    found = names_in_our_code()
    assert {"Builder.build_serialized_network", "IExecutionContext.execute_async_v3"} <= found
    assert "NetworkDefinitionCreationFlag.STRONGLY_TYPED" in found
    assert found >= RTX_ONLY
    names = sorted(found if bindings.version == "rtx" else found - RTX_ONLY)
    code = f"""
import operator
lost = []
for name in {names!r}:
    try:
        operator.attrgetter(name)(trt)
    except AttributeError:
        lost.append(name)
print(json.dumps(lost))
"""
    assert ask(bindings, code) == []


@pytest.mark.server
def test_methods_take_what_we_give_them(bindings: Bindings) -> None:
    code = f"""
import operator
print(json.dumps({{n: operator.attrgetter(n)(trt).__doc__ for n in {list(SIGNATURES)!r}}}))
"""
    documented = ask(bindings, code)
    assert isinstance(documented, dict)
    for method, wanted in SIGNATURES.items():
        signature = re.search(r"\(self: [\w.]+(?:, )?(.*?)\) ->", documented[method])
        assert signature, method
        assert re.findall(r"(\w+): ", signature[1]) == wanted, method


@pytest.mark.server
def test_the_network_flag_is_the_only_way_to_low_precision(bindings: Bindings) -> None:
    """TensorRT 11 has lost the flags; all versions know the one that we set."""
    flags = ask(bindings, "print(json.dumps([trt.__version__, *trt.BuilderFlag.__members__]))")
    assert isinstance(flags, list)
    assert ("FP16" in flags) == flags[0].startswith("10.")


def test_trtexecs_command_line() -> None:
    profile = engines.profile_of({"image": (1, 8, 8)}, (1, 4, 16))
    command = engines.trtexec_command(Path("in.onnx"), Path("out.plan"), profile)
    assert command[0].endswith("trtexec")
    assert command[1:] == [
        "--onnx=in.onnx",
        "--saveEngine=out.plan",
        "--minShapes=image:1x1x8x8",
        "--optShapes=image:4x1x8x8",
        "--maxShapes=image:16x1x8x8",
        "--memPoolSize=workspace:1024",
        "--stronglyTyped",
        "--skipInference",
    ]
    assert {word.partition("=")[0] for word in command[1:]} == DOCUMENTED


#: Replaces trtexec: it records its command line, and writes a plan or fails as trtexec does.
TRTEXEC = """#!/bin/sh
printf '%s\\n' "$@" > "$(dirname "$0")/asked"
case "$1" in *bad*) echo '[11/23/2026-01:00:00] [E] Error[9]: no such operator'; exit 1;; esac
echo plan > "${2#--saveEngine=}"
"""


@pytest.fixture
def trtexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "bin" / "trtexec"
    tool.parent.mkdir()
    tool.write_text(TRTEXEC)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(engines, "gpu", lambda: "NVIDIA A10, 8.6")
    return tool


def test_trtexec_is_run_and_its_error_is_told(trtexec: Path, tmp_path: Path) -> None:
    plan = tmp_path / "model.plan"
    assert engines.tools()[0] == "trtexec"
    assert engines.build(tmp_path / "in.onnx", plan, IMAGE).record is None
    assert plan.read_text() == "plan\n"
    arguments = (trtexec.parent / "asked").read_text().splitlines()
    wanted = engines.trtexec_command(tmp_path / "in.onnx", plan, IMAGE)[1:]
    assert [a for a in arguments if "saveEngine" not in a] == [
        a for a in wanted if "saveEngine" not in a
    ]
    with pytest.raises(engines.EngineError, match=r"built no plan: Error\[9\]: no such operator$"):
        engines.build(tmp_path / "bad.onnx", tmp_path / "other.plan", IMAGE)


def test_a_plans_key_changes_with_the_tensorrt_that_builds_it(trtexec: Path) -> None:
    plan = recipe.RECIPES["digits_plan_fp32"]
    before = plan.key(recipe.RECIPES)
    trtexec.write_text(TRTEXEC + "# a newer release\n")
    assert plan.key(recipe.RECIPES) != before


GPUS = [
    ("", ("rtx",), "runs on an NVIDIA GPU only, and none answers"),
    ("NVIDIA RTX 4090, 8.9", ("rtx",), ""),
    ("NVIDIA H100, 9.0", ("rtx",), "no engines for this GPU: NVIDIA H100, 9.0"),
    ("NVIDIA H100, 9.0\nNVIDIA A10, 8.6", ("rtx",), ""),
]


@pytest.mark.parametrize(("gpu", "tools", "reason"), GPUS, ids=lambda value: str(value)[:12])
def test_what_builds_engines_and_what_runs_them(
    monkeypatch: pytest.MonkeyPatch, gpu: str, tools: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setattr(engines, "gpu", lambda: gpu)
    if importlib.util.find_spec("tensorrt") is not None:
        pytest.skip("this machine has TensorRT: it is preferred")
    assert engines.tools() == tools
    assert engines.lacking() == ""
    assert engines.cannot_run() == reason or reason in engines.cannot_run() != ""


@pytest.mark.server
def test_without_tensorrt_one_sentence_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "tools", tuple)
    reason = engines.lacking()
    assert "tensorrt_rtx" in reason
    assert "\n" not in reason
    assert engines.cannot_run() == reason
    with pytest.raises(BuildError) as refused:
        repository.build(tmp_path, ["digits_tensorrt"])
    assert reason in str(refused.value)
    assert "pip install tensorrt-rtx-cu12" in str(refused.value)
    assert "pip install -e '.[gpu]'" in str(refused.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(engines.EngineError, match="tensorrt_rtx"):
        engines.build(tmp_path / "in.onnx", tmp_path / "out.plan", IMAGE)


@pytest.mark.server
def test_engines_that_cannot_run_here_are_left_out() -> None:
    if not engines.cannot_run():
        pytest.skip("this machine runs engines")
    done = subprocess.run(
        [sys.executable, "-m", "workbook.cli", "models"], capture_output=True, text=True, check=True
    )
    assert f"Left out: digits_tensorrt. {engines.cannot_run()} `workbook models" in done.stdout
    folder = repository.paths.repository() / "digits_tensorrt"
    assert repository.left_out(folder)
    if not (folder / "1").exists():
        assert repository.lacking(folder) == "workbook models digits_tensorrt"


@pytest.mark.server
def test_a_missing_tool_says_so(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorrt") is not None:
        pytest.skip("this machine has TensorRT")
    with pytest.raises(engines.EngineError, match="the package tensorrt is not there"):
        engines.build(tmp_path / "in.onnx", tmp_path / "out.plan", IMAGE, by="python")
    assert not list(tmp_path.iterdir())


@pytest.mark.server
def test_the_int8_network_answers_as_the_fp32_one() -> None:
    images, classes = data.digits().x_test, data.digits().y_test
    logits = {}
    for name in ("digits_onnx", "digits_onnx_int8"):
        session = onnxruntime.InferenceSession(
            zoo.checkpoint(name), providers=["CPUExecutionProvider"]
        )
        logits[name] = session.run(None, {"image": images})[0]
    right = {name: (answer.argmax(1) == classes).mean() for name, answer in logits.items()}
    # Of 360 images, int8 may change the verdict on three.
    assert abs(right["digits_onnx_int8"] - right["digits_onnx"]) <= 3 / 360
    same = logits["digits_onnx_int8"].argmax(1) == logits["digits_onnx"].argmax(1)
    assert same.mean() >= 1 - 3 / 360
    assert not np.array_equal(*logits.values())


@pytest.mark.server
def test_the_int8_network_is_as_tensorrt_wants_it() -> None:
    graph = onnx.load(zoo.checkpoint("digits_onnx_int8")).graph
    count = Counter(node.op_type for node in graph.node)
    assert count["QuantizeLinear"] == 3  # the inputs of two convolutions and one matrix product
    assert count["DequantizeLinear"] == 6  # the same, and their weights
    values = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
    zeros = [array for name, array in values.items() if name.endswith("zero_point")]
    assert len(zeros) == 6
    assert all(array.dtype == np.int8 and not array.any() for array in zeros)
    assert all(array.dtype == np.float32 for name, array in values.items() if "bias" in name)
    assert [output.name for output in graph.output] == ["logits"]
